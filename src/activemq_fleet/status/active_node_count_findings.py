"""Find pairs of a fleet's status with two active nodes, without an active node, or without a standby."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from activemq_fleet.findings import Finding, error_finding
from activemq_fleet.node.fence.store_writers import (
    WritableAndNewestGenerationNumbers,
    brokers_writing_newest_generation,
    two_masters_message,
)
from activemq_fleet.node.judge import SERVING
from activemq_fleet.status.model import BrokerStatus
from activemq_fleet.topology import Broker, Fleet


def active_node_findings(rows: Sequence[BrokerStatus], fleet: Fleet) -> Iterator[Finding]:
    """Yield findings about which nodes of a pair are active: two, none, or one without a standby.

    A broker without a peer is checked, too.
    """
    active = [row for row in rows if row.state in SERVING]
    others = [row for row in rows if row.state not in SERVING]
    name, has_peer = fleet.broker(rows[0].host).link_end_name, len(rows) > 1
    other_states = ", ".join(map(_state_text, others))
    if len(active) > 1:
        yield from _two_active_findings(active)
    elif not active and all(row.state != "unreachable" for row in rows):
        yield error_finding(
            "no-active",
            rows[0].host,
            f"no node of {name} is active, so clients are not served: {other_states}",
            _remedy_without_active_node(rows),
        )
    elif active and has_peer and others[0].state in ("stopped", "hung"):
        text = f"the active broker of {active[0].host} has no standby: {other_states}"
        fix = (
            f"run the playbook resync for the pair {rows[0].pair}"
            if fleet.broker(rows[0].host).ha_profile.needs_resync
            else _standby_start_remedy(others[0], fleet.broker(others[0].host))
        )
        yield Finding(rule="standby-missing", severity="warning", host=others[0].host, message=text, fix=fix)


def _remedy_without_active_node(rows: Sequence[BrokerStatus]) -> str:
    hosts = " and ".join(row.host for row in rows)
    if all(row.is_not_installed for row in rows):
        return f"run the playbook site, which installs and starts the broker on {hosts}"
    if all(row.state == "stopped" for row in rows):
        return f"if the playbook site was interrupted, run it again. Otherwise check activemq.log on {hosts}"
    return f"check activemq.log on {hosts}"


def _state_text(row: BrokerStatus) -> str:
    """Return the state of a node, with the reason if no finding of the node contains it."""
    if row.is_not_installed:
        return f"{row.host} is stopped, because the playbook site has not installed its broker"
    return f"{row.host} is {row.state}" + (f" ({row.reason})" if row.state in ("stopped", "starting") else "")


def _two_active_findings(active: Sequence[BrokerStatus]) -> Iterator[Finding]:
    names = " and ".join(row.host for row in active)
    stores = {row.host: row.evidence.store for row in active}
    stop_remedy = (
        "immediately stop the broker with fewer client connections. If neither broker has client connections, stop "
        "either of the two"
    )
    if reason := different_stores_message(stores):
        yield error_finding(
            "two-active",
            active[0].host,
            f"the brokers of {names} are both active, because {reason}. Each has messages that the other one lacks",
            f"{stop_remedy}. Keep a copy of both stores. Then set the same activemq_store_directory for both nodes, "
            "and run the playbook site",
        )
        return
    if store := stores[active[0].host]:
        stop_remedy += f". Keep a copy of the store {store}"
    if not any(row.evidence.guard for row in active):
        text = f"the brokers of {names} are both active, because they do not use the same lock. Messages may be lost"
        yield error_finding("two-active", active[0].host, text, stop_remedy)
        return
    accesses = {row.host: WritableAndNewestGenerationNumbers(row.generation, row.generation_in_force) for row in active}
    if message := two_masters_message(accesses):
        yield error_finding("two-active", active[0].host, message, stop_remedy)
    elif all(row.generation_in_force is None for row in active):
        text = (
            f"the brokers of {names} are both active, and the newest generation (numbered copy) of the store cannot be "
            "read. So it is not known which of the two brokers writes to it"
        )
        yield error_finding("two-active", active[0].host, text, stop_remedy)
    elif not brokers_writing_newest_generation(accesses):
        text = (
            f"the brokers of {names} are both active, but neither writes to the newest generation (numbered copy) of "
            "the store. This generation lacks the messages that the two brokers accept, so a failover loses them"
        )
        yield error_finding("two-active", active[0].host, text, stop_remedy)


def _standby_start_remedy(row: BrokerStatus, broker: Broker) -> str:
    """Return the remedy that starts a standby that is stopped or hung."""
    if row.is_not_installed:
        return f"run the playbook site, which installs and starts the broker on {broker.host}"
    if row.state == "hung":
        kill = f"on {broker.host}, kill the broker with {kill_command(row, broker)}"
        if broker.settings.service != "systemd":
            return f"{kill}, then start the broker"
        return f"{kill}. If systemd does not start it again, run systemctl start {broker.settings.instance}"
    if broker.settings.service != "systemd":
        return f"start the broker on {broker.host}"
    unit = broker.settings.instance
    return f"on {broker.host}, check journalctl -u {unit} for the reason, then run systemctl start {unit}"


def kill_command(row: BrokerStatus, broker: Broker) -> str:
    """Return the command that kills a broker's process."""
    if broker.settings.service == "systemd":
        return f"systemctl kill -s KILL {broker.settings.instance}.service"
    return f"kill -KILL {row.pid}"


def different_stores_message(stores: Mapping[str, str | None]) -> str:
    """Return a message that the active brokers of a pair use different stores; empty if they use the same one.

    ``stores`` are their store directories by host; None for a broker without one.
    """
    if len(set(stores.values()) - {None}) < 2:
        return ""
    directories = ", ".join(f"{store} on {host}" for host, store in sorted(stores.items()) if store)
    return f"they use different stores ({directories})"
