# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Masks secrets that the syntax of a file shows: lists of accounts and passwords, properties, XML, tables."""

from __future__ import annotations

import os
import re
import typing

from .known import KnownSecrets
from .marks import is_secret_free_value
from .names import is_secret_name

_SYNTAX_BY_NAME = tuple(
    (kind, re.compile(pattern, re.DOTALL))
    for kind, pattern in (
        ("realm", r".*realm.*\.properties"),
        ("users", r"(?:.*[-_.])?users?(?:[-_.].*)?\.properties"),
        ("credentials", r"credentials.*"),
        ("jmx", r".*jmx.*\.password|management\.password"),
        ("whole", r".*\.(?:password|passwd|secret|pwd|htpasswd|token)"),
        ("shiro", r"shiro\.ini"),
        ("xml", r".*\.(?:xml|xsd|xslt|html|xsl|xhtml)"),
        ("yaml", r".*\.ya?ml"),
        ("properties", r".*\.(?:properties|conf|cfg|ini|env|cnf|toml)"),
    )
)
"""The syntax of a configuration file, and the lower-case names of such files; the first that fits counts."""
_LOGICAL_REST = r"(?:[^\n\\]|\\(?:\r?\n|.|\Z))+"
# A commented line without blanks in its name and value; other comments are prose.
_COMMENTED_ACCOUNT = r"[ \t]*[#!][ \t#!]*[^=:\s#!][^=:\s]{0,400}[ \t]*[=:][ \t]*([^\s,]+)[ \t\r]*(?:,[^\n]*)?$"
_REALM = re.compile(
    rf"^(?:{_COMMENTED_ACCOUNT}|[ \t]*[^=:\s#!][^=:\n]{{0,400}}[=:][ \t]*((?:[^,\n\\]|\\(?:\r?\n|.|\Z))+))",
    re.MULTILINE,
)
_PROPERTY = re.compile(
    r"^(?:(?P<comment>[ \t\f]*[#!;][#!; \t\f]*)|[ \t\f]*)(?:export[ \t]+|-[ \t]+)?"
    r"[\"']?(?P<name>(?:[^\s=:\\\"'{(<,]|\\.){1,400})[\"']?"
    rf"(?:[ \t\f]*[=:][ \t\f]*|(?(comment)(?!)|[ \t\f]+(?![ \t\f=:])))"
    rf"(?!\[|\{{|\"{{3}}|'{{3}}|\"[^\"\n]*$|'[^'\n]*$|[|>][+-]?\d?[+-]?[ \t\r]*$)({_LOGICAL_REST})",
    re.MULTILINE,
)
_LINE_SYNTAX = {
    "whole": re.compile(r"^([^\n]+)", re.MULTILINE),
    "jmx": re.compile(r"^[# \t]*[^\s#]+[ \t]+(\S+)[ \t\r]*$", re.MULTILINE),
    "realm": _REALM,
    "users": re.compile(
        rf"^(?:{_COMMENTED_ACCOUNT}|[ \t]*[^=:\s#!][^=:\n]{{0,400}}[=:][ \t]*({_LOGICAL_REST}))", re.MULTILINE
    ),
    "credentials": re.compile(
        rf"^(?:{_COMMENTED_ACCOUNT}|[ \t]*(?![^=:\n]{{0,400}}(?:user(?:name)?|name|realm|role|group)s?[ \t]*[=:])"
        rf"[^=:\s#!][^=:\n]{{0,400}}[=:][ \t]*({_LOGICAL_REST}))",
        re.MULTILINE | re.IGNORECASE,
    ),
    "properties": _PROPERTY,
    "shiro": _PROPERTY,
}
_SHIRO_USERS = re.compile(r"^[ \t]*\[users\][^\n]*(?:\n(?![ \t]*\[)[^\n]*)*", re.MULTILINE)


def syntax_of_file(path: str) -> str:
    """Return the syntax of a configuration file by its name, such as properties, xml or yaml.

    Other results are users, realm and, for an unknown syntax, ``file``.
    """
    name = os.path.basename(path).lower()
    return next((kind for kind, pattern in _SYNTAX_BY_NAME if pattern.fullmatch(name)), "file")


