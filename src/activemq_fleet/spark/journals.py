"""Read the journals of agents on Spark: a row a line, with a problem where the line is no record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from activemq_fleet.audit import verdict_words as words
from activemq_fleet.logs.chunks import inflated
from activemq_fleet.spark.inputs import read_binary_files

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from activemq_fleet.spark.inputs import Inputs

_TEXT = StringType()
_LAYOUT = {
    "host": _TEXT,
    "file": _TEXT,
    "line": LongType(),
    "agent": _TEXT,
    "epoch": _TEXT,
    "jseq": LongType(),
    "ts": TimestampType(),
    "kind": _TEXT,
    "event_id": _TEXT,
    "rx_id": _TEXT,
    "topic": _TEXT,
    "broker": _TEXT,
    "conn": LongType(),
    "mid": LongType(),
    "filters": ArrayType(_TEXT),
    "reason": _TEXT,
    "problem": _TEXT,
}
RECORDS_SCHEMA = StructType([StructField(name, kind) for name, kind in _LAYOUT.items()])
"""The columns of ``journal_records``. ``kind`` is null, and ``problem`` says why, where a line is no record; its
``agent``, ``epoch`` and ``jseq`` are there all the same if they could be read."""

_MEMBERS = [name for name in _LAYOUT if name not in ("host", "file", "line", "ts", "problem")]
_SHAPE = StructType(
    [
        StructField("v", IntegerType()),
        StructField("ts", _TEXT),
        *(StructField(name, _LAYOUT[name]) for name in _MEMBERS),
        StructField("broken", _TEXT),
    ]
)
# As an agent writes a record's beginning: of a torn line it is what can still be read.
_HEAD = r'^\{"v":[0-9]+,"agent":"([^"\\]+)","epoch":"([^"\\]+)","jseq":([0-9]{1,13}),'
_LARGEST = 1 << 43  # records of an epoch that places have room for: at 10,000 a second, 27 years


_LINES = "host string, file string, line long, value string, problem string"
LARGEST_JOURNAL_FILE = 1 << 30
"""Bytes of a file that is read: it is one value in Spark. Agents begin a new one at 16 MiB."""
_AT_ONCE = 4 << 20
"""Characters of lines that are handed back to Spark together."""
_GZIP = b"\x1f\x8b"  # its first bytes; no line of a journal begins so, whatever the file is called


def parse_journal(lines: DataFrame) -> DataFrame:
    """Parse rows of host, file, line and value (a journal line); return one row of ``RECORDS_SCHEMA`` for each.

    ``lines`` may have a column ``problem`` that says what is wrong with a line; such a line is not parsed.
    """
    given = sf.col("problem") if "problem" in lines.columns else sf.lit(None).cast(_TEXT)
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "broken"}
    read = lines.select(
        "host", "file", "line", "value", given.alias("given"), sf.from_json("value", _SHAPE, options).alias("r")
    )
    return read.select("*", _problem().alias("problem")).select(*(_column(name) for name in _LAYOUT))


def _has_header() -> Column:
    named = (sf.length("r.agent") > 0) & (sf.length("r.epoch") > 0) & (sf.length("r.kind") > 0)
    return sf.coalesce(named & sf.col("r.jseq").between(1, _LARGEST), sf.lit(False))


def _is_readable() -> Column:
    """Whether the line is one JSON object to its end: a parser may be content with its beginning."""
    ends = sf.rtrim(sf.regexp_replace("value", r"\s+$", "")).endswith("}")
    glued = sf.contains("value", sf.lit('}{"v":'))  # no string of JSON can hold this: its quotes would be escaped
    return sf.col("given").isNull() & sf.col("r").isNotNull() & sf.coalesce(ends & ~glued, sf.lit(False))


def _problem() -> Column:
    known = sf.col("r.kind").isin(*words.KINDS)
    version = sf.coalesce(sf.col("r.v") == 1, sf.col("r.v").isNull())
    return (
        sf.when(sf.col("given").isNotNull(), sf.col("given"))
        .when(_is_readable() & _has_header(), sf.when(~version, words.UNKNOWN_VERSION).when(~known, words.UNKNOWN_KIND))
        .when(sf.ltrim("value").startswith("{") & ~_is_json(), words.TORN)
        .when(sf.contains("value", sf.lit("\0")) | sf.contains("value", sf.lit('}{"v":')), words.TORN)
        .otherwise(words.FOREIGN)
    )


def _is_json() -> Column:
    return sf.get_json_object("value", "$").isNotNull()


def _column(name: str) -> Column:
    if name in ("host", "file", "line", "problem"):
        return sf.col(name).cast(_LAYOUT[name])
    whole = sf.col("problem").isNull() | (sf.col("problem") == words.UNKNOWN_KIND)
    if name == "ts":
        return sf.when(whole, sf.col("r.ts").try_cast(TimestampType())).alias(name)
    found = sf.when(whole, sf.col(f"r.{name}"))
    if name in ("agent", "epoch", "jseq"):
        group = ("agent", "epoch", "jseq").index(name) + 1
        head = sf.nullif(sf.regexp_extract("value", _HEAD, group), sf.lit(""))
        found = sf.coalesce(found, sf.when(sf.col("problem") != words.FOREIGN, head).try_cast(_LAYOUT[name]))
    elif name in ("event_id", "rx_id", "topic"):
        found = sf.nullif(found, sf.lit(""))
    return found.alias(name)


def journal_records(spark: SparkSession, inputs: Inputs) -> DataFrame:
    """Return one row for each line of the journals of ``inputs``, with the columns ``RECORDS_SCHEMA``.

    A file above LARGEST_JOURNAL_FILE is one row with a problem.
    """
    journals = inputs.of_kind("journal")
    large = [(file.host, file.file, 1, None, words.TOO_LARGE) for file in journals if file.size > LARGEST_JOURNAL_FILE]
    paths = [file.path for file in journals if file.size <= LARGEST_JOURNAL_FILE]
    unread = parse_journal(spark.createDataFrame(large, _LINES))
    if not paths:
        return unread
    found = parse_journal(read_binary_files(spark, paths).select("path", "content").mapInArrow(journal_lines, _LINES))
    return found.unionByName(unread) if large else found


def journal_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield host, file, line, value and problem of each line in whole files (path, content); gzip is unpacked.

    Runs in Spark's Python workers.
    """
    import pyarrow as pa

    for batch in batches:
        for path, content in zip(batch.column("path"), batch.column("content"), strict=True):
            host, file = split_host_and_file(path.as_py())
            for rows in _portions(content.as_buffer()):
                lines, values, problems = zip(*rows, strict=True)
                columns: list[Any] = [[host] * len(rows), [file] * len(rows), lines, values, problems]
                types = [pa.string(), pa.string(), pa.int64(), pa.string(), pa.string()]
                yield pa.RecordBatch.from_arrays(
                    [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)],
                    names=["host", "file", "line", "value", "problem"],
                )


