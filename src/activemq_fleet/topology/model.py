"""The fleet as data: groups, pairs, brokers, links, agents, load balancers.

Roles are preferred roles only. Which node of a pair is active is observed at run time and never stands in the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from pydantic import SecretStr

from activemq_fleet.addresses import Address, join
from activemq_fleet.errors import InputError
from activemq_fleet.findings import Finding
from activemq_fleet.naming import DEFAULT_PATTERN, Identity, Role
from activemq_fleet.profiles import Profile
from activemq_fleet.protocols import is_encrypted, protocol_of
from activemq_fleet.releases import Release
from activemq_fleet.settings.broker import Settings, WaiverSettings
from activemq_fleet.settings.encrypted import EncryptedValue
from activemq_fleet.settings.network import LinkSettings
from activemq_fleet.uris import is_openwire

MOST_LISTED = 10
"""How many of the known names (such as groups) a finding lists for the user to choose from."""

_CLIENT_AUTH = ("transport.needClientAuth", "needClientAuth")
LinkKind = Literal["multicast", "masterslave", "failover", "static"]


@dataclass(frozen=True, slots=True)
class Connector:
    """One transportConnector of a broker: ``port`` with the port offset added, ``scheme`` with TLS applied."""

    name: str
    scheme: str
    port: int
    options: Mapping[str, str]
    discovery_uri: str | None = None
    bind: str | None = None
    """Where it listens, None for the broker's ``activemq_bind``."""
    attributes: tuple[tuple[str, str], ...] = ()

    @property
    def tls(self) -> bool:
        """Whether clients of the connector use TLS."""
        return is_encrypted(self.scheme)

    def asks_for_certificate(self, release: Release) -> bool:
        """Return whether the connector refuses clients that show no certificate; in some releases TLS
        over NIO never refuses them.
        """
        asked = any(self.options.get(option) == "true" for option in _CLIENT_AUTH)
        return asked and self.tls and (release.has_nio_client_auth or "nio" not in self.scheme)


@dataclass(frozen=True, slots=True)
class Link:
    """One networkConnector of a broker: what it dials, and which messages it lets through.

    ``target`` is a pair, the first label of a broker's host name (``activemq_ha: none``), or for multicast the group.
    ``addresses`` are those that it dials, preferred master first, and empty for multicast.
    ``network_ttl`` is None where ``consumer_ttl`` and ``message_ttl`` (-1: no limit) are set.
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
    """Further attributes of the networkConnector, or others than those that every link has."""
    destination_filter: str | None = None
    """The filter of a duplex link whose far end reads filters in another way; None: the release's default."""

    def to_dict(self) -> dict[str, Any]:
        """Return the link as the JSON object of fleet.json."""
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
    """A user name and password with which clients, bridges, agents or balancers log in to a broker.

    ``variable`` names the variable that holds the password; ``groups`` are user groups.
    """

    name: str
    variable: str
    password: SecretStr | EncryptedValue | None
    groups: tuple[str, ...]
    key: str
    """The property with the password that activemq.xml refers to, such as ``activemq.user.NAME.password``."""


