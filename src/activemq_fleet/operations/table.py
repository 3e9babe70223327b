"""What an operation has done, as a table with a line for each host. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

_HEAD = ("host", "before", "after", "gap", "changed")


def outcome_table(
    hosts: Iterable[str],
    before: Mapping[str, Mapping[str, Any]],
    after: Mapping[str, Mapping[str, Any]],
    acted: Mapping[str, Sequence[str]],
    gaps: Mapping[str, float | None],
) -> list[str]:
    """Return the lines of a table of what an operation did, its head first.

    ``before`` and ``after``: by host the result of ``broker_info`` at the begin and the end. ``acted``: what was done
    to each. ``gaps``: seconds without an answer that clients had when a host handed over, None where not measured.
    """
    rows = [_HEAD, *(_row(host, before, after, acted, gaps) for host in hosts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _row(
    host: str,
    before: Mapping[str, Mapping[str, Any]],
    after: Mapping[str, Mapping[str, Any]],
    acted: Mapping[str, Sequence[str]],
    gaps: Mapping[str, float | None],
) -> tuple[str, ...]:
    now, gap = after.get(host, {}), gaps.get(host)
    # What was not acted upon was not looked at before anything else.
    was = before.get(host) or now
    acts = ", ".join(dict.fromkeys(acted.get(host, ())))
    return host, _stands(was), _stands(now), "-" if gap is None else f"{float(gap):.1f} s", acts or "no"


def _stands(look: Mapping[str, Any]) -> str:
    return " ".join(str(look[key]) for key in ("release", "state") if look.get(key)) or "not known"
