"""Parse XML documents within safe bounds; the paths of elements, and the problem of an invalid document."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice

from lxml import etree

from activemq_fleet.findings import TextEdit
from activemq_fleet.network.connectors import NetworkConnector, parse_network_connector
from activemq_fleet.releases import BEANS, CORE, XBEAN

ROOTS = frozenset({f"{{{BEANS}}}beans", f"{{{XBEAN}}}beans", f"{{{CORE}}}broker"})
"""The roots with which every release starts: Spring's <beans>, and a single <broker>."""
# Replaces, during validation, each namespace that a user's own jar can define.
FOREIGN = "urn:activemq-fleet:foreign"
# The limits of a check. The largest of 110 foreign files has 74 elements, 8 attributes on one element and a value
# of 599 characters. With these limits, the most expensive megabyte takes 2 seconds (benchmarks).
MAX_ELEMENTS = 10_000
MAX_BROKERS = 10
MAX_ATTRIBUTES = 200
LONGEST_VALUE = 16_384
MAX_PARTS = 500
DEEPEST_URI = 20
_URI_CHARACTERS = ",&?"
_DECLARED_ENCODING = re.compile(r"""\s*<\?xml[^>]*?\sencoding\s*=\s*["']([A-Za-z][\w.-]*)""")
_MAX_DECLARATION_BYTES = 400
_SAVE_IN_UTF_8 = "save the file in UTF-8, and declare UTF-8 or no encoding in its first line"
_CORRECT_XML = "correct the XML at this position: a broker does not start with a file that is not well-formed XML"


@dataclass(frozen=True, slots=True, order=True)
class SchemaProblem:
    """A violation of an ActiveMQ release's XML schema in an XML document.

    It has its position. The release would not start with the document. ``line`` and ``column`` are 1-based and point at
    the start tag of the element, or at the attribute that is wrong. ``element`` is its path from the root by local
    names, ``beans/broker/transportConnectors/transportConnector[2]``; empty when the document is not XML at all.
    ``fix`` is what to do, "" where that depends on the release. ``edits`` repair the document, where the schema leaves
    no doubt about what is meant.
    """

    line: int
    column: int
    element: str
    message: str
    fix: str = ""
    edits: tuple[TextEdit, ...] = ()

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.message}"


class UnreadableXmlError(Exception):
    """An error for an XML document that cannot be read, so that no schema can validate it.

    ``problem`` is the reason.
    """

    def __init__(self, problem: SchemaProblem) -> None:
        self.problem = problem
        super().__init__(problem.message)


class XmlTooLargeError(UnreadableXmlError):
    """An error for an XML document that exceeds a size limit, such as the number of elements.

    The limits bound the validation time.
    """


def hardened_xml_parser() -> etree.XMLParser:
    """Return a new XML parser that is hardened against malicious documents.

    It resolves no entities, opens no connections, and limits depth and size. All XML in this project is parsed with
    parsers from this function.
    """
    return etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)


def parse_xml_root_element(document: bytes) -> etree._Element:
    """Parse an XML document given as bytes, and return its root element.

    The function raises UnreadableXmlError for a document that is rejected.
    """
    return parse_all_xml_elements(document)[0]


def parse_all_xml_elements(document: bytes) -> list[etree._Element]:
    """Parse an XML document given as bytes, and return all its elements in document order.

    Raises UnreadableXmlError when it is not XML, has a DOCTYPE, exceeds the bounds, or declares another encoding than
    it has.
    """
    _check_encoding(document)
    try:
        root = etree.fromstring(document, hardened_xml_parser())
    except etree.XMLSyntaxError as error:
        if b"<!DOCTYPE" in document:
            raise UnreadableXmlError(_doctype_problem(document)) from None
        line, column = error.position
        reason = re.sub(r", line \d+, column \d+.*$", "", error.msg or "it is empty")
        problem = SchemaProblem(max(line, 1), max(column, 1), "", f"the file is not XML: {reason}", _CORRECT_XML)
        raise UnreadableXmlError(problem) from None
    if root.getroottree().docinfo.internalDTD is not None:
        raise UnreadableXmlError(_doctype_problem(document))
    elements = list(islice(root.iter(etree.Element), MAX_ELEMENTS + 1))
    _check_size_limits(elements)
    return elements


