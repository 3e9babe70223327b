"""Find the hosts to which addresses in files refer, and propose their addresses and preferred masters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from activemq_fleet.adopt.network_connectors import ReplaceableBridge, replaceable_bridges
from activemq_fleet.adopt.profiles import pure_master_address
from activemq_fleet.adopt.proposal import ProposedVariablesByHost
from activemq_fleet.adopt.sources import AdoptedDocument
from activemq_fleet.topology import Broker
from activemq_fleet.topology.brokers_by_address import BrokersByAddress, HostsByName
from activemq_fleet.uris import is_openwire

_LOCAL_ADDRESSES = ("0.0.0.0", "::", "127.0.0.1", "localhost", "::1")  # noqa: S104 -- these do not identify a host


def propose_preferred_master_per_pair(proposal: ProposedVariablesByHost, known_addresses: Mapping[str, str]) -> None:
    """Propose the preferred master (``activemq_master_node``) of each broker pair that shares a store.

    The preferred master is the node that its file marks as preferred,
    otherwise the first target of most bridges of other brokers. ``known_addresses`` are the addresses of hosts that no
    name shows.
    """
    names = _hosts_by_name(proposal.documents)
    hosts_by_address = defaultdict[str, list[str]](list)
    for host, address in known_addresses.items():
        hosts_by_address[address].append(host)
    owner_by_address = {address: hosts[0] for address, hosts in hosts_by_address.items() if len(hosts) == 1}
    first_target_counts: Counter[str] = Counter()
    for document in proposal.documents:
        for bridge in replaceable_bridges(document):
            owners = [owner_by_address.get(host) or _only_host(names, host) or "" for host, _ in bridge.addresses]
            if len(set(owners)) == 2:
                first_target_counts[owners[0]] += 1
    for documents in proposal.existing_activemq_xml_by_pair().values():
        if not proposal.proposed_ha_profile(documents[0].host).shares_store:
            continue
        preferred_documents = [document for document in documents if document.preferred]
        # The nodes of a pair are sorted, so the first of equal nodes is chosen.
        first_target = max(documents, key=lambda d: (first_target_counts[d.host], d.identity.role == "master"))
        preferred_node = (preferred_documents[0] if len(preferred_documents) == 1 else first_target).identity.node
        for document in documents:
            proposal.propose_preferred_master_unless_default(document.host, preferred_node)


def propose_addresses_used_by_other_brokers(
    proposal: ProposedVariablesByHost, known_addresses: Mapping[str, str]
) -> None:
    """Propose ``activemq_address`` for each host that other brokers address by a name other than its inventory name.

    The addresses come from the network connectors of those brokers. ``known_addresses`` take precedence.
    """
    addresses_by_host: dict[str, Counter[str]] = defaultdict(Counter)
    for host, address in known_addresses.items():
        addresses_by_host[host][address] += 1
    names = _hosts_by_name(proposal.documents)
    bridges_to_unknown_hosts: list[tuple[ReplaceableBridge, AdoptedDocument]] = []
    for document in proposal.documents:
        for bridge in replaceable_bridges(document):
            owners = [_only_host(names, host) for host, _ in bridge.addresses]
            if None in owners:
                bridges_to_unknown_hosts.append((bridge, document))
            for owner, (host, _) in zip(owners, bridge.addresses, strict=True):
                if owner:
                    addresses_by_host[owner][host] += 1
    for owner, address in _addresses_on_one_machine(proposal, bridges_to_unknown_hosts):
        addresses_by_host[owner][address] += 1
    for owner, address in _master_addresses_of_slaves(proposal):
        addresses_by_host[owner][address] += 1
    for document in proposal.documents:
        bind = proposal[document.host].get("bind")
        if bind and bind not in _LOCAL_ADDRESSES and document.host not in addresses_by_host:
            addresses_by_host[document.host][bind] += 1
    for bridge, _ in bridges_to_unknown_hosts:
        for owner, address in _addresses_named_by_link(bridge, proposal):
            addresses_by_host[owner][address] += 1
    for owner, address_counts in addresses_by_host.items():
        address = known_addresses.get(owner) or address_counts.most_common(1)[0][0]
        if address != owner:
            proposal.propose_value_if_valid(owner, "address", address)


def _addresses_on_one_machine(
    proposal: ProposedVariablesByHost, bridges_to_unknown_hosts: Iterable[tuple[ReplaceableBridge, AdoptedDocument]]
) -> Iterator[tuple[str, str]]:
    """Yield (host, address) of brokers that share a machine.

    One of them connects to the other at its own loopback address.

    The result is empty if two of them would listen on the same port.
    """
    ports_by_host: dict[str, set[int]] = {}
    for document in proposal.documents:
        entries = proposal[document.host].get("connectors", [])
        offset = proposal[document.host].get("port_offset", 0)
        ports_by_host[document.host] = {entry["port"] + offset for entry in entries}
    address_by_host: dict[str, str] = {}
    for bridge, document in bridges_to_unknown_hosts:
        for host, port in bridge.addresses:
            owners = [name for name, ports in ports_by_host.items() if port in ports]
            if host.lower() in _LOCAL_ADDRESSES and len(owners) == 1 and owners != [document.host]:
                address_by_host |= {owners[0]: host, document.host: host}
    ports = [port for host in address_by_host for port in ports_by_host[host]]
    if len(set(address_by_host.values())) == 1 and len(ports) == len(set(ports)):
        yield from address_by_host.items()


def _master_addresses_of_slaves(proposal: ProposedVariablesByHost) -> Iterator[tuple[str, str]]:
    for documents in proposal.existing_activemq_xml_by_pair().values():
        if proposal.proposed_ha_profile(documents[0].host).replicates:
            for document, master in (documents, documents[::-1]):
                address = pure_master_address(document)
                if address and address[0] not in _LOCAL_ADDRESSES:
                    yield master.host, address[0]


def _addresses_named_by_link(bridge: ReplaceableBridge, proposal: ProposedVariablesByHost) -> Iterator[tuple[str, str]]:
    """Yield (host, address) for a bridge whose name ``X-to-Y`` names the target.

    Y is a pair or a host, and the ports match.
    """
    target = bridge.name.rpartition("-to-")[2]
    pair = proposal.existing_activemq_xml_by_pair().get(target) or [
        d for d in proposal.documents if d.identity.short_host_name == target
    ]
    preferred_nodes = {proposal[d.host].get("master_node", proposal.naming.preferred_node_mark) for d in pair}
    ordered_documents = sorted(pair, key=lambda d: (d.identity.node not in preferred_nodes, d.identity.node))
    ports = [_openwire_port(proposal[d.host]) for d in ordered_documents]
    if ports == [port for _, port in bridge.addresses]:
        for document, (host, _) in zip(ordered_documents, bridge.addresses, strict=True):
            yield document.host, host


def _openwire_port(variables: Mapping[str, object]) -> int | None:
    connectors = variables.get("connectors")
    offset = variables.get("port_offset", 0)
    for entry in connectors if isinstance(connectors, list) else ():
        if is_openwire(entry["scheme"]) and isinstance(offset, int):
            return int(entry["port"]) + offset
    return None


def _hosts_by_name(documents: Iterable[AdoptedDocument]) -> HostsByName[str]:
    return HostsByName((document.host, document.host) for document in documents)


def _only_host(names: HostsByName[str], name: str) -> str | None:
    """Return the only host that a name in a URI identifies; None if there is none, or more than one."""
    hosts = names.possible_hosts(name)
    return hosts[0] if len(hosts) == 1 else None


def broker_meant_by_address(brokers_by_address: BrokersByAddress, host: str, port: int) -> Broker | None:
    """Return the proposed broker to which a bridge with the address ``host`` and ``port`` connects.

    None is returned where no broker or several brokers match. The port only decides between brokers of one machine: the
    file of a single broker may lack the connector of the port, and the target of the bridge is that broker
    nevertheless.
    """
    brokers = brokers_by_address.brokers_named(host)
    if len(brokers) > 1:
        brokers = [b for b in brokers if any(c.port == port and is_openwire(c.scheme) for c in b.connectors)]
    return brokers[0] if len(brokers) == 1 else None
