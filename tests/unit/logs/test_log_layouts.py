"""Tests of log layouts: logs in different layouts have the same records and incidents as the default layout."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from activemq_fleet.audit.gaps import gaps_from_incomplete_log_files
from activemq_fleet.audit.log_summaries import LogFileSummary
from activemq_fleet.audit.omitted_files import HostLogFiles
from activemq_fleet.audit.result import InputGap
from activemq_fleet.logs.event_batches import SCHEMA, LogReleaseAndTimeZone, LogScanner
from activemq_fleet.logs.host_log_batches import LogFile, arrow_log_record_batches_of_host
from activemq_fleet.logs.rolled_files import preamble_and_first_record_date
from activemq_fleet.node.log.broker_log import phase_after_records, unreadable_log_reason
from activemq_fleet.node.log.log_layouts import READABLE_LAYOUTS
from activemq_fleet.node.log.log_records import Record, parse_log
from tests.log_reading import Row
from tests.situations import some_situations
from tests.support.log_layouts import WITH_THREADS, WITHOUT_THREADS, log_in_layout
from tests.support.recorded_logs import LOGS, audit_logs, read_log

Write = Callable[[Record], str]
CASES = sorted((LOGS / "cases").iterdir())
DIRECTORIES = [*CASES, LOGS / "healthy" / "5.18.3", LOGS / "healthy" / "5.5.1"]
LOG_WITH_ERROR = """\
2026-07-01 10:00:01,007 | ERROR | Failed to start | org.apache.activemq.broker.BrokerService | main
java.io.IOException: outer
\tat some.Place.method(Place.java:1)
Caused by: java.net.BindException: Address already in use
2026-07-01 10:00:02,000 | WARN  | a | b - [c] (d) | org.apache.activemq.x.Y | ActiveMQ BrokerService[b] Task-4
"""


def scan(log: bytes, zone: str = "UTC") -> list[Row]:
    rows: list[Row] = pa.Table.from_batches(
        list(LogScanner(LogReleaseAndTimeZone(zone=zone)).arrow_batches_of_log_records(log)), schema=SCHEMA
    ).to_pylist()
    return rows


def audit_in_layout(directory: Path, write: Write | None) -> tuple[list[object], list[object]]:
    logs = {home.name: read_log(home) for home in sorted(directory.iterdir())}
    if write is not None:
        logs = {host: log_in_layout(log, write) for host, log in logs.items()}
    nodes = [(name, f"{name[:-1]}b") for name in logs if name.endswith("-a") and f"{name[:-1]}b" in logs]
    findings = audit_logs(logs, nodes)
    return [asdict(incident) for incident in findings.incidents], [asdict(bridge) for bridge in findings.bridges]


@some_situations(4)
@pytest.mark.parametrize("layout", WITH_THREADS)
def test_log_in_supported_layout_has_incidents_of_default_layout(layout: str) -> None:
    for directory in DIRECTORIES:
        assert audit_in_layout(directory, WITH_THREADS[layout]) == audit_in_layout(directory, None), directory.name


@pytest.mark.parametrize("layout", WITHOUT_THREADS)
def test_log_in_layout_without_threads_has_kinds_of_default_layout(layout: str) -> None:
    for name in ("bridge-frame-too-large", "store-full-blocks", "both-wait-for-lock", "out-of-memory"):
        kinds = [
            [incident["kind"] for incident in audit_in_layout(LOGS / "cases" / name, write)[0]]  # type: ignore[index]
            for write in (WITHOUT_THREADS[layout], None)
        ]
        assert kinds[0] == kinds[1] != [], name


@pytest.mark.parametrize("layout", WITH_THREADS)
def test_record_in_supported_layout_has_fields_of_default_layout(layout: str) -> None:
    log = log_in_layout(LOG_WITH_ERROR.encode(), WITH_THREADS[layout])
    expected, rows = scan(LOG_WITH_ERROR.encode()), scan(log)
    for name in ("time", "raw_time", "level", "message", "logger", "thread", "stack", "kind", "parsed"):
        assert [row[name] for row in rows] == [row[name] for row in expected], name
    records = list(parse_log(log.decode()))
    assert [record.line for record in records] == [row["line"] for row in rows]
    assert [record.stack or None for record in records] == [row["stack"] for row in rows]
    assert [record.message for record in records] == [row["message"] for row in rows]
    assert rows[-1]["end_line"] == log.count(b"\n")


@pytest.mark.parametrize("layout", [*WITH_THREADS, *WITHOUT_THREADS])
def test_phase_of_broker_is_read_from_every_layout(layout: str) -> None:
    log = read_log(LOGS / "cases" / "both-wait-for-lock" / "dock-mq01-b")
    log_in_other_layout = log_in_layout(log, {**WITH_THREADS, **WITHOUT_THREADS}[layout])
    assert (
        phase_after_records(parse_log(log_in_other_layout.decode())).name
        == phase_after_records(parse_log(log.decode())).name
        == "waiting"
    )


@pytest.mark.parametrize("path", sorted((LOGS / "layouts").iterdir()), ids=lambda path: path.stem)
def test_records_that_log4j_wrote_are_read_in_every_layout(path: Path) -> None:
    """log4j 2.24.3 wrote three records through eleven appenders; the message of the second one has two lines."""
    log = path.read_bytes()
    rows, records = scan(log), list(parse_log(log.decode()))
    assert [row["level"] for row in rows] == ["INFO", "ERROR", "WARN"]
    assert [row["kind"] for row in rows] == ["LIFE-STARTED", "UNKNOWN", "UNKNOWN"]
    assert [row["message"] for row in rows] == [record.message for record in records]
    assert rows[1]["message"] in ("Failed to start", "Failed to start\nsecond line", r"Failed to start\nsecond line")
    assert "java.io.IOException: outer" in rows[1]["stack"]
    assert rows[2]["message"] == "last [x] - y | z | q"
    assert {row["thread"] for row in rows} == {"ActiveMQ BrokerService[north] Task-4"}
    assert {row["logger"] for row in rows} == {"org.apache.activemq.broker.BrokerService"}
    assert [row["line"] for row in rows] == [record.line for record in records]
    assert [f"{row['time']:%Y-%m-%d %H:%M:%S}" for row in rows] == [
        "2026-11-28 09:07:30",
        "2026-11-28 09:07:30",
        "2026-11-28 09:07:31",
    ]


def test_log_time_with_zone_is_converted_to_time_zone_of_host() -> None:
    line = b"2026-07-01T12:00:01,007+0300 | INFO  | text | org.apache.activemq.x.Y | main\n"
    (row,) = scan(line, zone="Europe/Berlin")
    assert row["raw_time"] == "2026-07-01 11:00:01,007"
    assert row["time"].isoformat() == "2026-07-01T09:00:01.007000+00:00"


def test_json_log_message_with_line_ends_is_single_record() -> None:
    forged = "2026-07-01 10:00:00,000 | INFO  | forged | org.apache.activemq.x.Y | main"
    record = Record(1, datetime(2026, 7, 1), "WARN", f"a\n{forged}", "org.apache.activemq.x.Z", "main", f"x\n{forged}")
    for name in ("JsonLayout", "ECS", "Logstash", "GELF", "GCP"):
        (row,) = scan(WITH_THREADS[name](record).encode())
        assert row["message"] == f"a\\n{forged}"
        assert row["stack"] == f"x\n {forged}"


def test_truncated_json_log_line_is_unreadable_record_of_its_line() -> None:
    log = log_in_layout(LOG_WITH_ERROR.encode(), WITH_THREADS["ECS"])
    lines = log.splitlines(keepends=True)
    rows = scan(lines[0] + lines[1][:40] + b"\n" + lines[1])
    assert [(row["line"], row["parsed"]) for row in rows] == [(1, True), (2, False), (3, True)]


def test_causes_in_json_log_with_frame_objects_are_stack_trace() -> None:
    text = (
        '{"timeMillis":1782900001007,"thread":"main","level":"ERROR","loggerName":"org.apache.activemq.x.Y",'
        '"message":"text","thrown":{"name":"java.io.IOException","message":"outer","extendedStackTrace":[{"line":1}],'
        '"cause":{"name":"java.net.BindException","message":"in use"}}}'
    )
    (row,) = scan(text.encode())
    assert row["stack"] == "java.io.IOException: outer\nCaused by: java.net.BindException: in use"


@pytest.mark.parametrize("value", ["1e400", '"x"', "[1]", "null", "{}", '{"epochSecond":"x"}', "-1e300", "true"])
def test_json_log_line_with_invalid_time_is_no_record(value: str) -> None:
    line = f'{{"time":{value},"thread":"t","level":"INFO","loggerName":"a.b","message":"m"}}\n'
    assert [row["parsed"] for row in scan(line.encode())] == [False]
    assert list(parse_log(line)) == []


@pytest.mark.parametrize("layout", WITH_THREADS)
def test_log_whose_layout_changes_is_read_completely(layout: str) -> None:
    log_in_other_layout = log_in_layout(LOG_WITH_ERROR.encode(), WITH_THREADS[layout])
    for log in (log_in_other_layout + LOG_WITH_ERROR.encode(), LOG_WITH_ERROR.encode() + log_in_other_layout):
        assert [row["level"] for row in scan(log)] == ["ERROR", "WARN", "ERROR", "WARN"]
        assert [record.level for record in parse_log(log.decode())] == ["ERROR", "WARN", "ERROR", "WARN"]


@pytest.mark.parametrize(
    "line",
    [
        "10:00:00,123 INFO [BrokerService] text",
        "0    [main] INFO  org.apache.activemq.broker.BrokerService  - text",
        "01 Mar 2026 10:00:00,123 | INFO | text | org.apache.activemq.broker.BrokerService | main",
        "2026-03-01 10:00:00,123 [main] INFO  o.a.a.b.BrokerService - text",
        "2026-03-01 10:00:00,123 [main] INFO  BrokerService - text",
    ],
)
def test_log_without_date_or_full_class_name_is_unreadable(line: str) -> None:
    assert [row["parsed"] for row in scan(f"{line}\n{line}\n".encode())] == [False]


@pytest.mark.parametrize("layout", WITH_THREADS)
def test_first_time_of_rolled_log_file_has_default_format(layout: str) -> None:
    log = b"\tat x.Y.z(Y.java)\n" + log_in_layout(LOG_WITH_ERROR.encode(), WITH_THREADS[layout])
    beginning = preamble_and_first_record_date(memoryview(log), compressed=False)
    assert beginning.first == "2026-07-01 10:00:01,007"
    assert beginning.head == b"\tat x.Y.z(Y.java)\n"


def gaps_of(log: bytes) -> list[InputGap]:
    file = LogFile("mq01", "activemq.log", LogReleaseAndTimeZone())
    summaries: dict[str, LogFileSummary] = {}
    for batch in arrow_log_record_batches_of_host([(file, memoryview(log))]):
        summaries.setdefault("mq01", LogFileSummary.empty_for_batch(batch)).count_events(batch)
    return gaps_from_incomplete_log_files(list(summaries.values()), {"mq01": HostLogFiles(("activemq.log",))})


@pytest.mark.parametrize("layout", [*WITH_THREADS, *WITHOUT_THREADS])
def test_log_in_supported_layout_has_no_input_gap(layout: str) -> None:
    assert gaps_of(log_in_layout(LOG_WITH_ERROR.encode(), {**WITH_THREADS, **WITHOUT_THREADS}[layout])) == []


def test_input_gap_of_unknown_layout_has_line_and_supported_layouts() -> None:
    (gap,) = gaps_of(b"10:00:00,123 INFO [BrokerService] text\n" * 3)
    assert (gap.file, gap.line, gap.weighs) == ("activemq.log", 1, True)
    assert gap.what.startswith(
        "1 of 1 log records could not be parsed, so the audit may lack incidents. The first of these records is in "
        "line 1: configure the log of the broker with the pattern %d | %-5p | "
    )


def test_input_gap_of_layout_without_packages_mentions_class_names() -> None:
    for logger in ("BrokerService", "o.a.a.b.BrokerService"):
        log = LOG_WITH_ERROR.partition("2026-07-01 10:00:02")[0].replace(
            "org.apache.activemq.broker.BrokerService", logger
        )
        (gap,) = gaps_of(log.encode())
        assert (gap.file, gap.line, gap.weighs) == ("activemq.log", 1, True)
        assert gap.what.startswith(
            "the log records have no full class names: configure the log of the broker with the pattern "
        )


def write_log(directory: Path, text: str, modified_at: float) -> str:
    log = directory / "activemq.log"
    log.write_text(text)
    os.utime(log, (modified_at, modified_at))
    return str(directory)


def test_unreadable_log_reason_of_unknown_layout_has_supported_layouts(tmp_path: Path) -> None:
    started_at = time.time() - 60
    data_directory = write_log(tmp_path, "10:00:00 [main] INFO o.a.a.b.BrokerService - started\n", started_at + 1)

    assert (
        unreadable_log_reason(data_directory, started_at)
        == f"the layout of the records in activemq.log is not supported: {READABLE_LAYOUTS}"
    )


def test_unreadable_log_reason_has_time_of_newest_readable_record(tmp_path: Path) -> None:
    started_at = time.time() - 60
    readable_record = "2026-03-01 10:00:00,123 | INFO  | started | org.apache.activemq.broker.BrokerService | main\n"
    data_directory = write_log(
        tmp_path, f"{readable_record}10:00:00 [main] INFO BrokerService - started\n", started_at + 1
    )

    assert unreadable_log_reason(data_directory, started_at).startswith(
        "the newest readable record in activemq.log has the time 2026-03-01 10:00:00, "
    )


@pytest.mark.parametrize("text", ["", "\n", None])
def test_log_without_records_of_running_broker_is_readable(tmp_path: Path, text: str | None) -> None:
    data_directory = str(tmp_path) if text is None else write_log(tmp_path, text, time.time())

    assert unreadable_log_reason(data_directory, time.time() - 60) == ""


def test_log_older_than_running_broker_is_readable(tmp_path: Path) -> None:
    data_directory = write_log(tmp_path, "10:00:00 [main] INFO BrokerService - started\n", time.time() - 600)

    assert unreadable_log_reason(data_directory, time.time() - 60) == ""


def test_log_with_record_of_running_broker_is_readable(tmp_path: Path) -> None:
    now = time.time()
    time_text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now))
    record = f"{time_text},123 | INFO  | started | org.apache.activemq.broker.BrokerService | main\n"

    assert unreadable_log_reason(write_log(tmp_path, record, now), now - 60) == ""
