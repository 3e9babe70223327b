"""Read one activemq.xml for rules: elements with exact positions, and attribute values that may be unknown."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, wraps
from operator import attrgetter
from types import MappingProxyType
from typing import Any, TypeVar

from lxml import etree

from activemq_fleet.findings import Severity, TextEdit
from activemq_fleet.network.connectors import NetworkConnector, parse_network_connector
from activemq_fleet.network.uri_parser import Uri
from activemq_fleet.profiles import HighAvailabilityProfile
from activemq_fleet.releases import Release
from activemq_fleet.schema import SourcePosition, UnreadableXmlError, XmlDocument, XmlPositions, decode_xml_document
from activemq_fleet.settings.activemq_size_notation import size_in_bytes
from activemq_fleet.spring_values import spring_boolean
from activemq_fleet.topology import Broker

# Replaces an ampersand that does not begin a reference. It is one character, so that columns stay correct.
STRAY = "\ue000"
SCHEMA_LOCATION = "{http://www.w3.org/2001/XMLSchema-instance}schemaLocation"
_NO_FILES: Mapping[str, bytes] = MappingProxyType({})
# Text that Spring, a shell or a tool replaces before the broker reads it. Escapes such as %20 are not placeholders.
PLACEHOLDER = re.compile(r"\$\(|\$[A-Z]|@\w+@|%[A-Za-z_][\w.-]{3,}%|\{\{|<\w+>")
# Each alternative begins with a single character: Python's re then searches several times faster than with [$#].
_ANY_PLACEHOLDER = re.compile(rf"\$\{{|#\{{|{PLACEHOLDER.pattern}")
_ELEMENT_INDEX = attrgetter("_index")
_Item = TypeVar("_Item")


class Element:
    """An XML element of an activemq.xml file.

    An attribute is *unknown* if its value contains ``${…}`` or another placeholder. ``name`` is the element's name
    without its namespace, ``attributes`` are its attributes as written in the file, by name. ``parent`` is the XML
    element that contains it, None for the root. A ``Document`` makes the elements of its file, each once.
    """

    __slots__ = ("_element", "_index", "_last_index", "attributes", "document", "name", "namespace", "parent")

    def __init__(self, element: etree._Element, document: Document, parent: Element | None, index: int) -> None:
        self._element = element
        self.document = document
        self.parent = parent
        namespace, _, self.name = element.tag.rpartition("}")
        self.namespace = namespace[1:]
        self.attributes: dict[str, str] = dict(element.items())  # type: ignore[arg-type]  # str or bytes in lxml-stubs
        if document.has_stray:
            self.attributes = {name: value.replace(STRAY, "&") for name, value in self.attributes.items()}
        self._index = index
        self._last_index = index  # the index of the last descendant, which the document sets

    def __repr__(self) -> str:
        return f"<{self.name}> of line {self.position()[0]}"

    def has_attribute(self, attribute: str) -> bool:
        """Return whether the XML element has an attribute of the given name."""
        return attribute in self.attributes

    def get(self, attribute: str, default: str = "") -> str:
        """Return the value of an XML element's attribute as written in the file, or ``default``."""
        return self.attributes.get(attribute, default)

    @property
    def schema_locations(self) -> list[tuple[str, str]]:
        """The schema locations of the XML element: (namespace, address) pairs in ``xsi:schemaLocation``."""
        words = self.get(SCHEMA_LOCATION).split()
        return list(zip(words[::2], words[1::2], strict=False))

    @property
    def leading_text(self) -> str:
        """The XML element's text before its first child element."""
        return (self._element.text or "").strip().replace(STRAY, "&")

    def element_attribute_values_and_text(self) -> Iterator[tuple[str, str]]:
        """Yield the values of the XML element's attributes, and then its text.

        Values are (name, value), and the text is ("", text).
        """
        yield from self.attributes.items()
        yield "", self.leading_text

    def literal_value(self, attribute: str) -> str | None:
        """Return the value of an XML element's attribute, or None if it contains a placeholder such as ``${…}``.

        The result is None for an absent attribute, too.
        """
        value = self.attributes.get(attribute)
        return None if value is None or _ANY_PLACEHOLDER.search(value) else value.strip()

    def has_placeholder_value(self, attribute: str) -> bool:
        """Return whether the value of an XML attribute contains a placeholder such as ``${…}``."""
        return self.has_attribute(attribute) and self.literal_value(attribute) is None

    def boolean_attribute(self, attribute: str, default: bool) -> bool | None:
        """Return the value of an XML attribute as a boolean.

        The result is ``default`` for an absent attribute, and None for a value that is not a boolean.
        """
        if not self.has_attribute(attribute):
            return default
        return spring_boolean(self.literal_value(attribute) or "")

    def integer_attribute(self, attribute: str) -> int | None:
        """Return the value of an XML attribute as an integer; None if it is absent, a placeholder or not an integer."""
        try:
            return int(self.literal_value(attribute) or "")
        except ValueError:
            return None

    def size_attribute(self, attribute: str) -> int | None:
        """Return the value of an XML attribute, such as ``20 gb``, in bytes; None if it is absent or not a size.

        A value with a placeholder is not a size.
        """
        return size_in_bytes(self.literal_value(attribute) or "")

    def is_positive(self, attribute: str) -> bool:
        """Return whether an XML attribute is set to a number or size above 0.

        A value with a placeholder counts as positive. The attributes in question are those in which 0 disables a
        function.
        """
        number = self.integer_attribute(attribute)
        value = self.size_attribute(attribute) if number is None else number
        return self.has_attribute(attribute) and (value is None or value > 0)

    def uri_attribute_or_empty(self, attribute: str = "uri") -> Uri:
        """Return the value of an XML attribute as a Uri object, without scheme and parts if the attribute is absent."""
        return Uri.parse(self.get(attribute))

    @property
    def parsed_network_connector(self) -> NetworkConnector:
        """The XML element as a parsed networkConnector, with its URI and options."""
        return parse_network_connector(self._element)

    def nearest_ancestor_with_tag_name(self, *names: str) -> Element | None:
        """Return the nearest ancestor of the XML element whose tag name is one of the given names, or None."""
        ancestor = self.parent
        while ancestor is not None and ancestor.name not in names:
            ancestor = ancestor.parent
        return ancestor

    def children(self, *names: str) -> list[Element]:
        """Return the child elements of the XML element.

        With ``names``, only the child elements with one of these names are returned.
        """
        return [child for child in self._children if not names or child.name in names]

    @property
    def _children(self) -> list[Element]:
        return self.document.children_by_index[self._index]

    def descendants(self, *names: str) -> list[Element]:
        """Return the descendants of the XML element.

        With ``names``, only the descendants with one of these names are returned.
        """
        if not names:
            return self.document.nodes[self._index + 1 : self._last_index + 1]
        elements: list[Element] = []
        for name in names:
            if named := self.document.elements_with_tag_name(name):
                begin = bisect_left(named, self._index + 1, key=_ELEMENT_INDEX)
                elements += named[begin : bisect_left(named, self._last_index + 1, begin, key=_ELEMENT_INDEX)]
        return elements if len(names) == 1 else sorted(elements, key=_ELEMENT_INDEX)

    def first_child(self, name: str) -> Element | None:
        """Return the first child element of an XML element that has the given name, or None."""
        return next((child for child in self._children if child.name == name), None)

    def position(self, attribute: str = "", part: str = "") -> SourcePosition:
        """Return the line and column of the XML element, of its attribute, or of a part of the attribute's value."""
        positions = self.document.tag_and_attribute_positions
        if not attribute or not self.has_attribute(attribute):
            return positions.element_position(self._element)
        if self.document.has_stray and part not in str(self._element.get(attribute)):
            part = part.replace("&", STRAY)
        return positions.value_position(self._element, attribute, part)

    def problem(
        self,
        message: str,
        attribute: str = "",
        part: str = "",
        *,
        severity: Severity | None = None,
        fix: str = "",
        why: str = "",
        edits: tuple[TextEdit, ...] = (),
    ) -> Problem:
        """Return a lint problem at an XML element, at its attribute, or at a part of the attribute's value.

        ``severity``, ``fix`` and ``why`` replace the rule's own. ``edits`` repair the file without a change of its
        meaning.
        """
        return Problem(
            message, node=self, attribute=attribute, part=part, severity=severity, fix=fix, why=why, edits=edits
        )

    def rename_edits(self, name: str) -> tuple[TextEdit, ...]:
        """Return the text edits that rename the XML element in its file."""
        return self.document.tag_and_attribute_positions.element_renaming_edits(self._element, name)

    def attribute_rename_edit(self, attribute: str, name: str) -> tuple[TextEdit, ...]:
        """Return the text edit that renames an attribute of an XML element in its file."""
        return self.document.tag_and_attribute_positions.attribute_renaming_edit(self._element, attribute, name)

    def part_replacement_edit(
        self, attribute: str, part: str, text: str, *, length: int | None = None
    ) -> tuple[TextEdit, ...]:
        """Return the text edit that replaces a part of an XML attribute's value.

        With ``length``, only the first ``length`` characters of the part are replaced.
        """
        if self.document.has_stray and part not in str(self._element.get(attribute)):
            part = part.replace("&", STRAY)
        return self.document.tag_and_attribute_positions.value_replacement_edit(
            self._element, attribute, part, text, length
        )


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that a lint rule reports about a file or an inventory.

    It is at an XML element, at a position of a file, or about the inventory. With ``node``, and an attribute or a part
    of its value, position, file and host are those of the element. Without it ``file`` is a file next to activemq.xml,
    with ``line`` and ``column``, and fleet rules set ``host``. ``severity``, ``fix`` and ``why`` replace the rule's
    own. ``edits`` repair the file of the position.
    """

    message: str
    node: Element | None = None
    attribute: str = ""
    part: str = ""
    severity: Severity | None = None
    fix: str = ""
    why: str = ""
    host: str = ""
    file: str = ""
    line: int | None = None
    column: int | None = None
    edits: tuple[TextEdit, ...] = ()


_MAX_LISTED_LINES = 10
_MAX_OPTION_LENGTH = 40


def other_lines_suffix(elements: Iterable[Element], attribute: str = "", *, line: int | None = None) -> str:
    """Return the end of a lint finding's message, which lists the file's other lines with the same problem.

    The result is "" if no other line has the problem. ``line`` is the line of the finding itself, by default that of
    the first element.
    """
    all_lines = [element.position(attribute)[0] for element in elements]
    lines = sorted({*all_lines} - {line or all_lines[0]})
    if not lines:
        return ""
    text = ", ".join(map(str, lines[:_MAX_LISTED_LINES]))
    if len(lines) > _MAX_LISTED_LINES:
        text += f" and {len(lines) - _MAX_LISTED_LINES} more"
    return f"; the same problem is in {'line' if len(lines) == 1 else 'lines'} {text}"


def _texts_from_stray_ampersands(value: str) -> Iterator[str]:
    """Yield, for each unescaped ampersand in a value, the rest of the value from that ampersand on."""
    begin = value.find(STRAY)
    while begin >= 0:
        yield value[begin:]
        begin = value.find(STRAY, begin + 1)


def once_per_document(read: Callable[[Document], Iterable[_Item]]) -> Callable[[Document], tuple[_Item, ...]]:
    """Return a function that calls ``read`` only once for each parsed activemq.xml, and caches the result.

    Every lint rule that needs the result gets the same tuple.
    """

    @wraps(read)
    def read_once(document: Document) -> tuple[_Item, ...]:
        if read not in document.readings:
            document.readings[read] = tuple(read(document))
        return document.readings[read]

    return read_once


class Document:
    """A parsed activemq.xml file of one ActiveMQ release.

    The constructor raises UnreadableXmlError for a file that is not XML or has a DOCTYPE. ``broker`` is the fleet's
    broker that the file was rendered for, None for any other file. ``other_files`` are the readable files of its
    directory, content by name. ``file`` is the name of a file next to activemq.xml that was parsed in the same way,
    such as jetty.xml; "" for the activemq.xml itself.
    """

    def __init__(
        self,
        source: XmlDocument,
        release: Release,
        broker: Broker | None = None,
        *,
        other_files: Mapping[str, bytes] = _NO_FILES,
        file: str = "",
    ) -> None:
        self.source = source
        self.data = source.content
        self.file = file
        self.other_files = other_files
        self.release = release
        self.broker = broker
        self.has_stray = STRAY.encode() in source.content
        self.tree = source.root
        elements: dict[etree._Element | None, Element] = {}
        self.children_by_index: list[list[Element]] = [[] for _ in source.elements_in_document_order]
        """The child elements of each XML element, by its index in ``nodes``."""
        for index, element in enumerate(source.elements_in_document_order):
            parent = elements.get(element.getparent())
            node = elements[element] = Element(element, self, parent, index)
            if parent is not None:
                self.children_by_index[parent._index].append(node)
        self.nodes = list(elements.values())
        """Every XML element of the file, in its order."""
        for node, children in zip(reversed(self.nodes), reversed(self.children_by_index), strict=True):
            if children:
                node._last_index = children[-1]._last_index
        self._sibling_documents: dict[str, Document | None] = {}
        self.readings: dict[Callable[[Document], Iterable[Any]], tuple[Any, ...]] = {}
        """The results that functions read from the file, by function; see ``once_per_document``."""

    def discard_parsed_content(self) -> None:
        """Discard the parsed XML elements of an activemq.xml, and everything computed from them, to free memory.

        Afterwards nothing can be read from the document. Elements and document refer to each other. Without this
        method, Python's garbage collector has to search for both.
        """
        self.__dict__.clear()

    def parsed_sibling_file(self, name: str) -> Document | None:
        """Return a parsed XML file next to the activemq.xml, such as ``jetty.xml``, or None.

        The result is None if the file does not exist or is not XML.
        """
        if name not in self._sibling_documents:
            self._sibling_documents[name] = self._parse_sibling_file(name)
        return self._sibling_documents[name]

    def _parse_sibling_file(self, name: str) -> Document | None:
        try:
            return Document(XmlDocument(self.other_files[name]), self.release, file=name)
        except (KeyError, UnreadableXmlError):
            return None

    @cached_property
    def tag_and_attribute_positions(self) -> XmlPositions:
        """The positions of the start tags and attributes in the XML file."""
        return XmlPositions(self._text, self.tree)

    @property
    def root(self) -> Element:
        """The root element of the XML file."""
        return self.nodes[0]

    @cached_property
    def _text(self) -> str:
        return decode_xml_document(self.data, self.tree.getroottree().docinfo.encoding)

    def contains_text(self, text: str) -> bool:
        """Return whether the XML file contains a given text anywhere.

        This test is faster than a search of the XML elements.
        """
        return text in self._text

    @cached_property
    def _by_name(self) -> dict[str, list[Element]]:
        elements: dict[str, list[Element]] = {}
        for element in self.nodes:
            elements.setdefault(element.name, []).append(element)
        return elements

    @cached_property
    def _by_attribute(self) -> dict[str, list[Element]]:
        elements: dict[str, list[Element]] = {}
        for element in self.nodes:
            for name in element.attributes:
                elements.setdefault(name, []).append(element)
        return elements

    @property
    def attribute_names_in_file(self) -> Iterable[str]:
        """The names of all attributes in the XML file.

        They have no duplicates.
        """
        return self._by_attribute.keys()

    def elements_with_attribute(self, *names: str) -> list[Element]:
        """Return the XML elements that have an attribute with one of the given names, in the order of the file."""
        elements = {element for name in names for element in self._by_attribute.get(name, ())}
        return sorted(elements, key=_ELEMENT_INDEX)

    @cached_property
    def element_and_attribute_names(self) -> frozenset[str]:
        """The names of all XML elements and attributes in the file.

        Names of attributes begin with ``@``.
        """
        return frozenset(self._by_name).union(f"@{name}" for name in self._by_attribute)

    def has_element_or_attribute(self, names: Iterable[str]) -> bool:
        """Return whether the file has an XML element or attribute with one of the given names.

        Names of attributes begin with ``@``.
        """
        return not self.element_and_attribute_names.isdisjoint(names)

    @cached_property
    def _joined_attribute_values(self) -> str:
        return "\n".join([value for element in self.nodes for value in element.attributes.values()])

    def has_attribute_value_containing(self, texts: Iterable[str]) -> bool:
        """Return whether the value of any XML attribute in the file contains one of the given texts."""
        return any(text in self._joined_attribute_values for text in texts)

    def elements_with_tag_name(self, *names: str) -> list[Element]:
        """Return all XML elements of the file whose tag name is one of the given names.

        They are grouped by name, and within a name in the order of the file.
        """
        return [node for name in names for node in self._by_name.get(name, ())]

    @property
    def brokers(self) -> list[Element]:
        """The ``<broker>`` elements of the XML file."""
        return self.elements_with_tag_name("broker")

    @property
    def network_connectors(self) -> list[Element]:
        """The ``<networkConnector>`` elements of the XML file."""
        return self.elements_with_tag_name("networkConnector")

    @property
    def transport_connectors(self) -> list[Element]:
        """The ``<transportConnector>`` elements of the XML file."""
        return self.elements_with_tag_name("transportConnector")

    @property
    def store_elements(self) -> list[Element]:
        """The XML elements of the file that define message stores.

        They are the children of persistenceAdapter and persistenceFactory.
        """
        return [
            node
            for container in self.elements_with_tag_name("persistenceAdapter", "persistenceFactory")
            for node in container.children()
        ]

    @property
    def attributes_with_discovery_uri(self) -> list[tuple[Element, str]]:
        """The attributes in the file that contain a discovery URI.

        Each is (element, attribute). Those of networkConnectors precede those of transportConnectors.
        """
        links = [(link, "uri") for link in self.network_connectors]
        return links + [(connector, "discoveryUri") for connector in self.transport_connectors]

    def unescaped_ampersand_problems(self) -> Iterator[Problem]:
        """Yield a lint problem for each unescaped ``&`` in the XML file.

        The parser accepted these characters as ``&amp;``.
        """
        if not self.has_stray:
            return
        for node in self.nodes:
            for name in map(str, node._element.attrib):
                for part in _texts_from_stray_ampersands(str(node._element.get(name))):
                    option = part[1:].partition("=")[0].strip()[:_MAX_OPTION_LENGTH]
                    yield node.problem(
                        f"the attribute {name.rpartition('}')[2]} contains an unescaped & before {option!r}",
                        name,
                        part,
                        edits=node.part_replacement_edit(name, part, "&amp;", length=1),
                    )
            if STRAY in (node._element.text or ""):
                yield node.problem(f"the text of <{node.name}> contains an unescaped &")

    def is_from_inventory(self, link: Element) -> bool:
        """Return whether a networkConnector in activemq.xml comes from the inventory's links.

        Otherwise it comes from the user's own XML.
        """
        return self.broker is not None and any(
            planned_link.name == link.get("name") for planned_link in self.broker.links
        )

    @property
    def ha_profile(self) -> HighAvailabilityProfile | None:
        """The high-availability profile of the broker that this file configures, such as a pair with a shared store.

        It is None for a file that belongs to no fleet.
        """
        return self.broker.ha_profile if self.broker else None
