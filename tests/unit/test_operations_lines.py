"""What site leaves to the playbook upgrade."""

from __future__ import annotations

from activemq_fleet.operations.lines import line_changes


def test_another_line_is_an_upgrade_and_another_patch_is_not() -> None:
    running = {"x-mq01-a": "5.17.6", "x-mq01-b": "5.18.2", "x-mq02-a": "5.18.3", "x-mq02-b": None}
    (problem,) = line_changes(running, dict.fromkeys(running, "5.18.3"))
    assert problem.startswith("x-mq01-a: runs 5.17.6, and the inventory says 5.18.3: ")
    assert "the playbook upgrade" in problem


def test_a_release_that_nobody_knows_is_another_line() -> None:
    assert line_changes({"x-mq01-a": "5.11.0.vendor-1"}, {"x-mq01-a": "5.11.4"})
    assert not line_changes({"x-mq01-a": "5.11.0.vendor-1"}, {"x-mq01-a": "5.11.0.vendor-1"})
