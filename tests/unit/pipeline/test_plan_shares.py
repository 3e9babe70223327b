"""Tasks get whole components, alike ones together, and about as much to do."""

from __future__ import annotations

import random

from activemq_fleet.pipeline.plan.shares import Size, shares

DICE = random.Random(5)
GROUPS = [
    Size(f"g{number:04d}", f"mesh shared-file 5.{DICE.randint(5, 18)}.1", DICE.choice([2, 4, 20, 90]))
    for number in range(500)
]


def test_tasks_have_about_as_many_brokers_and_groups() -> None:
    task_of = shares(GROUPS, {}, 8)

    loads = [0] * 8
    for group in GROUPS:
        loads[task_of[group.group]] += group.brokers + 20
    assert max(loads) < 1.1 * min(loads)


def test_groups_that_are_alike_are_in_as_few_tasks_as_may_be() -> None:
    small = [group for group in GROUPS if group.brokers < 24]
    task_of = shares(small, {}, 4)

    tasks_of: dict[str, set[int]] = {}
    for group in small:
        tasks_of.setdefault(group.likeness, set()).add(task_of[group.group])
    assert sum(map(len, tasks_of.values())) <= len(tasks_of) + 3


def test_a_component_is_in_one_task_whatever_its_groups_are_like() -> None:
    component_of = {"g0001": "g0001", "g0002": "g0001", "g0400": "g0001"}

    task_of = shares(GROUPS, component_of, 8)

    assert set(task_of) == {group.group for group in GROUPS} - {"g0002", "g0400"}


def test_every_task_there_is_and_no_other_is_given() -> None:
    assert set(shares(GROUPS, {}, 8).values()) == set(range(8))
    assert shares([Size("a", "", 100)], {}, 8).keys() == {"a"}
    assert shares([], {}, 8) == {}
    assert max(shares([Size("a", "", 1), Size("b", "", 10_000)], {}, 3).values()) < 3
