"""Files to adopt, and what two documents differ in, counted without the code that is tested."""

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
from activemq_fleet.grouping import inventory_group_name
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
    """A text with the tag ``!unsafe``, which Ansible never takes for a template."""


class _Loader(yaml.SafeLoader):
    """A loader of the YAML of inventories."""


def _unsafe(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> Unsafe:
    return Unsafe(loader.construct_scalar(node))


_Loader.add_constructor("!unsafe", _unsafe)


def document(broker: str, beans: str = "", **attributes: str) -> bytes:
    """A hand-written file: what stands in ``<broker>``, and beside it."""
    said = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return f'<beans xmlns="{BEANS}"><broker xmlns="{CORE}"{said}>{broker}</broker>{beans}</beans>'.encode()


def write_files(directory: Path, files: Mapping[str, bytes]) -> Path:
    """``hosts/HOST/conf/activemq.xml`` for each host."""
    for host, content in files.items():
        path = directory / "hosts" / host / "conf" / "activemq.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return directory


def write_and_adopt(
    directory: Path, files: Mapping[str, bytes], release: str = "", pattern: str = DEFAULT_PATTERN
) -> AdoptedInventory:
    """The adoption of these files, from disk."""
    naming = Naming(pattern)
    write_files(directory, files)
    return adopt_documents(read_adopted_documents([str(directory)], [release] if release else [], naming), naming)


def adopt_rendered_fleet(directory: Path, fleet: Fleet) -> AdoptedInventory:
    """The adoption of everything that a fleet renders."""
    for name, content in render_fleet(fleet).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    naming = Naming()
    agents = find_agent_configurations([str(directory)])
    return adopt_documents(read_adopted_documents([str(directory)], [], naming), naming, agents=agents)


def write_inventory(directory: Path, adoption: AdoptedInventory) -> Path:
    """The inventory on disk."""
    for name, content in adoption.files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return directory


def render_adopted_inventory(directory: Path, adoption: AdoptedInventory) -> dict[str, bytes]:
    """The tree that the inventory renders, read by Ansible as any other."""
    return render_fleet(load_fleet([str(write_inventory(directory / "inventory", adoption))]))


def fleet_of_inventory(
    hosts: Mapping[str, Mapping[str, Any]], groups: Mapping[str, Sequence[str]] | None = None
) -> Fleet:
    """A fleet, to be adopted from its own files."""
    return build_fleet(hosts, groups or {})


def activemq_xml_by_host(fleet: Fleet) -> dict[str, bytes]:
    """activemq.xml by host."""
    return {broker.host: render_activemq_xml_bytes(broker) for broker in fleet.brokers}


def parse_without_comments(content: bytes) -> etree._Element:
    """The document without its comments."""
    return etree.fromstring(content, etree.XMLParser(remove_comments=True))


def xml_facts(root: etree._Element, above: str = "") -> XmlFacts:
    """Every element, attribute and text of a document, with its path; order where it has a meaning."""
    name = etree.QName(root).localname
    path = f"{above}/{name}" if above else name
    found: XmlFacts = Counter({(path, "", ""): 1})
    for attribute, value in root.attrib.items():
        found[path, etree.QName(str(attribute)).localname, " ".join(str(value).split())] += 1
    pieces = [root.text, *(child.tail for child in root)]
    text = " ".join(" ".join(piece or "" for piece in pieces).split())
    if text:
        found[path, "text()", text] += 1
    for child in root:
        if isinstance(child.tag, str):
            found += xml_facts(child, path)
    return found


def listed_facts(differences: Sequence[XmlDifference]) -> tuple[XmlFacts, XmlFacts]:
    """The facts that a list gives to the original alone, and to the rendered document alone."""
    sides: tuple[XmlFacts, XmlFacts] = Counter(), Counter()
    for one in differences:
        for side, said in zip(sides, (one.original, one.rendered), strict=True):
            if said is not None and not said.startswith("in this order: "):
                side.update(_facts_of(one.path, said))
    return sides


def _facts_of(path: str, said: str) -> XmlFacts:
    plain = re.sub(r"\[(?:@\w+='[^']*'|[0-9]+)\]", "", path)
    above, _, last = plain.rpartition("/")
    if last == "text()":
        return Counter({(above, "text()", said): 1})
    if last.startswith("@"):
        return Counter({(above, last[1:].rpartition(":")[2], " ".join(said.split())): 1})
    element = etree.fromstring(f'<fragment xmlns="{CORE}">{said}</fragment>')[0]
    return xml_facts(element, above)


def assert_listed_exactly(original: bytes, rendering: bytes, differences: Sequence[XmlDifference]) -> None:
    """What the two documents do not have in common is what the list says, each way."""
    before, after = xml_facts(parse_without_comments(original)), xml_facts(parse_without_comments(rendering))
    lacking, added = listed_facts(differences)
    hidden = {(path, name) for path, name, value in lacking.keys() | added.keys() if _SECRET.search(value)}
    assert _net_facts(before, after, hidden) == _net_facts(lacking, added, hidden)


def _net_facts(one: XmlFacts, other: XmlFacts, hidden: set[tuple[str, str]]) -> dict[tuple[str, str, str], int]:
    """What one has more of than the other. Where the list hides a secret, values are not compared."""
    net: dict[tuple[str, str, str], int] = {}
    for path, name, value in one.keys() | other.keys():
        shown = "…" if (path, name) in hidden else value
        net[path, name, shown] = net.get((path, name, shown), 0) + one[path, name, value] - other[path, name, value]
    return {key: count for key, count in net.items() if count}


def render_without_ansible(adoption: AdoptedInventory) -> dict[str, bytes]:
    """activemq.xml by host, from the files of the inventory and nothing else; quicker than Ansible."""
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
            return {name: templated(item) for name, item in value.items()}
        if isinstance(value, list):
            return [templated(item) for item in value]
        return environment.from_string(value).render(context) if isinstance(value, str) else value

    files = {path: yaml.load(content, _Loader) for path, content in adoption.files.items()}  # noqa: S506 -- a SafeLoader
    hosts: dict[str, dict[str, Any]] = {}
    for host, inline in files["hosts.yml"]["all"]["hosts"].items():
        broker = adoption.fleet.broker(host)
        context |= {"activemq_identity": broker.identity, "inventory_hostname_short": broker.identity.short_host_name}
        role = "activemq_masters" if broker.role == "master" else "activemq_slaves"
        levels = ["all", inventory_group_name("group", broker.group), role, inventory_group_name("pair", broker.pair)]
        variables: dict[str, Any] = {}
        paths = [*(f"group_vars/{name}.yml" for name in levels), f"host_vars/{host}.yml"]
        for level in (*(files.get(path, {}) for path in paths), inline or {}):
            assert not level.keys() & variables.keys(), f"a variable of {host} stands twice"
            variables |= {name: templated(value) for name, value in level.items()}
        hosts[host] = variables
    return activemq_xml_by_host(build_fleet(hosts, {}))
