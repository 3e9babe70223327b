# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Finds secrets whose variable is known wherever they stand, escaped and encoded as files and logs do it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape

from .spans import MARK, UNKNOWN, Span

_HEAD = 6
"""Characters of a form that are looked up at every position; shorter forms are not looked for."""
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
_BEHIND = re.compile(r"[\s\"'`&<>;,)}\]|\\]|\Z")


@dataclass(frozen=True)
class Secret:
    """A secret value, the name of the inventory variable that holds it, and the text before it on its line."""

    value: str = field(repr=False)
    variable: str
    before: str = ""


class KnownSecrets:
    """A set of secrets of known value and variable, which finds them in texts, also escaped or encoded.

    Values are as files hold them, escapes included.
    """

    def __init__(self, secrets: Iterable[Secret] = ()) -> None:
        self._by_value: dict[str, list[Secret]] = {}
        for secret in secrets:
            if secret.value:
                self._by_value.setdefault(secret.value, []).append(secret)
        self._values: dict[str, str] = {}
        self._by_head: dict[str, list[str]] = {}
        self._encoded: set[str] = set()
        for value in self._by_value:
            if is_distinct(value):
                for form in escaped_forms(value):
                    if is_distinct(form):
                        self._values.setdefault(form, value)
                for form in encoded_forms(value):
                    if len(form) >= _HEAD:
                        self._values.setdefault(form, value)
                        self._encoded.add(form)
        for form in sorted(self._values, key=lambda form: (-len(form), form)):
            self._by_head.setdefault(form[:_HEAD], []).append(form)
        self._indistinct = sorted((value for value in self._by_value if not is_distinct(value)), key=len, reverse=True)

    def mark_for(self, value: str, before: str = "") -> str:
        """Return the mark that replaces a secret value: ``@VARIABLE@`` for a known value, else ``@secret@``.

        ``before``: the text before the value on its line.
        """
        found = self._by_value.get(self._values.get(value, value))
        if not found:
            return UNKNOWN
        before = before.strip()
        same = [secret for secret in found if secret.before.strip() == before]
        same = same or [secret for secret in found if secret.before.strip() and before.endswith(secret.before.strip())]
        return f"@{(same or found)[0].variable}@"

    def spans(self, text: str) -> dict[int, Span]:
        """Return start -> (start, end) of every known secret in a text, except secrets that look like plain words."""
        found: dict[int, Span] = {}
        heads, position = self._by_head, 0
        if not heads:
            return found
        for start in [at for at in range(len(text) - _HEAD + 1) if text[at : at + _HEAD] in heads]:
            if start < position:
                continue
            for form in heads[text[start : start + _HEAD]]:
                if text.startswith(form, start):
                    position = start + len(form)
                    found[start] = (start, position)
                    break
        return found

    def widened_base64_span(self, text: str, span: Span) -> Span:
        """Return a secret's (start, end), widened for base64 by the characters around it that share bits with it."""
        start, end = span
        if text[start:end] not in self._encoded:
            return span
        for _ in range(2):
            start -= start > 0 and text[start - 1] in _BASE64
            end += end < len(text) and text[end] in _BASE64
        while end < len(text) and text[end] == "=" and end < span[1] + 4:
            end += 1
        return start, end

    def word_like_secret_end(self, text: str, start: int, end: int) -> int:
        """Return the end of the known word-like secret that begins at ``start`` and is a whole
        value; -1 without one.
        """
        for value in self._indistinct:
            if text.startswith(value, start, end) and _BEHIND.match(text, start + len(value), end):
                return start + len(value)
        return -1

    @property
    def word_like_count(self) -> int:
        """The number of known secrets that look like plain words, which are masked only as values of secret names."""
        return len(self._indistinct)


NOBODY = KnownSecrets()


def is_distinct(value: str) -> bool:
    """Return whether a secret is long or unusual enough that it does not occur in texts by chance."""
    if value.isalpha() and (value.islower() or value.isupper() or value.istitle()):
        return len(value) >= 16
    return len(value) >= (12 if value.isdigit() else _HEAD)


def escaped_forms(value: str) -> set[str]:
    """Return the forms of a value when escaped for XML, JSON, properties, shells and URIs, once or twice."""
    plain = re.sub(r"\\(.)", r"\1", value)
    once = {value, plain}
    for form in (value, plain):
        once |= set(_escapes(form))
    return once | {twice for form in once for twice in _escapes(form)}


def _escapes(value: str) -> Iterator[str]:
    yield escape(value)
    yield escape(value, {'"': "&quot;"})
    yield escape(value, {'"': "&quot;", "'": "&apos;"})
    yield escape(value, {'"': "&#34;", "'": "&#39;"})
    yield escape(value, {'"': "&quot;", "'": "&#39;"})
    yield escape(value, {'"': "&#x22;", "'": "&#x27;"})
    yield "".join(f"&#{ord(c)};" if ord(c) > 126 or c in "<>&\"'" else c for c in value)
    for safe in ("", "/", "!*'()", "!$&'()*+,;=:@/?-._~"):
        encoded = quote(value, safe=safe, errors="replace")
        yield encoded
        yield re.sub("%..", lambda match: match[0].lower(), encoded)
    yield quote_plus(value, errors="replace")
    for text in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield text
        yield text.replace("/", r"\/")
        for more in ("<>&='", "<>&", "<>&'", "<>&='+"):
            lower = "".join(f"\\u{ord(c):04x}" if c in more else c for c in text)
            yield lower
            yield re.sub(r"\\u(....)", lambda match: "\\u" + match[1].upper(), lower)
    yield value.replace("\\", "\\\\").replace("'", "\\'")
    yield value.replace("'", "''")
    yield value.replace("'", "'\\''")
    yield value.replace("'", "'\"'\"'")
    yield re.sub(r"([=:#! \\])", r"\\\1", value)
    yield re.sub(r"([^\w@%+=:,./-])", r"\\\1", value)


def encoded_forms(value: str) -> set[str]:
    """Return the forms of a value in base64, at each of its three alignments, and in hexadecimal digits."""
    plain = re.sub(r"\\(.)", r"\1", value)
    found: set[str] = set()
    for content in {
        text.encode(encoding, "replace") for text in (value, plain) for encoding in ("utf-8", "latin-1", "utf-16-le")
    }:
        for lead in range(3):
            text = base64.b64encode(b"\0" * lead + content).decode()
            first = (lead * 8 + 5) // 6
            core = text[first : (lead + len(content)) * 8 // 6]
            found |= {core, core.replace("+", "-").replace("/", "_"), quote(core, safe="")}
        for digits in (content.hex(), content.hex(":"), content.hex(" "), "".join(f"%{byte:02x}" for byte in content)):
            found |= {digits, digits.upper()}
    return found


def secrets_of_file(masked: str, content: str) -> list[Secret]:
    """Return the secrets of a file, by comparing its text with marks ``@VARIABLE@`` to the text that was deployed.

    Only lines that are equal but for the secrets are used.
    """
    found = []
    for shown, real in zip(masked.split("\n"), content.split("\n")):  # noqa: B905 -- strict= is of Python 3.10
        pieces = re.split(rf"({MARK})", shown)
        if len(pieces) == 1:
            continue
        pattern = "".join("(.*)" if number % 2 else re.escape(piece) for number, piece in enumerate(pieces))
        match = re.fullmatch(pattern, real)
        if match:
            variables = [piece.strip("@") for piece in pieces[1::2]]
            found += [
                Secret(value, variable, before)
                for value, variable, before in zip(match.groups(), variables, pieces[::2])  # noqa: B905
                if value
            ]
    return found
