"""The fleet as data: groups, pairs, brokers, links, agents. Everything is decided here.

Preferred roles only. Which node of a pair is active is found out at run time and never stands
in this model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

from pydantic import SecretStr

from activemq_fleet.addresses import Address
from activemq_fleet.errors import InputError
from activemq_fleet.findings import Finding
from activemq_fleet.naming import DEFAULT_PATTERN, Identity, Role
from activemq_fleet.profiles import Profile
from activemq_fleet.protocols import is_encrypted, protocol_of
from activemq_fleet.releases import Release
from activemq_fleet.settings.broker import LinkSettings, Settings, WaiverSettings
from activemq_fleet.settings.encrypted import EncryptedValue
from activemq_fleet.uris import is_openwire

MOST_LISTED = 10
"""A finding names so many of what there is to choose from."""

_CLIENT_AUTH = ("transport.needClientAuth", "needClientAuth")
LinkKind = Literal["multicast", "masterslave", "failover", "static"]


@dataclass(frozen=True, slots=True)
class Connector:
    """One transportConnector: ``port`` with the offset, ``scheme`` with TLS applied."""

    name: str
    scheme: str
    port: int
    options: Mapping[str, str]
    discovery_uri: str | None = None

    @property
    def tls(self) -> bool:
        return is_encrypted(self.scheme)

    def asks_for_certificate(self, release: Release) -> bool:
        """True where a client without one is refused, which TLS over NIO does not do in every release."""
        asked = any(self.options.get(option) == "true" for option in _CLIENT_AUTH)
        return asked and self.tls and (release.has_nio_client_auth or "nio" not in self.scheme)


@dataclass(frozen=True, slots=True)
class Link:
    """One networkConnector of a broker.

    ``target`` is a pair, a broker's HOST (``activemq_ha: none``), or for multicast the group.
    ``addresses`` are what it dials, preferred master first, and empty for multicast.
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
    exclude: tuple[str, ...] = ()
    destination_filter: str | None = None
    """For a duplex link whose far end reads the filter in its own way; None: the release's default."""

    def to_dict(self) -> dict[str, Any]:
        """As in fleet.json."""
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
            "exclude": list(self.exclude),
        }


@dataclass(frozen=True, slots=True)
class Account:
    """Who may connect to a broker. ``variable`` is where the password was set."""

    name: str
    variable: str
    password: SecretStr | EncryptedValue | None
    groups: tuple[str, ...]
    key: str
    """The property that activemq.xml refers to, ``activemq.user.NAME.password``."""


@dataclass(frozen=True, slots=True)
class Permission:
    """One authorizationEntry: names of groups."""

    kind: Literal["queue", "topic"]
    destination: str
    read: tuple[str, ...]
    write: tuple[str, ...]
    admin: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """One broker. ``ports`` maps connectors' names, ``console`` and ``replication`` to ports."""

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
    """Where the other node's OpenWire connector listens (of a pure slave's master: replication)."""
    links: tuple[Link, ...] = ()
    networked: bool = False
    """True where bridges to other pairs begin or end here."""
    accounts: tuple[Account, ...] = ()
    permissions: tuple[Permission, ...] = ()

    @property
    def group(self) -> str:
        return self.identity.group

    @property
    def pair(self) -> str:
        return self.identity.pair

    @property
    def role(self) -> Role:
        """The preferred role."""
        return self.identity.role

    @property
    def profile(self) -> Profile:
        """How its pair's nodes stand in for each other."""
        return self.settings.profile

    @property
    def is_replication_slave(self) -> bool:
        """True for a slave to which its master replicates: it opens no connector, not even once promoted."""
        return self.profile.replicates and self.role == "slave"

    @property
    def shared_directory(self) -> str | None:
        """The directory of the store that both nodes use; None where there is none, or it is a database."""
        return self.store_directory if self.profile.shares_store_directory else None

    @property
    def unit(self) -> str:
        """What the network sees as one: the pair, or where it has no peer the single broker."""
        return self.identity.pair if self.profile.has_peer else self.identity.host

    @property
    def openwire(self) -> Connector | None:
        """The connector that bridges and Java clients dial; a pure slave has none."""
        return next((c for c in self.connectors if is_openwire(c.scheme)), None)

    def connector(self, protocol: str) -> Connector | None:
        """The first connector of a protocol: ``mqtt``, ``stomp``, ``amqp``, ``ws``."""
        return next((c for c in self.connectors if protocol_of(c.scheme) == protocol), None)

    def joined(
        self,
        links: tuple[Link, ...],
        accounts: tuple[Account, ...],
        permissions: tuple[Permission, ...],
        *,
        networked: bool,
    ) -> Broker:
        """The broker as its network makes it: said by name, which takes half the time of ``dataclasses.replace``."""
        return Broker(
            host=self.host,
            identity=self.identity,
            settings=self.settings,
            release=self.release,
            address=self.address,
            broker_name=self.broker_name,
            store_directory=self.store_directory,
            ports=self.ports,
            connectors=self.connectors,
            peer=self.peer,
            peer_address=self.peer_address,
            links=links,
            networked=networked,
            accounts=accounts,
            permissions=permissions,
        )

    def to_dict(self) -> dict[str, Any]:
        """As in fleet.json."""
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


