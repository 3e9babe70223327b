"""A directory that nobody else can write, nor anything that leads to it, as handlers need one: below /tmp is none."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_BUILD = Path(__file__).resolve().parents[1] / "build"


@contextmanager
def guarded_directory() -> Iterator[Path]:
    """A new directory below the checkout's ``build``; it is gone at the end."""
    _BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_BUILD, prefix="guarded-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)
