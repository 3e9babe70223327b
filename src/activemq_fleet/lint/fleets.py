"""Run the file, release and fleet rules on a fleet: each document alone, then the fleet as one graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial

from activemq_fleet.findings import Finding
from activemq_fleet.lint.deployed_links import FleetBridges
from activemq_fleet.lint.document import Document
from activemq_fleet.lint.engine import findings_from_problems, rules_of_scope
from activemq_fleet.lint.files import InstalledReleaseFacts, document_findings, installed_release_findings
from activemq_fleet.lint.selection import EVERY_RULE, RuleSelection
from activemq_fleet.node.host_paths import ACTIVEMQ_XML
from activemq_fleet.routes.bridges import (
    ConnectorPeerLookup,
    FleetNetworkConnectors,
    NetworkConnectorRefusedByTarget,
    has_network_connector_fragments,
    network_connectors_of_brokers_with_fragments,
)
from activemq_fleet.schema import UnreadableXmlError, XmlDocument
from activemq_fleet.topology import Broker, Fleet
from activemq_fleet.topology.brokers_by_address import BrokersByAddress

_CONF_DIRECTORY = ACTIVEMQ_XML.rpartition("/")[0] + "/"
_CACHED_DOCUMENTS = 1024
"""The number of parsed documents that the fleet rules cache; only brokers with user-written XML have one."""


class FleetView:
    """The fleet that a fleet lint rule checks, with each broker's rendered activemq.xml."""

    def __init__(self, fleet: Fleet, documents: Mapping[str, XmlDocument]) -> None:
        self.fleet = fleet
        self.documents = documents
        # A cache of a bound method would refer to this view, which only Python's garbage collector could then free.
        self._parse_cached = lru_cache(maxsize=_CACHED_DOCUMENTS)(partial(_parse_document, fleet, documents))

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """All brokers of a fleet, which lint rules check."""
        return self.fleet.brokers

    def broker_document(self, broker: Broker) -> Document | None:
        """Return the parsed activemq.xml of a broker.

        The file is parsed on first use. The result is None for a file that is not XML.
        """
        return self._parse_cached(broker.host)

    def cache_parsed_document(self, broker: Broker) -> None:
        """Parse a broker's rendered activemq.xml, and cache the parsed document in this FleetView.

        A caller that discards the file's XML tree calls this method before, so that the file is not parsed again. The
        lint rules about whole fleets and the routes use the cached document, with its networkConnectors where the
        user's XML fragments define some.
        """
        if self.broker_document(broker) and has_network_connector_fragments(broker):
            self.documents[broker.host].network_connectors  # noqa: B018 -- cached

    @cached_property
    def brokers_with_user_xml(self) -> tuple[Broker, ...]:
        """The brokers whose activemq.xml holds XML fragments or broker attributes that the user wrote."""
        return tuple(filter(_has_user_xml, self.brokers))

    def brokers_and_user_documents_containing(self, texts: Sequence[str]) -> Iterator[tuple[Broker, Document]]:
        """Yield (broker, document) for each activemq.xml with user-written XML and at least one of the given texts.

        The text may be anywhere in the file, also outside the user's XML.
        """
        encoded = [text.encode() for text in texts]
        for broker in self.brokers_with_user_xml:
            source = self.documents.get(broker.host)
            if (
                source
                and any(text in source.content for text in encoded)
                and (document := self.broker_document(broker))
            ):
                yield broker, document

    @cached_property
    def brokers_by_pair(self) -> dict[str, tuple[Broker, ...]]:
        """The brokers of each pair, by name of the pair.

        A single broker without a peer is listed under its own name.
        """
        members: dict[str, list[Broker]] = {}
        for broker in self.brokers:
            members.setdefault(broker.name_in_links, []).append(broker)
        return {name: tuple(brokers) for name, brokers in members.items()}

    @cached_property
    def pair_bridge_graph(self) -> FleetBridges:
        """The network bridges of the fleet as a graph between pairs."""
        connector_peers = ConnectorPeerLookup(self.brokers, self.brokers_by_address)
        return FleetBridges(self.brokers_by_pair, self.broker_document, connector_peers)

    @cached_property
    def brokers_by_address(self) -> BrokersByAddress:
        """The lookup that finds a fleet's broker, and its listening connector, by host and port."""
        return BrokersByAddress(self.brokers)

    @cached_property
    def refused_links(self) -> tuple[NetworkConnectorRefusedByTarget, ...]:
        """The network links that their target broker refuses or may refuse."""
        documents_with_fragments = {
            b.host: self.documents[b.host]
            for b in self.brokers
            if has_network_connector_fragments(b) and self.broker_document(b)
        }
        # T008, T009 and T014 report the links to pairs of the inventory that are refused for other reasons than TLS.
        may_be_refused = (
            documents_with_fragments
            or any(connector.uses_tls for b in self.brokers for connector in b.connectors)
            or any(link.target not in self.brokers_by_pair for b in self.brokers for link in b.links)
        )
        if not may_be_refused:
            return ()
        return tuple(
            FleetNetworkConnectors(
                self.fleet,
                network_connectors_of_brokers_with_fragments(self.fleet, documents_with_fragments),
                as_planned=True,
            ).refused
        )


