"""``activemq_links`` of all hosts: each once, with its ends looked up; T007 for an end that nobody is.

Links are as few as groups are, so they come to the driver. Who an end is, is asked of all hosts in one join.
"""

from __future__ import annotations

import difflib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as sf

from activemq_fleet.topology.build import unknown_end
from activemq_fleet.topology.model import MOST_LISTED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NEAR = pa.schema([("name", pa.string()), ("score", pa.float64()), ("near", pa.string())])
_ENDS = ("from", "to")


@dataclass(frozen=True, slots=True)
class Said:
    """An entry of ``activemq_links`` as JSON, the first host that says it and where, and that host's group."""

    text: str
    host: str
    place: int
    group: str

    @property
    def ends(self) -> tuple[str, ...]:
        """The names that it begins and ends with."""
        link = json.loads(self.text)
        return tuple(link[end] for end in _ENDS)


def said_links(lists: Mapping[str, tuple[str, str]]) -> list[Said]:
    """Every entry once, in the order of those who say them; of a list as JSON its first host, and that one's group."""
    found = [
        Said(json.dumps(link, separators=(",", ":"), ensure_ascii=False), host, place, group)
        for text, (host, group) in lists.items()
        for place, link in enumerate(json.loads(text))
    ]
    first: dict[str, Said] = {}
    for one in sorted(found, key=lambda one: (one.host, one.place)):
        first.setdefault(one.text, one)
    return list(first.values())


def groups_of(names: Collection[str], brokers: DataFrame, known: Iterable[str] = ()) -> dict[str, tuple[str, ...]]:
    """Name -> the groups that it means: it is a group's, else a pair's. A name that is nobody's has no key.

    ``known`` are names of groups: hosts are asked only for what is none of them.
    """
    told: dict[str, tuple[str, ...]] = {name: (name,) for name in sorted({*names}.intersection(known))}
    others = sorted({*names} - told.keys())
    return _asked(others, brokers) | told if others else told


def _asked(names: Sequence[str], brokers: DataFrame) -> dict[str, tuple[str, ...]]:
    frame = brokers.sparkSession.createDataFrame(pa.table({"name": pa.array(names, pa.string())}))
    as_group, as_pair = (sf.broadcast(frame.select(sf.col("name").alias(name))) for name in ("as_group", "as_pair"))
    rows = (
        brokers.join(as_group, sf.col("group") == sf.col("as_group"), "left")
        .join(as_pair, sf.col("pair") == sf.col("as_pair"), "left")
        .where("as_group is not null or as_pair is not null")
        .select("group", "as_group", "as_pair")
        .distinct()
        .collect()
    )
    of_pair: dict[str, list[str]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row["group"]):
        if row["as_pair"] is not None and row["group"] not in of_pair[row["as_pair"]]:
            of_pair[row["as_pair"]].append(row["group"])
    groups = {row["group"] for row in rows if row["as_group"] is not None}
    return {name: tuple(found) for name, found in of_pair.items()} | {name: (name,) for name in groups}


def edges_of(links: Iterable[Said], groups: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """The groups that a link joins."""
    for link in links:
        yield from product(*(groups.get(name, ()) for name in link.ends))


def unknown_ends(links: Iterable[Said], groups: Mapping[str, Any], brokers: DataFrame) -> list[tuple[str, str, str]]:
    """(group of the host that says it, host, finding as JSON) of every end that nobody is."""
    unknown = [
        (link, f"activemq_links[{link.place}].{end}", name)
        for link in links
        for end, name in zip(_ENDS, link.ends, strict=True)
        if name not in groups
    ]
    if not unknown:
        return []
    known = brokers.select(sf.explode(sf.array("group", "pair")).alias("known")).where("known is not null").distinct()
    first = [row["known"] for row in known.orderBy("known").limit(MOST_LISTED).collect()]
    near = _nearest(known, sorted({name for _, _, name in unknown}))
    return [
        (
            link.group,
            link.host,
            json.dumps(unknown_end(link.host, variable, name, near.get(name, ""), first).to_dict()),
        )
        for link, variable, name in unknown
    ]


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
