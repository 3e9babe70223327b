"""Provide a separate file system for a store, in an image file, to simulate power cuts and full volumes.

While all writers are frozen, the image contains the data that survive a power cut: the kernel keeps unsynced data in
memory for minutes. Requires root.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_OPTIONS = "loop,commit=600"  # seconds until ext4 writes its journal automatically
_BALLAST = "ballast"
_LEFT = 64 << 10  # free bytes of a full volume


class StoreImage:
    """An image that is mounted on ``directory``."""

    def __init__(self, image: Path, directory: Path) -> None:
        self.directory = directory
        self._image = image
        self._copy = image.with_suffix(".copy")

    def sync(self) -> None:
        """Write all data to the image, as the kernel does automatically within minutes."""
        subprocess.run(["sync", "--file-system", str(self.directory)], check=True)

    def copy(self) -> None:
        """Copy the image: the copy contains the data that survive a power cut at this moment."""
        shutil.copyfile(self._image, self._copy)

    def restore(self) -> None:
        """Mount the saved image in place of the current one. No process may use the file system."""
        self.unmount()
        self._copy.replace(self._image)
        self.mount()

    def fill(self) -> None:
        """Fill the file system."""
        free = shutil.disk_usage(self.directory).free
        with (self.directory / _BALLAST).open("wb") as file:
            while free > _LEFT:
                file.write(bytes(min(1 << 20, free - _LEFT)))
                file.flush()
                free = shutil.disk_usage(self.directory).free

    def remove_ballast(self) -> None:
        """Remove the file that fills the file system."""
        (self.directory / _BALLAST).unlink()

    def mount(self) -> None:
        subprocess.run(["mount", "-o", _OPTIONS, str(self._image), str(self.directory)], check=True)

    def unmount(self) -> None:
        # Lazily: a helper process of a guard may read old generations of the unmounted image for a moment longer.
        subprocess.run(["umount", "--lazy", str(self.directory)], check=True)


@contextmanager
def store_image(image: Path, directory: Path, megabytes: int) -> Iterator[StoreImage]:
    """Create a file system of ``megabytes`` in the file ``image``, and mount it on ``directory`` until the end."""
    directory.mkdir(parents=True)
    with image.open("wb") as file:
        file.truncate(megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
    mounted_image = StoreImage(image, directory)
    mounted_image.mount()
    try:
        yield mounted_image
    finally:
        mounted_image.unmount()
