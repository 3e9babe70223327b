"""Two real agents and a real pair: the active broker is killed, frozen, or refuses what it acknowledges.

KILLS (2) sets how often the active broker of each pair is killed. A run without a publish in flight at most of the
kills proves nothing and is done again. What is lost, in any run, is lost. How long the agents are silent is printed;
only a wait that times out fails.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from activemq_fleet.lab.lab import Lab
from activemq_fleet.node.log.broker_run import BrokerRun
from activemq_fleet.node.log.log_records import parse_log
from tests.integration.agent_journals import Account, account, in_flight
from tests.integration.agents import (
    ACQUIRE,
    KEEPALIVE,
    SPARE,
    Agent,
    Load,
    loss_bound,
    sockets,
    wait_handled,
    wait_rate,
    write_fleet,
)
from tests.integration.labs import pair, processes_of
from tests.integration.waiting import PATIENCE, until
from tests.situations import EVERY_SITUATION, in_every_situation

__all__ = ["sockets"]  # the fixture

KILLS = int(os.environ.get("KILLS", "2"))
RELEASES = ("5.18.3", "6.3.1") if EVERY_SITUATION else ("6.3.1",)
PAIR = "orders-mq01"
PUBLISHER, SUBSCRIBER = "shop01.example.com", "ledger01.example.com"
PREFIXES = ["load/shop", "load/stock"]
TOPICS = ("load/shop/OrderEvent", "load/shop/PaymentEvent", "load/stock/StockEvent")
DENIED = "secret/plan/PlanEvent"
BOSS = ["boss"]
BOUND = ACQUIRE + KEEPALIVE + SPARE
"""Seconds of silence after a kill: until the other broker may have the lock, a keep-alive, and five."""
STEADY = 10.5
"""Seconds before a kill in which nothing is disturbed: a connection that lasted 10 s has worked."""
WINDOW = 5.0
"""Seconds before a kill in which the rate is measured."""
ATTEMPTS = 3
"""Runs until one counts."""
LEFT = 45.0
"""Seconds in which an agent is meant to leave a frozen broker; the test prints it, and waits ten times as long."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Site:
    """A pair that runs, and two agents at home there."""

    lab: Lab
    publisher: Agent
    subscriber: Agent

    def settle(self) -> str:
        """Wait until both nodes are up and both agents have worked for a while; returns the active node."""
        active = self.lab.wait_active(PAIR)
        until(
            self._is_steady,
            PATIENCE,
            lambda: f"the agents keep a connection: {self.publisher.log_tail}{self.subscriber.log_tail}",
        )
        return active

    def _is_steady(self) -> bool:
        last = [agent.journal.of("connected", "connection_lost")[-1] for agent in (self.publisher, self.subscriber)]
        return all(r["kind"] == "connected" and r["at"] <= time.time() - STEADY for r in last)

    def resumed(self, moment: float) -> float:
        """Wait for the first event handled after a moment; returns when that was."""

        def first() -> float | None:
            return next((r["at"] for r in self.subscriber.journal.of("handled") if r["at"] > moment + 0.5), None)

        until(first, PATIENCE, lambda: f"events flow again: {self.publisher.log_tail}{self.subscriber.log_tail}")
        return first() or 0.0

    def handled_before(self, moment: float) -> float:
        """Events a second handled in the time before a moment."""
        handled = self.subscriber.journal.of("handled")
        return len([record for record in handled if moment - WINDOW <= record["at"] < moment]) / WINDOW

    def took_over(self, moment: float) -> float:
        """Seconds from a moment until the log of the node that is active now said that it is started."""
        active = self.lab.wait_active(PAIR)
        since = BrokerRun().apply_records(parse_log(self.lab.log(active).read_text(errors="replace"))).since
        return (since.timestamp() - moment) if since else 0.0


