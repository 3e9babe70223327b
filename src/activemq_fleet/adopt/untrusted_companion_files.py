"""Read the files next to an activemq.xml, which may be untrusted.

Every file below a directory that the operator names is opened only as a regular file with a single name, and never
through a link. A link, or a second name of a file, could copy any file of the operator into the inventory. A file that
the operator names directly is opened without these checks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from activemq_fleet.errors import InputError
from activemq_fleet.given_files import read_beginning_of_file_or_pipe
from activemq_fleet.node.files.untrusted_paths import Directory, UntrustedPathError, open_directory

_MAXIMUM_FILE_BYTES = 1 << 20
_MAXIMUM_TOTAL_BYTES = 16 << 20
_MAXIMUM_FILES = 100
_PATH_COMPONENT = re.compile(r"[^/\0]+")


@dataclass
class CompanionFiles:
    """The companion files of an existing activemq.xml, such as jetty.xml and the environment file.

    They are read below a directory that the operator named. ``read`` are their paths; ``refused`` are sentences with
    the reason why another file was not read.
    """

    root: Path
    read: list[Path] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    _total_bytes: int = 0

    def read_text(self, path: Path) -> str | None:
        """Read a companion file of an activemq.xml, and return its text; None if the file is missing or cannot be read.

        A file outside of ``root`` is not read.
        """
        parts = _parts_below(self.root, path)
        if parts is None:
            return None
        if len(self.read) >= _MAXIMUM_FILES or self._total_bytes >= _MAXIMUM_TOTAL_BYTES:
            self._record_refusal(
                f"adopt did not read {path}: of the files next to an activemq.xml, it reads at most {_MAXIMUM_FILES}, "
                f"with {_MAXIMUM_TOTAL_BYTES >> 20} MiB in total. Remove the files that the broker does not use "
                "from this directory, and adopt again"
            )
            return None
        try:
            content = _read_file_below(self.root, parts, _MAXIMUM_FILE_BYTES + 1)
        except FileNotFoundError:
            return None
        except UntrustedPathError as error:
            self._record_refusal(_untrusted_message(error))
            return None
        except OSError as error:
            self._record_refusal(f"adopt did not read {path} ({error.strerror}): make it readable, and adopt again")
            return None
        if len(content) > _MAXIMUM_FILE_BYTES:
            self._record_refusal(
                f"adopt did not read {path}, because it has more than {_MAXIMUM_FILE_BYTES >> 20} MiB: if the broker "
                "uses this file, make it smaller, and adopt again. Otherwise, no action is required"
            )
            return None
        self._total_bytes += len(content)
        self.read.append(path)
        return content.decode(errors="replace")

    def sorted_entry_names(self, directory: Path) -> list[str]:
        """Return the sorted names of the entries in a directory.

        The list is empty where it does not exist or is a link.
        """
        parts = _parts_below(self.root, directory)
        if parts is None:
            return []
        try:
            with _open_below(self.root, parts) as opened_directory:
                return opened_directory.entry_names()
        except UntrustedPathError as error:
            self._record_refusal(_untrusted_message(error))
        except OSError:
            pass
        return []

    def _record_refusal(self, reason: str) -> None:
        if reason not in self.refused:
            self.refused.append(reason)


def read_bytes_within_size_limit(path: Path, root: Path | None, size_limit: int, link_remedy: str) -> bytes:
    """Read an activemq.xml or agent.conf, and return its bytes; raise InputError if the file is too large.

    InputError is raised for a file with more than ``size_limit`` bytes, or one that cannot be read. ``root`` is the
    named directory below which it was found; None for a file that the operator named. ``link_remedy`` is a sentence on
    what the operator can do where the file is a link.
    """
    try:
        if root is None:
            content = read_beginning_of_file_or_pipe(path, size_limit + 1)
        else:
            content = _read_file_below(root, path.relative_to(root).parts, size_limit + 1)
    except UntrustedPathError as error:
        raise InputError(f"{error}. {link_remedy}") from None
    except OSError as error:
        raise InputError(
            f"{path}: the file cannot be read ({error.strerror or error}): name a regular file that this account can "
            "read"
        ) from None
    if len(content) > size_limit:
        raise InputError(
            f"{path}: the file has more than {size_limit >> 20} MiB, which is too large for {path.name}: correct the "
            "path, or make the file smaller"
        )
    return content


def find_files_by_name(root: Path, file_name: str) -> Iterator[Path]:
    """Yield the sorted paths of all files with a given name below a directory.

    Directories that are links are left out.
    """
    paths = []
    for directory, subdirectories, names in os.walk(root):
        subdirectories.sort()
        if file_name in names:
            paths.append(Path(directory, file_name))
    yield from sorted(paths)


def _read_file_below(root: Path, parts: Iterable[str], limit: int) -> bytes:
    """Return the first ``limit`` bytes of a file below a directory.

    It must be a regular file, and is opened without following links.

    Raises UntrustedPathError for a link, a file of another kind or with a second name, and OSError.
    """
    *directories, name = parts
    with _open_below(root, directories) as directory:
        return directory.read_file(name, limit, single_name=True)


def _untrusted_message(error: UntrustedPathError) -> str:
    return f"adopt did not read a file or directory next to activemq.xml: {error}. Then run adopt again"


def _open_below(root: Path, parts: Iterable[str]) -> Directory:
    # The operator specified the directory, so links in its path are the operator's choice.
    directory = open_directory(os.path.realpath(root))
    directory.path = str(root)
    for part in parts:
        with directory as parent:
            directory = parent.open_subdirectory(part)
    return directory


def _parts_below(root: Path, path: Path) -> tuple[str, ...] | None:
    """Return the components of a path below a directory, or None if the path leads out of the directory."""
    try:
        parts = PurePosixPath(path).relative_to(PurePosixPath(root)).parts
    except ValueError:
        return None
    if ".." in parts or not all(map(_PATH_COMPONENT.fullmatch, parts)):
        return None
    return parts
