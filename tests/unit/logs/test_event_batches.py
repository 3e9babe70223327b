"""The scanner reads what the plain way reads, whatever the bytes are."""

from __future__ import annotations

import os
import time
from random import Random

import pyarrow as pa
import pytest

from activemq_fleet.logs.event_batches import PIECE, SCHEMA, LogReleaseAndTimeZone, LogScanner
from tests.log_reading import LINES, Row, differences, hostile

SECONDS = min(float(os.environ.get("FUZZ_SECONDS", "5")), 15)
LINE = LINES[0]


def scan(data: bytes, after: bytes = b"", **source: str) -> list[Row]:
    batches = list(LogScanner(LogReleaseAndTimeZone(**source)).scan_into_record_batches(data, after))
    rows: list[Row] = pa.Table.from_batches(batches, schema=SCHEMA).to_pylist()
    return rows


def test_any_log_is_read_as_the_plain_way_reads_it_and_every_line_is_counted() -> None:
    random, end, tried = Random(7), time.monotonic() + SECONDS, 0
    while time.monotonic() < end or tried < 100:
        data = hostile(random)
        wrong = differences(data, "Europe/Berlin" if b"-03-29 02" not in data else "UTC")
        assert not wrong, f"{data[:2000]!r}: {wrong}"
        tried += 1


@pytest.mark.parametrize("line", LINES, ids=range(len(LINES)))
def test_each_line_alone_between_two_records_is_read_as_the_plain_way_reads_it(line: bytes) -> None:
    assert differences(b"\n".join([LINE, line, LINE])) == ""


def test_a_log_larger_than_a_piece_is_read_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("activemq_fleet.logs.event_batches.PIECE", 1000)
    data = b"\n".join([*LINES, b""]) * 10
    assert len(list(LogScanner(LogReleaseAndTimeZone()).scan_into_record_batches(data))) > 5
    assert differences(data) == ""


def test_a_line_of_megabytes_is_one_event() -> None:
    data = LINE.replace(b"stomp", b"x" * (PIECE * 2)) + b"\n" + LINE + b"\n"
    first, second = scan(data)
    assert (len(first["message"]), second["line"]) == (PIECE * 2 + len("Connector  started"), 2)


def test_invalid_bytes_are_written_in_hexadecimal_and_counted_at_their_event() -> None:
    first, second = scan(LINE + b"\n" + LINE.replace(b"stomp", b"\xff\xc3") + b"\n\xfe\n")
    assert (first["problem"], second["problem"]) == (None, "3 invalid bytes")
    assert (second["message"], second["stack"]) == ("Connector \\xff\\xc3 started", "\\xfe")


def test_letters_beyond_ascii_and_null_bytes_stay() -> None:
    (event,) = scan(LINE.replace(b"stomp", "café\0".encode()))
    assert (event["message"], event["problem"]) == ("Connector café\0 started", None)


def test_start_of_next_file_continues_last_event_and_not_its_lines() -> None:
    (event,) = scan(LINE[:-2], after=LINE[-2:] + b"\n\tat x.Y(Z)\n")
    assert (event["thread"], event["stack"], event["end_line"]) == ("main", "\tat x.Y(Z)", 1)


def test_a_record_whose_date_is_cut_between_two_files_begins_in_the_first() -> None:
    first, second = scan(LINE + b"\n" + LINE[:15], after=LINE[15:] + b"\n")
    assert (first["line"], first["stack"], second["line"], second["end_line"]) == (1, None, 2, 2)
    assert second["thread"] == "main"


def test_times_are_utc_by_the_zone_of_the_host() -> None:
    (summer,) = scan(LINE.replace(b"2026-03-01", b"2026-07-01"), zone="America/New_York")
    assert (summer["time"].isoformat(), summer["raw_time"]) == (
        "2026-07-01T14:00:00.123000+00:00",
        "2026-07-01 10:00:00,123",
    )


def test_the_console_has_no_time_and_its_records_end_with_the_line() -> None:
    first, second = scan(b" INFO | Connector openwire started\nERROR | boom\njava.io.IOException: x\n")
    assert (first["kind"], first["level"], first["time"], first["logger"]) == ("LIFE-CONNECTOR-UP", "INFO", None, None)
    assert (second["message"], second["stack"], second["parsed"]) == ("boom", "java.io.IOException: x", True)


def test_a_line_of_the_console_within_a_file_is_no_record() -> None:
    (event,) = scan(LINE + b"\n INFO | printed by somebody\n")
    assert event["stack"] == " INFO | printed by somebody"


def test_a_torn_record_has_no_kind() -> None:
    torn, _ = scan(b"2026-03-01 10:00:00,000 | INFO  | Connector stomp started\n" + LINE)
    assert (torn["kind"], torn["parsed"], torn["message"]) == ("UNKNOWN", False, "Connector stomp started")


def test_a_kind_of_other_releases_is_none() -> None:
    line = LINE.replace(b"Connector stomp started", b"ActiveMQ JMS Message Broker (a, ID:x-1-2-0:0) started")
    line = line.replace(b"TransportConnector", b"BrokerService")
    assert [scan(line, release=release)[0]["kind"] for release in ("5.5.1", "5.18.3")] == [
        "LIFE-STARTED-OLD",
        "UNKNOWN",
    ]


@pytest.mark.parametrize("data", [b"", b"\n", b"\r\n", b"\n\n", b"\r", b"\n\r", b"\0", b"\xff"])
def test_next_to_nothing_is_counted_too(data: bytes) -> None:
    assert differences(data) == ""