@dataclass(frozen=True, slots=True)
class Pair:
    """The two brokers that stand in for each other; one where the other is missing or ``none``."""

    name: str
    group: str
    brokers: tuple[Broker, ...]

    @property
    def preferred_master(self) -> Broker:
        return next((b for b in self.brokers if b.role == "master"), self.brokers[0])

    @property
    def in_order(self) -> tuple[Broker, ...]:
        """Preferred master first, as clients and bridges try them."""
        return tuple(sorted(self.brokers, key=lambda b: (b.role != "master", b.identity.node)))


@dataclass(frozen=True, slots=True)
class Group:
    """All pairs that share a name and form one network of brokers."""

    name: str
    pairs: tuple[Pair, ...]

    @property
    def brokers(self) -> tuple[Broker, ...]:
        return tuple(broker for pair in self.pairs for broker in pair.brokers)


@dataclass(frozen=True, slots=True)
class Agent:
    """A host in ``activemq_agents`` and its home pair; ``urls`` preferred master first."""

    host: str
    settings: Settings
    group: str
    pair: str
    urls: tuple[Address, ...]
    tls: bool = False
    java_urls: tuple[Address, ...] = ()
    java_schemes: tuple[str, ...] = ()
    """The scheme of each of ``java_urls``, which may listen with TLS where MQTT does not, and the other way round."""


@dataclass(frozen=True, slots=True)
class Server:
    """One broker behind a front end; ``limit`` is how many clients may be there at once, None for any number.

    ``name_in_certificate`` is the host name that its certificate must have.
    """

    name: str
    address: Address
    limit: int | None
    name_in_certificate: str


@dataclass(frozen=True, slots=True)
class Backend:
    """Brokers of which any may serve the same client: a pair, one broker, or all masters of a ``pure`` group."""

    name: str
    servers: tuple[Server, ...]


@dataclass(frozen=True, slots=True)
class Front:
    """One port of a virtual address: a connector of the group's brokers.

    ``greets`` is True where the broker speaks first. Of several backends a client always meets
    the same one, by its MQTT client id or its address.
    """

    connector: str
    protocol: str
    port: int
    tls: bool
    greets: bool
    backends: tuple[Backend, ...]


@dataclass(frozen=True, slots=True)
class VirtualAddress:
    """The address of one group, as one balancer holds it or waits for it.

    ``source`` and ``peers`` are what VRRP sends from and to; None and none where the balancers are
    known by name only, and then it is multicast. ``masters_only``: slaves of the group take no clients.
    """

    group: str
    address: str
    interface: str | None
    router_id: int
    priority: int
    source: str | None
    peers: tuple[str, ...]
    masters_only: bool
    fronts: tuple[Front, ...]


@dataclass(frozen=True, slots=True)
class Balancer:
    """A host in ``activemq_loadbalancers`` and the groups' addresses that it stands in for."""

    host: str
    settings: Settings
    addresses: tuple[VirtualAddress, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As in fleet.json."""
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
    """The groups of the whole inventory: the first names in order, and how many there are."""

    first: tuple[str, ...]
    number: int

    @classmethod
    def of(cls, names: Sequence[str]) -> KnownGroups:
        """From all names, in order."""
        return cls(tuple(names[:MOST_LISTED]), len(names))

    @property
    def text(self) -> str:
        """As a finding lists them."""
        more = f" and {self.number - len(self.first)} more" if self.number > len(self.first) else ""
        return f"{', '.join(self.first)}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """What a part of an inventory has to know of all of it, for its fleet to be that part of the whole.

    A part has whole groups, and every group that a link, an agent or an address joins to one of
    them. ``links`` are those that concern it, each with the first host that says so and its
    position there, in the order of the whole; ends that nobody is are told in ``findings``. ``waivers``
    are all that have not expired. ``stores`` name the unit that is first to use a store of
    ``lint.fleet_stores``, where that is used more than once.
    """

    groups: KnownGroups
    links: tuple[tuple[LinkSettings, str, int], ...] = ()
    waivers: tuple[WaiverSettings, ...] = ()
    stores: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Fleet:
    """The whole inventory, computed once. ``brokers`` are sorted by inventory name.

    ``rest`` is there when this is a part of a larger one.
    """

    brokers: tuple[Broker, ...]
    groups: tuple[Group, ...]
    agents: tuple[Agent, ...] = ()
    balancers: tuple[Balancer, ...] = ()
    findings: tuple[Finding, ...] = ()
    waivers: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = field(default=(), compare=False)
    naming_pattern: str = DEFAULT_PATTERN
    rest: Rest | None = field(default=None, compare=False)

    @cached_property
    def _by_host(self) -> dict[str, Broker]:
        return {broker.host: broker for broker in self.brokers}

    @cached_property
    def pairs(self) -> dict[str, Pair]:
        """Pairs by name."""
        return {pair.name: pair for group in self.groups for pair in group.pairs}

    def broker(self, host: str) -> Broker:
        """A broker by inventory name, or by its first label where that is one host's only.

        Raises InputError for a name that is no broker's.
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
        """The error findings that nothing waives."""
        return tuple(finding for finding in self.findings if finding.blocks)
