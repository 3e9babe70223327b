"""Real agents are killed with -9 under load, again and again, and a store is full: what was promised holds.

AGENT_KILLS (8) sets how often each of the two agents is killed. A kill below 50 events a second would prove nothing,
so it waits until the load is there.
"""

from __future__ import annotations

import json
import os
import random
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.lab.lab import Lab
from tests.guarded import directory_for_handlers
from tests.integration.agent_handlers import Handlers
from tests.integration.agent_journals import Account, Record, account
from tests.integration.agents import Agent, Load, loss_bound, sockets, wait_handled, write_fleet
from tests.integration.conftest import LabOf
from tests.integration.waiting import PATIENCE, until
from tests.mqtt_clients import MqttSubscriber
from tests.situations import in_every_situation
from tests.waiting import LateError

__all__ = ["sockets"]  # the fixture

KILLS = int(os.environ.get("AGENT_KILLS", "8"))
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
RESTART = 120.0


@dataclass(frozen=True, slots=True)
class Run:
    """What a run left behind: settled, with the rates before kills, copies on the wire, and the handlers' runs."""

    result: Account
    rates: list[float]
    wire_copies: int
    reconnects: tuple[int, int]
    """Of publisher and subscriber, restarts among them."""
    handled: list[Record]
    """Records ``handling`` and ``handled`` of the subscriber, in order."""
    runs: dict[str, list[int]]


