# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Finds values beside a secret's name in any text: ``password=…``, ``"pass": …``, ``--token …``, ``setPassword(…)``.

One scan finds the names, anchored matches find what stands between a name and its value, and a value
that was found is not read again: the time grows with the length of the text, whatever it holds. A value
whose end is certain, by a quote say, ends there. Any other goes on to the end of its line, because a
password may hold blanks, commas and brackets.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable

from . import value_patterns as patterns
from .names import is_english_word, is_secret_name, looks_generated
from .quotes import OPENING, OpenQuotes, quoted_value_end
from .spans import Span, Spans, cut_note_start, is_reference, reference_end

KnownAt = typing.Callable[[int, int], int]
"""(position, limit) -> the end of the known secret that begins at the position; -1 for none before the limit."""

_MORE_LINES = 8192
_NAME = frozenset("_.-$")


class ValueScanner:
    """A scanner of a text for values that follow a secret's name, such as ``password=VALUE``.

    ``is_file``: a configuration file, where ``password VALUE`` is no prose and quotes may span lines.
    ``may_continue``: the value of ``password:`` may stand on the next line.
    """

    def __init__(
        self,
        text: str,
        start: int,
        end: int,
        known_at: KnownAt,
        *,
        is_file: bool = False,
        may_continue: bool = False,
    ) -> None:
        self._text, self._start, self._end = text, start, end
        self._known_at, self._is_file, self._may_continue = known_at, is_file, may_continue
        self._quotes = OpenQuotes(text, start)
        self._line_end = self._record_end = -1
        # What may be read ahead over several lines in all, so that many values that never end cost no more.
        self._budget = 2 * (end - start) + 4 * _MORE_LINES

    def spans(self, candidates: Iterable[int]) -> Spans:
        """Return the (start, end) of the value of every secret's name; ``candidates`` are possible names' positions."""
        found: Spans = []
        done = self._start
        for candidate in candidates:
            if candidate < done:
                continue
            name = patterns.NAME_REST.match(self._text, candidate, self._end)
            if name is None:
                continue
            end = name.end()
            while self._text[end - 1] in ".-":
                end -= 1
            start = self._name_start(candidate, done)
            more = patterns.KEY_WORD.match(self._text, end, self._end)
            if more and is_secret_name(self._text[start:end] + more[0].strip(" \t_-")):
                end = more.end()
            elif self._text[candidate:end].lower() == "key" and start == candidate:
                before = patterns.BEFORE_KEY.search(self._text, max(done, start - 14), start)
                start = before.start() if before else start
            after = patterns.SEPARATED.match(self._text, end, self._end)
            if after is None and self._text[end : end + 1] not in (" ", "\t", "<", "{", "/", ",", ";", "~", "#", "$"):
                done = end
                continue
            if not is_secret_name(self._text[start:end].lstrip("-").replace(" ", "_").replace("\t", "_")):
                done = end
                continue
            spans, done = self._values(start, end, after)
            found += spans + self._before_name(start)
        return found

    def _name_start(self, start: int, lowest: int) -> int:
        lowest = max(lowest, start - 80)
        text = self._text
        while start > lowest and (text[start - 1].isalnum() or text[start - 1] in _NAME):
            start -= 1
        return start

    def _values(self, start: int, end: int, after: re.Match[str] | None) -> tuple[Spans, int]:
        """Return the values of one name, and the position to go on from."""
        separator = after["separator"] if after else None
        if after is None or separator is None:
            return self._after_blank(start, end)
        if separator == ":" and self._is_path(start):
            return [], end
        at = after.end()
        is_far = after.start("separator") > end and not after["close"]
        if separator == "(" and is_far:
            return self._in_prose(start, end)
        if separator == "(" and (patterns.SIGNATURE.match(self._text, at, self._end)):
            return [], end
        if after["close"]:
            beside = self._beside_name(start, end)
            if beside:
                return beside
            following = patterns.NEXT_LINE.match(self._text, at, min(self._end, at + _MORE_LINES))
            at = following.end() if following else at
        continued = (
            patterns.CONTINUED.match(self._text, at, self._end) if self._may_continue and separator in ":=" else None
        )
        if continued:
            return self._on_next_line(start, continued, separator)
        scheme = patterns.SCHEME.match(self._text, at, self._end)
        return self._value(start, scheme.end() if scheme else at, bool(after["close"]))

    def _after_blank(self, start: int, end: int) -> tuple[Spans, int]:
        """Return the value of ``--password VALUE``, ``auth_pass VALUE``, ``password 'VALUE'``.

        Not of ``password expired``.
        """
        text = self._text
        at = end
        while at < self._end and text[at] in " \t":
            at += 1
        if at >= self._end or text[at] in "\r\n=:>)}":
            return [], at
        if at == end or text[at] in "|-<,;–—":
            return self._in_prose(start, end)
        name = text[start:end]
        is_option = name.startswith("-") or text[start - 1 : start] == "-"
        if is_option or text[at] in "\"'`[":
            return self._value(start, at, False)
        if patterns.PROSE.match(text, at, self._end) or name.endswith((".", ":")):
            return self._in_prose(start, end)
        line_start = text.rfind("\n", max(0, start - 400), start) + 1
        line_end = self._ends(at)[0]
        if is_english_word(name) and not (
            self._is_file and text[line_start:start].lstrip()[:1] not in ("#", ";", "!", "<", "/")
        ):
            alone = not text[line_start:start].strip() and " " not in text[at:line_end].strip()
            if not alone:
                return self._in_prose(start, end)
        return self._value(start, at, False)

    def _beside_name(self, start: int, end: int) -> tuple[Spans, int] | None:
        """Return the value of ``{"name": "password", "type": …, "value": "VALUE"}``; None for another form."""
        text, position = self._text, end
        for _ in range(5):
            member = patterns.MEMBER.match(text, position, self._end)
            if member is None or member["value"] is None:
                break
            if member["key"].lower() == "value":
                return self._value(start, member.end("separator"), True)
            position = member.end("value")
        return ([], position) if position > end else None

    def _before_name(self, start: int) -> Spans:
        """Return the value of ``{"value": "VALUE", "name": "password"}``."""
        text = self._text
        if text[start - 1 : start] not in ("'", '"'):
            return []
        at = text.rfind("value", max(self._start, start - 400), start)
        member = patterns.MEMBER_BEFORE.match(text, at, start) if at >= 0 else None
        return [member.span("value")] if member and not is_reference(member["value"]) else []

    def _in_prose(self, start: int, end: int) -> tuple[Spans, int]:
        """Return VALUE of ``password for bob: VALUE``, ``password is VALUE``, ``bad password VALUE`` and the like.

        After ``bad password`` and ``password incorrect:`` only a word that looks generated is a value.
        """
        text = self._text
        limit = self._ends(end)[1]
        is_plural = text[start:end].lower().endswith(("words", "secrets", "tokens", "keys", "phrases", "codes"))
        whose = (
            None if is_plural else patterns.WHOSE.match(text, end, limit)
        )  # Passwords of activemq.fleet: change them …
        if whose and whose.end() < limit:
            at = whose.end()
            if not patterns.PROSE.match(text, at, limit) and not patterns.NO_VALUE.match(text, at, limit):
                return self._value(start, at, False)
        judged = patterns.JUDGED.match(text, end, limit)
        at = judged.end() if judged else end
        if at < limit and text[at] in patterns.PAIRS and at - end < 3:
            return self._in_pair(at, limit)
        word = patterns.WORD.match(text, at, limit) if judged else None
        if word and looks_generated(word[0]) and not is_reference(word[0]):
            return [word.span()], word.end()
        return [], end

    def _in_pair(self, at: int, limit: int) -> tuple[Spans, int]:
        """Return the value in the brackets that open at ``at`` and close within 256 characters of the line."""
        text = self._text
        inside = at + 1
        while inside < limit and text[inside] in " \t" + text[at]:
            inside += 1
        close = text.find(patterns.PAIRS[text[at]], inside, min(limit, at + 256))
        while 0 <= close < limit - 1 and text[close + 1] not in " \t.,;:'\")]}|":
            close = text.find(patterns.PAIRS[text[at]], close + 1, min(limit, at + 256))
        if close <= inside or text[inside] in "/!?" or "=" in text[inside:close]:
            return [], at
        if patterns.PROSE.match(text, inside, close + 1) or patterns.NO_VALUE.match(text, inside, close):
            return [], at
        end = close
        while text[end - 1] in " \t":
            end -= 1
        return ([] if is_reference(text[inside:end]) else [(inside, end)]), close

    def _on_next_line(self, start: int, continued: re.Match[str], separator: str) -> tuple[Spans, int]:
        """Return the value below ``password:``: of a line that is indented more, or has one word and is no key."""
        text, at = self._text, continued.start("value")
        line_start = text.rfind("\n", max(0, start - 400), start) + 1
        is_deeper = at - continued.start("indent") > _indent(text, line_start)
        is_other = patterns.KEY_OF_LINE.match(text, at, continued.end()) is not None
        if (is_other and not (is_deeper and text[at] not in "#;!<[{}/")) or (separator == "=" and not is_deeper):
            return [], continued.start("indent")
        return self._value(start, at, False)

    def _value(self, start: int, at: int, name_is_quoted: bool) -> tuple[Spans, int]:
        """Return the value at ``at`` of the name that begins at ``start``, and the position to go on from."""
        text = self._text
        limit = self._ends(at)[1]
        if at >= limit:
            return [], max(at, start + 1)
        known = self._known_at(at, limit)
        if known >= 0:
            return [(at, known)], known
        reference = reference_end(text, at, limit)
        if reference >= 0:
            return [], reference
        block = patterns.BLOCK.match(text, at, self._end)
        if block:
            return self._block(start, block.end())
        opening = OPENING.match(text, at, limit)
        if opening:
            return self._quoted(opening, limit)
        nested = None
        if text[at] in "[{" and (name_is_quoted or text[at + 1 : at + 2] in ("'", '"')):
            nested = self._nested(at)
        elif text[at] == "[":
            nested = self._bracketed(at, limit)
        if nested:
            return nested
        return self._unquoted(start, at, limit, name_is_quoted)

    def _unquoted(self, start: int, at: int, limit: int, name_is_quoted: bool) -> tuple[Spans, int]:
        """Return a value up to the next option or parameter, to the quotes around, or else to the end of the line."""
        text = self._text
        stop = None
        if text[start : start + 1] == "-" or text[start - 1 : start] == "-":
            stop = patterns.NEXT_OPTION.search(text, at, limit)
        elif text[start - 1 : start] in ("?", "&", ";"):
            stop = patterns.NEXT_PARAMETER.search(text, at, limit)
        limit = stop.start() if stop else limit
        close = self._enclosure(start, at, limit, name_is_quoted)
        limit = close if close >= 0 else limit
        while limit > at and text[limit - 1] in " \t\r":
            limit -= 1
        return [(at, limit)], max(limit, at + 1)

    def _quoted(self, opening: re.Match[str], limit: int) -> tuple[Spans, int]:
        start = opening.end()
        triple = opening[0] * 3
        if self._is_file and len(triple) == 3 and self._text.startswith(triple, opening.start()) and self._budget > 0:
            self._budget -= _MORE_LINES
            end = self._text.find(triple, start + 2, min(self._end, start + _MORE_LINES))
            if end > start + 2:
                return [(start + 2, end)], end + 3
        end = quoted_value_end(self._text, opening[0], start, limit)
        if end < 0 and self._is_file and self._budget > 0:
            self._budget -= _MORE_LINES
            end = quoted_value_end(self._text, opening[0], start, min(self._end, start + _MORE_LINES))
        if end < 0:
            return [(opening.start(), limit)], limit
        inside = reference_end(self._text, start, end)
        return [(start, end)] if inside != end else [], end

    def _enclosure(self, start: int, at: int, limit: int, name_is_quoted: bool) -> int:
        """Return the end of the quotes around name and value, ``"NAME=VALUE"``; -1 without any."""
        text = self._text
        quote = self._quotes.quote_at(at)
        if not name_is_quoted:
            for opening in ('\\\\\\"', '\\"', '"', "'", "&quot;", "&#34;"):
                if start >= len(opening) and text.startswith(opening, start - len(opening)):
                    return quoted_value_end(text, opening, at, limit)
        return quoted_value_end(text, quote, at, limit) if quote else -1

    def _bracketed(self, at: int, limit: int) -> tuple[Spans, int] | None:
        """Return the value of ``password [VALUE]``, as log messages have it."""
        close = patterns.BRACKET.search(self._text, at + 1, limit)
        if close is None:
            return None
        end = close.start()
        return ([(at + 1, end)] if reference_end(self._text, at + 1, end) != end else []), end + 1

    def _nested(self, at: int) -> tuple[Spans, int] | None:
        """Return each value of a list or mapping that closes within ``_MORE_LINES`` characters; None if none does."""
        found: Spans = []
        depth, end = 0, min(self._end, at + _MORE_LINES)
        if self._budget <= 0:
            return None
        self._budget -= _MORE_LINES
        for token in patterns.TOKEN.finditer(self._text, at, end):
            mark = self._text[token.start()]
            if mark in "[{":
                depth += 1
            elif mark in "]}":
                depth -= 1
                if depth == 0:
                    return found, token.end()
            else:
                quoted = 1 if mark in "\"'" else 0
                if quoted and patterns.KEY_END.match(self._text, token.end(), end):
                    continue
                span = (token.start() + quoted, token.end() - quoted)
                if reference_end(self._text, span[0], span[1]) != span[1]:
                    found.append(span)
        return None

    def _block(self, start: int, at: int) -> tuple[Spans, int]:
        """Return the value of YAML's ``password: |`` and ``>``: every line that is indented more than the name's."""
        text = self._text
        line_start = text.rfind("\n", max(0, start - 400), start) + 1
        indent = _indent(text, line_start)
        first, last, position = -1, at, at + 1
        while position < self._end:
            line_end = text.find("\n", position, self._end)
            line_end = self._end if line_end < 0 else line_end
            if text[position:line_end].strip():
                depth = _indent(text, position)
                if depth <= indent:
                    break
                first = position + depth if first < 0 else first
                last = line_end - (text[line_end - 1] == "\r")
            position = line_end + 1
        return ([(first, last)] if first >= 0 else []), max(last, at)

    def _is_path(self, start: int) -> bool:
        """Return whether a name is the end of a path, as in ``/etc/agent/mb.password: No such file``."""
        text = self._text
        low = max(self._start, start - 200)
        token = max(text.rfind(mark, low, start) for mark in " \t\n\"'(=") + 1
        return text[token : token + 1] == "/" and text.count("/", token, start) > 1

    def _ends(self, at: int) -> Span:
        """Return the end of the line, and the end of a value's part of it, which is before ``| logger | thread``."""
        if at > self._line_end or self._line_end < 0:
            end = self._text.find("\n", at, self._end)
            self._line_end = self._end if end < 0 else end
            note = cut_note_start(self._text, self._line_end) if self._text[self._line_end - 1] in "]\r" else -1
            self._record_end = note if note >= at else self._line_end
            thread = self._text.rfind(" | ", max(at, self._line_end - 600), self._line_end)
            logger = self._text.rfind(" | ", max(at, thread - 400), thread) if thread >= 0 else -1
            if logger >= 0 and patterns.RECORD_TAIL.fullmatch(self._text, logger + 3, thread):
                self._record_end = logger
        return self._line_end, self._record_end if at <= self._record_end else self._line_end


def _indent(text: str, position: int) -> int:
    start = position
    while position < len(text) and text[position] in " \t":
        position += 1
    return position - start
