"""The datasets, written by the workers that compute them.

Where that is possible (``Output.own_place``) nothing has to be kept for a second pass, and no text goes
to Java and back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from activemq_fleet.spark.footers import schema_of
from activemq_fleet.spark.partfiles import PartFile, keep_only, new_part
from activemq_fleet.spark.plan import parts
from activemq_fleet.spark.plan.context import Context
from activemq_fleet.spark.plan.packing import TABLES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COUNTS = (*TABLES, "blocking", "withheld")
_TOLD = pa.schema([("part", pa.string()), ("error", pa.string()), *((name, pa.int64()) for name in _COUNTS)])
_TOLD_DDL = ", ".join(["part string", "error string", *(f"{name} bigint" for name in _COUNTS)])

Told = dict[str, Any]


def write_tables(rows: DataFrame, context: Context, places: Mapping[str, Path]) -> Told:
    """Compute rows of ``parts.COLUMNS``, and write the tables below their ``places``.

    Gives the number of rows of each table, ``blocking``, ``withheld``, and the first ``error`` or None.
    """
    schemas = {name: schema_of(name) for name in TABLES}
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    through = partial(_write, context=context, places={name: str(place) for name, place in places.items()}, to=schemas)
    told = rows.mapInArrow(through, _TOLD_DDL).toArrow()
    for name, place in places.items():
        keep_only(place, told.filter(pc.greater(told[name], 0))["part"].to_pylist(), schemas[name])
    return {"error": pc.min(told["error"]).as_py()} | {name: pc.sum(told[name]).as_py() or 0 for name in _COUNTS}


def _write(
    batches: Iterable[pa.RecordBatch], *, context: Context, places: Mapping[str, str], to: Mapping[str, pa.Schema]
) -> Iterator[pa.RecordBatch]:
    part = new_part()
    told: Told = dict.fromkeys(_COUNTS, 0) | {"part": part, "error": None}
    files: dict[str, PartFile] = {}
    try:
        for tables in parts.computed(batches, context):
            told["blocking"] += tables.blocking
            told["withheld"] += tables.withheld
            told["error"] = told["error"] or tables.error
            for name, batch in tables.batches(content=context.content):
                if name not in files:
                    files[name] = PartFile(Path(places[name]) / part, to[name])
                files[name].add(batch)
                told[name] += batch.num_rows
    finally:
        for file in files.values():
            file.close()
    yield pa.RecordBatch.from_pylist([told], _TOLD)
