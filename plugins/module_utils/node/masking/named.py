# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Masks values that follow a secret's name in any text: ``password=…``, ``"pass": …``, ``--token …``, ``set_pass(…)``.

One scan finds the names; anchored patterns match what is between a name and its value. A value whose end is
certain, by a quote or a bracket, ends there. Any other goes on to the end of its line, because a password may
contain blanks, commas and brackets. No value is read twice: the time grows with the length of the text.
"""

from __future__ import annotations

import re

from .known import KnownSecrets
from .marks import end_of_value_if_secret_free, logger_and_thread_start
from .names import is_english_word, is_secret_name, looks_like_generated_password, secret_word_positions

_NAME_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-$"
_NAME_REST = re.compile(r"(?:[\w.$-]|\[\d{1,4}\]|\\[ ]){1,88}")
_SECOND_WORD = re.compile(r"[ \t_-]{1,3}(?:key|phrase|word|code)s?(?![\w.-])", re.IGNORECASE)
_WORD_BEFORE_KEY = re.compile(
    r"(?<![\w.-])(?:api|private|access|account|shared|secret|master|encryption|signing)[ \t]\Z", re.IGNORECASE
)
_BLANKS = r"(?:[^\S\n]|[\u200b\u2060\ufeff]|\x1b\[[\d;]{0,8}m)*"
_SEPARATOR = re.compile(
    rf"(?P<close>\[[\"'][^\"'\]\n]{{1,64}}[\"']\](?=[ \t]{{0,9}}=)"
    rf"|\\{{0,15}}[\"'`]\]?|&(?:quot|apos);|&#(?:34|39);|%22|\\{{1,7}}u0022|\"?\])?{_BLANKS}"
    rf"(?:(?<=[ \t])(?:is|was){_BLANKS}(?=[:=]))?"
    r"(?:(?P<sign>[?+!~^*.|:]{0,2}=+>?|::?|[-=]?>{2}|->|\\{0,7}[：＝∶﹕꞉→⇒➔⟶=:]"
    r"|%(?:25){0,3}3[da]|\\{1,7}u003[da]|&#(?:61|58|x3[da]);|&gt;|\n\s{0,100}[:=](?=\s)"
    r"|(?:,[^{}\n]{0,200}?\s{0,100}|\n[ \t]{0,100})\\{0,15}[\"']?\bvalue\\{0,15}[\"']?[ \t]{0,9}[:=]"
    r"|</[\w:.-]{1,64}>\s{0,100}<[\w:.-]{1,64}>"
    rf"|,(?=\s{{0,100}}\\{{0,15}}[\"'](?![\w.-]{{1,40}}\\{{0,15}}[\"']\s{{0,20}}:))|\(|(?=\[)){_BLANKS}"
    r"|(?<=[\s\"']))",
    re.IGNORECASE,
)
"""The text between a name and its value; without ``sign`` only blanks or a quote."""
_SCHEME = re.compile(r"(?:Basic|Bearer|Digest|Negotiate|NTLM|Token|ApiKey|Key|AWS4-HMAC-SHA256)[ \t]+", re.IGNORECASE)
# A call in Java's stack traces and signatures shows no value.
_SIGNATURE = re.compile(
    r"\)|s\)|[\w$./-]*\.(?:java|kt|scala|groovy):\d+|Native Method|Unknown Source|[a-z]\w*\.[\w.$\[\], ]+\)"
)
_NEXT_OPTION = re.compile(r"[ \t]+(?=--?[A-Za-z])|[ \t]+;(?=[ \t]|\Z)")
_NEXT_PARAMETER = re.compile(r"&(?:amp;|#38;)?(?=[\w.-]{1,64}=)")
_LOGICAL_LINE = re.compile(r"(?:[^\n\\]+|\\(?:\r?\n)?)*")
_LINE_END = re.compile(r"[ \t]*(?P<block>[|>][+-]?\d?[+-]?[ \t]*(?:#[^\n]*)?)?\r?(?=\n|\Z)")
_SPACES = re.compile(r"[ \t]*")
_NEXT_LINE = re.compile(r"\n[ \t]*([^\r\n]+)")
_JSON_VALUE = re.compile(r"\s*(?=[\"\[{])")
_KEY_LINE = re.compile(r"[#;!<\[}\]/]|[\w.$@-]{1,200}[ \t]*[=:{]|\S+[ \t]+\S")
_YAML_REST = re.compile(r"[\"']?\s*(?:#.*)?\Z")

_OPENING = re.compile(
    r"\\{0,15}[\"'`]|&(?:quot|apos);|&#(?:34|39|x22|x27);|%2[27]|\\{1,7}u002[27]|[\u201c\u2018\u00ab]", re.IGNORECASE
)
_OTHER_CLOSING = {"\u201c": "\u201d", "\u2018": "\u2019", "\u00ab": "\u00bb"}
_CLOSING = {quote: re.compile(rf"(?<!\\)\\*{quote}") for quote in "\"'`"}
# What may follow a closing quote or bracket. Before anything else it is part of the value.
_AFTER_VALUE = re.compile(r"[\s,;)}\]>&|:/\\.=<#]|\Z")
_CLOSING_BRACKETS = {"[": "]", "{": "}", "(": ")", "<": ">"}
_BRACKET = re.compile(r"\\.|\"(?:[^\"\\]|\\.)*\"|[\[\](){}<>]", re.DOTALL)
_RECORD = re.compile(r"\n\d{4}-\d\d-\d\d")
_MORE_LINES = 8192
"""Characters within which a quote or bracket that is not closed on its line must be closed."""

_PROSE = re.compile(
    r"(?:is|was|were|are|be|been|has|have|had|must|may|can|cannot|could|should|shall|will|would|not|no|or|and|nor|for|of"
    r"|in|on|at|to|by|from|with|as|but|if|when|than|that|this|which|who|does|did|do|authentication|property|attribute"
    r"|option|parameter|field|file|set|unset|missing|required|expired?|invalid|incorrect|wrong|empty|changed|rejected"
    r"|accepted|protected|updated|reset|failed|failure|mismatch|based|hash(?:es|ed)?|manager|policy|check|prompt|value"
    r"|provided|given|needed|found|used|only|encoder|encryption|encrypted|database|store|handling|support)"
    r"(?=[.,;:!?)\]}>'\"]*(?:\s|\Z))",
    re.IGNORECASE,
)
_NOT_A_PASSWORD = re.compile(
    r"(?:[a-z]{2,20}(?:ed|ing|ly)|(?i:ok|okay|correct|valid|good|bad|weak|strong|too|also|still|now|already|always|never|being|null|none|nil|true|false"
    r"|yes|optional|hidden|redacted|unknown|different|same|identical|equal|blank|short|long|old|new|due|just|the|a|an"
    r"|denied|refused|disabled|enabled|locked|access|permission|connection|login|user|error|please|see|likely|about|it|its"
    r"|there|unable|could|cannot|kept|taken|known|hidden|written|shown|sent|read|stored|left|wrongly|visible))(?=[.,;:!?)\]}>'\"]*(?:\s|\Z))"
    r"|[\w.$]{0,200}(?:Exception|Error)\b|[a-z][\w+]{1,15}://|[/|)]"
)
"""Words that are not a password, although they follow a password's name and a phrase about its owner."""
# Blanks are bounded: each run of them could be divided between the parts in as many ways as it is long.
_OWNER_PHRASE = re.compile(
    r"(?:[ \t]{1,8}|[ \t]{0,8}\()(?:for|of|from|by)[ \t]{1,8}"
    r"(?!(?:the[ \t]{1,16})?(?:user|user-?name|account|login|host|client|broker|ur[il]|id)[ \t]{0,16}[:=])"
    r"[^\r\n:=<>{}|,;]{1,128}?\)?"
    r"(?:[ \t]{0,16}[:=][ \t]{0,16}|[ \t]{1,16}(?:is|was|(?:set|changed|reset)[ \t]{1,16}to)[ \t]{0,16}[:=]?[ \t]{1,16}"
    r"|[ \t]{1,16}(?=[\"'`]))"
    r"|[ \t]{0,16}\([^()\r\n]{1,64}\)[ \t]{0,16}[:=][ \t]{0,16}"
    r"|[ \t]{1,16}(?:is|was)(?:[ \t]{1,16}now)?[ \t]{1,16}"
    r"|[ \t]{1,16}(?:(?:is|was|has been)[ \t]{1,16})?(?:(?:set|changed|reset|updated|modified)[ \t]{1,16})?"
    r"to[ \t]{1,16}",
    re.IGNORECASE,
)
_REJECTION_PHRASE = re.compile(
    r"[ \t]{1,16}(?:(?:is|was)[ \t]{1,16})?"
    r"(?:incorrect|invalid|wrong|rejected|refused|mismatch|expired|failed|bad|set|changed)"
    r"[ \t]{0,16}[:=][ \t]{0,16}"
    r"|[ \t]{1,16}(?:[-–—|,;][ \t]{1,16})?|[ \t]{0,16}[;,/~#$][ \t]{0,16}",
    re.IGNORECASE,
)
_BRACKETED_VALUE = re.compile(
    r"[ \t]{0,2}[-;,/~#$–—|]?[ \t]{0,2}(?P<opening>[({<])[({<]?[ \t]{0,16}(?![/!?])(?=[^=\n]{1,256}[)}>])"
)
_WORD = re.compile(r"[^\s\"'`<>(){}\[\],;]{8,256}")


