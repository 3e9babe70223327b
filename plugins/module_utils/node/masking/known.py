# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Finds secrets whose variable is known wherever they occur, escaped and encoded as files and logs do it."""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from urllib.parse import quote, quote_plus
from xml.sax.saxutils import escape

from .marks import MARK, UNKNOWN, is_secret_free_value

_HEAD_LENGTH = 6
"""Number of characters of a form that are compared at every position; shorter forms are not searched."""
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
_AFTER_VALUE = re.compile(r"[\s\"'`&<>;,)}\]|\\]|\Z")
_MARK = re.compile(MARK)
_XML_QUOTES = (
    ('"', "'"),
    ("&quot;", "'"),
    ("&quot;", "&apos;"),
    ("&#34;", "&#39;"),
    ("&quot;", "&#39;"),
    ("&#x22;", "&#x27;"),
)


@dataclass(frozen=True)
class KnownSecret:
    """A known secret, with the inventory variable that holds it.

    ``before`` is the text before the secret on its line.
    """

    value: str = field(repr=False)
    variable: str
    before: str = ""


def is_distinctive_secret(value: str) -> bool:
    """Return whether a secret is distinctive: so long or unusual that it does not occur in texts by chance."""
    if value.isalpha() and (value.islower() or value.isupper() or value.istitle()):
        return len(value) >= 16
    return len(value) >= (12 if value.isdigit() else _HEAD_LENGTH)


class KnownSecrets:
    """A set of known secrets, by which secrets in texts are masked.

    Each has a known value and variable. They are found also escaped or encoded. Values are as files hold them, escapes
    included.
    """

    def __init__(self, secrets: Iterable[KnownSecret] = ()) -> None:
        self._by_value: dict[str, list[KnownSecret]] = {}
        for secret in secrets:
            if secret.value:
                self._by_value.setdefault(secret.value, []).append(secret)
        self._values: dict[str, str] = {}
        self._encoded: set[str] = set()
        for value in filter(is_distinctive_secret, self._by_value):
            self._values.update((form, value) for form in _escaped_forms(value) if is_distinctive_secret(form))
            encoded = {form for form in _encoded_forms(value) if len(form) >= _HEAD_LENGTH}
            self._values.update((form, value) for form in encoded if form not in self._values)
            self._encoded |= encoded
        self._by_head: dict[str, list[str]] = {}
        for form in sorted(self._values, key=lambda form: (-len(form), form)):
            self._by_head.setdefault(form[:_HEAD_LENGTH], []).append(form)
        self._word_like = sorted(
            (value for value in self._by_value if not is_distinctive_secret(value)), key=len, reverse=True
        )

    def mask_secret_in_span(
        self, text: str, start: int, end: int, before: str = "", *, is_certain: bool = False
    ) -> str:
        """Return only the part ``text[start:end]``, with the secret in it replaced by a mark, such as ``@secret@``.

        Blanks and quotes around the value stay; so does a value that contains no secret. ``before``: text that is
        located before ``text`` on the same line. ``is_certain``: even ``none`` is a secret.
        """
        outer_span = start, end
        value = text[start:end].strip()
        start = text.index(value, start)
        if len(value) > 1 and value[0] in "\"'" and value[-1] == value[0]:
            value, start = value[1:-1], start + 1
        if not value or (_MARK.fullmatch(value) if is_certain else is_secret_free_value(value)):
            return text[slice(*outer_span)]
        line_before = before + text[max(0, start - 400) : start]
        mark = self.mark_for_secret(value, line_before.rpartition("\n")[2])
        return text[outer_span[0] : start] + mark + text[start + len(value) : outer_span[1]]

    def mark_for_secret(self, value: str, before: str = "") -> str:
        """Return the mark that replaces a secret in a text: ``@VARIABLE@`` for a known secret, else ``@secret@``.

        ``before``: the text before the value on its line.
        """
        secrets = self._by_value.get(self._values.get(value, value))
        if not secrets:
            return UNKNOWN
        before = before.strip()
        matching = [secret for secret in secrets if secret.before.strip() == before]
        matching = matching or [s for s in secrets if s.before.strip() and before.endswith(s.before.strip())]
        return f"@{(matching or secrets)[0].variable}@"

    def mask_known_secrets(self, text: str) -> str:
        """Return ``text`` with each known secret (value of an inventory variable) in it replaced by a mark.

        Secrets that resemble plain words are left out.
        """
        heads = self._by_head
        starts = (
            [offset for offset in range(len(text) - _HEAD_LENGTH + 1) if text[offset : offset + _HEAD_LENGTH] in heads]
            if heads
            else ()
        )
        if not starts:
            return text
        marks = [match.span() for match in _MARK.finditer(text)]
        pieces: list[str] = []
        position = 0
        for start in starts:
            form = next(
                (form for form in heads[text[start : start + _HEAD_LENGTH]] if text.startswith(form, start)), ""
            )
            number = bisect_right(marks, (start, len(text))) - 1
            if start < position or not form or (number >= 0 and start + len(form) <= marks[number][1]):
                continue
            first, end = start, start + len(form)
            if form in self._encoded:
                first, end = _widen_base64_span(text, first, end, position)
            before = text[max(0, first - 400) : first].rpartition("\n")[2]
            pieces += [text[position:first], self.mark_for_secret(text[first:end], before)]
            position = end
        return "".join(pieces) + text[position:]

    def find_end_of_word_like_secret(self, text: str, start: int, end: int) -> int:
        """Return the end offset of a known secret that resembles a word and begins at ``start`` in a text; else -1.

        The secret must be the whole value.
        """
        for value in self._word_like:
            if text.startswith(value, start, end) and _AFTER_VALUE.match(text, start + len(value), end):
                return start + len(value)
        return -1

    @property
    def word_like_secret_count(self) -> int:
        """The number of known secrets (values of inventory variables) that resemble plain words.

        Such secrets are masked only as values of secret names.
        """
        return len(self._word_like)


