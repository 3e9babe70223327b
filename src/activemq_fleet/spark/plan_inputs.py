"""Read the hosts of ``plan`` in any of their forms into one DataFrame of records.

The column ``text`` is JSON. Of ``ansible-inventory --list`` and of an inventory that Ansible read here there are also
the columns ``host`` and ``groups`` (the position of the host in each of its inventory groups).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as sf

from activemq_fleet import Finding, InputError
from activemq_fleet.planning.host_records import (
    HOST_KEYS,
    parse_ansible_inventory_list,
    positions_by_host_and_role_group,
    variables_to_json,
)
from activemq_fleet.planning.inventory_findings import findings_about_inventory_files_and_hosts
from activemq_fleet.spark.paths import local_path, uri_with_escaped_wildcards

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from activemq_fleet.inventory import InventoryData

FORMS = ("auto", "lines", "parquet", "csv", "ansible")
_SUFFIXES = {
    ".jsonl": "lines",
    ".ndjson": "lines",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
}
_ROWS = pa.schema([("host", pa.string()), ("text", pa.string()), ("groups", pa.map_(pa.string(), pa.int64()))])


@dataclass(frozen=True)
class HostRecords:
    """The input of the Spark job ``plan``: a record of each host of a fleet, with the host's variables.

    ``frame`` has a row for each host, with its variables as JSON in ``text``. ``form`` is the form of ``text``:
    ``line`` a line of JSON lines, ``table`` a row of CSV or Parquet, ``listed`` variables of ``ansible-inventory
    --list``, ``given`` templated variables of an inventory. ``warnings`` are Ansible's, ``findings`` those about the
    files and hosts of the inventory. ``lines`` is the path of JSON lines on this machine, else None.
    """

    frame: DataFrame
    form: str
    warnings: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    lines: Path | None = None


def read_hosts(spark: SparkSession, path: str, form: str = "auto") -> HostRecords:
    """Read hosts and their variables with Spark from JSON Lines, Parquet, CSV or an Ansible inventory listing.

    ``form`` is one of FORMS; ``auto`` goes by suffix and content. Raises InputError for a path that is absent or empty,
    and for a table without a column for the host.
    """
    local_input = local_path(path)
    if local_input is not None and not local_input.exists():
        raise InputError(f"{path}: the file or directory does not exist: correct --hosts")
    where = path if local_input is None else uri_with_escaped_wildcards(local_input)
    if form == "auto":
        form = _detect_form(spark, where, path)
    if form == "lines":
        return HostRecords(spark.read.text(where).select(sf.col("value").alias("text")), "line", lines=local_input)
    if form == "ansible":
        return _read_inventory_listing(spark, where, path)
    frame = spark.read.parquet(where) if form == "parquet" else _read_csv(spark, where)
    if not set(frame.columns) & set(HOST_KEYS):
        raise InputError(
            f"{path}: the table has no column 'host'; its columns are {', '.join(frame.columns[:10]) or 'none'}. "
            "Rename the column that contains the host names to 'host'"
        )
    return HostRecords(
        frame.select(sf.to_json(sf.struct(*(_quoted_column(name) for name in frame.columns))).alias("text")), "table"
    )


def _read_csv(spark: SparkSession, where: str) -> DataFrame:
    """Return the rows of CSV files whose values, and column names, may have line breaks in quotation marks."""
    reader = spark.read.options(header=True, multiLine=True, escape='"')
    header = spark.read.text(where).where(sf.length(sf.trim("value")) > 0).first()
    if header is None or header["value"].count('"') % 2 == 0:  # no column name continues in the next line
        # With multiLine, Spark regards the name of the file as a pattern when it reads the header.
        reader = reader.schema(spark.read.csv(where, header=True, escape='"').schema)
    return reader.csv(where)


def _quoted_column(name: str) -> Column:
    return sf.col(f"`{name.replace('`', '``')}`")


def _detect_form(spark: SparkSession, where: str, path: str) -> str:
    """Return the form of the hosts by the file's suffix, else by its first line."""
    lower = path.rstrip("/").lower()
    for suffix, form in _SUFFIXES.items():
        if lower.endswith((suffix, f"{suffix}.gz")):
            return form
    lines = [row["value"] for row in spark.read.text(where).limit(1).collect()]
    if not lines:
        raise InputError(f"{path}: the file is empty: name a file with hosts and their variables")
    if lines[0].startswith("PAR1"):
        return "parquet"
    return "lines" if _is_host_record(lines[0]) else "ansible"


def _is_host_record(line: str) -> bool:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and any(isinstance(document.get(key), str) for key in HOST_KEYS)


def _read_inventory_listing(spark: SparkSession, where: str, path: str) -> HostRecords:
    """Return the hosts of ``ansible-inventory --list`` with those of ROLE_GROUPS that they are in, also by children."""
    rows: list[tuple[str, str, dict[str, int]]] = []
    for row in spark.read.text(where, wholetext=True).toArrow()["value"].to_pylist():
        try:
            rows += parse_ansible_inventory_list(row)
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
    return HostRecords(_frame_of_rows(spark, rows), "listed")


def _frame_of_rows(spark: SparkSession, rows: Sequence[tuple[str, str, dict[str, int]]]) -> DataFrame:
    columns = zip(*rows, strict=True) if rows else ((),) * len(_ROWS)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _ROWS, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=_ROWS))


def host_records_of_inventory(spark: SparkSession, data: InventoryData) -> HostRecords:
    """Return the records of an Ansible inventory's hosts, with their variables, for the Spark job ``plan``.

    Ansible has read the inventory on this machine; the variables are templated. Raises InputError for errors in the
    files of the inventory.
    """
    findings = findings_about_inventory_files_and_hosts(data)
    positions = positions_by_host_and_role_group(data.groups)
    rows = [
        (host, variables_to_json(host, variables), positions.get(host, {})) for host, variables in data.hosts.items()
    ]
    return HostRecords(_frame_of_rows(spark, rows), "given", data.warnings, findings)
