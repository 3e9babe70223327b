"""The verdict of a drill and the order of its reasons."""

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


def test_drill_without_problems_is_clean() -> None:
    assert drill_verdict_and_reasons([FAULT], [ACCOUNT], 1) == ("clean", ())


@pytest.mark.parametrize("name", ["lost", "stuck", "duplicate"])
def test_event_that_was_not_handled_once_is_finding(name: str) -> None:
    units = (FaultyEvent("shop:e:7", name, "because"),)  # type: ignore[arg-type]

    differences: dict[str, Any] = {name: 1, "units": units}
    verdict, reasons = drill_verdict_and_reasons([FAULT], [replace(ACCOUNT, **differences)], 1)

    assert verdict == "findings"
    assert "1 of 1000 events of pair orders-mq01 was" in reasons[0]
    assert "shop:e:7: because" in reasons[0]


def test_fault_with_problem_is_finding_of_drill() -> None:
    verdict, reasons = drill_verdict_and_reasons([replace(FAULT, problem="no node took over")], [ACCOUNT], 1)

    assert verdict == "findings"
    assert reasons == ("fault 1 at host orders-mq01-a.example.com: no node took over",)


def test_drill_with_missing_journal_records_is_incomplete() -> None:
    verdict, reasons = drill_verdict_and_reasons(
        [FAULT], [replace(ACCOUNT, gaps=("the subscriber: records 3 to 4 are missing",))], 1
    )

    assert verdict == "incomplete"
    assert reasons == ("incomplete: the subscriber: records 3 to 4 are missing",)


def test_drill_whose_load_ended_too_early_is_incomplete() -> None:
    verdict, reasons = drill_verdict_and_reasons([FAULT], [ACCOUNT], 1, "the test load stopped")

    assert (verdict, reasons) == ("incomplete", ("incomplete: the test load stopped",))


def test_fault_under_insufficient_load_does_not_count() -> None:
    verdict, reasons = drill_verdict_and_reasons([replace(FAULT, void="31 events per second")], [ACCOUNT], 1)

    assert verdict == "void"
    assert reasons == ("only 0 of 1 planned faults were measured: 31 events per second",)


def test_drill_is_clean_when_repeated_fault_counts() -> None:
    assert drill_verdict_and_reasons([replace(FAULT, void="31 events per second"), FAULT], [ACCOUNT], 1)[0] == "clean"


def test_drill_without_events_is_void() -> None:
    no_events = PairEventCounts(pair="orders-mq01", protocol="MQTT", accepted=0, acknowledged=0, handled=0)

    assert drill_verdict_and_reasons([FAULT], [no_events], 1)[0] == "void"


def test_drill_reports_loss_before_incomplete_journal_and_low_load() -> None:
    verdict, reasons = drill_verdict_and_reasons(
        [replace(FAULT, void="31")], [replace(ACCOUNT, lost=1, gaps=("a hole",))], 1
    )

    assert verdict == "findings"
    assert [reason.split()[0] for reason in reasons] == ["1", "incomplete:", "only"]


@pytest.mark.parametrize(
    ("account", "fault", "headline"),
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
def test_headline_states_result_of_drill(account: PairEventCounts, fault: Fault, headline: str) -> None:
    assert drill_headline(result_of([fault], [account])) == headline


def test_minimum_event_rate_of_drill_is_50_per_second_or_half_of_lower_rate() -> None:
    assert minimum_event_rate(1000) == minimum_event_rate(100) == 50
    assert minimum_event_rate(40) == 20
    assert fault_void_reason(51, 50, 100) is None
    assert fault_void_reason(99, 49, 100) == (
        "the test load was 49 events per second before the fault, but the drill requires 50"
    )


def test_loss_probability_bound_after_20_faults_is_14_percent() -> None:
    assert loss_probability_upper_bound(20) == pytest.approx(0.139, abs=0.001)
    assert loss_probability_upper_bound(0) == 1
