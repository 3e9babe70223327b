"""Where the hosts come from -> one DataFrame of records, all read by Spark.

``text`` is JSON. Of ``ansible-inventory --list`` and of an inventory that Ansible read here there are
``host``, ``groups`` and ``place`` (in the inventory's order) beside it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from activemq_fleet.errors import InputError
from activemq_fleet.spark.paths import local_path, uri_of
from activemq_fleet.spark.plan.records import HOST_KEYS, text_of
from activemq_fleet.topology import AGENTS, BALANCERS, BROKERS

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from activemq_fleet.inventory import InventoryData

FORMS = ("auto", "lines", "parquet", "csv", "ansible")
_ROLES = (AGENTS, BALANCERS, BROKERS)
_SUFFIXES = {
    ".jsonl": "lines",
    ".ndjson": "lines",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
}
_LISTED = "listed"


@dataclass(frozen=True)
class Source:
    """Records, and how ``facts`` reads them: ``line``, ``table``, ``listed`` or ``given``.

    ``kept`` are frames to let go of when the records have been read; ``lines`` is where JSON lines lie, if
    that is on this machine.
    """

    frame: DataFrame
    form: str
    warnings: tuple[str, ...] = ()
    kept: tuple[DataFrame, ...] = ()
    lines: Path | None = None


def source_of(spark: SparkSession, path: str, form: str = "auto") -> Source:
    """The hosts of a file or directory. Raises InputError for one that holds none."""
    found = local_path(path)
    if found is not None and not found.exists():
        raise InputError(f"{path}: there is no such file or directory")
    where = path if found is None else uri_of(found)
    if form == "auto":
        form = _form_of(spark, where, path)
    if form == "lines":
        return Source(spark.read.text(where).select(sf.col("value").alias("text")), "line", lines=found)
    if form == "ansible":
        return _listed(spark, where)
    if form == "parquet":
        frame = spark.read.parquet(where)
    else:
        frame = spark.read.csv(where, header=True, multiLine=True, escape='"')
    if not set(frame.columns) & set(HOST_KEYS):
        raise InputError(f"{path}: has no column host; it has {', '.join(frame.columns[:10]) or 'none at all'}")
    return Source(
        frame.select(sf.to_json(sf.struct(*(_quoted(name) for name in frame.columns))).alias("text")), "table"
    )


def _quoted(name: str) -> Column:
    return sf.col(f"`{name.replace('`', '``')}`")


def _form_of(spark: SparkSession, where: str, path: str) -> str:
    lower = path.rstrip("/").lower()
    for suffix, form in _SUFFIXES.items():
        if lower.endswith((suffix, f"{suffix}.gz")):
            return form
    lines = [row["value"] for row in spark.read.text(where).limit(1).collect()]
    if not lines:
        raise InputError(f"{path}: is empty; it must hold hosts and their variables")
    if lines[0].startswith("PAR1"):
        return "parquet"
    return "lines" if _is_record(lines[0]) else "ansible"


def _is_record(line: str) -> bool:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and any(isinstance(found.get(key), str) for key in HOST_KEYS)


def _listed(spark: SparkSession, where: str) -> Source:
    """Hosts of ``ansible-inventory --list``, with the groups that count, those of their children included."""
    whole = spark.read.text(where, wholetext=True).select("value")
    variables = sf.from_json("value", "_meta struct<hostvars: map<string, string>>")["_meta"]["hostvars"]
    hosts = whole.select(sf.explode(variables).alias("host", "text"))
    groups = sf.from_json("value", "map<string, struct<hosts: array<string>, children: array<string>>>")
    tree = whole.select(sf.explode(groups).alias("name", "inside")).persist()
    members = _members(tree)
    roles = members.groupBy("host").agg(sf.collect_set("name").alias("groups"), sf.min("place").alias("place"))
    # A host that no variable is said of stands in a group only.
    every = hosts.join(roles, "host", "full_outer")
    text = sf.coalesce("text", sf.lit("{}")).alias("text")
    return Source(every.select("host", text, "groups", "place"), _LISTED, kept=(tree,))


def _members(tree: DataFrame) -> DataFrame:
    """Hosts of the groups that count: (name, host, place), by way of children of any depth."""
    rows = tree.where(sf.col("inside").isNotNull()).select(
        "name", sf.col("inside.children").alias("children"), sf.col("inside.hosts").alias("hosts")
    )
    below = {row["name"]: list(row["children"] or ()) for row in rows.select("name", "children").collect()}
    belongs = [(role, name) for role in _ROLES for name in _descendants(role, below)]
    spark = tree.sparkSession
    wanted = spark.createDataFrame(belongs or [("", "")], "role string, name string")
    return (
        rows.join(sf.broadcast(wanted), "name")
        .select(sf.col("role").alias("name"), sf.posexplode("hosts").alias("place", "host"))
        .withColumn("place", sf.col("place").cast("long"))
    )


def _descendants(role: str, below: dict[str, list[str]]) -> list[str]:
    seen: dict[str, None] = {}
    waiting = [role] if role in below else []
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen[name] = None
            waiting += below.get(name, [])
    return list(seen)


def source_of_inventory(spark: SparkSession, data: InventoryData) -> Source:
    """The hosts of an inventory that Ansible has read on this machine, values templated."""
    roles: dict[str, list[str]] = {}
    places: dict[str, int] = {}
    for role in _ROLES:
        for place, host in enumerate(data.groups.get(role, ())):
            roles.setdefault(host, []).append(role)
            places.setdefault(host, place)
    rows = [
        (host, text_of(variables), roles.get(host, []), places.get(host, 0)) for host, variables in data.hosts.items()
    ]
    frame = spark.createDataFrame(rows, "host string, text string, groups array<string>, place bigint")
    return Source(frame, "given", data.warnings)
