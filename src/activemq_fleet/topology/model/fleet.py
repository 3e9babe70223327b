"""Define the data model of a fleet: its pairs, units, groups, agents, and facts about the whole inventory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from activemq_fleet.addresses import Address
from activemq_fleet.errors import InputError, names_to_text
from activemq_fleet.findings import Finding
from activemq_fleet.naming import DEFAULT_PATTERN, hosts_with_full_or_short_name
from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.profiles import HighAvailabilityProfile
from activemq_fleet.settings.connectors_and_links import LinkSettings
from activemq_fleet.settings.host_settings import HostSettings, WaiverSettings
from activemq_fleet.similar_names import most_similar_name
from activemq_fleet.topology.model.balancer import Balancer
from activemq_fleet.topology.model.broker import Broker, brokers_in_dialling_order

MAX_LISTED = 10
"""How many of the known names (such as groups) a finding lists for the user to choose from."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A pair of brokers, one of which takes over when the other one fails.

    It may be a single broker whose peer is not in the inventory.
    """

    name: str
    group: str
    brokers: tuple[Broker, ...]

    @property
    def preferred_master(self) -> Broker:
        """The preferred master of the pair: the broker that is meant to be active while both are up.

        It is the first broker whose role by its host name is master; the first broker where none is.
        """
        return next((b for b in self.brokers if b.role == "master"), self.brokers[0])

    @property
    def ha_profile(self) -> HighAvailabilityProfile:
        """The pair's high-availability profile: the one that ``activemq_ha`` of its preferred master names."""
        return self.preferred_master.ha_profile

    @property
    def brokers_in_dialling_order(self) -> tuple[Broker, ...]:
        """The brokers of the pair in the order in which clients and bridges connect to them, preferred master first."""
        return brokers_in_dialling_order(self.brokers)


@dataclass(frozen=True)
class PairOrSingleBroker:
    """An end of network links: a pair, or a broker without a peer.

    ``brokers`` are in the order of dialling, preferred master first.
    """

    name: str
    group: str
    brokers: tuple[Broker, ...]

    @cached_property
    def openwire_addresses_for_bridges(self) -> tuple[Address, ...]:
        """The OpenWire addresses of a pair, or of a single broker: where bridges connect to it.

        There is one for each broker that has an OpenWire connector.
        """
        return tuple((b.address, b.openwire.port) for b in self.brokers if b.openwire)

    @property
    def preferred_broker(self) -> Broker:
        """The preferred broker of a pair (its preferred master), or the single broker.

        It is active while all brokers of the link end are up.
        """
        return self.brokers[0]

    def active_broker_without(self, down_host: str | None) -> Broker | None:
        """Return the broker that is expected to be active while one host is down; None if no broker is left.

        ``down_host`` is the host that is down; None if all hosts are up.
        """
        if self.brokers[0].host != down_host:
            return self.brokers[0]
        return self.brokers[1] if len(self.brokers) > 1 else None


@dataclass(frozen=True, slots=True)
class Group:
    """A group of broker pairs (master and slave) that form one network of brokers.

    The pairs share the group's name.
    """

    name: str
    pairs: tuple[Pair, ...]

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """The brokers of all pairs of the group."""
        return tuple(broker for pair in self.pairs for broker in pair.brokers)


def groups_of(brokers: Iterable[Broker]) -> tuple[Group, ...]:
    """Return the groups to which the given brokers belong, with their pairs.

    Groups and pairs are sorted by name.
    """
    by_pair: dict[str, list[Broker]] = defaultdict(list)
    for broker in brokers:
        by_pair[broker.pair].append(broker)
    by_group: dict[str, list[Pair]] = defaultdict(list)
    for name, nodes in sorted(by_pair.items()):
        by_group[nodes[0].group].append(Pair(name, nodes[0].group, tuple(nodes)))
    return tuple(Group(name, tuple(pairs)) for name, pairs in sorted(by_group.items()))


