"""Networks of one kind go to few tasks, and every network whole to one."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from activemq_fleet.pipeline.plan.placing import Places, placed, slots_of

COLUMNS = ("component", "host", "home")


def test_a_kind_has_one_task_and_tasks_have_about_the_same_to_do() -> None:
    dice = random.Random(5)
    brokers = {kind: dice.randint(1, 2000) for kind in range(1, 301)}

    slots = slots_of(brokers, 8)

    assert slots.keys() == brokers.keys()
    assert {len(tasks) for tasks in slots.values()} == {1}
    loads = [sum(number + 250 for kind, number in brokers.items() if slots[kind] == (task,)) for task in range(8)]
    assert max(loads) - min(loads) < sum(loads) / 8 / 10


@pytest.mark.parametrize(("brokers", "number"), [({7: 100_000}, 8), ({7: 100_000, 9: 100_000}, 4), ({}, 0)])
def test_a_kind_that_is_most_of_a_fleet_is_for_several_tasks(brokers: dict[int, int], number: int) -> None:
    slots = slots_of(brokers, 8)

    assert [len(tasks) for tasks in slots.values()] == [number] * len(brokers)
    assert len({task for tasks in slots.values() for task in tasks}) == number * len(brokers)


def test_all_rows_of_a_component_go_to_one_task_whatever_their_kinds() -> None:
    places = Places(8, {"a": "a", "b": "a"}, frozenset({"mixed"}), {1: (2,), 3: (5,), 4: (0, 1, 6)})

    assert places.of("a", 1) == places.of("b", 3)
    assert places.of("mixed", 1) == places.of("mixed", 3) == places.of("mixed", None)
    assert places.of("other", 1) == ("other", 2)
    assert {places.of(f"group{number}", 4)[1] for number in range(50)} == {0, 1, 6}
    assert len({places.of(f"group{number}", 9)[1] for number in range(200)}) == 8
    assert places.of(None, None) == (None, 0)


def test_rows_get_their_component_and_task_and_stay_as_they_are() -> None:
    places = Places(4, {"b": "a"}, frozenset(), {1: (3,)})
    rows = pa.RecordBatch.from_pydict({"home": ["b", "c", None], "host": ["x", "y", "z"], "alike": [1, 1, None]})

    (found,) = placed([rows], places=places, columns=COLUMNS)

    assert found.schema.names == [*COLUMNS, "task"]
    assert found.select(COLUMNS).to_pylist() == [
        {"component": "a", "host": "x", "home": "b"},
        {"component": "c", "host": "y", "home": "c"},
        {"component": None, "host": "z", "home": None},
    ]
    assert found["task"].to_pylist() == [places.of("b", 1)[1], 3, places.of(None, None)[1]]
