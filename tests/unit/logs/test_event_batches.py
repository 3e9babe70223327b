"""Tests of the log scanner: it reads the same events as the reference reader, for any bytes."""

from __future__ import annotations

import os
import time
from random import Random

import pyarrow as pa
import pytest

from activemq_fleet.logs.event_batches import PIECE, SCHEMA, LogReleaseAndTimeZone, LogScanner
from tests.log_reading import LINES, Row, first_difference, make_malformed_log

SECONDS = min(float(os.environ.get("FUZZ_SECONDS", "5")), 15)
LINE = LINES[0]


def scan(data: bytes, after: bytes = b"", **source: str) -> list[Row]:
    batches = list(LogScanner(LogReleaseAndTimeZone(**source)).arrow_batches_of_log_records(data, after))
    rows: list[Row] = pa.Table.from_batches(batches, schema=SCHEMA).to_pylist()
    return rows


def test_log_scanner_agrees_with_reference_reader_for_random_logs() -> None:
    random, end, number_of_logs = Random(7), time.monotonic() + SECONDS, 0
    while time.monotonic() < end or number_of_logs < 100:
        log = make_malformed_log(random)
        difference = first_difference(log, "Europe/Berlin" if b"-03-29 02" not in log else "UTC")
        assert not difference, f"{log[:2000]!r}: {difference}"
        number_of_logs += 1


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_log_scanner_agrees_with_reference_reader_for_each_kind_of_line(line: bytes) -> None:
    assert first_difference(b"\n".join([LINE, line, LINE])) == ""


def test_log_larger_than_piece_is_read_completely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("activemq_fleet.logs.event_batches.PIECE", 1000)
    log = b"\n".join([*LINES, b""]) * 10
    assert len(list(LogScanner(LogReleaseAndTimeZone()).arrow_batches_of_log_records(log))) > 5
    assert first_difference(log) == ""


def test_line_larger_than_piece_is_single_event() -> None:
    log = LINE.replace(b"stomp", b"x" * (PIECE * 2)) + b"\n" + LINE + b"\n"
    long_event, next_event = scan(log)
    assert (len(long_event["message"]), next_event["line"]) == (PIECE * 2 + len("Connector  started"), 2)


def test_invalid_bytes_are_written_in_hexadecimal_and_counted_per_event() -> None:
    valid_event, invalid_event = scan(LINE + b"\n" + LINE.replace(b"stomp", b"\xff\xc3") + b"\n\xfe\n")
    assert (valid_event["problem"], invalid_event["problem"]) == (None, "3 invalid bytes")
    assert (invalid_event["message"], invalid_event["stack"]) == ("Connector \\xff\\xc3 started", "\\xfe")


def test_non_ascii_letters_and_null_bytes_of_log_are_kept() -> None:
    (event,) = scan(LINE.replace(b"stomp", "café\0".encode()))
    assert (event["message"], event["problem"]) == ("Connector café\0 started", None)


def test_start_of_next_log_file_continues_last_event_without_counting_its_lines() -> None:
    (event,) = scan(LINE[:-2], after=LINE[-2:] + b"\n\tat x.Y(Z)\n")
    assert (event["thread"], event["stack"], event["end_line"]) == ("main", "\tat x.Y(Z)", 1)


def test_log_record_whose_date_is_split_between_files_begins_in_first_file() -> None:
    first_event, split_event = scan(LINE + b"\n" + LINE[:15], after=LINE[15:] + b"\n")
    assert (first_event["line"], first_event["stack"], split_event["line"], split_event["end_line"]) == (1, None, 2, 2)
    assert split_event["thread"] == "main"


def test_log_times_are_converted_from_time_zone_of_host_to_utc() -> None:
    (event,) = scan(LINE.replace(b"2026-03-01", b"2026-07-01"), zone="America/New_York")
    assert (event["time"].isoformat(), event["raw_time"]) == (
        "2026-07-01T14:00:00.123000+00:00",
        "2026-07-01 10:00:00,123",
    )


def test_record_of_console_log_has_no_time_and_ends_with_its_line() -> None:
    info_event, error_event = scan(b" INFO | Connector openwire started\nERROR | boom\njava.io.IOException: x\n")
    assert (info_event["kind"], info_event["level"], info_event["time"], info_event["logger"]) == (
        "LIFE-CONNECTOR-UP",
        "INFO",
        None,
        None,
    )
    assert (error_event["message"], error_event["stack"], error_event["parsed"]) == (
        "boom",
        "java.io.IOException: x",
        True,
    )


def test_line_of_console_layout_within_log_file_is_no_record() -> None:
    (event,) = scan(LINE + b"\n INFO | printed by somebody\n")
    assert event["stack"] == " INFO | printed by somebody"


def test_incomplete_log_record_has_no_kind() -> None:
    incomplete_event, _ = scan(b"2026-03-01 10:00:00,000 | INFO  | Connector stomp started\n" + LINE)
    assert (incomplete_event["kind"], incomplete_event["parsed"], incomplete_event["message"]) == (
        "UNKNOWN",
        False,
        "Connector stomp started",
    )


def test_log_message_of_different_release_has_unknown_kind() -> None:
    line = LINE.replace(b"Connector stomp started", b"ActiveMQ JMS Message Broker (a, ID:x-1-2-0:0) started")
    line = line.replace(b"TransportConnector", b"BrokerService")
    assert [scan(line, release=release)[0]["kind"] for release in ("5.5.1", "5.18.3")] == [
        "LIFE-STARTED-OLD",
        "UNKNOWN",
    ]


@pytest.mark.parametrize("data", [b"", b"\n", b"\r\n", b"\n\n", b"\r", b"\n\r", b"\0", b"\xff"])
def test_nearly_empty_log_is_counted(data: bytes) -> None:
    assert first_difference(data) == ""
