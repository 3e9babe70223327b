"""Hardened parsing, and the paths of elements."""

from __future__ import annotations

import re

from lxml import etree

from activemq_fleet.schema._problems import SchemaProblem

BEANS = "http://www.springframework.org/schema/beans"
CORE = "http://activemq.apache.org/schema/core"


class UnreadableError(Exception):
    """A document that is refused before any schema is asked. ``problem`` says why."""

    def __init__(self, problem: SchemaProblem) -> None:
        self.problem = problem
        super().__init__(problem.message)


def parser() -> etree.XMLParser:
    """A parser that resolves no entity, opens no connection and limits depth and size."""
    return etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)


def parse(document: bytes) -> etree._Element:
    """The root of a document. Raises UnreadableError when it is not XML, or has a DOCTYPE."""
    try:
        root = etree.fromstring(document, parser())
    except etree.XMLSyntaxError as error:
        if b"<!DOCTYPE" in document:
            raise UnreadableError(_doctype(document)) from None
        line, column = error.position
        said = re.sub(r", line \d+, column \d+.*$", "", error.msg or "it is empty")
        raise UnreadableError(SchemaProblem(max(line, 1), max(column, 1), "", f"not XML: {said}")) from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise UnreadableError(_doctype(document))
    return root


def _doctype(document: bytes) -> SchemaProblem:
    before = document[: max(document.find(b"<!DOCTYPE"), 0)].decode("utf-8", "replace")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    return SchemaProblem(line, column, "", "a DOCTYPE is refused, because it can pull in other files; remove it")


def path_of(element: etree._Element) -> str:
    """``beans/broker/plugins``; a number where siblings share the name."""
    steps = []
    node: etree._Element | None = element
    while node is not None:
        parent = node.getparent()
        alike = [] if parent is None else [child for child in parent if child.tag == node.tag]
        number = f"[{alike.index(node) + 1}]" if len(alike) > 1 else ""
        steps.append(local(node.tag) + number)
        node = parent
    return "/".join(reversed(steps))


def local(tag: str) -> str:
    """The name without its namespace."""
    return tag.rpartition("}")[2]