def mask_lines(text: str, known: KnownSecrets, kind: str) -> str:
    """Return the text of a configuration file with the secrets in its lines masked.

    Each line is an account, a password or a property.
    """

    def mask_match(match: re.Match[str]) -> str:
        name = match.groupdict().get("name")
        if name and not is_secret_name(name.replace("\\", "")):
            return match[0]
        start, end = match.span(match.lastindex or 0)
        masked = known.mask_secret_in_span(match.string, start, end, is_certain=name is None and kind != "credentials")
        return match.string[match.start() : start] + masked + match.string[end : match.end()]

    if kind == "shiro":
        text = _SHIRO_USERS.sub(lambda users: _REALM.sub(mask_match, users[0]), text)
    return _LINE_SYNTAX[kind].sub(mask_match, text) if kind in _LINE_SYNTAX else text


_TAG = re.compile(
    r"<(?P<close>/)?(?P<name>[A-Za-z_][\w:.-]*)(?P<attributes>(?:\s+[A-Za-z_][\w:.-]*\s*=\s*(?:\"[^\"<]*\"|'[^'<]*'))*)"
    r"\s*(?P<empty>/)?>|<!\[CDATA\[(?P<cdata>(?:[^\]]+|\](?!\]>))*)(?:\]\]>)?|<!--|-->"
)
_ATTRIBUTE = re.compile(r"(?P<name>[A-Za-z_][\w:.-]*)\s*=\s*(?:\"(?P<double>[^\"<]*)\"|'(?P<single>[^'<]*)')")
_NAME_ATTRIBUTES = frozenset({"name", "key", "id", "property"})
_VALUE_ATTRIBUTES = frozenset({"value", "content", "default", "text"})
_BEAN = re.compile(r"#[A-Za-z_][\w.-]*")
_MAX_ELEMENT_CHARACTERS = 16384
"""Characters within which an element with a secret's name must end: a log may contain half of one."""

Mask = typing.Callable[[str, str], str]
"""(text, the text before it on its line) -> the text with its secrets masked."""


def mask_markup(text: str, known: KnownSecrets, mask_other: Mask) -> str:
    """Return a text with the secrets in its XML markup masked.

    These are attributes and elements with a secret's name, or named by one. ``mask_other`` masks every other attribute
    value and text. Nothing but what is between quotes or between tags is masked, so that XML stays XML.
    """
    return _Markup(text, known, mask_other).mask()


class _Markup:
    """A reader of the tags of an XML text that masks secrets.

    ``_secret_until``: where the element ends whose texts are all secret.
    """

    def __init__(self, text: str, known: KnownSecrets, mask_other: Mask) -> None:
        self._text, self._known, self._mask_other = text, known, mask_other
        self._pieces: list[str] = []
        self._copied_until = self._secret_until = 0
        self._is_next_secret = False

    def mask(self) -> str:
        for tag in _TAG.finditer(self._text):
            self._mask_text_until(tag.start())
            if tag["cdata"] is not None:
                self._copied_until = tag.start("cdata")
                self._pieces.append(tag[0][: self._copied_until - tag.start()])
                self._mask_text_until(tag.end("cdata"))
                self._copy_until(tag.end())
            elif tag["name"]:
                is_named = self._mask_attributes(tag)
                if is_named and not tag["close"] and not tag["empty"]:
                    self._mark_element_secret(tag["name"], tag.end())
            else:
                self._copy_until(tag.end())
        self._mask_text_until(len(self._text))
        return "".join(self._pieces)

    def _copy_until(self, end: int) -> None:
        self._pieces.append(self._text[self._copied_until : end])
        self._copied_until = end

    def _add_masked(self, start: int, end: int, *, is_secret: bool) -> None:
        """Add a value or text of the XML markup, masked; a reference to a bean, ``#bean``, is not a secret."""
        self._copy_until(start)
        segment = self._text[start:end]
        if not is_secret:
            before = self._text[max(0, start - 400) : start].rpartition("\n")[2]
            self._pieces.append(self._mask_other(segment, before))
        elif is_secret_free_value(segment) or _BEAN.fullmatch(segment.strip()):
            self._pieces.append(segment)
        else:
            self._pieces.append(self._known.mask_secret_in_span(self._text, start, end))
        self._copied_until = end

    def _mask_attributes(self, tag: re.Match[str]) -> bool:
        """Mask the attributes of a tag; return whether the element has a secret's name."""
        attributes = list(_ATTRIBUTE.finditer(self._text, tag.start("attributes"), tag.end("attributes")))
        is_named = is_secret_name(_local_name(tag["name"]))
        for attribute in attributes:
            if _local_name(attribute["name"]).lower() in _NAME_ATTRIBUTES:
                is_named = is_named or is_secret_name((attribute["double"] or attribute["single"] or "")[:200])
        for attribute in attributes:
            name = _local_name(attribute["name"])
            is_value = name.lower() in _VALUE_ATTRIBUTES and (is_named or tag.start() < self._secret_until)
            quoted = attribute.span("single" if attribute["double"] is None else "double")
            self._add_masked(*quoted, is_secret=is_value or is_secret_name(name))
        self._copy_until(tag.end())
        return is_named

    def _mark_element_secret(self, name: str, start: int) -> None:
        """Treat texts as secret up to the closing tag; without one, up to the next tag or the end of the line."""
        text, limit = self._text, start + _MAX_ELEMENT_CHARACTERS
        close = text.find(f"</{name}", start, limit)
        if close < 0:
            ends = [at for at in (text.find("<", start, limit), text.find("\n", start, limit)) if at >= 0]
            close = min([*ends, len(text), limit])
            self._add_masked(start, close, is_secret=True)
        self._secret_until = max(self._secret_until, close)

    def _mask_text_until(self, end: int) -> None:
        """Mask the text before ``end``; one below ``<key>password</key>`` is secret."""
        start, segment = self._copied_until, self._text[self._copied_until : end]
        if not segment.strip():
            self._copy_until(end)
            return
        is_secret = self._is_next_secret or start < self._secret_until
        self._is_next_secret = (
            not is_secret
            and self._text[start - 1 : start] == ">"
            and len(segment) < 200
            and is_secret_name(segment.strip())
        )
        self._add_masked(start, end, is_secret=is_secret)


