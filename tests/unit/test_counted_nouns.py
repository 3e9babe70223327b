"""Sentences that count: one thing is singular, and the playbooks' own sentences are no exception."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment

from activemq_fleet.node.printable import count_with_noun

REPOSITORY = Path(__file__).resolve().parents[2]
SWITCHOVER = REPOSITORY / "roles" / "broker" / "tasks" / "switchover_act.yml"


@pytest.mark.parametrize(("number", "said"), [(0, "0 gaps"), (1, "1 gap"), (2, "2 gaps"), (1000, "1,000 gaps")])
def test_a_noun_follows_its_number(number: int, said: str) -> None:
    assert count_with_noun(number, "gap") == said


def test_an_irregular_plural_is_named() -> None:
    assert [count_with_noun(number, "info", "info") for number in (1, 2)] == ["1 info", "2 info"]


@pytest.mark.parametrize(
    ("number", "said"), [(1, "Clients were interrupted 1 time."), (2, "Clients were interrupted 2 times.")]
)
def test_a_switchover_counts_the_gaps_of_its_clients(number: int, said: str) -> None:
    environment = Environment(autoescape=False)  # noqa: S701 - a sentence for a terminal
    rendered = environment.from_string(message_of(SWITCHOVER, "Show the downtime")).render(
        inventory_hostname="orders-mq01-a",
        __activemq_step={"peer": "orders-mq01-b"},
        __activemq_seen={"longest": 3.5, "gaps": [{}] * number},
        gaps=number,
    )

    assert said in rendered
    assert rendered.endswith("The longest interruption lasted 3.5 s")


def message_of(file: Path, name: str) -> str:
    """What the task of a name says, in a file of tasks or of plays."""
    found: list[dict[str, Any]] = yaml.safe_load(file.read_text())
    tasks = [task for play in found for task in play.get("tasks", [play])]
    (message,) = [task["ansible.builtin.debug"]["msg"] for task in tasks if task["name"] == name]
    return str(message)


SENTENCES = [
    (
        REPOSITORY / "playbooks/check.yml",
        "Show what was checked",
        "the configuration of 1 broker and 1 agent has no errors",
    ),
    (REPOSITORY / "playbooks/collect.yml", "Show what was collected", "DIR contains the files of 1 of 1 host"),
    (REPOSITORY / "playbooks/plays/target.yml", "Show how to continue an interrupted run", "with 1 broker. If"),
    (REPOSITORY / "roles/broker/tasks/begin_drill.yml", "Show the order of the faults", "injects 1 fault in"),
]


@pytest.mark.parametrize(("file", "name", "said"), SENTENCES, ids=[file.name for file, _, _ in SENTENCES])
def test_a_playbook_that_counts_one_thing_says_so(file: Path, name: str, said: str) -> None:
    environment = Environment(autoescape=False)  # noqa: S701 - a sentence for a terminal
    environment.filters["difference"] = lambda these, those: [one for one in these if one not in those]
    counts = dict.fromkeys(("brokers", "agents", "faults", "all_hosts"), 1)
    rendered = environment.from_string(message_of(file, name)).render(
        __activemq_begun={"order": ["x"], "seed": 7},
        __activemq_collection={"directory": "DIR"},
        __activemq_meant={"target": {"name": "", "since": "now"}},
        brought=["x"],
        missing=[],
        **counts,
    )

    assert said in rendered