def pair_and_single_broker_count_texts(brokers: Iterable[Broker]) -> list[str]:
    """Return the numbers of pairs and single brokers as a list of texts, such as ``["2 pairs", "1 single broker"]``."""
    has_peer = {broker.name_in_links: broker.ha_profile.has_peer for broker in brokers}
    pairs = sum(has_peer.values())
    numbers = {"pair": pairs, "single broker": len(has_peer) - pairs}
    return [count_with_noun(number, noun) for noun, number in numbers.items() if number]


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent: the failover agent that runs on a host in ``activemq_agents``.

    ``urls`` are the MQTT listeners of the brokers of its home pair, preferred master first; ``java_urls`` are the
    OpenWire listeners for Java clients.
    """

    host: str
    settings: HostSettings
    group: str
    pair: str
    urls: tuple[Address, ...]
    tls: bool = False
    java_urls: tuple[Address, ...] = ()
    java_schemes: tuple[str, ...] = ()
    """The scheme of each of ``java_urls``; OpenWire may listen with TLS where MQTT does not, and vice versa."""


class ShortenedGroupList(NamedTuple):
    """The names of an inventory's groups, as a finding lists them: the first few, and the number of all.

    ``first`` are the names that are listed; ``number`` is the number of all groups.
    """

    first: tuple[str, ...]
    number: int

    @classmethod
    def shorten_group_names(cls, group_names: Sequence[str]) -> ShortenedGroupList:
        """Return a shortened list of groups for a finding: the names of the first few, and the number of all.

        ``group_names`` are those of all groups, in order.
        """
        return cls(tuple(group_names[:MAX_LISTED]), len(group_names))

    @property
    def shortened_group_list_text(self) -> str:
        """The shortened list of group names as text, such as ``orders, stock and 3 more``."""
        more = f" and {self.number - len(self.first)} more" if self.number > len(self.first) else ""
        return f"{', '.join(self.first)}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeInventoryFacts:
    """The groups, links, waivers and findings of a whole inventory, for a fleet built from a part of it.

    So the part equals this part of the whole fleet. A part has whole groups, and every group that a link, an agent or
    an address joins to one of its groups. ``groups`` are those of the whole inventory. ``links`` are the entries of
    ``activemq_links`` that concern the part, each with the first host that has it and its position there, in the order
    of the whole. ``findings`` are those about links with an unknown end, ``waivers`` are all that have not expired.
    ``stores`` name the unit that is first to use a store of ``lint.fleet_stores``, for stores that are used more than
    once.
    """

    groups: ShortenedGroupList
    links: tuple[tuple[LinkSettings, str, int], ...] = ()
    waivers: tuple[WaiverSettings, ...] = ()
    stores: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True)
class Fleet:
    """A fleet: the brokers, agents, balancers and findings of an inventory.

    ``brokers`` are sorted by inventory name. ``warnings`` are texts about releases and expired waivers. ``rest`` is set
    when the fleet is a part of a larger one. ``unread`` are the hosts that may be meant as brokers, and whose names are
    not read as those of brokers. ``variables`` are the hosts' variables from which the fleet was built, by host; they
    contain secrets.
    """

    brokers: tuple[Broker, ...]
    agents: tuple[Agent, ...] = ()
    balancers: tuple[Balancer, ...] = ()
    findings: tuple[Finding, ...] = ()
    waivers: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = field(default=(), compare=False)
    naming_pattern: str = DEFAULT_PATTERN
    unread: tuple[str, ...] = field(default=(), compare=False)
    rest: WholeInventoryFacts | None = field(default=None, compare=False)
    variables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The groups of the fleet, sorted by name."""
        return groups_of(self.brokers)

    @cached_property
    def _by_host(self) -> dict[str, Broker]:
        return {broker.host: broker for broker in self.brokers}

    @cached_property
    def pairs_by_name(self) -> dict[str, Pair]:
        """The pairs of the fleet as a dictionary by name, in the order of groups and pairs."""
        return {pair.name: pair for group in self.groups for pair in group.pairs}

    def broker(self, host: str) -> Broker:
        """Return the broker of the fleet on a host; raise InputError if the name is not that of exactly one broker.

        The first label of the host name is sufficient where only one host has it.
        """
        if host in self._by_host:
            return self._by_host[host]
        short = hosts_with_full_or_short_name(host, self._by_host)
        if len(short) == 1:
            return self._by_host[short[0]]
        if host in self.pairs_by_name:
            brokers = names_to_text([broker.host for broker in self.pairs_by_name[host].brokers_in_dialling_order])
            raise InputError(f"{host} is a pair, not a broker: choose one of its brokers: {brokers}")
        if members := [broker.host for group in self.groups if group.name == host for broker in group.brokers]:
            raise InputError(f"{host} is a group, not a broker: choose one of its brokers: {names_to_text(members)}")
        if short:
            names = names_to_text(short)
            raise InputError(
                f"{host} is the part before the first dot in {len(short)} host names: write one of {names}"
            )
        near = most_similar_name(host, [*self._by_host, *(broker.identity.short_host_name for broker in self.brokers)])
        hint = f"did you mean {near}?" if near else "write the name of a broker as in the inventory"
        raise InputError(f"{host} is not a broker of this inventory: {hint}")

    @property
    def blocking_findings(self) -> tuple[Finding, ...]:
        """The findings that block rendering: errors that no waiver covers."""
        return tuple(finding for finding in self.findings if finding.blocks)
