"""Keep downloaded files in a cache: each is complete, and is fetched once."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_cache_path

from activemq_fleet.errors import ArtifactError

CACHE_VARIABLE = "ACTIVEMQ_FLEET_CACHE"
"""Environment variable that names the cache directory."""

Progress = Callable[[str], None]
"""Takes one line about what is being fetched."""

_logger = logging.getLogger("activemq_fleet.artifacts")


def log_progress(line: str) -> None:
    """Log a line about the progress of fetching software, such as a download.

    The logger is ``activemq_fleet.artifacts``.
    """
    _logger.info("%s", line)


def cache_directory() -> Path:
    """Return the cache directory for downloads.

    It is ``$ACTIVEMQ_FLEET_CACHE``, else one in the user's cache directory.
    """
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen).expanduser().absolute() if chosen else user_cache_path("activemq-fleet")


def ensure_cached(name: str, make: Callable[[Path], None], *, progress: Progress, again: bool = False) -> Path:
    """Create a file or directory in the download cache by ``make(path)`` unless it exists, and return its path.

    ``make`` writes to a temporary path that is then renamed, under a lock for ``name``; with ``again`` an existing
    entry is replaced. Raises ArtifactError when the cache cannot be written.
    """
    target = cache_directory() / name
    if target.exists() and not again:
        return target
    try:
        with _entry_lock(target, progress):
            if again or not target.exists():
                _replace_by_new_entry(target, make)
    except OSError as error:
        unwritable_path = error.filename or target
        raise ArtifactError(
            f"the cache of activemq-fleet cannot be written ({unwritable_path}: {error.strerror or error}): allow this "
            f"account to write to it, or set the environment variable {CACHE_VARIABLE} to another directory"
        ) from None
    return target


def _replace_by_new_entry(target: Path, make: Callable[[Path], None]) -> None:
    part = target.with_name(f".{target.name}.part")
    _remove(part)  # left by a process that was killed
    try:
        make(part)
        if target.is_dir():
            shutil.rmtree(target)
        part.replace(target)
    finally:
        _remove(part)


@contextmanager
def _entry_lock(target: Path, progress: Progress) -> Iterator[None]:
    from filelock import FileLock, Timeout  # only a download needs it, and it takes 6 ms to import

    target.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(target.with_name(f".{target.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress(f"waiting for another process that fetches {target.parent.name}/{target.name}")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
