"""The files that the playbook ``collect`` did not bring completely from a host, as host.json lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from activemq_fleet.node.collect.evidence_archive import NEWEST_ONLY
from activemq_fleet.node.printable import escape_unprintable

_MAXIMUM_FILES = 1000
_MAXIMUM_TEXT_LENGTH = 1000


@dataclass(frozen=True, slots=True)
class MissingOrIncompleteFile:
    """A file that is missing or incomplete in the collected files of a host.

    ``path`` is its path below the host's directory, or a path on the host. ``why`` is the reason.
    """

    path: str
    why: str

    @property
    def lacks_only_beginning(self) -> bool:
        """Whether ``collect`` copied the newest lines of the file, so that only its beginning is missing."""
        return self.why == NEWEST_ONLY


@dataclass(frozen=True, slots=True)
class HostLogFiles:
    """The log files of a host: those that the audit read, and those that are empty, unreadable or were not collected.

    ``names`` are their paths below the host's directory, including those of empty files and of ``omitted`` ones.
    ``is_listed``: whether ``collect`` listed the directory of the logs, so that other logs did not exist on the host.
    ``unusable``: empty gzip files.
    """

    names: tuple[str, ...] = ()
    omitted: Mapping[str, MissingOrIncompleteFile] = field(default_factory=dict)
    unusable: tuple[str, ...] = ()
    is_listed: bool = False


def parse_omitted_files(rows: Any) -> tuple[MissingOrIncompleteFile, ...]:
    """Return the files that ``collect`` omitted, from ``left_out`` in host.json; malformed entries are ignored."""
    if not isinstance(rows, list):
        return ()
    return tuple(_valid_omitted_files(rows[:_MAXIMUM_FILES]))


def _valid_omitted_files(rows: Iterable[Any]) -> Iterable[MissingOrIncompleteFile]:
    for row in rows:
        path, why = (row.get("path"), row.get("why")) if isinstance(row, dict) else (None, None)
        if isinstance(path, str) and isinstance(why, str) and path:
            yield MissingOrIncompleteFile(*(escape_unprintable(text[:_MAXIMUM_TEXT_LENGTH]) for text in (path, why)))
