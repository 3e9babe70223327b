"""Journals of agents -> one row a line, with what is wrong with those that are no records."""

from __future__ import annotations

from typing import TYPE_CHECKING

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

from activemq_fleet.spark.verdicts import words

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

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
RECORDS = StructType([StructField(name, kind) for name, kind in _LAYOUT.items()])
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


def parse_journal(lines: DataFrame) -> DataFrame:
    """Rows of host, file, line, value (a line of a journal) -> ``RECORDS``; every row stays.

    ``lines`` may have a column ``problem`` that says what is wrong with a line; such a line is not looked at.
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