def has_utf_32_byte_order_mark(document: bytes) -> bool:
    """Return whether an XML document is written in UTF-32 with a byte order mark."""
    return document.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE))


def utf_16_encoding(document: bytes) -> str:
    """Return the name of the UTF-16 encoding in which an XML document is written, or "" for any other encoding.

    The encoding is ``utf-16-le`` or ``utf-16-be``.
    """
    if document.startswith((codecs.BOM_UTF16_LE, b"<\0")):
        return "utf-16-le"
    return "utf-16-be" if document.startswith((codecs.BOM_UTF16_BE, b"\0<")) else ""


def declared_encoding(document: bytes) -> str:
    """Return the encoding that the first line of an XML document declares, or "" without a declaration."""
    first_bytes = document[:_MAX_DECLARATION_BYTES].decode(utf_16_encoding(document) or "latin-1", "replace")
    declared = _DECLARED_ENCODING.match(first_bytes.lstrip("\ufeffï»¿"))
    return declared[1] if declared else ""


def _check_encoding(document: bytes) -> None:
    """Raise UnreadableXmlError for a document that declares UTF-16 and has 8-bit characters, or vice versa.

    Also raises it for UTF-32 with a byte order mark. libxml2 reads such documents. Java's parser rejects them: "Content
    is not allowed in prolog", or "Invalid byte 1 of 1-byte UTF-8 sequence" (measured on Java 17).
    """
    if has_utf_32_byte_order_mark(document):
        message = "Java cannot read the file: it is written in UTF-32 with a byte order mark"
        raise UnreadableXmlError(SchemaProblem(1, 1, "", message, _SAVE_IN_UTF_8))
    actual = utf_16_encoding(document)
    declared = declared_encoding(document)
    if not declared:
        return
    is_multibyte = declared.lower().startswith(("utf-16", "utf16", "utf-32", "ucs-"))
    if is_multibyte == bool(actual):
        return
    actual_text = "UTF-16" if actual else "UTF-8 or another 8-bit encoding"
    message = f"Java cannot read the file: it declares the encoding {declared}, but is written in {actual_text}"
    fix = f"save the file in the encoding {declared}, or correct the encoding in its first line"
    raise UnreadableXmlError(SchemaProblem(1, 1, "", message, fix))


class XmlDocument:
    """An XML configuration file, such as activemq.xml: its bytes, and its elements.

    The elements are parsed on first use. Rendering returns such a document; the schema, the lint rules, the routes and
    ``explain`` take it. ``discard_parsed_tree`` frees the memory of the parsed elements, which is many times that of
    the bytes.
    """

    def __init__(self, content: bytes) -> None:
        self.content = content

    @cached_property
    def elements_in_document_order(self) -> list[etree._Element]:
        """All elements of the XML document, in document order.

        The schema and the lint rules traverse them. Raises UnreadableXmlError for content that is not XML, has a
        DOCTYPE or exceeds the bounds.
        """
        return parse_all_xml_elements(self.content)

    @property
    def root(self) -> etree._Element:
        """The root element of the XML document.

        The property raises UnreadableXmlError for a document that is rejected.
        """
        return self.elements_in_document_order[0]

    @cached_property
    def network_connectors(self) -> tuple[NetworkConnector, ...]:
        """The networkConnectors of the XML document, in document order.

        The property raises UnreadableXmlError for a document that is rejected.
        """
        return tuple(map(parse_network_connector, self.root.iter(f"{{{CORE}}}networkConnector")))

    def discard_parsed_tree(self) -> None:
        """Discard the parsed tree (all elements) of the XML document, to free memory.

        The next use parses the document again.
        """
        self.__dict__.pop("elements_in_document_order", None)


