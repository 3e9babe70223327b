"""Define the data model of a broker, with its connectors, links, accounts and permissions.

Roles are preferred roles only. The active node of a pair is observed at run time, and is not part of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import SecretStr

from activemq_fleet import uris
from activemq_fleet.addresses import Address
from activemq_fleet.naming import Identity, Role
from activemq_fleet.node.protocols import is_encrypted, protocol_name_of_scheme
from activemq_fleet.profiles import HighAvailabilityProfile
from activemq_fleet.releases import Release
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from activemq_fleet.settings.host_settings import HostSettings
from activemq_fleet.uris import is_openwire

_CLIENT_AUTH = ("transport.needClientAuth", "needClientAuth")
_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 -- the code binds no socket
LinkKind = Literal["multicast", "masterslave", "failover", "static"]


@dataclass(frozen=True, slots=True)
class Connector:
    """A connector (transportConnector) of a broker.

    ``port`` has the port offset added, ``scheme`` has TLS applied.
    """

    name: str
    scheme: str
    port: int
    options: Mapping[str, str]
    discovery_uri: str | None = None
    bind: str | None = None
    """The address on which the connector listens; None for the broker's ``activemq_bind``."""
    attributes: tuple[tuple[str, str], ...] = ()

    @property
    def uses_tls(self) -> bool:
        """Whether the connector uses TLS."""
        return is_encrypted(self.scheme)

    def refuses_clients_without_certificate(self, release: Release) -> bool:
        """Return whether the connector, in a broker of an ActiveMQ release, refuses clients without a certificate.

        In some releases TLS over NIO never refuses them.
        """
        requests_certificate = any(self.options.get(option) == "true" for option in _CLIENT_AUTH)
        return requests_certificate and self.uses_tls and (release.has_nio_client_auth or "nio" not in self.scheme)


@dataclass(frozen=True, slots=True)
class Link:
    """A link of a broker to other brokers: one networkConnector.

    It has the addresses to which it connects, and the messages that it forwards. ``target`` is a pair, the first label
    of a broker's host name (``activemq_ha: none``), or for multicast the group. ``addresses`` are those of the
    target's brokers, preferred master first, and empty for multicast. ``network_ttl`` is None where
    ``consumer_ttl`` and ``message_ttl`` (-1: no limit) are set.
    """

    name: str
    kind: LinkKind
    target: str
    uri: str
    addresses: tuple[Address, ...]
    duplex: bool
    network_ttl: int | None
    consumer_ttl: int | None = None
    message_ttl: int | None = None
    include: tuple[str, ...] = ()
    static_include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    attributes: tuple[tuple[str, str], ...] = ()
    """Attributes of the networkConnector that are not fields of every link, or that replace their values."""
    destination_filter: str | None = None
    """The filter of a duplex link whose far end interprets filters differently; None for the release's default."""

    @property
    def is_static_bridge(self) -> bool:
        """Whether the link carries only its statically included destinations (staticBridge)."""
        return dict(self.attributes).get("staticBridge") == "true"

    @property
    def carried_destinations(self) -> tuple[str, ...]:
        """The destinations that the link carries, except those in ``exclude``; empty if it carries all."""
        if self.is_static_bridge:
            return self.static_include
        return (*self.include, *self.static_include) if self.include else ()

    def to_dict(self) -> dict[str, Any]:
        """Return a network link of the broker (one networkConnector) as a dictionary for the file fleet.json."""
        return {
            "name": self.name,
            "kind": self.kind,
            "target": self.target,
            "uri": self.uri,
            "duplex": self.duplex,
            "network_ttl": self.network_ttl,
            "consumer_ttl": self.consumer_ttl,
            "message_ttl": self.message_ttl,
            "include": list(self.include),
            **({"static_include": list(self.static_include)} if self.static_include else {}),
            "exclude": list(self.exclude),
        }


@dataclass(frozen=True, slots=True)
class Account:
    """An account (user name and password) with which a client logs in to a broker.

    Bridges, agents and balancers are clients, too. ``variable`` names the variable that holds the password; ``groups``
    are user groups.
    """

    name: str
    variable: str
    password: SecretStr | UndecryptedVaultValue | None
    groups: tuple[str, ...]
    key: str
    """The property with the password that activemq.xml refers to, such as ``activemq.user.NAME.password``."""


@dataclass(frozen=True, slots=True)
class Permission:
    """The permission of user groups to read, write and administer a destination.

    It is one authorizationEntry.
    """

    kind: Literal["queue", "topic"]
    destination: str
    read: tuple[str, ...]
    write: tuple[str, ...]
    admin: tuple[str, ...]


Discovery = Literal["masterslave", "failover", "static", "multicast"]


def bridge_discovery_method_of_broker(settings: HostSettings, release: Release) -> Discovery:
    """Return the method by which a broker's bridges discover other brokers.

    It is ``activemq_discovery``, or a default by profile and release.
    """
    by_release: Discovery = "masterslave" if release.has_masterslave_discovery else "failover"
    return settings.discovery or settings.ha_profile.default_discovery or by_release


def pair_or_short_host_name(identity: Identity, settings: HostSettings) -> str:
    """Return the name of a broker's pair, or the short host name of a broker without a peer."""
    return identity.pair if settings.ha_profile.has_peer else identity.short_host_name


def multicast_group_name(group: str, settings: HostSettings) -> str:
    """Return the name of the multicast group by which the brokers of a group discover each other.

    It is prefixed with ``activemq_environment`` where set.
    """
    name = settings.multicast_group or group
    return f"{settings.environment}-{name}" if settings.environment else name


