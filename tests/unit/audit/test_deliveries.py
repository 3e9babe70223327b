"""Verdicts of seeded histories, against their truth and against a plain reference; without Spark."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from activemq_fleet.audit.deliveries import topic_filter_matches
from tests.histories.damage import History, history
from tests.histories.judged import Read, Units, judge, read
from tests.histories.mutants import MUTANTS, Mutant, planted
from tests.histories.reference import Fleet
from tests.situations import some_situations

HISTORIES = int(os.environ.get("HISTORIES", "100"))


@dataclass(frozen=True)
class Run:
    histories: list[History]
    read: Read
    units: Units
    events: dict[str, str]

    @property
    def truth(self) -> Units:
        return {key: verdict for one in self.histories for key, verdict in one.units.items()}


@pytest.fixture(scope="module")
def run() -> Run:
    """All histories, judged together."""
    histories = [history(seed) for seed in range(HISTORIES)]
    found = read({path: lines for one in histories for path, lines in one.files.items()})
    return Run(histories, found, *judge(found))


def differences(found: Units, truth: Units) -> list[str]:
    """What differs, the first ten, as text to be read."""
    keys = sorted(key for key in {*found, *truth} if found.get(key) != truth.get(key))
    return [f"{key}: found {found.get(key)}, in truth {truth.get(key)}" for key in keys[:10]]


def test_units_have_the_verdicts_that_are_true(run: Run) -> None:
    assert differences(run.units, run.truth) == []


def test_events_have_the_worst_verdict_of_their_units(run: Run) -> None:
    truth = {event: verdict for one in run.histories for event, verdict in one.events.items()}

    assert {e: (v, truth.get(e)) for e, v in run.events.items() if truth.get(e) != v} == {}
    assert run.events.keys() == truth.keys()


def test_the_plain_reference_comes_to_the_same(run: Run) -> None:
    units: Units = {}
    for one in run.histories:
        units |= Fleet(one.files).units

    assert differences(run.units, units) == []


def test_every_verdict_occurs(run: Run) -> None:
    found = Counter(run.units.values())

    assert min(found[one] for one in ("delivered", "duplicate", "stuck", "lost", "indeterminate")) >= HISTORIES // 5


def test_without_evidence_taken_away_nothing_is_indeterminate(run: Run) -> None:
    whole = [one for one in run.histories if not any(one.gone.values())]

    assert len(whole) >= HISTORIES // 4
    assert [key for one in whole for key in one.units if run.units[key] == "indeterminate"] == []


@some_situations(4)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_planted_bug_is_caught(mutant: Mutant, run: Run, tmp_path: Path) -> None:
    with planted(mutant, tmp_path) as modules:
        assert differences(judge(run.read, modules)[0], run.truth) != []


@pytest.mark.parametrize(
    ("wanted", "topic", "is_match"),
    [
        ("a/b", "a/b", True),
        ("a/b", "a", False),
        ("a/+", "a/b", True),
        ("a/+", "a/b/c", False),
        ("a/+", "a/", True),
        ("+/b", "a/b", True),
        ("a/#", "a", True),
        ("a/#", "a/b/c", True),
        ("a/#", "ab", False),
        ("#", "a/b", True),
        ("a/+/#", "a", False),
        ("a/+/#", "a/b", True),
    ],
)
def test_a_filter_matches_as_mqtt_says(wanted: str, topic: str, is_match: bool) -> None:
    assert topic_filter_matches(wanted, topic) is is_match
