"""Find pairs of a fleet's status with two writing nodes, without an active node, or without a standby."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from activemq_fleet.findings import Finding, error_finding
from activemq_fleet.pair_remedies import two_pure_masters_remedy, waiting_brokers_remedy
from activemq_fleet.pair_state import PairState
from activemq_fleet.status.model import BrokerStatus
from activemq_fleet.topology import Broker, Fleet


def active_node_findings(pair: PairState[BrokerStatus], fleet: Fleet) -> Iterator[Finding]:
    """Yield findings about a pair with two active nodes, no active node, no standby, or an outdated active node.

    ``pair`` has the nodes that were queried. A broker without a peer is checked, too.
    """
    rows, active = pair.nodes, pair.serving
    others = [row for row in rows if row not in active]
    broker = fleet.broker(rows[0].host)
    is_peer_queried = len(rows) > 1 or broker.peer is None
    other_states = ", ".join(map(_state_text, others))
    for row in pair.nodes_with_outdated_generation:
        yield _stale_generation_finding(row, fleet.broker(row.host), pair.newest_generation_of(row))
    if len(active) > 1 or pair.two_masters:
        yield from _two_active_pure_findings(pair) if broker.ha_profile.replicates else _two_active_findings(pair)
    if not active and is_peer_queried and all(row.state not in ("unreachable", "unknown") for row in rows):
        yield error_finding(
            "no-active",
            rows[0].host,
            f"no node of {broker.name_in_links} is active, so clients are not served: {other_states}",
            _remedy_without_active_node(rows, broker),
        )
    elif len(active) == 1 and others and others[0].state in ("stopped", "hung"):
        text = f"the active broker of {active[0].host} has no standby: {other_states}"
        fix = (
            f"run the playbook resync for the pair {rows[0].pair}"
            if broker.ha_profile.needs_resync
            else _standby_start_remedy(others[0], fleet.broker(others[0].host))
        )
        yield Finding(rule="standby-missing", severity="warning", host=others[0].host, message=text, fix=fix)


def _stale_generation_finding(row: BrokerStatus, broker: Broker, newest: int | None) -> Finding:
    return error_finding(
        "stale-generation",
        row.host,
        f"the broker uses generation (numbered copy) {row.generation} of its store, but a takeover has replaced it "
        f"with generation {newest}. The new generation lacks messages that this broker accepts",
        "wait until the guard (the program that activemq_fence: guard starts) kills this broker at its next check. "
        f"If it does not, run {kill_command(row, broker)} on {row.host}",
    )


def _remedy_without_active_node(rows: Sequence[BrokerStatus], broker: Broker) -> str:
    hosts, settings = " and ".join(row.host for row in rows), broker.settings
    unit, is_systemd = settings.instance, settings.service == "systemd"
    if all(row.is_not_installed for row in rows):
        return f"run the playbook site, which installs and starts the broker on {hosts}"
    logs = f"activemq.log and journalctl -u {unit}" if is_systemd else "activemq.log and the standard output"
    if all(row.state == "stopped" for row in rows):
        if broker.ha_profile.needs_resync:
            return f"check {logs} on {hosts} for the reason, then run the playbook resync for the pair {rows[0].pair}"
        start = f"run systemctl start {unit}" if is_systemd else "start the broker"
        return (
            "if the playbook site was interrupted, run it again. Otherwise check "
            f"{logs} on {hosts} for the reason, then {start}"
        )
    if all(row.state == "standby" for row in rows) and not broker.ha_profile.replicates:
        store, fence = broker.shared_store_directory, settings.fence
        return waiting_brokers_remedy(broker.ha_profile, store, hosts=hosts, unit=unit, fence=fence)
    return f"check {logs} on {hosts}"


def _state_text(row: BrokerStatus) -> str:
    """Return the state of a node, with the reason if no finding of the node contains it."""
    if row.is_not_installed:
        return f"{row.host} is stopped, because the playbook site has not installed its broker"
    return f"{row.host} is {row.state}" + (f" ({row.reason})" if row.state in ("stopped", "starting") else "")


def _two_active_pure_findings(pair: PairState[BrokerStatus]) -> Iterator[Finding]:
    hosts = " and ".join(row.host for row in pair.serving)
    yield error_finding(
        "two-active",
        pair.serving[0].host,
        f"the brokers of {hosts} are both active. Each has its own store, with messages that the other one lacks",
        two_pure_masters_remedy(pair.nodes[0].pair),
    )


def _two_active_findings(pair: PairState[BrokerStatus]) -> Iterator[Finding]:
    active = pair.serving
    host = (active or pair.nodes)[0].host
    both_are_active = f"the brokers of {' and '.join(row.host for row in active)} are both active"
    stop_remedy = (
        "immediately stop the broker with fewer client connections. If neither broker has client connections, stop "
        "either of the two"
    )
    if pair.uses_different_stores:
        stores = {row.host: row.store for row in pair.nodes}
        remedy = (
            "set the same activemq_store_directory for both nodes"
            if len(set(stores.values()) - {None}) > 1
            else "mount the same share on both hosts"
        )
        yield error_finding(
            "two-active",
            host,
            f"{both_are_active}, because {different_stores_message(stores)}. Each has messages that the other one "
            "lacks",
            f"{stop_remedy}. Keep a copy of both stores. Then {remedy}, and run the playbook site",
        )
        return
    if store := pair.nodes[0].evidence.store:
        stop_remedy += f". Keep a copy of the store {store}"
    if not pair.is_guarded:
        text = f"{both_are_active}, because they do not use the same lock. Messages may be lost"
    elif pair.two_masters:
        text = pair.two_masters
    elif pair.unknown_writer_reason:
        text = (
            f"{both_are_active}, and {pair.unknown_writer_reason}. So it is not known which of the two brokers writes "
            "to it"
        )
    elif len(pair.nodes_with_outdated_generation) == len(pair.nodes):
        text = (
            f"{both_are_active}, but neither writes to the newest generation (numbered copy) of the store. This "
            "generation lacks the messages that the two brokers accept, so a failover loses them"
        )
    else:
        return
    yield error_finding("two-active", host, text, stop_remedy)


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
    """Return a part of an error message: that the active brokers of a pair use different store directories.

    ``stores`` are their store directories by host; None for a broker without one.
    """
    directories = ", ".join(f"{store} on {host}" for host, store in sorted(stores.items()) if store)
    return f"they use different stores ({directories})"
