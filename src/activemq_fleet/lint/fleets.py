"""Run the file, release and fleet rules on a fleet: each distinct document once, the fleet as one graph.

The brokers of a fleet differ in names and addresses only, and no file rule looks inside those. Documents that are equal
but for their own names are therefore checked by all rules once. A finding without such a name is valid for every such
document, at that document's position; where a finding holds a name, the rules that fired check the document itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from activemq_fleet.findings import Finding
from activemq_fleet.lint.document import Document, Problem
from activemq_fleet.lint.engine import ALWAYS
from activemq_fleet.lint.files import ACTIVEMQ_XML, document_findings
from activemq_fleet.lint.fingerprint import fingerprint, names_of, without_names
from activemq_fleet.lint.problems import findings_of
from activemq_fleet.lint.releases import ReleaseView, release_findings
from activemq_fleet.lint.selection import Selection
from activemq_fleet.lint.table import rules
from activemq_fleet.schema import UnreadableError

if TYPE_CHECKING:
    # `check --file` comes by here, and does without the weight of the topology
    from activemq_fleet.dialling import Listeners
    from activemq_fleet.releases import Release
    from activemq_fleet.routes.bridges import Refused
    from activemq_fleet.topology import Broker, Fleet, Link

_EVERY_RULE = Selection()
_CACHED_DOCUMENTS = 1 << 14
_cached_findings: dict[tuple[bytes, tuple[str, ...], Release, Selection], _CachedFindings] = {}


class FleetView:
    """The subject of fleet rules: the fleet, and each broker's rendered document."""

    def __init__(self, fleet: Fleet, documents: Mapping[str, bytes]) -> None:
        self.fleet = fleet
        self._documents = documents

    @property
    def brokers(self) -> tuple[Broker, ...]:
        return self.fleet.brokers

    def document(self, broker: Broker, saying: str = "") -> Document | None:
        """Return the broker's activemq.xml, parsed on first use; None for a file that is not XML.

        Also None for a file that does not hold the text ``saying``, which is then not parsed.
        """
        if saying and saying.encode() not in self._documents.get(broker.host, b""):
            return None
        return self._parsed(broker.host)

    @cached_property
    def _parsed(self) -> Callable[[str], Document | None]:
        @lru_cache(maxsize=1024)
        def parsed(host: str) -> Document | None:
            broker = self.fleet.broker(host)
            try:
                return Document(self._documents[host], broker.release, broker)
            except (KeyError, UnreadableError):
                return None

        return parsed

    @cached_property
    def changed_by_hand(self) -> tuple[Broker, ...]:
        """The brokers whose document holds fragments or attributes of the user, which the model does not show."""
        return tuple(b for b in self.brokers if b.settings.xml_fragments or b.settings.broker_attributes)

    def changed_to_say(self, *texts: str) -> Iterator[tuple[Broker, Document]]:
        """Yield (broker, document) of brokers with the user's own XML whose document holds one of the texts."""
        encoded = [text.encode() for text in texts]
        for broker in self.changed_by_hand:
            data = self._documents.get(broker.host, b"")
            document = self.document(broker) if any(text in data for text in encoded) else None
            if document:
                yield broker, document

    @cached_property
    def _by_address(self) -> dict[tuple[str, int], Broker]:
        return {(b.address, port): b for b in self.brokers for port in b.ports.values()}

    def at(self, host: str, port: int) -> Broker | None:
        """Return the broker that listens at ``host:port``, or None."""
        return self._by_address.get((host, port))

    @cached_property
    def units(self) -> dict[str, tuple[Broker, ...]]:
        """The brokers of each unit (a pair, or a broker without a peer), by the unit's name."""
        found: dict[str, list[Broker]] = {}
        for broker in self.brokers:
            found.setdefault(broker.unit, []).append(broker)
        return {name: tuple(brokers) for name, brokers in found.items()}

    @cached_property
    def links(self) -> tuple[tuple[Broker, Link], ...]:
        """Every link of the model, with the broker that holds it."""
        return tuple((broker, link) for broker in self.brokers for link in broker.links)

    @cached_property
    def listeners(self) -> Listeners:
        """The connectors of the fleet by host and port."""
        from activemq_fleet.dialling import Listeners

        return Listeners(self.brokers)

    @cached_property
    def refused_links(self) -> tuple[Refused, ...]:
        """The links that the dialled broker refuses, or may refuse."""
        from activemq_fleet.routes.bridges import Network
        from activemq_fleet.routes.documents import connectors_of_documents, is_touched

        touched = {b.host: self._documents[b.host] for b in self.brokers if is_touched(b) and self.document(b)}
        if not touched and not any(connector.tls for b in self.brokers for connector in b.connectors):
            return ()
        return tuple(Network(self.fleet, connectors_of_documents(self.fleet, touched), as_planned=True).refused)

    def problem(self, broker: Broker, message: str, **more: Any) -> Problem:
        return Problem(message, host=broker.host, **more)