@dataclass(frozen=True, slots=True)
class Kill:
    """One kill: events a second accepted and handled before it, publishes in flight, seconds of what followed.

    ``silent``: until an event was handled again; ``take_over``: the brokers' part of that.
    """

    at: float
    accepted: float
    handled: float
    in_flight: int
    take_over: float
    silent: float


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory, sockets: Path) -> Iterator[Mapping[str, Site]]:
    """A pair of each release, side by side: of one, but in every situation."""
    with ExitStack() as stack:
        labs = {}
        for release in RELEASES:
            directory = tmp_path_factory.mktemp("failover")
            fleet = write_fleet(
                directory / "inventory",
                sockets,
                pair("orders"),
                {PUBLISHER: {"publish_prefixes": PREFIXES}, SUBSCRIBER: {"topics": ["load/#"]}},
                release=release,
                lock_acquire_interval=int(ACQUIRE * 1000),
                acl=[{"destination": "secret.>", "kind": "topic", "read": BOSS, "write": BOSS, "admin": BOSS}],
            )
            labs[release] = stack.enter_context(Lab.open([fleet], directory / "lab"))
            labs[release].up()
        found = {release: _site(stack, lab) for release, lab in labs.items()}
        for site in found.values():
            site.publisher.wait_connected()
            site.subscriber.wait_subscribed()
        yield found
    assert not [pid for lab in labs.values() for pid in processes_of(lab.directory)]


def _site(stack: ExitStack, lab: Lab) -> Site:
    # The subscriber first: who subscribes later gets nothing of what was before.
    subscriber = stack.enter_context(Agent(lab, SUBSCRIBER))
    subscriber.wait_subscribed()
    return Site(lab, stack.enter_context(Agent(lab, PUBLISHER)), subscriber)


def at_once(work: Callable[[Site], T], on: Mapping[str, Site]) -> dict[str, T]:
    """Do something with each, side by side; returns what came of it, by name."""
    with ThreadPoolExecutor(len(on)) as pool:
        futures = {name: pool.submit(work, one) for name, one in on.items()}
    return {name: future.result() for name, future in futures.items()}


def kill_again_and_again(site: Site) -> tuple[list[Kill], Account]:
    """KILLS times: steady load, a kill -9 of the active broker, and the dead one comes back."""
    moments, seconds, silences, began = [], [], [], time.time()
    with Load(site.publisher, TOPICS) as load:
        for _ in range(KILLS):
            active = site.settle()
            wait_rate(
                lambda: site.handled_before(time.time()), lambda: f"events are handled: {site.subscriber.log_tail}"
            )
            load.wait_rate(WINDOW)
            burst = load.burst()
            time.sleep(0.03)
            moments.append(site.lab.kill(active))
            seconds.append(site.took_over(moments[-1]))
            burst.join()
            silences.append(site.resumed(moments[-1]) - moments[-1])
            site.lab.start(active)
        promised = load.finish()
    wait_handled(promised, site.subscriber)
    kills = [
        Kill(
            at=at,
            accepted=load.rate_before(at, WINDOW),
            handled=site.handled_before(at),
            in_flight=in_flight(site.publisher.journal, at),
            take_over=took,
            silent=silent,
        )
        for at, took, silent in zip(moments, seconds, silences, strict=True)
    ]
    return kills, account(promised, site.subscriber.journal, began)


def void(kills: list[Kill]) -> str | None:
    """Why a run proves nothing, if so."""
    busy = sum(kill.in_flight > 0 for kill in kills)
    if busy <= len(kills) / 2:
        return f"publishes were in flight at {busy} of {len(kills)} kills only"
    return None


@pytest.mark.timeout(ATTEMPTS * (240 + 60 * KILLS))
def test_repeated_death_of_active_broker_loses_and_duplicates_nothing(
    sites: Mapping[str, Site], capsys: pytest.CaptureFixture[str]
) -> None:
    wanted, problems = dict(sites), {}
    for _ in range(ATTEMPTS):
        results = at_once(kill_again_and_again, wanted)
        for release, (kills, result) in results.items():
            with capsys.disabled():
                print(f"\n{release}: {told(kills, result)}")
            assert result.lost == ()
            assert result.handled_twice == ()
        problems = {release: problem for release, run in results.items() if (problem := void(run[0]))}
        wanted = {release: site for release, site in wanted.items() if release in problems}
        if not wanted:
            return
    pytest.fail(f"in {ATTEMPTS} runs: {problems}")


