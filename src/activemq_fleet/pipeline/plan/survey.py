"""What the driver asks of all hosts together, before anything is computed of any."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as sf

from activemq_fleet.errors import InputError, ReleaseError, SettingsError
from activemq_fleet.naming import DEFAULT_PATTERN
from activemq_fleet.pipeline.plan.facts import INPUT, RELEASE
from activemq_fleet.releases import Release
from activemq_fleet.settings import WaiverSettings
from activemq_fleet.topology.build import named
from activemq_fleet.topology.model import MOST_LISTED, KnownGroups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MOST_NAMED = 3
_KINDS = ("group", "pattern", "release")


@dataclass(frozen=True)
class Survey:
    """Numbers of rows that have something, so that joins for which there is nothing are left out."""

    rows: int
    brokers: int
    agents: int
    balancers: int
    by_hand: int
    groups: int
    first_group: str
    patterns: tuple[str, ...]
    said_pattern: int
    releases: tuple[str, ...]
    problems: int
    links: int
    addresses: int
    points: int
    own_stores: int
    waivers: int
    nearly: int
    names: tuple[str, ...] = ()
    """Of all groups."""

    @property
    def pattern(self) -> str:
        """The naming pattern of the inventory. Raises InputError where hosts have different ones."""
        if len(self.patterns) > 1:
            raise InputError("activemq_naming_pattern differs between hosts: set it once, for all")
        return self.patterns[0] if self.patterns else DEFAULT_PATTERN

    @property
    def is_settled(self) -> bool:
        """False where the pattern of some hosts has yet to be applied to the others."""
        return not self.patterns or self.said_pattern == self.rows

    def refuse_none(self) -> None:
        """InputError where no host is a broker."""
        if not self.brokers and not self.by_hand:
            raise InputError(
                f"no host of this inventory is a broker: none of {self.rows} names matches {self.pattern} "
                "(such as orders-mq01-a.example.com); set activemq_naming_pattern if yours differ"
            )


def survey(facts: DataFrame) -> Survey:
    """One look at every host: numbers by group, of which the driver makes those of all."""
    by_group = facts.groupBy(*_KINDS).agg(
        sf.count("*").alias("rows"),
        *(sf.count_if(sf.col(name)).alias(f"{name}s") for name in ("broker", "agent", "balancer")),
        sf.count_if("by_hand").alias("by_hand"),
        sf.count("pattern").alias("said_pattern"),
        *(sf.count(name).alias(name) for name in ("problems", "links", "points", "waivers")),
        sf.count("address").alias("addresses"),
        sf.count_if("own_store").alias("own_stores"),
        sf.count_if("nearly").alias("nearly"),
    )
    return _survey_of(by_group.toArrow())


def _survey_of(table: pa.Table) -> Survey:
    said = {name: [text for text in table[name].unique().to_pylist() if text is not None] for name in _KINDS}
    numbers = {name: pc.sum(table[name]).as_py() or 0 for name in table.column_names if name not in _KINDS}
    return Survey(
        **numbers,
        groups=len(said["group"]),
        first_group=min(said["group"], default=""),
        patterns=tuple(sorted(said["pattern"])),
        releases=tuple(sorted(said["release"])),
        names=tuple(said["group"]),
    )


def refuse_problems(facts: DataFrame) -> None:
    """Raise what hosts' own variables have wrong, a mistake of many hosts as one line."""
    found = (
        facts.select("host", sf.explode("problems").alias("problem"))
        .groupBy("problem")
        .agg(
            sf.count("*").alias("hosts"), sf.slice(sf.sort_array(sf.collect_set("host")), 1, _MOST_NAMED).alias("first")
        )
        .collect()
    )
    kind = min(row["problem"][:1] for row in found)
    lines = []
    for row in sorted(found, key=lambda row: (row["first"], row["problem"])):
        if row["problem"].startswith(kind):
            text = row["problem"][1:]
            lines.append(text if kind == INPUT else _told(named(row["first"], row["hosts"]), text, kind))
    if kind == INPUT:
        more = f" (and {len(lines) - 1} more such records)" if len(lines) > 1 else ""
        raise InputError(f"{lines[0]}{more}")
    if kind == RELEASE:
        raise ReleaseError("; ".join(lines))
    raise SettingsError(*lines)


def _told(hosts: str, text: str, kind: str) -> str:
    return f"{hosts}: activemq_release: {text}" if kind == RELEASE else f"{hosts}: {text}"


def known_groups(facts: DataFrame, found: Survey) -> KnownGroups:
    """The groups that a finding lists; asked for only where there is one that may."""
    if not found.agents and not found.balancers:
        return KnownGroups((), found.groups)
    groups = facts.where("group is not null").select("group").distinct().orderBy("group").limit(MOST_LISTED).collect()
    return KnownGroups(tuple(row["group"] for row in groups), found.groups)


def waivers_of(facts: DataFrame, found: Survey, today: date) -> tuple[list[WaiverSettings], list[str]]:
    """Those in force, in the order in which the core takes them, and warnings of those that have expired."""
    if not found.waivers:
        return [], []
    rank = sf.when(sf.col("broker"), 0).when(sf.col("agent"), 1).otherwise(2)
    order = sf.struct(rank.alias("rank"), sf.when(rank == 0, 0).otherwise(sf.col("place")).alias("place"), "host")
    lists = facts.where("waivers is not null").groupBy("waivers").agg(sf.min(order).alias("first")).collect()
    every = dict.fromkeys(
        WaiverSettings.model_validate(waiver)
        for row in sorted(lists, key=lambda row: row["first"])
        for waiver in json.loads(row["waivers"])
    )
    expired = [waiver for waiver in every if waiver.until and waiver.until < today]
    warnings = [f"the waiver of {w.rule} expired on {w.until}: {w.reason}" for w in expired]
    return [waiver for waiver in every if waiver not in expired], warnings


def warnings_of(facts: DataFrame, found: Survey) -> list[str]:
    """What is said of releases, and of names that are nearly a broker's."""
    texts = list(dict.fromkeys(text for release in found.releases for text in Release.of(release).warnings))
    if found.nearly:
        first: Sequence[str] = [
            row["host"] for row in facts.where("nearly").select("host").orderBy("host").limit(_MOST_NAMED).collect()
        ]
        texts.append(
            f"{named(first, found.nearly)}: the name holds -mq and digits and does not match "
            "activemq_naming_pattern: not a broker of this fleet"
        )
    return texts
