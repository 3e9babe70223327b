"""Periods of broker states for the time line of the report."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from activemq_fleet.audit.broker_runs import ObservedBrokerRun
from activemq_fleet.audit.state_spans import HostStateSpan, host_state_spans

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)


def test_broker_run_without_known_state_has_no_span_in_time_line() -> None:
    started = ObservedBrokerRun("a", 2, chosen=NOON, started=NOON + timedelta(seconds=3))
    assert host_state_spans([ObservedBrokerRun("a", 1), started]) == [
        HostStateSpan("a", "starting", NOON, NOON + timedelta(seconds=3)),
        HostStateSpan("a", "active", NOON + timedelta(seconds=3), None),
    ]


def test_broker_run_without_known_end_lasts_until_next_run_in_time_line() -> None:
    next_run = ObservedBrokerRun("a", 2, chosen=NOON + timedelta(minutes=1))
    assert host_state_spans([ObservedBrokerRun("a", 1, chosen=NOON), next_run])[0] == HostStateSpan(
        "a", "starting", NOON, NOON + timedelta(minutes=1)
    )
