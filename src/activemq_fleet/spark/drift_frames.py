"""What is known of every file, brought together by host and path on Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf

from activemq_fleet.drift.differences import unified
from activemq_fleet.drift.judging import Evidence, judge
from activemq_fleet.drift.records import CONFIGURATION, Known, collected_file, planned_file

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(?://[^/]*)?")
_BOOLEANS = ("installed",)
_KNOWN = pa.schema([(name, pa.bool_() if name in _BOOLEANS else pa.string()) for name in Known._fields])
_KNOWN_DDL = ", ".join(f"{name} {'boolean' if name in _BOOLEANS else 'string'}" for name in Known._fields)
_DRIFT = ("host", "path", "status", "cause", "planned_sha256", "found_sha256", "diff")
_DRIFT_DDL = ", ".join(f"{name} string" for name in _DRIFT)
_ROWS = 256  # files a batch: each may hold a megabyte of text

Batches = Iterator[pa.RecordBatch]


def files_below(spark: SparkSession, pattern: str) -> DataFrame:
    """Every file below the directories that match, hidden ones too: path, content."""
    return (
        spark.read.format("binaryFile")
        .option("recursiveFileLookup", "true")
        .option("ignoredPathSegmentRegex", r"^\..*\.crc$")
        .load(pattern)
        .select("path", "content")
    )


def rendered(spark: SparkSession, pattern: str, root: str) -> DataFrame:
    """``Known`` of ``hosts/HOST/PATH`` below ``root``."""
    return files_below(spark, pattern).mapInArrow(partial(_rendered, base=base_of(root)), _KNOWN_DDL)


def planned(files: DataFrame) -> DataFrame:
    """``Known`` of the dataset ``files``."""
    columns = files.select("host", "path", "content", "sha256").where(sf.col("host").isNotNull())
    return columns.mapInArrow(_planned, _KNOWN_DDL)


def collected(spark: SparkSession, pattern: str, root: str) -> DataFrame:
    """``Known`` of ``HOST/configuration/PATH`` below ``root``."""
    return files_below(spark, pattern).mapInArrow(partial(_collected, base=base_of(root)), _KNOWN_DDL)


def hosts_of(paths: DataFrame, root: str, before: str = "") -> DataFrame:
    """The hosts that files lie below, by the files' paths."""
    inside = sf.regexp_replace("path", f"^{_SCHEME.pattern}", "")
    start = len(base_of(root)) + len(before) + 2
    return paths.select(sf.split(sf.substr(inside, sf.lit(start)), "/")[0].alias("host")).distinct()


def compared(known: DataFrame, hosts: DataFrame) -> DataFrame:
    """The dataset ``drift`` of these hosts."""
    # One place a file, wherever its pieces come from; every piece of text is there once.
    pieces = [sf.max(name).alias(name) for name in Known._fields[2:]]
    whole = known.join(hosts, "host", "left_semi").groupBy("host", "path").agg(*pieces)
    installed = known.where("installed").select("host").distinct().withColumn("has_manifest", sf.lit(True))
    # Deployed once, planned no more and not there: nothing to tell.
    there = sf.col("planned").isNotNull() | sf.col("found").isNotNull() | (sf.col("told") == "unreadable")
    same = sf.col("planned").eqNullSafe(sf.col("found"))
    lean = whole.where(there).drop("installed").join(installed, "host", "left")
    for name in ("planned_text", "found_text"):
        lean = lean.withColumn(name, sf.when(~same, sf.col(name)))
    return lean.mapInArrow(_judged, _DRIFT_DDL)


def base_of(root: str) -> str:
    """The path of a URI, as it begins the paths that Spark gives."""
    return _SCHEME.sub("", root).rstrip("/")


def _rendered(batches: Batches, base: str) -> Batches:
    def known() -> Iterator[Known]:
        for path, content in _pairs(batches):
            host, _, name = path.removeprefix(f"{base}/hosts/").partition("/")
            yield planned_file(host, name, content.decode(errors="backslashreplace"), None)

    return _batched(known())


def _planned(batches: Batches) -> Batches:
    def known() -> Iterator[Known]:
        for batch in batches:
            columns = [batch.column(name) for name in ("host", "path", "content", "sha256")]
            for row in zip(*columns, strict=True):
                yield planned_file(*(value.as_py() for value in row))

    return _batched(known())


def _collected(batches: Batches, base: str) -> Batches:
    def known() -> Iterator[Known]:
        for path, content in _pairs(batches):
            host, _, rest = path.removeprefix(f"{base}/").partition("/")
            yield from collected_file(host, rest.removeprefix(CONFIGURATION), content)

    return _batched(known())


def _judged(batches: Batches) -> Batches:
    schema = pa.schema([(name, pa.string()) for name in _DRIFT])
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS):
            rows = [_row(row) for row in batch.slice(start, _ROWS).to_pylist()]
            yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _row(known: dict[str, Any]) -> dict[str, str | None]:
    status, cause = judge(
        Evidence(
            planned=known["planned"],
            found=known["found"],
            manifest=known["manifest"],
            told=known["told"],
            installed=bool(known["has_manifest"]),
        )
    )
    return {
        "host": known["host"],
        "path": known["path"],
        "status": status,
        "cause": cause,
        "planned_sha256": known["planned"],
        "found_sha256": known["found"],
        "diff": None if status == "same" else _difference(known),
    }


def _difference(known: dict[str, Any]) -> str | None:
    old, new = known["planned_text"], known["found_text"]
    if known["why"]:
        return f"not shown: {known['why']}\n"
    if known["told"] == "unreadable":
        return "the file could not be read on its host\n"
    if (known["planned"] and old is None) or (known["found"] and new is None):
        return None  # planned without content
    return unified(known["path"], old, new)


def _pairs(batches: Batches) -> Iterator[tuple[str, bytes]]:
    """Path without its scheme, and content."""
    for batch in batches:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            yield _SCHEME.sub("", path.as_py()), content.as_py()


def _batched(rows: Iterator[Known]) -> Batches:
    while listed := list(islice(rows, _ROWS)):
        columns: dict[str, list[Any]] = dict(zip(Known._fields, map(list, zip(*listed, strict=True)), strict=True))
        yield pa.RecordBatch.from_pydict(columns, schema=_KNOWN)


def not_found(error: Exception) -> bool:
    """True for Spark's word that nothing matches a path."""
    condition: Callable[[], str | None] | None = getattr(error, "getCondition", None)
    return condition is not None and "PATH_NOT_FOUND" in str(condition())