def _fleet(directory: Path, sockets: Path, handlers: Path | None = None, **variables: Any) -> Path:
    """One broker, which nobody kills, and two agents."""
    agents: dict[str, dict[str, Any]] = {
        PUBLISHER: {"publisher_window": WINDOW},
        SUBSCRIBER: {"topics": list(FILTERS), **({"handlers": str(handlers)} if handlers else {})},
    }
    return write_fleet(directory, sockets, [BROKER], agents, release="5.18.3", ha="none", **variables)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, sockets: Path) -> Run:
    """KILLS kills of each agent under load; a plain subscriber that nobody kills sees what is on the wire."""
    directory = tmp_path_factory.mktemp("restarts")
    began = time.time()
    with ExitStack() as stack:
        programs = stack.enter_context(directory_for_handlers())
        handlers = Handlers(directory / "handlers", programs, installed=["OrderEvent"], slow=["InvoiceEvent"])
        fleet = _fleet(directory / "inventory", sockets, handlers.programs)
        lab = stack.enter_context(Lab.open([fleet], directory / "lab"))
        lab.up()
        subscriber = stack.enter_context(Agent(lab, SUBSCRIBER, python_path=[handlers.directory]))
        wire = MqttSubscriber(lab.addresses(BROKER, "mqtt"), FILTERS, lab.credentials(BROKER), client_id="wire")
        stack.enter_context(wire)
        subscriber.wait_subscribed(len(FILTERS))
        publisher = stack.enter_context(Agent(lab, PUBLISHER))
        chance = random.Random(os.environ.get("SEED", "1"))
        with Load(publisher, TOPICS, rate=RATE, named=True) as load:
            until(lambda: len(load.promised) > RATE, PATIENCE, lambda: f"load begins: {publisher.log_tail}")
            rates = [kill_both(publisher, subscriber, load, handlers, chance) for _ in range(KILLS)]
            promised = load.finish()
        wait_handled(promised, subscriber)
        publisher.stop()
        subscriber.stop()
        sent = [payload for payload in wire.wait(len(set(promised)), 60) if '"number"' in payload]
    publisher_lives, subscriber_lives = (len(agent.journal.of("connected")) for agent in (publisher, subscriber))
    return Run(
        result=account(promised, subscriber.journal, began),
        rates=rates,
        wire_copies=len(sent) - len(set(sent)),
        # An agent without topics has one connection, one with topics has two.
        reconnects=(publisher_lives - 1, subscriber_lives // 2 - 1),
        handled=subscriber.journal.of("handling", "handled"),
        runs=handlers.runs(),
    )


def kill_both(publisher: Agent, subscriber: Agent, load: Load, handlers: Handlers, chance: random.Random) -> float:
    """Kill both agents at moments of their own, start them again; returns events a second before."""
    first, second = chance.sample([publisher, subscriber], 2)
    time.sleep(MEASURED + chance.uniform(0.0, 0.5))
    rate = load.wait_rate(MEASURED)
    lives = len(publisher.journal.of("connected"))
    first.kill()
    first.start()
    time.sleep(chance.uniform(0.0, 0.2))
    second.kill()
    second.start()
    again, handled = time.time(), len(handlers.runs())
    until(lambda: len(publisher.journal.of("connected")) > lives, RESTART, lambda: f"it connects: {publisher.log_tail}")
    until(lambda: load.moments[-1] > again, RESTART, lambda: f"events are taken: {publisher.log_tail}")
    until(lambda: len(handlers.runs()) > handled, RESTART, lambda: f"events come: {subscriber.log_tail}")
    return rate


@in_every_situation
@pytest.mark.timeout(240 + 30 * KILLS)
def test_nothing_accepted_is_lost_when_the_agents_die_again_and_again(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(
            f"\n{KILLS} kills -9 of each agent: {run.result}; at least {min(run.rates):.0f} events/s before each; "
            f"{run.wire_copies} copies on the wire; {again(run)} handlers ran again; "
            f"loss in at most {loss_bound(KILLS):.0%} a kill at 95 %"
        )
    assert run.result.lost == ()
    assert run.result.handled_twice == ()


@in_every_situation
def test_the_copies_of_restarts_are_bounded(run: Run) -> None:
    published, redelivered = run.reconnects
    assert published >= KILLS, "every kill was of an agent that was connected"
    # Promised is the window and what waits to be deleted: at this rate, less than a second window.
    assert run.wire_copies <= 2 * WINDOW * published
    assert run.result.copies - run.wire_copies <= PREFETCH * redelivered


def again(run: Run) -> int:
    """Runs of handlers beyond the first of an event."""
    return sum(len(attempts) - 1 for attempts in run.runs.values())


@in_every_situation
def test_a_handler_runs_again_only_if_it_was_cut_short_and_is_told_so(run: Run) -> None:
    assert again(run), "void: no kill hit a running handler"
    assert again(run) <= KILLS * len(FILTERS)
    assert all(attempts == sorted(set(attempts)) for attempts in run.runs.values())
    done: set[str] = set()
    for record in run.handled:
        assert record["event_id"] not in done, "it ran, or was recorded, after it was handled"
        if record["kind"] == "handled":
            done.add(record["event_id"])


FULL = "Persistent store is Full"
"""What a broker says that lets a publisher wait."""
QUIET = 12
"""Looks, two a second, without another PUBACK after which none comes any more."""
LARGE_EVENTS = 350
LARGE = json.dumps({"filling": "x" * 64_000})


def test_what_a_full_store_refuses_is_never_reported_as_delivered(lab_of: LabOf, tmp_path: Path, sockets: Path) -> None:
    """A store of 16 MB never has room again once it is full: its file is written to for good."""
    lab = lab_of(_fleet(tmp_path / "inventory", sockets, store_limit="16 mb"))
    lab.up()
    with Agent(lab, SUBSCRIBER) as subscriber, Agent(lab, PUBLISHER) as publisher:
        subscriber.wait_subscribed(len(FILTERS))
        with publisher.client() as client:
            accepted = client.publish_all([(QUICK, LARGE)] * LARGE_EVENTS)
        until(lambda: FULL in lab.log(BROKER).read_text(), PATIENCE, lambda: f"the store is full: {publisher.log_tail}")
        acknowledged = _all_acknowledged(publisher)
        wait_handled(acknowledged, subscriber)

        if not 20 <= len(acknowledged) <= LARGE_EVENTS - 20:
            pytest.fail(f"void: {len(acknowledged)} of {LARGE_EVENTS} events were acknowledged before it was full")
        assert set(acknowledged) <= set(subscriber.journal.ids("handled"))
        assert len(acknowledged) == len(set(acknowledged))

        def waiting() -> set[str]:
            return set(accepted) - set(publisher.journal.ids("acknowledged", "unconfirmed"))

        with publisher.client() as client, suppress(LateError):  # the journal is written after the store
            until(lambda: client.status()["store"]["outbox_rows"] == len(waiting()), PATIENCE, "the journal tells all")
        with publisher.client() as client:
            assert client.status()["store"]["outbox_rows"] == len(waiting()) > 0


def _all_acknowledged(publisher: Agent) -> list[str]:
    """Ids of what a broker has acknowledged, when no more come."""
    found: list[str] = []
    looks = 0
    while looks < QUIET:
        ids = publisher.journal.ids("acknowledged")
        found, looks = ids, looks + 1 if len(ids) == len(found) else 0
        time.sleep(0.5)
    return found
