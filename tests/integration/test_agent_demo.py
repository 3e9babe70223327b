"""The four pairs of the demo with an agent each: after a kill, agents stay with their pair and no backlog remains."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from activemq_fleet.lab.lab import Lab
from activemq_fleet.topology import Agent as TopologyAgent
from activemq_fleet.topology.agents import home_pair_of_agent_by_hash
from tests.integration.agent_journals import account
from tests.integration.agents import Agent, Load, account_of, sockets, wait_handled
from tests.integration.conftest import LabOf
from tests.integration.waiting import PATIENCE, until
from tests.mqtt_clients import MqttPublisher, MqttSubscriber
from tests.situations import in_every_situation

__all__ = ["sockets"]  # the fixture

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "shared-store"
SHOP, LEDGER = "shop01.example.com", "ledger01.example.com"
MORE = {"shop02.example.com": ("orders", SHOP), "ledger02.example.com": ("billing", LEDGER)}
"""Agents for the two pairs in which the demo has none: their group, and the agent that must have another home pair."""
EVENTS = 300
NUMBER = '"number"'
"""Text that every event of a load contains, and no barrier."""
TOPIC = "events/shop/OrderEvent"


def _write_additional_agents(directory: Path, sockets: Path) -> Path:
    """Write an inventory to combine with the demo's: two further agents, and short paths of sockets."""
    agents: dict[str, dict[str, object]] = {SHOP: {}, LEDGER: {}}
    for host, (group, other) in MORE.items():
        pairs = [f"{group}-mq01", f"{group}-mq02"]
        pairs.remove(home_pair_of_agent_by_hash(other, pairs))
        agents[host] = {"activemq_agent_group": group, "activemq_agent_pair": pairs[0]}
    for host, variables in agents.items():
        variables["activemq_agent_options"] = {"socket": str(sockets / host)}
    path = directory / "layer.json"
    path.write_text(json.dumps({"all": {"children": {"activemq_agents": {"hosts": agents}}}}))
    return path


@pytest.fixture
def lab(lab_of: LabOf, tmp_path: Path, sockets: Path) -> Lab:
    lab = lab_of([EXAMPLE, _write_additional_agents(tmp_path, sockets)])
    lab.up()
    return lab


@pytest.fixture
def agents(lab: Lab) -> Iterator[Mapping[str, Agent]]:
    """Start the agents and yield them by home pair."""
    with ExitStack() as stack:
        agents = {agent.pair: stack.enter_context(Agent(lab, agent.host)) for agent in lab.client_fleet.agents}
        assert set(agents) == set(lab.fleet.pairs_by_name)
        for agent in agents.values():
            agent.wait_subscribed()
        yield agents


@in_every_situation
def test_agents_stay_with_home_pairs_after_kill_and_no_backlog_remains(lab: Lab, agents: Mapping[str, Agent]) -> None:
    home = next(agent.pair for agent in lab.client_fleet.agents if agent.host == SHOP)
    started_at = time.time()
    with Load(agents[home], [TOPIC]) as load:
        until(lambda: len(load.promised) > EVENTS, PATIENCE, lambda: f"events are accepted: {agents[home].log_tail}")
        time.sleep(12)  # a connection that lasted 10 s counts as working
        killed_at = lab.kill(lab.wait_active(home))
        until(
            lambda: _has_new_connections(agents[home], killed_at),
            PATIENCE,
            lambda: f"both connections exist again: {agents[home].log_tail}",
        )
        target = len(load.promised) + EVENTS
        until(lambda: len(load.promised) > target, PATIENCE, lambda: f"events are accepted: {agents[home].log_tail}")
        promised = load.finish()
    for agent in agents.values():
        wait_handled(promised, agent)

    for pair, agent in agents.items():
        totals = account(promised, agent.journal, started_at)
        assert totals.lost == (), f"{len(totals.lost)} of {totals.accepted} events did not arrive at {agent.host}"
        assert totals.handled_twice == ()
        assert _brokers(agent) <= {f"{host}:{port}" for host, port in lab.addresses(pair, "mqtt")}
    lost_connections = {
        pair: [r for r in agent.journal.of("connection_lost") if r["at"] >= started_at]
        for pair, agent in agents.items()
    }
    wait_quiet(agents.values())
    for agent in agents.values():
        agent.stop()
    backlogs = backlog_by_pair(lab)
    # Neither of these problems is a loss.
    if any(records for pair, records in lost_connections.items() if pair != home):
        pytest.fail(f"agents of other pairs lost their connections: {lost_connections}")
    if any(backlogs.values()):
        pytest.fail(f"pairs hold events that no agent receives: {backlogs}")


def wait_quiet(agents: Collection[Agent]) -> None:
    """Wait until no event has arrived for 10 seconds: events sent again after the kill take time over the bridges.

    The function counts observations and does not measure time: while the machine pauses, neither an event arrives nor
    an observation is made.
    """
    arrived, observations = -1, 0

    def quiet() -> bool:
        nonlocal arrived, observations
        record_count = sum(len(agent.journal.of("received", "duplicate")) for agent in agents)
        arrived, observations = record_count, observations + 1 if record_count == arrived else 0
        return observations > 100

    until(quiet, 180, "no further event arrives")


def _has_new_connections(agent: Agent, moment: float) -> bool:
    """Return whether publisher and subscriber each have a connection that is newer than the moment."""
    return len([record for record in agent.journal.of("connected") if record["at"] > moment]) >= 2


def _brokers(agent: Agent) -> set[str]:
    return {record["broker"] for record in agent.journal.of("connected")}


def backlog_by_pair(lab: Lab) -> dict[str, list[str]]:
    """Return, by pair, the events that a pair still holds for its agent after all agents have stopped.

    Each durable session is taken over twice. It receives all events up to an event that is published for this purpose.
    The events of the second session are the backlog. The first session also receives copies. Reason: a broker that
    starts while messages arrive and their subscriber is not connected (5.18.3, 6.3.1) sends some of them twice in one
    session. It accepts only one of the two acknowledgements for both, so that it sends the other message again to the
    next session. All of these copies were handled, and none of them remains.
    """
    backlogs = {}
    for turn in ("first", "second"):
        last = {agent.pair: json.dumps({"last": f"{turn} of {agent.pair}"}) for agent in lab.client_fleet.agents}
        for agent in lab.client_fleet.agents:
            with MqttPublisher(agent.urls, account_of(agent)) as publisher:
                publisher.publish(TOPIC, last[agent.pair])
        for agent in lab.client_fleet.agents:
            payloads = _payloads_before(agent, last[agent.pair])
            backlogs[agent.pair] = [payload for payload in payloads if NUMBER in payload]
    return backlogs


def _payloads_before(agent: TopologyAgent, last: str) -> list[str]:
    """Return the payloads that the session of an agent receives before the given payload."""
    with MqttSubscriber(agent.urls, ["events/#"], account_of(agent), client_id=agent.host) as session:
        until(
            lambda: last in session.received,
            PATIENCE,
            lambda: f"the session of {agent.host} is taken over and holds {last}, not {session.received}",
        )
        received = session.received
    return received[: received.index(last)]
