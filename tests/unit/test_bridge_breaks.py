"""Bridges that break repeatedly, by the log of the broker that opened them; and what resembles them."""

from __future__ import annotations

from datetime import datetime

import pytest

from activemq_fleet.node.log.bridge_breaks import flapping_bridges
from activemq_fleet.node.log.log_records import Record

NOW = 1_796_000_000.0
FORWARDING = "org.apache.activemq.network.DemandForwardingBridgeSupport"
ERROR = "org.apache.activemq.MaxFrameSizeExceededException: Frame size of 10 MB is larger than max allowed 10 MB"


def record(at: float, message: str, logger: str = FORWARDING) -> Record:
    return Record(1, datetime.fromtimestamp(at), "INFO", message, logger, "Task-1")


def up(at: float, number: int, peer: str = "news-mq02") -> Record:
    remote = "tcp://news-mq02-a/10.0.0.2:61616@38292"
    return record(at, f"Network connection between vm://news-mq01#{number} and {remote} ({peer}) has been established.")


def broken(at: float, number: int, error: str = ERROR, side: str = "local") -> Record:
    remote = "tcp://news-mq02-a/10.0.0.2:61616@38292"
    text = f"Network connection between vm://news-mq01#{number} and {remote} shutdown due to a {side} error: {error}"
    return record(at, text)


def stopped(at: float, peer: str = "news-mq02") -> Record:
    return record(at, f"news-mq01 bridge to {peer} stopped")


def series(count: int, lasts: float = 1.0, pause: float = 2.0, until: float = NOW - 1) -> list[Record]:
    begins = [until - lasts - (lasts + pause) * number for number in reversed(range(count))]
    return [each for number, at in enumerate(begins) for each in (up(at, number), broken(at + lasts, number))]


def test_three_breaks_in_a_row_are_reported_with_the_error() -> None:
    (bridge,) = flapping_bridges(series(3), NOW)
    assert (bridge["peer"], bridge["count"], bridge["error"]) == ("news-mq02", 3, ERROR)
    assert bridge["first"] < bridge["last"]


def test_bridge_without_an_error_in_its_log_is_reported_too() -> None:
    records = [each for at in (3.0, 6.0, 9.0) for each in (up(NOW - 20 + at, 0), stopped(NOW - 19 + at))]
    (bridge,) = flapping_bridges(records, NOW)
    assert (bridge["count"], bridge["error"]) == (3, "")


def test_error_of_several_lines_is_reported_by_its_first() -> None:
    records = [each for at in (3.0, 6.0, 9.0) for each in (up(NOW - 20 + at, 0), broken(NOW - 19 + at, 0, "a: b\nc"))]
    (bridge,) = flapping_bridges(records, NOW)
    assert (bridge["count"], bridge["error"]) == (3, "a: b")


@pytest.mark.parametrize(
    "records",
    [
        series(2),
        series(5, lasts=30.0),
        series(5, until=NOW - 600),
        [*series(5, until=NOW - 60), up(NOW - 55, 9)],
        [*series(2, until=NOW - 60), up(NOW - 55, 9), broken(NOW - 20, 9), *series(2, until=NOW - 1)],
        [record(NOW - 9, each.message, "org.apache.activemq.Forged") for each in series(5)],
    ],
    ids=["two", "long lived", "long ago", "up again", "long life between", "another class"],
)
def test_bridge_that_does_not_break_repeatedly_is_not_reported(records: list[Record]) -> None:
    assert flapping_bridges(records, NOW) == []
