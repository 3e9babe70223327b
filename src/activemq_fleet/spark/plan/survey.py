"""What the driver asks of all hosts together, before anything is computed of any."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from activemq_fleet.errors import InputError, ReleaseError, SettingsError, named
from activemq_fleet.naming import DEFAULT_PATTERN
from activemq_fleet.releases import Release
from activemq_fleet.settings.broker import WaiverSettings
from activemq_fleet.spark.plan.digest import MOST_NAMED, Digest, Store
from activemq_fleet.spark.plan.saying import INPUT, RELEASE
from activemq_fleet.topology.model import MOST_LISTED, KnownGroups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Survey:
    """Numbers of hosts, and of rows that have something, so that joins for which there is nothing are left out."""

    rows: int
    brokers: int
    agents: int
    balancers: int
    by_hand: int
    nearly: int
    first_nearly: tuple[str, ...]
    names: tuple[str, ...]  # of all groups, in order
    patterns: tuple[str, ...]
    said_pattern: int
    releases: tuple[str, ...]
    problems: int
    addresses: int
    points: int
    own_directories: int
    links: Mapping[str, tuple[str, str]]
    waivers: Mapping[str, tuple[int, int, str]]
    stores: Mapping[str, Store]

    @property
    def groups(self) -> int:
        return len(self.names)

    @property
    def first_group(self) -> str:
        return self.names[0] if self.names else ""

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
    """What all tasks that read hosts saw, added up."""
    packed = facts.where("digest is not null").select("digest").toArrow()["digest"].to_pylist()
    return _survey_of(reduce(Digest.and_also, map(Digest.unpacked, packed), Digest()))


def _survey_of(digest: Digest) -> Survey:
    numbers = digest.numbers
    return Survey(
        rows=numbers["rows"],
        brokers=numbers["broker"],
        agents=numbers["agent"],
        balancers=numbers["balancer"],
        by_hand=numbers["by_hand"],
        nearly=numbers["nearly"],
        first_nearly=tuple(digest.nearly),
        names=tuple(sorted(digest.groups)),
        patterns=tuple(sorted(digest.patterns)),
        said_pattern=numbers["pattern"],
        releases=tuple(sorted(digest.releases)),
        problems=numbers["problems"],
        addresses=numbers["address"],
        points=numbers["points"],
        own_directories=numbers["own_directory"],
        links=digest.links,
        waivers=digest.waivers,
        stores=digest.stores,
    )


def refuse_problems(facts: DataFrame) -> None:
    """Raise what hosts' own variables have wrong, a mistake of many hosts as one line."""
    found = (
        facts.select("host", sf.explode("problems").alias("problem"))
        .groupBy("problem")
        .agg(
            sf.count("*").alias("hosts"), sf.slice(sf.sort_array(sf.collect_set("host")), 1, MOST_NAMED).alias("first")
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


def known_groups(found: Survey) -> KnownGroups:
    """The groups that a finding lists: only where there is one that may."""
    listed = found.names[:MOST_LISTED] if found.agents or found.balancers else ()
    return KnownGroups(listed, found.groups)


def waivers_of(found: Survey, today: date) -> tuple[list[WaiverSettings], list[str]]:
    """Those in force, in the order in which the core takes them, and warnings of those that have expired."""
    every = dict.fromkeys(
        WaiverSettings.model_validate(waiver)
        for text, _ in sorted(found.waivers.items(), key=lambda item: item[1])
        for waiver in json.loads(text)
    )
    expired = [waiver for waiver in every if waiver.until and waiver.until < today]
    warnings = [f"the waiver of {w.rule} expired on {w.until}: {w.reason}" for w in expired]
    return [waiver for waiver in every if waiver not in expired], warnings


def warnings_of(found: Survey) -> list[str]:
    """What is said of releases, and of names that are nearly a broker's."""
    texts = list(dict.fromkeys(text for release in found.releases for text in Release.of(release).warnings))
    if found.nearly:
        texts.append(
            f"{named(found.first_nearly, found.nearly)}: the name holds -mq and digits and does not match "
            "activemq_naming_pattern: not a broker of this fleet"
        )
    return texts
