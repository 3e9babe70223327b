"""Verdicts of generated histories, compared with the true verdicts and with a simple reference, without Spark."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from activemq_fleet.audit.deliveries import topic_filter_matches
from tests.histories.damage import History, history
from tests.histories.judged import Read, Units, judge, read
from tests.histories.mutants import MUTANTS, Mutant, mutated_modules
from tests.histories.reference import Fleet
from tests.situations import some_situations

HISTORIES = int(os.environ.get("HISTORIES", "100"))


@dataclass(frozen=True)
class AuditedHistories:
    """Histories, and the verdicts of their deliveries and events."""

    histories: list[History]
    read: Read
    units: Units
    events: dict[str, str]

    @property
    def truth(self) -> Units:
        return {key: verdict for past in self.histories for key, verdict in past.units.items()}


@pytest.fixture(scope="module")
def audited_histories() -> AuditedHistories:
    """Return all histories with the verdicts of a common audit."""
    histories = [history(seed) for seed in range(HISTORIES)]
    journals = read({path: lines for past in histories for path, lines in past.files.items()})
    return AuditedHistories(histories, journals, *judge(journals))


def differences(verdicts: Units, expected: Units) -> list[str]:
    """Return the first ten differences between two sets of verdicts as readable text."""
    keys = sorted(key for key in {*verdicts, *expected} if verdicts.get(key) != expected.get(key))
    return [f"{key}: the verdict is {verdicts.get(key)}, but must be {expected.get(key)}" for key in keys[:10]]


def test_deliveries_of_generated_histories_have_true_verdicts(audited_histories: AuditedHistories) -> None:
    assert differences(audited_histories.units, audited_histories.truth) == []


def test_events_have_worst_verdict_of_their_deliveries(audited_histories: AuditedHistories) -> None:
    truth = {event: verdict for past in audited_histories.histories for event, verdict in past.events.items()}

    assert {e: (v, truth.get(e)) for e, v in audited_histories.events.items() if truth.get(e) != v} == {}
    assert audited_histories.events.keys() == truth.keys()


def test_audit_and_simple_reference_have_same_delivery_verdicts(audited_histories: AuditedHistories) -> None:
    reference_verdicts: Units = {}
    for past in audited_histories.histories:
        reference_verdicts |= Fleet(past.files).units

    assert differences(audited_histories.units, reference_verdicts) == []


def test_generated_histories_contain_each_delivery_verdict(audited_histories: AuditedHistories) -> None:
    counts = Counter(audited_histories.units.values())

    assert (
        min(counts[verdict] for verdict in ("delivered", "duplicate", "stuck", "lost", "indeterminate"))
        >= HISTORIES // 5
    )


def test_delivery_with_complete_evidence_is_not_indeterminate(audited_histories: AuditedHistories) -> None:
    complete = [past for past in audited_histories.histories if not any(past.missing.values())]

    assert len(complete) >= HISTORIES // 4
    assert [key for past in complete for key in past.units if audited_histories.units[key] == "indeterminate"] == []


@some_situations(4)
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_fault_injected_into_audit_code_changes_delivery_verdicts(
    mutant: Mutant, audited_histories: AuditedHistories, tmp_path: Path
) -> None:
    with mutated_modules(mutant, tmp_path) as modules:
        assert differences(judge(audited_histories.read, modules)[0], audited_histories.truth) != []


@pytest.mark.parametrize(
    ("topic_filter", "topic", "is_match"),
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
def test_topic_filter_of_audit_matches_topics_according_to_mqtt(topic_filter: str, topic: str, is_match: bool) -> None:
    assert topic_filter_matches(topic_filter, topic) is is_match
