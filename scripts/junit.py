"""Count the results of tests in a JUnit XML file of pytest."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of tests by result, and the number of skipped tests by reason."""

    passed: int
    failed: int
    skipped: int
    reasons: dict[str, int]


def count(path: Path) -> Counts | None:
    """Return the counts of a run, or None if the file does not exist or cannot be read.

    A test with an error in its setup or teardown counts as failed, once.
    """
    try:
        root = ElementTree.parse(path).getroot()  # noqa: S314 -- the output of pytest
    except (OSError, ElementTree.ParseError):
        return None
    outcome: dict[tuple[str | None, str | None], str] = {}
    reasons: Counter[str] = Counter()
    for case in root.iter("testcase"):
        name = (case.get("classname"), case.get("name"))
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            outcome[name] = "failed"
        elif outcome.get(name) == "failed":
            continue
        elif skipped is not None:
            outcome[name] = "skipped"
            reasons[skipped.get("message") or "no reason given"] += 1
        else:
            outcome[name] = "passed"
    totals = Counter(outcome.values())
    return Counts(totals["passed"], totals["failed"], totals["skipped"], dict(reasons))
