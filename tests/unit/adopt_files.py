"""Files to adopt, and the differences of two documents, counted without the tested code."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from jinja2 import Environment, StrictUndefined
from lxml import etree

from activemq_fleet.adopt import (
    AdoptedInventory,
    XmlDifference,
    adopt_documents,
    find_agent_configurations,
    read_adopted_documents,
)
from activemq_fleet.group_names import inventory_group_name
from activemq_fleet.inventory import load_fleet
from activemq_fleet.naming import DEFAULT_PATTERN, Naming
from activemq_fleet.render import render_fleet
from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.topology import Fleet, build_fleet

CORE = "http://activemq.apache.org/schema/core"
BEANS = "http://www.springframework.org/schema/beans"
_SECRET = re.compile(r"\*\*\*|@\.secrets/[^@]*@")

XmlFacts = Counter[tuple[str, str, str]]


class Unsafe(str):
    """A text with the tag ``!unsafe``, which Ansible never evaluates as a template."""


class _Loader(yaml.SafeLoader):
    """A loader of the YAML of inventories."""


def _unsafe(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Unsafe:
    return Unsafe(loader.construct_scalar(node))


_Loader.add_constructor("!unsafe", _unsafe)


def document(broker: str, beans: str = "", **attributes: str) -> bytes:
    """Return a hand-written file with the given content of ``<broker>``, and the beans next to it."""
    attribute_text = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<beans xmlns="{BEANS}"><broker xmlns="{CORE}"{attribute_text}>{broker}</broker>{beans}</beans>'.encode()


def write_files(directory: Path, files: Mapping[str, bytes]) -> Path:
    """Write ``hosts/HOST/conf/activemq.xml`` for each host, and return the directory."""
    for host, content in files.items():
        path = directory / "hosts" / host / "conf" / "activemq.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return directory


def write_and_adopt(
    directory: Path, files: Mapping[str, bytes], release: str = "", pattern: str = DEFAULT_PATTERN
) -> AdoptedInventory:
    """Write files, and return their adoption from disk."""
    naming = Naming(pattern)
    write_files(directory, files)
    return adopt_documents(read_adopted_documents([str(directory)], [release] if release else [], naming), naming)


def adopt_rendered_fleet(directory: Path, fleet: Fleet) -> AdoptedInventory:
    """Return the adoption of all files that a fleet renders."""
    for name, content in render_fleet(fleet).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    naming = Naming()
    agents = find_agent_configurations([str(directory)])
    return adopt_documents(read_adopted_documents([str(directory)], [], naming), naming, agents=agents)


def write_inventory(directory: Path, adoption: AdoptedInventory) -> Path:
    """Write the adopted inventory, and return its directory."""
    for name, content in adoption.files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return directory


def render_adopted_inventory(directory: Path, adoption: AdoptedInventory) -> dict[str, bytes]:
    """Return the files that the adopted inventory renders, loaded with Ansible."""
    return render_fleet(load_fleet([str(write_inventory(directory / "inventory", adoption))]))


def fleet_of_inventory(
    hosts: Mapping[str, Mapping[str, Any]], groups: Mapping[str, Sequence[str]] | None = None
) -> Fleet:
    """Return the fleet of an inventory, whose files a test adopts."""
    return build_fleet(hosts, groups or {})


def activemq_xml_by_host(fleet: Fleet) -> dict[str, bytes]:
    """Return the activemq.xml of each host."""
    return {broker.host: render_activemq_xml_bytes(broker) for broker in fleet.brokers}


def parse_without_comments(content: bytes) -> etree._Element:
    """Return a document without its comments."""
    return etree.fromstring(content, etree.XMLParser(remove_comments=True))


def xml_facts(root: etree._Element, above: str = "") -> XmlFacts:
    """Count the elements, attributes and texts of a document by path, name and value."""
    name = etree.QName(root).localname
    path = f"{above}/{name}" if above else name
    facts: XmlFacts = Counter({(path, "", ""): 1})
    for attribute, value in root.attrib.items():
        facts[path, etree.QName(str(attribute)).localname, " ".join(str(value).split())] += 1
    text_parts = [root.text, *(child.tail for child in root)]
    text = " ".join(" ".join(piece or "" for piece in text_parts).split())
    if text:
        facts[path, "text()", text] += 1
    for child in root:
        if isinstance(child.tag, str):
            facts += xml_facts(child, path)
    return facts


def listed_facts(differences: Sequence[XmlDifference]) -> tuple[XmlFacts, XmlFacts]:
    """Return the facts that differences list for the original document only, and for the rendered document only."""
    sides: tuple[XmlFacts, XmlFacts] = Counter(), Counter()
    for difference in differences:
        for side, text in zip(sides, (difference.original, difference.rendered), strict=True):
            if text is not None and not text.startswith("in this order: "):
                side.update(_facts_of(difference.path, text))
    return sides


def _facts_of(path: str, text: str) -> XmlFacts:
    plain = re.sub(r"\[(?:@\w+='[^']*'|[0-9]+)\]", "", path)
    above, _, last = plain.rpartition("/")
    if last == "text()":
        return Counter({(above, "text()", text): 1})
    if last.startswith("@"):
        return Counter({(above, last[1:].rpartition(":")[2], " ".join(text.split())): 1})
    element = etree.fromstring(f'<fragment xmlns="{CORE}">{text}</fragment>')[0]
    return xml_facts(element, above)


def assert_listed_exactly(original: bytes, rendering: bytes, differences: Sequence[XmlDifference]) -> None:
    """Assert that the list contains exactly the facts in which two documents differ, in both directions."""
    original_facts, rendered_facts = (
        xml_facts(parse_without_comments(original)),
        xml_facts(parse_without_comments(rendering)),
    )
    lacking, added = listed_facts(differences)
    hidden = {(path, name) for path, name, value in lacking.keys() | added.keys() if _SECRET.search(value)}
    assert _net_facts(original_facts, rendered_facts, hidden) == _net_facts(lacking, added, hidden)


def _net_facts(first: XmlFacts, second: XmlFacts, hidden: set[tuple[str, str]]) -> dict[tuple[str, str, str], int]:
    """Return the difference of two counts of facts. The values of hidden facts, such as secrets, are not compared."""
    net: dict[tuple[str, str, str], int] = {}
    for path, name, value in first.keys() | second.keys():
        shown = "…" if (path, name) in hidden else value
        net[path, name, shown] = net.get((path, name, shown), 0) + first[path, name, value] - second[path, name, value]
    return {key: count for key, count in net.items() if count}


def render_without_ansible(adoption: AdoptedInventory) -> dict[str, bytes]:
    """Return the activemq.xml of each host, rendered from the files of the inventory without Ansible, to save time."""
    environment = Environment(undefined=StrictUndefined, autoescape=False)  # noqa: S701 -- YAML, not HTML
    environment.tests["file"] = lambda _path: True
    context: dict[str, Any] = {
        "inventory_dir": "@",
        "secrets": "@.secrets",
        "lookup": lambda _plugin, path, **_options: f"{path}@",
    }

    def templated(value: Any) -> Any:
        if isinstance(value, Unsafe):
            return str(value)
        if isinstance(value, dict):
            return {name: templated(element) for name, element in value.items()}
        if isinstance(value, list):
            return [templated(element) for element in value]
        return environment.from_string(value).render(context) if isinstance(value, str) else value

    files = {path: yaml.load(content, _Loader) for path, content in adoption.files.items()}  # noqa: S506 -- a SafeLoader
    hosts: dict[str, dict[str, Any]] = {}
    for host, inline in files["hosts.yml"]["all"]["hosts"].items():
        broker = adoption.fleet.broker(host)
        context |= {"activemq_identity": broker.identity, "inventory_hostname_short": broker.host.split(".")[0]}
        role = "activemq_masters" if broker.role == "master" else "activemq_slaves"
        levels = ["all", inventory_group_name("group", broker.group), role, inventory_group_name("pair", broker.pair)]
        variables: dict[str, Any] = {}
        paths = [*(f"group_vars/{name}.yml" for name in levels), f"host_vars/{host}.yml"]
        for level in (*(files.get(path, {}) for path in paths), inline or {}):
            assert not level.keys() & variables.keys(), f"the inventory sets a variable of {host} twice: {level}"
            variables |= {name: templated(value) for name, value in level.items()}
        hosts[host] = variables
    return activemq_xml_by_host(build_fleet(hosts, {}))
