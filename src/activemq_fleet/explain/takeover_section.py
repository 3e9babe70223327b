"""Explain what happens when a broker dies: who takes over, how soon, and what becomes of its messages.

The times were measured with kill -9 on one machine, brokers started from the releases' jars, small stores; the bound
for a shared store is the bound that the lab's drills check.
"""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.errors import names_to_text
from activemq_fleet.explain.account_sections import MAX_AGENTS, agents_with_home_pair_of_broker
from activemq_fleet.explain.explanation import ExplanationSection, HostStatement, variable_entry
from activemq_fleet.explain.store_section import lock_settings_of
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import Broker, Fleet

# Seconds that a broker may need to open its store and all connectors after it acquired the lock.
_OPENING_SECONDS = 5
_MEASURED_SHARED = (
    "takeover after kill -9 with a lock interval of 1000 ms: 0.8 s on 5.5.1, 1.8 to 4.7 s on 5.17.2, "
    "3.0 s on 5.18.3, 2.3 to 3.2 s on 6.3.1"
)
_MEASURED_GUARD = (
    "takeover after kill -9 of guard and broker with the default lock interval (median of 20): 1.3 s on 5.5.1 and "
    "5.8.0, 1.0 s on 5.11.4, 0.8 s on 5.18.3 and 6.3.1"
)
_MEASURED_PURE = "takeover after kill -9 of a master of 5.5.1: 0.02 s in a single pair, 0.2 s in a network of two pairs"
_NO_NODE = "no node"


def takeover_time_text(broker: Broker, document: XmlDocument) -> str:
    """Return a text that states how soon the standby of a broker's pair accepts clients after the broker fails."""
    if not broker.ha_profile.has_peer:
        return "no node takes over, because the broker has no peer"
    if broker.ha_profile.replicates:
        return (
            "1 s after the process of the master fails. If the host of the master fails, the slave takes over after "
            "its connection to the master times out"
        )
    acquire = lock_settings_of(document).get("acquire", 0)
    seconds = _takeover_seconds(broker, document)
    bound = "an unknown time" if seconds is None else f"{seconds:g} s"
    if broker.ha_profile.has_database_lease:
        return (
            f"{bound} after the broker fails: its database lease expires in {acquire} ms. The standby checks the "
            f"lease every {acquire} ms, and opens its store and ports within {_OPENING_SECONDS} s"
        )
    return (
        f"{bound if acquire else 'seconds'} after the broker fails: the standby tries to acquire the lock every "
        f"{acquire} ms, and opens its store and ports within {_OPENING_SECONDS} s"
    )


def _takeover_seconds(broker: Broker, document: XmlDocument) -> float | None:
    """Return the takeover time of a pair with a shared store in seconds.

    It is None if the interval of the lock in the activemq.xml is no number.
    """
    acquire = lock_settings_of(document).get("acquire", 0)
    if not isinstance(acquire, int):
        return None
    return (2 if broker.ha_profile.has_database_lease else 1) * acquire / 1000 + _OPENING_SECONDS


def takeover_section(fleet: Fleet, broker: Broker, document: XmlDocument) -> ExplanationSection:
    """Return the section of the output of the command ``explain`` about the takeover after a broker's death.

    It shows which node takes over, how soon, and with which messages.
    """
    if not broker.ha_profile.has_peer:
        entries = _no_peer_entries(broker, f"activemq_ha is {broker.settings.ha}")
    elif broker.peer is None:
        entries = _no_peer_entries(broker, f"the inventory lacks the other node of pair {broker.pair}")
    else:
        within = takeover_time_text(broker, document)
        entries = (
            _pure_entries(fleet, broker, within)
            if broker.ha_profile.replicates
            else _shared_store_entries(broker, document, within)
        )
    return ExplanationSection("dies", "Failure and takeover", (*entries, *_agent_entries(fleet, broker)))


def _no_peer_entries(broker: Broker, reason: str) -> Iterator[HostStatement]:
    yield HostStatement("takes over", _NO_NODE, why=reason, data={"by": None, "seconds": None})
    yield HostStatement("messages", f"messages stay in the store of {broker.host} until it runs again")
    yield HostStatement("clients", f"clients wait until {broker.host} runs again: they have no other address")
    if broker.networked:
        yield HostStatement("links", f"other brokers retry their links to {broker.host} until it runs again")


