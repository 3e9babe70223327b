"""Requirements for rendered files, expressed independently of the renderer."""

from __future__ import annotations

import configparser
import re
from collections.abc import Iterator, Mapping
from typing import Any

from lxml import etree
from pydantic import SecretStr

from activemq_fleet.node.host_paths import ACTIVEMQ_XML
from activemq_fleet.render import file_mode_of, render_broker
from activemq_fleet.topology import Broker, Connector, Link

CORE = "{http://activemq.apache.org/schema/core}"

REFERENCES = re.compile(
    r"\$\{activemq\.(?:(?:base|home|data|conf)|(?:network|probe|jdbc|tls\.keystore|tls\.truststore)\.password"
    r"|user\.[A-Za-z0-9._@-]+\.password)\}"
)
ADDRESS = r"(?:tcp|ssl)://(?:\[[0-9a-f:.]+\]|[A-Za-z0-9.-]+):[0-9]+"
OPTIONS = r"(?:\?[A-Za-z][A-Za-z0-9.]*=[A-Za-z0-9._:/,*@+-]*(?:&[A-Za-z][A-Za-z0-9.]*=[A-Za-z0-9._:/,*@+-]*)*)?"
PEERS = rf"\({ADDRESS}(?:,{ADDRESS})*\)"
URIS = {
    "networkConnector/uri": rf"(?:(?:masterslave|static):{PEERS}|static:\(failover:{PEERS}{OPTIONS}\)|multicast://[0-9.]+:[0-9]+)"
    + OPTIONS,
    "transportConnector/uri": rf"[a-z+]+://(?:\[[0-9a-f:.]+\]|[A-Za-z0-9.-]+):[0-9]+{OPTIONS}",
    "transportConnector/discoveryUri": rf"multicast://[0-9.]+:[0-9]+{OPTIONS}",
    "masterConnector/remoteURI": r"nio://(?:\[[0-9a-f:.]+\]|[A-Za-z0-9.-]+):[0-9]+",
}
EVALUATED = ("${", "#{", "{{", "{%")
LOADED = re.compile(r"\b(?:vm|xbean|broker|peer):", re.IGNORECASE)
CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029]")


def strings(root: etree._Element) -> Iterator[tuple[str, str]]:
    """Yield every attribute value (``element/attribute``) and every text of a document."""
    for node in root.iter(etree.Element):
        name = etree.QName(node).localname
        yield from ((f"{name}/{etree.QName(key).localname}", str(value)) for key, value in node.attrib.items())
        yield name, node.text or ""


def assert_no_evaluated_or_loaded_values(broker: Broker, root: etree._Element) -> None:
    attribute_names = set(broker.settings.broker_attributes)
    for place, value in strings(root):
        rest = REFERENCES.sub("", value)
        assert not any(mark in rest for mark in EVALUATED), (place, value)
        assert not CONTROL.search(value), (place, value)
        pattern = URIS.get(place)
        if pattern is not None:
            assert re.fullmatch(pattern, value), (place, value)
        if pattern is not None or place.removeprefix("broker/") in attribute_names:
            assert not LOADED.search(value), (place, value)


def assert_document_matches_model(broker: Broker, root: etree._Element) -> None:
    def find_elements(path: str) -> list[etree._Element]:
        return root.findall(".//" + CORE + path.replace("/", "/" + CORE))

    [element] = find_elements("broker")
    expected = {"brokerName": broker.broker_name} | {
        name: str(value) for name, value in broker.settings.broker_attributes.items()
    }
    assert {name: element.get(name) for name in expected} == expected
    assert [parsed_connector(node) for node in find_elements("transportConnectors/transportConnector")] == [
        expected_connector(broker, connector) for connector in broker.connectors
    ]
    assert [parsed_link(node) for node in find_elements("networkConnectors/networkConnector")] == [
        expected_link(link) for link in broker.links
    ]
    users = [(node.get("username"), node.get("groups")) for node in find_elements("users/authenticationUser")]
    assert users == [(account.name, ",".join(account.groups)) for account in broker.accounts]
    entries = [
        (node.get("queue") or "", node.get("topic") or "", *(node.get(key) or "" for key in ("read", "write", "admin")))
        for node in find_elements("authorizationEntries/authorizationEntry")
    ]
    assert entries == [
        (
            entry.destination if entry.kind == "queue" else "",
            entry.destination if entry.kind == "topic" else "",
            ",".join(entry.read),
            ",".join(entry.write),
            ",".join(entry.admin),
        )
        for entry in broker.permissions
    ]
    stores = [node.get("directory") for node in find_elements("persistenceAdapter/kahaDB")]
    assert stores == ([] if broker.settings.ha == "shared-jdbc" else [broker.store_directory])