def mask_values_of_secret_names(text: str, known: KnownSecrets, kind: str, before: str = "") -> str:
    """Return a text with the values of secret names, such as ``password``, masked.

    ``kind``: the syntax of the file, ``text`` for logs. ``before``: text that is located before ``text`` on the same
    line.
    """
    positions = secret_word_positions(text)
    return _SecretValueReader(text, known, kind, before).mask(positions) if positions else text


class _SecretValueReader:
    """A reader of one text that finds the values of secret names.

    A span is the position of a value, at whose end reading goes on; it is empty if there is no value.
    """

    def __init__(self, text: str, known: KnownSecrets, kind: str, before: str) -> None:
        self._text, self._known, self._kind, self._before = text, known, kind, before
        self._is_file = kind != "text"
        self._line_end = self._record_end = -1
        self._unclosed: dict[str, int] = {}

    def mask(self, positions: list[int]) -> str:
        text, copied_until, scanned_until = self._text, 0, 0
        pieces: list[str] = []
        for position in positions:
            name_rest = _NAME_REST.match(text, position) if position >= scanned_until else None
            if name_rest is None:
                continue
            start, end = self._name_span(position, name_rest.end(), scanned_until)
            name = text[start:end].lstrip("-").replace(" ", "_").replace("\t", "_")
            if not is_secret_name(name):
                scanned_until = end
                continue
            first, last = self._value_span(start, end)
            if first < last:
                pieces += [
                    text[copied_until:first],
                    self._known.mask_secret_in_span(text, first, last, self._before),
                ]
                copied_until = last
            scanned_until = max(end, last)
        return "".join(pieces) + text[copied_until:]

    def _name_span(self, position: int, end: int, lowest: int) -> tuple[int, int]:
        """Return the position of the whole name, ``api key``, of which a word is at ``position``."""
        text = self._text
        lowest = max(lowest, position - 80)
        start = lowest + len(text[lowest:position].rstrip(_NAME_CHARACTERS))
        end = position + len(text[position:end].rstrip(".-"))
        second = _SECOND_WORD.match(text, end)
        if second and is_secret_name(text[start:end] + second[0].strip(" \t_-")):
            return start, second.end()
        if start == position and text[start:end].lower() == "key":
            first = _WORD_BEFORE_KEY.search(text, max(lowest, start - 14), start)
            start = first.start() if first else start
        return start, end

    def _value_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the position of the value of the name between ``start`` and ``end``."""
        text = self._text
        separator = _SEPARATOR.match(text, end)
        if separator is None and not text.startswith((" ", "\t", "<", "{", "/", ",", ";", "~", "#", "$"), end):
            return end, end
        sign = separator["sign"] if separator else None
        if separator is None or sign is None:
            after_quote = separator.end("close") if separator and separator["close"] else end
            return self._value_after_blank(start, end, after_quote)
        at, is_quoted = separator.end(), separator["close"] is not None
        if sign == ":":
            path = re.split(r"[ \t\n\"'(=]", text[max(0, start - 200) : start])[-1]
            if path.startswith("/") and path.count("/") > 1:  # /etc/agent/mb.password: No such file
                return end, end
        if sign == "(" and separator.start("sign") > end and not is_quoted:
            return self._value_in_prose(text[start:end], start, end)
        if sign == "(" and _SIGNATURE.match(text, at):
            return end, end
        if is_quoted:
            following = _JSON_VALUE.match(text, at, at + _MORE_LINES)
            at = following.end() if following else at
        line_end = _LINE_END.match(text, at)
        if line_end:
            return self._value_below(start, line_end, sign)
        scheme = _SCHEME.match(text, at)
        first, last = self._find_value(start, scheme.end() if scheme else at, is_quoted=is_quoted)
        line_begin = text[self._line_start(start) : start]
        if self._kind == "yaml" and sign == ":" and first < last and not line_begin.strip(" -\"'"):
            end_of_line = self._value_limit(last)
            below = self._indented_block_end(end_of_line, _indentation(line_begin, " -"), takes_items=False)
            if below > end_of_line or _YAML_REST.match(text, last, end_of_line) is None:
                first, last = first - (text[first - 1] in "\"'"), below
        return first, last

    def _value_after_blank(self, start: int, name_end: int, end: int) -> tuple[int, int]:
        """Return the value of ``--password VALUE``, ``auth_pass VALUE``, ``password 'VALUE'``.

        Not of ``password expired``.
        """
        text = self._text
        name = text[start:name_end]
        blanks = _SPACES.match(text, end)
        at = blanks.end() if blanks else end
        if at == len(text) or text[at] in "\r\n=:>)}":
            return at, at
        if at == end or text[at] in "|-<,;–—":
            return self._value_in_prose(name, start, end)
        if name.startswith("-") or text[start - 1 : start] == "-" or text[at] in "\"'`[":
            return self._find_value(start, at, is_quoted=False)
        if _PROSE.match(text, at) or name.endswith((".", ":")):
            return self._value_in_prose(name, start, end)
        if is_english_word(name):
            line_start = self._line_start(start)
            line = ("" if line_start else self._before.lstrip()) + text[line_start:start].strip()
            is_directive = self._is_file and line[:1] not in ("#", ";", "!", "<", "/")
            is_alone = not line and " " not in text[at : self._value_limit(at)].strip()
            if not is_directive and not is_alone:
                return self._value_in_prose(name, start, end)
        return self._find_value(start, at, is_quoted=False)

    def _value_in_prose(self, name: str, start: int, end: int) -> tuple[int, int]:
        """Return VALUE of ``password for bob: VALUE``, ``password is VALUE``, ``password (VALUE)``.

        After ``bad password`` and ``password incorrect:`` only a word with the form of a generated password is a value.
        """
        text, limit = self._text, self._value_limit(end)
        is_plural = name.lower().endswith(("words", "secrets", "tokens", "keys", "phrases", "codes"))
        # A plural, as in "Passwords of activemq.fleet: change them", has no single value.
        owner_phrase = None if is_plural else _OWNER_PHRASE.match(text, end, limit)
        if owner_phrase and owner_phrase.end() < limit and not _is_prose(text, owner_phrase.end(), limit):
            return self._find_value(start, owner_phrase.end(), is_quoted=False)
        brackets = _BRACKETED_VALUE.match(text, end, limit)
        if brackets and not _is_prose(text, brackets.end(), limit):
            return self._bracketed_span(brackets.start("opening"), limit) or (brackets.end(), limit)
        rejection = _REJECTION_PHRASE.match(text, end, limit)
        word = _WORD.match(text, rejection.end(), limit) if rejection else None
        return word.span() if word and looks_like_generated_password(word[0]) else (end, end)

    def _value_below(self, start: int, line_end: re.Match[str], sign: str) -> tuple[int, int]:
        """Return the value below ``password:``: lines that are indented more, or one of one word that is no key."""
        text, at = self._text, line_end.end()
        is_yaml = self._kind == "yaml"
        if not line_end["block"] and not (self._is_file and sign in (":", "=")):
            return at, at
        line_begin = text[self._line_start(start) : start]
        indent = _indentation(line_begin, " -" if is_yaml and not line_end["block"] else " \t")
        end = self._indented_block_end(at, indent, takes_items=is_yaml)
        if end > at:
            return at, end
        line = _NEXT_LINE.match(text, at)
        if line is None or sign == "=" or is_yaml or not self._is_file or _KEY_LINE.match(line[1]):
            return at, at
        return self._find_value(start, line.start(1), is_quoted=False)

    def _indented_block_end(self, end: int, indent: int, *, takes_items: bool) -> int:
        """Return the end of the block of lines after ``end`` that are indented more than ``indent``.

        ``takes_items``: also of those that are indented equally and are items of a list.
        """
        text, position = self._text, end + 1
        while position < len(text):
            line_end = text.find("\n", position)
            line_end = len(text) if line_end < 0 else line_end
            line = text[position:line_end].lstrip(" \t")
            if line.strip():
                depth = line_end - position - len(line)
                if depth < indent or (depth == indent and not (takes_items and line.startswith("-"))):
                    break
                end = line_end
            position = line_end + 1
        return end

    def _find_value(self, start: int, at: int, *, is_quoted: bool) -> tuple[int, int]:
        """Return the value at ``at`` of the name at ``start``; ``is_quoted``: the name is between quotes."""
        text, limit = self._text, self._value_limit(at)
        end = self._known.find_end_of_word_like_secret(text, at, limit)
        if end >= 0:
            return at, end
        end = end_of_value_if_secret_free(text, at, limit)
        if end >= 0 or at >= limit:
            return max(at, end), max(at, end)
        opening = _OPENING.match(text, at, limit)
        if opening:
            return self._quoted_span(opening, limit)
        if text[at] == "[" or (text[at] == "{" and (is_quoted or text[at + 1 : at + 2] in ("'", '"'))):
            return self._bracketed_span(at, limit) or self._unquoted_span(start, at, limit, is_quoted=is_quoted)
        return self._unquoted_span(start, at, limit, is_quoted=is_quoted)

    def _unquoted_span(self, start: int, at: int, limit: int, *, is_quoted: bool) -> tuple[int, int]:
        """Return a value up to the next option or parameter, to the quote before its name, or else to ``limit``."""
        text, before = self._text, self._text[max(0, start - 5) : start]
        stop = None
        if text[start] == "-" or before.endswith("-"):
            stop = _NEXT_OPTION.search(text, at, limit)
        elif before.endswith(("?", "&", ";")):
            stop = _NEXT_PARAMETER.search(text, at, limit)
        limit = stop.start() if stop else limit
        quotes = ('\\\\\\"', '\\"', '"', "'", "&quot;", "&#34;")
        quote = "" if is_quoted else next((quote for quote in quotes if before.endswith(quote)), "")
        close = _quoted_value_end(text, quote, at, limit) if quote else -1
        if close >= 0:
            return at, close
        last = text[at:limit].rstrip()[-1:]
        if last in ("'", '"') and text.count(last, self._line_start(start), at) % 2:
            limit = text.rindex(last, at, limit)  # OPTS="-Dx.password=VALUE"
        return at, limit

    def _quoted_span(self, opening: re.Match[str], limit: int) -> tuple[int, int]:
        """Return a value between quotes; a value without a closing quote ends at ``limit``."""
        text, start, quote = self._text, opening.end(), opening[0]
        search_limit = (
            min(len(text), start + _MORE_LINES) if self._is_file and start >= self._unclosed.get(quote, 0) else limit
        )
        if search_limit > limit and len(quote) == 1 and text.startswith(quote * 2, start):
            end = text.find(quote * 3, start + 2, search_limit)
            if end > 0:
                return start + 2, end
        end = _quoted_value_end(text, quote, start, limit)
        if end < 0 and search_limit > limit:
            end = _quoted_value_end(text, quote, start, search_limit)
            if end < 0:
                self._unclosed[quote] = search_limit
        return (start, end) if end >= 0 else (opening.start(), limit)

    def _bracketed_span(self, at: int, limit: int) -> tuple[int, int] | None:
        """Return what is inside the bracket at ``at``, which may close on a later line, but not after a log record."""
        text, opening, depth = self._text, self._text[at], 0
        if at < self._unclosed.get(opening, 0):
            return None
        search_limit = min(len(text), max(limit, at + _MORE_LINES)) if opening in "[{" else limit
        for token in _BRACKET.finditer(text, at, search_limit):
            depth += (token[0] == opening) - (token[0] == _CLOSING_BRACKETS[opening])
            if depth == 0 and token[0] == _CLOSING_BRACKETS[opening]:
                is_end = _AFTER_VALUE.match(text, token.end(), search_limit) and not _RECORD.search(
                    text, at, token.start()
                )
                return (at + 1, token.start()) if is_end else None
        self._unclosed[opening] = search_limit
        return None

    def _line_start(self, position: int) -> int:
        lowest = max(0, position - 400)
        return max(lowest, self._text.rfind("\n", lowest, position) + 1)

    def _value_limit(self, at: int) -> int:
        """Return where a value at ``at`` ends at most: at the end of its line, before a record's logger and thread."""
        if at > self._line_end:
            line = _LOGICAL_LINE.match(self._text, at) if self._is_file else None
            end = line.end() if line else self._text.find("\n", at)
            self._line_end = len(self._text) if end < 0 else end
            self._record_end = (
                self._line_end if self._is_file else logger_and_thread_start(self._text, at, self._line_end)
            )
        return self._record_end if at <= self._record_end else self._line_end


def _indentation(line_begin: str, characters: str) -> int:
    return len(line_begin) - len(line_begin.lstrip(characters))


def _is_prose(text: str, start: int, end: int) -> bool:
    return _PROSE.match(text, start, end) is not None or _NOT_A_PASSWORD.match(text, start, end) is not None


def _quoted_value_end(text: str, opening: str, start: int, end: int) -> int:
    r"""Return the position at which a quoted value ends, given its opening quote; -1 if the quote is not closed.

    A quote with more escapes than the opening one is part of the value, as in ``\"a\\\"b\"``.
    """
    quote, escapes = opening[-1], len(opening) - 1
    if quote not in _CLOSING:
        return text.find(_OTHER_CLOSING.get(opening, opening), start, end)
    for match in _CLOSING[quote].finditer(text, start, end):
        surplus = len(match[0]) - 1 - escapes
        if surplus >= 0 and surplus % (2 * (escapes + 1)) == 0 and _AFTER_VALUE.match(text, match.end(), end):
            return match.end() - escapes - 1
    return -1
