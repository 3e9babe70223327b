"""The Arrow schema of a dataset, with the metadata that Spark writes into Parquet footers."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from activemq_fleet.spark.schemas import COLUMN_METADATA, SCHEMAS

_ROW_METADATA = "org.apache.spark.sql.parquet.row.metadata"


def arrow_schema_of(name: str) -> pa.Schema:
    """Return the Arrow schema of a dataset by its name; its metadata holds Spark's schema with SCHEMA_VERSION."""
    with_metadata = StructType(
        [StructField(field.name, field.dataType, metadata=dict(COLUMN_METADATA)) for field in SCHEMAS[name]]
    )
    return to_arrow_schema(SCHEMAS[name], timezone="UTC").with_metadata({_ROW_METADATA: with_metadata.json()})
