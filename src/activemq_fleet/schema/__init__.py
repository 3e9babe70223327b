"""Validates documents against a release's own XSD, and explains a no. Pure: bytes in."""

from __future__ import annotations

from activemq_fleet.schema._documents import BEANS, CORE, TooLargeError, UnreadableError, parse
from activemq_fleet.schema._positions import Positions, SourcePosition, text_of
from activemq_fleet.schema._problems import SchemaProblem
from activemq_fleet.schema._schema import Schema

__all__ = [
    "BEANS",
    "CORE",
    "Positions",
    "Schema",
    "SchemaProblem",
    "SourcePosition",
    "TooLargeError",
    "UnreadableError",
    "parse",
    "text_of",
]
