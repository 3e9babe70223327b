# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Masks secrets: text of a host in, the same text without its secrets out.

The package runs on managed hosts, so that no secret leaves them, and as ``activemq_fleet.node.masking`` in the
library (a link to this directory), so that planned and collected files are masked by the same rules and
can be compared. A secret whose variable is known becomes ``@VARIABLE@``, as in planned files; any
other becomes ``@secret@``. References such as ``${activemq.password}`` stay. Masking what is masked
changes nothing. The time grows with the length of the text, whatever it holds. It imports nothing but
the standard library of Python 3.9.

Every detector gives positions in the text as it came in (``spans``); those that overlap are masked as one.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from fnmatch import fnmatch

from . import shapes
from .documents import LINES, kind_of, line_spans
from .known import NOBODY, KnownSecrets, Secret, is_distinct, secrets_of_file
from .markup import Markup
from .names import is_secret_name, secret_word_positions
from .spans import CUT_NOTE, MARK, UNKNOWN, Spans, cut_note_start, is_mark, is_reference, merged_spans
from .tables import table_spans
from .values import ValueScanner

__all__ = [
    "LINE_LENGTH",
    "NOBODY",
    "UNKNOWN",
    "KnownSecrets",
    "Secret",
    "cut_lines",
    "is_distinct",
    "mask",
    "mask_data",
    "mask_text",
    "mask_words",
    "secrets_of_file",
    "why_left_out",
]

LINE_LENGTH = 65536
"""Lines of logs and journals are cut after so many characters."""

_GROWTH = 16
"""A line that was cut already may be this many times ``LINE_LENGTH`` long, because masking made it longer."""
_ROUNDS = 6
_MARK = re.compile(MARK)
_OPTION = re.compile(r"--?(?P<name>[\w.-]{1,200})")
_JOINED_ACCOUNT = re.compile(r"-[A-Za-z#0-9]{0,8}?[uU]")
_KEYSTORES = ("*.jks", "*.jceks", "*.ks", "*.ts", "*.keystore", "*.truststore", "*.p12", "*.pfx", "*.pkcs12", "*.bks")
_KEYS = ("*.key", "*.pem", "*.der", "id_rsa*", "id_ed25519*", "id_ecdsa*")
_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce", b"\x30\x82", b"\x30\x80")


def mask(path: str, text: str, known: KnownSecrets = NOBODY) -> str:
    """Return the text of a configuration file with secrets replaced by marks such as ``@secret@``."""
    kind = kind_of(path)
    return _masked(text, known, kind)


def mask_text(text: str, known: KnownSecrets = NOBODY) -> str:
    """Return the text of a log, unit or other non-configuration file with secrets replaced by marks.

    Lines above ``LINE_LENGTH`` characters are cut, with a note.
    """
    return _masked(cut_lines(text), known, "text")


def cut_lines(text: str) -> str:
    """Return the text with each line cut to 65536 characters, and a note on each cut line of how many were left out."""
    if len(text) <= LINE_LENGTH:
        return text
    return "\n".join(_cut(line) if len(line) > LINE_LENGTH else line for line in text.split("\n"))


def _cut(line: str) -> str:
    if len(line) <= LINE_LENGTH * _GROWTH and cut_note_start(line, len(line)) >= 0:
        return line
    return line[:LINE_LENGTH] + CUT_NOTE.format(len(line) - LINE_LENGTH)


def mask_words(words: Sequence[str], known: KnownSecrets = NOBODY) -> list[str]:
    """Return the words of a command line with secrets replaced by marks such as ``@secret@``."""
    found: list[str] = []
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        option = _OPTION.fullmatch(words[number - 1]) if number else None
        if option and is_secret_name(option["name"]) and not option["name"].startswith(("ask", "no-", "prompt")):
            found.append(_shown(word, "", known))
        elif equals and is_secret_name(name.lstrip("-")):
            found.append(f"{name}={_shown(value, f'{name}=', known)}")
        elif os.path.basename(words[0]) == "curl" and _JOINED_ACCOUNT.match(word):
            found.append(_masked_behind("curl ", word, known))
        elif option and option["name"] in ("u", "U", "p", "a", "w", "user", "proxy-user"):
            found.append(_masked_behind(f"{words[0]} {option[0]} ", word, known))
        else:
            found.append(mask_text(word, known))
    return found


def _masked_behind(before: str, word: str, known: KnownSecrets) -> str:
    """Return one word of a command line as it is masked behind the text ``before``."""
    masked = mask_text(before + word.replace(" ", "\0"), known).replace("\0", " ")
    return masked[len(before) :] if masked.startswith(before) else UNKNOWN