def split_host_and_file(path: str) -> tuple[str, str]:
    """Return host and file (``agent/NAME``) of a path that ends with HOST/agent/NAME."""
    host, directory, name = path.rsplit("/", 3)[1:]
    return host, f"{directory}/{name}"


_Row = tuple[int, str | None, str | None]


def _portions(content: Any) -> Iterator[list[_Row]]:
    rows: list[_Row] = []
    size = 0
    for row in _rows(content):
        rows.append(row)
        size += len(row[1] or "") + 64
        if size >= _AT_ONCE:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _rows(content: Any) -> Iterator[_Row]:
    number, rest = 0, b""
    problem: str | None = None
    view = memoryview(content).cast("B")  # Arrow's buffers have signed bytes
    for piece, found in _pieces(view):
        problem = found
        # A line ends with LF alone; what stands before it may be anything.
        *whole, rest = (rest + piece).split(b"\n")
        for line in whole:
            number += 1
            yield number, line.decode(errors="backslashreplace"), None
    if rest:
        number += 1
        yield number, rest.decode(errors="backslashreplace"), None
    if problem is not None:
        yield number + 1, None, problem


def _pieces(view: memoryview) -> Iterator[tuple[bytes, str | None]]:
    """Yield a file's bytes in pieces, unpacked; the last piece of a gzip file says whether it ends too soon."""
    if view[:2] == _GZIP:
        yield from ((piece, words.CUT_OFF if problem else None) for piece, _, problem in inflated(view))
    else:
        yield from ((bytes(view[at : at + _AT_ONCE]), None) for at in range(0, len(view), _AT_ONCE))
