"""Find the positions of start tags, attributes and parts of values in a document.

libxml2 gives an element the line on which its start tag *ends*, which for a broker's tag of ten
lines is ten lines off. The document is known to be well-formed, so its tags can be told
apart by a pattern, and every position is exact.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from functools import cached_property

from lxml import etree

_VALUE = r"\"[^\"]*\"|'[^']*'"
_MARKUP = re.compile(
    rf"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|</[^>]*>|<(?P<name>[^\s/>!?]+)(?P<rest>(?:\s+[^\s=]+\s*=\s*(?:{_VALUE}))*)\s*/?>",
    re.DOTALL,
)
_ATTRIBUTE = re.compile(rf"([^\s=]+)\s*=\s*({_VALUE})", re.DOTALL)
# One character of the value that a parser hands out: a reference, a line end, or itself.
_CHARACTER = re.compile(r"&#x[0-9A-Fa-f]+;|&#[0-9]+;|&[A-Za-z]\w*;|\r\n|.", re.DOTALL)
_LINE_END = re.compile(r"\r\n|\r|\n")

SourcePosition = tuple[int, int]


class Positions:
    """The positions of start tags and attributes in an XML document: (line, column), both from 1."""

    def __init__(self, document: bytes, root: etree._Element) -> None:
        self._text = text_of(document, root.getroottree().docinfo.encoding)
        self._tags = dict(zip(root.iter(etree.Element), self._start_tags(), strict=False))
        self._last_value: tuple[SourcePosition, list[int]] = (-1, -1), []

    def of_element(self, element: etree._Element) -> SourcePosition:
        """Return the position of the ``<`` of an element's start tag."""
        tag = self._tags.get(element)
        return self._place(tag.start()) if tag else (1, 1)

    def of_attribute(self, element: etree._Element, name: str) -> SourcePosition:
        """Return the position of an attribute's name, or of the element when it has no such attribute."""
        match = self._attribute(element, name)
        return self._place(match.start(1)) if match else self.of_element(element)

    def of_value(self, element: etree._Element, name: str, part: str = "") -> SourcePosition:
        """Return the position of ``part`` in an attribute's value; without ``part``, of the attribute."""
        match = self._attribute(element, name)
        value = element.get(_key(element, name), "")
        index = value.find(part) if part else -1
        if match is None or index < 0:
            return self.of_attribute(element, name)
        begin = match.start(2) + 1
        starts = self._starts_of_characters(begin, match.end(2) - 1)
        return self._place(starts[index] if index < len(starts) else begin)

    def _starts_of_characters(self, begin: int, end: int) -> list[int]:
        """Return the offset of each character of a value; the offsets of the latest value are cached."""
        if self._last_value[0] != (begin, end):
            characters = _CHARACTER.finditer(self._text, begin, end)
            self._last_value = (begin, end), [match.start() for match in characters]
        return self._last_value[1]

    def _attribute(self, element: etree._Element, name: str) -> re.Match[str] | None:
        tag = self._tags.get(element)
        if tag is None:
            return None
        wanted = name.rpartition("}")[2]
        attributes = _ATTRIBUTE.finditer(self._text, tag.start("rest"), tag.end("rest"))
        return next((match for match in attributes if match[1].rpartition(":")[2] == wanted), None)

    def _start_tags(self) -> list[re.Match[str]]:
        return [match for match in _MARKUP.finditer(self._text) if match["name"]]

    @cached_property
    def _lines(self) -> list[int]:
        return [0, *(match.end() for match in _LINE_END.finditer(self._text))]

    def _place(self, offset: int) -> SourcePosition:
        line = bisect_right(self._lines, offset)
        return line, offset - self._lines[line - 1] + 1


def text_of(document: bytes, encoding: str | None, errors: str = "replace") -> str:
    """Return the characters of an XML document given as bytes, without a byte order mark."""
    if document.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif document.startswith((b"<\0", b"\0<")):
        encoding = "utf-16-le" if document.startswith(b"<") else "utf-16-be"
    text = document.decode(encoding or "utf-8", errors)
    return text.removeprefix("\ufeff")


def _key(element: etree._Element, name: str) -> str:
    wanted = name.rpartition("}")[2]
    return next((str(key) for key in element.attrib if str(key).rpartition("}")[2] == wanted), name)
