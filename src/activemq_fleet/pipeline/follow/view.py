"""What a stream has read, as the batch sees it: the same inputs, events and records as of the files themselves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute
from pyspark.sql import functions as sf

from activemq_fleet.logs.columns import Scanner, Source
from activemq_fleet.pipeline.audit.findings import Gap
from activemq_fleet.pipeline.audit.gathering import complete
from activemq_fleet.pipeline.events.parse import CUT_OFF, EVENTS, labelled, with_problem
from activemq_fleet.pipeline.events.survey import Place, Seen, places_of
from activemq_fleet.pipeline.follow.listing import listed
from activemq_fleet.pipeline.follow.reading import HEAD, LOST
from activemq_fleet.pipeline.inputs import Host, InputFile, Inputs
from activemq_fleet.pipeline.verdicts import words
from activemq_fleet.pipeline.verdicts.reading import lines_of_files
from activemq_fleet.pipeline.verdicts.records import parse_journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from activemq_fleet.pipeline.follow.state import State

SLAB = 32 << 20
"""Bytes of a file that are read at once, as the batch reads a whole file up to this size."""
_ABOUT = pa.schema(
    {
        "host": pa.string(),
        "number": pa.int64(),
        "file": pa.string(),
        "release": pa.string(),
        "timezone": pa.string(),
        "order": pa.int32(),
        "skip": pa.int64(),
        "after": pa.binary(),
        "end": pa.int64(),
    }
)
_LINES = "host string, file string, line long, value string, problem string"


@dataclass(frozen=True, slots=True)
class View:
    """The evidence after a micro-batch. ``events`` and ``records`` have the columns of the batch's; ``absent``: what
    is known to be missing.
    """

    inputs: Inputs
    events: DataFrame
    records: DataFrame
    absent: list[Gap]


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

    Runs small jobs: names, beginnings of files, host.json.
    """
    pieces = state.pieces(batch)
    files = _files(state, batch, pieces)
    if not files:
        return None
    inputs, absent = complete(_inputs(logs, inventory_hosts, files), inventory_hosts)
    about = state.spark.createDataFrame(pa.Table.from_pylist(list(_about(inputs, files)), schema=_ABOUT))
    slabs = pieces.withColumn("slab", sf.floor(sf.col("begin") / SLAB)).join(sf.broadcast(about), ["host", "number"])
    return View(inputs, _events(slabs), _records(slabs), absent)


def _files(state: State, batch: int, pieces: DataFrame) -> list[_File]:
    headed = sf.when(sf.length("head") > 0, sf.struct("begin", "head"))
    sizes = pieces.groupBy("host", "number").agg(
        sf.max(sf.col("begin") + sf.col("size")).alias("end"),
        sf.array_sort(sf.collect_list(headed)).alias("heads"),
        sf.min_by("first", sf.when(sf.col("first").isNotNull(), sf.col("begin"))).alias("first"),
    )
    rows = state.names(batch).join(sizes, ["host", "number"]).toArrow().to_pylist()
    files = []
    for row in sorted(rows, key=lambda row: (row["host"], row["number"])):
        name = f"{row['file']}.gone-{row['number']}" if row["gone"] else row["file"]
        head = head_of_file([piece["head"] for piece in row["heads"]], row["first"])
        files.append(_File(row["host"], row["number"], row["kind"], name, row["end"], head, row["first"]))
    return files


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
            "file": file.name,
            "release": host_.release,
            "timezone": host_.timezone,
            "order": place.order,
            "skip": part.skip,
            "after": part.after,
            "end": file.size,
        }


def _events(slabs: DataFrame) -> DataFrame:
    return slabs.where("kind = 'log'").groupBy("host", "number", "slab").applyInArrow(scan_slab, EVENTS)


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

    return to_arrow_schema(EVENTS).empty_table()


def _records(slabs: DataFrame) -> DataFrame:
    lines = slabs.where("kind = 'journal'").groupBy("host", "number", "slab").applyInArrow(split_slab, _LINES)
    return parse_journal(lines)


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
