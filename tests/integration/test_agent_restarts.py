"""Real agents are killed with -9 under load, again and again, and a store is full: what was promised holds.

AGENT_KILLS (20) sets how often each of the two agents is killed. A run below 50 events a second before a kill proves
nothing: it fails as void.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.lab import Lab
from tests.integration.agents import (
    LOWEST_RATE,
    Agent,
    Handlers,
    Load,
    account,
    bound_of,
    sockets,
    until,
    wait_handled,
    write_fleet,
)
from tests.integration.conftest import LabOf

__all__ = ["sockets"]  # the fixture

KILLS = int(os.environ.get("AGENT_KILLS", "20"))
BROKER = "orders-mq01-a.example.com"
PUBLISHER, SUBSCRIBER = "shop01.example.com", "ledger01.example.com"
QUICK, SLOW = "quick/shop/OrderEvent", "slow/shop/InvoiceEvent"
FILTERS = ("quick/#", "slow/#")
TOPICS = (QUICK,) * 39 + (SLOW,)
WINDOW = 20
PREFETCH = 100
"""Messages that a broker sends again to a durable subscriber that comes back."""
RATE = 150.0
MEASURED = 0.5
"""Seconds before a kill in which the rate is measured."""
RESTART = 60.0


def _lab(lab_of: LabOf, tmp_path: Path, sockets: Path, **variables: Any) -> Lab:
    agents: dict[str, dict[str, Any]] = {
        PUBLISHER: {"publisher_window": WINDOW},
        SUBSCRIBER: {"topics": list(FILTERS), "handlers": str(tmp_path / "handlers" / "handlers.d")},
    }
    fleet = write_fleet(tmp_path / "inventory", sockets, [BROKER], agents, release="5.18.3", ha="none", **variables)
    lab = lab_of(fleet)
    lab.up()
    return lab


@dataclass
class Site:
    """A broker, two agents at home there, and the handlers of one of them."""

    publisher: Agent
    subscriber: Agent
    handlers: Handlers
    kills: list[float] = field(default_factory=list)

    def kill_both(self, load: Load, chance: random.Random) -> float:
        """Kill both agents at moments of their own, start them again; returns events a second before."""
        first, second = chance.sample([self.publisher, self.subscriber], 2)
        time.sleep(MEASURED + chance.uniform(0.0, 0.5))
        rate = load.rate_before(time.time(), MEASURED)
        first.kill()
        first.start()
        time.sleep(chance.uniform(0.0, 0.2))
        second.kill()
        second.start()
        again = time.time()
        handled = len(self.handlers.runs())
        until(lambda: load.moments[-1] > again, RESTART, lambda: f"events are taken: {self.publisher.said}")
        until(lambda: len(self.handlers.runs()) > handled, RESTART, lambda: f"events come: {self.subscriber.said}")
        return rate


@pytest.fixture
def site(lab_of: LabOf, tmp_path: Path, sockets: Path) -> Iterator[Site]:
    handlers = Handlers(tmp_path / "handlers", installed=["OrderEvent"], slow=["InvoiceEvent"])
    lab = _lab(lab_of, tmp_path, sockets)
    with ExitStack() as stack:
        subscriber = stack.enter_context(Agent(lab, SUBSCRIBER, python_path=[handlers.directory]))
        subscriber.wait_subscribed(len(FILTERS))
        publisher = stack.enter_context(Agent(lab, PUBLISHER))
        publisher.wait_connected()
        yield Site(publisher, subscriber, handlers)


@pytest.mark.timeout(240 + 30 * KILLS)
def test_nothing_accepted_is_lost_when_the_agents_die_again_and_again(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    chance, began = random.Random(os.environ.get("SEED", "1")), time.time()
    with Load(site.publisher, TOPICS, rate=RATE, named=True) as load:
        until(lambda: len(load.promised) > RATE, 30, "load begins")
        rates = [site.kill_both(load, chance) for _ in range(KILLS)]
        promised = load.finish()
    wait_handled(promised, site.subscriber)
    site.publisher.stop()
    site.subscriber.stop()

    result = account(promised, site.subscriber.journal, began)
    reconnects = [len(agent.journal.of("connected")) - 1 for agent in (site.publisher, site.subscriber)]
    most_copies = 2 * WINDOW * reconnects[0] + PREFETCH * reconnects[1]
    runs = site.handlers.runs()
    again = sum(len(attempts) - 1 for attempts in runs.values())
    with capsys.disabled():
        print(
            f"\n{KILLS} kills -9 of each agent: {result}; at least {min(rates):.0f} events/s before each; "
            f"at most {most_copies} copies allowed; {again} handlers ran again of {KILLS * len(FILTERS)} allowed; "
            f"loss in at most {bound_of(KILLS):.0%} a kill at 95 %"
        )
    assert min(rates) >= LOWEST_RATE, f"void: {min(rates):.0f} events a second before a kill"
    assert result.lost == ()
    assert result.twice == ()
    assert result.copies <= most_copies
    assert again <= KILLS * len(FILTERS)


def test_a_handler_runs_again_only_if_it_was_cut_short_and_is_told_so(site: Site) -> None:
    with Load(site.publisher, [SLOW], rate=20.0, threads=1) as load:
        until(lambda: site.handlers.runs(), 30, "a handler runs")
        for _ in range(3):
            begun = len(site.handlers.runs())
            until(lambda: len(site.handlers.runs()) > begun, 30, "another handler runs")  # noqa: B023
            site.subscriber.kill()
            site.subscriber.start()
        promised = load.finish()[:10]
    wait_handled(promised, site.subscriber)

    runs = site.handlers.runs()
    cut_short = [attempts for attempts in runs.values() if len(attempts) > 1]
    assert cut_short, "void: no kill hit a running handler"
    assert all(attempts == list(range(1, len(attempts) + 1)) for attempts in runs.values())
    done: set[str] = set()
    for record in site.subscriber.journal.of("handling", "handled"):
        assert record["event_id"] not in done, "it ran, or was recorded, after it was handled"
        if record["kind"] == "handled":
            done.add(record["event_id"])
    assert len(cut_short) <= 3


LARGE = json.dumps({"filling": "x" * 64_000})


def test_what_a_full_store_refuses_is_never_reported_as_delivered(lab_of: LabOf, tmp_path: Path, sockets: Path) -> None:
    """A store of 16 MB never has room again once it is full: its file is written to for good."""
    (tmp_path / "handlers" / "handlers.d").mkdir(parents=True)
    lab = _lab(lab_of, tmp_path, sockets, store_limit="16 mb")
    with Agent(lab, SUBSCRIBER) as subscriber, Agent(lab, PUBLISHER) as publisher:
        subscriber.wait_subscribed(len(FILTERS))
        with publisher.client() as client:
            accepted = [client.publish(QUICK, LARGE) for _ in range(500)]
        journal = publisher.journal

        acknowledged = Counter[str]()
        since = time.monotonic()
        while time.monotonic() < since + 8:
            ids = journal.ids("acknowledged")
            if len(ids) > acknowledged.total():
                acknowledged, since = Counter(ids), time.monotonic()
            time.sleep(0.5)
        wait_handled(acknowledged, subscriber, 10)

        handled = set(subscriber.journal.ids("handled"))
        assert 20 <= len(acknowledged) <= 480, "void: the store did not fill up"
        assert set(acknowledged) <= handled
        assert max(acknowledged.values()) == 1
        unproved = set(accepted) - set(acknowledged) - set(journal.ids("unconfirmed"))
        assert unproved, "void: all was acknowledged"
        with publisher.client() as client:
            assert client.status()["store"]["outbox_rows"] == len(unproved)