def told(kills: list[Kill], result: Account) -> str:
    """A run in one line."""
    slowest = min(min(kill.accepted, kill.handled) for kill in kills)
    return (
        f"{KILLS} kills -9 of the active broker: {result} of {BOUND:g} s; at least {slowest:.0f} events/s before each, "
        f"publishes in flight {[kill.in_flight for kill in kills]}, the brokers' take-over at most "
        f"{max(kill.take_over for kill in kills):.1f} s; loss in at most {loss_bound(KILLS):.0%} a kill at 95 %"
    )


def freeze(site: Site) -> tuple[float, float, float, Account]:
    """(until both agents had left, until events flowed after the kill, the broker's part of that, what became)."""
    began = time.time()
    with Load(site.publisher, TOPICS) as load:
        active = site.settle()
        frozen_at = time.time()
        site.lab.pause(active)
        left = max(until_left(agent, frozen_at) for agent in (site.publisher, site.subscriber)) - frozen_at
        killed_at = site.lab.kill(active)
        take_over = site.took_over(killed_at)
        resumed = site.resumed(killed_at) - killed_at
        site.lab.start(active)
        promised = load.finish()
    wait_handled(promised, site.subscriber)
    return left, resumed, take_over, account(promised, site.subscriber.journal, began)


def until_left(agent: Agent, moment: float) -> float:
    """When an agent gave up the last of the connections that it had at a moment."""
    journal = agent.journal
    ended = {record["conn"] for record in journal.of("connection_lost") if record["at"] < moment}
    had = {record["conn"] for record in journal.of("connected") if record["at"] < moment} - ended
    assert had

    def lost() -> dict[int, float]:
        return {record["conn"]: record["at"] for record in journal.of("connection_lost") if record["conn"] in had}

    until(lambda: len(lost()) == len(had), 10 * LEFT, lambda: f"{agent.host} leaves a frozen broker: {agent.log_tail}")
    return max(lost().values())


@in_every_situation
@pytest.mark.timeout(900)
def test_agents_leave_a_frozen_broker_and_go_on_when_it_is_dead(
    sites: Mapping[str, Site], capsys: pytest.CaptureFixture[str]
) -> None:
    for release, (left, resumed, take_over, account_of_events) in at_once(freeze, sites).items():
        with capsys.disabled():
            print(
                f"\n{release}: active broker frozen: left after {left:.1f} s of {LEFT:g} s; killed, and events "
                f"flow after {resumed:.1f} s of {BOUND:g} s (the broker's take-over {take_over:.1f} s); "
                f"{account_of_events}"
            )
        assert account_of_events.lost == ()
        assert account_of_events.handled_twice == ()


def deny(site: Site) -> tuple[list[str], list[str]]:
    """Publish where the publisher has no right to, and where it has; ids of both."""
    with site.publisher.client() as client:
        both = [(DENIED, "{}"), (TOPICS[0], "{}")] * 20
        ids = client.publish_all(both)
    return ids[::2], ids[1::2]


def test_a_denied_topic_is_never_reported_as_delivered(sites: Mapping[str, Site]) -> None:
    for site in sites.values():
        site.settle()
        denied, allowed = deny(site)
        journal = site.publisher.journal

        wait_handled(allowed, site.subscriber)
        for kind, ids in (("unconfirmed", denied), ("acknowledged", allowed)):
            until(
                lambda: set(ids) <= set(journal.ids(kind)),  # noqa: B023
                PATIENCE,
                lambda: f"{kind}: {ids}, not {journal.ids(kind)}: {site.publisher.log_tail}",  # noqa: B023
            )
        assert set(allowed) <= set(site.subscriber.journal.ids("handled"))
        assert not set(denied) & set(journal.ids("acknowledged"))
        assert not set(denied) & set(site.subscriber.journal.ids("received", "handled"))
