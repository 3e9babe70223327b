"""Which line of JSON lines is meant, where a record has no host by which to name it. Pure but for reading.

Spark reads lines in any order and does not count them, so the driver looks for it, once something is wrong.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from functools import reduce
from pathlib import Path

from activemq_fleet.errors import InputError
from activemq_fleet.spark.plan.records import NAMELESS, read_record


def placed(lines: Path | None, error: InputError) -> InputError:
    """The error, with file and line in place of "a line of --hosts", where ``lines`` are on this machine."""
    if lines is None or not str(error).startswith(NAMELESS):
        return error
    for file in _files(lines):
        try:
            found = _first(file)
        except (OSError, EOFError):
            continue
        if found:
            number, said = found
            return InputError(f"{file}, line {number}{said}; correct the line, nothing was written")
    return error


def _files(lines: Path) -> Iterator[Path]:
    """Those that Spark reads: of a directory not the ones it takes for hidden."""
    if lines.is_file():
        yield lines
    elif lines.is_dir():
        yield from (one for one in sorted(lines.iterdir()) if one.is_file() and one.name[0] not in "._")


def _first(file: Path) -> tuple[int, str] | None:
    """The first line that is no record, and what is wrong with it."""
    opened = gzip.open if file.suffix == ".gz" else open
    with opened(file, "rt", encoding="utf-8", errors="replace") as text:
        for number, line in enumerate(text, 1):
            if not line.strip():
                continue
            try:
                read_record(line.rstrip("\r\n"))
            except InputError as error:
                if str(error).startswith(NAMELESS):
                    return number, reduce(str.removeprefix, NAMELESS, str(error))
    return None