def parsed_connector(node: etree._Element) -> tuple[Any, ...]:
    uri, _, query = (node.get("uri") or "").partition("?")
    options = dict(part.split("=", 1) for part in query.split("&")) if query else {}
    return node.get("name"), uri, options, node.get("discoveryUri")


def expected_connector(broker: Broker, connector: Connector) -> tuple[Any, ...]:
    bind = broker.settings.bind
    host = f"[{bind}]" if ":" in bind else bind
    return (
        connector.name,
        f"{connector.scheme}://{host}:{connector.port}",
        dict(connector.options),
        connector.discovery_uri,
    )


def parsed_link(node: etree._Element) -> tuple[Any, ...]:
    def destinations(element: str) -> list[str]:
        return [
            f"{etree.QName(child).localname}://{child.get('physicalName')}"
            for child in node.iterfind(f"{CORE}{element}/*")
        ]

    ttl = [node.get(key) for key in ("networkTTL", "consumerTTL", "messageTTL")]
    return (
        node.get("name"), node.get("uri"), node.get("duplex"), ttl,
        destinations("dynamicallyIncludedDestinations"), destinations("excludedDestinations"),
    )  # fmt: skip


def expected_link(link: Link) -> tuple[Any, ...]:
    numbers = (
        (link.network_ttl, link.consumer_ttl, link.message_ttl)
        if link.network_ttl is None
        else (link.network_ttl, None, None)
    )
    ttl = [None if number is None else str(number) for number in numbers]
    return link.name, link.uri, str(link.duplex).lower(), ttl, list(link.include), list(link.exclude)


def parse_properties(text: str) -> dict[str, str]:
    """Parse properties as java.util.Properties.load does, with the restriction of one entry per line."""
    entries: dict[str, str] = {}
    for line in text.splitlines():
        if line and line[0] not in "#!":
            match = re.match(r"((?:\\.|[^\\=: ])*)=(.*)", line)
            assert match, line
            key, value = (unescape(part) for part in match.groups())
            entries[key] = value
    return entries


def unescape(text: str) -> str:
    raw = re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), text)
    plain = re.sub(r"\\(.)", lambda match: {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}.get(match[1], match[1]), raw)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16")


def assert_files_are_valid(broker: Broker, files: Mapping[str, bytes]) -> None:
    for path, content in files.items():
        assert not path.startswith("/")
        assert ".." not in path.split("/")
        assert not any(other_path.startswith(f"{path}/") for other_path in files)
        assert file_mode_of(path) in (0o640, 0o644)
        content.decode()
        if path.endswith(".xml") and path not in {extra.path for extra in broker.settings.extra_files}:
            etree.fromstring(content)
    instance = broker.settings.instance
    units = {f"systemd/{instance}.service"}
    if broker.settings.watchdog != "off":
        units.add(f"systemd/{instance}-watchdog.service")
    for unit in units:
        sections = parse_systemd_unit(files[unit].decode())
        assert set(sections) <= {"Unit", "Service", "Install"}
        assert sections["Service"]["User"] == broker.settings.user
    assert {path for path in files if path.startswith("systemd/")} == units
    environment = next(path for path in files if path == broker.release.environment_file or "default" in path)
    for line in files[environment].decode().splitlines():
        assert re.fullmatch(r'#.*|[A-Z_]+="[^"$`\\]*"', line), line


def parse_systemd_unit(text: str) -> dict[str, dict[str, str]]:
    parser = configparser.RawConfigParser(strict=False, delimiters="=", comment_prefixes="#", interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # keys of units have capitals
    parser.read_string(text)
    return {section: dict(parser[section]) for section in parser.sections()}


def assert_credentials_are_complete(broker: Broker) -> None:
    """Assert that credentials.properties contains every password of activemq.xml unchanged."""
    files = render_broker(broker, reveal=True)
    entries = parse_properties(files["conf/credentials.properties"].decode("latin-1"))
    for account in broker.accounts:
        assert isinstance(account.password, SecretStr)
        assert entries[account.key] == account.password.get_secret_value()
    referenced = set(re.findall(r"\$\{([^}]*password)\}", files[ACTIVEMQ_XML].decode()))
    assert referenced <= set(entries)
