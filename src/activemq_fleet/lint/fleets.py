"""Run the file, release and fleet rules on a fleet: each distinct document once, the fleet as one graph.

The brokers of a fleet differ in names and addresses only, and no file rule looks inside those. Documents that are equal
but for their own names are therefore checked by all rules once. A finding without such a name is valid for every such
document, at that document's position; where a finding holds a name, the rules that fired check the document itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property, lru_cache

from activemq_fleet.dialling import Listeners
from activemq_fleet.findings import Finding
from activemq_fleet.lint.document import Document
from activemq_fleet.lint.engine import findings_of, rules
from activemq_fleet.lint.files import ACTIVEMQ_XML, ReleaseView, document_findings, release_findings
from activemq_fleet.lint.fingerprint import fingerprint, names_of, without_names
from activemq_fleet.lint.fleet_network_links import Bridges
from activemq_fleet.lint.selection import EVERY_RULE, Selection
from activemq_fleet.releases import Release
from activemq_fleet.routes.bridges import Network, RefusedConnector, changes_network_connectors, connectors_of_documents
from activemq_fleet.schema import UnreadableError
from activemq_fleet.topology import Broker, Fleet

_CONF = ACTIVEMQ_XML.rpartition("/")[0]
_CACHED_DOCUMENTS = 1 << 14
_Key = tuple[bytes, tuple[str, ...], Release, Selection]
_Shared = tuple[tuple[Finding, int | None], ...]
_cached_findings: dict[_Key, tuple[tuple[str, ...], _Shared | None]] = {}
"""By fingerprint: the rules that fired, and their findings where those are the same for all documents with it.

A finding is kept with the characters from its position to the end of the line where names before it move its column.
"""


class FleetView:
    """The input of lint rules about a whole fleet: the fleet, and each broker's rendered activemq.xml."""

    def __init__(self, fleet: Fleet, documents: Mapping[str, bytes]) -> None:
        self.fleet = fleet
        self._documents = documents
        self._parsed = lru_cache(maxsize=1024)(self._parse)

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """All brokers of the fleet that the lint rules check."""
        return self.fleet.brokers

    def document(self, broker: Broker) -> Document | None:
        """Return a broker's activemq.xml, parsed on first use; None for a file that is not XML."""
        return self._parsed(broker.host)

    def _parse(self, host: str) -> Document | None:
        broker = self.fleet.broker(host)
        try:
            return Document(self._documents[host], broker.release, broker, file=ACTIVEMQ_XML)
        except (KeyError, UnreadableError):
            return None

    @cached_property
    def changed_by_hand(self) -> tuple[Broker, ...]:
        """The brokers whose activemq.xml holds XML fragments or broker attributes that the user wrote."""
        return tuple(b for b in self.brokers if b.settings.xml_fragments or b.settings.broker_attributes)

    def user_documents_with_text(self, *texts: str) -> Iterator[tuple[Broker, Document]]:
        """Yield (broker, activemq.xml) of brokers whose file has user-written XML and contains any of ``texts``."""
        encoded = [text.encode() for text in texts]
        for broker in self.changed_by_hand:
            data = self._documents.get(broker.host, b"")
            document = self.document(broker) if any(text in data for text in encoded) else None
            if document:
                yield broker, document

    @cached_property
    def _by_address(self) -> dict[tuple[str, int], Broker]:
        return {(b.address, port): b for b in self.brokers for port in b.ports.values()}

    def broker_at(self, host: str, port: int) -> Broker | None:
        """Return the broker of the fleet that listens at ``host:port``, or None."""
        return self._by_address.get((host, port))

    @cached_property
    def units(self) -> dict[str, tuple[Broker, ...]]:
        """The brokers of each pair (or the single broker without a peer), by name of the pair or of the broker."""
        found: dict[str, list[Broker]] = {}
        for broker in self.brokers:
            found.setdefault(broker.unit, []).append(broker)
        return {name: tuple(brokers) for name, brokers in found.items()}

    @cached_property
    def bridges(self) -> Bridges:
        """The bridges of the fleet, and the graph that they form between pairs."""
        return Bridges(self)

    @cached_property
    def listeners(self) -> Listeners:
        """The lookup of the fleet's connectors by host and port."""
        return Listeners(self.brokers)

    @cached_property
    def refused_links(self) -> tuple[RefusedConnector, ...]:
        """The links that the broker they dial refuses, or may refuse."""
        touched = {
            b.host: self._documents[b.host] for b in self.brokers if changes_network_connectors(b) and self.document(b)
        }
        if not touched and not any(connector.tls for b in self.brokers for connector in b.connectors):
            return ()
        return tuple(Network(self.fleet, connectors_of_documents(self.fleet, touched), as_planned=True).refused)


