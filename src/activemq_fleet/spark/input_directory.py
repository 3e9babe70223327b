"""Refuse input directories with links that lead outside, FIFOs, sockets or devices.

A job reads with the rights of who starts it. A link in its input could lead to any file of theirs, and what that
holds into a dataset or a report; a FIFO would never end.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from activemq_fleet import InputError
from activemq_fleet.node.printable import escape_unprintable
from activemq_fleet.spark.paths import local_path

_SPECIAL_FILE_KINDS = (
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def check_no_outside_links(path: str) -> None:
    """Check that no symbolic link in an input directory leads outside of the directory.

    Raises InputError if one does. A FIFO, a socket or a device is an error, too. Links to what lies in the directory
    itself are followed, but not two links to directories one below the other, which could go round. Does nothing for a
    path of another file system. Raises InputError that names the first link that leads out of the directory, FIFO,
    socket or device; OSError for a directory that cannot be read.
    """
    directory = local_path(path)
    if directory is not None and directory.is_dir():
        real = os.path.realpath(directory)
        for entry, is_below_link in _walk_entries(str(directory), below_link=False):
            _check_entry(entry, real, is_below_link)


def _walk_entries(directory: str, *, below_link: bool) -> Iterator[tuple[os.DirEntry[str], bool]]:
    """Yield each entry below a directory, and whether a link to a directory was followed to reach it."""
    with os.scandir(directory) as entries:
        for entry in entries:
            yield entry, below_link
            if _is_directory(entry) and not (entry.is_symlink() and below_link):
                yield from _walk_entries(entry.path, below_link=below_link or entry.is_symlink())


def _check_entry(entry: os.DirEntry[str], root: str, is_below_link: bool) -> None:
    """Raise InputError for a link that leads outside, a link below a followed link, or a special file."""
    if entry.is_symlink():
        real = os.path.realpath(entry.path)
        if not _is_below(real, root):
            raise _outside_link_error(entry.path, real)
        if is_below_link and _is_directory(entry):
            name = escape_unprintable(entry.path)
            raise InputError(
                f"the symbolic link {name} is below another symbolic link to a directory, which is not supported. "
                f"Replace {name} with a copy of the directory to which it leads"
            )
    try:
        special = _special_file_kind(entry.stat().st_mode)
    except OSError:
        return  # The file was removed in the meantime, or is a dangling link.
    if special:
        raise InputError(f"the path {escape_unprintable(entry.path)} is {special}, not a regular file: remove it")


def _is_directory(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # The entry is a link to itself.
        return False


def _is_below(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root.rstrip('/')}/")


def _outside_link_error(path: str, real: str) -> InputError:
    return InputError(
        f"the symbolic link {escape_unprintable(path)} leads out of the input directory, to "
        f"{escape_unprintable(real)}: replace the link with the file itself, or remove it"
    )


def _special_file_kind(mode: int) -> str:
    """Return the name of the kind of a FIFO, socket or device by its mode; empty for other files."""
    return next((kind for is_kind, kind in _SPECIAL_FILE_KINDS if is_kind(mode)), "")
