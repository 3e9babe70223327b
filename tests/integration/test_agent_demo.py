"""The demo's four pairs with an agent at home in each: when an active node dies, nobody moves and nothing piles up."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from activemq_fleet import topology
from activemq_fleet.lab.lab import Lab
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
"""Agents for the two pairs where the demo has none: their group, and whose home they must not share."""
EVENTS = 300
NUMBER = '"number"'
"""What every event of a load has, and no barrier."""
TOPIC = "events/shop/OrderEvent"


def _layer(directory: Path, sockets: Path) -> Path:
    """An inventory to lay over the demo's: two more agents, and short paths of sockets."""
    agents: dict[str, dict[str, object]] = {SHOP: {}, LEDGER: {}}
    for host, (group, other) in MORE.items():
        pairs = [f"{group}-mq01", f"{group}-mq02"]
        pairs.remove(topology.default_home_pair_of_agent(other, pairs))
        agents[host] = {"activemq_agent_group": group, "activemq_agent_pair": pairs[0]}
    for host, own in agents.items():
        own["activemq_agent_options"] = {"socket": str(sockets / host)}
    path = directory / "layer.json"
    path.write_text(json.dumps({"all": {"children": {"activemq_agents": {"hosts": agents}}}}))
    return path


@pytest.fixture
def lab(lab_of: LabOf, tmp_path: Path, sockets: Path) -> Lab:
    lab = lab_of([EXAMPLE, _layer(tmp_path, sockets)])
    lab.up()
    return lab


@pytest.fixture
def agents(lab: Lab) -> Iterator[Mapping[str, Agent]]:
    """The running agents, by home pair."""
    with ExitStack() as stack:
        found = {agent.pair: stack.enter_context(Agent(lab, agent.host)) for agent in lab.client_fleet.agents}
        assert set(found) == set(lab.fleet.pairs_by_name)
        for agent in found.values():
            agent.wait_subscribed()
        yield found


@in_every_situation
def test_an_agent_stays_with_its_home_pair_and_no_backlog_is_left(lab: Lab, agents: Mapping[str, Agent]) -> None:
    home = next(agent.pair for agent in lab.client_fleet.agents if agent.host == SHOP)
    began = time.time()
    with Load(agents[home], [TOPIC]) as load:
        until(lambda: len(load.promised) > EVENTS, PATIENCE, lambda: f"events are accepted: {agents[home].log_tail}")
        time.sleep(12)  # a connection that lasted 10 s has worked
        killed_at = lab.kill(lab.wait_active(home))
        until(
            lambda: _connected_again(agents[home], killed_at), PATIENCE, lambda: f"connected: {agents[home].log_tail}"
        )
        more = len(load.promised) + EVENTS
        until(lambda: len(load.promised) > more, PATIENCE, lambda: f"events are accepted: {agents[home].log_tail}")
        promised = load.finish()
    for agent in agents.values():
        wait_handled(promised, agent)

    for pair, agent in agents.items():
        result = account(promised, agent.journal, began)
        assert result.lost == (), f"{len(result.lost)} of {result.accepted} never came to {agent.host}"
        assert result.handled_twice == ()
        assert _brokers(agent) <= {f"{host}:{port}" for host, port in lab.addresses(pair, "mqtt")}
    lost = {
        pair: [r for r in agent.journal.of("connection_lost") if r["at"] >= began] for pair, agent in agents.items()
    }
    wait_quiet(agents.values())
    for agent in agents.values():
        agent.stop()
    left = backlog(lab)
    # Nothing of this is a loss.
    if any(records for pair, records in lost.items() if pair != home):
        pytest.fail(f"agents at home elsewhere lost their connections: {lost}")
    if any(left.values()):
        pytest.fail(f"pairs hold what nobody comes for: {left}")


def wait_quiet(agents: Collection[Agent]) -> None:
    """Until nothing has come for ten seconds: what was sent again after the kill has its own way over the bridges.

    By looks and not by the clock: when the machine stands still, nothing comes, and nobody looks.
    """
    came, looks = -1, 0

    def quiet() -> bool:
        nonlocal came, looks
        now = sum(len(agent.journal.of("received", "duplicate")) for agent in agents)
        came, looks = now, looks + 1 if now == came else 0
        return looks > 100

    until(quiet, 180, "nothing comes any more")


def _connected_again(agent: Agent, moment: float) -> bool:
    """Publisher and subscriber have each a new connection."""
    return len([record for record in agent.journal.of("connected") if record["at"] > moment]) >= 2


def _brokers(agent: Agent) -> set[str]:
    return {record["broker"] for record in agent.journal.of("connected")}


def backlog(lab: Lab) -> dict[str, list[str]]:
    """The events that each pair still holds for the agent at home there, by pair, when no agent runs any more.

    Twice, each durable session is taken over and gets what comes before an event that is published for this; what
    the second one gets is the backlog. The first gets copies as well: a broker that starts while messages come and
    their subscriber does not (5.18.3, 6.3.1) sends some of them twice in one session, and takes only one of the two
    acknowledgements for both, so that the other message is sent once more to the next session. All of that was
    handled, and none of it stays.
    """
    found = {}
    for turn in ("first", "second"):
        last = {agent.pair: json.dumps({"last": f"{turn} of {agent.pair}"}) for agent in lab.client_fleet.agents}
        for agent in lab.client_fleet.agents:
            with MqttPublisher(agent.urls, account_of(agent)) as publisher:
                publisher.publish(TOPIC, last[agent.pair])
        for agent in lab.client_fleet.agents:
            found[agent.pair] = [payload for payload in _waiting(agent, last[agent.pair]) if NUMBER in payload]
    return found


def _waiting(agent: topology.Agent, last: str) -> list[str]:
    """What a session gets before a payload."""
    with MqttSubscriber(agent.urls, ["events/#"], account_of(agent), client_id=agent.host) as session:
        until(
            lambda: last in session.received,
            PATIENCE,
            lambda: f"the session of {agent.host} is taken over and holds {last}, not {session.received}",
        )
        came = session.received
    return came[: came.index(last)]
