"""Real agents are killed repeatedly with -9 under load, and a store is full: no promised event is lost.

AGENT_KILLS (default 8) sets the number of kills of each of the two agents. A kill below 50 events per second would
prove nothing, so each kill waits until the rate is higher.
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
"""Messages that a broker sends again to a durable subscriber that reconnects."""
RATE = 150.0
MEASURED = 0.5
"""Seconds before a kill in which the rate is measured."""
RESTART = 120.0


@dataclass(frozen=True, slots=True)
class Run:
    """Outcome of a run: the events, the rates before the kills, the copies on the wire, and the runs of handlers."""

    totals: Account
    rates: list[float]
    wire_copies: int
    reconnects: tuple[int, int]
    """Reconnections of publisher and subscriber, including those after restarts."""
    handled: list[Record]
    """Records ``handling`` and ``handled`` of the subscriber, in order."""
    runs: dict[str, list[int]]


def _write_inventory(directory: Path, sockets: Path, handlers: Path | None = None, **variables: Any) -> Path:
    """Write an inventory of two agents and a broker that is not killed."""
    agents: dict[str, dict[str, Any]] = {
        PUBLISHER: {"publisher_window": WINDOW},
        SUBSCRIBER: {"topics": list(FILTERS), **({"handlers": str(handlers)} if handlers else {})},
    }
    return write_fleet(directory, sockets, [BROKER], agents, release="5.18.3", ha="none", **variables)


@pytest.fixture(scope="module")
def restart_run(tmp_path_factory: pytest.TempPathFactory, sockets: Path) -> Run:
    """Kill each agent KILLS times under load; a plain subscriber that is not killed receives all copies on the wire."""
    directory = tmp_path_factory.mktemp("restarts")
    started_at = time.time()
    with ExitStack() as stack:
        programs = stack.enter_context(directory_for_handlers())
        handlers = Handlers(directory / "handlers", programs, installed=["OrderEvent"], slow=["InvoiceEvent"])
        fleet = _write_inventory(directory / "inventory", sockets, handlers.programs)
        lab = stack.enter_context(Lab.open([fleet], directory / "lab"))
        lab.up()
        subscriber = stack.enter_context(Agent(lab, SUBSCRIBER, python_path=[handlers.directory]))
        wire = MqttSubscriber(lab.addresses(BROKER, "mqtt"), FILTERS, lab.credentials(BROKER), client_id="wire")
        stack.enter_context(wire)
        subscriber.wait_subscribed(len(FILTERS))
        publisher = stack.enter_context(Agent(lab, PUBLISHER))
        rng = random.Random(os.environ.get("SEED", "1"))
        with Load(publisher, TOPICS, rate=RATE, named=True) as load:
            until(lambda: len(load.promised) > RATE, PATIENCE, lambda: f"the load has started: {publisher.log_tail}")
            rates = [kill_both(publisher, subscriber, load, handlers, rng) for _ in range(KILLS)]
            promised = load.finish()
        wait_handled(promised, subscriber)
        publisher.stop()
        subscriber.stop()
        sent = [payload for payload in wire.wait(len(set(promised)), 60) if '"number"' in payload]
    publisher_connections, subscriber_connections = (
        len(agent.journal.of("connected")) for agent in (publisher, subscriber)
    )
    return Run(
        totals=account(promised, subscriber.journal, started_at),
        rates=rates,
        wire_copies=len(sent) - len(set(sent)),
        # An agent without topics has one connection, one with topics has two.
        reconnects=(publisher_connections - 1, subscriber_connections // 2 - 1),
        handled=subscriber.journal.of("handling", "handled"),
        runs=handlers.runs(),
    )


def kill_both(publisher: Agent, subscriber: Agent, load: Load, handlers: Handlers, rng: random.Random) -> float:
    """Kill both agents at two random moments and start them again; return the events per second before the kills."""
    first_killed, second_killed = rng.sample([publisher, subscriber], 2)
    time.sleep(MEASURED + rng.uniform(0.0, 0.5))
    rate = load.wait_rate(MEASURED)
    connections = len(publisher.journal.of("connected"))
    first_killed.kill()
    first_killed.start()
    time.sleep(rng.uniform(0.0, 0.2))
    second_killed.kill()
    second_killed.start()
    restarted_at, handled = time.time(), len(handlers.runs())
    until(
        lambda: len(publisher.journal.of("connected")) > connections,
        RESTART,
        lambda: f"the publisher connects: {publisher.log_tail}",
    )
    until(
        lambda: load.moments[-1] > restarted_at, RESTART, lambda: f"the publisher accepts events: {publisher.log_tail}"
    )
    until(
        lambda: len(handlers.runs()) > handled, RESTART, lambda: f"the subscriber handles events: {subscriber.log_tail}"
    )
    return rate


@in_every_situation
@pytest.mark.timeout(240 + 30 * KILLS)
def test_repeated_kills_of_agents_lose_and_duplicate_no_event(
    restart_run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    with capsys.disabled():
        print(
            f"\n{KILLS} kills -9 of each agent: {restart_run.totals}; "
            f"at least {min(restart_run.rates):.0f} events/s before each; "
            f"{restart_run.wire_copies} copies on the wire; {repeated_handler_runs(restart_run)} handlers ran again; "
            f"loss in at most {loss_bound(KILLS):.0%} per kill at 95 %"
        )
    assert restart_run.totals.lost == ()
    assert restart_run.totals.handled_twice == ()


@in_every_situation
def test_number_of_event_copies_after_restarts_of_agent_is_bounded(restart_run: Run) -> None:
    published, redelivered = restart_run.reconnects
    assert published >= KILLS, "a kill did not hit a connected agent"
    # The bound is the window and the events that wait to be deleted: at this rate, fewer than a second window.
    assert restart_run.wire_copies <= 2 * WINDOW * published
    assert restart_run.totals.copies - restart_run.wire_copies <= PREFETCH * redelivered


def repeated_handler_runs(restart_run: Run) -> int:
    """Return the number of runs of handlers after the first run for an event."""
    return sum(len(attempts) - 1 for attempts in restart_run.runs.values())


@in_every_situation
def test_handler_runs_again_only_with_higher_attempt_and_before_handled_record(restart_run: Run) -> None:
    assert repeated_handler_runs(restart_run), "the run proves nothing: no kill hit a running handler"
    assert repeated_handler_runs(restart_run) <= KILLS * len(FILTERS)
    assert all(attempts == sorted(set(attempts)) for attempts in restart_run.runs.values())
    handled: set[str] = set()
    for record in restart_run.handled:
        assert record["event_id"] not in handled, "a handler ran, or was recorded, after the event had been handled"
        if record["kind"] == "handled":
            handled.add(record["event_id"])


FULL = "Persistent store is Full"
"""Message of a broker that blocks a publisher."""
QUIET = 12
"""Observations, two per second, without a further PUBACK, after which no further PUBACK is expected."""
LARGE_EVENTS = 350
LARGE = json.dumps({"filling": "x" * 64_000})


def test_event_rejected_by_full_store_is_not_reported_as_delivered(
    lab_of: LabOf, tmp_path: Path, sockets: Path
) -> None:
    """A full store of 16 MB never has room again, because the broker never deletes its only journal file."""
    lab = lab_of(_write_inventory(tmp_path / "inventory", sockets, store_limit="16 mb"))
    lab.up()
    with Agent(lab, SUBSCRIBER) as subscriber, Agent(lab, PUBLISHER) as publisher:
        subscriber.wait_subscribed(len(FILTERS))
        with publisher.client() as client:
            accepted = client.publish_all([(QUICK, LARGE)] * LARGE_EVENTS)
        until(lambda: FULL in lab.log(BROKER).read_text(), PATIENCE, lambda: f"the store is full: {publisher.log_tail}")
        acknowledged = _wait_all_acknowledged(publisher)
        wait_handled(acknowledged, subscriber)

        if not 20 <= len(acknowledged) <= LARGE_EVENTS - 20:
            pytest.fail(
                f"the run proves nothing: {len(acknowledged)} of {LARGE_EVENTS} events were acknowledged before the "
                "store was full"
            )
        assert set(acknowledged) <= set(subscriber.journal.ids("handled"))
        assert len(acknowledged) == len(set(acknowledged))

        def unsent_ids() -> set[str]:
            return set(accepted) - set(publisher.journal.ids("acknowledged", "unconfirmed"))

        with publisher.client() as client, suppress(LateError):  # the journal is written after the store
            until(
                lambda: client.status()["store"]["outbox_rows"] == len(unsent_ids()),
                PATIENCE,
                "the journal has records of all events that left the outbox",
            )
        with publisher.client() as client:
            assert client.status()["store"]["outbox_rows"] == len(unsent_ids()) > 0


def _wait_all_acknowledged(publisher: Agent) -> list[str]:
    """Wait until the number of acknowledged events is constant; return the IDs of these events."""
    acknowledged: list[str] = []
    observations = 0
    while observations < QUIET:
        ids = publisher.journal.ids("acknowledged")
        acknowledged, observations = ids, observations + 1 if len(ids) == len(acknowledged) else 0
        time.sleep(0.5)
    return acknowledged
