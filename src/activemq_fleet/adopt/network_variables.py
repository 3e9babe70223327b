"""Convert the bridges of all files to variables: topology, ``activemq_links``, pair links, multicast.

A link replaces a bridge only if both nodes of a pair have the bridge. Every other bridge becomes an XML fragment,
without changes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

from activemq_fleet.addresses import host_name_without_domain
from activemq_fleet.adopt.host_addresses import broker_meant_by_address
from activemq_fleet.adopt.link_entries import AdoptedLink, LinkEntry, entries_and_leftover_links
from activemq_fleet.adopt.multicast import propose_multicast_for_groups
from activemq_fleet.adopt.network_connectors import (
    ReplaceableBridge,
    Ttl,
    allows_replay_over_bridges,
    link_ttl_setting,
    network_connector_elements,
    reason_for_inexpressible_connector,
    replaceable_bridges,
    ttl_as_number_or_mapping,
)
from activemq_fleet.adopt.network_user import NEW_USER, propose_network_user, withdraw_unneeded_network_users
from activemq_fleet.adopt.placeholders import unknown_bridge_target_hint
from activemq_fleet.adopt.profiles import kahadb_directory, master_connector_element
from activemq_fleet.adopt.proposal import ProposedVariablesByHost, is_default_value, is_valid_value, parse_yaml_scalar
from activemq_fleet.adopt.sources import AdoptedDocument
from activemq_fleet.settings.variable_types import option_text
from activemq_fleet.topology import Broker, Fleet, Link
from activemq_fleet.topology.brokers_by_address import BrokersByAddress

_TOPOLOGIES = ("mesh", "hub", "chain", "ring")
_UNEQUAL_BRIDGES = "the two nodes of the pair have different bridges with this name"
_INEXPRESSIBLE_TTL = "neither activemq_network_ttl nor the key ttl of activemq_links can set the TTL of this bridge"


def propose_network(proposal: ProposedVariablesByHost) -> None:
    """Propose the variables for the network of brokers (topology and links) from the existing bridges.

    The account with which bridges log in is proposed, too.
    """
    new_user = propose_network_user(proposal)
    _Network(proposal).propose_links_for_existing_bridges()
    withdraw_unneeded_network_users(proposal)
    linked_hosts = [
        broker.host
        for broker in proposal.build_proposed_fleet().brokers
        if broker.links and broker.settings.authentication != "none"
    ]
    if new_user and linked_hosts:
        proposal.add_note(
            linked_hosts,
            f"the original links have no user name, but rendered brokers require a login. The rendered links log in as "
            f"the user {NEW_USER}: no action is necessary",
        )


class _Network:
    """The bridges of all adopted files, by the link that replaces each.

    It is a link between units (pairs or single brokers), a link within a pair, or none.

    ``reasons`` maps (host, name) to the reason why a bridge stays in an XML fragment; ``multicast`` lists groups whose
    brokers discover each other; ``base`` is the proposed fleet without links.
    """

    def __init__(self, proposal: ProposedVariablesByHost) -> None:
        self.proposal = proposal
        self.multicast = propose_multicast_for_groups(proposal)
        self.reasons: dict[tuple[str, str], str] = {}
        self.outside_name_by_addresses: dict[tuple[tuple[str, int], ...], str] = {}
        self.outside_names: set[str] = set()
        self.outside_name_counts: Counter[str] = Counter()
        self.links: list[AdoptedLink] = []
        self.pair_links: dict[str, ReplaceableBridge] = {}
        self.base = self._fleet_without_links()
        self.reserved_names = {
            name for broker in self.base.brokers for name in (broker.group, broker.pair, broker.name_in_links)
        }

    def propose_links_for_existing_bridges(self) -> None:
        """Propose the variables of network links from which bridges equal to the existing ones are rendered.

        A note is added for each bridge that stays an XML fragment.
        """
        inexpressible: dict[tuple[str, str], str] | None = None
        while inexpressible is None or inexpressible:
            self._assign_bridges()
            self._propose_links()
            inexpressible = self._unequal_link_reasons()
            self.reasons |= inexpressible
        self._note_remaining_bridges()

    def _fleet_without_links(self, topology: str = "none") -> Fleet:
        return self.proposal.build_proposed_fleet(topology=topology, links=None, pair_links=None)

    def _documents_without_multicast(self) -> list[AdoptedDocument]:
        return [document for document in self.proposal.documents if document.identity.group not in self.multicast]

    def _assign_bridges(self) -> None:
        addresses = BrokersByAddress(self.base.brokers)
        by_unit: dict[str, list[AdoptedDocument]] = defaultdict(list)
        for document in self.proposal.documents:
            by_unit[self.base.broker(document.host).name_in_links].append(document)
        self.links, self.pair_links = [], {}
        for unit, documents in by_unit.items():
            by_name: dict[str, dict[str, tuple[ReplaceableBridge, str]]] = defaultdict(dict)
            for document in documents:
                for bridge in replaceable_bridges(document):
                    if (document.host, bridge.name) not in self.reasons:
                        target = self._target_unit(addresses, document, bridge)
                        if target:
                            by_name[bridge.name][document.host] = bridge, target
            for by_host in by_name.values():
                self._add_link(unit, documents, by_host)
        for documents in self.proposal.existing_activemq_xml_by_pair().values():
            linked_hosts = [document.host for document in documents if document.host in self.pair_links]
            if len(linked_hosts) == 1:
                self.reasons[linked_hosts[0], self.pair_links.pop(linked_hosts[0]).name] = _UNEQUAL_BRIDGES

    def _target_unit(
        self, addresses: BrokersByAddress, document: AdoptedDocument, bridge: ReplaceableBridge
    ) -> str | None:
        """Return the pair or broker to which a bridge connects; None if no link can replace the bridge.

        The reason for None is recorded in ``reasons``. A bridge to the peer that the variable ``activemq_pair_links``
        creates is recorded in ``pair_links``.
        """
        user = bridge.node.get("userName")
        owners = [broker_meant_by_address(addresses, *address) for address in bridge.addresses]
        brokers = [owner for owner in owners if owner]
        units = {broker.name_in_links for broker in brokers}
        source_broker = self.base.broker(document.host)
        if user and user != self.proposal[document.host].get("network_username"):
            reason = f"the bridge logs in as {user}, but activemq_network_username sets another account for all links"
        elif None in owners:
            host, port = bridge.addresses[owners.index(None)]
            address = f"{host.rpartition('@')[2]}:{port}"
            reason_with_targets = (
                f"the bridge connects to {address}, which is not an address of a broker in the given files"
            )
            return self._name_outside_target(document, bridge, reason_with_targets, unknown_bridge_target_hint(host))
        elif units == {source_broker.name_in_links}:
            if _is_pair_link(bridge, source_broker, brokers):
                self.pair_links[document.host] = bridge
                return None
            reason = "the bridge connects to its own pair, and is not the bridge that activemq_pair_links makes"
        elif len(units) > 1:
            reason_with_targets = f"the bridge connects to several pairs or single brokers: {', '.join(sorted(units))}"
            reason_with_targets += self._unknown_sharing_reason(brokers)
            return self._name_outside_target(document, bridge, reason_with_targets)
        else:
            return units.pop()
        self.reasons[document.host, bridge.name] = reason
        return None

    def _name_outside_target(
        self, document: AdoptedDocument, bridge: ReplaceableBridge, reason: str, remedy: str = "no action is necessary"
    ) -> str | None:
        """Return a name for a bridge's target outside of the inventory, and add a note with the ``reason``.

        ``remedy`` is an instruction for the operator.
        """
        if not is_valid_value("links", [{"from": "a", "to": "b", "addresses": bridge.target_addresses}]):
            self.reasons[document.host, bridge.name] = reason
            return None
        if bridge.addresses not in self.outside_name_by_addresses:
            host, port = bridge.addresses[0]
            label = host.replace(":", "-") if host[:1].isdigit() or ":" in host else host.partition(".")[0]
            name, numbered_label = label, f"{label}-{port}"
            while name in self.reserved_names or name in self.outside_names:
                number = self.outside_name_counts[numbered_label] = self.outside_name_counts[numbered_label] + 1
                name = numbered_label if number == 1 else f"{numbered_label}-{number}"
            self.outside_name_by_addresses[bridge.addresses] = name
            self.outside_names.add(name)
        self.proposal.add_note(
            [document.host],
            f"bridge {bridge.name}: {reason}. adopt wrote the target of this bridge into activemq_links as addresses "
            f"instead of a broker's name: {remedy}",
        )
        return self.outside_name_by_addresses[bridge.addresses]

    def _unknown_sharing_reason(self, brokers: Sequence[Broker]) -> str:
        """Return the reason why two nodes with the names of a pair are not proposed as a pair; otherwise "".

        It is unknown whether they share a store.
        """
        if len({broker.pair for broker in brokers}) > 1:
            return ""
        documents = [d for d in self.proposal.documents if d.host in {broker.host for broker in brokers}]
        stores = {path for d in documents if (path := kahadb_directory(d)) and not path.startswith("/")}
        path = f" (its path {' and '.join(sorted(stores))} is relative)" if stores else ""
        hosts = " and ".join(broker.host for broker in brokers)
        return (
            f". By their names, {hosts} are the pair {brokers[0].pair}, but no file shows that both share a store{path}"
        )

    def _add_link(
        self, unit: str, documents: Sequence[AdoptedDocument], by_host: dict[str, tuple[ReplaceableBridge, str]]
    ) -> None:
        """Add the link that replaces a unit's bridges of one name.

        A unit is a pair or a single broker. Where the bridges of its brokers differ, the reason is added.
        """
        hosts = [document.host for document in documents]
        is_pure = self.proposal.proposed_ha_profile(hosts[0]).replicates
        slaves = {document.host for document in documents if is_pure and master_connector_element(document)}
        first = next((by_host[host] for host in hosts if host in by_host and host not in slaves), None)
        if first and all(
            host in by_host
            and by_host[host][1] == first[1]
            and by_host[host][0].traffic_key == first[0].traffic_key
            and by_host[host][0].duplex == (first[0].duplex and host not in slaves)
            for host in hosts
        ):
            addresses = first[0].target_addresses if first[1] in self.outside_names else ()
            self.links.append(AdoptedLink(unit, first[1], first[0], tuple(hosts), tuple(addresses)))
        else:
            self.reasons |= {(host, bridge.name): _UNEQUAL_BRIDGES for host, (bridge, _) in by_host.items()}

    def _propose_links(self) -> None:
        for document in self.proposal.documents:
            for name in ("topology", "links", "pair_links"):
                self.proposal[document.host].pop(name, None)
            if document.host in self.pair_links:
                self.proposal[document.host]["pair_links"] = "static"
        for document in self._documents_without_multicast():
            for name in ("network_ttl", "network_attributes", "network_options"):
                self.proposal[document.host].pop(name, None)
        self._propose_attributes()
        self._propose_discovery()
        topology_links = set(self._propose_topology())
        entries, leftover_links = entries_and_leftover_links(
            [link for link in self.links if link not in topology_links], self.base
        )
        for link in leftover_links:
            for host in link.hosts:
                self.reasons[host, link.bridge.name] = (
                    "activemq_links would also add this bridge to brokers whose files do not have it"
                )
        self._propose_ttl(entries)

    def _propose_attributes(self) -> None:
        """Propose the attributes and URI options that all links have in common, as variables of all hosts."""
        bridges = [*(link.bridge for link in self.links), *self.pair_links.values()]
        if not bridges:
            return
        common = set(bridges[0].attributes).intersection(*(bridge.attributes for bridge in bridges))
        options = Counter(bridge.options for bridge in bridges).most_common(1)[0][0]
        for document in self._documents_without_multicast():
            variables = self.proposal[document.host]
            variables["network_attributes"] = {name: parse_yaml_scalar(text) for name, text in sorted(common)}
            variables["network_options"] = {name: parse_yaml_scalar(text) for name, text in options}
            for name in ("network_attributes", "network_options"):
                if is_default_value(name, tuple((key, option_text(text)) for key, text in variables[name].items())):
                    del variables[name]
        self.links = [
            replace(
                link,
                attributes=tuple(item for item in link.bridge.attributes if item not in common),
                options=None if link.bridge.options == options else link.bridge.options,
            )
            for link in self.links
        ]

    def _propose_discovery(self) -> None:
        openwire_counts = Counter(broker.name_in_links for broker in self.base.brokers if broker.openwire)
        kinds: dict[str, Counter[str]] = defaultdict(Counter)
        for link in self.links:
            # A single address does not show how a pair is addressed.
            if len(link.bridge.addresses) > 1 and (link.addresses or openwire_counts[link.target] > 1):
                kinds[self.base.broker(link.hosts[0]).group][link.bridge.kind] += 1
        for document in self._documents_without_multicast():
            group, release = document.identity.group, document.release
            default = "masterslave" if release.has_masterslave_discovery else "failover"
            kind = kinds[group].most_common(1)[0][0] if kinds[group] else default
            if kind == default and not self.proposal.proposed_ha_profile(document.host).default_discovery:
                self.proposal[document.host].pop("discovery", None)
            elif kind != "masterslave" or release.has_masterslave_discovery:
                self.proposal[document.host]["discovery"] = kind

    def _propose_topology(self) -> list[AdoptedLink]:
        """Propose for each group the ``activemq_topology`` that creates most of its links, and return those links."""
        default_links = {
            (link.source, link.target, link.bridge.name, link.bridge.duplex): link
            for link in self.links
            if link.has_default_options
        }
        links_by_topology: dict[str, dict[str, list[AdoptedLink]]] = {group.name: {} for group in self.base.groups}
        # A topology without links is still a network, whose policies have replay on every broker.
        groups_without_replay = {
            document.identity.group
            for document in self._documents_without_multicast()
            if not allows_replay_over_bridges(document)
        }
        groups_with_several_units = {
            group.name for group in self.base.groups if len({broker.name_in_links for broker in group.brokers}) > 1
        }
        for topology in _TOPOLOGIES:
            expected: dict[str, set[tuple[str, str, str, bool]]] = defaultdict(set)
            for broker in self._fleet_without_links(topology).brokers:
                if not broker.is_replication_slave:
                    expected[broker.group] |= {
                        (broker.name_in_links, link.target, link.name, link.duplex)
                        for link in broker.links
                        if link.kind != "multicast"
                    }
            for group, links in links_by_topology.items():
                if expected[group] <= default_links.keys() and (
                    expected[group] or group not in groups_with_several_units & groups_without_replay
                ):
                    links[topology] = [default_links[key] for key in sorted(expected[group])]
        best_topologies: dict[str, list[str]] = {}
        for group, links in links_by_topology.items():
            links["none"] = []
            most_links = max(map(len, links.values()))
            best_topologies[group] = [topology for topology in links if len(links[topology]) == most_links]
        # All groups get one topology if it is the best one for each group.
        common = [
            topology
            for topology in (*_TOPOLOGIES, "none")
            if all(topology in topologies for topologies in best_topologies.values())
        ]
        chosen = {group: (common or topologies)[0] for group, topologies in best_topologies.items()}
        for document in self.proposal.documents:
            if chosen[document.identity.group] != "mesh":
                self.proposal[document.host]["topology"] = chosen[document.identity.group]
        return [link for group, topology in chosen.items() for link in links_by_topology[group][topology]]

    def _propose_ttl(self, entries: Sequence[LinkEntry]) -> None:
        """Set the links, with TTLs that differ from the default.

        A TTL is set for the fleet, for an entry of ``activemq_links``, or for a host.
        """
        self._propose_link_entries(entries, ())
        links_with_wrong_ttl = self._links_with_wrong_ttl()
        if not links_with_wrong_ttl:
            return
        expected_ttls = {link.bridge.ttl for link in self.links}
        if len(expected_ttls) == 1:
            for document in self._documents_without_multicast():
                self.proposal[document.host]["network_ttl"] = ttl_as_number_or_mapping(next(iter(expected_ttls)))
            return
        self._propose_link_entries(entries, links_with_wrong_ttl)
        by_host: dict[str, set[Ttl]] = defaultdict(set)
        for link in self._links_with_wrong_ttl():
            for host in link.hosts:
                by_host[host].add(link.bridge.ttl)
        for host, ttls in by_host.items():
            if len(ttls) == 1:
                self.proposal[host]["network_ttl"] = ttl_as_number_or_mapping(ttls.pop())
        self._propose_link_entries(entries, [*links_with_wrong_ttl, *self._links_with_wrong_ttl()])

    def _propose_link_entries(self, entries: Sequence[LinkEntry], with_ttl: Collection[AdoptedLink]) -> None:
        """Propose the entries of ``activemq_links``; an entry has a TTL if it creates one of the links ``with_ttl``."""
        links_with_ttl = set(with_ttl)
        if entries:
            settings = [entry.to_links_entry(with_ttl=not links_with_ttl.isdisjoint(entry.links)) for entry in entries]
            for document in self.proposal.documents:
                self.proposal[document.host]["links"] = settings

    def _links_with_wrong_ttl(self) -> list[AdoptedLink]:
        links = self._links_by_name(self.proposal.build_proposed_fleet())
        return [
            adopted_link
            for adopted_link in self.links
            if any(
                link_ttl_setting(link) != adopted_link.bridge.ttl
                for host in adopted_link.hosts
                for link in links[host, adopted_link.bridge.name]
            )
        ]

    def _links_by_name(self, fleet: Fleet) -> dict[tuple[str, str], list[Link]]:
        """Return the links of a proposed fleet by (host, name)."""
        links: dict[tuple[str, str], list[Link]] = defaultdict(list)
        for broker in fleet.brokers:
            for link in broker.links:
                links[broker.host, link.name].append(link)
        return links

    def _unequal_link_reasons(self) -> dict[tuple[str, str], str]:
        """Return by (host, name) the reason why a proposed link differs from its bridge, so that the bridge stays."""
        links = self._links_by_name(self.proposal.build_proposed_fleet())
        inexpressible = {
            (host, link.bridge.name): _INEXPRESSIBLE_TTL for link in self._links_with_wrong_ttl() for host in link.hosts
        }
        for adopted_link in self.links:
            for host in adopted_link.hosts:
                key = host, adopted_link.bridge.name
                targets = [link.target for link in links[key]]
                if targets != [adopted_link.target] and key not in self.reasons:
                    inexpressible[key] = "a link with this name in activemq_links would connect to other brokers"
        return inexpressible

    def _note_remaining_bridges(self) -> None:
        replaced = {(host, link.bridge.name) for link in self.links for host in link.hosts}
        replaced |= {(host, bridge.name) for host, bridge in self.pair_links.items()}
        hosts_by_reason: dict[tuple[str, str], list[str]] = defaultdict(list)
        for document in self.proposal.documents:
            for node in network_connector_elements(document):
                key = document.host, node.get("name")
                is_multicast = document.identity.group in self.multicast and node.get("uri").startswith("multicast:")
                if (key in replaced and key not in self.reasons) or is_multicast:
                    continue
                reason = self.reasons.get(key) or reason_for_inexpressible_connector(node)
                hosts_by_reason[node.get("name") or "without a name", reason].append(document.host)
        for (name, reason), hosts in hosts_by_reason.items():
            self.proposal.add_note(
                dict.fromkeys(hosts),
                f"bridge {name}: {reason}. adopt keeps the XML of this bridge in activemq_xml_fragments: no action is "
                "necessary",
            )


def _is_pair_link(bridge: ReplaceableBridge, source_broker: Broker, target_brokers: Sequence[Broker]) -> bool:
    """Return whether a bridge is the one that ``activemq_pair_links`` creates from a broker to its peer."""
    peer = source_broker.peer
    label = host_name_without_domain(peer) if peer else ""
    has_default_name = bridge.name == f"{source_broker.identity.short_host_name}-to-{label}"
    return has_default_name and bridge.ttl == 1 and {broker.host for broker in target_brokers} == {peer}
