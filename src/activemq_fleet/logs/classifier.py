"""Classify log messages quickly: of nearly 200 regular expressions, only the few that can match are tried.

A message's kind is the first, in the order of ``kinds.json``, whose releases fit and whose expression is found in the
message. Each expression has characters that a message must contain, and most have a fixed beginning: the first four
characters of a message choose a short list, and ``in`` rules out most of that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from activemq_fleet.errors import ReleaseError
from activemq_fleet.logs.kinds import log_message_kind, log_message_kind_ids
from activemq_fleet.node.log.kinds import COMPARED, LogMessageKind
from activemq_fleet.releases import Release

UNKNOWN = "UNKNOWN"
KINDS: tuple[str, ...] = (UNKNOWN, *log_message_kind_ids())
"""The ids of all kinds; the code of a kind is its index."""

Fields = tuple[tuple[str, str], ...]
Found = tuple[int, Fields]
"""The code of a kind, and the named groups of the expression that matched."""

_UNCLASSIFIED: Found = (0, ())
_KEY_LENGTH = 4  # first letters of a message, which select the candidates
_CACHE_SIZE = 1 << 16  # messages

_REGEX_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|\(\?(?:P<\w+>|:|=|!|<=|<!)|.", re.DOTALL)
_QUANTIFIER = re.compile(r"[*+?]|\{\d*,?\d*\}")
_RANGE = re.compile(r"(?:>=)?(?P<first>\d+\.\d+(?:\.\d+)?)(?:–(?P<last>\d+\.\d+\.\d+)|\+)?")


@dataclass(frozen=True, slots=True)
class _Candidate:
    code: int
    required_text: str
    match: Callable[[str], re.Match[str] | None]


class LogMessageClassifier:
    """A classifier of log messages by kind, among the kinds that an ActiveMQ release writes.

    ``release`` is None for all releases.
    """

    def __init__(self, release: str | None = None) -> None:
        kinds = [log_message_kind(id_) for id_ in log_message_kind_ids()]
        known_release = _known_release(release)
        if known_release is not None:
            kinds = [entry for entry in kinds if is_written_by_release(entry, known_release)]
        self._candidates_without_prefix: list[_Candidate] = []
        self._candidates_by_prefix: dict[str, list[_Candidate]] = {}
        self._cache: dict[str, Found] = {}
        self._index_kinds(kinds)

    def _index_kinds(self, kinds: list[LogMessageKind]) -> None:
        candidates_with_prefix: list[tuple[str, _Candidate]] = []
        for entry in kinds:
            prefix, required_text = prefix_and_longest_literal(entry.regex.pattern)
            # If the expression begins with ^, match has the same result as search and is faster.
            match = entry.regex.match if entry.regex.pattern.startswith("^") else entry.regex.search
            candidate = _Candidate(KINDS.index(entry.id), required_text, match)
            if len(prefix) < _KEY_LENGTH:
                self._candidates_without_prefix.append(candidate)
            else:
                candidates_with_prefix.append((prefix[:_KEY_LENGTH], candidate))
        for key in {key for key, _ in candidates_with_prefix}:
            candidates = [
                *(candidate for prefix_key, candidate in candidates_with_prefix if prefix_key == key),
                *self._candidates_without_prefix,
            ]
            self._candidates_by_prefix[key] = sorted(candidates, key=lambda candidate: candidate.code)

    def kind_index_and_values(self, message: str) -> Found:
        """Return (kind index, values) of a log message: an index into ``KINDS``, and a tuple of (name, value) pairs.

        The values are parts of the message. For a message of no known kind, the result is (0, ()), because 0 is the
        index of UNKNOWN. Results are cached.
        """
        message = message[:COMPARED]
        cached = self._cache.get(message)
        if cached is None:
            cached = self._search(message)
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
            self._cache[message] = cached
        return cached

    def _search(self, message: str) -> Found:
        for candidate in self._candidates_by_prefix.get(message[:_KEY_LENGTH], self._candidates_without_prefix):
            if candidate.required_text in message:
                match = candidate.match(message)
                if match is not None:
                    groups = match.groupdict()
                    return candidate.code, tuple((key, value) for key, value in groups.items() if value is not None)
        return _UNCLASSIFIED


@lru_cache(maxsize=128)
def classifier_for_release(release: str | None) -> LogMessageClassifier:
    """Return the classifier of log messages for an ActiveMQ release.

    One object is kept for each release.
    """
    return LogMessageClassifier(release)


def _known_release(release: str | None) -> Release | None:
    try:
        return Release.of(release) if release else None
    except ReleaseError:
        return None


def is_written_by_release(kind: LogMessageKind, release: Release) -> bool:
    """Return whether brokers of a release write log messages of a kind, at any level."""
    releases = re.sub(r"\([^()]*(?:\([^()]*\)[^()]*)*\)", "", kind.releases)
    ranges = [match for match in _RANGE.finditer(releases) if "." in match["first"]]
    if not ranges:
        return True
    return any(release.is_within_span(span) for span in map(_release_range, ranges))


def _release_range(range_match: re.Match[str]) -> str:
    """Return a range of releases of kinds.json, both ends included, in the notation of ``Release.is_within_span``."""
    first = range_match["first"] if range_match["first"].count(".") == 2 else f"{range_match['first']}.0"
    if range_match["last"] is None:
        return first
    line, _, patch = range_match["last"].rpartition(".")
    return f"{first} !{line}.{int(patch) + 1}"


def prefix_and_longest_literal(pattern: str) -> tuple[str, str]:
    """Return (literal prefix, longest literal) of the texts that match a regular expression.

    Each is "" if the expression has none.
    """
    runs, run, depth, prefix = [""], "", 0, None
    pattern_parts = _REGEX_TOKEN.findall(pattern)
    if _has_alternatives(pattern_parts):
        return "", ""
    for index, pattern_part in enumerate(pattern_parts):
        depth += pattern_part.startswith("(") - (pattern_part == ")")
        next_part = pattern_parts[index + 1] if index + 1 < len(pattern_parts) else ""
        literal = _literal(pattern_part) if depth == 0 and pattern_part != ")" else None
        if literal is not None and not _QUANTIFIER.fullmatch(next_part) and next_part != "{":
            run += literal
            continue
        if pattern_part == "^" and index == 0:
            continue
        if prefix is None:
            prefix = run
        runs.append(run)
        run = ""
    runs.append(run)
    if prefix is None:
        prefix = run
    return (prefix if pattern.startswith("^") else ""), max(runs, key=len)


def _has_alternatives(pattern_parts: list[str]) -> bool:
    depth = 0
    for pattern_part in pattern_parts:
        depth += pattern_part.startswith("(") - (pattern_part == ")")
        if pattern_part == "|" and depth == 0:
            return True
    return False


def _literal(pattern_part: str) -> str | None:
    """Return the literal character that a part of a regular expression matches, or None."""
    if len(pattern_part) == 2 and pattern_part[0] == "\\":
        return None if pattern_part[1].isalnum() else pattern_part[1]
    return pattern_part if len(pattern_part) == 1 and pattern_part not in "^$.|?*+()[]{}" else None
