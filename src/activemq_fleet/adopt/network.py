"""Turn the bridges of all files into variables: topology, ``activemq_links``, pair links, multicast.

A link replaces a bridge only if both nodes of a pair carry the bridge. Every other bridge stays as it is, in an XML
fragment.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from activemq_fleet.adopt.bridges import (
    Addresses,
    Bridge,
    Ttl,
    bridges_of,
    network_connectors,
)
from activemq_fleet.adopt.brokers import accounts, groups_of
from activemq_fleet.adopt.link_entries import AdoptedLink, Entry, entries_for
from activemq_fleet.adopt.multicast import propose_multicast
from activemq_fleet.adopt.profiles import master_connector
from activemq_fleet.adopt.proposal import Proposal
from activemq_fleet.adopt.sources import Document
from activemq_fleet.topology import Fleet, Link
from activemq_fleet.topology.access import NETWORK_GROUP

_SHAPES = ("mesh", "hub", "chain", "ring")
_NEW_USER = "network"


@dataclass
class _Found:
    """Bridges sorted by what replaces them: links between units, or links within a pair.

    ``raw`` holds, by (host, name), the reason why a bridge stays in an XML fragment.
    """

    carried: list[AdoptedLink] = field(default_factory=list)
    pair_links: dict[str, Bridge] = field(default_factory=dict)
    raw: dict[tuple[str, str], str] = field(default_factory=dict)


def propose_network(proposal: Proposal) -> None:
    """Propose topology, links and pair links of all brokers, and the account with which bridges log in."""
    new_user = _propose_user(proposal)
    found = _Found()
    multicast = propose_multicast(proposal)
    while True:
        base = proposal.fleet(topology="none", links=None, pair_links=None)
        _sort_bridges(proposal, base, found)
        _propose_links(proposal, base, found, multicast)
        unfit = _unfit(proposal, found)
        if not unfit:
            break
        found.raw |= unfit
    _tell(proposal, found, multicast)
    _withdraw_user(proposal)
    linked = [broker.host for broker in proposal.fleet().brokers if broker.links]
    if new_user and linked:
        proposal.note(
            linked,
            f"links without a login: the rendered ones log in as {_NEW_USER}, because rendered brokers ask for it",
        )


def _propose_user(proposal: Proposal) -> bool:
    """Propose ``activemq_network_username`` from the bridges' logins.

    Return True where bridges exist and neither they nor the accounts name a user, so that a new user was proposed.
    """
    names: Counter[str] = Counter()
    linked = False
    for document in proposal.documents:
        for node in [*network_connectors(document), *filter(None, [master_connector(document)])]:
            linked = True
            if node.get("userName"):
                names[node.get("userName")] += 1
    if not names:
        names.update(
            account.get("username")
            for document in proposal.documents
            for account in accounts(document)
            if NETWORK_GROUP in groups_of(account)
        )
    name = names.most_common(1)[0][0] if names else _NEW_USER
    if not (names or linked):
        return False
    values = Counter(_password(proposal.documents, name))
    value = values.most_common(1)[0][0] if values else ""
    secret = proposal.secrets.secret_for(name, value, f"password of the network user {name}")
    for document in proposal.documents:
        if proposal.set(document.host, "network_username", name):
            proposal[document.host]["network_password"] = secret
    return not names


def _password(documents: Iterable[Document], name: str) -> Iterable[str]:
    for document in documents:
        for node in network_connectors(document):
            if node.get("userName") == name:
                yield node.get("password")
        for account in accounts(document):
            if account.get("username") == name:
                yield account.get("password")


def _withdraw_user(proposal: Proposal) -> None:
    """Remove the network user from brokers that have neither links nor such an account in their file."""
    fleet = proposal.fleet()
    for document in proposal.documents:
        broker = fleet.broker(document.host)
        name = broker.settings.network_username
        needed = broker.networked or broker.links or broker.profile.replicates
        if not needed and name not in {account.get("username") for account in accounts(document)}:
            proposal[document.host].pop("network_username", None)
            proposal[document.host].pop("network_password", None)


def _sort_bridges(proposal: Proposal, base: Fleet, found: _Found) -> None:
    """Sort the bridges into links between units, links within a pair, and bridges that no link can replace."""
    addresses = Addresses(base, proposal.documents)
    by_unit: dict[str, list[Document]] = defaultdict(list)
    for document in proposal.documents:
        by_unit[base.broker(document.host).unit].append(document)
    found.carried, found.pair_links = [], {}
    for unit, documents in by_unit.items():
        connectors_by_name: dict[str, dict[str, tuple[Bridge, str]]] = defaultdict(dict)
        for document in documents:
            for bridge in bridges_of(document):
                if (document.host, bridge.name) not in found.raw:
                    target = _target(proposal, base, addresses, document, bridge, found)
                    if target:
                        connectors_by_name[bridge.name][document.host] = bridge, target
        for by_host in connectors_by_name.values():
            carried = _carried(proposal, unit, documents, by_host, found)
            if carried:
                found.carried.append(carried)
    _drop_single_pair_links(proposal, found)


def _target(
    proposal: Proposal, base: Fleet, addresses: Addresses, document: Document, bridge: Bridge, found: _Found
) -> str | None:
    """Return the unit that a bridge dials, or None with the reason recorded where no link can replace the bridge."""
    user = bridge.node.get("userName")
    key = document.host, bridge.name
    if user and user != proposal[document.host].get("network_username"):
        found.raw[key] = f"logs in as {user}, and the other bridges as another"
        return None
    owners = [addresses.owner(*address) for address in bridge.addresses]
    unknown = next((f"{h}:{p}" for (h, p), owner in zip(bridge.addresses, owners, strict=True) if not owner), None)
    if unknown:
        found.raw[key] = f"dials {unknown}, which is no broker of these files (--address HOST=ADDRESS says whose it is)"
        return None
    me = base.broker(document.host)
    units = {owner.unit for owner in owners if owner}
    if units == {me.unit}:
        peers = {owner.host for owner in owners if owner}
        label = me.peer.partition(".")[0] if me.peer else ""
        if peers == {me.peer} and bridge.name == f"{me.identity.host}-to-{label}" and bridge.ttl == 1:
            found.pair_links[document.host] = bridge
        else:
            found.raw[key] = "dials its own pair"
        return None
    if len(units) > 1:
        found.raw[key] = f"dials several pairs at once: {', '.join(sorted(units))}"
        return None
    return units.pop()


def _carried(
    proposal: Proposal,
    unit: str,
    documents: Sequence[Document],
    by_host: dict[str, tuple[Bridge, str]],
    found: _Found,
) -> AdoptedLink | None:
    """Return the link that replaces a unit's bridges of one name, or None where its brokers' bridges differ."""
    hosts = [document.host for document in documents]
    pure = proposal.profile(hosts[0]).replicates
    slaves = {document.host for document in documents if pure and master_connector(document)}
    first = next((by_host[host] for host in hosts if host in by_host and host not in slaves), None)
    same = first and all(
        host in by_host
        and by_host[host][1] == first[1]
        and by_host[host][0].ttl == first[0].ttl
        and by_host[host][0].include == first[0].include
        and by_host[host][0].exclude == first[0].exclude
        and by_host[host][0].duplex == (first[0].duplex and host not in slaves)
        for host in hosts
    )
    if not first or not same:
        for host, (bridge, _) in by_host.items():
            found.raw[host, bridge.name] = "is not the same on both nodes of the pair"
        return None
    bridge, target = first
    # One address says nothing of how a pair is dialled.
    kind = bridge.kind if len(bridge.addresses) > 1 else ""
    return AdoptedLink(
        unit, target, bridge.name, bridge.duplex, bridge.ttl, bridge.include, bridge.exclude, kind, tuple(hosts)
    )


def _drop_single_pair_links(proposal: Proposal, found: _Found) -> None:
    for documents in proposal.pairs().values():
        linked = [document.host for document in documents if document.host in found.pair_links]
        if len(linked) == 1:
            bridge = found.pair_links.pop(linked[0])
            found.raw[linked[0], bridge.name] = "is not the same on both nodes of the pair"


def _propose_links(proposal: Proposal, base: Fleet, found: _Found, multicast: set[str]) -> None:
    for document in proposal.documents:
        for name in ("topology", "links", "pair_links"):
            proposal[document.host].pop(name, None)
        if document.identity.group not in multicast:
            proposal[document.host].pop("network_ttl", None)
        if document.host in found.pair_links:
            proposal[document.host]["pair_links"] = "static"
    _propose_discovery(proposal, base, found, multicast)
    shaped = _propose_topology(proposal, base, found, multicast)
    rest = [link for link in found.carried if link not in shaped]
    entries, left = entries_for(rest, base)
    for link in left:
        for host in link.hosts:
            found.raw[host, link.name] = "is not carried by all brokers that activemq_links would give it to"
    _propose_ttl(proposal, found, entries, multicast)


def _set_entries(proposal: Proposal, entries: Sequence[Entry], with_ttl: Collection[Entry]) -> None:
    if entries:
        settings = [entry.to_setting(with_ttl=entry in with_ttl) for entry in entries]
        for document in proposal.documents:
            proposal[document.host]["links"] = settings


def _propose_discovery(proposal: Proposal, base: Fleet, found: _Found, multicast: set[str]) -> None:
    listening = Counter(broker.unit for broker in base.brokers if broker.openwire)
    kinds: dict[str, Counter[str]] = defaultdict(Counter)
    for link in found.carried:
        if link.kind and listening[link.target] > 1:
            kinds[base.broker(link.hosts[0]).group][link.kind] += 1
    for document in proposal.documents:
        group, release = document.identity.group, document.release
        if group in multicast:
            continue
        default = "masterslave" if release.has_masterslave_discovery else "failover"
        kind = kinds[group].most_common(1)[0][0] if kinds[group] else default
        if kind == default and not proposal.profile(document.host).default_discovery:
            proposal[document.host].pop("discovery", None)
        elif kind != "masterslave" or release.has_masterslave_discovery:
            proposal[document.host]["discovery"] = kind


def _propose_topology(proposal: Proposal, base: Fleet, found: _Found, multicast: set[str]) -> list[AdoptedLink]:
    """Propose each group's ``activemq_topology``, the shape that makes most of its links; return the links it makes."""
    plain = {
        (link.source, link.target, link.name, link.duplex): link
        for link in found.carried
        if not link.include and not link.exclude
    }
    fitting: dict[str, dict[str, list[AdoptedLink]]] = {group.name: {"none": []} for group in base.groups}
    for shape in _SHAPES:
        expected: dict[str, set[tuple[str, str, str, bool]]] = defaultdict(set)
        for broker in proposal.fleet(topology=shape, links=None, pair_links=None).brokers:
            if not broker.is_replication_slave:
                expected[broker.group] |= {
                    (broker.unit, link.target, link.name, link.duplex)
                    for link in broker.links
                    if link.kind != "multicast"
                }
        for group, links in fitting.items():
            if expected[group] <= plain.keys():
                links[shape] = [plain[key] for key in sorted(expected[group])]
    best = {group: max(len(links) for links in shapes.values()) for group, shapes in fitting.items()}
    open_to = {
        group: [shape for shape in (*_SHAPES, "none") if shape in shapes and len(shapes[shape]) == best[group]]
        for group, shapes in fitting.items()
    }
    common = [shape for shape in (*_SHAPES, "none") if all(shape in shapes for shapes in open_to.values())]
    for document in proposal.documents:
        shape = common[0] if common else open_to[document.identity.group][0]
        if shape != "mesh":
            proposal[document.host]["topology"] = shape
    chosen = {group: common[0] if common else shapes[0] for group, shapes in open_to.items()}
    return [link for group, shape in chosen.items() for link in fitting[group][shape]]


