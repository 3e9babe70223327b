"""Hardened parsing, and where each start tag and attribute stands.

libxml2 gives an element the line on which its start tag *ends*, which for a broker's tag of ten
lines is ten lines off. Expat knows where it starts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from xml.parsers import expat

from lxml import etree

from activemq_fleet.schema._problems import SchemaProblem

BEANS = "http://www.springframework.org/schema/beans"
CORE = "http://activemq.apache.org/schema/core"

_ATTRIBUTE = re.compile(rb"""\s([^\s=/>]+)\s*=\s*(?:"[^"]*"|'[^']*')""")


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
        line, column = error.position
        said = re.sub(r", line \d+, column \d+.*$", "", error.msg or "it is empty")
        raise UnreadableError(SchemaProblem(max(line, 1), max(column, 1), "", f"not XML: {said}")) from None
    if root.getroottree().docinfo.internalDTD is not None:
        line = document[: max(document.find(b"<!DOCTYPE"), 0)].count(b"\n") + 1
        message = "a DOCTYPE is refused, because it can pull in other files; remove it"
        raise UnreadableError(SchemaProblem(line, 1, "", message))
    return root


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


@dataclass(frozen=True, slots=True)
class _StartTag:
    line: int
    column: int
    offset: int


class Positions:
    """Where the elements and attributes of one document stand."""

    def __init__(self, document: bytes, root: etree._Element) -> None:
        self._document = document
        self._tags = dict(zip(root.iter(etree.Element), _start_tags(document), strict=False))

    def of_element(self, element: etree._Element) -> tuple[int, int]:
        """Line and column of ``<``."""
        tag = self._tags[element]
        return tag.line, tag.column

    def of_attribute(self, element: etree._Element, name: str) -> tuple[int, int]:
        """Line and column of the attribute, or of its element when it cannot be told apart."""
        tag = self._tags[element]
        text = self._document[tag.offset :]
        wanted = local(name).encode()
        end = 0
        while (match := _ATTRIBUTE.search(text, end)) and b">" not in text[end : match.start()]:
            if match[1].rpartition(b":")[2] == wanted:
                before = text[: match.start(1)].decode("utf-8", "replace")
                newline = before.rfind("\n")
                if newline < 0:
                    return tag.line, tag.column + len(before)
                return tag.line + before.count("\n"), len(before) - newline
            end = match.end()
        return tag.line, tag.column


def _start_tags(document: bytes) -> list[_StartTag]:
    tags: list[_StartTag] = []
    reader = expat.ParserCreate()

    def start(_name: str, _attributes: dict[str, str]) -> None:
        place = reader.CurrentLineNumber, reader.CurrentColumnNumber + 1, reader.CurrentByteIndex
        tags.append(_StartTag(*place))

    reader.StartElementHandler = start
    reader.Parse(document, True)
    return tags
