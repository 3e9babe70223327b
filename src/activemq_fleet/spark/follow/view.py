"""What a stream has read, as the batch sees it: the same inputs, events and records as of the files themselves."""

from __future__ import annotations

import functools
import operator
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute
from pyspark.sql import functions as sf
from pyspark.sql.types import LongType, StringType, StructField, StructType

from activemq_fleet.audit.result import Gap
from activemq_fleet.logs.event_batches import Scanner, Source
from activemq_fleet.spark.audit.gathering import complete
from activemq_fleet.spark.events.parse import CUT_OFF, EVENTS, labelled, with_problem
from activemq_fleet.spark.events.survey import Place, Seen, places_of
from activemq_fleet.spark.follow.listing import listed
from activemq_fleet.spark.follow.parts import tagged, untagged
from activemq_fleet.spark.follow.reading import HEAD, LOST
from activemq_fleet.spark.follow.slabs import SLAB, Slab, slabs_of
from activemq_fleet.spark.inputs import Host, InputFile, Inputs
from activemq_fleet.spark.verdicts import words
from activemq_fleet.spark.verdicts.reading import lines_of_files
from activemq_fleet.spark.verdicts.records import parse_journal

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from activemq_fleet.spark.follow.state import State

_WANTED = pa.schema(
    {
        "host": pa.string(),
        "number": pa.int64(),
        "slab": pa.int64(),
        "kind": pa.string(),
        "file": pa.string(),
        "release": pa.string(),
        "timezone": pa.string(),
        "order": pa.int32(),
        "skip": pa.int64(),
        "after": pa.binary(),
        "end": pa.int64(),
        "share": pa.string(),
    }
)
_OF_PIECES = ("host", "number", "begin", "line", "size", "hash", "head", "first", "problem")
_LINES = "host string, file string, line long, value string, problem string"
_SCANNED = StructType([*EVENTS.fields, StructField("number", LongType()), StructField("share", StringType())])
_CONDITIONS = 200
"""Files that a condition names at most: longer ones cost more than they save."""


@dataclass(frozen=True, slots=True)
class View:
    """The evidence after a micro-batch. ``absent``: what is known to be missing."""

    inputs: Inputs
    absent: list[Gap]
    slabs: list[Slab]


@dataclass(frozen=True, slots=True)
class _File:
    """A file that was read. ``name`` is no other file's of the host, also when it is gone and its name was given on."""

    host: str
    number: int
    kind: str
    name: str
    size: int
    head: bytes
    first: str | None

    @property
    def path(self) -> str:
        return f"{self.host}/{self.number}"


def view(state: State, batch: int, logs: str, inventory_hosts: Mapping[str, Host] | None) -> View | None:
    """Everything that was read up to a micro-batch; None if that is nothing.

    Runs small jobs: names, and what is known of the pieces besides their bytes.
    """
    pieces = state.pieces(batch).select(*_OF_PIECES).toArrow().to_pylist()
    files = files_of(state.names(batch).toArrow().to_pylist(), pieces)
    if not files:
        return None
    inputs, absent = complete(_inputs(logs, inventory_hosts, files), inventory_hosts)
    return View(inputs, absent, slabs_of(_about(inputs, files), pieces))


def rows_of(state: State, batch: int, slabs: Iterable[tuple[Slab, str]]) -> DataFrame:
    """The pieces of some slabs, each with a word ``share``, beside what is known of their files."""
    wanted = [{**slab.about, "share": share} for slab, share in slabs]
    about = state.spark.createDataFrame(pa.Table.from_pylist(wanted, schema=_WANTED))
    pieces = state.pieces(batch, _only(wanted)).drop("kind").withColumn("slab", sf.floor(sf.col("begin") / SLAB))
    return pieces.join(sf.broadcast(about), ["host", "number", "slab"])


def _only(wanted: Sequence[Mapping[str, Any]]) -> Column | None:
    """A condition that readers understand, so that they leave the bytes of all others where they are."""
    ends: dict[tuple[str, int], list[int]] = defaultdict(list)
    for row in wanted:
        ends[row["host"], row["number"]].append(row["slab"])
    if not ends or len(ends) > _CONDITIONS:
        return None
    begin = sf.col("begin")
    found = [
        (sf.col("host") == host)
        & (sf.col("number") == number)
        & (begin >= min(slabs) * SLAB)
        & (begin < (max(slabs) + 1) * SLAB)
        for (host, number), slabs in sorted(ends.items())
    ]
    return functools.reduce(operator.or_, found)


def files_of(names: Iterable[Mapping[str, Any]], pieces: Iterable[Mapping[str, Any]]) -> list[_File]:
    """The files that were read, by host and number, from their names and pieces."""
    read: dict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)
    for piece in pieces:
        read[piece["host"], piece["number"]].append(piece)
    files = []
    for row in sorted(names, key=lambda row: (row["host"], row["number"])):
        mine = sorted(read.get((row["host"], row["number"]), ()), key=lambda piece: (piece["begin"], piece["size"]))
        if mine:
            name = f"{row['file']}.gone-{row['number']}" if row["gone"] else row["file"]
            end = max(piece["begin"] + piece["size"] for piece in mine)
            first = next((piece["first"] for piece in mine if piece["first"] is not None), None)
            head = head_of_file(_heads(mine), first)
            files.append(_File(row["host"], row["number"], row["kind"], name, end, head, first))
    return files


