# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The installed versions of a configuration below BASE: versions/ID/…, the link ``current``, and their manifests.

Invariant: ``current`` points to a complete version or does not exist. A name in ``versions`` that begins with a dot is
a remnant of an interrupted installation; nothing refers to it.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ..errors import NodeError
from ..files.disk import Owner
from ..files.untrusted_paths import UntrustedPathError, open_directory, open_file
from ..foreign_data import parse_untrusted_json
from ..host_paths import CONFIGURATION_MANIFEST
from ..printable import escape_unprintable
from .configuration_archive import ConfigurationFile

RECORD = ".fleet-install.json"
PRIVATE = frozenset({CONFIGURATION_MANIFEST, RECORD})
DIRECTORY_MODE = 0o750
_MAX_BYTES = 64 << 20
"""Maximum bytes of a manifest or record; a version's record contains its masked files."""


def tree_sha256(tree: Mapping[str, ConfigurationFile]) -> str:
    """Return the SHA-256 of a tree of configuration files.

    It covers paths, modes and contents.
    """
    lines = [f"{file.mode:04o} {file.sha256} {path}\n" for path, file in sorted(tree.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


class FileDriftKind(enum.Enum):
    """A kind of difference between an installed configuration file and the deployed one, such as ``CHANGED``.

    The value of a kind completes a sentence that begins with the path of the file.
    """

    ADDED = "was added by hand"
    CHANGED = "was changed by hand"
    REMOVED = "was removed by hand"
    OWNER_OR_MODE = "has a different owner or mode than deployed"


@dataclass(frozen=True)
class InstalledVersion:
    """An installed version of a host's configuration.

    It has the hashes and modes of its files. It also has its directory. ``tree`` is the id of the deployed tree;
    ``masked``: path -> planned text with secrets as ``@VARIABLE@``; ``hidden``: paths of files that are not to be
    shown; ``shipped``: paths of files that come from the release.
    """

    directory: str
    tree: str
    manifest: Mapping[str, str]
    modes: Mapping[str, int]
    masked: Mapping[str, str]
    hidden: frozenset[str] = frozenset()
    shipped: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return os.path.basename(self.directory)

    def read_installed_file(self, path: str) -> bytes | None:
        """Read the current content of a file in an installed version of a configuration.

        Returns None if it is not a regular file.
        """
        try:
            with os.fdopen(open_file(os.path.join(self.directory, path)), "rb") as file:
                return file.read()
        except (UntrustedPathError, OSError):
            return None

    def drift_kind_by_file(self, owner_of: Callable[[int], Owner]) -> dict[str, FileDriftKind]:
        """Return the files of an installed configuration that drifted: were changed, added or removed by hand.

        The dict maps the path to what differs (content, existence, owner, mode). Unprintable characters of an added
        path are escaped, because a result of a module must be UTF-8. ``owner_of`` returns the expected owner for a
        mode.
        """
        differences = {}
        for path, digest in self.manifest.items():
            content = self.read_installed_file(path)
            if content is None:
                differences[path] = FileDriftKind.REMOVED
            elif hashlib.sha256(content).hexdigest() != digest:
                differences[path] = FileDriftKind.CHANGED
            else:
                status = os.lstat(os.path.join(self.directory, path))
                if stat.S_IMODE(status.st_mode) != self.modes[path] or not owner_of(self.modes[path]).fits(status):
                    differences[path] = FileDriftKind.OWNER_OR_MODE
        for path in self._file_paths():
            if path not in self.manifest and path not in PRIVATE:
                differences[escape_unprintable(path)] = FileDriftKind.ADDED
        return differences

    def _file_paths(self) -> list[str]:
        with open_directory(self.directory) as top:
            return [
                os.path.relpath(os.path.join(directory.path, name), top.path)
                for directory, name in top.walk_files_and_links()
            ]


def manifest_and_record_by_file_name(tree: Mapping[str, ConfigurationFile]) -> dict[str, bytes]:
    """Return the manifest and the record of a version of a host's configuration, as file name -> JSON content.

    They contain the hashes and modes of the version's files.
    """
    record = {
        "tree": tree_sha256(tree),
        "modes": {path: f"{file.mode:04o}" for path, file in tree.items()},
        "masked": {path: file.masked for path, file in tree.items() if file.masked is not None},
        "hidden": sorted(path for path, file in tree.items() if file.hidden),
        "shipped": sorted(path for path, file in tree.items() if file.shipped),
    }
    manifest = {path: file.sha256 for path, file in tree.items()}
    return {
        CONFIGURATION_MANIFEST: json.dumps(manifest, indent=1, sort_keys=True).encode() + b"\n",
        RECORD: json.dumps(record, sort_keys=True).encode() + b"\n",
    }


def read_installed_configuration(directory: str) -> InstalledVersion | None:
    """Read the manifest and record of an installed broker configuration in a directory, as InstalledVersion.

    Returns None without a valid manifest and record.
    """
    try:
        with open_directory(directory) as opened:
            manifest = parse_untrusted_json(opened.read_file(CONFIGURATION_MANIFEST, _MAX_BYTES))
            record = parse_untrusted_json(opened.read_file(RECORD, _MAX_BYTES))
        modes = {path: int(mode, 8) for path, mode in record["modes"].items()}
        hidden, shipped = (frozenset(record.get(name, ())) for name in ("hidden", "shipped"))
        if modes.keys() != manifest.keys():
            return None
        return InstalledVersion(directory, record["tree"], manifest, modes, record["masked"], hidden, shipped)
    except (UntrustedPathError, OSError, ValueError, KeyError, AttributeError, TypeError):
        return None


class ConfigurationPaths:
    """The paths of the configuration of a broker, or of the event-reporting agent, on its host.

    Below BASE are the versions, the link ``current``, the data and the pending restart. ``link`` and ``data`` may be
    outside of BASE; ``data`` is empty if there is no such directory.
    """

    def __init__(self, base: str, link: str | None = None, data: str | None = None) -> None:
        self.base = base
        self.versions = os.path.join(base, "versions")
        self.current = link or os.path.join(base, "current")
        self.data = os.path.join(base, "data") if data is None else data
        self.pending = os.path.join(base, ".fleet-pending.json")

    def directory(self, name: str) -> str:
        return os.path.join(self.versions, name)

    def current_link_target_for(self, version_name: str) -> str:
        """Return the relative target of the link ``current`` that puts a version of the configuration in force.

        The link itself is not read.
        """
        return os.path.relpath(self.directory(version_name), os.path.dirname(self.current))

    def current_version_name(self) -> str | None:
        """Return the name of the current version of a configuration; None if there is none.

        Raises NodeError if ``current`` is not a link to a version.
        """
        try:
            target = os.readlink(self.current)
        except FileNotFoundError:
            return None
        except OSError:
            raise NodeError(
                f"{self.current} is not a symbolic link to a configuration version in {self.versions}, so the "
                f"configuration in use is not known. Move {self.current} to a different path, and run the "
                "playbook site"
            ) from None
        directory, name = os.path.split(target)
        if directory != os.path.dirname(self.current_link_target_for("x")) or not name or name.startswith("."):
            raise NodeError(
                f"the symbolic link {self.current} leads to {target}, which is not a configuration version of "
                "activemq.fleet, so the configuration in use is not known. Remove this link, and run the "
                "playbook site"
            )
        return name

    def current_version(self) -> InstalledVersion | None:
        name = self.current_version_name()
        return read_installed_configuration(self.directory(name)) if name else None

    def version_names(self) -> list[str]:
        """Return the names of the installed versions of a configuration, newest first.

        Incomplete ones are left out.
        """
        try:
            version_directories = [entry for entry in os.scandir(self.versions) if not entry.name.startswith(".")]
        except FileNotFoundError:
            return []
        version_directories.sort(
            key=lambda entry: (entry.stat(follow_symlinks=False).st_mtime_ns, entry.name), reverse=True
        )
        return [entry.name for entry in version_directories]

    def paths_left_by_interrupted_installs(self) -> list[str]:
        """Return the paths of files and directories that interrupted installations of a configuration left.

        Nothing refers to them.
        """
        leftovers = [self.current + ".new", self.pending + ".new"]
        with contextlib.suppress(FileNotFoundError):
            leftovers += [entry.path for entry in os.scandir(self.versions) if entry.name.startswith(".")]
        return [path for path in leftovers if os.path.lexists(path)]
