"""Find files that set a variable of an inventory and that Ansible does not read, with the reason."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from activemq_fleet.findings import Finding

_DIRECTORIES = ("group_vars", "host_vars")
_INVENTORY_FILE = re.compile(r"(hosts|inventory)([._-].*)?")
_MAX_FILES = 1000
_LARGEST_FILE = 1 << 20
_UNREAD_FILE = "T039"
"""The rule about files and directories of variables that Ansible ignores."""


def unread_definition_hint(variable: str, directory: str, findings: Iterable[Finding]) -> str:
    """Return a hint about a file that sets a variable, but that Ansible does not read.

    The reason is included; "" without such a file. ``directory`` is that of the inventory. ``findings`` are those about
    its files. Files below the directory are searched, and ``group_vars`` and ``host_vars`` next to it, which Ansible
    reads only from the working directory.
    """
    definition = re.compile(rf"^[ \t]*[\"']?{re.escape(variable)}[\"']?[ \t]*[:=]", re.MULTILINE)
    unread_file_findings = [finding for finding in findings if finding.rule == _UNREAD_FILE and finding.file]
    for path in _candidate_variable_files(Path(directory).absolute()):
        reason = _unread_reason(path, Path(directory).absolute(), unread_file_findings)
        if reason and (line := _line_of_definition(path, definition)):
            return f"; {_displayed_path(path)}:{line} sets {variable}, but {reason}"
    return ""


def _candidate_variable_files(directory: Path) -> Iterator[Path]:
    """Yield the files of variables below a directory, and those of group_vars and host_vars near it.

    Directories with a separate inventory are left out: their variables belong to that inventory.
    """
    is_parent_excluded = directory.parent == Path.cwd() or _has_inventory(directory.parent)
    neighboring_directories = [] if is_parent_excluded else [directory.parent / name for name in _DIRECTORIES]
    count = 0
    for top in dict.fromkeys((directory, *neighboring_directories)):
        for parent, names, files in os.walk(top):
            names[:] = sorted(name for name in names if not name.startswith("."))
            if top == directory and Path(parent) == directory:
                continue  # the inventory files themselves
            if top == directory and not _is_in_variables_directory(Path(parent), directory) and _has_inventory(parent):
                names.clear()
                continue
            for name in sorted(files):
                count += 1
                if count > _MAX_FILES:
                    return
                yield Path(parent, name)


def _is_in_variables_directory(path: Path, directory: Path) -> bool:
    return any(part in _DIRECTORIES for part in path.relative_to(directory).parts)


def _has_inventory(directory: str | Path) -> bool:
    """Return whether a readable directory contains an inventory file, such as ``hosts.yml``."""
    try:
        return any(_INVENTORY_FILE.fullmatch(entry.name) and entry.is_file() for entry in Path(directory).iterdir())
    except OSError:
        return False


def _unread_reason(path: Path, directory: Path, findings: Iterable[Finding]) -> str:
    """Return the reason why Ansible does not read a file, and the remedy; "" for a file that Ansible may read."""
    if directory not in path.parents:
        return (
            f"Ansible reads {path.parent.name} only next to the inventory file or the playbook: move the directory to "
            f"{_displayed_path(directory)}"
        )
    parts_below = path.relative_to(directory).parts
    top = directory.joinpath(*parts_below[: 2 if parts_below[0] in _DIRECTORIES else 1])
    for finding in findings:
        if Path(os.path.abspath(finding.file or "")).is_relative_to(top):
            return f"{finding.message}: {finding.fix}"
    if parts_below[0] not in _DIRECTORIES:
        return (
            "Ansible reads variables only from the directories group_vars and host_vars: move the file to group_vars, "
            "and give it the name of a group"
        )
    if path.suffix not in ("", ".yml", ".yaml", ".json"):
        return f"Ansible reads no file with the extension {path.suffix}: change the extension to .yml"
    return ""


def _line_of_definition(path: Path, definition: re.Pattern[str]) -> int | None:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            return None
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    match = definition.search(text)
    return text.count("\n", 0, match.end()) + 1 if match else None


def _displayed_path(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative
