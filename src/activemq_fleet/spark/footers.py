"""The Parquet schema of a dataset for files that Spark does not write: what stands in the footers of those it does."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from activemq_fleet.spark.schemas import COLUMN_METADATA, SCHEMAS

_ROW_METADATA = "org.apache.spark.sql.parquet.row.metadata"


def schema_of(name: str) -> pa.Schema:
    """The dataset's columns as Arrow has them, with the version in the metadata that becomes the footer's."""
    told = StructType(
        [StructField(field.name, field.dataType, metadata=dict(COLUMN_METADATA)) for field in SCHEMAS[name]]
    )
    return to_arrow_schema(SCHEMAS[name], timezone="UTC").with_metadata({_ROW_METADATA: told.json()})
