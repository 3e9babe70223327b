"""Conversion of the logs that ``collect`` writes to events, independent of how Spark splits them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from activemq_fleet.errors import InputError
from activemq_fleet.logs.decompression import TRUNCATED
from activemq_fleet.logs.event_batches import SCHEMA, LogReleaseAndTimeZone, LogScanner
from activemq_fleet.logs.host_log_batches import CUT_OFF
from activemq_fleet.logs.rolled_files import BEGINNING
from activemq_fleet.spark.audit_job import write_log_events_and_summarize_files
from activemq_fleet.spark.datasets import AtomicJobOutput
from activemq_fleet.spark.inputs import AuditedHost, AuditInputs, binary_files_dataframe, list_audit_inputs
from activemq_fleet.spark.log_events import EVENTS_SCHEMA, ONE_PARTITION, _read_beginnings, map_log_events
from activemq_fleet.spark.settings import temporary_settings
from tests.log_reading import LINES

LINE, OTHER = LINES[0], LINES[1].replace(b"03-29 02:30", b"03-02 02:30")
STACK = b"java.io.IOException: outer\n\tat some.Place.method(Place.java:1)\n2000 more\n"
Row = dict[str, Any]
_FOOTER = b"org.apache.spark.sql.parquet.row.metadata"
EVENT_FIELDS = (
    "time",
    "raw_time",
    "level",
    "kind",
    "message",
    "stack",
    "logger",
    "thread",
    "fields",
    "parsed",
    "problem",
)


def write_logs(directory: Path, host: str, files: dict[str, bytes], **host_fields: str | None) -> None:
    """Write the logs of a host, and its host.json if fields are given."""
    host_directory = directory / host
    host_directory.mkdir(parents=True)
    for name, data in files.items():
        (host_directory / name).write_bytes(data)
    if host_fields:
        (host_directory / "host.json").write_text(json.dumps({"host": host, **host_fields}))


def events(spark: SparkSession, inputs: AuditInputs) -> DataFrame:
    """Return all events, as Spark tasks read them."""
    return map_log_events(spark, inputs, inputs.files_of_kind("log"), lambda batches: batches, EVENTS_SCHEMA)


def sorted_event_rows(frame: DataFrame) -> list[Row]:
    event_rows: list[Row] = frame.orderBy("host", "sequence").toArrow().to_pylist()
    return event_rows


def event_fields(rows: list[Row]) -> list[Row]:
    return [{name: row[name] for name in EVENT_FIELDS} for row in rows]


def scanned_events(data: bytes, release: str | None, zone: str) -> list[Row]:
    """Return the events that the scanner reads from a complete log."""
    batches = LogScanner(LogReleaseAndTimeZone(release, zone)).arrow_batches_of_log_records(data)
    event_rows: list[Row] = pa.Table.from_batches(batches, schema=SCHEMA).to_pylist()
    return event_rows


@pytest.fixture
def large_files(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Treat files above 3 kB as large files, which Spark reads as lines and distributes over partitions."""
    monkeypatch.setattr("activemq_fleet.spark.log_events._ONE_ROW_BYTES", 3000)
    monkeypatch.setattr("activemq_fleet.spark.log_events._ONE_ROW_PACKED_BYTES", 600)
    with temporary_settings(spark, {"spark.sql.files.openCostInBytes": "2000"}):
        yield


