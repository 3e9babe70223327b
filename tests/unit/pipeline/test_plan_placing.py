"""Every network goes whole to one task."""

from __future__ import annotations

import pyarrow as pa

from activemq_fleet.spark.plan.placing import Places, placed

COLUMNS = ("component", "host", "home")


def test_all_groups_of_a_component_go_to_one_task_and_others_to_all() -> None:
    places = Places(8, {"a": "a", "b": "a"})

    assert places.of("a") == places.of("b")
    assert places.of("other")[0] == "other"
    assert {places.of(f"group{number}")[1] for number in range(200)} == {*range(8)}
    assert places.of(None) == (None, 0)


def test_rows_get_their_component_and_task_and_stay_as_they_are() -> None:
    places = Places(4, {"b": "a"})
    rows = pa.RecordBatch.from_pydict({"home": ["b", "c", None], "host": ["x", "y", "z"]})

    (found,) = placed([rows], places=places, columns=COLUMNS)

    assert found.schema.names == [*COLUMNS, "task"]
    assert found.select(COLUMNS).to_pylist() == [
        {"component": "a", "host": "x", "home": "b"},
        {"component": "c", "host": "y", "home": "c"},
        {"component": None, "host": "z", "home": None},
    ]
    assert found["task"].to_pylist() == [places.of("b")[1], places.of("c")[1], places.of(None)[1]]
