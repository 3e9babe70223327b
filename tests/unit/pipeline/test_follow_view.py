"""What a stream has read comes to the same events and lines as the batch makes of the files."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from activemq_fleet.spark.events import parse, survey
from activemq_fleet.spark.follow import view
from activemq_fleet.spark.follow.reading import LOST, beginning
from activemq_fleet.spark.follow.records import pieces
from activemq_fleet.spark.inputs import Host, InputFile, Inputs
from activemq_fleet.spark.verdicts.reading import lines_of_files
from tests.unit.pipeline.tailing import Stream
from tests.unit.pipeline.test_follow_tail import World

HOST = Host("mq01a", "Europe/Berlin", "5.18.3")


def inputs_of(files: list[InputFile]) -> Inputs:
    return Inputs("logs", tuple(sorted(files, key=lambda file: file.file)), {"mq01a": HOST}, ())


def of_batch(directory: Path) -> list[dict[str, Any]]:
    """The events that the batch makes of a host's logs."""
    found = {path.name: path.read_bytes() for path in directory.glob("activemq.log*") if path.stat().st_size}
    files = [
        InputFile(name, "mq01a", name, "log", len(data), name.endswith(".gz")) for name, data in sorted(found.items())
    ]
    looks = pa.RecordBatch.from_pylist(
        [
            {"path": file.path, "beginning": found[file.file], "cut": False, "compressed": file.compressed}
            for file in files
        ]
    )
    seen = {file.path: [survey.Seen(0, 0, b"", None)] for file in files}
    if len(files) > 1:
        for batch in survey._first_records(iter([looks])):
            seen |= {row["path"]: [survey.Seen(0, 0, row["head"], row["first"])] for row in batch.to_pylist()}
    places = survey.places_of(HOST, files, seen)
    events: list[dict[str, Any]] = []
    for file in files:
        part = places[file.path].parts[0]
        row = {"host": "mq01a", "file": file.file, "order": places[file.path].order, "release": HOST.release}
        row |= {"timezone": HOST.timezone, "first_line": 1, "skip": part.skip, "after": part.after or None}
        for batch in parse.scan_file({**row, "compressed": file.compressed}, memoryview(found[file.file])):
            events += batch.to_pylist()
    return sorted(events, key=lambda event: event["sequence"])


def slabs(stream: Stream) -> list[pa.Table]:
    """What Spark's workers get of a stream: slabs of all that is there."""
    files, chunks = [], {}
    for (host, number), (name, gone) in stream.names.items():
        data = stream.data.get((host, number), b"")
        if gone:
            continue
        kind = "log" if name.startswith("activemq.log") else "journal"
        chunks[number] = list(pieces(data, kind, 700))
        looks = [beginning(chunk) for _, _, chunk in chunks[number]]
        first = next((look["first"] for look in looks if look["first"]), None)
        head = view.head_of_file([look["head"] for look in looks], first)
        files.append(view._File(host, number, kind, name, len(data), head, first))
    listed = [
        InputFile(file.path, "mq01a", file.name, "log" if file.kind == "log" else "journal", file.size, False)
        for file in files
    ]
    tables = []
    for about in view._about(inputs_of(listed), files):
        rows = [
            {**about, "begin": begin, "line": line, "chunk": chunk, "problem": None}
            for begin, line, chunk in chunks[about["number"]]
        ]
        random.Random(1).shuffle(rows)  # Spark promises no order
        tables.append(pa.Table.from_pylist(rows))
    return tables


@pytest.mark.parametrize("seed", range(8))
def test_events_are_those_of_the_batch(tmp_path: Path, seed: int) -> None:
    world, stream = World(tmp_path, seed), Stream(tmp_path)
    for _ in range(60):
        world.step()
        stream.batch()
    world.end()
    stream.run()
    logs = [slab for slab in slabs(stream) if slab["file"][0].as_py().startswith("activemq.log")]
    found = [event for slab in logs for event in view.scan_slab(slab).to_pylist()]
    expected = of_batch(tmp_path / "mq01a")
    assert len(expected) > 50
    # Not every seed has a record that reaches over the end of a file; the first one does.
    assert seed or any("TheEndOfTheRecordBefore" in (event["stack"] or "") for event in expected)
    assert sorted(found, key=lambda event: event["sequence"]) == expected


def test_a_slab_without_a_record_has_no_events_in_the_columns_of_others() -> None:
    about = {"host": "h", "file": "activemq.log", "release": None, "timezone": "UTC", "order": 0, "skip": 0}
    piece = {**about, "begin": 0, "line": 0, "after": b"", "problem": LOST}
    one, none = (
        view.scan_slab(pa.Table.from_pylist([{**piece, "chunk": chunk, "end": len(chunk)}]))
        for chunk in (b"2026-03-01 10:00:00,123 | INFO  | here | a.B | main\n", b"")
    )
    assert (one.num_rows, none.num_rows) == (1, 0)
    assert none.schema.equals(one.schema)


def test_lines_of_journals_are_those_of_the_batch(tmp_path: Path) -> None:
    journal = tmp_path / "mq01a" / "agent" / "journal-000000001.jsonl"
    journal.parent.mkdir(parents=True)
    content = b"".join(b'{"jseq": %d, "topic": "%s"}\n' % (number, b"x" * 50) for number in range(100))
    content += b"\xff\xfe no UTF-8\n\n" + b'{"jseq": 101'
    journal.write_bytes(content)
    stream = Stream(tmp_path, most=1000)
    stream.run()
    (slab,) = slabs(stream)
    whole = pa.RecordBatch.from_pylist([{"path": "/mq01a/agent/journal-000000001.jsonl", "content": content}])
    expected = [row for batch in lines_of_files([whole]) for row in batch.to_pylist()]
    assert len(expected) == 103
    assert view.split_slab(slab).to_pylist() == expected
