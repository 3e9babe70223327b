"""Build the explanation of a host by name: a broker, an agent, a balancer, or a host the findings refuse."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from activemq_fleet.addresses import host_name_without_domain
from activemq_fleet.errors import InputError
from activemq_fleet.explain.account_sections import (
    accounts_section,
    addresses_for_clients_section,
    agents_and_balancers_section,
)
from activemq_fleet.explain.agent_page import agent_explanation_title, agent_sections
from activemq_fleet.explain.balancer_page import balancer_sections
from activemq_fleet.explain.explanation import ExplanationSection, HostExplanation
from activemq_fleet.explain.finding_sections import findings_section
from activemq_fleet.explain.link_sections import incoming_links_section, outgoing_links_section
from activemq_fleet.explain.port_and_file_sections import files_section, ports_section
from activemq_fleet.explain.reachability_section import reachable_pairs_section
from activemq_fleet.explain.release_section import release_section
from activemq_fleet.explain.role_section import role_section
from activemq_fleet.explain.store_section import store_section
from activemq_fleet.explain.takeover_section import takeover_section
from activemq_fleet.naming import hosts_with_full_or_short_name
from activemq_fleet.render import render_activemq_xml_documents_by_host
from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.routes import Routes, routes_without_refused_links
from activemq_fleet.schema import XmlDocument
from activemq_fleet.similar_names import most_similar_name
from activemq_fleet.topology import Broker, Fleet
from activemq_fleet.validation import fleet_with_lint_findings


def explain_host(fleet: Fleet, host: str) -> HostExplanation:
    """Return the explanation of a host: what the host is, and why.

    The sections are role, release, ports, store, links, routes, takeover, accounts, files and findings. ``host`` is an
    inventory name, or its first label where only one host has it. The findings are those of ``check_fleet`` without
    those of the schemas. ``HostExplanation.section(name)`` returns one section,
    ``HostExplanation.to_dict()`` the whole page for JSON.

    Raises InputError for an unknown name, and SettingsError for settings that cannot be rendered.

    >>> from activemq_fleet import build_fleet, explain_host
    >>> variables = {"activemq_release": "5.18.3", "activemq_ha": "none"}
    >>> explanation = explain_host(build_fleet({"orders-mq01-a.example.com": variables}), "orders-mq01-a")
    >>> explanation.title
    'orders-mq01-a.example.com: a single broker in group orders, ActiveMQ 5.18.3'
    >>> [entry.text for entry in explanation.section("ports").entries if entry.label == "openwire"]
    ['61616 nio']
    """
    documents = render_activemq_xml_documents_by_host(fleet)
    checked = fleet_with_lint_findings(fleet, documents)
    return explain_host_by_name(checked, host, routes_without_refused_links(fleet, documents), documents)


def explain_host_by_name(
    fleet: Fleet, name: str, routes: Routes | None = None, documents: Mapping[str, XmlDocument] | None = None
) -> HostExplanation:
    """Return the explanation of the host with the given name.

    The name is an inventory name, or a first label that only this host has. With ``routes`` the page also shows which
    pairs the broker's messages reach. ``documents`` are the rendered activemq.xml by inventory name, where they exist
    already. Raises InputError for an unknown name, and suggests the nearest.
    """
    host = inventory_name_of(fleet, name)
    broker = next((b for b in fleet.brokers if b.host == host), None)
    agent = next((a for a in fleet.agents if a.host == host), None)
    balancer = next((b for b in fleet.balancers if b.host == host), None)
    kinds, titles = [], []
    sections: list[ExplanationSection] = []
    if broker:
        kinds.append("broker")
        titles.append(_broker_title(broker))
        document = documents[host] if documents else XmlDocument(render_activemq_xml_bytes(broker))
        sections += filter(None, _broker_sections(fleet, broker, document, routes))
    if agent:
        kinds.append("agent")
        titles.append(agent_explanation_title(agent))
        sections += agent_sections(fleet, agent)
    if balancer:
        kinds.append("balancer")
        titles.append("a load balancer")
        sections += balancer_sections(fleet, balancer)
    if not kinds:
        titles.append("nothing is deployed to this host, for the reason in the findings below")
    sections.append(findings_section(fleet, host, broker))
    return HostExplanation(host, tuple(kinds), f"{host}: {', and '.join(titles)}", tuple(sections))


def _broker_sections(
    fleet: Fleet, broker: Broker, document: XmlDocument, routes: Routes | None
) -> Iterator[ExplanationSection | None]:
    yield role_section(fleet, broker)
    yield release_section(fleet, broker)
    yield ports_section(fleet, broker)
    yield store_section(broker, document)
    yield outgoing_links_section(fleet, broker, document, routes)
    yield incoming_links_section(fleet, broker, routes)
    if routes:
        yield reachable_pairs_section(fleet, broker, routes)
    yield takeover_section(fleet, broker, document)
    yield addresses_for_clients_section(fleet, broker)
    yield agents_and_balancers_section(fleet, broker)
    yield accounts_section(fleet, broker)
    yield files_section(fleet, broker)


def _broker_title(broker: Broker) -> str:
    release = f"ActiveMQ {broker.release.text}"
    if not broker.ha_profile.has_peer:
        return f"a single broker in group {broker.group}, {release}"
    return f"preferred {broker.role} of pair {broker.pair} in group {broker.group}, {release}"


def inventory_name_of(fleet: Fleet, name: str) -> str:
    """Return the inventory name of the host that a name, or the first label of a name, identifies.

    No other host may have the same first label. Raises InputError for any other name, and suggests the nearest.
    """
    hosts: dict[str, None] = {}
    for host_owners in (fleet.brokers, fleet.agents, fleet.balancers, fleet.findings):
        hosts |= dict.fromkeys(owner.host for owner in host_owners if owner.host)
    matching_hosts = hosts_with_full_or_short_name(name, hosts)
    if len(matching_hosts) == 1:
        return matching_hosts[0]
    if matching_hosts:
        raise InputError(
            f"the host name {name} matches {len(matching_hosts)} hosts: use the full name of one of them, "
            f"{' or '.join(sorted(matching_hosts))}"
        )
    labels = {host_name_without_domain(host): host for host in hosts} | {host: host for host in hosts}
    suggestion = most_similar_name(name, labels)
    hint = (
        f"did you mean {labels[suggestion]}?"
        if suggestion
        else f"use a host such as {next(iter(hosts))}"
        if hosts
        else "the inventory has no hosts"
    )
    raise InputError(f"host {name} is not a broker, agent or load balancer of this inventory: {hint}")