def _shared_store_entries(broker: Broker, document: XmlDocument, within: str) -> Iterator[HostStatement]:
    lease = broker.ha_profile.has_database_lease
    lock_noun = "lease" if lease else "lock"
    seconds = _takeover_seconds(broker, document)
    yield HostStatement(
        "takes over", f"{broker.peer}", why=f"the node that holds the {lock_noun} is active", data={"by": broker.peer}
    )
    yield variable_entry(broker.settings, "lock_acquire_interval", "within", within, data={"seconds": seconds})
    if not lease:
        yield HostStatement("measured", _MEASURED_GUARD if broker.has_guard else _MEASURED_SHARED)
    yield HostStatement(
        "while standby", f"no client is affected, but {broker.peer} has no standby until {broker.host} runs again"
    )
    yield HostStatement("messages", f"no acknowledged message is lost, because {broker.peer} opens the same store")
    yield HostStatement(
        "clients",
        f"clients with both addresses of the pair connect to {broker.peer}, and send unacknowledged messages again",
    )
    yield from _bridge_entries(broker)
    yield _frozen_node_entry(broker, lock_noun)
    lock_location = "database" if lease else "file system"
    yield HostStatement(
        "if the host fails",
        f"{broker.peer} takes over when the {lock_location} releases the {lock_noun} of the failed host. This happens "
        "after a timeout",
    )
    yield HostStatement("if both fail", "messages stay in the store until one node of the pair runs again")
    yield HostStatement("recovery", f"{broker.host} returns as standby, and {broker.peer} stays active")


def _bridge_entries(broker: Broker) -> Iterator[HostStatement]:
    if not broker.networked:
        return
    release = broker.release
    yield HostStatement(
        "bridges",
        f"bridges to and from {broker.peer} replace those of {broker.host}, 0.2 to 4.0 s after {broker.peer} is active "
        "(measured)",
    )
    if release.forgets_early_bridge_failures:
        text = "a bridge can stay down after a takeover (1 of 83 on 5.5.1): restart the broker that opens the bridge"
        yield HostStatement("bridges", text, why=f"release {release.text}")


def _frozen_node_entry(broker: Broker, lock_noun: str) -> HostStatement:
    meaning = {
        "off": "no watchdog checks the broker",
        "warn": "the watchdog warns about the broker, and does not kill it",
        "kill": "the watchdog kills the broker",
    }[broker.settings.watchdog]
    text = (
        f"a hung broker keeps the {lock_noun}, and {broker.peer} takes over only when the broker is killed: {meaning}"
    )
    return variable_entry(broker.settings, "watchdog", "when it hangs", text)


def _pure_entries(fleet: Fleet, broker: Broker, within: str) -> Iterator[HostStatement]:
    if broker.role == "master":
        yield from _pure_master_entries(fleet, broker, within)
    else:
        yield from _pure_slave_entries(broker)
    steps = (
        "run the playbook resync, because no service unit restarts the failed broker. The playbook stops both nodes, "
        "copies the newer store to the other node, and starts the master before the slave"
    )
    yield HostStatement(
        "recovery", steps, why="a slave that starts with an old store would become a second master with old messages"
    )


def _pure_master_entries(fleet: Fleet, broker: Broker, within: str) -> Iterator[HostStatement]:
    others = [
        b.identity.short_host_name
        for group in fleet.groups
        if group.name == broker.group
        for b in group.brokers
        if b.role == "master" and b.pair != broker.pair
    ]
    yield HostStatement(
        "takes over", f"{broker.peer}", why="a slave is promoted after its master fails", data={"by": broker.peer}
    )
    yield HostStatement("within", within)
    yield HostStatement("measured", _MEASURED_PURE)
    if others:
        host_list = ", ".join(others[:MAX_AGENTS])
        yield HostStatement("messages", f"the queues of {broker.peer} drain to {host_list} if consumers exist there")
        yield HostStatement(
            "messages", f"messages of durable topic subscriptions stay on {broker.peer} until the recovery"
        )
    else:
        yield HostStatement(
            "messages",
            f"messages stay on {broker.peer} until the recovery",
            why=f"group {broker.group} has no other master to which they could drain",
        )
    yield HostStatement(
        "clients", "clients connect to another master if they have its address: a promoted slave opens no port"
    )
    yield HostStatement(
        "network partition", "both nodes become active, each with its own messages: activemq_ha: pure is not safe"
    )


def _pure_slave_entries(broker: Broker) -> Iterator[HostStatement]:
    text = f"{broker.peer} continues without {broker.host}, and no client is affected"
    yield HostStatement("takes over", "not required", why=text, data={"by": broker.peer})
    yield HostStatement("messages", f"new messages of {broker.peer} have no copy until the recovery")


def _agent_entries(fleet: Fleet, broker: Broker) -> Iterator[HostStatement]:
    agents = [agent.host for agent in agents_with_home_pair_of_broker(fleet, broker)]
    if not agents:
        return
    host_list = names_to_text(agents, most=MAX_AGENTS)
    if broker.peer is None:
        effect = f"wait until {broker.host} runs again: they connect to no other pair"
    else:
        effect = f"continue their sessions on {broker.peer}"
    yield HostStatement("agents", f"{host_list} {effect}", data={"agents": agents})
