"""Find the files of brokers that ``check`` is to read: every activemq.xml below directories."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NoReturn

from activemq_fleet import InputError

_XML_NAME = re.compile(r".+\.xml(\.(j2|jinja2?|erb|epp|tpl|tmpl|template|in))?")
# These files are checked even without <broker>, because an empty or truncated file prevents the broker's start.
_ACTIVEMQ_XML_NAME = re.compile(r"activemq\.xml(\.(j2|jinja2?|erb|epp|tpl|tmpl|template|in))?")
_BROKER_MARKERS = (b"activemq.apache.org/schema/core", b"activemq.org/config", b"activemq.org/schema", b"<broker")
_SKIPPED_DIRECTORIES = frozenset({".git", ".svn", "node_modules", ".venv"})
"""The names of directories that are not searched."""
_MAX_BYTES = 256 << 20
_MAX_FILES, _MARKER_READ_SIZE = 2_000, 1 << 16


def find_activemq_xml_and_broker_files(paths: Iterable[Path]) -> list[Path]:
    """Find the files of brokers below directories: every activemq.xml and other file with a ``<broker>``.

    Files among ``paths`` are also returned.

    Raises InputError for a directory without such a file, with more than 2,000, or with more than 256 MiB of them.
    """
    files: dict[Path, None] = {}
    for path in paths:
        # os.path returns False for a name that is too long; pathlib raises an error.
        is_directory = os.path.isdir(path)
        below = list(islice(_broker_files_below(path), _MAX_FILES + 1)) if is_directory else [path]
        if not below:
            raise InputError(
                f"{path}: the directory has no activemq.xml, and no other file with a <broker> of ActiveMQ: name "
                "another directory, or a file"
            )
        if len(below) > _MAX_FILES:
            raise InputError(
                f"{path}: the directory has more than {_MAX_FILES} files with a <broker>: name a subdirectory"
            )
        if is_directory and sum(map(_file_size, below)) > _MAX_BYTES:
            raise InputError(
                f"{path}: the directory has more than {_MAX_BYTES >> 20} MiB of files with a <broker>: name a "
                "subdirectory"
            )
        files |= dict.fromkeys(below)
    return list(files)


def _broker_files_below(directory: Path) -> Iterator[Path]:
    for parent, names in walk_directories_searched_by_check(directory, on_error=_refuse_unreadable_directory):
        for name in sorted(filter(_XML_NAME.fullmatch, names)):
            path = Path(parent, name)
            # A broken link and a FIFO with this name are reported as unreadable.
            if has_activemq_xml_name(path) or (path.is_file() and _contains_broker(path)):
                yield path


def walk_directories_searched_by_check(
    top: Path, on_error: Callable[[OSError], None] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Yield the directories below ``top`` that ``check`` searches, sorted, each with the names of its files."""
    for parent, directories, names in os.walk(top, onerror=on_error):
        directories[:] = sorted(name for name in directories if name not in _SKIPPED_DIRECTORIES)
        yield parent, names


def _file_size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0  # A later read reports the reason.


def has_activemq_xml_name(path: Path) -> bool:
    """Return whether a file has the name activemq.xml.

    The name may have the suffix of a template language.
    """
    return _ACTIVEMQ_XML_NAME.fullmatch(path.name) is not None


def _contains_broker(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            # In UTF-16, every other byte of this text is zero.
            beginning = file.read(_MARKER_READ_SIZE).replace(b"\0", b"")
    except OSError:
        return True  # The check reports the unreadable file. A skipped file would count as a clean result.
    return any(marker in beginning for marker in _BROKER_MARKERS)


def _refuse_unreadable_directory(error: OSError) -> NoReturn:
    """Raise InputError for a directory that cannot be listed; passing over it would hide its files from the check."""
    raise InputError(
        f"{error.filename}: the directory cannot be listed ({error.strerror}): allow this account to read it, or name "
        "files in place of the directory"
    )