def _propose_ttl(proposal: Proposal, found: _Found, entries: Sequence[Entry], multicast: set[str]) -> None:
    """Propose the TTL of links where the default differs: for the fleet, for an entry of ``activemq_links``, for a
    host.
    """
    _set_entries(proposal, entries, ())
    wanted = {link.ttl for link in found.carried}
    if not (wrong := _wrong_ttl(proposal, found)):
        return
    if len(wanted) == 1 and "unlimited" not in wanted:
        for document in proposal.documents:
            if document.identity.group not in multicast:
                proposal[document.host]["network_ttl"] = next(iter(wanted))
        return
    rejected = {entry for entry in entries if any(link in wrong for link in entry.links)}
    _set_entries(proposal, entries, rejected)
    by_host: dict[str, set[Ttl]] = defaultdict(set)
    for link in _wrong_ttl(proposal, found):
        for host in link.hosts:
            by_host[host].add(link.ttl)
    for host, ttls in by_host.items():
        if len(ttls) == 1 and "unlimited" not in ttls:
            proposal[host]["network_ttl"] = ttls.pop()
    wrong = _wrong_ttl(proposal, found)
    _set_entries(
        proposal, entries, rejected | {entry for entry in entries if any(link in wrong for link in entry.links)}
    )


def _wrong_ttl(proposal: Proposal, found: _Found) -> list[AdoptedLink]:
    fleet = proposal.fleet()
    wrong = []
    for carried in found.carried:
        links = [link for host in carried.hosts for link in fleet.broker(host).links if link.name == carried.name]
        if any(ttl_of(link) != carried.ttl for link in links):
            wrong.append(carried)
    return wrong