def mask_data(data: object, known: KnownSecrets = NOBODY) -> object:
    """Return a JSON value with secrets in its texts, and all values of keys such as ``password``, replaced by marks."""
    if isinstance(data, str):
        return mask_text(data, known)
    if isinstance(data, dict):
        return {
            key: _shown(value, "", known)
            if isinstance(value, str) and is_secret_name(str(key))
            else mask_data(value, known)
            for key, value in data.items()
        }
    if isinstance(data, (list, tuple)):
        return [mask_data(value, known) for value in data]
    return data


def why_left_out(path: str, content: bytes) -> str:
    """Return why a configuration file is not collected at all (key store, no text); empty for a file that is."""
    name = os.path.basename(path).lower()
    if any(fnmatch(name, pattern) for pattern in _KEYSTORES):
        return "a key store"
    if any(fnmatch(name, pattern) for pattern in _KEYS):
        return "a key"
    if content.startswith(_MAGIC):
        return "a key store or certificate"
    try:
        return "no text" if "\0" in content.decode() else ""
    except UnicodeDecodeError:
        return "no text"


def _shown(value: str, before: str, known: KnownSecrets) -> str:
    return value if is_reference(value) else known.mark_for(value, before)


def _masked(text: str, known: KnownSecrets, kind: str) -> str:
    """Return the text, masked again until masking changes nothing: a mark may bring to light what stands beside it.

    A line that still changes after ``_ROUNDS`` rounds is masked whole.
    """
    before = text
    for _ in range(_ROUNDS):
        before, text = text, _masked_once(text, known, kind)
        if text == before:
            return text
    lines, lines_before = text.split("\n"), before.split("\n")
    if len(lines) != len(lines_before):
        return text
    return "\n".join(now if now == then else UNKNOWN for now, then in zip(lines, lines_before))  # noqa: B905 -- Python 3.9


def _masked_once(text: str, known: KnownSecrets, kind: str) -> str:
    found = known.spans(text)
    marks = {match.start(): match.span() for match in _MARK.finditer(text)} if "@" in text else {}

    def known_at(start: int, limit: int) -> int:
        span = found.get(start) or marks.get(start)
        if span and span[1] <= limit and (span[1] == limit or text[span[1]] in _BEHIND_KNOWN):
            return span[1]
        return known.word_like_secret_end(text, start, limit)

    spans: Spans = [known.widened_base64_span(text, span) for span in found.values()]
    spans += marks.values()
    spans += shapes.private_keys(text)
    if kind in LINES:
        spans += line_spans(kind, text)
    markup = Markup(text) if "<" in text or kind == "xml" else None
    if markup:
        spans += markup.secrets
    names = secret_word_positions(text)
    segments = markup.others if markup and kind == "xml" else [(0, len(text))]
    is_file, may_continue = kind != "text", kind not in ("text", "yaml")
    for start, end in segments:
        names_inside = names[bisect_left(names, start) : bisect_left(names, end)]
        if names_inside:
            scanner = ValueScanner(text, start, end, known_at, is_file=is_file, may_continue=may_continue)
            spans += scanner.spans(names_inside)
    spans += _clipped(shapes.spans(text), segments)
    if is_file:
        spans = _with_continuations(text, merged_spans(spans))
    if kind != "xml":
        spans += table_spans(text, names)
    return _replaced(text, merged_spans(spans), known)


def _with_continuations(text: str, spans: Spans) -> Spans:
    """Return spans that go on over the lines after a backslash at the end of a line, as shells and systemd read them.

    Of files alone: in a log, an account could hide the line after its own.
    """
    longer: Spans = []
    for start, end in spans:
        end = max(end, longer[-1][1]) if longer and start < longer[-1][1] else end
        while end > start and (_CONTINUED.match(text, end - 1) or _CONTINUED.match(text, end)):
            line_end = text.find("\n", text.index("\n", end - 1) + 1)
            end = len(text) if line_end < 0 else line_end
        longer.append((start, end))
    return longer


_CONTINUED = re.compile(r"\\\r?\n(?!\Z)")


_BEHIND_KNOWN = frozenset(" \t\r\n\"'`&<>;,)}]|\\")


def _clipped(spans: Spans, segments: Spans) -> Spans:
    """Return the part of each span that is in the segment where the span begins."""
    starts = [start for start, _ in segments]
    found: Spans = []
    for start, end in spans:
        place = bisect_right(starts, start) - 1
        if place >= 0 and start < segments[place][1]:
            found.append((start, min(end, segments[place][1])))
    return found


def _replaced(text: str, spans: Spans, known: KnownSecrets) -> str:
    pieces: list[str] = []
    position = 0
    for start, end in spans:
        value = text[start:end]
        before = text[max(0, start - 400) : start].rpartition("\n")[2]
        shown = value if is_mark(value) else known.mark_for(value, before)
        pieces += [text[position:start], shown]
        position = end
    pieces.append(text[position:])
    return "".join(pieces)