def fleet_findings(
    fleet: Fleet, documents: Mapping[str, bytes], selection: Selection = _EVERY_RULE
) -> tuple[Finding, ...]:
    """Return the findings of the file, release and fleet rules; ``documents`` are activemq.xml by inventory name.

    A file that is not XML is passed over: the schema check reports it.
    """
    found: list[Finding] = []
    for broker in fleet.brokers:
        found += _of_document(broker, documents[broker.host], selection)
        found += release_findings(_release_of(broker), selection, host=broker.host)
    view = FleetView(fleet, documents)
    for one in rules("fleet"):
        if selection.takes(one.id):
            found += findings_of(one, _in_releases(one.releases, one.check(view), fleet), "")
    return tuple(found)


def _release_of(broker: Broker) -> ReleaseView:
    return ReleaseView(broker.release, from_package=broker.settings.install == "package")


def _in_releases(span: str, problems: Iterable[Problem], fleet: Fleet) -> Iterable[Problem]:
    releases = {broker.host: broker.release for broker in fleet.brokers} if span != ALWAYS else {}
    return (p for p in problems if p.host not in releases or releases[p.host].within(span))


def _of_document(broker: Broker, data: bytes, selection: Selection) -> tuple[Finding, ...]:
    key = fingerprint(broker, data), _not_in_the_document(broker), broker.release, selection
    cached = _cached_findings.get(key)
    if cached is None:
        found = document_findings_of(broker, data, selection)
        if len(_cached_findings) >= _CACHED_DOCUMENTS:
            _cached_findings.clear()
        _cached_findings[key] = _CachedFindings.of(broker, data, found)
        return found
    if not cached.rules:
        return ()
    if cached.shared is not None:
        lines = data.split(b"\n")
        return tuple([one.of(broker, lines) for one in cached.shared])
    return document_findings_of(broker, data, Selection(cached.rules))


class _SharedFinding(NamedTuple):
    """A finding of all documents with one fingerprint.

    ``rest`` is the text of the line from the finding's column on, where names stand before it and move the column;
    otherwise None.
    """

    finding: Finding
    rest: str | None

    def of(self, broker: Broker, lines: Sequence[bytes]) -> Finding:
        if self.rest is None:
            return replace(self.finding, host=broker.host)
        line = lines[(self.finding.line or 1) - 1].decode()
        return replace(self.finding, host=broker.host, column=len(line) - len(self.rest) + 1)


@dataclass(frozen=True, slots=True)
class _CachedFindings:
    """The rules that fired for one fingerprint, and their findings where all documents with it have the same."""

    rules: tuple[str, ...]
    shared: tuple[_SharedFinding, ...] | None

    @classmethod
    def of(cls, broker: Broker, data: bytes, found: tuple[Finding, ...]) -> _CachedFindings:
        names = [*names_of(broker), broker.group]
        lines, unnamed = data.split(b"\n"), without_names(broker, data).split(b"\n") if found else []
        shared: list[_SharedFinding] = []
        for finding in found:
            texts = f"{finding.message}\n{finding.fix}\n{finding.why}"
            if finding.file == ACTIVEMQ_XML and finding.line and not any(name in texts for name in names):
                at = finding.line - 1
                shared += _shared_findings(finding, lines[at].decode(), unnamed[at].decode())
        fired_rules = tuple(sorted({one.rule for one in found}))
        return cls(fired_rules, tuple(shared) if len(shared) == len(found) else None)


def _shared_findings(finding: Finding, line: str, unnamed: str) -> Iterator[_SharedFinding]:
    """Yield the finding for all documents of its fingerprint; nothing where names are on both sides of its column."""
    column = finding.column or 1
    rest = line[column - 1 :]
    if "\0" not in unnamed[:column]:
        yield _SharedFinding(finding, None)
    elif rest and "\0" not in unnamed[-len(rest) :] and unnamed.endswith(rest):
        yield _SharedFinding(finding, rest)


def _not_in_the_document(broker: Broker) -> tuple[str, ...]:
    """Return the settings that file rules read in addition to the document."""
    settings = broker.settings
    own = (text for file in settings.extra_files for text in (file.path, file.content))
    options = settings.java_options if any("${" in fragment.xml for fragment in settings.xml_fragments) else ()
    return settings.ha, settings.console_bind, settings.heap, settings.service, *options, *own


def _beside(broker: Broker) -> dict[str, bytes]:
    """Return the user's own files beside activemq.xml, content by name; rendered files are left out."""
    conf, _, _ = ACTIVEMQ_XML.rpartition("/")
    found = ((file.path.rpartition("/"), file.content) for file in broker.settings.extra_files)
    return {name: content.encode() for (directory, _, name), content in found if directory == conf}


def document_findings_of(broker: Broker, data: bytes, selection: Selection = _EVERY_RULE) -> tuple[Finding, ...]:
    """Return the findings of the file rules about one broker's document, without a cache."""
    try:
        document = Document(data, broker.release, broker, other_files=_beside(broker))
    except UnreadableError:
        return ()
    return tuple(document_findings(document, broker.host, ACTIVEMQ_XML, selection))