@dataclass(frozen=True, slots=True)
class Permission:
    """One authorizationEntry: which user groups may read, write and administer a destination."""

    kind: Literal["queue", "topic"]
    destination: str
    read: tuple[str, ...]
    write: tuple[str, ...]
    admin: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One broker of the fleet with its settings, links, accounts and permissions.

    ``ports`` maps names of connectors, ``console`` and ``replication`` to ports. ``peer`` is the host of the pair's
    other node.
    """

    host: str
    identity: Identity
    settings: Settings
    release: Release
    address: str
    broker_name: str
    store_directory: str
    ports: Mapping[str, int]
    connectors: tuple[Connector, ...]
    peer: str | None = None
    peer_address: Address | None = None
    """Where the other node's OpenWire connector listens; for a pure slave the master's replication port."""
    links: tuple[Link, ...] = ()
    networked: bool = False
    """True where bridges to other units begin or end at the broker."""
    accounts: tuple[Account, ...] = ()
    permissions: tuple[Permission, ...] = ()

    @property
    def labels(self) -> dict[str, str]:
        """The labels of the broker's metrics: its host, group, pair and node."""
        return {"host": self.host, "group": self.group, "pair": self.pair, "node": self.identity.node}

    @property
    def group(self) -> str:
        """The name of the broker's group."""
        return self.identity.group

    @property
    def pair(self) -> str:
        """The name of the broker's pair."""
        return self.identity.pair

    @property
    def role(self) -> Role:
        """The preferred role of the broker, master or slave, by its host name."""
        return self.identity.role

    @property
    def profile(self) -> Profile:
        """The profile of ``activemq_ha``: how the nodes of the broker's pair stand in for each other."""
        return self.settings.profile

    @property
    def is_replication_slave(self) -> bool:
        """Whether the broker is the slave of a ``pure`` pair, which opens no connector, not
        even once it is promoted.
        """
        return self.profile.replicates and self.role == "slave"

    @property
    def shared_directory(self) -> str | None:
        """The path of the store directory that both nodes of the pair use; None where they share no
        directory (none, or a database).
        """
        return self.store_directory if self.profile.shares_store_directory else None

    @property
    def has_guard(self) -> bool:
        """Whether a guard process starts the broker, so that a stale node cannot write (``activemq_fence:
        guard`` or ``command``).
        """
        return self.settings.fence != "none" and self.profile.shares_store_directory

    @property
    def calls_fence_command(self) -> bool:
        """Whether a take-over calls ``activemq_fence_command`` (``activemq_fence: command``)."""
        return self.settings.fence == "command" and self.profile.shares_store_directory

    @property
    def unit(self) -> str:
        """The name that stands for the broker in the network: its pair's, or for a broker without a
        peer its own host label.
        """
        return self.identity.pair if self.profile.has_peer else self.identity.host

    @property
    def openwire(self) -> Connector | None:
        """The OpenWire connector that bridges and Java clients dial; None for a pure slave."""
        return next((c for c in self.connectors if is_openwire(c.scheme)), None)

    def connector(self, protocol: str) -> Connector | None:
        """Return the first connector of a protocol (``mqtt``, ``stomp``, ``amqp``, ``ws``), or None."""
        return next((c for c in self.connectors if protocol_of(c.scheme) == protocol), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the broker as the JSON object of fleet.json."""
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


def dialling_order(brokers: Iterable[Broker]) -> tuple[Broker, ...]:
    """Return the brokers of a pair in the order in which clients and bridges try them, preferred master first."""
    return tuple(sorted(brokers, key=lambda b: (b.role != "master", b.identity.node)))


@dataclass(frozen=True, slots=True)
class Pair:
    """The two brokers that stand in for each other, or one broker whose peer is not in the inventory."""

    name: str
    group: str
    brokers: tuple[Broker, ...]

    @property
    def preferred_master(self) -> Broker:
        """The first broker of the pair whose role by its host name is master; the first broker where none is."""
        return next((b for b in self.brokers if b.role == "master"), self.brokers[0])

    @property
    def profile(self) -> Profile:
        """The profile (value of ``activemq_ha``) of the preferred master: how the nodes of the pair
        stand in for each other.
        """
        return self.preferred_master.profile

    @property
    def in_order(self) -> tuple[Broker, ...]:
        """The brokers of the pair, preferred master first, as clients and bridges try them."""
        return dialling_order(self.brokers)


@dataclass(frozen=True)
class Unit:
    """A pair, or a broker without a peer, as one end of links in the network of brokers.

    ``brokers`` are in the order of dialling, preferred master first.
    """

    name: str
    group: str
    brokers: tuple[Broker, ...]

    @cached_property
    def addresses(self) -> tuple[Address, ...]:
        """The OpenWire addresses that bridges can dial, one for each broker that opens such a port."""
        return tuple((b.address, b.openwire.port) for b in self.brokers if b.openwire)

    @property
    def first(self) -> Broker:
        """The broker that is active while all brokers of the pair are up: the preferred master."""
        return self.brokers[0]

    def active(self, down: str | None) -> Broker | None:
        """Return the broker of the pair that is active while the broker ``down`` is dead; None
        where no broker is left.
        """
        if self.brokers[0].host != down:
            return self.brokers[0]
        return self.brokers[1] if len(self.brokers) > 1 else None


@dataclass(frozen=True, slots=True)
class Group:
    """All pairs that share a name and form one network of brokers."""

    name: str
    pairs: tuple[Pair, ...]

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """The brokers of all pairs of the group."""
        return tuple(broker for pair in self.pairs for broker in pair.brokers)


@dataclass(frozen=True, slots=True)
class Agent:
    """A failover agent's host (in ``activemq_agents``), with the addresses of the two brokers of its home pair.

    ``urls`` are the MQTT listeners, preferred master first; ``java_urls`` are the OpenWire listeners for Java clients.
    """

    host: str
    settings: Settings
    group: str
    pair: str
    urls: tuple[Address, ...]
    tls: bool = False
    java_urls: tuple[Address, ...] = ()
    java_schemes: tuple[str, ...] = ()
    """The scheme of each of ``java_urls``; OpenWire may listen with TLS where MQTT does not, and vice versa."""


@dataclass(frozen=True, slots=True)
class Server:
    """One broker behind a load balancer; ``limit`` is the most clients at once, None for no limit.

    ``name_in_certificate`` is the host name that the broker's certificate must have.
    """

    name: str
    address: Address
    limit: int | None
    name_in_certificate: str

    @property
    def host_and_port(self) -> str:
        """The address as ``HOST:PORT``."""
        return join(*self.address)


@dataclass(frozen=True, slots=True)
class Backend:
    """Brokers of which any may serve the same client: a pair, a single broker, or all masters of a ``pure`` group."""

    name: str
    servers: tuple[Server, ...]


@dataclass(frozen=True, slots=True)
class VirtualPort:
    """One port of a group's virtual address: a connector of the group's brokers.

    ``greets`` is True where the broker sends the first bytes of a connection. Of several backends a client is always
    sent to the same one, chosen by its MQTT client id or its address.
    """

    connector: str
    protocol: str
    port: int
    tls: bool
    greets: bool
    backends: tuple[Backend, ...]


@dataclass(frozen=True, slots=True)
class VirtualAddress:
    """The virtual IP address of one group, as one load balancer holds it or waits for it.

    ``source`` is the balancer's own address and ``peers`` the other balancers' in VRRP; None and empty where balancers
    are known by name only, and VRRP then uses multicast. ``masters_only``: slaves of the group take no clients.
    """

    group: str
    address: str
    interface: str | None
    router_id: int
    priority: int
    source: str | None
    peers: tuple[str, ...]
    masters_only: bool
    fronts: tuple[VirtualPort, ...]


@dataclass(frozen=True, slots=True)
class Balancer:
    """A host in ``activemq_loadbalancers``, and the virtual addresses that it holds for groups."""

    host: str
    settings: Settings
    addresses: tuple[VirtualAddress, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the balancer as the JSON object of fleet.json."""
        return {
            "host": self.host,
            "groups": [
                {
                    "group": one.group,
                    "vip": one.address,
                    "ports": {front.connector: front.port for front in one.fronts},
                    "router_id": one.router_id,
                    "priority": one.priority,
                }
                for one in self.addresses
            ],
        }


class KnownGroups(NamedTuple):
    """The names of the first groups of an inventory, for lists in findings, and the number of all groups."""

    first: tuple[str, ...]
    number: int

    @classmethod
    def of(cls, names: Sequence[str]) -> KnownGroups:
        """Return the shortened list of groups, given the names of all groups in order."""
        return cls(tuple(names[:MOST_LISTED]), len(names))

    @property
    def text(self) -> str:
        """The listed group names, comma-separated, with "and N more" where there are more groups."""
        more = f" and {self.number - len(self.first)} more" if self.number > len(self.first) else ""
        return f"{', '.join(self.first)}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeInventory:
    """Facts about a whole inventory for building the fleet of one part, so that it equals this part of the whole fleet.

    A part has whole groups, and every group that a link, an agent or an address joins to one of its groups. ``groups``
    are those of the whole inventory. ``links`` are the entries of ``activemq_links`` that concern the part, each with
    the first host that has it and its position there, in the order of the whole. ``findings`` are those about links
    with an unknown end, ``waivers`` are all that have not expired. ``stores`` name the unit that is first to use a
    store of ``lint.fleet_stores``, for stores that are used more than once.
    """

    groups: KnownGroups
    links: tuple[tuple[LinkSettings, str, int], ...] = ()
    waivers: tuple[WaiverSettings, ...] = ()
    stores: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Fleet:
    """The model of a whole inventory: brokers, groups, agents, balancers and findings; ``brokers`` are
    sorted by inventory name.

    ``warnings`` are texts about releases and expired waivers. ``rest`` is set when the fleet is a part of a larger one.
    """

    brokers: tuple[Broker, ...]
    groups: tuple[Group, ...]
    agents: tuple[Agent, ...] = ()
    balancers: tuple[Balancer, ...] = ()
    findings: tuple[Finding, ...] = ()
    waivers: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = field(default=(), compare=False)
    naming_pattern: str = DEFAULT_PATTERN
    rest: WholeInventory | None = field(default=None, compare=False)

    @cached_property
    def _by_host(self) -> dict[str, Broker]:
        return {broker.host: broker for broker in self.brokers}

    @cached_property
    def pairs(self) -> dict[str, Pair]:
        """The pairs of the fleet by name."""
        return {pair.name: pair for group in self.groups for pair in group.pairs}

    def broker(self, host: str) -> Broker:
        """Return a broker by inventory name, or by the first label of its name where only one host has that label.

        Raises InputError for a name that is no broker's, or a label that several hosts have.
        """
        if host in self._by_host:
            return self._by_host[host]
        short = [b for b in self.brokers if b.identity.host == host]
        if len(short) == 1:
            return short[0]
        raise InputError(
            f"{host} is not a broker of this inventory" if not short else f"{host} names {len(short)} hosts"
        )

    @property
    def blocking(self) -> tuple[Finding, ...]:
        """The findings of severity error that no waiver covers."""
        return tuple(finding for finding in self.findings if finding.blocks)
