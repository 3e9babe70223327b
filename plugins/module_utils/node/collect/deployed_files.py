# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Collects the masked configuration in use on a host: the deployed files according to its manifests, and the current
files."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .. import masking
from ..config.versions import PRIVATE, InstalledVersion, read_installed_configuration
from ..files.untrusted_paths import Directory, UntrustedPathError, open_directory
from ..host_paths import COLLECTED_FILE_STATES, CONFIGURATION_MANIFEST
from ..masking import KnownSecret, KnownSecrets
from .evidence_archive import TIME_IS_OVER, EvidenceArchive, open_collected_file_with_size_and_time

_MAX_BYTES = 1 << 20


@dataclass
class MaskedTree:
    """The files of a configuration directory, with their secrets masked.

    Each file has its hash and status. The texts are by path. ``manifest``: hashes of deployed files, ``found``: status
    of each file.
    """

    files: dict[str, str] = field(default_factory=dict)
    manifest: dict[str, str] = field(default_factory=dict)
    found: dict[str, dict[str, Any]] = field(default_factory=dict)


def known_secrets(versions: list[InstalledVersion]) -> list[KnownSecret]:
    """Return the known secrets in the installed versions of a configuration.

    They are found where planned files have ``@VARIABLE@``. The secrets of a file that was changed by hand count only if
    the planned text with these secrets is identical to the deployed file.
    """
    secrets: list[KnownSecret] = []
    changed = []
    for version in versions:
        for path, masked in version.masked.items():
            content = _decode_text(version.read_installed_file(path))
            if content is None:
                continue
            file_secrets = masking.secrets_from_masked_text(masked, content)
            if _sha256(content) == version.manifest[path]:
                secrets += file_secrets
            else:
                changed.append((masked, file_secrets, version.manifest[path]))
    value_by_variable = {secret.variable: secret.value for secret in reversed(secrets)}
    for masked, file_secrets, deployed in changed:
        # Either no secret of the file is new, or the new values are those that other files contain.
        replaced_secrets = [
            KnownSecret(value_by_variable.get(s.variable, s.value), s.variable, s.before) for s in file_secrets
        ]
        secrets += next(
            (
                candidate
                for candidate in (file_secrets, replaced_secrets)
                if _sha256(_fill_in_secrets(masked, candidate)) == deployed
            ),
            [],
        )
    return secrets


def _fill_in_secrets(masked: str, secrets: list[KnownSecret]) -> str:
    text = masked
    for secret in secrets:
        text = text.replace(f"{secret.before}@{secret.variable}@", secret.before + secret.value, 1)
    return text


def read_masked_tree(path: str, secrets: KnownSecrets, omissions: EvidenceArchive, omissions_prefix: str) -> MaskedTree:
    """Return the files below a directory with secrets masked, and record in ``omissions`` which files are left out.

    ``omissions`` gets the name of each such file, after ``omissions_prefix``, and the reason. ``add_tree`` adds the
    files to the archive later. Each file has a status. The files of an installed version are compared with its
    manifest.
    """
    version, tree = read_installed_configuration(path), MaskedTree()
    deployed = version.manifest if version else {}
    try:
        with open_directory(path) as top:
            for directory, name in top.walk_files_and_links():
                file = os.path.relpath(os.path.join(directory.path, name), top.path)
                if file not in PRIVATE:
                    _read_masked_file(directory, name, file, version, secrets, omissions, omissions_prefix, tree)
    except (UntrustedPathError, OSError) as error:
        omissions.leave_out(omissions_prefix, 0, str(error))
    if version is not None:
        for file in sorted({*deployed} - PRIVATE - {*tree.found}):
            tree.found[file] = {"status": "removed"}
            tree.manifest[file] = _planned_hash(version, file)
    return tree


def _planned_hash(version: InstalledVersion, path: str) -> str:
    """Return the hash that the plan has for a deployed file. Raises KeyError where the file was not deployed."""
    if path in version.masked:
        # The hash of a secret would allow guessing the password; the hash of the masked text is sufficient.
        return _sha256(masking.mask_configuration_file_text(path, version.masked[path]))
    return str(version.manifest[path])


def _read_masked_file(
    directory: Directory,
    name: str,
    path: str,
    version: InstalledVersion | None,
    secrets: KnownSecrets,
    archive: EvidenceArchive,
    archive_prefix: str,
    tree: MaskedTree,
) -> None:
    deployed = version.manifest.get(path) if version else None
    if archive.is_time_over():
        archive.leave_out(archive_prefix + path, 0, TIME_IS_OVER)
        tree.found[path] = {"status": "unreadable"}
        return
    try:
        with open_collected_file_with_size_and_time(directory, name, path).file as file:
            content = file.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return  # it was removed in the meantime
    except (UntrustedPathError, OSError) as error:
        archive.leave_out(archive_prefix + path, 0, str(error))
        tree.found[path] = {"status": "unreadable"}
        content = None
    if deployed and version:
        tree.manifest[path] = _planned_hash(version, path)
    if content is None:
        return
    digest = hashlib.sha256(content).hexdigest()
    comparison = "unknown" if version is None else "same" if digest == deployed else "changed" if deployed else "added"
    status = "shipped" if version and comparison == "same" and path in version.shipped else comparison
    why = (
        "the file is larger than 1 MiB, the limit for configuration files. Copy it from the host if you need it"
        if len(content) > _MAX_BYTES
        else masking.reason_to_omit_from_evidence(path, content)
    )
    if why:
        archive.leave_out(archive_prefix + path, len(content), why)
        tree.found[path] = {"status": status, "why": why, **({} if "MiB" in why else {"sha256": digest})}
        return
    planned = version.masked.get(path) if version and comparison == "same" else None
    text = (
        masking.mask_configuration_file_text(path, planned)
        if planned is not None
        else masking.mask_configuration_file_text(path, content.decode(), secrets)
    )
    if comparison == "same" and planned is None:
        tree.manifest[path] = _sha256(text)
    tree.files[path] = text
    tree.found[path] = {"status": status, "sha256": _sha256(text)}


def add_tree(tree: MaskedTree, bundle: EvidenceArchive, prefix: str) -> None:
    for path, text in sorted(tree.files.items()):
        bundle.add_file(prefix + path, text.encode())


def add_deployed_file_status(trees: list[MaskedTree], archive: EvidenceArchive, prefix: str) -> None:
    """Add two JSON files about deployed files to the archive of evidence: their planned hashes, and their statuses.

    They are ``.fleet-manifest.json`` and ``.fleet-found.json`` after ``prefix``. A status is such as ``changed``.
    """
    manifest: dict[str, str] = {}
    file_statuses: dict[str, Any] = {}
    for tree in trees:
        manifest.update(tree.manifest)
        file_statuses.update(tree.found)
    archive.add_file(f"{prefix}{CONFIGURATION_MANIFEST}", json_lines(manifest))
    archive.add_file(f"{prefix}{COLLECTED_FILE_STATES}", json_lines(file_statuses))


def json_lines(data: Mapping[str, Any]) -> bytes:
    text = json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False)
    return text.encode(errors="backslashreplace") + b"\n"  # a file name that is not UTF-8: its escape is valid JSON


def _decode_text(content: bytes | None) -> str | None:
    try:
        return None if content is None else content.decode()
    except UnicodeDecodeError:
        return None


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
