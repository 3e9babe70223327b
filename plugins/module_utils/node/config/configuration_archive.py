# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Packs and unpacks the archive that carries one host's configuration files from the controller to the host.

It is an uncompressed tar archive of the files with their modes and an index. The index lists the files with secrets
and their masked texts. The same files give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass

from ..errors import NodeError

_INDEX_NAME = ".fleet-archive.json"
_FORMAT = 1


@dataclass(frozen=True)
class ConfigurationFile:
    """One file of a host's configuration, with its content and mode.

    ``masked`` is the text with a placeholder for each secret; None for a file without secrets, whose content may be
    shown. No text of a ``hidden`` file is shown. ``shipped``: the file comes from the release, and not from the plan.
    """

    content: bytes
    mode: int
    masked: str | None = None
    hidden: bool = False
    shipped: bool = False

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def _check_path_inside_configuration(path: str) -> str:
    """Check that a path stays inside the configuration's directory, and return the path.

    Raises NodeError for any other path, and for an absolute one.
    """
    parts = path.split("/")
    if not path or path.startswith("/") or any(part in ("", ".", "..") for part in parts) or "\0" in path:
        raise NodeError(
            f"the configuration archive of this host contains the path {path!r}, which leads outside of the "
            "configuration directory, so nothing was installed. Run the playbook again: it creates a new "
            "archive. If this error occurs again, correct this path in activemq_extra_files"
        )
    if parts[0].startswith(".fleet-"):
        raise NodeError(
            f"the configuration archive of this host contains the file {path!r}, but names that begin with "
            ".fleet- are reserved: choose a different name for this file in activemq_extra_files"
        )
    return path


def pack_configuration(files: Mapping[str, ConfigurationFile]) -> bytes:
    """Pack configuration files into a tar archive, and return it as bytes.

    ``files``: path -> file.
    """
    buffer = io.BytesIO()
    index = {
        "format": _FORMAT,
        "masked": {path: file.masked for path, file in sorted(files.items()) if file.masked is not None},
        "hidden": sorted(path for path, file in files.items() if file.hidden),
    }
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        _add_member(archive, _INDEX_NAME, json.dumps(index, sort_keys=True).encode(), 0o600)
        for path in sorted(files):
            _add_member(archive, _check_path_inside_configuration(path), files[path].content, files[path].mode)
    return buffer.getvalue()


def _add_member(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    member.mode = mode
    archive.addfile(member, io.BytesIO(content))


def unpack_configuration(data: bytes) -> dict[str, ConfigurationFile]:
    """Unpack a tar archive of configuration files, and return the files by path.

    Raises NodeError for any other archive.
    """
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            members = archive.getmembers()
            if not members or members[0].name != _INDEX_NAME or not all(member.isreg() for member in members):
                raise NodeError(
                    "a different version of activemq.fleet created the configuration archive of this host, so "
                    "nothing was installed. Run the playbook again: it creates a new archive"
                )
            contents = {
                member.name: archive.extractfile(member).read()  # type: ignore[union-attr]
                for member in members
            }
        index = json.loads(contents[_INDEX_NAME])
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise NodeError(
            f"the configuration archive of this host cannot be read ({error}), so nothing was installed. Run "
            "the playbook again: it creates a new archive"
        ) from None
    if index.get("format") != _FORMAT:
        raise NodeError(
            f"the configuration archive of this host has format {index.get('format')!r}, but this version of "
            f"activemq.fleet requires format {_FORMAT}. Run the playbook again: it creates a new archive"
        )
    masked, hidden = index["masked"], frozenset(index.get("hidden", ()))
    return {
        _check_path_inside_configuration(member.name): ConfigurationFile(
            contents[member.name], member.mode & 0o777, masked.get(member.name), member.name in hidden
        )
        for member in members[1:]
    }