def ttl_of(link: Link) -> Ttl:
    """Return the network TTL of a planned link: a number of brokers, or "unlimited"."""
    return "unlimited" if link.network_ttl is None else link.network_ttl


def _unfit(proposal: Proposal, found: _Found) -> dict[tuple[str, str], str]:
    """Return, by (host, name), why a proposed link would not equal its bridge, so that the bridge must stay."""
    fleet = proposal.fleet()
    unfit = {
        (host, link.name): "has a TTL that no link here would get"
        for link in _wrong_ttl(proposal, found)
        for host in link.hosts
    }
    for carried in found.carried:
        for host in carried.hosts:
            links = [link for link in fleet.broker(host).links if link.name == carried.name]
            if [link.target for link in links] != [carried.target] and (host, carried.name) not in found.raw:
                unfit[host, carried.name] = "would not be dialled by a link of this name"
    return unfit


def _tell(proposal: Proposal, found: _Found, multicast: set[str]) -> None:
    """Add a note for each bridge that stays in an XML fragment, with the reason."""
    reasons: dict[tuple[str, str], list[str]] = defaultdict(list)
    known = {(host, link.name) for link in found.carried for host in link.hosts}
    known |= {(host, bridge.name) for host, bridge in found.pair_links.items()}
    for document in proposal.documents:
        for node in network_connectors(document):
            name = node.get("name")
            is_multicast = document.identity.group in multicast and node.get("uri").startswith("multicast:")
            if ((document.host, name) in known and (document.host, name) not in found.raw) or is_multicast:
                continue
            reason = found.raw.get((document.host, name), "has a URI, a name or settings that no variable stands for")
            reasons[name or "without a name", reason].append(document.host)
    for (name, reason), hosts in reasons.items():
        proposal.note(hosts, f"bridge {name} {reason}: it stays as it is, in activemq_xml_fragments")
