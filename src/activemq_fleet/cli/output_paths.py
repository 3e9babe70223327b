"""Refuse an output of a command that would overwrite an input of the command."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from activemq_fleet import InputError

_UNREAD_SUFFIXES = frozenset({".md", ".rst", ".txt"})
"""Suffixes of files in the directory of an inventory or of broker files that no command reads."""
_INVENTORY_OPTION = "-i"


def require_output_differs_from_inputs(
    output_option: str, output: Path | None, input_paths_by_option: Mapping[str, Iterable[Path]]
) -> None:
    """Raise InputError if a command that writes a file or directory would overwrite a file that it also reads.

    Each existing file below an input directory counts as an input. An output directory is replaced with all files
    below it. A device, such as ``/dev/stdout``, is never refused. A new file or directory below the directory of an
    inventory is refused, too: Ansible would read it as a part of the inventory from then on.
    """
    if output is None:
        return
    for input_option, paths in input_paths_by_option.items():
        for path in paths:
            if _is_input_overwritten(output, path):
                raise InputError(
                    f"{output_option} {output}: the command would overwrite a file that it also reads ({input_option} "
                    f"{path}): set {output_option} to another path"
                )
            if input_option == _INVENTORY_OPTION and _is_in_inventory_directory(output, path):
                raise InputError(
                    f"{output_option} {output}: Ansible would read this output as a part of the inventory "
                    f"({input_option} {path}): set {output_option} to a path outside of {path}"
                )


def require_dataset_differs_from_inputs(
    output_option: str, output: str, input_paths_by_option: Mapping[str, Iterable[Path]]
) -> None:
    """Raise InputError if a command that writes datasets would overwrite a file that it also reads.

    ``output`` is a path or a URI. A path on an object store or HDFS overwrites no local file.
    """
    from activemq_fleet.spark.paths import local_path

    require_output_differs_from_inputs(output_option, local_path(output), input_paths_by_option)


def _is_in_inventory_directory(output: Path, path: Path) -> bool:
    """Return whether Ansible would read an output with the directory of an inventory; it reads no hidden files."""
    resolved_output, resolved_path = Path(os.path.realpath(output)), Path(os.path.realpath(path))
    if not os.path.isdir(path) or not resolved_output.is_relative_to(resolved_path):
        return False
    is_hidden = any(part.startswith(".") for part in resolved_output.relative_to(resolved_path).parts)
    return not is_hidden and output.suffix not in _UNREAD_SUFFIXES


def _is_input_overwritten(output: Path, path: Path) -> bool:
    if not os.path.exists(path) or not (os.path.isfile(output) or os.path.isdir(output)):
        return False
    resolved_output, resolved_path = Path(os.path.realpath(output)), Path(os.path.realpath(path))
    if os.path.isdir(output):
        return resolved_path.is_relative_to(resolved_output)
    if os.path.isdir(path):
        return resolved_output.is_relative_to(resolved_path) and output.suffix not in _UNREAD_SUFFIXES
    return os.path.samefile(output, path)