def _parse_document(fleet: Fleet, documents: Mapping[str, XmlDocument], host: str) -> Document | None:
    broker = fleet.broker(host)
    try:
        return Document(documents[host], broker.release, broker, file=ACTIVEMQ_XML)
    except (KeyError, UnreadableXmlError):
        return None


def _has_user_xml(broker: Broker) -> bool:
    return bool(broker.settings.xml_fragments or broker.settings.broker_attributes)


def fleet_findings(
    fleet: Fleet, documents: Mapping[str, XmlDocument], selection: RuleSelection = EVERY_RULE
) -> tuple[Finding, ...]:
    """Return the findings of the rules in ``selection`` about a fleet and the rendered activemq.xml of its brokers.

    ``documents`` are these files by inventory name. A file that is not XML is skipped, because the schema check reports
    it. The XML trees of the documents are discarded.
    """
    view = FleetView(fleet, documents)
    findings: list[Finding] = []
    for broker in fleet.brokers:
        findings += file_and_release_findings_of_broker(view, broker, selection)
        documents[broker.host].discard_parsed_tree()
    return (*findings, *whole_fleet_findings(view, selection))


def file_and_release_findings_of_broker(
    view: FleetView, broker: Broker, selection: RuleSelection = EVERY_RULE
) -> tuple[Finding, ...]:
    """Return the lint findings about one broker: those about its activemq.xml and its release, but not about the fleet.

    The file rules check the broker's activemq.xml (``broker_activemq_xml_findings``), the release rules its ActiveMQ
    release.
    """
    release_facts = InstalledReleaseFacts(broker.release, from_package=broker.settings.install == "package")
    by_file = broker_activemq_xml_findings(broker, view.documents[broker.host], selection)
    if _has_user_xml(broker):
        view.cache_parsed_document(broker)
    return (*by_file, *installed_release_findings(release_facts, selection, host=broker.host))


def whole_fleet_findings(view: FleetView, selection: RuleSelection = EVERY_RULE) -> tuple[Finding, ...]:
    """Return the findings of the lint rules that check a fleet as a whole."""
    releases = {broker.host: broker.release for broker in view.brokers}
    findings: list[Finding] = []
    for rule in rules_of_scope("fleet"):
        if selection.includes_rule(rule.id):
            by_rule = findings_from_problems(rule, rule.check(view))
            findings += [f for f in by_rule if f.host not in releases or rule.applies_to(releases[f.host])]
    return tuple(findings)


def broker_activemq_xml_findings(
    broker: Broker, source: XmlDocument, selection: RuleSelection = EVERY_RULE
) -> tuple[Finding, ...]:
    """Return the findings of the file lint rules about one broker's activemq.xml."""
    sibling_files = {
        file.path.removeprefix(_CONF_DIRECTORY): file.content.encode()
        for file in broker.settings.extra_files
        if file.path.startswith(_CONF_DIRECTORY)
    }
    try:
        document = Document(source, broker.release, broker, other_files=sibling_files)
    except UnreadableXmlError:
        return ()
    findings = tuple(document_findings(document, ACTIVEMQ_XML, selection))
    document.discard_parsed_content()
    return findings
