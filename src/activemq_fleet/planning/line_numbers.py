"""Find the line number of an invalid record in a JSON-lines file, for errors that cannot name a host.

Spark reads lines in any order and does not count them, so the driver searches the file after such an error.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

from activemq_fleet.errors import InputError
from activemq_fleet.planning.host_records import RecordWithoutHostError, parse_inventory_host_record


def error_at_first_invalid_json_line(json_lines: Path | None, error: InputError) -> InputError:
    """Return an error that names the file and line of the first invalid record of JSON lines, in place of ``error``.

    Only an error without a host is replaced. Any other error is returned unchanged, and so is each error if no line is
    invalid. ``json_lines`` is the path of the JSON lines, None where they are not on this machine.
    """
    if json_lines is None or not isinstance(error, RecordWithoutHostError):
        return error
    for file in _visible_files(json_lines):
        try:
            invalid_line = _first_invalid_line(file)
        except (OSError, EOFError, zlib.error):
            continue
        if invalid_line:
            number, problem = invalid_line
            return InputError(f"{file}, line {number} {problem}. Nothing was written")
    return error


def _visible_files(lines: Path) -> Iterator[Path]:
    """Yield the files that Spark reads; it ignores hidden files of a directory."""
    if lines.is_file():
        yield lines
    elif lines.is_dir():
        yield from (file for file in sorted(lines.iterdir()) if file.is_file() and file.name[0] not in "._")


def _first_invalid_line(file: Path) -> tuple[int, str] | None:
    """Return the number of the first line that is no record, and its problem."""
    open_function = gzip.open if file.suffix == ".gz" else open
    with open_function(file, "rt", encoding="utf-8", errors="replace") as text:
        for number, line in enumerate(text, 1):
            if not line.strip():
                continue
            try:
                parse_inventory_host_record(line.rstrip("\r\n"))
            except RecordWithoutHostError as error:
                return number, error.problem
            except InputError:
                continue  # This record has a host, which its error names.
    return None
