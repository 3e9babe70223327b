"""Logs as ``collect`` lays them down become events, however Spark cuts them up."""

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
from activemq_fleet.spark.audit_job import read_and_write_log_events
from activemq_fleet.spark.datasets import AtomicJobOutput
from activemq_fleet.spark.inputs import AuditedHost, AuditInputs, list_audit_inputs
from activemq_fleet.spark.log_events import EVENTS_SCHEMA, ONE_PARTITION, map_log_events
from activemq_fleet.spark.settings import temporary_settings
from tests.log_reading import LINES

LINE, OTHER = LINES[0], LINES[1].replace(b"03-29 02:30", b"03-02 02:30")
STACK = b"java.io.IOException: outer\n\tat some.Place.method(Place.java:1)\n2000 more\n"
Row = dict[str, Any]
_FOOTER = b"org.apache.spark.sql.parquet.row.metadata"
SAID = ("time", "raw_time", "level", "kind", "message", "stack", "logger", "thread", "fields", "parsed", "problem")


def lay(directory: Path, host: str, files: dict[str, bytes], **about: str | None) -> None:
    """A host's logs, and its host.json unless nothing is known about it."""
    place = directory / host
    place.mkdir(parents=True)
    for name, data in files.items():
        (place / name).write_bytes(data)
    if about:
        (place / "host.json").write_text(json.dumps({"host": host, **about}))


def events(spark: SparkSession, inputs: AuditInputs) -> DataFrame:
    """Every event, as tasks read them."""
    return map_log_events(spark, inputs, inputs.files_of_kind("log"), lambda batches: batches, EVENTS_SCHEMA)


def rows_of(frame: DataFrame) -> list[Row]:
    rows: list[Row] = frame.orderBy("host", "sequence").toArrow().to_pylist()
    return rows


def said(rows: list[Row]) -> list[Row]:
    return [{name: row[name] for name in SAID} for row in rows]


def scanned(data: bytes, release: str | None, zone: str) -> list[Row]:
    """What the scanner makes of the whole log at once."""
    batches = LogScanner(LogReleaseAndTimeZone(release, zone)).scan_into_record_batches(data)
    rows: list[Row] = pa.Table.from_batches(batches, schema=SCHEMA).to_pylist()
    return rows


