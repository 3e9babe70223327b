"""Counted nouns: the number 1 has a singular noun, in the library and in the messages of the playbooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment

from activemq_fleet.node.printable import count_with_noun

REPOSITORY = Path(__file__).resolve().parents[2]
SWITCHOVER = REPOSITORY / "roles" / "broker" / "tasks" / "switchover_act.yml"


@pytest.mark.parametrize(("number", "expected"), [(0, "0 gaps"), (1, "1 gap"), (2, "2 gaps"), (1000, "1,000 gaps")])
def test_counted_noun_agrees_with_its_number(number: int, expected: str) -> None:
    assert count_with_noun(number, "gap") == expected


def test_irregular_plural_of_counted_noun_is_used() -> None:
    assert [count_with_noun(number, "info", "info") for number in (1, 2)] == ["1 info", "2 info"]


@pytest.mark.parametrize(
    ("number", "sentence"), [(1, "Clients were interrupted 1 time."), (2, "Clients were interrupted 2 times.")]
)
def test_switchover_message_counts_interruptions_of_clients(number: int, sentence: str) -> None:
    environment = Environment(autoescape=False)  # noqa: S701 - a sentence for a terminal
    rendered = environment.from_string(read_task_message(SWITCHOVER, "Show the downtime")).render(
        inventory_hostname="orders-mq01-a",
        __activemq_step={"peer": "orders-mq01-b"},
        __activemq_switchover_interruptions={"longest": 3.5, "gaps": [{}] * number},
        gaps=number,
    )

    assert sentence in rendered
    assert rendered.endswith("The longest interruption lasted 3.5 s")


def read_task_message(file: Path, name: str) -> str:
    """Return the message of the task with this name from a file of tasks or of plays."""
    plays: list[dict[str, Any]] = yaml.safe_load(file.read_text())
    tasks = [task for play in plays for task in play.get("tasks", [play])]
    (message,) = [task["ansible.builtin.debug"]["msg"] for task in tasks if task["name"] == name]
    return str(message)


MESSAGES = [
    (
        REPOSITORY / "playbooks/check.yml",
        "Show what was checked",
        "the configuration of 1 broker and 1 agent has no errors",
    ),
    (REPOSITORY / "playbooks/collect.yml", "Show what was collected", "DIR contains the files of 1 of 1 host"),
    (REPOSITORY / "playbooks/plays/target.yml", "Show how to continue an interrupted run", "with 1 broker. If"),
    (REPOSITORY / "roles/broker/tasks/begin_drill.yml", "Show the order of the faults", "injects 1 fault in"),
]


@pytest.mark.parametrize(("file", "name", "phrase"), MESSAGES, ids=[file.name for file, _, _ in MESSAGES])
def test_playbook_message_has_singular_noun_for_number_1(file: Path, name: str, phrase: str) -> None:
    environment = Environment(autoescape=False)  # noqa: S701 - a sentence for a terminal
    environment.filters["difference"] = lambda names, excluded: [name for name in names if name not in excluded]
    counts = dict.fromkeys(("brokers", "agents", "faults", "all_hosts"), 1)
    rendered = environment.from_string(read_task_message(file, name)).render(
        __activemq_begun_drill={"order": ["x"], "seed": 7},
        __activemq_collection={"directory": "DIR"},
        __activemq_target_result={"target": {"name": "", "since": "now"}},
        brought=["x"],
        missing=[],
        **counts,
    )

    assert phrase in rendered
