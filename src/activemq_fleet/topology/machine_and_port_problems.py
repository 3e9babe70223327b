"""Find conflicts of ports, and brokers with the same instance on one machine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from activemq_fleet.addresses import bind_addresses_overlap
from activemq_fleet.findings import Finding, error_finding
from activemq_fleet.topology.model.broker import Broker

_PORT_IN_USE = "the broker that starts second cannot open the port, and stops"
_PORT_USED_TWICE = "the broker can open the port for only one of its two listeners, and stops"
_PORT_VARIABLES = {
    "console": "activemq_console_port",
    "metrics": "activemq_metrics_port",
    "replication": "activemq_replication_port",
    "jmx": "the port of activemq_jmx",
    "jmx_rmi": "rmi_port of activemq_jmx",
}


def port_conflict_findings(brokers: Sequence[Broker]) -> Iterator[Finding]:
    """Yield an error for each conflict of ports: two listeners use one port of an address (T006).

    They belong to two brokers or to one. Listeners of one broker that are bound to different addresses can use the same
    port. Those of two brokers cannot, because peers and clients connect to ``activemq_address`` and the port.
    """
    earlier: dict[tuple[str, int], list[tuple[str, str, str]]] = defaultdict(list)
    for broker in brokers:
        conflicts: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
        binds = broker.bind_addresses
        for name, port in broker.ports.items():
            listeners = earlier[broker.address.lower(), port]
            for host, other, bind in listeners:
                if host != broker.host or bind_addresses_overlap(bind, binds[name]):
                    conflicts[host].append((name, other, port))
                    break
            listeners.append((broker.host, name, binds[name]))
        for host, shared in conflicts.items():
            if host == broker.host or len(shared) == 1:
                yield from (_port_finding(broker, host, *listeners) for listeners in shared)
            else:
                yield _address_finding(broker, host, shared)


def conflicting_ports_and_findings_of_broker(broker: Broker) -> Iterator[tuple[int, Finding]]:
    """Yield each port that two listeners of one broker use, with the finding about it (T006)."""
    earlier: dict[int, list[str]] = defaultdict(list)
    binds = broker.bind_addresses
    for name, port in broker.ports.items():
        other = next((other for other in earlier[port] if bind_addresses_overlap(binds[other], binds[name])), None)
        if other is not None:
            yield port, _port_finding(broker, broker.host, name, other, port)
        earlier[port].append(name)


def _port_finding(broker: Broker, host: str, name: str, other: str, port: int) -> Finding:
    if host == broker.host:
        # Without the address, which differs from host to host, so that the finding of several hosts is shown once.
        message = f"the listeners {name} and {other} of this broker both use port {port}"
        fix = f"set another port for one of the two: {_port_variable(name)}, or {_port_variable(other)}"
        return error_finding("T006", broker.host, message, fix, _PORT_USED_TWICE)
    variables = " or ".join(dict.fromkeys((_port_variable(name), _port_variable(other))))
    fix = (
        "set activemq_port_offset: 10 or another activemq_address for one of the two brokers. Or change the port of "
        f"one of the two listeners ({variables})"
    )
    message = f"the listeners {name} and {other} of {host} both use port {port} of {broker.address}"
    return error_finding("T006", broker.host, message, fix, _PORT_IN_USE)


def _port_variable(name: str) -> str:
    """Return where the port of a listener is set; ``name`` is a key of ``Broker.ports``."""
    return _PORT_VARIABLES.get(name, f"the port of the connector {name} in activemq_connectors")


def _address_finding(broker: Broker, host: str, shared: Sequence[tuple[str, str, int]]) -> Finding:
    """Return the error for a broker with the address of another host, and several of its ports (T006)."""
    ports = ", ".join(f"{port} ({name})" for name, _, port in shared)
    return error_finding(
        "T006",
        broker.host,
        f"the broker on {host} listens on the same address {broker.address} (activemq_address) and the same ports "
        f"{ports} as this broker",
        "set another activemq_address for one of the brokers. If they run on one machine, set activemq_port_offset: 10 "
        "for one of them",
        why=_PORT_IN_USE,
    )


def same_address_and_instance_findings(brokers: Sequence[Broker]) -> Iterator[Finding]:
    """Yield an error for two brokers with the same address and instance name (T009).

    They would have the same directories and systemd unit.
    """
    owners: dict[tuple[str, str, str], Broker] = {}
    for broker in brokers:
        if broker.settings.service == "none":
            continue
        key = (broker.address.lower(), broker.settings.base, broker.settings.instance)
        owner = owners.setdefault(key, broker)
        if owner is not broker:
            yield error_finding(
                "T009",
                broker.host,
                f"the host {owner.host} has the same activemq_address and the same activemq_instance "
                f"{broker.settings.instance!r} as this host",
                "set a different activemq_instance for each broker of the machine",
                why="both brokers would use the same service unit and directories",
            )


def same_machine_and_instance_findings(
    brokers: Iterable[Broker], machines: Mapping[str, tuple[str, ...]]
) -> Iterator[Finding]:
    """Yield an error for two brokers on the same machine with the same instance name (T009).

    They would have the same directories. ``machines`` are the connections of hosts; a template in one may have another
    value on each host.
    """
    owners: dict[tuple[str, ...], Broker] = {}
    for broker in brokers:
        machine = machines.get(broker.host, ())
        if not machine or broker.settings.service == "none" or any("{{" in part for part in machine):
            continue
        owner = owners.setdefault((*machine, broker.settings.base, broker.settings.instance), broker)
        if owner is not broker and owner.address != broker.address:  # T006 and T009 report equal addresses
            yield error_finding(
                "T009",
                broker.host,
                f"Ansible connects to {machine[0]} (ansible_host) for this host and for {owner.host}, and both "
                "have the same activemq_instance",
                "correct ansible_host of one of the hosts, or set a different activemq_instance for each broker of the "
                "machine",
                why="both brokers would use the same service unit and directories",
            )
