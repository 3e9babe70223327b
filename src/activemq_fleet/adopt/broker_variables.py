"""Propose variables from one broker's activemq.xml alone: connectors, TLS, limits, JMX, imported files."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from activemq_fleet.adopt.compared_element import ComparedElement, is_console_import
from activemq_fleet.adopt.equal_meaning import opens_jmx_port
from activemq_fleet.adopt.proposal import ProposedVariablesByHost, is_valid_value, parse_yaml_scalar
from activemq_fleet.adopt.secrets import attribute_contains_clear_text_password, file_contains_clear_text_password
from activemq_fleet.adopt.sources import AdoptedDocument, imported_file_paths
from activemq_fleet.render.policies_usage_and_plugins import default_memory_limit_text
from activemq_fleet.settings.activemq_size_notation import size_in_bytes
from activemq_fleet.settings.connectors_and_links import default_connector_options
from activemq_fleet.settings.host_settings import HostSettings
from activemq_fleet.uris import is_openwire

_LISTENING_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(\[[^\]]+\]|[^:/?#]+):(\d{1,5})/?(?:\?(.*))?", re.DOTALL)
_CLIENT_AUTH_OPTION = ("transport.needClientAuth", "true")
DEFAULT_HEAP = str(HostSettings.model_fields["heap"].default)
_RESERVED_CONNECTOR_NAMES = ("console", "jmx", "replication")
_JMX_PORT = 1099
_MAXIMUM_MEMORY_SHARE = 0.7
"""The largest share of the heap that a broker uses for messages (BrokerService.checkMemorySystemUsageLimits)."""
_LIMIT_ELEMENTS = {
    "memory_limit": "memoryUsage/memoryUsage",
    "store_limit": "storeUsage/storeUsage",
    "temp_limit": "tempUsage/tempUsage",
}


@dataclass(frozen=True, slots=True)
class ExpressibleListener:
    """A listener (transportConnector) that an entry of ``activemq_connectors`` can express."""

    name: str
    scheme: str
    bind: str
    port: int
    options: Mapping[str, str]
    attributes: Mapping[str, str] = field(default_factory=dict)
    tls: bool = True
    own_bind: bool = False

    def to_connectors_entry(self) -> dict[str, Any]:
        """Return the transportConnector as an entry of ``activemq_connectors``."""
        entry: dict[str, Any] = {"name": self.name, "scheme": self.scheme, "port": self.port}
        if list(self.options.items()) != list(default_connector_options(self.scheme).items()):
            entry["options"] = {name: parse_yaml_scalar(value) for name, value in self.options.items()}
        if self.own_bind:
            entry["bind"] = self.bind
        if not self.tls:
            entry["tls"] = False
        if self.attributes:
            entry["attributes"] = {name: parse_yaml_scalar(value) for name, value in self.attributes.items()}
        return entry


def propose_limits_console_and_connectors(proposal: ProposedVariablesByHost) -> None:
    """Propose the variables for resource limits, web console and connectors of every host, from its activemq.xml."""
    _propose_missing_heaps(proposal)
    for document in proposal.documents:
        _propose_limits(proposal, document)
        if not any(is_console_import(node) for node in document.root.children):
            proposal[document.host]["console"] = False
        _propose_beans(proposal, document)
        _note_key_stores(proposal, document)
    for documents in proposal.existing_activemq_xml_by_pair().values():
        _propose_connectors(proposal, documents)
    for document in proposal.documents:
        _propose_management(proposal, document)


def _propose_beans(proposal: ProposedVariablesByHost, document: AdoptedDocument) -> None:
    """Propose the variables for the parts of a default activemq.xml other than the broker.

    They are imports, the bean of hawtio's log view, and shutdown hooks.
    """
    host, release = document.host, document.release
    console_imports = {node.get("resource") for node in document.root.children if is_console_import(node)}
    imports = [
        name for name in imported_file_paths(document.root) if name not in console_imports and "jetty" not in name
    ]
    valid_imports = [name for name in imports if is_valid_value("imports", [name])]
    if valid_imports and proposal.propose_value_if_valid(host, "imports", valid_imports):
        _propose_imported_files(proposal, document, valid_imports)
    if not_copied := [name for name in imports if name not in valid_imports]:
        text = (
            f"activemq.xml imports {', '.join(not_copied)}, which adopt does not copy. Check that the broker can load "
            "each of these resources on its host"
        )
        proposal.add_note([host], text, is_urgent=True)
    shutdown_hooks = document.broker.children_of_first_match("shutdownHooks")
    classes = [node.get("class") for node in shutdown_hooks]
    if classes and all(set(node.attributes) == {"class"} and not node.children for node in shutdown_hooks):
        proposal.propose_value_if_valid(host, "shutdown_hooks", classes)
    if any(".insight.log" in node.get("class") for node in document.root.children):
        if release.log_query_class:
            proposal[host]["log_query"] = True
        else:
            proposal.add_note(
                [host],
                f"adopt left out the bean logQuery, because release {release.text} does not contain its class: no "
                "action is necessary",
            )


def _propose_imported_files(
    proposal: ProposedVariablesByHost, document: AdoptedDocument, imports: Sequence[str]
) -> None:
    """Propose the imported files as ``activemq_extra_files``, except those in which a password is in clear text."""
    host, missing, files_with_passwords = document.host, [], []
    extra: list[dict[str, str]] = []
    for name in imports:
        text = document.other_files.get(name)
        if text is None:
            missing.append(name)
        elif file_contains_clear_text_password(name, text):
            files_with_passwords.append(name)
        elif is_valid_value("extra_files", [*extra, {"path": f"conf/{name}", "content": text}]):
            extra.append({"path": f"conf/{name}", "content": text})
        else:
            missing.append(name)
    if extra:
        proposal.propose_value_if_valid(host, "extra_files", extra)
    if files_with_passwords:
        proposal.add_note(
            [host],
            f"activemq.xml imports {', '.join(files_with_passwords)}, which adopt did not copy, because it may "
            "contain passwords in clear text. Add the content to activemq_extra_files, and encrypt its passwords "
            "with ansible-vault",
            is_urgent=True,
        )
    if missing:
        text = (
            f"activemq.xml imports {', '.join(missing)}, which adopt did not copy. Add each of these files to "
            "activemq_extra_files, unless the release contains it. A broker does not start without its imported files"
        )
        proposal.add_note([host], text, is_urgent=True)


def _note_key_stores(proposal: ProposedVariablesByHost, document: AdoptedDocument) -> None:
    """Add a note about key stores with paths inside the installation, which a new installation does not contain."""
    context = document.broker.find("sslContext/sslContext")
    paths = [context.get(name) for name in ("keyStore", "trustStore")] if context else []
    if relative_paths := [path for path in paths if path and not path.removeprefix("file:").startswith("/")]:
        proposal.add_note(
            [document.host],
            f"the sslContext of activemq.xml uses {' and '.join(relative_paths)} in the directory of the installation. "
            "A new installation does not contain your key stores: files with these names have ActiveMQ's public "
            "example keys. Copy your key stores to another directory, and set its absolute path in activemq_tls or "
            "activemq_xml_fragments",
            is_urgent=True,
        )


def _propose_management(proposal: ProposedVariablesByHost, document: AdoptedDocument) -> None:
    """Propose ``activemq_jmx`` if an activemq.xml opens a port for JMX."""
    context = document.broker.find("managementContext/managementContext")
    if context is None or document.broker.get("useJmx") == "false" or not opens_jmx_port(context, document.release):
        return
    offset = proposal[document.host].get("port_offset", 0)
    value: dict[str, Any] = {"port": _JMX_PORT - offset}
    for name, attribute in (("port", "connectorPort"), ("rmi_port", "rmiServerPort")):
        if context.get(attribute).isdecimal() and context.get(attribute) != "0":
            value[name] = int(context.get(attribute)) - offset
    if value["port"] == _JMX_PORT:
        del value["port"]
    if context.get("connectorPath") not in ("", "/jmxrmi"):
        value["path"] = context.get("connectorPath")
    if not proposal.propose_value_if_valid(document.host, "jmx", value):
        proposal.propose_value_if_valid(document.host, "jmx", {"port": value["port"]} if "port" in value else {})


def _propose_missing_heaps(proposal: ProposedVariablesByHost) -> None:
    """Propose a heap for hosts whose files do not show it, if their memoryUsage does not fit into the default."""
    hosts_by_heap: dict[str, list[str]] = defaultdict(list)
    for document in proposal.documents:
        usage = document.broker.find(f"systemUsage/systemUsage/{_LIMIT_ELEMENTS['memory_limit']}")
        memory = (size_in_bytes(usage.get("limit")) or 0) if usage else 0
        if "heap" not in proposal[document.host] and memory > _MAXIMUM_MEMORY_SHARE * (
            size_in_bytes(DEFAULT_HEAP) or 0
        ):
            heap = f"{math.ceil(memory / _MAXIMUM_MEMORY_SHARE / (1 << 30))}g"
            proposal.propose_value_if_valid(document.host, "heap", heap)
            hosts_by_heap[heap].append(document.host)
    for heap, hosts in hosts_by_heap.items():
        proposal.add_note(
            hosts,
            f"no file shows the Java heap, and the default of {DEFAULT_HEAP} is too small for the memoryUsage of "
            f"activemq.xml. adopt set activemq_heap: {heap}. Replace this value with the value of -Xmx on the host",
            is_urgent=True,
        )


def _propose_limits(proposal: ProposedVariablesByHost, document: AdoptedDocument) -> None:
    for name, path in _LIMIT_ELEMENTS.items():
        usage = document.broker.find(f"systemUsage/systemUsage/{path}")
        default = (
            default_memory_limit_text(proposal[document.host].get("heap", DEFAULT_HEAP))
            if name == "memory_limit"
            else HostSettings.model_fields[name].default
        )
        if usage is None:
            continue
        limit = usage.get("total") if usage.get("percentLimit") == "100" else usage.get("limit")
        if limit != default:
            proposal.propose_value_if_valid(document.host, name, limit)


def _propose_connectors(proposal: ProposedVariablesByHost, documents: Sequence[AdoptedDocument]) -> None:
    listeners_by_host = {document.host: list(_expressible_listeners(proposal, document)) for document in documents}
    for document in documents:
        host, listeners = document.host, listeners_by_host[document.host]
        binds = Counter(listener.bind for listener in listeners)
        bind = binds.most_common(1)[0][0] if binds else "0.0.0.0"  # noqa: S104 -- the default
        if bind != "0.0.0.0":  # noqa: S104
            proposal.propose_value_if_valid(host, "bind", bind)
        # The address of a placeholder cannot be the value of a variable, so a fragment sets it.
        listeners = [
            replace(listener, own_bind=listener.bind != bind and "${" not in listener.bind) for listener in listeners
        ]
        listeners_by_host[host] = listeners = _propose_tls(proposal, document, listeners)
        proposal[host]["connectors"] = [listener.to_connectors_entry() for listener in listeners]
    _propose_offset(proposal, listeners_by_host)
    if proposal.proposed_ha_profile(documents[0].host).replicates:
        # A slave opens no connectors, so its own have no effect. It gets those of its master.
        master = max(documents, key=lambda document: len(listeners_by_host[document.host]))
        for document in documents:
            if not listeners_by_host[document.host]:
                for name in ("connectors", "bind", "port_offset"):
                    if name in proposal[master.host]:
                        proposal[document.host][name] = proposal[master.host][name]


def _expressible_listeners(
    proposal: ProposedVariablesByHost, document: AdoptedDocument
) -> Iterator[ExpressibleListener]:
    names = Counter(node.get("name") for node in transport_connector_elements(document))
    announced_by_default = _connector_announced_by_default(document)
    if document.broker.find("services/masterConnector") and proposal.proposed_ha_profile(document.host).replicates:
        return
    for node in transport_connector_elements(document):
        match = _LISTENING_URI.fullmatch(node.get("uri"))
        name = node.get("name")
        if id(node) in proposal.replaced_elements or not match or names[name] > 1 or name in _RESERVED_CONNECTOR_NAMES:
            continue
        scheme, bind, port, query = match.groups()
        options = _query_options(query or "")
        attributes = {
            attribute: value
            for attribute, value in node.attributes.items()
            if attribute != "discoveryUri" or node is not announced_by_default
            if is_valid_value(
                "connectors", [{"name": "a", "scheme": "tcp", "port": 1, "attributes": {attribute: value}}]
            )
        }
        listener = ExpressibleListener(name, scheme, bind.strip("[]"), int(port), options, attributes)
        if scheme not in document.release.schemes or scheme == "vm":
            continue
        has_password = any(attribute_contains_clear_text_password(option, value) for option, value in options.items())
        if has_password or not is_valid_value("connectors", [listener.to_connectors_entry()]):
            listener = replace(listener, options={})
        if is_valid_value("connectors", [listener.to_connectors_entry()]):
            yield listener


def _connector_announced_by_default(document: AdoptedDocument) -> ComparedElement | None:
    """Return the transportConnector that a rendered broker with multicast announces by default.

    That is the first one for OpenWire, if it alone announces the broker; None in all other cases.
    """
    bridges = document.broker.find_all("networkConnectors/networkConnector")
    if not any(node.get("uri").startswith("multicast:") for node in bridges):
        return None
    connectors = transport_connector_elements(document)
    announced = [node for node in connectors if "discoveryUri" in node.attributes]
    first = next((node for node in connectors if is_openwire(node.get("uri").partition(":")[0])), None)
    return first if announced == [first] else None


def transport_connector_elements(document: AdoptedDocument) -> list[ComparedElement]:
    """Return every transportConnector element of an activemq.xml."""
    return document.broker.find_all("transportConnectors/transportConnector")


def _query_options(query: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in query.split("&") if part]
    return {name: value for name, _, value in pairs}


def _propose_tls(
    proposal: ProposedVariablesByHost, document: AdoptedDocument, listeners: list[ExpressibleListener]
) -> list[ExpressibleListener]:
    """Propose ``activemq_tls`` if a transportConnector uses TLS.

    The connectors are returned without the options that the variable adds.
    """
    context = document.broker.find("sslContext/sslContext")
    release = document.release
    tls_listeners = [listener for listener in listeners if release.tls_scheme(listener.scheme) == listener.scheme]
    if context is None or not tls_listeners:
        return listeners
    needs_certificates = all(list(listener.options.items())[-1:] == [_CLIENT_AUTH_OPTION] for listener in tls_listeners)
    stores = {
        "keystore": context.get("keyStore").removeprefix("file:"),
        "keystore_password": proposal.secrets.secret_file_reference_for(
            "keystore", context.get("keyStorePassword"), "password of the key store"
        ),
        "truststore": context.get("trustStore").removeprefix("file:"),
        "truststore_password": proposal.secrets.secret_file_reference_for(
            "truststore", context.get("trustStorePassword"), "password of the trust store"
        ),
    }
    if not proposal.propose_value_if_valid(
        document.host, "tls", stores | ({"client_auth": True} if needs_certificates else {})
    ):
        return listeners
    return [
        replace(listener, options=dict(list(listener.options.items())[: -1 if needs_certificates else None]))
        if listener in tls_listeners
        else replace(listener, tls=False)
        for listener in listeners
    ]


def _propose_offset(
    proposal: ProposedVariablesByHost, listeners_by_host: Mapping[str, Sequence[ExpressibleListener]]
) -> None:
    """Propose ``activemq_port_offset`` for the node of a pair whose ports all exceed its peer's by the same number."""
    if len(listeners_by_host) != 2 or not all(listeners_by_host.values()):
        return
    (low, low_ports), (high, high_ports) = sorted(listeners_by_host.items(), key=lambda item: item[1][0].port)
    offsets = {b.port - a.port for a, b in zip(low_ports, high_ports, strict=False)}
    differs_only_by_port = [replace(listener, port=1) for listener in low_ports] == [
        replace(listener, port=1) for listener in high_ports
    ]
    if differs_only_by_port and len(offsets) == 1 and offsets != {0}:
        proposal[high]["connectors"] = proposal[low]["connectors"]
        proposal.propose_value_if_valid(high, "port_offset", offsets.pop())
