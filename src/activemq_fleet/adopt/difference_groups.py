"""Group the differences of all hosts, so that a report lists equal differences once with their hosts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from activemq_fleet.adopt.addition_advice import RenderedAdditionAdvice, advice_on_addition
from activemq_fleet.adopt.xml_diff import XmlDifference
from activemq_fleet.topology import Fleet

ADDITION, OMISSION = "rendered adds", "rendered lacks"
_SIBLING_IDENTITY = re.compile(r"='[^']*'\]|\[[0-9]+\]")
_REFERENCE = re.compile(r"\$\{activemq\.[^}]*\}")


@dataclass(frozen=True, slots=True)
class DifferenceGroup:
    """A group of equal differences between existing and rendered activemq.xml files.

    The differences are at one or more paths. ``hosts`` are those of each path, ``rendered`` all rendered values.
    """

    hosts: Mapping[str, tuple[str, ...]]
    direction: str
    original: str | None
    rendered: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AdditionGroup:
    """A group of equal additions: content that rendered activemq.xml files have and the existing files lack.

    The additions are at one or more paths. The group has their common effect and the variables that undo all of them.
    """

    hosts: Mapping[str, tuple[str, ...]]
    rendered: str
    advice: RenderedAdditionAdvice


@dataclass(frozen=True, slots=True)
class LimitAsPercentage:
    """A memory or disk limit that a rendered file has as a percentage.

    The original file has it in bytes.
    """

    host: str
    path: str
    limit: str
    percent: str
    total: str

    def __str__(self) -> str:
        return (
            f"{self.path}: limit {self.limit} becomes percentLimit {self.percent} of total {self.total} "
            "(`activemq-fleet rule C012` explains the reason)"
        )


def limits_rendered_as_percentages(differences: Iterable[XmlDifference]) -> list[LimitAsPercentage]:
    """Return the memory and disk limits that are absolute in existing activemq.xml files, but rendered as percentages.

    Each result consists of three differences of one host.
    """
    by_host_and_path = {(difference.host, difference.path): difference for difference in differences}
    replacements = []
    for (host, path), difference in by_host_and_path.items():
        element, _, attribute = path.rpartition("/@")
        percent, total = (by_host_and_path.get((host, f"{element}/@{name}")) for name in ("percentLimit", "total"))
        if attribute != "limit" or difference.direction != OMISSION or percent is None or total is None:
            continue
        values = difference.original, percent.rendered, total.rendered
        replacements.append(LimitAsPercentage(host, path, *(value or "" for value in values)))
    return replacements


def differences_except_percentage_limits(
    differences: Iterable[XmlDifference], replacements: Iterable[LimitAsPercentage]
) -> list[XmlDifference]:
    """Return differences of activemq.xml files, except differences in limits that are rendered as percentages."""
    parts = {
        (replacement.host, replacement.path.removesuffix("limit") + name)
        for replacement in replacements
        for name in ("limit", "percentLimit", "total")
    }
    return [difference for difference in differences if (difference.host, difference.path) not in parts]


def group_omissions_and_changes(differences: Iterable[XmlDifference]) -> list[DifferenceGroup]:
    """Return groups of equal differences in which rendered activemq.xml files omit or change content of existing ones.

    Differences of one kind are one group, whatever names their paths contain.
    """
    groups: dict[tuple[str, ...], list[XmlDifference]] = defaultdict(list)
    for difference in differences:
        if difference.direction != ADDITION:
            rendered = _REFERENCE.sub("${}", difference.rendered or "")
            key = _SIBLING_IDENTITY.sub("]", difference.path), difference.direction, difference.original or "", rendered
            groups[key].append(difference)
    return [
        DifferenceGroup(
            _hosts_by_path(group),
            group[0].direction,
            group[0].original,
            tuple(dict.fromkeys(member.rendered for member in group if member.rendered is not None)),
        )
        for group in groups.values()
    ]


def group_equal_additions(differences: Iterable[XmlDifference], fleet: Fleet) -> list[AdditionGroup]:
    """Return groups of equal differences in which rendered activemq.xml files add content that the existing ones lack.

    Each group has its advice. Additions of one kind are one group, whatever names their paths contain.
    """
    groups: dict[tuple[object, ...], list[tuple[XmlDifference, RenderedAdditionAdvice]]] = defaultdict(list)
    for difference in differences:
        if difference.direction == ADDITION:
            advice = advice_on_addition(difference, fleet.broker(difference.host))
            rendered = _SIBLING_IDENTITY.sub("]", difference.rendered or "")
            key = (
                _SIBLING_IDENTITY.sub("]", difference.path),
                rendered,
                advice.effect,
                *advice.variables,
                advice.reason,
            )
            groups[key].append((difference, advice))
    return [
        AdditionGroup(
            _hosts_by_path(difference for difference, _ in group),
            group[0][0].rendered or "",
            replace(group[0][1], variables=_join_variables(advice.variables for _, advice in group)),
        )
        for group in groups.values()
    ]


def _hosts_by_path(differences: Iterable[XmlDifference]) -> dict[str, tuple[str, ...]]:
    hosts: dict[str, tuple[str, ...]] = {}
    for difference in differences:
        hosts[difference.path] = (*hosts.get(difference.path, ()), difference.host)
    return hosts


def _join_variables(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the variables of several pieces of advice in one mapping.

    A list has the entries of all lists, each once.
    """
    joined: dict[str, Any] = {}
    for variables in parts:
        for name, value in variables.items():
            if isinstance(value, list):
                joined_items = joined.setdefault(name, [])
                joined[name] = [*joined_items, *(entry for entry in value if entry not in joined_items)]
            else:
                joined[name] = value
    return joined