def _widen_base64_span(text: str, start: int, end: int, lowest: int) -> tuple[int, int]:
    """Return the position of a secret in base64, widened by the characters around it that share bits with it."""
    padding = end
    for _index in range(2):
        start -= start > lowest and text[start - 1] in _BASE64
        end += end < len(text) and text[end] in _BASE64
    while end < len(text) and text[end] == "=" and end < padding + 4:
        end += 1
    return start, end


NO_SECRETS = KnownSecrets()


def _escaped_forms(value: str) -> set[str]:
    """Return the escaped forms of a value, as in XML, JSON, properties, shells and URIs.

    A value may be escaped once or twice.
    """
    unescaped = re.sub(r"\\(.)", r"\1", value)
    once = {value, unescaped, *_escape_variants(value), *_escape_variants(unescaped)}
    return once | {twice for form in once for twice in _escape_variants(form)}


def _escape_variants(value: str) -> Iterator[str]:
    for quotes in _XML_QUOTES:
        yield escape(value, dict(zip("\"'", quotes)))
    yield "".join(f"&#{ord(c)};" if ord(c) > 126 or c in "<>&\"'" else c for c in value)
    for safe in ("", "/", "!*'()", "!$&'()*+,;=:@/?-._~"):
        encoded = quote(value, safe=safe, errors="replace")
        yield encoded
        yield re.sub("%..", lambda match: match[0].lower(), encoded)
    yield quote_plus(value, errors="replace")
    for text in (json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
        yield text
        yield text.replace("/", r"\/")
        for escaped_characters in ("<>&='", "<>&", "<>&'", "<>&='+"):
            lower = "".join(f"\\u{ord(c):04x}" if c in escaped_characters else c for c in text)
            yield lower
            yield re.sub(r"\\u(....)", lambda match: "\\u" + match[1].upper(), lower)
    yield value.replace("\\", "\\\\").replace("'", "\\'")
    for quoted in ("''", "'\\''", "'\"'\"'"):
        yield value.replace("'", quoted)
    yield re.sub(r"([=:#! \\])", r"\\\1", value)
    yield re.sub(r"([^\w@%+=:,./-])", r"\\\1", value)


def _encoded_forms(value: str) -> set[str]:
    """Return the encoded forms of a value, in base64 and in hexadecimal digits.

    Base64 is that of each of its three alignments.
    """
    unescaped = re.sub(r"\\(.)", r"\1", value)
    forms: set[str] = set()
    for content in {
        text.encode(encoding, "replace")
        for text in (value, unescaped)
        for encoding in ("utf-8", "latin-1", "utf-16-le")
    }:
        for alignment in range(3):
            text = base64.b64encode(b"\0" * alignment + content).decode()
            core = text[(alignment * 8 + 5) // 6 : (alignment + len(content)) * 8 // 6]
            forms |= {core, core.replace("+", "-").replace("/", "_"), quote(core, safe="")}
        for digits in (content.hex(), content.hex(":"), content.hex(" "), "".join(f"%{byte:02x}" for byte in content)):
            forms |= {digits, digits.upper()}
    return forms


def secrets_from_masked_text(masked: str, content: str) -> list[KnownSecret]:
    """Return the secrets in the content of a deployed file, by comparing it with the masked text of the file.

    The text has marks ``@VARIABLE@``. Only lines that are equal but for the secrets are used.
    """
    secrets = []
    for masked_line, content_line in zip(masked.split("\n"), content.split("\n")):
        pieces = re.split(rf"({MARK})", masked_line)
        if len(pieces) == 1:
            continue
        pattern = "".join("(.*)" if number % 2 else re.escape(piece) for number, piece in enumerate(pieces))
        match = re.fullmatch(pattern, content_line)
        if match:
            marks = zip(match.groups(), pieces[1::2], pieces[::2])
            secrets += [KnownSecret(value, mark.strip("@"), before) for value, mark, before in marks if value]
    return secrets
