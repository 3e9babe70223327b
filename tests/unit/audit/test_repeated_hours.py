"""Takeovers in the hour that the clocks of an autumn night show twice."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from activemq_fleet.audit.evidence import HostLogMinute, Incident
from activemq_fleet.logs.zones import LocalTimeConverter, first_occurrence_of_repeated_time
from tests.unit.audit.broker_logs import MASTER, NOON, STANDBY, A, B, audit_pair, kinds, log, only_incident

BERLIN = "Europe/Berlin"
FIRST = datetime(2026, 10, 25, 0, 0, tzinfo=UTC)
"""The first occurrence of 02:00 in Berlin; the second one is an hour later."""
SECONDS_TO_DAY_BEFORE = (FIRST - NOON).total_seconds() - 86400
TAKEOVER_AT_02_30 = ("1470:05 opened", "1470:06 starting", "1470:07 started")
"""Minutes and seconds after 02:00 of the day before."""


def logged_until(host: str, minutes: int, begin: int = -60) -> list[HostLogMinute]:
    """Return irrelevant records of a host every five minutes, from and to minutes after 02:00 (first occurrence)."""
    times = [FIRST + timedelta(minutes=minute) for minute in range(begin, minutes + 1, 5)]
    return [HostLogMinute(host, at, at) for at in times]


def audit_takeover(more: Sequence[object], timezone: str = BERLIN) -> list[Incident]:
    """Return the incidents of a pair whose standby B takes over at 02:30:05, read as the first occurrence."""
    active_log = log(A, *MASTER, clock=SECONDS_TO_DAY_BEFORE)
    standby_log = log(B, *STANDBY, *TAKEOVER_AT_02_30, clock=SECONDS_TO_DAY_BEFORE)
    return audit_pair(active_log, standby_log, more=more, timezone=timezone)


def test_takeover_in_second_occurrence_of_repeated_hour_is_no_split_brain() -> None:
    incident = only_incident(audit_takeover(logged_until(A, 85)))
    assert (incident.kind, incident.certainty) == ("takeover", "possible")
    assert incident.ended == FIRST + timedelta(minutes=90, seconds=7)
    assert "occurred twice" in incident.cause


def test_takeover_in_first_occurrence_of_repeated_hour_stays_there() -> None:
    incident = only_incident(audit_takeover(logged_until(A, 30)))
    assert (incident.kind, incident.certainty) == ("takeover", "proved")
    assert incident.ended == FIRST + timedelta(minutes=30, seconds=7)


@pytest.mark.parametrize(
    ("more", "timezone"),
    [
        (logged_until(A, 85), "UTC"),
        (logged_until(A, 120), BERLIN),
        ([*logged_until(A, 85), *logged_until(B, 80, begin=40)], BERLIN),
    ],
    ids=["time that occurs once", "overlap of more than an hour", "log with both occurrences"],
)
def test_split_brain_in_night_of_repeated_hour_is_reported(more: Sequence[object], timezone: str) -> None:
    assert kinds(audit_takeover(more, timezone)) == ["split_brain"]


@pytest.mark.parametrize(
    ("zone", "utc", "expected"),
    [
        (BERLIN, "2026-10-25T00:00:00", ("2026-10-25T00:00:00", "2026-10-25T01:00:00")),
        (BERLIN, "2026-10-25T00:59:59", ("2026-10-25T00:00:00", "2026-10-25T01:00:00")),
        (BERLIN, "2026-10-25T01:00:00", None),
        (BERLIN, "2026-10-24T23:59:59", None),
        (BERLIN, "2026-03-29T01:30:00", None),
        ("Australia/Lord_Howe", "2026-04-04T14:40:00", ("2026-04-04T14:30:00", "2026-04-04T15:00:00")),
        ("UTC", "2026-10-25T00:30:00", None),
        ("+02:00", "2026-10-25T00:30:00", None),
    ],
)
def test_first_occurrence_of_repeated_hour_is_found(zone: str, utc: str, expected: tuple[str, str] | None) -> None:
    occurrence = first_occurrence_of_repeated_time(zone, datetime.fromisoformat(utc).replace(tzinfo=UTC))
    assert occurrence == (expected and tuple(datetime.fromisoformat(end).replace(tzinfo=UTC) for end in expected))


@pytest.mark.parametrize(
    ("back", "is_second"), [(59, True), (25, True), (6, True), (4, False)], ids=["59 min", "25 min", "6 min", "4 min"]
)
def test_step_back_of_log_time_begins_second_occurrence(back: int, is_second: bool) -> None:
    before = int(FIRST.timestamp()) + 2 * 3600 + 59 * 60  # the local time 02:59
    times = LocalTimeConverter(BERLIN).to_utc(np.array([before, before - back * 60], np.int64))
    assert int(times[1] - times[0]) == (3600 if is_second else 0) - back * 60
