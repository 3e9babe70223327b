"""A worker that has all files of a host reads them as the one log that they are, in whatever order they come."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from random import Random

import pyarrow as pa
import pytest

from activemq_fleet.logs.event_batches import SCHEMA, Scanner, Source
from activemq_fleet.spark.events import survey
from activemq_fleet.spark.events.files import Log, scan_files
from activemq_fleet.spark.events.survey import Part, Place
from activemq_fleet.spark.inputs import Host, InputFile
from tests.log_reading import LINES, Row

LINE = LINES[0]
STACK = b"java.io.IOException: outer\n\tat some.Place.method(Place.java:1)\n"
WHOLE = b"".join(b"2026-03-%02d 10:00:00,001 | INFO  | %d | a.B | main\n" % (day, day) for day in range(1, 29)) + STACK
SAID = ("time", "message", "stack")


def logs_of(contents: Mapping[str, bytes]) -> dict[str, Log]:
    """Files, by path HOST/NAME, whose places the worker has to find."""
    return {
        path: Log(
            InputFile(path, PurePosixPath(path).parts[0], PurePosixPath(path).name, "log", len(data), ".gz" in path),
            Host(PurePosixPath(path).parts[0]),
            None,
        )
        for path, data in contents.items()
    }


def batches(contents: Mapping[str, bytes], paths: list[str]) -> Iterator[pa.RecordBatch]:
    for path in paths:
        yield pa.RecordBatch.from_pydict({"path": [path], "content": pa.array([contents[path]], pa.binary())})


def read(
    contents: Mapping[str, bytes], paths: list[str], logs: Mapping[str, Log] | None = None, *, in_order: bool = True
) -> list[Row]:
    found = pa.Table.from_batches(scan_files(batches(contents, paths), logs or logs_of(contents), in_order=in_order))
    rows: list[Row] = found.to_pylist()
    return rows


def said(rows: list[Row]) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in SAID) for row in rows]


def rolled(host: str, random: Random) -> dict[str, bytes]:
    """WHOLE in three files, cut anywhere, but so that each has the beginning of a record."""
    one, other = random.randrange(60, len(WHOLE) // 2 - 120), random.randrange(len(WHOLE) // 2, len(WHOLE) - 200)
    return {
        f"{host}/activemq.log.2": WHOLE[:one],
        f"{host}/activemq.log.1.gz": gzip.compress(WHOLE[one:other]),
        f"{host}/activemq.log": WHOLE[other:],
    }


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("in_order", [True, False])
def test_files_cut_anywhere_are_one_log(seed: int, in_order: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    # Files that do not come in order are all waited for, however much they have grown since they were listed.
    monkeypatch.setattr("activemq_fleet.spark.events.files.IN_MEMORY", 100)
    random = Random(seed)
    contents = {**rolled("a", random), **rolled("a-b", random), "c/activemq.log": STACK + WHOLE}
    hosts = ["a", "a-b", "c"]
    paths = sorted(contents)
    random.shuffle(paths)
    if in_order:  # those of a host in any order, one host after the other
        paths.sort(key=lambda path: PurePosixPath(path).parts[0])
    rows = read(contents, paths, in_order=in_order)
    whole = pa.Table.from_batches(Scanner(Source()).scan(WHOLE), schema=SCHEMA).to_pylist()

    assert [row["host"] for row in rows] == sorted(row["host"] for row in rows)
    for host in hosts[:2]:
        mine = sorted((row for row in rows if row["host"] == host), key=lambda row: row["sequence"])
        assert said(mine) == said(whole)
    of_c = [row for row in rows if row["host"] == "c"]
    assert said(of_c[1:]) == said(whole)
    assert (of_c[0]["parsed"], of_c[0]["message"]) == (False, STACK.decode().rstrip())


def test_files_whose_places_are_known_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("activemq_fleet.spark.events.files.IN_MEMORY", 10)
    contents = {"h/activemq.log": LINE + b"\n", "h/activemq.log.1": LINE + b"\n"}
    known = {
        path: Log(log.file, log.host, Place(7, {0: Part(after=b"\tat x\n")})) for path, log in logs_of(contents).items()
    }
    monkeypatch.setattr("activemq_fleet.spark.events.files.beginning_of", None)
    rows = read(contents, ["h/activemq.log", "h/activemq.log.1"], known)
    assert [(row["stack"], row["sequence"] >> 40) for row in rows] == [("\tat x", 7)] * 2


def test_a_record_is_looked_for_further_on_where_the_beginning_has_none() -> None:
    head = b"\tat x\n" * (1 << 14)
    seen = survey.beginning_of(memoryview(head + LINE), compressed=False)
    assert (seen.head, seen.first, seen.too_long) == (head, LINE[:23].decode(), False)
    assert survey.beginning_of(memoryview(head), compressed=False).first is None
