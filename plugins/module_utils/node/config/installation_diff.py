# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Describes what an installation changes, file by file, without secrets.

A file with secrets is shown as its masked text. For a file of the user (``activemq_extra_files``) only the fact of the
change is shown. In every other text all secrets are masked as in collected files, because an operator may have added
one by hand or in a Java option. If no visible text differs, one line reports that.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..masking import mask_configuration_file_text
from .configuration_archive import ConfigurationFile
from .versions import FileDriftKind, InstalledVersion


def changed_file_paths(
    old: InstalledVersion | None, tree: Mapping[str, ConfigurationFile], drift: Mapping[str, FileDriftKind]
) -> list[str]:
    """Return the sorted paths of files that a new configuration adds, removes or changes."""
    deployed_hashes = old.manifest if old else {}
    differs = {path for path, file in tree.items() if deployed_hashes.get(path) != file.sha256}
    if old:
        differs |= {path for path, file in tree.items() if old.modes.get(path) != file.mode}
    return sorted(differs | (deployed_hashes.keys() - tree.keys()) | drift.keys())


def paths_with_changed_content(
    old: InstalledVersion | None, tree: Mapping[str, ConfigurationFile], drift: Mapping[str, FileDriftKind]
) -> list[str]:
    """Return the paths of files whose content a new configuration changes.

    A change of owner or mode alone does not count, neither by the inventory nor by hand.
    """
    deployed_hashes = old.manifest if old else {}
    return [
        path
        for path in changed_file_paths(old, tree, drift)
        if drift.get(path) not in (None, FileDriftKind.OWNER_OR_MODE)
        or path not in tree
        or deployed_hashes.get(path) != tree[path].sha256
    ]


def configuration_differences(
    old: InstalledVersion | None, tree: Mapping[str, ConfigurationFile], drift: Mapping[str, FileDriftKind]
) -> list[dict[str, str]]:
    """Return the differences between an old and a new configuration as a list of dicts, one per changed file.

    The dicts are in the form that Ansible shows as a diff.
    """
    return [
        _file_difference(path, old, tree.get(path), drift.get(path)) for path in changed_file_paths(old, tree, drift)
    ]


def _file_difference(
    path: str, old: InstalledVersion | None, new: ConfigurationFile | None, drift: FileDriftKind | None
) -> dict[str, str]:
    deployed = old is not None and path in old.manifest
    was_secret = old is not None and path in old.masked
    is_secret = was_secret or (new is not None and new.masked is not None)
    if drift not in (None, FileDriftKind.OWNER_OR_MODE) and (is_secret or not deployed):
        return {"prepared": f"{path}: {drift.value}; its content is not shown\n"}
    if (new is not None and new.hidden) or (old is not None and path in old.hidden):
        return {"prepared": f"{path}: {_describe_hidden_change(path, old, new, drift)}\n"}
    content = old.read_installed_file(path) if old and (deployed or drift) else None
    before = old.masked[path] if old and was_secret else _decode_text(content)
    after = "" if new is None else new.masked if new.masked is not None else _decode_text(new.content)
    if before is None or after is None:
        return {"prepared": f"{path}: binary file changed\n"}
    differs = before != after
    before, after = mask_configuration_file_text(path, before), mask_configuration_file_text(path, after)
    is_secret = is_secret or (differs and before == after)
    if before != after:
        return {
            "before_header": path if content is not None else "/dev/null",
            "after_header": path if new is not None else "/dev/null",
            "before": before,
            "after": after,
        }
    return {"prepared": f"{path}: {_describe_invisible_change(path, old, new, is_secret, drift)}\n"}


def _describe_hidden_change(
    path: str, old: InstalledVersion | None, new: ConfigurationFile | None, drift: FileDriftKind | None
) -> str:
    """Return a description of the change of a configuration file whose text is never shown."""
    if new is None:
        return (
            "the file was removed; its content is not shown, because files of activemq_extra_files may contain secrets"
        )
    if old is None or path not in old.manifest:
        return "the file was added; its content is not shown, because files of activemq_extra_files may contain secrets"
    if old.manifest[path] == new.sha256:
        return drift.value if drift else f"mode {old.modes[path]:04o} -> {new.mode:04o}"
    return "the file was changed; its content is not shown, because files of activemq_extra_files may contain secrets"


def _describe_invisible_change(
    path: str, old: InstalledVersion | None, new: ConfigurationFile | None, is_secret: bool, drift: FileDriftKind | None
) -> str:
    """Return a description of a change that the texts of a file do not show: of its mode, secret or owner."""
    if old and new and old.manifest.get(path) == new.sha256:
        return drift.value if drift else f"mode {old.modes[path]:04o} -> {new.mode:04o}"
    if is_secret:
        return "secret changed"
    return drift.value if drift else "empty file"


def _decode_text(content: bytes | None) -> str | None:
    """Return the content as text: empty for a missing file, None for binary content."""
    if content is None:
        return ""
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None