def fleet_findings(
    fleet: Fleet, documents: Mapping[str, bytes], selection: Selection = EVERY_RULE
) -> tuple[Finding, ...]:
    """Return all lint findings about a fleet; ``documents`` are the brokers' activemq.xml by inventory name.

    A file that is not XML is passed over: the schema check reports it.
    """
    found: list[Finding] = []
    for broker in fleet.brokers:
        release = ReleaseView(broker.release, from_package=broker.settings.install == "package")
        found += _findings_of_document(broker, documents[broker.host], selection)
        found += release_findings(release, selection, host=broker.host)
    view = FleetView(fleet, documents)
    releases = {broker.host: broker.release for broker in fleet.brokers}
    for one in rules("fleet"):
        if selection.includes(one.id):
            problems = findings_of(one, one.check(view))
            found += [f for f in problems if f.host not in releases or one.applies_to(releases[f.host])]
    return tuple(found)


def _findings_of_document(broker: Broker, data: bytes, selection: Selection) -> tuple[Finding, ...]:
    key = fingerprint(broker, data), _not_in_the_document(broker), broker.release, selection
    if key not in _cached_findings:
        found = document_findings_of(broker, data, selection)
        if len(_cached_findings) >= _CACHED_DOCUMENTS:
            _cached_findings.clear()
        _cached_findings[key] = tuple(sorted({one.rule for one in found})), _shared(broker, data, found)
        return found
    fired_rules, shared = _cached_findings[key]
    if shared is None:
        return document_findings_of(broker, data, Selection(fired_rules))
    lines = data.split(b"\n") if shared else []
    found = ()
    for one, rest in shared:
        column = one.column if rest is None else len(lines[(one.line or 1) - 1].decode()) - rest + 1
        found += (replace(one, host=broker.host, column=column),)
    return found


def _shared(broker: Broker, data: bytes, found: tuple[Finding, ...]) -> _Shared | None:
    """Return the findings in the form for all documents of one fingerprint; None where one of them holds a name."""
    shared: list[tuple[Finding, int | None]] = []
    names = [*names_of(broker), broker.group]
    lines, unnamed = data.split(b"\n"), without_names(broker, data).split(b"\n") if found else []
    for finding in found:
        text = f"{finding.message}\n{finding.fix}\n{finding.why}"
        if finding.file != ACTIVEMQ_XML or not finding.line or any(name in text for name in names):
            return None
        begin = (finding.column or 1) - 1
        rest = lines[finding.line - 1].decode()[begin:]
        line = unnamed[finding.line - 1].decode()
        if "\0" not in line[: begin + 1]:
            shared.append((finding, None))
        elif rest and line.endswith(rest):
            shared.append((finding, len(rest)))
        else:  # names on both sides
            return None
    return tuple(shared)


def _not_in_the_document(broker: Broker) -> tuple[str, ...]:
    """Return the settings that file rules read in addition to the document."""
    settings = broker.settings
    own = (text for file in settings.extra_files for text in (file.path, file.content))
    options = settings.java_options if any("${" in fragment.xml for fragment in settings.xml_fragments) else ()
    return settings.ha, settings.console_bind, settings.heap, settings.service, *options, *own


def document_findings_of(broker: Broker, data: bytes, selection: Selection = EVERY_RULE) -> tuple[Finding, ...]:
    """Return the findings of the file rules about one broker's activemq.xml, without a cache."""
    extra = ((file.path.rpartition("/"), file.content.encode()) for file in broker.settings.extra_files)
    beside = {name: content for (directory, _, name), content in extra if directory == _CONF}
    try:
        document = Document(data, broker.release, broker, other_files=beside)
    except UnreadableError:
        return ()
    return tuple(document_findings(document, ACTIVEMQ_XML, selection))
