"""Describe the differences between rendered files and original ones as text for people."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from activemq_fleet.adopt.addition_advice import RenderedAdditionAdvice
from activemq_fleet.adopt.adoption import AdoptedInventory
from activemq_fleet.adopt.difference_groups import (
    AdditionGroup,
    differences_except_percentage_limits,
    group_equal_additions,
    group_omissions_and_changes,
    limits_rendered_as_percentages,
)
from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.settings.host_settings import PREFIX

_MAXIMUM_LENGTH = 400
_MAXIMUM_ADDITION_LENGTH = 100


def difference_report_lines(adoption: AdoptedInventory) -> Iterator[str]:
    """Yield the lines of a report on the differences between existing and rendered files.

    Omissions and changed values come first, then additions with their effect and how to undo them.
    """
    broker_count = len(adoption.fleet.brokers)
    replacements = limits_rendered_as_percentages(adoption.differences)
    other_differences = differences_except_percentage_limits(adoption.differences, replacements)
    limits: dict[str, list[str]] = defaultdict(list)
    for replacement in replacements:
        limits[str(replacement)].append(replacement.host)
    changes = group_omissions_and_changes(other_differences)
    if not adoption.differences:
        yield "The inventory renders files that are equivalent to the original files."
    elif changes or limits:
        place_count = len(limits) + sum(len(change.hosts) for change in changes)
        yield f"The rendered files differ from the original files in {count_with_noun(place_count, 'place')}:"
    else:
        yield "The rendered files keep everything that the original files contain."
    for text, hosts in limits.items():
        yield f"\n{text}"
        yield f"    hosts:    {_hosts_text(hosts, broker_count)}"
    for change in changes:
        yield ""
        yield from _place_lines(change.hosts, f": {change.direction}", broker_count)
        if change.original is not None:
            yield f"    original: {_shortened(change.original)}"
        if change.rendered:
            yield f"    rendered: {', '.join(map(_shortened, change.rendered))}"
    yield from _additions_as_text(group_equal_additions(other_differences, adoption.fleet), broker_count)


def _place_lines(hosts_by_path: Mapping[str, Sequence[str]], suffix: str, broker_count: int) -> Iterator[str]:
    """Yield the report lines of each path of a group of differences, with the hosts.

    The hosts are listed once if all paths have the same hosts, otherwise after each path.
    """
    if len({tuple(hosts) for hosts in hosts_by_path.values()}) > 1:
        for path, hosts in hosts_by_path.items():
            yield f"{path}{suffix}"
            yield f"    hosts:    {_hosts_text(hosts, broker_count)}"
        return
    for path in hosts_by_path:
        yield f"{path}{suffix}"
    yield f"    hosts:    {_hosts_text(next(iter(hosts_by_path.values())), broker_count)}"


def _hosts_text(hosts: Sequence[str], broker_count: int) -> str:
    return f"all {broker_count}" if len(hosts) == broker_count > 1 else ", ".join(hosts)


def _additions_as_text(additions: Sequence[AdditionGroup], broker_count: int) -> Iterator[str]:
    """Yield additions as text: those that change how a broker behaves, each with its effect, then the others."""
    with_effect = [addition for addition in additions if addition.advice.effect]
    if with_effect:
        yield ""
        count = count_with_noun(len(with_effect), "addition")
        yield f"Compared with the original files, the rendered files have {count} with an effect on the broker:"
    for addition in with_effect:
        yield ""
        yield from _place_lines(addition.hosts, "", broker_count)
        yield f"    rendered: {_shortened(addition.rendered, _MAXIMUM_ADDITION_LENGTH)}"
        yield f"    effect:   {addition.advice.effect}"
        yield f"    undo:     {_undo_text(addition.advice)}"
    others = [addition for addition in additions if not addition.advice.effect]
    if others:
        yield ""
        yield f"{count_with_noun(len(others), 'other addition')}, with no known effect on clients:"
    for addition in others:
        for path, hosts in addition.hosts.items():
            hosts_suffix = "" if len(hosts) == broker_count else f" ({', '.join(hosts)})"
            yield f"    {path.removeprefix('beans/')}{hosts_suffix}"
        yield f"        undo: {_undo_text(addition.advice)}"
    if any(addition.advice.variables for addition in additions):
        yield ""
        yield "To undo an addition, add the variable that is printed after `undo:` to the inventory."
        yield "If the inventory already sets this variable, add the shown entries to the mapping or list in its value."
        yield "If the variable already has an entry for the same queue, add the shown settings to that entry."


def _undo_text(advice: RenderedAdditionAdvice) -> str:
    """Return the variables that undo an addition as YAML, or the reason why no variable does."""
    if not advice.variables:
        return f"not possible: {advice.reason}"
    settings = "; ".join(f"{PREFIX}{name}: {_flow_yaml(value)}" for name, value in advice.variables.items())
    return f"{settings}  # {advice.reason}" if advice.reason else settings


def _flow_yaml(value: Any) -> str:
    """Return a value as YAML on one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=math.inf)
    return text.removesuffix("\n").removesuffix("\n...")


def _shortened(text: str, max_length: int = _MAXIMUM_LENGTH) -> str:
    printable_text = "".join(char if char.isprintable() else " " for char in text)
    return printable_text if len(printable_text) <= max_length else f"{printable_text[:max_length]}…"
