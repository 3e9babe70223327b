"""Determine how a file differs from its plan: its status, the cause of the change, and the lines that differ."""

from __future__ import annotations

import difflib
import re
from typing import Literal

from activemq_fleet.drift.file_records import SHA256_OF_EMPTY_FILE, FileRecord

Status = Literal["added", "removed", "changed", "same"]
Cause = Literal["by_hand", "out_of_date", "unknown"]

_MAXIMUM_LINES = 200
_MAXIMUM_CHARACTERS = 16_384
# The maximum number of lines that are compared line by line. The time increases with the square of this number.
_MAXIMUM_COMPARED_LINES = 2_000
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def drift_status_and_cause(file: FileRecord, *, installed: bool) -> tuple[Status, Cause | None]:
    """Return a file's drift status, such as ``changed``, and the cause of its difference from the plan.

    The status is added, removed, changed or same; the cause is None for ``same``. A file that the release ships is
    ``same`` while it is as deployed, although no plan contains it. ``installed``: the host has a manifest. The cause
    ``by_hand``: the file differs from the manifest. ``out_of_date``: it is as deployed, but its plan has changed since.
    An empty file without a plan is ``same`` while it is as deployed, because Spark does not read empty planned files.
    """
    if file.noted_status == "unreadable":
        return "changed" if file.planned else "added", "unknown"
    is_shipped = file.noted_status == "shipped" and file.planned is None
    is_empty_as_deployed = file.planned is None and file.found_sha256 == file.manifest == SHA256_OF_EMPTY_FILE
    is_as_planned = file.found_sha256 is not None and file.found_sha256 == file.planned
    if is_shipped or is_empty_as_deployed or is_as_planned:
        return "same", None
    if file.found_sha256 is None:
        return "removed", "by_hand" if file.manifest is not None else "out_of_date" if installed else "unknown"
    return "changed" if file.planned else "added", _cause_for_existing_file(file)


def _cause_for_existing_file(file: FileRecord) -> Cause:
    if file.manifest is not None:
        return "out_of_date" if file.found_sha256 == file.manifest else "by_hand"
    return "by_hand" if file.noted_status == "added" else "unknown"


def unified_diff_text(path: str, planned: str | None, collected: str | None) -> str:
    """Return a unified diff, as text, from the planned to the collected content of a file.

    Both contents are masked; lines beyond the limit of length are only counted.
    """
    old, new = _split_at_line_feeds(planned), _split_at_line_feeds(collected)
    if max(len(old), len(new)) > _MAXIMUM_COMPARED_LINES:
        return (
            f"the diff is not shown, because the files are too long: the planned file has {len(old)} lines, and the "
            f"collected file has {len(new)}\n"
        )
    names = (
        "/dev/null" if planned is None else f"planned/{path}",
        "/dev/null" if collected is None else f"found/{path}",
    )
    lines = [_terminate_line(line) for line in difflib.unified_diff(old, new, *names)]
    return _limit_length(lines)


def _split_at_line_feeds(text: str | None) -> list[str]:
    """Return lines split at line feeds only; a form feed does not end a line."""
    return _LINE.findall(text or "")


def _terminate_line(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _limit_length(lines: list[str]) -> str:
    kept_lines, size = [], 0
    for line in lines[:_MAXIMUM_LINES]:
        if size + len(line) > _MAXIMUM_CHARACTERS:
            break
        kept_lines.append(line)
        size += len(line)
    if len(kept_lines) < len(lines):
        kept_lines.append(f"… {len(lines) - len(kept_lines)} more lines\n")
    return "".join(kept_lines)
