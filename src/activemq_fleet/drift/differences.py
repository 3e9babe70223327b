"""Write the difference between a planned and a collected file, as far as it fits into a row."""

from __future__ import annotations

import difflib
import re

_LINES = 200
_CHARACTERS = 16_384
_LONGEST = 2_000  # lines of a text beyond which it is not compared line by line: that takes the square of them
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def unified_diff_text(path: str, planned: str | None, collected: str | None) -> str:
    """Return a unified diff from the planned to the collected text, both masked; lines that do not fit are counted."""
    old, new = _lines(planned), _lines(collected)
    if max(len(old), len(new)) > _LONGEST:
        return f"{len(old)} lines planned, {len(new)} found: too long to be compared line by line\n"
    names = (
        "/dev/null" if planned is None else f"planned/{path}",
        "/dev/null" if collected is None else f"found/{path}",
    )
    lines = [_terminate_line(line) for line in difflib.unified_diff(old, new, *names)]
    return _limit_length(lines)


def _lines(text: str | None) -> list[str]:
    """Return lines split at line feeds only; a form feed does not end a line."""
    return _LINE.findall(text or "")


def _terminate_line(line: str) -> str:
    return line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _limit_length(lines: list[str]) -> str:
    kept, size = [], 0
    for line in lines[:_LINES]:
        if size + len(line) > _CHARACTERS:
            break
        kept.append(line)
        size += len(line)
    if len(kept) < len(lines):
        kept.append(f"… {len(lines) - len(kept)} more lines\n")
    return "".join(kept)
