"""Print the share of existing activemq.xml files that ``adopt`` expresses by variables, and the reasons for the rest.

``python -m scripts.adoption_ratio DIRECTORY`` reads ``DIRECTORY/manifest.json``, a list of ``{file, repo, path,
release, template}``, and the files in ``DIRECTORY/files``. The files in a directory of a repository are a fleet. Two
files whose names end in a and b are a pair, and each pair is a separate group. An element counts as expressed if the
document that is rendered without ``activemq_xml_fragments`` contains it, with the same or equivalent attributes. A
networkConnector counts as expressed if a link replaces it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from lxml import etree

from activemq_fleet.adopt import AdoptedDocument, AdoptedInventory, adopt_documents, read_adopted_documents
from activemq_fleet.adopt.compared_element import ComparedElement, compared_element_from_lxml, element_and_descendants
from activemq_fleet.adopt.equal_meaning import (
    activemq_base_and_data_directories,
    are_attribute_values_equivalent,
    may_rendered_file_omit_attribute,
)
from activemq_fleet.adopt.secrets import is_password_name
from activemq_fleet.adopt.xml_diff import document_differences
from activemq_fleet.errors import FleetError
from activemq_fleet.naming import Naming
from activemq_fleet.releases import Release
from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.schema import hardened_xml_parser

_PREDICATE = re.compile(r"\[(?:@\w+='[^']*'|[0-9]+)\]")
_NODE = re.compile(r"(.*?)[-_]?([ab])")
_PLAIN = re.compile(r"[^a-z0-9]+")


@dataclass
class Ratio:
    """The numbers of elements and networkConnectors of a file, and of those that no variable expresses (``raw``)."""

    file: str
    elements: int = 0
    raw: int = 0
    connectors: int = 0
    raw_connectors: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """The number of raw elements by the path of the element or attribute that causes them."""


def main() -> int:
    """Measure the directory of the command line, and print the table."""
    arguments = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    arguments.add_argument("directory", type=Path)
    arguments.add_argument(
        "--only", default="", help="measure only fleets with a file whose name begins with this text"
    )
    arguments.add_argument("--notes", action="store_true", help="also print the notes of each fleet")
    options = arguments.parse_args()
    ratios: list[Ratio] = []
    for hosts in _fleets(json.loads((options.directory / "manifest.json").read_text())):
        if any(entry["file"].startswith(options.only) for entry in hosts.values()):
            ratios += _ratios_of_fleet(hosts, options.directory / "files", show_notes=options.notes)
    _print_ratios(ratios)
    return 0


def _fleets(manifest: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Mapping[str, Any]]]:
    """Yield the manifest's entries of each fleet by a host name that is derived from the path of the file."""
    fleets: dict[tuple[str, str], dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for entry in manifest:
        if entry["template"]:
            continue
        path = PurePosixPath(entry["path"])
        if path.stem.startswith("activemq") and path.name in ("activemq.xml", "activemq.xml.k8s"):
            path = path.parent
            path = path.parent if path.name == "conf" else path
        fleets[entry["repo"], str(path.parent)][path.name.partition(".")[0]] = entry
    for (repository, _), by_name in fleets.items():
        names = {name: _NODE.fullmatch(name) for name in by_name}
        stems = Counter(match[1] for match in names.values() if match)
        hosts = {}
        for number, (name, match) in enumerate(names.items(), 1):
            pair = match[1] if match and stems[match[1]] == 2 else ""
            slug = _PLAIN.sub("", (pair or repository.partition("/")[2]).lower())
            group = slug if pair else f"{slug}{number}"
            hosts[f"{group}-mq1-{match[2] if match and pair else 'a'}"] = by_name[name]
        yield hosts


def _ratios_of_fleet(hosts: Mapping[str, Mapping[str, Any]], files: Path, *, show_notes: bool) -> Iterator[Ratio]:
    naming = Naming()
    try:
        readable = {host: entry for host, entry in hosts.items() if _is_readable(files / entry["file"])}
        if not readable:
            return
        documents = read_adopted_documents(
            [f"{host}={files / entry['file']}" for host, entry in readable.items()],
            [f"{host}={entry['release']}" for host, entry in readable.items()],
            naming,
        )
        adopted = adopt_documents(documents, naming)
    except FleetError as error:
        print(f"{', '.join(hosts)}: not adopted: {error}", file=sys.stderr)
        return
    if show_notes:
        print(*adopted.notes, *adopted.fleet.blocking_findings, sep="\n")
    for document in documents:
        yield _ratio(str(hosts[document.host]["file"]), document, adopted)


def _is_readable(path: Path) -> bool:
    """Return whether a file is an activemq.xml; print the reason on stderr if it is not."""
    try:
        read_adopted_documents([f"o-mq1-a={path}"], ["5.18.3"], Naming())
    except FleetError as error:
        print(f"{path}: skipped: {error}", file=sys.stderr)
        return False
    return True


def _ratio(file: str, document: AdoptedDocument, adopted: AdoptedInventory) -> Ratio:
    broker = adopted.fleet.broker(document.host)
    without_fragments = replace(broker, settings=broker.settings.model_copy(update={"xml_fragments": ()}))
    rendered_root = compared_element_from_lxml(
        etree.fromstring(render_activemq_xml_bytes(without_fragments), hardened_xml_parser())
    )
    elements = list(element_and_descendants(document.root))
    ratio = Ratio(file, len(elements), connectors=sum(1 for node in elements if node.name == "networkConnector"))
    directories = activemq_base_and_data_directories(broker.settings.base, broker.settings.instance)
    raw: set[str] = set()
    for difference in document_differences(document.host, document.root, rendered_root, lambda node: node):
        if difference.direction == "rendered adds" or difference.path.endswith(
            ("/@xsi:schemaLocation", "import/@resource")
        ):
            continue
        path = _PREDICATE.sub("", difference.path)
        element, _, last = difference.path.rpartition("/")
        lost = 1
        if last.startswith("@") or last == "text()":
            node = ComparedElement(path.rpartition("/")[0].rpartition("/")[2], {})
            if is_password_name(last.removeprefix("@")) and (difference.rendered or "").startswith("${activemq."):
                continue  # the inventory has it as a secret
            if are_attribute_values_equivalent(
                node, last.removeprefix("@"), difference.original or "", difference.rendered or "", directories
            ):
                continue
            original, counterpart = (
                broker.find(_element_path(path)) or node for broker in (document.broker, _broker_of(rendered_root))
            )
            if may_rendered_file_omit_attribute(original, last[1:], document.release, counterpart):
                continue
            lost = 0 if element in raw else 1
            raw.add(element)
        elif difference.direction == "rendered lacks":
            omitted = etree.fromstring(f"<x>{difference.original}</x>")
            if _is_without_effect(omitted[0], document.release):
                continue
            lost = sum(1 for _ in omitted.iterdescendants(etree.Element))
            ratio.raw_connectors += sum(1 for _ in omitted.iter("{*}networkConnector"))
        else:
            lost = 0  # the same elements in a different order
        ratio.reasons[path] += lost
        ratio.raw += lost
    return ratio


def _broker_of(root: ComparedElement) -> ComparedElement:
    return next(child for child in root.children if child.name == "broker")


def _element_path(path: str) -> str:
    """Return the path of an attribute's element, relative to the broker."""
    return path.removeprefix("beans/broker/").rpartition("/")[0]


def _is_without_effect(node: etree._Element, release: Release) -> bool:
    """Return whether an element can be omitted: it is empty, or the release would not start with it."""
    log_query = ".insight.log" in node.get("class", "") and not release.log_query_class
    return log_query or (len(node) == 0 and not node.attrib and node.tag.endswith("s"))


def _print_ratios(ratios: list[Ratio]) -> None:
    for ratio in sorted(ratios, key=lambda ratio: ratio.file):
        print(f"{ratio.file}\t{100 - 100 * ratio.raw / ratio.elements:3.0f} % of {ratio.elements}", end="")
        print(
            f"\t{ratio.connectors - ratio.raw_connectors} of {ratio.connectors} networkConnectors"
            if ratio.connectors
            else ""
        )
    reasons: Counter[str] = Counter()
    for ratio in ratios:
        reasons.update(ratio.reasons)
    total, raw = sum(ratio.elements for ratio in ratios), sum(ratio.raw for ratio in ratios)
    for path, count in reasons.most_common():
        print(f"{count}\t{path}")
    connectors, raw_connectors = (
        sum(getattr(ratio, name) for ratio in ratios) for name in ("connectors", "raw_connectors")
    )
    print(f"{connectors - raw_connectors} of {connectors} networkConnectors are links or discovery")
    print(f"{len(ratios)} files: {total - raw} of {total} elements expressed: {100 - 100 * raw / total:.1f} %")


if __name__ == "__main__":
    sys.exit(main())
