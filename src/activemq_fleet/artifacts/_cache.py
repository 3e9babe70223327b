"""Keep downloaded files in a cache. Each file is complete, and is downloaded once."""

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
"""A function that is called with one line about the progress of a download."""

_logger = logging.getLogger("activemq_fleet.artifacts")


def log_software_fetch_progress(line: str) -> None:
    """Log a line about the progress of fetching software, such as a download.

    The logger is ``activemq_fleet.artifacts``.
    """
    _logger.info("%s", line)


def cache_directory() -> Path:
    """Return the cache directory for downloads.

    It is ``$ACTIVEMQ_FLEET_CACHE``, else one in the user's cache directory.
    """
    configured_directory = os.environ.get(CACHE_VARIABLE)
    return (
        Path(configured_directory).expanduser().absolute()
        if configured_directory
        else user_cache_path("activemq-fleet")
    )


def ensure_cached(
    name: str, make: Callable[[Path], None], *, progress: Progress, replace_existing: bool = False
) -> Path:
    """Create a file or directory in the download cache by ``make(path)`` unless it exists, and return its path.

    ``make`` writes to a temporary path that is then renamed, under a lock for ``name``; with ``replace_existing``, an
    existing entry is replaced. Raises ArtifactError when the cache cannot be written.
    """
    target = cache_directory() / name
    if target.exists() and not replace_existing:
        return target
    try:
        with _entry_lock(target, progress):
            if replace_existing or not target.exists():
                _create_and_replace_entry(target, make)
    except OSError as error:
        unwritable_path = error.filename or target
        raise ArtifactError(
            f"the cache of activemq-fleet cannot be written ({unwritable_path}: {error.strerror or error}): allow this "
            f"account to write to it, or set the environment variable {CACHE_VARIABLE} to another directory"
        ) from None
    return target


def _create_and_replace_entry(target: Path, make: Callable[[Path], None]) -> None:
    temporary = target.with_name(f".{target.name}.part")
    _remove_file_or_directory(temporary)  # left by a process that was killed
    try:
        make(temporary)
        if target.is_dir():
            shutil.rmtree(target)
        temporary.replace(target)
    finally:
        _remove_file_or_directory(temporary)


@contextmanager
def _entry_lock(target: Path, progress: Progress) -> Iterator[None]:
    from filelock import FileLock, Timeout  # Only downloads require this import, which takes 6 ms.

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


def _remove_file_or_directory(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