def _heads(pieces: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
    """What stands before a file's first record. A later piece that begins within one has a head too."""
    for piece in pieces:
        yield piece["head"] or b""
        if piece["first"] is not None:
            return


def head_of_file(heads: Iterable[bytes], first: str | None) -> bytes:
    """What stands before a log's first record, which may have been read in pieces; as ``events.survey`` takes it."""
    head = b"".join(heads)
    return head if first is not None and len(head) <= HEAD else b""


def _inputs(logs: str, inventory_hosts: Mapping[str, Host] | None, files: list[_File]) -> Inputs:
    """As the batch lists them, but of logs and journals those that were read, however far."""
    found = listed(logs, inventory_hosts)
    there = {(file.host, file.file): file for file in found.files}
    read = []
    for file in files:
        known = there.get((file.host, file.name))
        mine = InputFile(file.path, file.host, file.name, "log", file.size, compressed=False)
        read.append(replace(known or mine, path=file.path, kind="log" if file.kind == "log" else "journal"))
    others = [file for file in found.files if file.kind not in ("log", "journal")]
    hosts = dict(found.hosts)
    for file in files:
        hosts.setdefault(file.host, (inventory_hosts or {}).get(file.host, Host(file.host)))
    together = sorted([*others, *read], key=lambda file: (file.host, file.file))
    return Inputs(found.root, tuple(together), hosts, found.problems)


def _about(inputs: Inputs, files: list[_File]) -> Iterator[dict[str, Any]]:
    """Whose each file is, and what reaches over its ends: by the rules of the batch, see ``events.survey``."""
    logs: dict[str, list[InputFile]] = defaultdict(list)
    for log in inputs.of_kind("log"):
        logs[log.host].append(log)
    seen = {file.path: [Seen(0, 0, file.head, file.first)] for file in files}
    places: dict[str, Place] = {}
    for host, mine in logs.items():
        places |= places_of(inputs.hosts[host], mine, seen)
    for file in files:
        place, host_ = places.get(file.path, Place()), inputs.hosts[file.host]
        part = place.parts[0]
        yield {
            "host": file.host,
            "number": file.number,
            "kind": file.kind,
            "file": file.name,
            "release": host_.release,
            "timezone": host_.timezone,
            "order": place.order,
            "skip": part.skip,
            "after": part.after,
            "end": file.size,
        }


def events(rows: DataFrame) -> DataFrame:
    """The events of ``rows_of`` logs: EVENTS, number, share."""
    return rows.groupBy("host", "number", "slab").applyInArrow(_scan, _SCANNED)


def _scan(slab: pa.Table) -> pa.Table:
    found = scan_slab(slab)
    for name in ("number", "share"):
        value = pa.scalar(slab.column(name)[0].as_py(), _WANTED.field(name).type)
        found = found.append_column(name, pa.repeat(value, found.num_rows))
    return found


def scan_slab(slab: pa.Table) -> pa.Table:
    """The events of a slab of a log; runs in Spark's workers."""
    about, data, problem = _joined(slab)
    scanner = Scanner(Source(about["release"], about["timezone"] or "UTC"), about["line"] + 1)
    skip = about["skip"] if about["begin"] == 0 else 0
    scanner.line += data[:skip].count(b"\n")
    ends = about["begin"] + len(data) == about["end"]
    after = about["after"] if ends else b""
    found = list(scanner.scan(data[skip:], after))
    if ends and not after and not problem and data[-1:] not in (b"", b"\n"):
        problem = CUT_OFF
    if problem and found:
        found[-1] = with_problem(found[-1], problem)
    batches = [labelled(batch, about["host"], about["file"], about["release"], about["order"]) for batch in found]
    return pa.Table.from_batches(batches, batches[0].schema) if batches else _no_events()


def _no_events() -> pa.Table:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(EVENTS, timezone="UTC").empty_table()


def records(rows: DataFrame) -> DataFrame:
    """The records of ``rows_of`` journals: RECORDS, share."""
    lines = rows.groupBy("host", "number", "slab").applyInArrow(_split, _LINES)
    return untagged(parse_journal(lines))


def _split(slab: pa.Table) -> pa.Table:
    found = split_slab(slab)
    host, share = slab.column("host")[0].as_py(), slab.column("share")[0].as_py()
    return found.set_column(0, "host", pa.repeat(pa.scalar(tagged(host, share)), found.num_rows))


def split_slab(slab: pa.Table) -> pa.Table:
    """The lines of a slab of a journal; runs in Spark's workers."""
    about, data, problem = _joined(slab)
    whole = pa.RecordBatch.from_pylist([{"path": f"/{about['host']}/{about['file']}", "content": data}])
    batches = list(lines_of_files([whole]))
    if problem:
        problem = problem if problem == LOST else words.CUT_OFF
        line = data.count(b"\n") + (1 if data and not data.endswith(b"\n") else 0) + 1
        last = {"host": about["host"], "file": about["file"], "line": line, "value": None, "problem": problem}
        batches.append(pa.RecordBatch.from_pylist([last], schema=_lines_schema()))
    table = pa.Table.from_batches(batches, _lines_schema())
    at = table.schema.get_field_index("line")
    return table.set_column(at, "line", pa.compute.add(table.column("line"), about["line"]))


def _lines_schema() -> pa.Schema:
    text = pa.string()
    return pa.schema({"host": text, "file": text, "line": pa.int64(), "value": text, "problem": text})


def _joined(slab: pa.Table) -> tuple[dict[str, Any], bytes, str | None]:
    """What is known of a slab, with ``begin`` and ``line`` of its first piece; its bytes; what ails its end."""
    slab = slab.sort_by("begin")
    about = slab.drop_columns(["chunk"]).slice(0, 1).to_pylist()[0]
    data = b"".join(piece.as_buffer() for piece in slab.column("chunk"))
    return about, data, slab.column("problem")[-1].as_py()
