"""The dataset ``events``, written by the workers that read the logs: see ``activemq_fleet.spark.partfiles``.

What an audit costs is mostly that an event goes back to Java and into its Parquet writer
(docs/audit-speed.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from activemq_fleet.spark.events.build import scanned
from activemq_fleet.spark.events.parse import LINES
from activemq_fleet.spark.inputs import Inputs
from activemq_fleet.spark.partfiles import PartFile, keep_only, new_part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNLIKE = ("line", "end_line", "time", "raw_time", "parsed")
_DIGITS = re.compile(r"\d+")
_TOLD = StructType(
    [
        StructField("part", StringType()),
        StructField("host", StringType()),
        StructField("file", StringType()),
        StructField("turn", LongType()),
        StructField("rows", LongType()),
        StructField("unknown", LongType()),
        StructField("unread", LongType()),
        StructField("problems", ArrayType(StringType())),
    ]
)
_TOLD_ARROW = pa.schema(
    [
        *((name, pa.string()) for name in ("part", "host", "file")),
        *((name, pa.int64()) for name in ("turn", "rows", "unknown", "unread")),
        ("problems", pa.list_(pa.string())),
    ]
)


def write_events(spark: SparkSession, inputs: Inputs, place: Path, schema: pa.Schema) -> list[dict[str, Any]]:
    """Write every event of the logs below ``place``; a row for each log file and part it was written to.

    ``schema``: the dataset's columns and what its files' footers say. A row has ``part``, the name of the file
    below ``place``; ``host``, ``file``, ``turn``, which of the host's files it is; ``rows``; ``unknown`` and
    ``unread``, how many of them are; ``problems`` of their bytes, numbers written N.
    """
    place.mkdir(parents=True, exist_ok=True)
    through = _writing(str(place), schema)
    rows: list[dict[str, Any]] = scanned(spark, inputs, through, _TOLD).toArrow().to_pylist()
    keep_only(place, {row["part"] for row in rows}, schema)
    return rows


def _writing(place: str, schema: pa.Schema) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        told = _write_part(batches, Path(place), schema)
        if told:
            yield pa.RecordBatch.from_pylist(told, schema=_TOLD_ARROW)

    return write


def _write_part(batches: Iterator[pa.RecordBatch], place: Path, schema: pa.Schema) -> list[dict[str, Any]]:
    name = new_part()
    told: dict[tuple[str, str], dict[str, Any]] = {}
    part: PartFile | None = None
    try:
        for batch in batches:
            if batch.num_rows:
                part = part or PartFile(place / name, schema, _UNLIKE)
                part.add(batch)
                _tell(told, batch)
    finally:
        if part:
            part.close()
    return [{"part": name, **one, "problems": sorted(one["problems"])} for one in told.values()]


def _tell(told: dict[tuple[str, str], dict[str, Any]], batch: pa.RecordBatch) -> None:
    """Count a batch, which is of one file."""
    host, file = batch.column("host")[0].as_py(), batch.column("file")[0].as_py()
    one = told.setdefault(
        (host, file),
        {
            "host": host,
            "file": file,
            "turn": batch.column("sequence")[0].as_py() // LINES,
            "rows": 0,
            "unknown": 0,
            "unread": 0,
            "problems": set(),
        },
    )
    one["rows"] += batch.num_rows
    one["unknown"] += pc.sum(pc.equal(batch.column("kind"), "UNKNOWN")).as_py() or 0
    one["unread"] += batch.num_rows - batch.column("parsed").true_count
    problems = batch.column("problem")
    if problems.null_count < len(problems):
        one["problems"] |= {_DIGITS.sub("N", problem) for problem in problems.drop_null().to_pylist()}


def seen_of(told: list[dict[str, Any]]) -> Mapping[str, Any]:
    """What was told, in the terms of ``audit.gathering.watched``."""
    problems = {(row["host"], row["file"], what) for row in told for what in row["problems"]}
    turns = {(row["host"], row["file"], row["turn"]) for row in told}
    return {
        "problems": [dict(zip(("host", "file", "what"), one, strict=True)) for one in problems],
        "turns": [dict(zip(("host", "file", "turn"), one, strict=True)) for one in turns],
        "unknown": sum(row["unknown"] for row in told),
        "unread": sum(row["unread"] for row in told),
    }