def multicast_uri_of_group(group: str, settings: HostSettings) -> str:
    """Return the URI of multicast discovery for a group's brokers."""
    return uris.multicast_discovery_uri(
        settings.multicast, multicast_group_name(group, settings), settings.multicast_interface
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A planned broker of the fleet: its settings, ports, connectors, links, accounts and permissions.

    ``ports`` maps names of connectors, ``console``, ``metrics``, ``jmx``, ``jmx_rmi`` and ``replication`` to ports.
    ``peer`` is the host of the pair's other node.
    """

    host: str
    identity: Identity
    settings: HostSettings
    release: Release
    address: str
    broker_name: str
    store_directory: str
    ports: Mapping[str, int]
    connectors: tuple[Connector, ...]
    shares_short_host_name: bool = False
    """True if another broker without a peer has the same short host name, in another domain."""
    peer: str | None = None
    peer_address: Address | None = None
    """The address of the other node's OpenWire connector; for a pure slave, of the master's replication port."""
    links: tuple[Link, ...] = ()
    networked: bool = False
    """True if bridges to other pairs or single brokers begin or end at the broker."""
    accounts: tuple[Account, ...] = ()
    permissions: tuple[Permission, ...] = ()

    @property
    def bind_addresses(self) -> dict[str, str]:
        """The address (IP address or name) to which each listener in ``ports`` binds, by the listener's name.

        JMX listens on all addresses.
        """
        settings = self.settings
        configured = {connector.name: connector.bind or settings.bind for connector in self.connectors}
        configured |= {"console": settings.console_bind, "metrics": settings.metrics_bind}
        return {name: configured.get(name, _ALL_ADDRESSES) for name in self.ports}

    @property
    def metric_labels(self) -> dict[str, str]:
        """The labels of the broker's metrics (host, group, pair and node).

        A broker without a peer has its host as ``pair``, because alerts and planned work concern all brokers of a pair.
        """
        pair = self.pair if self.ha_profile.has_peer else self.host
        return {"host": self.host, "group": self.group, "pair": pair, "node": self.identity.node}

    @property
    def group(self) -> str:
        """The name of the broker's group."""
        return self.identity.group

    @property
    def pair(self) -> str:
        """The name of the broker's pair, also if the broker has no peer."""
        return self.identity.pair

    @property
    def role(self) -> Role:
        """The preferred role of the broker (``master`` or ``slave``), which it has while both nodes of its pair run."""
        return self.identity.role

    @property
    def ha_profile(self) -> HighAvailabilityProfile:
        """The high-availability profile of the broker, given by the variable ``activemq_ha``."""
        return self.settings.ha_profile

    @property
    def bridge_discovery_method(self) -> Discovery:
        """The method by which the broker's bridges discover other brokers, such as ``multicast``."""
        return bridge_discovery_method_of_broker(self.settings, self.release)

    @property
    def group_multicast_uri(self) -> str:
        """The URI of multicast discovery for the broker's group, also if the broker does not use multicast."""
        return multicast_uri_of_group(self.group, self.settings)

    @property
    def is_replication_slave(self) -> bool:
        """Whether the broker is the slave of a replicating (``pure``) pair.

        It opens no connector, not even once it is promoted.
        """
        return self.ha_profile.replicates and self.role == "slave"

    @property
    def shared_store_directory(self) -> str | None:
        """The store directory that both nodes of the broker's pair share, or None."""
        return self.store_directory if self.ha_profile.shares_store_directory else None

    @property
    def has_guard(self) -> bool:
        """Whether the broker has a guard, a process that prevents writes of a node that another node has replaced.

        The guard starts the broker. ``activemq_fence`` is ``guard`` or ``command``.
        """
        return self.settings.fence != "none" and self.ha_profile.shares_store_directory

    @property
    def calls_fence_command(self) -> bool:
        """Whether a takeover by the broker calls ``activemq_fence_command``.

        It does with ``activemq_fence: command``.
        """
        return self.settings.fence == "command" and self.ha_profile.shares_store_directory

    @property
    def name_in_links(self) -> str:
        """The name by which links refer to the broker: that of its pair, or its short host name if it has no peer.

        If another broker without a peer has the same short host name, it is the whole host name.
        """
        return self.host if self.shares_short_host_name else pair_or_short_host_name(self.identity, self.settings)

    @property
    def link_user_name(self) -> str:
        """The name of the user as which the broker's links log in, or "" if they do not log in."""
        return (self.settings.network_username or "") if self.settings.authentication != "none" else ""

    @property
    def openwire(self) -> Connector | None:
        """The OpenWire connector of the broker, or None without one, as for the slave of a ``pure`` pair.

        Bridges and Java clients connect to it.
        """
        return next((c for c in self.connectors if is_openwire(c.scheme)), None)

    @property
    def openwire_uses_tls(self) -> bool:
        """Whether the broker has an OpenWire connector that uses TLS."""
        return self.openwire is not None and self.openwire.uses_tls

    def connector(self, protocol: str) -> Connector | None:
        """Return the broker's first connector of a protocol such as ``mqtt``, or None.

        Protocols are ``mqtt``, ``stomp``, ``amqp`` and ``ws``.
        """
        return next((c for c in self.connectors if protocol_name_of_scheme(c.scheme) == protocol), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the broker as a dictionary for fleet.json."""
        return {
            "host": self.host,
            "group": self.group,
            "pair": self.pair,
            "node": self.identity.node,
            "role": self.role,
            "release": self.release.text,
            "address": self.address,
            "ports": dict(self.ports),
            "links": [link.to_dict() for link in self.links],
        }


def brokers_in_dialling_order(brokers: Iterable[Broker]) -> tuple[Broker, ...]:
    """Return brokers in the order in which clients and bridges connect to them, preferred master first."""
    return tuple(sorted(brokers, key=lambda b: (b.role != "master", b.identity.node)))
