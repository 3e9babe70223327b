"""Compare the links of several activemq.xml files that belong to no fleet, such as all files below a directory."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from activemq_fleet.addresses import Address, is_loopback, may_be_same_host
from activemq_fleet.lint.clients_connectors import listener_uri
from activemq_fleet.lint.deployed_links import may_share_destination
from activemq_fleet.lint.document import Document, Element, Problem
from activemq_fleet.network.connectors import NetworkConnector

DUPLEX_RULE = "N010"
_WILDCARD_HOSTS = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 -- these are not host names
_UNKNOWN_PORT = 0
_FILE_EXTENSIONS = (".xml", ".activemq")


@dataclass(frozen=True, slots=True)
class _LinkedFile:
    """An activemq.xml with its duplex links, and the names and ports at which other brokers may connect to its broker.

    ``ports`` is None if a placeholder determines a port.
    """

    path: str
    names: frozenset[str]
    ports: frozenset[int] | None
    duplex: tuple[tuple[Element, NetworkConnector], ...]

    def possibly_listens_at(self, address: Address) -> bool:
        """Return whether a broker possibly listens at an address to which another broker connects."""
        host, port = address
        has_host = any(may_be_same_host(name, host) for name in self.names)
        return has_host and (self.ports is None or port in self.ports)


def mutual_duplex_link_problems(documents: Mapping[str, Document]) -> Iterator[tuple[str, Problem]]:
    """Yield (path of activemq.xml, problem) for each duplex link to a broker that also has a duplex link back.

    The brokers are in different files. ``documents`` are activemq.xml files by path. A broker is recognized by the
    directories and the name of its file, its brokerName and the addresses of its connectors; a host name counts with
    and without its domain.
    """
    files = _linked_files(documents)
    numbers_by_label: dict[str, set[int]] = defaultdict(set)
    for number, file in enumerate(files):
        for name in file.names:
            numbers_by_label[_first_label(name)].add(number)
    for number, second in enumerate(files):
        for node, connector in second.duplex:
            candidates = frozenset[int]().union(
                *(numbers_by_label[_first_label(host)] for host, _ in connector.addresses)
            )
            for first in (files[other] for other in sorted(candidates) if other < number):
                opposite = _opposite_duplex_link(first, second, connector)
                if opposite is not None:
                    name, line = f"link {opposite.get('name')}".rstrip(), opposite.position()[0]
                    text = (
                        f"link {node.get('name')} and {name} ({first.path}:{line}) are both duplex: "
                        "each message has two routes"
                    )
                    yield second.path, node.problem(text, "duplex")


def _first_label(host: str) -> str:
    return host.lower().partition(".")[0]


def _opposite_duplex_link(source: _LinkedFile, target: _LinkedFile, connector: NetworkConnector) -> Element | None:
    """Return a duplex link from the broker of one file to that of another, which has a link back.

    ``connector`` is the link of ``target`` to ``source``. The result is None if it does not connect to the broker of
    ``source``, or if the links have no destination in common.
    """
    if not any(map(source.possibly_listens_at, connector.addresses)):
        return None
    for node, other_connector in source.duplex:
        connects_back = any(map(target.possibly_listens_at, other_connector.addresses))
        if connects_back and may_share_destination(connector, other_connector):
            return node
    return None


def _linked_files(documents: Mapping[str, Document]) -> list[_LinkedFile]:
    absolute = {path: os.path.abspath(path) for path in documents}
    common_directory = os.path.commonpath([os.path.dirname(path) for path in absolute.values()]) if absolute else ""
    files = []
    for path, document in documents.items():
        connectors = ((link, link.parsed_network_connector) for link in document.network_connectors)
        duplex = tuple((link, connector) for link, connector in connectors if connector.duplex)
        if duplex:
            relative = PurePath(os.path.relpath(absolute[path], common_directory))
            files.append(_LinkedFile(path, _broker_host_names(relative, document), _listener_ports(document), duplex))
    return files


def _broker_host_names(path: PurePath, document: Document) -> frozenset[str]:
    """Return the names by which other brokers may connect to the broker of an activemq.xml.

    ``path`` is relative to the parent of the files.
    """
    stem = path.name
    for extension in _FILE_EXTENSIONS:
        stem = stem.removesuffix(extension)
    brokers = (broker.literal_value("brokerName") or "" for broker in document.brokers)
    hosts = (listener_uri(connector).host for connector in document.transport_connectors)
    names = {*path.parts[:-1], stem, *brokers, *(host for host in hosts if not is_loopback(host))}
    return frozenset(names - _WILDCARD_HOSTS)


def _listener_ports(document: Document) -> frozenset[int] | None:
    ports = frozenset(listener_uri(connector).port for connector in document.transport_connectors)
    return None if not ports or _UNKNOWN_PORT in ports else ports
