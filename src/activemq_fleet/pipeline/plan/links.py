"""``activemq_links`` of all hosts: each once, with its ends looked up; T007 for an end that nobody is."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf

from activemq_fleet.topology.build import unknown_end
from activemq_fleet.topology.model import MOST_LISTED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NEAR = pa.schema([("name", pa.string()), ("score", pa.float64()), ("near", pa.string())])


def said_links(facts: DataFrame) -> DataFrame:
    """(link, host, place): every entry once, with the first host that says it and where."""
    lists = facts.where("links is not null").groupBy("links").agg(sf.min("host").alias("host"))
    entries = lists.select("host", sf.posexplode(sf.from_json("links", "array<string>")).alias("place", "link"))
    first = sf.min(sf.struct("host", "place"))
    return entries.groupBy("link").agg(first.alias("first")).select("link", "first.host", "first.place")


def ends_of(links: DataFrame, facts: DataFrame) -> DataFrame:
    """(link, end, name, group): a name is a group's, else a pair's; a group of null is nobody's."""
    ends = links.select(
        "link",
        sf.explode(
            sf.create_map(
                sf.lit("from"), sf.get_json_object("link", "$.from"), sf.lit("to"), sf.get_json_object("link", "$.to")
            )
        ).alias("end", "name"),
    )
    names = sf.broadcast(ends.select("name").distinct())
    brokers = facts.where("group is not null")
    groups = brokers.join(names.withColumnRenamed("name", "group"), "group", "left_semi").select("group").distinct()
    pairs = (
        brokers.join(names.withColumnRenamed("name", "pair"), "pair", "left_semi").select("pair", "group").distinct()
    )
    by_group = groups.select(sf.col("group").alias("name"), sf.col("group").alias("as_group"))
    by_pair = pairs.select(sf.col("pair").alias("name"), sf.col("group").alias("of_pair")).distinct()
    return (
        ends.join(by_group, "name", "left")
        .join(by_pair, "name", "left")
        .select("link", "end", "name", sf.coalesce("as_group", "of_pair").alias("group"))
        .distinct()
    )


def unknown_ends(links: DataFrame, ends: DataFrame, facts: DataFrame) -> list[tuple[str, str, str]]:
    """(group of the host that says it, host, finding as JSON) of every end that nobody is."""
    unknown = ends.where("group is null").select("link", "end", "name").join(links, "link")
    rows = (
        unknown.join(facts.where("broker").select("host", sf.col("group").alias("home")), "host")
        .select("host", "home", "place", "end", "name")
        .collect()
    )
    if not rows:
        return []
    known = (
        facts.where("group is not null")
        .select(sf.explode(sf.array("group", "pair")).alias("known"))
        .where("known is not null")
        .distinct()
    )
    first = [row["known"] for row in known.orderBy("known").limit(MOST_LISTED).collect()]
    near = _nearest(known, sorted({row["name"] for row in rows}))
    found = []
    for row in rows:
        variable = f"activemq_links[{row['place']}].{row['end']}"
        finding = unknown_end(row["host"], variable, row["name"], near.get(row["name"], ""), first)
        found.append((row["home"], row["host"], json.dumps(finding.to_dict())))
    return found


def _nearest(known: DataFrame, names: list[str]) -> Mapping[str, str]:
    """Name -> the known one most like it, as ``difflib.get_close_matches`` chooses."""
    rows = known.mapInArrow(partial(_close, names=names), "name string, score double, near string")
    best = rows.groupBy("name").agg(sf.max(sf.struct("score", "near")).alias("best")).collect()
    return {row["name"]: row["best"]["near"] for row in best}


def _close(batches: Iterable[pa.RecordBatch], *, names: list[str]) -> Iterator[pa.RecordBatch]:
    known = [name for batch in batches for name in batch.column("known").to_pylist()]
    rows: list[dict[str, Any]] = []
    for name in names:
        near = difflib.get_close_matches(name, known, n=1)
        if near:
            score = difflib.SequenceMatcher(None, near[0], name).ratio()
            rows.append({"name": name, "score": score, "near": near[0]})
    yield pa.RecordBatch.from_pylist(rows, _NEAR)
