"""The HA network of 2011 on real 5.5.1 brokers: the messages of a killed master reach the other masters."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from activemq_fleet.lab.lab import Lab
from tests.integration.traffic import drain, numbered_bodies, send
from tests.integration.waiting import PATIENCE, until
from tests.situations import in_every_situation

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ha-network-5.5"
ROUNDS = int(os.environ.get("KILLS", "1"))
MASTERS = ("clustername-mq01-a", "clustername-mq02-a")


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with Lab.open([EXAMPLE], tmp_path / "lab") as lab:
        lab.up()
        yield lab


def test_promoted_slave_drains_queue_of_its_master_to_other_master(lab: Lab) -> None:
    messages = numbered_bodies("work", 200)
    send(lab, "clustername-mq01-a", "work", messages)

    lab.kill("clustername-mq01-a")

    assert drain(lab, "clustername-mq02-a", "work", 200) == set(messages)

    def peers() -> list[str | None]:
        return [bridge.remote_host for bridge in lab.bridges("clustername-mq01-b")]

    until(
        lambda: peers() == ["clustername-mq02-a.example.com"],
        PATIENCE,
        lambda: f"the promoted slave has exactly one bridge, to clustername-mq02-a: {peers()}",
    )


def _random_victims(seed: int) -> list[str]:
    """Return at most one node of each pair; at least one master survives, because only masters accept clients."""
    rng = random.Random(seed)
    while True:
        chosen = [f"clustername-mq0{pair}-{node}" for pair in (1, 2) if (node := rng.choice(["a", "b", None]))]
        if chosen and set(MASTERS) - set(chosen):
            return chosen


@in_every_situation
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_kills_of_random_nodes_leave_no_message_stuck_or_lost(lab: Lab, seed: int) -> None:
    victims = _random_victims(seed)
    for master in MASTERS:
        send(lab, master, "work", numbered_bodies(master, 100))

    for victim in victims:
        lab.kill(victim)

    survivor = next(master for master in MASTERS if master not in victims)
    expected = {body for master in MASTERS for body in numbered_bodies(master, 100)}
    assert drain(lab, survivor, "work", 200) == expected, (
        f"messages are missing or unexpected after the kills of {victims}"
    )
