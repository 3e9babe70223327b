"""Find the positions of start tags, attributes and parts of values in a document.

libxml2 reports the line on which the start tag of an element *ends*. For a start tag of ten lines, that is ten lines
too late. Because the document is well-formed, a pattern finds its tags, and every position is exact: no attribute value
contains a ``<``.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

from lxml import etree

from activemq_fleet.findings import TextEdit

_VALUE = r"\"[^\"]*\"|'[^']*'"
_MARKUP = re.compile(
    rf"<!--.*?-->|<!\[CDATA\[.*?\]\]>|<\?.*?\?>|</[^>]*>|<(?P<name>[^\s/>!?]+)(?P<rest>(?:\s+[^\s=]+\s*=\s*(?:{_VALUE}))*)\s*/?>",
    re.DOTALL,
)
_START_TAG = re.compile(r"<(?:!--.*?-->|!\[CDATA\[.*?\]\]>|\?.*?\?>|(?P<tag>[^/!?]))", re.DOTALL)
_ATTRIBUTE = re.compile(rf"([^\s=]+)\s*=\s*({_VALUE})", re.DOTALL)
# The source of one character of a parsed value: a reference, a line end, or the character itself.
_CHARACTER = re.compile(r"&#x[0-9A-Fa-f]+;|&#[0-9]+;|&[A-Za-z]\w*;|\r\n|.", re.DOTALL)

# The rest of a line that contains only comments, which belong to the preceding tag.
_COMMENTS_ON_LINE = re.compile(r"(?:[ \t]*<!--(?:(?!-->).)*-->)*[ \t]*(?=[\r\n])", re.DOTALL)
_BLANK_OR_COMMENTS = re.compile(r"(?:\s|<!--.*?-->|<\?.*?\?>)*", re.DOTALL)

SourcePosition = tuple[int, int]


class XmlPositions:
    """The positions of the start tags and attributes in an XML document.

    A position is (line, column), both counted from 1.
    """

    def __init__(self, text: str, root: etree._Element) -> None:
        self._text = text
        self._offsets_by_element = dict(zip(root.iter(etree.Element), self._start_offsets(), strict=False))
        self._cached_value_offsets: tuple[SourcePosition, list[int]] = (-1, -1), []

    def element_position(self, element: etree._Element) -> SourcePosition:
        """Return the position at which an XML element's start tag begins."""
        begin = self._offsets_by_element.get(element)
        return (1, 1) if begin is None else self._position_at(begin)

    def attribute_position(self, element: etree._Element, name: str) -> SourcePosition:
        """Return the line and column of an attribute's name in an XML document, given its element.

        Without such an attribute, it is the position of the element.
        """
        match = self._attribute_match(element, name)
        return self._position_at(match.start(1)) if match else self.element_position(element)

    def value_position(self, element: etree._Element, name: str, part: str = "") -> SourcePosition:
        """Return the line and column of a part of an XML attribute's value in the document.

        Without ``part``, it is the position of the attribute.
        """
        match = self._attribute_match(element, name)
        value = element.get(_attribute_key(element, name), "")
        index = value.find(part) if part else -1
        if match is None or index < 0:
            return self.attribute_position(element, name)
        begin = match.start(2) + 1
        starts = self._character_offsets(begin, match.end(2) - 1)
        return self._position_at(starts[index] if index < len(starts) else begin)

    def element_renaming_edits(self, element: etree._Element, name: str) -> tuple[TextEdit, ...]:
        """Return the text edits that rename an XML element, in its start tag and its end tag."""
        tag = self._start_tag_match(element)
        if tag is None or tag["name"].rpartition(":")[2] != etree.QName(element).localname:
            return ()
        end = self._end_tags[tag.start()]
        spans = [(tag.start("name"), tag["name"])]
        if end.start() != tag.start():
            spans.append((end.start() + 2, end[0][2:-1].rstrip()))
        length = len(etree.QName(element).localname)
        ends = [begin + len(qualified) for begin, qualified in spans]
        return tuple(TextEdit(end - length, end, name) for end in ends)

    def attribute_renaming_edit(self, element: etree._Element, old_name: str, name: str) -> tuple[TextEdit, ...]:
        """Return the text edit that renames an attribute of an XML element.

        The result is () if the element has attributes with both names.
        """
        match = self._attribute_match(element, old_name)
        if match is None or match[1] != old_name or name in element.attrib:
            return ()
        return (TextEdit(match.start(1), match.end(1), name),)

    def value_replacement_edit(
        self, element: etree._Element, name: str, part: str, text: str, length: int | None = None
    ) -> tuple[TextEdit, ...]:
        """Return the text edit that replaces a part of an XML attribute's value.

        With ``length``, only the first ``length`` characters of the part are replaced.
        """
        match = self._attribute_match(element, name)
        index = element.get(_attribute_key(element, name), "").find(part) if part else -1
        if match is None or index < 0:
            return ()
        starts = [*self._character_offsets(match.start(2) + 1, match.end(2) - 1), match.end(2) - 1]
        end = index + (len(part) if length is None else length)
        if end >= len(starts):
            return ()
        return (TextEdit(starts[index], starts[end], text),)

    def child_reordering_edit(self, parent: etree._Element, names: Sequence[str]) -> tuple[TextEdit, ...]:
        """Return the text edit that sorts the children of an XML element in the order of the given names.

        Each child moves with the comments before it. Comments after a child on the same line move with it, too. () for
        text between the children, for a child that is not in ``names``, and for two of a name.
        """
        tag = self._start_tag_match(parent)
        children = list(parent.iterchildren(etree.Element))
        order = [etree.QName(child).localname for child in children]
        if tag is None or not set(order) <= set(names) or len(set(order)) < len(order):
            return ()
        begin = self._offset_after_comments(tag.end())
        pieces: list[tuple[str, str]] = []  # the white space, which does not move, and the element, which moves
        bounds = [begin]
        for child in children:
            child_begin = self._offsets_by_element[child]
            if not _BLANK_OR_COMMENTS.fullmatch(self._text, bounds[-1], child_begin):
                return ()
            bounds.append(self._offset_after_comments(self._end_tags[child_begin].end()))
            piece = self._text[bounds[-2] : bounds[-1]]
            pieces.append((piece[: len(piece) - len(piece.lstrip())], piece.lstrip()))
        ranks = sorted(range(len(order)), key=lambda index: names.index(order[index]))
        moved = [index for index, rank in enumerate(ranks) if index != rank]
        if not moved:
            return ()
        first, last = moved[0], moved[-1] + 1
        text = "".join(pieces[index][0] + pieces[ranks[index]][1] for index in range(first, last))
        return (TextEdit(bounds[first], bounds[last], text),)

    def _offset_after_comments(self, offset: int) -> int:
        match = _COMMENTS_ON_LINE.match(self._text, offset)
        return match.end() if match else offset

    @cached_property
    def _end_tags(self) -> dict[int, re.Match[str]]:
        """The end tag of each element by the offset of its start tag; for an empty tag, it is the tag itself."""
        ends: dict[int, re.Match[str]] = {}
        open_tags: list[int] = []
        for match in _MARKUP.finditer(self._text):
            if match["name"]:
                if match[0].endswith("/>"):
                    ends[match.start()] = match
                else:
                    open_tags.append(match.start())
            elif match[0].startswith("</"):
                ends[open_tags.pop()] = match
        return ends

    def _character_offsets(self, begin: int, end: int) -> list[int]:
        """Return the offset of each character of a value; the offsets of the latest value are cached."""
        if self._cached_value_offsets[0] != (begin, end):
            characters = _CHARACTER.finditer(self._text, begin, end)
            self._cached_value_offsets = (begin, end), [match.start() for match in characters]
        return self._cached_value_offsets[1]

    def _attribute_match(self, element: etree._Element, name: str) -> re.Match[str] | None:
        tag = self._start_tag_match(element)
        if tag is None:
            return None
        local = name.rpartition("}")[2]
        attributes = _ATTRIBUTE.finditer(self._text, tag.start("rest"), tag.end("rest"))
        return next((match for match in attributes if match[1].rpartition(":")[2] == local), None)

    def _start_offsets(self) -> list[int]:
        return [match.start() for match in _START_TAG.finditer(self._text) if match["tag"]]

    def _start_tag_match(self, element: etree._Element) -> re.Match[str] | None:
        begin = self._offsets_by_element.get(element)
        return None if begin is None else _MARKUP.match(self._text, begin)

    @cached_property
    def _line_starts(self) -> list[int]:
        lines = self._text.replace("\r\n", " \n").replace("\r", "\n").split("\n")
        return [0, *accumulate([len(line) + 1 for line in lines[:-1]])]

    def _position_at(self, offset: int) -> SourcePosition:
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1


def decode_xml_document(document: bytes, encoding: str | None, errors: str = "replace") -> str:
    """Return the text of an XML document that is given as bytes, without its byte order mark.

    UTF-16 is detected; other documents have the given encoding, or UTF-8 if it is None. ``errors`` is the error handler
    of ``bytes.decode``.
    """
    if document.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        encoding = "utf-16"
    elif document.startswith((b"<\0", b"\0<")):
        encoding = "utf-16-le" if document.startswith(b"<") else "utf-16-be"
    text = document.decode(encoding or "utf-8", errors)
    return text.removeprefix("\ufeff")


def _attribute_key(element: etree._Element, name: str) -> str:
    local = name.rpartition("}")[2]
    return next((str(key) for key in element.attrib if str(key).rpartition("}")[2] == local), name)
