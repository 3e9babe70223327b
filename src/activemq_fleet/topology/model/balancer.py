"""Define the data model of a load balancer: its virtual addresses, their ports, and the brokers of each port."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from activemq_fleet.addresses import Address, join_host_port
from activemq_fleet.settings.host_settings import HostSettings


@dataclass(frozen=True, slots=True)
class Server:
    """A server of a load balancer: a broker to which it connects clients.

    ``limit`` is the largest number of clients, None for no limit. ``name_in_certificate`` is the host name that the
    broker's certificate must have.
    """

    name: str
    address: Address
    limit: int | None
    name_in_certificate: str

    @property
    def host_and_port(self) -> str:
        """The address of a load balancer's server (a broker), as ``HOST:PORT``."""
        return join_host_port(*self.address)


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend of a load balancer: the brokers to which it forwards connections.

    They are those of a pair, a single broker, or all masters of a ``pure`` group.
    """

    name: str
    servers: tuple[Server, ...]


@dataclass(frozen=True, slots=True)
class VirtualAddressPort:
    """A port of a group's virtual IP address, for one connector of the group's brokers.

    ``greets`` is True where every broker sends the first bytes of a connection. Of several backends a client is always
    sent to the same one, chosen by its MQTT client id or its address.
    """

    connector: str
    protocol: str
    port: int
    tls: bool
    greets: bool
    backends: tuple[Backend, ...]


@dataclass(frozen=True, slots=True)
class VirtualIpAddress:
    """The virtual IP address of a group of brokers on one load balancer.

    The balancer holds the address or is a backup for it. ``source`` is the balancer's own address and ``peers`` the
    other balancers' in VRRP; None and empty where balancers are known by name only, and VRRP then uses multicast.
    ``masters_only``: all pairs of the group are ``pure``, and their slaves accept no clients.
    """

    group: str
    address: str
    interface: str | None
    router_id: int
    priority: int
    source: str | None
    peers: tuple[str, ...]
    masters_only: bool
    fronts: tuple[VirtualAddressPort, ...]


@dataclass(frozen=True, slots=True)
class Balancer:
    """A load balancer: a host in ``activemq_loadbalancers`` with the virtual addresses that it holds for groups."""

    host: str
    settings: HostSettings
    addresses: tuple[VirtualIpAddress, ...] = ()

    def serves_group(self, group: str) -> bool:
        """Return whether the load balancer serves a group, that is, has its virtual address."""
        return any(address.group == group for address in self.addresses)

    def to_dict(self) -> dict[str, Any]:
        """Return the load balancer as a dictionary for fleet.json."""
        return {
            "host": self.host,
            "groups": [
                {
                    "group": address.group,
                    "vip": address.address,
                    "ports": {front.connector: front.port for front in address.fronts},
                    "router_id": address.router_id,
                    "priority": address.priority,
                }
                for address in self.addresses
            ],
        }
