"""Detection of bridges that break repeatedly in the log of the broker that opened them, and of similar cases."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from activemq_fleet.node.log.bridge_breaks import flapping_bridges, is_frame_size_error
from activemq_fleet.node.log.broker_log import read_log_records
from activemq_fleet.node.log.log_records import Record

NOW = 1_796_000_000.0
FORWARDING = "org.apache.activemq.network.DemandForwardingBridgeSupport"
ERROR = "org.apache.activemq.MaxFrameSizeExceededException: Frame size of 10 MB is larger than max allowed 10 MB"


def bridge_record(at: float, message: str, logger: str = FORWARDING) -> Record:
    return Record(1, datetime.fromtimestamp(at), "INFO", message, logger, "Task-1")


def established_record(at: float, number: int, peer: str = "news-mq02") -> Record:
    remote = "tcp://news-mq02-a/10.0.0.2:61616@38292"
    return bridge_record(
        at, f"Network connection between vm://news-mq01#{number} and {remote} ({peer}) has been established."
    )


def failed_record(at: float, number: int, error: str = ERROR, side: str = "local") -> Record:
    remote = "tcp://news-mq02-a/10.0.0.2:61616@38292"
    stop_message = (
        f"Network connection between vm://news-mq01#{number} and {remote} shutdown due to a {side} error: {error}"
    )
    return bridge_record(at, stop_message)


def stopped_record(at: float, peer: str = "news-mq02") -> Record:
    return bridge_record(at, f"news-mq01 bridge to {peer} stopped")


def repeated_breaks(count: int, lifetime: float = 1.0, pause: float = 2.0, until: float = NOW - 1) -> list[Record]:
    begin_times = [until - lifetime - (lifetime + pause) * number for number in reversed(range(count))]
    return [
        log_record
        for number, at in enumerate(begin_times)
        for log_record in (established_record(at, number), failed_record(at + lifetime, number))
    ]


def test_three_consecutive_breaks_of_bridge_are_reported_with_error() -> None:
    (bridge,) = flapping_bridges(repeated_breaks(3), NOW)
    assert (bridge["peer"], bridge["count"], bridge["error"]) == ("news-mq02", 3, ERROR)
    assert bridge["first"] < bridge["last"]


def test_breaks_in_second_occurrence_of_repeated_hour_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        now = datetime(2026, 10, 25, 1, 30, tzinfo=UTC).timestamp()  # 02:30, for the second time
        summer = now - 100 * 86400
        earlier_records = [established_record(summer, 9), failed_record(summer + 3600, 9)]
        (bridge,) = flapping_bridges([*earlier_records, *repeated_breaks(3, until=now - 1)], now)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert bridge["last"] == now - 1


def test_error_of_stack_is_reported_if_release_logs_unfilled_placeholder() -> None:
    records = repeated_breaks(3)
    records = [
        replace(
            log_record, message=log_record.message.replace(ERROR, "{}"), stack=f"{ERROR}\n\tat java.lang.Thread.run"
        )
        if ERROR in log_record.message
        else log_record
        for log_record in records
    ]

    (bridge,) = flapping_bridges(records, NOW)

    assert bridge["error"] == ERROR


def test_records_of_running_broker_have_error_of_bridge_from_stack(tmp_path: Path) -> None:
    failed = failed_record(time.time() - 5, 0)
    text = failed.message.replace(ERROR, "{}")
    line = f"{failed.time:%Y-%m-%d %H:%M:%S},000 | INFO  | {text} | {failed.logger} | Task-1\n"
    (tmp_path / "activemq.log").write_text(f"{line}{ERROR}\n\tat java.lang.Thread.run(Thread.java:1)\n")

    (log_record,) = read_log_records(str(tmp_path), 0)

    assert log_record.message == text
    assert log_record.message_with_error == failed.message
    assert failed.message_with_error == failed.message


def test_message_that_ends_with_braces_is_unchanged_without_stack_trace() -> None:
    record = replace(failed_record(NOW, 0), message="The transport options are {}", stack="")
    assert record.message_with_error == "The transport options are {}"


def test_bridge_that_breaks_repeatedly_without_logged_error_is_reported() -> None:
    records = [
        log_record
        for at in (3.0, 6.0, 9.0)
        for log_record in (established_record(NOW - 20 + at, 0), stopped_record(NOW - 19 + at))
    ]
    (bridge,) = flapping_bridges(records, NOW)
    assert (bridge["count"], bridge["error"]) == (3, "")


def test_multiline_error_of_breaking_bridge_is_reported_by_its_first_line() -> None:
    records = [
        log_record
        for at in (3.0, 6.0, 9.0)
        for log_record in (established_record(NOW - 20 + at, 0), failed_record(NOW - 19 + at, 0, "a: b\nc"))
    ]
    (bridge,) = flapping_bridges(records, NOW)
    assert (bridge["count"], bridge["error"]) == (3, "a: b")


@pytest.mark.parametrize(
    "records",
    [
        repeated_breaks(2),
        repeated_breaks(5, lifetime=30.0),
        repeated_breaks(5, until=NOW - 600),
        [*repeated_breaks(5, until=NOW - 60), established_record(NOW - 55, 9)],
        [
            *repeated_breaks(2, until=NOW - 60),
            established_record(NOW - 55, 9),
            failed_record(NOW - 20, 9),
            *repeated_breaks(2, until=NOW - 1),
        ],
        [bridge_record(NOW - 9, log_record.message, "org.apache.activemq.Forged") for log_record in repeated_breaks(5)],
    ],
    ids=["two breaks", "long lifetimes", "old breaks", "established again", "long lifetime between", "other logger"],
)
def test_bridge_that_does_not_break_repeatedly_is_not_reported(records: list[Record]) -> None:
    assert flapping_bridges(records, NOW) == []


@pytest.mark.parametrize(
    ("text", "is_error"),
    [
        (ERROR, True),
        ("java.io.IOException: Frame size of 14 MB larger than max allowed 10 MB", True),
        ("java.io.EOFException", False),
        ("", False),
    ],
)
def test_error_of_too_large_frame_is_recognized(text: str, is_error: bool) -> None:
    assert is_frame_size_error(text) is is_error


def test_shortened_error_of_flapping_bridge_contains_no_secret() -> None:
    uri = "failover:(tcp://app:Canary99@orders-mq01-b:61616)"
    for length in range(250, 300):
        error = f"java.io.IOException: {'x' * (length - 21)} {uri}"
        begin_times = [NOW - 9, NOW - 6, NOW - 3]
        records = [established_record(at, number) for number, at in enumerate(begin_times)]
        records += [failed_record(at + 1, number, error) for number, at in enumerate(begin_times)]
        (bridge,) = flapping_bridges(sorted(records, key=lambda record: record.time), NOW)
        assert bridge["error"].startswith("java.io.IOException: xxx")
        assert "Can" not in bridge["error"]
