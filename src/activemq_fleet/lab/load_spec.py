"""Choose the load and the account with which a drill loads a pair: two agents over MQTT, or a queue over STOMP."""

from __future__ import annotations

import configparser
from collections.abc import Sequence
from dataclasses import replace

from activemq_agent.store.inbox import filter_matches
from activemq_fleet.addresses import format_mb_urls
from activemq_fleet.errors import LabError
from activemq_fleet.lab.agent_load_generator import AgentLoadSpec
from activemq_fleet.lab.loopback_overlay import LAB_USER, PROBE
from activemq_fleet.lab.readiness import credentials_of
from activemq_fleet.lab.stomp_load_generator import StompLoadSpec
from activemq_fleet.render import render_agent
from activemq_fleet.render.agent import CONFIGURATION, PASSWORD
from activemq_fleet.settings.encrypted import EncryptedValue
from activemq_fleet.topology import Agent, Broker, Fleet, Pair, access

LoadSpec = AgentLoadSpec | StompLoadSpec

EVENT = "DrillEvent"
# What an agent of the inventory has for itself; the agents of a drill run in addition and must not change it.
_ITS_OWN = (
    "state.directory",
    "socket",
    "client.id",
    "agent.name",
    "topics",
    "handlers",
    "metrics.address",
    "mb.password.file",
    "drain.seconds",
    "publisher.barrier",
)


def supports_mqtt_agents(pair: Pair) -> bool:
    """Return whether failover agents can connect to all nodes of a pair: its release and an MQTT connector allow it."""
    return all(broker.release.supports_agents and broker.connector("mqtt") for broker in pair.brokers)


def load_spec(fleet: Fleet, pair: Pair, rate: float) -> LoadSpec:
    """Return the settings of the load on a pair: by two agents, or by STOMP where the release has no usable MQTT.

    ``fleet`` has the addresses that clients dial; ``rate`` is in events a second. Raises LabError where no account may
    publish, or where neither protocol is usable.
    """
    return _agent_spec(fleet, pair, rate) if supports_mqtt_agents(pair) else stomp_load_spec(fleet, pair, rate)


def _agent_spec(fleet: Fleet, pair: Pair, rate: float) -> AgentLoadSpec:
    """Return the spec of the two agents of a pair.

    An agent of the inventory at home there lends its account, its TLS and its times. Where there are ACLs, the lab
    has a separate account; on other brokers the events are on a prefix below a topic of an agent, which it names in
    ``activemq_agent_publish_prefixes``. Else an account of the brokers that may publish below ``fleet/lab``.
    """
    agents = [agent for agent in fleet.agents if agent.pair == pair.name and _can_log_in(agent)]
    guarded = any(broker.permissions for broker in pair.brokers)
    topic_prefix = f"{PROBE.replace('.', '/')}/drill/{pair.name}"
    if not guarded:
        return _spec(pair.name, topic_prefix, rate, _keys_of(agents[0], pair) if agents else _keys_of_account(pair))
    who = credentials_of(pair.preferred_master)
    if agents and who is not None and who.username == LAB_USER:
        keys = {**_keys_of(agents[0], pair), "mb.username": who.username, "mb.password": who.password}
        return _spec(pair.name, topic_prefix, rate, keys)
    for agent in agents:
        for prefix in agent.settings.agent_publish_prefixes:
            if any(
                filter_matches(topic, f"{prefix}/#") for topic in agent.settings.agent_topics if topic.endswith("#")
            ):
                spec = _spec(pair.name, prefix.replace("+", "drill"), rate, _keys_of(agent, pair))
                # Its account may send the barriers and canaries of this name, and of no other.
                return replace(spec, publisher={**spec.publisher, "agent.name": access.agent_name(agent)})
    return _spec(pair.name, topic_prefix, rate, _keys_of_account(pair))


def stomp_load_spec(fleet: Fleet, pair: Pair, rate: float) -> StompLoadSpec:
    """Return the settings of a load by a STOMP publisher and consumer on a queue of the lab, without TLS.

    Raises LabError where the pair has no plain STOMP connector.
    """
    first = pair.preferred_master
    brokers = [broker for broker in pair.in_order if broker.connector("stomp")]
    if first.profile.replicates:  # its slave never takes clients: they go to the other masters
        group = next(group for group in fleet.groups if group.name == pair.group)
        brokers += [other.preferred_master for other in group.pairs if other.name != pair.name]
    addresses = tuple((broker.address, c.port) for broker in brokers if (c := broker.connector("stomp")))
    if not addresses or any(c.tls for b in brokers if (c := b.connector("stomp"))):
        raise LabError(
            f"pair {pair.name} cannot receive the test load, because it has neither a usable MQTT connector nor a "
            "STOMP connector without TLS: add one of them to activemq_connectors"
        )
    who = credentials_of(first)
    return StompLoadSpec(
        name=pair.name,
        addresses=addresses,
        destination=f"/queue/{PROBE}.drill.{pair.name}",
        rate=rate,
        username=who.username if who else None,
        password=who.password if who else "",
    )


def _spec(name: str, prefix: str, rate: float, keys: dict[str, str]) -> AgentLoadSpec:
    publisher, subscriber = ({**keys, "client.id": f"drill-{name}-{role}"} for role in ("publisher", "subscriber"))
    return AgentLoadSpec(
        name=name,
        topic=f"{prefix}/{EVENT}",
        filters=(f"{prefix}/#",),
        rate=rate,
        publisher=publisher,
        subscriber=subscriber,
    )


def _can_log_in(agent: Agent) -> bool:
    return agent.settings.agent_username is not None and not isinstance(agent.settings.agent_password, EncryptedValue)


def _keys_of(agent: Agent, pair: Pair) -> dict[str, str]:
    files = render_agent(agent, reveal=True)
    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None)
    parser.read_string(files[CONFIGURATION].decode())
    keys = {key: text for key, text in parser["agent"].items() if key not in _ITS_OWN}
    keys["mb.password"] = files[PASSWORD].decode().strip()
    named = {broker.address: broker.settings.address or broker.identity.name for broker in pair.brokers}
    moved = [f"{address}={name}" for address, name in named.items() if address != name]
    if agent.tls and moved:  # no certificate contains a lab's addresses
        keys["tls.certificate.names"] = ",".join(moved)
    return keys


def _keys_of_account(pair: Pair) -> dict[str, str]:
    nodes: Sequence[Broker] = pair.in_order
    connectors = [(broker, connector) for broker in nodes if (connector := broker.connector("mqtt"))]
    if any(connector.tls for _, connector in connectors):
        raise LabError(
            f"pair {pair.name} accepts MQTT only over TLS, but the test load has no client certificate for it. Add an "
            f"MQTT connector without TLS to activemq_connectors, or add a host with activemq_agent_pair: {pair.name} "
            "to the group activemq_agents"
        )
    keys = {"mb.urls": format_mb_urls([(broker.address, connector.port) for broker, connector in connectors])}
    who = credentials_of(pair.preferred_master)
    if who is not None:
        keys |= {"mb.username": who.username, "mb.password": who.password}
    elif any(broker.accounts for broker in nodes):
        raise LabError(
            f"the test load cannot log in to pair {pair.name}, because no account of the pair has a password in clear "
            "text: set one in activemq_users, or decrypt it with --vault-password-file"
        )
    return keys
