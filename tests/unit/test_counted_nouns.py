"""Sentences that count: one thing is singular, and the playbooks' own sentences are no exception."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment

from activemq_fleet.printable import counted

REPOSITORY = Path(__file__).resolve().parents[2]
SWITCHOVER = REPOSITORY / "roles" / "broker" / "tasks" / "switchover_act.yml"


@pytest.mark.parametrize(("number", "said"), [(0, "0 gaps"), (1, "1 gap"), (2, "2 gaps"), (1000, "1,000 gaps")])
def test_a_noun_follows_its_number(number: int, said: str) -> None:
    assert counted(number, "gap") == said


def test_an_irregular_plural_is_named() -> None:
    assert [counted(number, "info", "info") for number in (1, 2)] == ["1 info", "2 info"]


@pytest.mark.parametrize(("number", "said"), [(1, "was 3.5 s, in 1 gap"), (2, "was 3.5 s, in 2 gaps")])
def test_a_switchover_counts_the_gaps_of_its_clients(number: int, said: str) -> None:
    tasks: list[dict[str, Any]] = yaml.safe_load(SWITCHOVER.read_text())
    (message,) = [
        task["ansible.builtin.debug"]["msg"] for task in tasks if task["name"] == "Say how long nobody served"
    ]
    environment = Environment(autoescape=False)  # noqa: S701 - a sentence for a terminal
    environment.filters["ternary"] = lambda value, yes, no: yes if value else no
    rendered = environment.from_string(message).render(
        inventory_hostname="orders-mq01-a",
        __activemq_step={"peer": "orders-mq01-b"},
        __activemq_seen={"longest": 3.5, "gaps": [{}] * number},
        gaps=number,
    )

    assert rendered.endswith(said)
