"""Validate XML documents, given as bytes, against the XSD of an ActiveMQ release, and explain their errors."""

from __future__ import annotations

from activemq_fleet.releases import BEANS, CORE
from activemq_fleet.schema._documents import (
    LONGEST_VALUE,
    SchemaProblem,
    UnreadableXmlError,
    XmlDocument,
    XmlTooLargeError,
    declared_encoding,
    hardened_xml_parser,
    has_utf_32_byte_order_mark,
    local_name,
    namespace_of,
    parse_xml_root_element,
    utf_16_encoding,
)
from activemq_fleet.schema._positions import SourcePosition, XmlPositions, decode_xml_document
from activemq_fleet.schema._schema import CompiledActivemqXsd
from activemq_fleet.schema._similar_names import sole_similar_name, split_name_into_words

__all__ = [
    "BEANS",
    "CORE",
    "LONGEST_VALUE",
    "CompiledActivemqXsd",
    "SchemaProblem",
    "SourcePosition",
    "UnreadableXmlError",
    "XmlDocument",
    "XmlPositions",
    "XmlTooLargeError",
    "declared_encoding",
    "decode_xml_document",
    "hardened_xml_parser",
    "has_utf_32_byte_order_mark",
    "local_name",
    "namespace_of",
    "parse_xml_root_element",
    "sole_similar_name",
    "split_name_into_words",
    "utf_16_encoding",
]