def _check_size_limits(elements: Iterable[etree._Element]) -> None:
    """Raise XmlTooLargeError for the first limit that a document exceeds, with the line of the element."""
    brokers = 0
    for number, element in enumerate(elements, 1):
        tag = element.tag
        brokers += tag.endswith("broker") and local_name(tag) == "broker"
        excess = remedy = ""
        if number > MAX_ELEMENTS:
            excess = f"the file has more than {MAX_ELEMENTS} elements"
            remedy = "move parts of it into imported files"
        elif brokers > MAX_BROKERS:
            excess = f"the file has more than {MAX_BROKERS} <broker> elements"
            remedy = "write each broker into a file of its own"
        elif len(element.attrib) > MAX_ATTRIBUTES:  # checked before the call of items(), whose time is quadratic
            excess = f"<{local_name(tag)}> has more than {MAX_ATTRIBUTES} attributes"
            remedy = "remove attributes"
        elif len(element.text or "") > LONGEST_VALUE or len(element.tail or "") > LONGEST_VALUE:
            excess = f"the text in or after <{local_name(tag)}> has more than {LONGEST_VALUE} characters"
            remedy = "shorten the text"
        else:
            remedy = "shorten the value"
            for name, value in element.items():
                if len(value) > LONGEST_VALUE or "(" in value or "?" in value:
                    excess = excess or _describe_excess(tag, str(name), str(value))
        if excess:
            message = f"{excess}. This limit bounds the duration of a check, so the file was not checked"
            fix = f"check the origin of the file. If the configuration is intended, {remedy}"
            raise XmlTooLargeError(SchemaProblem(int(str(element.sourceline)), 1, "", message, fix))


def _attribute_text(tag: str, name: str) -> str:
    return f"{local_name(name)} of <{local_name(tag)}>"


def _describe_excess(tag: str, name: str, value: str) -> str:
    """Return the limit that a long attribute value or URI exceeds, as text; "" if it exceeds none."""
    if len(value) > LONGEST_VALUE:
        return f"{_attribute_text(tag, name)} has more than {LONGEST_VALUE} characters"
    if sum(map(value.count, _URI_CHARACTERS)) > MAX_PARTS:
        return f"{_attribute_text(tag, name)} is a URI with more than {MAX_PARTS} separators (',', '&' and '?')"
    if value.count("(") > DEEPEST_URI and _bracket_depth(value) > DEEPEST_URI:
        return f"{_attribute_text(tag, name)} is a URI with brackets nested more than {DEEPEST_URI} deep"
    return ""


def _bracket_depth(value: str) -> int:
    steps = ({"(": 1, ")": -1}.get(character, 0) for character in value)
    return max(accumulate(steps))


def _doctype_problem(document: bytes) -> SchemaProblem:
    text_before = document[: max(document.find(b"<!DOCTYPE"), 0)].decode("utf-8", "replace")
    line, column = text_before.count("\n") + 1, len(text_before) - text_before.rfind("\n")
    message = "the file has a DOCTYPE, which could include other files, so it was not checked"
    return SchemaProblem(line, column, "", message, "remove the DOCTYPE")


def element_path(element: etree._Element) -> str:
    """Return the path of an XML element from the root, such as ``beans/broker/plugins``.

    Siblings with the same name are numbered.
    """
    steps = []
    node: etree._Element | None = element
    while node is not None:
        parent = node.getparent()
        same_name_siblings = [] if parent is None else [child for child in parent if child.tag == node.tag]
        number = f"[{same_name_siblings.index(node) + 1}]" if len(same_name_siblings) > 1 else ""
        steps.append(local_name(node.tag) + number)
        node = parent
    return "/".join(reversed(steps))


def namespace_of(tag: str) -> str:
    """Return the namespace of an XML tag, or ""."""
    return tag[1:].rpartition("}")[0]


def local_name(tag: str) -> str:
    """Return the local name of an XML tag, without its namespace."""
    return tag.rpartition("}")[2]
