"""Define the schema of every dataset, for Spark and Arrow, and the columns by which its files are sorted."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

SCHEMA_VERSION = 1
"""The version of all datasets' schemas; a new column does not change it."""

COLUMN_METADATA = MappingProxyType({"schema_version": SCHEMA_VERSION})
"""Metadata of every column, which Spark writes into Parquet footers."""

_ROW_METADATA = "org.apache.spark.sql.parquet.row.metadata"
_TEXT = StringType()
_TEXTS = ArrayType(StringType())
_TIME = TimestampType()  # microseconds, UTC
_TYPES: Mapping[str, DataType] = {
    "text": _TEXT,
    "texts": _TEXTS,
    "time": _TIME,
    "int": IntegerType(),
    "long": LongType(),
    "double": DoubleType(),
    "bool": BooleanType(),
    "map": MapType(StringType(), StringType()),
    "ports": MapType(StringType(), IntegerType()),
}

# NAME or NAME:TYPE; the default type is text.
_COLUMNS = {
    "events": "host file line:long end_line:long time:time raw_time level kind message stack logger thread release "
    "fields:map parsed:bool",
    "incidents": "incident kind group pair host began:time ended:time seconds:double began_from certainty cause remedy "
    "rules:texts final:bool planned:bool downtime_min:double downtime_max:double",
    "bridges": "host link peer direction began:time ended:time state flaps:int cause rebuilt:bool final:bool",
    "messages": "event_id topic verdict reason accepted:time handled:time by:texts final:bool",
    "deliveries": "event_id subscriber verdict reason attempts:int final:bool",
    "brokers": "host group pair node role release address ports:ports",
    "links": "host name kind target uri duplex:bool network_ttl:int consumer_ttl:int message_ttl:int include:texts "
    "exclude:texts",
    "findings": "rule severity host message fix why file line:int column:int waived",
    "files": "host path sha256 masked_sha256 content",
    "changes": "host path op",
    "components": "host component fingerprint",
    "drift": "host path status cause planned_sha256 found_sha256 diff",
}

SORTED_BY: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "events": ("host", "file", "line"),
        "incidents": ("group", "host", "began", "incident"),
        "bridges": ("host", "link", "began"),
        "messages": ("event_id",),
        "deliveries": ("event_id", "subscriber"),
        "brokers": ("group", "host"),
        "links": ("host", "name"),
        "findings": ("host", "rule", "message"),
        "files": ("host", "path"),
        "changes": ("host", "path"),
        "components": ("component", "host"),
        "drift": ("host", "path"),
    }
)
"""By group and host where the dataset has them: a reader of one host skips most row groups."""


def _schema(columns: str) -> StructType:
    fields = []
    for column in columns.split():
        name, _, kind = column.partition(":")
        fields.append(StructField(name, _TYPES[kind or "text"], nullable=True))
    return StructType(fields)


SCHEMAS: Mapping[str, StructType] = MappingProxyType({name: _schema(columns) for name, columns in _COLUMNS.items()})


def arrow_schema_of(name: str) -> pa.Schema:
    """Return the Arrow schema of a dataset, by the dataset's name.

    Its metadata holds Spark's schema with SCHEMA_VERSION.
    """
    with_metadata = StructType(
        [StructField(field.name, field.dataType, metadata=dict(COLUMN_METADATA)) for field in SCHEMAS[name]]
    )
    return to_arrow_schema(SCHEMAS[name], timezone="UTC").with_metadata({_ROW_METADATA: with_metadata.json()})
