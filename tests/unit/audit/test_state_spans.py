"""What the time line of the report is drawn from."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from activemq_fleet.audit.broker_runs import ObservedBrokerRun
from activemq_fleet.audit.state_spans import HostStateSpan, host_state_spans

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def test_a_run_whose_log_says_nothing_of_its_state_is_not_drawn() -> None:
    begun = ObservedBrokerRun("a", 2, chosen=NOON, started=NOON + timedelta(seconds=3))
    assert host_state_spans([ObservedBrokerRun("a", 1), begun]) == [
        HostStateSpan("a", "starting", NOON, NOON + timedelta(seconds=3)),
        HostStateSpan("a", "active", NOON + timedelta(seconds=3), None),
    ]


def test_a_run_that_nothing_ends_lasts_until_the_next() -> None:
    next_ = ObservedBrokerRun("a", 2, chosen=NOON + timedelta(minutes=1))
    assert host_state_spans([ObservedBrokerRun("a", 1, chosen=NOON), next_])[0] == HostStateSpan(
        "a", "starting", NOON, NOON + timedelta(minutes=1)
    )
