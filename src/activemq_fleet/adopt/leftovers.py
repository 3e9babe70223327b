"""Propose ``activemq_broker_attributes`` and ``activemq_xml_fragments`` for what no variable expresses.

Follows the merge of ``render.fragments``: below a bean stand properties, below a property beans, and a bean is merged
into an existing bean beside which it cannot stand. What merging cannot express stays a difference.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from activemq_fleet.adopt.equal_meaning import has_no_meaning, means_the_same
from activemq_fleet.adopt.proposal import Proposal, is_valid_value, yaml_value_of
from activemq_fleet.adopt.secrets import (
    TemplatedText,
    holds_secret,
    is_clear_text_password,
    is_password,
    with_secret_labels,
)
from activemq_fleet.adopt.sources import Document
from activemq_fleet.adopt.xml_diff import PLACEHOLDERS, XmlElement, is_console_import, to_xml
from activemq_fleet.releases import Release
from activemq_fleet.render.fragments import TOLD_APART_BY
from activemq_fleet.schema._documents import BEANS

_OUR_REFERENCE = "${activemq."
_OUR_OWN = ("brokerName", "id")


@dataclass(frozen=True, slots=True)
class _Skip:
    """What needs no fragment: elements by id that a variable replaces, and values that mean the same."""

    elements: Collection[int]
    directories: Mapping[str, str]
    release: Release


def propose_fragments(proposal: Proposal, document: Document, rendered: XmlElement) -> None:
    """Propose the broker attributes and XML fragments of one host for what no variable expresses.

    ``rendered`` is the host's document as rendered from variables alone, without fragments.
    """
    broker = next(child for child in rendered.children if child.tag == document.broker.tag)
    _propose_attributes(proposal, document, broker)
    skip = _Skip(proposal.replaced_elements, proposal.directories(document.host), document.release)
    found = []
    for child in document.broker.children:
        same = next((other for other in broker.children if other.tag == child.tag), None)
        missing = _without(child, skip) if same is None else _property(child, same, skip)
        if missing is not None and not (missing.children or missing.attributes or missing.normalized_text):
            continue  # an empty property sets nothing
        if missing is not None:
            found.append(_entry(proposal, document, missing, None))
    unmatched = Counter(child.comparison_key for child in rendered.children)
    for child in document.root.children:
        if child is document.broker or id(child) in skip.elements or is_console_import(child):
            continue
        if child.get("class").endswith(PLACEHOLDERS):
            continue  # two would each refuse what only the other resolves
        if ".insight.log" in child.get("class"):
            continue  # activemq_log_query, or a class that the release does not have
        if unmatched[child.comparison_key]:
            unmatched[child.comparison_key] -= 1
        else:
            found.append(_entry(proposal, document, child, "beans"))
    if found:
        proposal[document.host]["xml_fragments"] = found


def _propose_attributes(proposal: Proposal, document: Document, rendered: XmlElement) -> None:
    attributes: dict[str, Any] = dict(proposal[document.host].get("broker_attributes", {}))
    for name, value in document.broker.attributes.items():
        if name in _OUR_OWN or holds_secret(name, value):
            continue
        if name in rendered.attributes and means_the_same(document.broker, name, value, rendered.attributes[name], {}):
            continue
        if is_valid_value("broker_attributes", {name: value}):
            attributes[name] = yaml_value_of(value)
    if attributes:
        proposal[document.host]["broker_attributes"] = attributes


def _entry(proposal: Proposal, document: Document, node: XmlElement, parent: str | None) -> dict[str, Any]:
    safe = with_secret_labels(_with_references(node, proposal, document), proposal.secrets)
    entry: dict[str, Any] = {"parent": parent} if parent else {}
    return {**entry, "xml": TemplatedText(to_xml(safe))}


def _with_references(node: XmlElement, proposal: Proposal, document: Document) -> XmlElement:
    """Return the element with ``${activemq…}`` references for the passwords of accounts that the inventory holds."""
    variables = proposal[document.host]
    name = node.get("userName") or node.get("username")
    attributes = dict(node.attributes)
    if name and is_clear_text_password("password", node.get("password")):
        if name == variables.get("network_username"):
            attributes["password"] = "${activemq.network.password}"  # noqa: S105 -- a reference
        elif name in {user["name"] for user in variables.get("users", [])}:
            attributes["password"] = f"${{activemq.user.{name}.password}}"
    children = tuple(_with_references(child, proposal, document) for child in node.children)
    return replace(node, attributes=attributes, children=children)


def _without(node: XmlElement, skip: _Skip) -> XmlElement | None:
    """Return the element without the children in ``skip``; None where no child is left."""
    if not any(id(child) in skip.elements for child in node.children):
        return node
    children = tuple(child for child in node.children if id(child) not in skip.elements)
    return replace(node, children=children) if children else None


def _property(original: XmlElement, rendered: XmlElement, skip: _Skip) -> XmlElement | None:
    """Return the parts of a property element that the rendered one lacks, at any depth; None where it lacks nothing."""
    missing = []
    unmatched = list(rendered.children)
    for child in original.children:
        if id(child) in skip.elements:
            continue
        equal = next((other for other in unmatched if other.comparison_key == child.comparison_key), None)
        if equal is not None:
            unmatched.remove(equal)
            continue
        if child.name == "authorizationEntry" and any(_same_rights(child, other) for other in rendered.children):
            continue  # the broker unites the entries of a destination: another would change nothing
        same = next((other for other in rendered.children if _joins(other, child, rendered)), None)
        found = child if same is None else _bean(child, same, skip)
        if found is not None:
            missing.append(found)
    attributes = _changed(original, rendered, skip)
    return XmlElement(original.tag, attributes, "", tuple(missing)) if missing or attributes else None


def _same_rights(one: XmlElement, other: XmlElement) -> bool:
    return all(one.get(kind) == other.get(kind) for kind in ("queue", "topic"))


def _bean(original: XmlElement, rendered: XmlElement, skip: _Skip) -> XmlElement | None:
    """Return the attributes and properties of a bean that the rendered one lacks; None where it lacks nothing."""
    missing = []
    for child in original.children:
        same = next((other for other in rendered.children if other.tag == child.tag), None)
        found = child if same is None else _property(child, same, skip)
        if found is not None:
            missing.append(found)
    attributes = _changed(original, rendered, skip)
    if not missing and not attributes:
        return None
    told_apart = {
        name: original.get(name) for name in TOLD_APART_BY.get(original.name, ()) if name in original.attributes
    }
    return XmlElement(original.tag, {**told_apart, **attributes}, "", tuple(missing))


def _changed(original: XmlElement, rendered: XmlElement, skip: _Skip) -> dict[str, str]:
    return {
        name: value
        for name, value in original.attributes.items()
        if not has_no_meaning(original, name, skip.release, rendered)
        and not (
            name in rendered.attributes
            and means_the_same(original, name, value, rendered.attributes[name], skip.directories)
        )
        and not is_clear_text_password(name, value)
        # A password that is asked of credentials.properties is found there, whatever it was called before.
        and not (is_password(name) and rendered.get(name).startswith(_OUR_REFERENCE))
    }


def _joins(one: XmlElement, other: XmlElement, parent: XmlElement) -> bool:
    """Return whether ``render.fragments`` would merge bean ``other`` into the existing bean ``one``."""
    if one.tag != other.tag or not one.is_in_activemq_namespace or parent.tag == f"{{{BEANS}}}beans":
        return False
    if not parent.name.endswith("s"):
        return True
    told_apart = TOLD_APART_BY.get(one.name)
    return told_apart is not None and all(one.get(name) == other.get(name) for name in told_apart)
