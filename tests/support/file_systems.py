"""File systems in files, mounted for a test."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE_SYSTEMS = {
    "ext4": (["mkfs.ext4", "-q"], "commit=600"),
    "xfs": (["mkfs.xfs", "-q"], "nouuid"),
}


@contextmanager
def mounted_file_system(image: Path, directory: Path, options: str) -> Iterator[Path]:
    """Mount the file system of an image on a directory inside the block."""
    directory.mkdir(exist_ok=True)
    subprocess.run(["mount", "-o", f"loop,{options}", str(image), str(directory)], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)