def test_log_records_across_rotated_files_are_read(spark: SparkSession, tmp_path: Path) -> None:
    complete_log = b"".join(
        line + b"\n" for line in (LINE, OTHER, STACK[:-1], LINE.replace(b"2026-03-01", b"2026-03-03"))
    )
    cut = complete_log.index(b"\tat some") + 5
    write_logs(
        tmp_path,
        "rolled",
        {"activemq.log.1.gz": gzip.compress(complete_log[:cut]), "activemq.log": complete_log[cut:]},
        timezone="Europe/Berlin",
        release="5.18.3",
        group="g",
    )
    write_logs(
        tmp_path, "h [2] %20", {"activemq.log": LINE + b"\r\n\xff" + OTHER + b"\n"}, timezone="UTC", release="5.5.1"
    )
    write_logs(tmp_path, "unknown", {"activemq.log": STACK + LINE, "activemq.log.2": LINE + b"\n"})
    write_logs(tmp_path, "torn", {"activemq.log.1.gz": gzip.compress(complete_log * 50)[:-60]}, timezone="Mars/Olympus")
    write_logs(tmp_path, "plain", {"activemq.log.1.gz": complete_log, "activemq.log": LINE + b"\n"}, timezone="UTC")

    inputs = list_audit_inputs(
        spark, str(tmp_path), {"unknown": AuditedHost("unknown", "America/New_York", "5.16.7", "g2")}
    )
    frame = events(spark, inputs)
    event_rows = sorted_event_rows(frame)
    rows_by_host = {host: [row for row in event_rows if row["host"] == host] for host in inputs.hosts}

    assert frame.schema == EVENTS_SCHEMA
    assert event_fields(rows_by_host["rolled"]) == event_fields(scanned_events(complete_log, "5.18.3", "Europe/Berlin"))
    assert [(row["file"], row["line"], row["end_line"]) for row in rows_by_host["rolled"]] == [
        ("activemq.log.1.gz", 1, 1),
        ("activemq.log.1.gz", 2, 4),
        ("activemq.log", 3, 3),
    ]
    assert [(row["message"], row["stack"]) for row in rows_by_host["h [2] %20"]] == [
        ("Connector stomp started", "\\xff" + OTHER.decode()),
    ]
    assert [(row["file"], row["parsed"], row["release"]) for row in rows_by_host["unknown"]] == [
        ("activemq.log.2", True, "5.16.7"),
        ("activemq.log", False, "5.16.7"),
        ("activemq.log", True, "5.16.7"),
    ]
    assert rows_by_host["unknown"][1]["message"] == STACK[:-1].decode()
    assert rows_by_host["unknown"][0]["time"].hour == 15
    assert rows_by_host["torn"][-1]["problem"] == TRUNCATED
    assert inputs.problems == (
        "torn: the time zone 'Mars/Olympus' is unknown: use a name such as Europe/Berlin, UTC or +02:00. "
        "The audit reads the times in the logs of the host as UTC",
        "unknown: the file host.json is missing. The audit uses group, pair and release from the inventory",
    )
    assert {(row["host"], row["problem"]) for row in event_rows if row["problem"]} == {
        ("h [2] %20", "1 invalid bytes"),
        (
            "plain",
            "the rest of the gzip file cannot be unpacked (Error -3 while decompressing data: incorrect header check): "
            "collect it from the host again",
        ),
        ("torn", TRUNCATED),
        ("unknown", CUT_OFF),
    }


def test_large_rotated_log_files_are_read_like_complete_log(
    spark: SparkSession, tmp_path: Path, large_files: None
) -> None:
    block = b"".join(line + b"\n" for line in (LINE, OTHER, STACK[:-1], b"", b"x" * 700, LINES[-1], LINE, LINES[11]))
    first_file, last_file = block * 6, block * 5 + b"2026-03-05 10:00:00,123 | INFO  | no end of line | a.B | main"
    write_logs(
        tmp_path,
        "a",
        {"activemq.log.1": first_file + STACK[:20], "activemq.log": STACK[20:] + last_file},
        timezone="UTC",
    )
    write_logs(tmp_path, "b", {"activemq.log": first_file + b"\n\n"}, timezone="UTC")

    with temporary_settings(spark, ONE_PARTITION):
        event_rows = sorted_event_rows(events(spark, list_audit_inputs(spark, str(tmp_path))))

    for host, data, problem in (("a", first_file + STACK + last_file, CUT_OFF), ("b", first_file + b"\n\n", None)):
        host_rows, expected_rows = [row for row in event_rows if row["host"] == host], scanned_events(data, None, "UTC")
        expected_rows[-1]["problem"] = problem
        assert event_fields(host_rows) == event_fields(expected_rows)
    assert [(row["line"], row["end_line"]) for row in event_rows if row["host"] == "b"] == [
        (row["line"], row["end_line"]) for row in scanned_events(first_file + b"\n\n", None, "UTC")
    ]


