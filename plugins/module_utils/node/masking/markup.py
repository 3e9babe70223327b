# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Finds secrets of XML: in attributes and elements with a secret's name, and in those whose ``name`` or ``key`` is one.

Nothing but what stands between quotes or between tags is ever masked, so that XML stays XML.
"""

from __future__ import annotations

import re

from .names import is_secret_name
from .spans import Spans, is_reference

_TOKEN = re.compile(r"<(?:(?P<close>/)?(?P<name>[A-Za-z_][\w:.-]*)|(?P<cdata>!\[CDATA\[)|!--)|-->")
_ATTRIBUTE = re.compile(r"\s+(?P<name>[A-Za-z_][\w:.-]*)\s*=\s*(?P<value>\"[^\"<]*\"|'[^'<]*')")
_TAG_END = re.compile(r"\s*(?P<empty>/?)>")
_NAMING = frozenset({"name", "key", "id", "property"})
_VALUED = frozenset({"value", "content", "default", "text"})
_BEAN = re.compile(r"#[A-Za-z_][\w.-]*")
_NEAR = 16384
"""Characters within which an element with a secret's name must end: a log may hold half of one."""


class Markup:
    """The positions of secret and of other attribute values and element texts in the XML of a text.

    ``secrets``: positions of secret values; ``others``: of all other attribute values and texts.
    """

    def __init__(self, text: str) -> None:
        self.secrets: Spans = []
        self.others: Spans = []
        self._text = text
        self._from = self._secret_until = 0
        self._is_next_secret = False
        position = 0
        while True:
            token = _TOKEN.search(text, position)
            if token is None:
                break
            position = self._read(token)
        self._flush(len(text))

    def _read(self, token: re.Match[str]) -> int:
        """Process one tag or section; return the position to go on from."""
        text, start, position = self._text, token.start(), token.end()
        if token["cdata"]:
            self._flush(start)
            end = text.find("]]>", position)
            end = len(text) if end < 0 else end
            self._from = position
            self._flush(end)
            self._from = min(len(text), end + 3)
            return self._from
        if not token["name"]:
            self._flush(start)
            self._from = position
            return position
        attributes: list[re.Match[str]] = []
        while not token["close"]:
            attribute = _ATTRIBUTE.match(text, position)
            if attribute is None:
                break
            attributes.append(attribute)
            position = attribute.end()
        end_of_tag = _TAG_END.match(text, position)
        if end_of_tag is None:
            return max(position - 1, token.end())  # no tag: text that a < is in
        self._flush(start)
        self._from = end_of_tag.end()
        is_named = self._attributes(attributes, token)
        if is_named and not token["close"] and not end_of_tag["empty"]:
            self._enter(token["name"])
        return self._from

    def _attributes(self, attributes: list[re.Match[str]], token: re.Match[str]) -> bool:
        """Process the attributes of one tag; return whether the element has a secret's name."""
        names = [a["value"][1:-1] for a in attributes if _local(a["name"]).lower() in _NAMING]
        is_named = is_secret_name(_local(token["name"])) or any(
            is_secret_name(name) for name in names if len(name) < 200
        )
        for attribute in attributes:
            start, end = attribute.start("value") + 1, attribute.end("value") - 1
            name = _local(attribute["name"])
            is_valued = name.lower() in _VALUED and (is_named or token.start() < self._secret_until)
            (self.secrets if is_secret_name(name) or is_valued else self.others).append((start, end))
            if (is_secret_name(name) or is_valued) and self._is_harmless(start, end):
                self.secrets.pop()
        return is_named

    def _enter(self, name: str) -> None:
        """Mark all text up to the closing tag as secret; without one, up to the next tag or the end of the line."""
        text, start = self._text, self._from
        close = text.find(f"</{name}", start, start + _NEAR)
        if close < 0:
            ends = [
                at for at in (text.find("<", start, start + _NEAR), text.find("\n", start, start + _NEAR)) if at >= 0
            ]
            close = min(ends, default=min(len(text), start + _NEAR))
            if close > start:
                self._flush(close, secret=True)
                self._from = close
            return
        self._secret_until = max(self._secret_until, close)

    def _flush(self, end: int, secret: bool = False) -> None:
        """Add the text before ``end`` that was not added yet to ``secrets`` or ``others``."""
        text, start = self._text, self._from
        if end <= start:
            return
        if text[start:end].isspace():
            return
        if not secret and not self._is_next_secret and start >= self._secret_until:
            self.others.append((start, end))
            # <key>password</key><value>…</value>
            self._is_next_secret = (
                end - start < 200 and is_secret_name(text[start:end].strip()) and text[start - 1] == ">"
            )
            return
        self._is_next_secret = False
        while start < end and text[start].isspace():
            start += 1
        while end > start and text[end - 1].isspace():
            end -= 1
        if start < end and not self._is_harmless(start, end):
            self.secrets.append((start, end))

    def _is_harmless(self, start: int, end: int) -> bool:
        value = self._text[start:end]
        return is_reference(value) or _BEAN.fullmatch(value) is not None


def _local(name: str) -> str:
    return name.rpartition(":")[2]
