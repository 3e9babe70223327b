"""Validate XML documents against the XSD of an ActiveMQ release and explain what is wrong; works on bytes."""

from __future__ import annotations

from activemq_fleet.releases import BEANS, CORE
from activemq_fleet.schema._documents import (
    LONGEST_VALUE,
    SchemaProblem,
    TooLargeError,
    UnreadableError,
    XmlDocument,
    declared_encoding,
    local_name,
    namespace_of,
    parse,
    utf_16_of,
    xml_parser,
)
from activemq_fleet.schema._positions import Positions, SourcePosition, text_of
from activemq_fleet.schema._schema import Schema
from activemq_fleet.schema._similar_names import sole_similar_name, words_of

__all__ = [
    "BEANS",
    "CORE",
    "LONGEST_VALUE",
    "Positions",
    "Schema",
    "SchemaProblem",
    "SourcePosition",
    "TooLargeError",
    "UnreadableError",
    "XmlDocument",
    "declared_encoding",
    "local_name",
    "namespace_of",
    "parse",
    "sole_similar_name",
    "text_of",
    "utf_16_of",
    "words_of",
    "xml_parser",
]