@pytest.fixture
def large_files(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Files above 3 kB are large, and read as lines, which Spark's own settings would spread over partitions."""
    monkeypatch.setattr("activemq_fleet.spark.log_events._WHOLE", 3000)
    monkeypatch.setattr("activemq_fleet.spark.log_events._WHOLE_PACKED", 600)
    with temporary_settings(spark, {"spark.sql.files.openCostInBytes": "2000"}):
        yield


def test_logs_of_a_fleet_are_read_across_their_files(spark: SparkSession, tmp_path: Path) -> None:
    whole = b"".join(line + b"\n" for line in (LINE, OTHER, STACK[:-1], LINE.replace(b"2026-03-01", b"2026-03-03")))
    cut = whole.index(b"\tat some") + 5
    lay(
        tmp_path,
        "rolled",
        {"activemq.log.1.gz": gzip.compress(whole[:cut]), "activemq.log": whole[cut:]},
        timezone="Europe/Berlin",
        release="5.18.3",
        group="g",
    )
    lay(tmp_path, "h [2] %20", {"activemq.log": LINE + b"\r\n\xff" + OTHER + b"\n"}, timezone="UTC", release="5.5.1")
    lay(tmp_path, "unknown", {"activemq.log": STACK + LINE, "activemq.log.2": LINE + b"\n"})
    lay(tmp_path, "torn", {"activemq.log.1.gz": gzip.compress(whole * 50)[:-60]}, timezone="Mars/Olympus")

    inputs = list_audit_inputs(
        spark, str(tmp_path), {"unknown": AuditedHost("unknown", "America/New_York", "5.16.7", "g2")}
    )
    frame = events(spark, inputs)
    rows = rows_of(frame)
    of = {host: [row for row in rows if row["host"] == host] for host in inputs.hosts}

    assert frame.schema == EVENTS_SCHEMA
    assert said(of["rolled"]) == said(scanned(whole, "5.18.3", "Europe/Berlin"))
    assert [(row["file"], row["line"], row["end_line"]) for row in of["rolled"]] == [
        ("activemq.log.1.gz", 1, 1),
        ("activemq.log.1.gz", 2, 4),
        ("activemq.log", 3, 3),
    ]
    assert [(row["message"], row["stack"]) for row in of["h [2] %20"]] == [
        ("Connector stomp started", "\\xff" + OTHER.decode()),
    ]
    assert [(row["file"], row["parsed"], row["release"]) for row in of["unknown"]] == [
        ("activemq.log.2", True, "5.16.7"),
        ("activemq.log", False, "5.16.7"),
        ("activemq.log", True, "5.16.7"),
    ]
    assert of["unknown"][1]["message"] == STACK[:-1].decode()
    assert of["unknown"][0]["time"].hour == 15
    assert of["torn"][-1]["problem"] == TRUNCATED
    assert inputs.problems == (
        "torn: the time zone 'Mars/Olympus' is unknown: use a name such as Europe/Berlin, UTC or +02:00. "
        "The audit reads the times in the logs of the host as UTC",
        "unknown: the file host.json is missing. The audit uses group, pair and release from the inventory",
    )
    assert {(row["host"], row["problem"]) for row in rows if row["problem"]} == {
        ("h [2] %20", "1 invalid bytes"),
        ("torn", TRUNCATED),
        ("unknown", CUT_OFF),
    }


def test_large_files_are_read_as_the_one_log_that_they_are(
    spark: SparkSession, tmp_path: Path, large_files: None
) -> None:
    block = b"".join(line + b"\n" for line in (LINE, OTHER, STACK[:-1], b"", b"x" * 700, LINES[-1], LINE, LINES[11]))
    first, last = block * 6, block * 5 + b"2026-03-05 10:00:00,123 | INFO  | no end of line | a.B | main"
    lay(tmp_path, "a", {"activemq.log.1": first + STACK[:20], "activemq.log": STACK[20:] + last}, timezone="UTC")
    lay(tmp_path, "b", {"activemq.log": first + b"\n\n"}, timezone="UTC")

    with temporary_settings(spark, ONE_PARTITION):
        rows = rows_of(events(spark, list_audit_inputs(spark, str(tmp_path))))

    for host, data, problem in (("a", first + STACK + last, CUT_OFF), ("b", first + b"\n\n", None)):
        mine, wanted = [row for row in rows if row["host"] == host], scanned(data, None, "UTC")
        wanted[-1]["problem"] = problem
        assert said(mine) == said(wanted)
    assert [(row["line"], row["end_line"]) for row in rows if row["host"] == "b"] == [
        (row["line"], row["end_line"]) for row in scanned(first + b"\n\n", None, "UTC")
    ]


def test_what_workers_write_themselves_is_what_spark_writes(
    spark: SparkSession, tmp_path: Path, large_files: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = b"".join(line + b"\n" for line in (LINE, OTHER, STACK[:-1], b"x" * 700, *LINES))
    lay(tmp_path / "logs", "b", {"activemq.log.1": block * 6, "activemq.log": LINE + b"\n\xff" + OTHER}, timezone="UTC")
    lay(tmp_path / "logs", "a", {"activemq.log.1.gz": gzip.compress(LINE)[:-4], "activemq.log": LINE}, timezone="UTC")
    inputs = list_audit_inputs(spark, str(tmp_path / "logs"))
    found = {}
    for way in ("workers", "spark"):
        if way == "spark":
            monkeypatch.setattr(AtomicJobOutput, "_workers_directory", lambda _: None)
        with AtomicJobOutput(spark, str(tmp_path / way)) as output:
            read = read_and_write_log_events(spark, output, inputs)
            output.commit()
        place = tmp_path / way / "events"
        footers = {pq.read_metadata(path).metadata[_FOOTER] for path in place.iterdir()}
        found[way] = (
            sorted((one.to_dict() for one in read), key=lambda one: (one["host"], one["file"])),
            [json.loads(footer) for footer in footers],
            pq.read_schema(next(place.iterdir())).remove_metadata(),
            sorted(pq.read_table(place).to_pylist(), key=lambda row: (row["host"], row["file"], row["line"])),
        )

    summaries = found["workers"][0]
    assert sum(one["rows"] for one in summaries) > 50
    assert sum(one["unread"] for one in summaries)
    assert sum(len(one["problems"]) for one in summaries) == 4
    assert found["workers"] == found["spark"]


def test_without_logs_workers_write_a_dataset_without_rows(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "logs/h/agent").mkdir(parents=True)
    (tmp_path / "logs/h/agent/journal.jsonl").write_bytes(b"{}\n")
    with AtomicJobOutput(spark, str(tmp_path / "out")) as output:
        assert read_and_write_log_events(spark, output, list_audit_inputs(spark, str(tmp_path / "logs"))) == []
        assert output.row_counts_by_dataset == {"events": 0}


@pytest.mark.parametrize("names", [[], ["activemq.log"], ["a/readme.txt"]])
def test_a_directory_without_hosts_is_refused_in_one_line(
    spark: SparkSession, tmp_path: Path, names: list[str]
) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(LINE)
    with pytest.raises(
        InputError, match="this path contains no logs" if "activemq.log" not in names else "name its parent directory"
    ):
        list_audit_inputs(spark, str(tmp_path))
