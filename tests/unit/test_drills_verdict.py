"""The verdict of a drill: what it is, and which reason is told first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from activemq_fleet.drills.drill_verdict import (
    drill_headline,
    drill_verdict_and_reasons,
    fault_void_reason,
    loss_probability_upper_bound,
    minimum_event_rate,
)
from activemq_fleet.drills.model import Fault, FaultyEvent, PairEventCounts
from tests.unit.drilled import ACCOUNT, FAULT, result_of


def test_a_drill_with_nothing_to_say_is_clean() -> None:
    assert drill_verdict_and_reasons([FAULT], [ACCOUNT], 1) == ("clean", ())


@pytest.mark.parametrize("name", ["lost", "stuck", "duplicate"])
def test_one_event_that_was_not_handled_once_is_a_finding(name: str) -> None:
    units = (FaultyEvent("shop:e:7", name, "because"),)  # type: ignore[arg-type]

    changed: dict[str, Any] = {name: 1, "units": units}
    verdict, reasons = drill_verdict_and_reasons([FAULT], [replace(ACCOUNT, **changed)], 1)

    assert verdict == "findings"
    assert "1 of 1000 events of pair orders-mq01 was" in reasons[0]
    assert "shop:e:7: because" in reasons[0]


def test_a_fault_that_went_wrong_is_a_finding() -> None:
    verdict, reasons = drill_verdict_and_reasons([replace(FAULT, problem="no node took over")], [ACCOUNT], 1)

    assert verdict == "findings"
    assert reasons == ("fault 1 at host orders-mq01-a.example.com: no node took over",)


def test_a_journal_with_a_gap_is_never_clean() -> None:
    verdict, reasons = drill_verdict_and_reasons(
        [FAULT], [replace(ACCOUNT, gaps=("the subscriber: records 3 to 4 are missing",))], 1
    )

    assert verdict == "incomplete"
    assert reasons == ("incomplete: the subscriber: records 3 to 4 are missing",)


def test_faults_under_too_little_load_do_not_count() -> None:
    verdict, reasons = drill_verdict_and_reasons([replace(FAULT, void="31 events a second")], [ACCOUNT], 1)

    assert verdict == "void"
    assert reasons == ("only 0 of 1 planned faults were measured: 31 events a second",)


def test_a_fault_that_was_repeated_and_then_counted_is_enough() -> None:
    assert drill_verdict_and_reasons([replace(FAULT, void="31 events a second"), FAULT], [ACCOUNT], 1)[0] == "clean"


def test_a_drill_without_events_proves_nothing() -> None:
    nothing = PairEventCounts(pair="orders-mq01", protocol="MQTT", accepted=0, acknowledged=0, handled=0)

    assert drill_verdict_and_reasons([FAULT], [nothing], 1)[0] == "void"


def test_a_loss_is_told_before_a_gap_and_before_too_little_load() -> None:
    verdict, reasons = drill_verdict_and_reasons(
        [replace(FAULT, void="31")], [replace(ACCOUNT, lost=1, gaps=("a hole",))], 1
    )

    assert verdict == "findings"
    assert [reason.split()[0] for reason in reasons] == ["1", "incomplete:", "only"]


@pytest.mark.parametrize(
    ("account", "fault", "said"),
    [
        (ACCOUNT, FAULT, "Nothing was lost: 1 fault, 1,000 events accepted, each event handled once."),
        (replace(ACCOUNT, lost=2), FAULT, "2 events lost: 1 fault, 1,000 events accepted."),
        (
            ACCOUNT,
            replace(FAULT, void="31"),
            "This drill is inconclusive: only 0 of 1 planned faults were measured: 31. Check the logs of the "
            "brokers, and repeat the drill.",
        ),
        (
            replace(ACCOUNT, gaps=("a hole",)),
            FAULT,
            "It is not known whether events were lost: a hole. Repeat the drill.",
        ),
    ],
)
def test_the_headline_says_it_in_plain_words(account: PairEventCounts, fault: Fault, said: str) -> None:
    assert drill_headline(result_of([fault], [account])) == said


def test_a_fault_needs_fifty_events_a_second_or_half_of_a_lower_rate() -> None:
    assert minimum_event_rate(1000) == minimum_event_rate(100) == 50
    assert minimum_event_rate(40) == 20
    assert fault_void_reason(51, 50, 100) is None
    assert fault_void_reason(99, 49, 100) == (
        "the test load was 49 events per second before the fault, but the drill requires 50"
    )


def test_twenty_faults_without_a_loss_leave_fourteen_percent() -> None:
    assert loss_probability_upper_bound(20) == pytest.approx(0.139, abs=0.001)
    assert loss_probability_upper_bound(0) == 1
