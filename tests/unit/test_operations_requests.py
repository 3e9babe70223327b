"""The table that every operation ends with."""

from __future__ import annotations

from activemq_fleet.operations.requests import outcome_table

A, B = "orders-mq01-a", "orders-mq01-b"


def test_a_line_for_each_host_says_what_it_was_what_it_is_and_what_was_done() -> None:
    found = outcome_table(
        [A, B],
        {A: {"release": "5.17.6", "state": "active"}, B: {"release": "5.17.6", "state": "standby"}},
        {A: {"release": "5.18.3", "state": "standby"}, B: {"release": "5.18.3", "state": "active"}},
        {A: ["switch", "upgrade"], B: ["upgrade"]},
        {A: 0.94},
    )
    assert found == [
        "host           before          after           gap    changed",
        "orders-mq01-a  5.17.6 active   5.18.3 standby  0.9 s  switch, upgrade",
        "orders-mq01-b  5.17.6 standby  5.18.3 active   -      upgrade",
    ]


def test_a_host_that_was_left_alone_is_as_it_was() -> None:
    head, line = outcome_table([A], {}, {A: {"release": None, "state": "active"}}, {A: []}, {A: None})
    assert line.split() == [A, "active", "active", "-", "no"]
    assert head.split() == ["host", "before", "after", "gap", "changed"]


def test_a_host_that_nobody_looked_at_is_not_known() -> None:
    assert "not known" in outcome_table([A], {}, {}, {}, {})[1]
