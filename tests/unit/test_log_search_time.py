"""The work on one log line is bounded, regardless of the length of the client's name in it.

Each test compares the times for two lengths. No test compares a time with a constant. A search that grows with the
square of the length takes 64 times as long for eight times the length.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from statistics import median

import pytest

from activemq_fleet.audit import record_signs
from activemq_fleet.logs.classifier import LogMessageClassifier
from activemq_fleet.logs.kinds import log_message_kind, log_message_kind_ids
from activemq_fleet.node.log import broker_log
from activemq_fleet.node.log.kinds import KINDS, parse_log_event
from activemq_fleet.node.log.log_records import Record

SHORT, LONG = 2_000, 16_000
LARGEST_GROWTH = 3 * LONG / SHORT
"""The largest allowed growth of the time: more than linear growth, and much less than quadratic growth."""
_WILD = re.compile(r"\(?(?:\.[+*]\??|\[\^?[^\]]*\](?:[+*]\??|\{[\d,]+\})|\\S(?:[+*]\??|\{[\d,]+\}\??)|\\d[+*]\??)\)?")

PRINTED = [
    " WARN | Exception occurred processing: CONNECT login:",
    " WARN | Transport Connection to: tcp://127.0.0.1:38042 failed: User name [",
    " WARN | Could ",
    "Caused by: ",
]


def growth(work: Callable[[str], object], texts: Callable[[int], Iterable[str]]) -> float:
    """Return the time for the longer texts divided by the time for the shorter texts, the median of three pairs."""

    def seconds(length: int) -> float:
        began = time.thread_time()
        for searched_text in texts(length):
            work(searched_text)
        return time.thread_time() - began

    return median(seconds(LONG) / max(seconds(SHORT), 1e-6) for _ in range(3))


def literal_parts(pattern: str) -> list[str]:
    """Return the texts between the wildcards of a regular expression."""
    plain = re.sub(r"\(\?P<\w+>|\(\?:", "(", pattern).strip("^$")
    return [re.sub(r"\\(.)", r"\1", part) for part in _WILD.split(plain)]


def repeated_parts(pattern: str, length: int) -> Iterable[str]:
    """Yield texts that begin with a match of the expression and then repeat one of its parts."""
    literals = literal_parts(pattern)
    for number, literal in enumerate(literals):
        for piece in (literal or "a", "a "):
            yield ("x".join(literals[: number + 1]) + piece * (length // len(piece) + 1))[:length]


@pytest.mark.parametrize("begin", PRINTED)
@pytest.mark.parametrize("piece", ["a", "a.", "Error", "at x(", " "])
def test_time_to_find_error_in_printed_line_is_not_quadratic_in_name_length(begin: str, piece: str) -> None:
    """A process of root searches the last 200 lines of a broker's unit; the longest line of journald has 48 kB."""

    def lines(length: int) -> Iterable[str]:
        yield begin + piece * (length // len(piece))

    assert growth(lambda line: broker_log.find_error_in_output([line]), lines) < LARGEST_GROWTH


def test_printed_error_after_long_name_is_reported() -> None:
    lines = ["login:" + "a" * 50_000, "java.lang.IllegalStateException: no space", "\tat x.Y(Z.java:1)"]
    assert broker_log.find_error_in_output(lines) == "java.lang.IllegalStateException: no space"


def test_time_to_classify_log_message_is_not_quadratic_in_its_length() -> None:
    classifier = LogMessageClassifier()

    def find(text: str) -> object:
        classifier._cache.clear()
        return classifier.kind_index_and_values(text)

    def texts(length: int) -> Iterable[str]:
        for name in log_message_kind_ids():
            yield from repeated_parts(log_message_kind(name).regex.pattern, length)

    assert growth(find, texts) < LARGEST_GROWTH


def test_time_to_read_broker_phase_is_not_quadratic_in_message_length() -> None:
    for kind_of_hosts in KINDS.values():
        pattern, logger = kind_of_hosts.regex.pattern, f"org.apache.activemq.{min(kind_of_hosts.classes)}"

        def texts(length: int, pattern: str = pattern) -> Iterable[str]:
            return repeated_parts(pattern, length)

        def work(text: str, logger: str = logger) -> object:
            return parse_log_event(Record(1, datetime(2026, 11, 27, 10), "INFO", text, logger, "main"))

        assert growth(work, texts) < LARGEST_GROWTH, pattern


EVIDENCE_SEARCHES = [
    ("_CREDENTIALS", "User name ["),
    ("_RIGHTS", "User "),
    ("_DUPLICATE_BRIDGE", "Client: "),
    ("_CLIENT", "clientId=a"),
    ("_DUPLICATE_CLIENT", "Client: "),
    ("_MISSING_FILES", "missing"),
    ("_VARIABLE", "ID:a"),
]


@pytest.mark.parametrize(("name", "begin"), EVIDENCE_SEARCHES)
def test_time_of_evidence_searches_in_logs_is_not_quadratic_in_text_length(name: str, begin: str) -> None:
    expression: re.Pattern[str] = getattr(record_signs, name)
    pieces = (begin, "_inbound", f"{begin}_inbound", "a")

    def texts(length: int) -> Iterable[str]:
        for piece in pieces:
            yield begin + piece * (length // len(piece))

    assert growth(expression.search, texts) < LARGEST_GROWTH
