"""Write the repairs of ``check --fix`` to files, and show them as differences."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from itertools import count
from pathlib import Path

import click

from activemq_fleet import FileRepair, InputError
from activemq_fleet.atomic_files import create_file_like, replace_content_atomically
from activemq_fleet.cli.checked_files import read_file_to_check
from activemq_fleet.node.printable import escape_unprintable

_COLORS = {"+": "green", "-": "red", "@": "cyan"}


def raise_for_special_files(paths: Iterable[Path]) -> None:
    """Raise InputError for pipes and other special files, because their content cannot be replaced.

    Missing files are accepted.
    """
    for path in paths:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise InputError(
                f"{path}: --fix cannot replace this path, because it is not a regular file: name a file, or use --diff"
            )


def repairs_with_changes_by_path(repairs: Mapping[Path, FileRepair]) -> dict[Path, FileRepair]:
    """Return the repairs of ``check --fix`` that change the content of their file, by path.

    There is one repair for each file, even if the file has several names.
    """
    changed: dict[str, tuple[Path, FileRepair]] = {}
    for path, repair in repairs.items():
        if repair.repaired:
            changed.setdefault(os.path.realpath(path), (path, repair))
    return dict(changed.values())


def colored_repair_diff(path: Path, repair: FileRepair) -> str:
    """Return a repair of a file as a colored unified diff.

    Control characters are escaped.
    """
    lines = repair.difference(str(path)).split("\n")
    return "\n".join(
        click.style(escape_unprintable(line.removesuffix("\r")), fg=_COLORS.get(line[:1])) for line in lines[:-1]
    )


def write_repair_and_backup(path: Path, repair: FileRepair, *, keep_original: bool) -> Path | None:
    """Replace the content of a checked file by the repaired content of ``check --fix``.

    Return the path of the copy of the previous file. Mode, owner and extended attributes stay. A symbolic link stays a
    link: its target is replaced. Raises InputError for a file that may not be replaced; it is unchanged then.
    """
    target = Path(os.path.realpath(path))
    try:
        _check_replaceable(path, target)
        if read_file_to_check(target) != repair.original:
            raise InputError(
                f"{path}: another process changed the file after the check, so it was not repaired: run the command "
                "again"
            )
        original = _keep_original(target, repair.original) if keep_original else None
        replace_content_atomically(target, repair.content)
    except OSError as error:
        remedy = (
            "run the command as an account that owns the file and can write to its directory"
            if isinstance(error, PermissionError)
            else "correct the cause, and run the command again"
        )
        raise InputError(f"{path}: the file was not repaired ({error.strerror}): {remedy}") from None
    if original is not None and os.path.realpath(path.parent) == str(original.parent):
        return path.with_name(original.name)
    return original


def _check_replaceable(path: Path, target: Path) -> None:
    """Raise InputError for a read-only file, and for one with several hard links; ``path`` leads to ``target``."""
    status = target.stat()
    if not status.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(target, os.W_OK):
        raise InputError(f"{path}: the file is read-only, so it was not repaired: run chmod u+w {target} first")
    if status.st_nlink > 1:
        raise InputError(
            f"{path}: the file was not repaired, because its other hard links would keep the old content: run the "
            "command with --diff, and apply the changes by hand"
        )


def _keep_original(target: Path, content: bytes) -> Path:
    """Keep the previous content of a file in a copy next to it, and return the path of the copy.

    The copy is ``FILE.orig``, or ``FILE.orig.2`` and on.
    """
    for number in count(1):
        path = target.with_name(f"{target.name}.orig" + (f".{number}" if number > 1 else ""))
        try:
            create_file_like(target, path, content)
        except FileExistsError:
            if path.is_file() and path.read_bytes() == content:
                return path
        else:
            return path
    raise AssertionError