def _local_name(name: str) -> str:
    return name.rpartition(":")[2]


_DELIMITERS = tuple(
    re.compile(rf'"[^"\n]*"|(?P<delimiter>{pattern})') for pattern in (r"\|", r"\t", ";", ",", "[ ]{2,}")
)
"""The delimiters of the cells of a line, one kind per table; a quoted cell may also contain them."""
_HEADING = re.compile(r"[\w .\"'|;,\t-]{3,1000}\r?")
_CELL_NAME = re.compile(r"[\"']?[A-Za-z][\w .-]{0,39}[\"']?")
_SEPARATOR_LINE = re.compile(r"[-+|:=\s]+")
_RECORD = re.compile(r"\d{4}-\d\d-\d\d|\s*(?:TRACE|DEBUG|INFO|WARN|ERROR|FATAL)\b")


def mask_password_columns_of_tables(text: str, known: KnownSecrets) -> str:
    """Return a text with the secrets in its tables masked: the cells below a heading such as ``password``.

    The tables are in CSV, Markdown or aligned columns. A heading is a line of names alone. A row has as many cells as
    the heading. A record of a log is no row: an account that writes a heading into a log hides no record with it.
    """
    lines = text.split("\n")
    table: _Heading | None = None
    for number, line in enumerate(lines):
        if table and _SEPARATOR_LINE.fullmatch(line):
            continue
        cells = _cell_spans(line, table.delimiter) if table else []
        if table and len(cells) == table.width and not _RECORD.match(line):
            for column in reversed(table.secret_columns):
                start, end = cells[column]
                line = line[:start] + known.mask_secret_in_span(line, start, end) + line[end:]
            lines[number] = line
        else:
            table = _parse_heading(line) if _HEADING.fullmatch(line) else None
    return "\n".join(lines)


class _Heading(typing.NamedTuple):
    """The heading of a table in a text, whose columns may be secrets."""

    delimiter: re.Pattern[str]
    width: int
    secret_columns: tuple[int, ...]


def _parse_heading(line: str) -> _Heading | None:
    """Return the heading of a table that a line is; None for a line that is none, or names no secret."""
    for delimiter in _DELIMITERS:
        names = [line[slice(*cell)].strip() for cell in _cell_spans(line, delimiter)]
        if len(names) > 1 and all(not name or _CELL_NAME.fullmatch(name) for name in names):
            columns = tuple(number for number, name in enumerate(names) if is_secret_name(name.strip("\"'")))
            if columns:
                return _Heading(delimiter, len(names), columns)
    return None


def _cell_spans(line: str, delimiter: re.Pattern[str]) -> list[tuple[int, int]]:
    """Return the (start, end) of each cell of a line."""
    edges = [0]
    for match in delimiter.finditer(line):
        edges += match.span() if match["delimiter"] else ()
    edges.append(len(line))
    return list(zip(edges[::2], edges[1::2]))