def test_large_gzip_logs_have_events_and_problems_of_small_ones(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = gzip.compress(b"".join(b"%s %d\n" % (LINE, number * 7919 % 99991) for number in range(900)))
    damaged = packed[: len(packed) // 2] + bytes([packed[len(packed) // 2] ^ 0x10]) + packed[len(packed) // 2 + 1 :]
    files = {"whole": packed, "torn": packed[:-500], "damaged": damaged, "plain": LINE * 50, "tail": packed + b"x" * 9}
    for host, data in files.items():
        write_logs(tmp_path, host, {"activemq.log": LINE + b"\n", "activemq.log.1.gz": data}, timezone="UTC")
    inputs = list_audit_inputs(spark, str(tmp_path))
    with temporary_settings(spark, ONE_PARTITION):
        expected_rows = sorted_event_rows(events(spark, inputs))
        monkeypatch.setattr("activemq_fleet.spark.log_events._ONE_ROW_PACKED_BYTES", 600)
        event_rows = sorted_event_rows(events(spark, inputs))
    assert event_rows == expected_rows
    assert {row["host"] for row in event_rows if row["problem"]} == {"torn", "damaged", "plain", "tail"}


def test_only_beginning_of_large_log_is_read_to_order_it(
    spark: SparkSession, tmp_path: Path, large_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    older_log = STACK + b"".join(b"%s %d\n" % (OTHER, number) for number in range(40_000))
    newer_log = older_log.replace(b"2026-03-02", b"2026-03-05")
    logs = {"activemq.log.2": older_log, "activemq.log.1.gz": gzip.compress(newer_log), "activemq.log": LINE + b"\n"}
    write_logs(tmp_path, "a", logs, timezone="UTC")
    inputs = list_audit_inputs(spark, str(tmp_path))
    whole_files: list[str] = []

    def record_whole_files(spark: SparkSession, paths: list[str]) -> DataFrame:
        whole_files.extend(paths)
        return binary_files_dataframe(spark, paths)

    monkeypatch.setattr("activemq_fleet.spark.log_events.binary_files_dataframe", record_whole_files)

    with temporary_settings(spark, ONE_PARTITION):
        beginnings = _read_beginnings(spark, inputs.files_of_kind("log"))

    assert len(older_log) > BEGINNING
    assert {Path(path).name: (beginning.head, beginning.first) for path, beginning in beginnings.items()} == {
        "activemq.log": (b"", "2026-03-01 10:00:00,123"),
        "activemq.log.1.gz": (STACK, "2026-03-05 02:30:00,000"),
        "activemq.log.2": (STACK, "2026-03-02 02:30:00,000"),
    }
    assert [Path(path).name for path in whole_files] == ["activemq.log"]


def test_spark_workers_write_same_log_events_as_spark_itself(
    spark: SparkSession, tmp_path: Path, large_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = b"".join(line + b"\n" for line in (LINE, OTHER, STACK[:-1], b"x" * 700, *LINES))
    write_logs(
        tmp_path / "logs", "b", {"activemq.log.1": block * 6, "activemq.log": LINE + b"\n\xff" + OTHER}, timezone="UTC"
    )
    write_logs(
        tmp_path / "logs", "a", {"activemq.log.1.gz": gzip.compress(LINE)[:-4], "activemq.log": LINE}, timezone="UTC"
    )
    write_logs(tmp_path / "logs", "c", {"activemq.log.1.gz": b"no gzip", "activemq.log": LINE + b"\n"}, timezone="UTC")
    inputs = list_audit_inputs(spark, str(tmp_path / "logs"))
    outputs = {}
    for writer in ("workers", "spark"):
        if writer == "spark":
            monkeypatch.setattr(AtomicJobOutput, "_workers_directory", lambda _: None)
        with AtomicJobOutput(spark, str(tmp_path / writer)) as output:
            log_summaries = write_log_events_and_summarize_files(spark, output, inputs)
            output.commit()
        events_directory = tmp_path / writer / "events"
        footers = {pq.read_metadata(path).metadata[_FOOTER] for path in events_directory.iterdir()}
        outputs[writer] = (
            sorted((summary.to_dict() for summary in log_summaries), key=lambda row: (row["host"], row["file"])),
            [json.loads(footer) for footer in footers],
            pq.read_schema(next(events_directory.iterdir())).remove_metadata(),
            sorted(
                pq.read_table(events_directory).to_pylist(), key=lambda row: (row["host"], row["file"], row["line"])
            ),
        )

    summaries = outputs["workers"][0]
    assert sum(summary["rows"] for summary in summaries) > 50
    assert sum(summary["unread"] for summary in summaries)
    assert sum(len(summary["problems"]) for summary in summaries) == 5
    assert outputs["workers"] == outputs["spark"]


def test_spark_workers_write_empty_dataset_of_events_without_logs(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "logs/h/agent").mkdir(parents=True)
    (tmp_path / "logs/h/agent/journal.jsonl").write_bytes(b"{}\n")
    with AtomicJobOutput(spark, str(tmp_path / "out")) as output:
        assert (
            write_log_events_and_summarize_files(spark, output, list_audit_inputs(spark, str(tmp_path / "logs"))) == []
        )
        assert output.row_counts_by_dataset == {"events": 0}


@pytest.mark.parametrize("names", [[], ["activemq.log"], ["a/readme.txt"]])
def test_audit_refuses_directory_without_logs_of_hosts(spark: SparkSession, tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(LINE)
    with pytest.raises(
        InputError, match="this path contains no logs" if "activemq.log" not in names else "name its parent directory"
    ):
        list_audit_inputs(spark, str(tmp_path))
