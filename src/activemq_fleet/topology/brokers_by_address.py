"""Resolve host names and addresses in URIs to the brokers of a fleet; nothing else in the project does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeVar

from activemq_fleet.addresses import may_be_same_host
from activemq_fleet.topology.model.broker import Broker, Connector

_Host = TypeVar("_Host")
_NO_NAMES: Mapping[str, Sequence[str]] = MappingProxyType({})


class HostsByName(Generic[_Host]):
    """A lookup of hosts by the host names in URIs: case-insensitive, with or without the DNS domain."""

    def __init__(self, names_and_hosts: Iterable[tuple[str, _Host]]) -> None:
        """Make a lookup of pairs of a name and a host; a host may have several names, and a name several hosts."""
        self._hosts_by_name: dict[str, dict[_Host, None]] = {}
        self._names_by_part: dict[str, list[str]] = {}
        for name, host in names_and_hosts:
            normalized = _normalized(name)
            if normalized not in self._hosts_by_name:
                for part in _parts_before_dots(normalized):
                    self._names_by_part.setdefault(part, []).append(normalized)
            self._hosts_by_name.setdefault(normalized, {})[host] = None

    def possible_hosts(self, name: str) -> list[_Host]:
        """Return the hosts with exactly the given name, or else those whose name differs only in the DNS domain."""
        normalized = _normalized(name)
        if normalized in self._hosts_by_name:
            return list(self._hosts_by_name[normalized])
        shorter = [part for part in _parts_before_dots(normalized) if part in self._hosts_by_name]
        similar = [*shorter, *self._names_by_part.get(normalized, ())]
        names = [known for known in similar if may_be_same_host(known, normalized)]
        return list(dict.fromkeys(host for known in names for host in self._hosts_by_name[known]))


def _normalized(name: str) -> str:
    return name.lower().rstrip(".")


def _parts_before_dots(name: str) -> list[str]:
    """Return the parts of a host name before each of its dots: ``a`` and ``a.b`` for ``a.b.c``."""
    return [name[:position] for position, character in enumerate(name) if character == "."]


class BrokerListener(NamedTuple):
    """A listener of a broker: a transport connector that accepts connections on a port."""

    broker: Broker
    connector: Connector


class BrokersByAddress:
    """A lookup of a fleet's brokers by the host and port of a URI, such as that of a bridge or a client.

    A broker is known by its address and its inventory name, with and without the domain. A name that may mean hosts
    with different addresses means none of them. Brokers of one address share its ports.
    """

    def __init__(self, brokers: Iterable[Broker], more_names: Mapping[str, Sequence[str]] = _NO_NAMES) -> None:
        """Make a lookup of brokers; ``more_names`` are other names of a broker's machine, by the broker's host."""
        self._brokers = {broker.host: broker for broker in brokers}
        self._hosts_by_name = HostsByName(
            (name, host)
            for host, broker in self._brokers.items()
            for name in (broker.address, host, *more_names.get(host, ()))
        )

    def brokers_named(self, host: str) -> Sequence[Broker]:
        """Return the brokers on the machine that a host name or IP address means; an empty list for none."""
        possible = [self._brokers[name] for name in self._hosts_by_name.possible_hosts(host)]
        at_address = [broker for broker in possible if _normalized(broker.address) == _normalized(host)]
        brokers = at_address or possible
        return brokers if len({_normalized(broker.address) for broker in brokers}) == 1 else []

    def broker_at(self, host: str, port: int) -> Broker | None:
        """Return the broker that listens at a host and port for clients, bridges or its slave, or None."""
        return next((b for b in self.brokers_named(host) if any(c.port == port for c in b.connectors)), None)

    def listener_at(self, host: str, port: int) -> BrokerListener | None:
        """Return the broker's listener for clients and bridges at a host and port, or None."""
        for broker in self.brokers_named(host):
            for connector in broker.connectors:
                if connector.port == port and connector.name != "replication":
                    return BrokerListener(broker, connector)
        return None

    def broker_without_listener_at(self, host: str, port: int) -> Broker | None:
        """Return the broker at a host name if none of its connectors listens on a given port, else None.

        None is also returned where the broker may listen at the port.
        """
        brokers = self.brokers_named(host)
        if not brokers or self.listener_at(host, port) or any(_may_listen(broker, port) for broker in brokers):
            return None
        return brokers[0]


def _may_listen(broker: Broker, port: int) -> bool:
    """Return whether a broker may have a listener at a port that is not in its connectors."""
    has_connector_fragment = any(
        "transportConnector" in f.xml or "Connectors" in f.parent for f in broker.settings.xml_fragments
    )
    return has_connector_fragment or port == broker.ports.get("replication")
