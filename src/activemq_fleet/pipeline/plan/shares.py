"""Which task looks at which component: alike ones at the same, all tasks about as long. Pure.

What a worker has found out about one document or network it knows for all that are alike. Spread
by chance, each worker would meet nearly every kind itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

_LARGE = 24
"""Brokers. Of a larger network its routes take longest, and those follow from its form; else its documents do."""
_OWN = 20
"""What a component takes by itself, in what one of its brokers does."""


class Size(NamedTuple):
    """A group: how alike it is to others (``facts.SCHEMA``), and its brokers."""

    group: str
    likeness: str
    brokers: int


def shares(groups: Iterable[Size], component_of: Mapping[str, str], tasks: int) -> dict[str, int]:
    """Component -> its task, from 0. A group that ``component_of`` does not have is a component."""
    found: dict[str, tuple[str, int]] = {}
    for group in groups:
        component = component_of.get(group.group, group.group)
        likeness, brokers = found.get(component, (group.likeness, 0))
        found[component] = min(likeness, group.likeness), brokers + group.brokers
    whole = sum(brokers + _OWN for _, brokers in found.values())
    before, result = 0, {}
    for component, (_, brokers) in sorted(found.items(), key=_order):
        # By its middle: a component that is larger than a share does not leave the one before it empty.
        result[component] = (2 * before + brokers + _OWN) * tasks // (2 * whole)
        before += brokers + _OWN
    return result


def _order(item: tuple[str, tuple[str, int]]) -> tuple[bool, str, int, str, str]:
    component, (likeness, brokers) = item
    large = brokers > _LARGE
    topology = likeness.partition(" ")[0]
    return large, topology if large else likeness, brokers if large else 0, likeness, component
