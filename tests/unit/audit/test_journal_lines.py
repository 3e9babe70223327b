"""Lines and records of event journal files, also of damaged files."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

import pytest

from activemq_fleet.audit import journal_lines as reading
from activemq_fleet.audit.journal_lines import (
    lines_with_number_and_problem,
    parse_event_journal_line,
    summarize_event_journal_file,
)
from activemq_fleet.audit.verdict_words import JournalLineProblem


def line_texts(content: bytes) -> list[str | None]:
    return [text for _, text, _ in lines_with_number_and_problem(memoryview(content))]


def test_line_numbers_of_event_journal_start_with_1() -> None:
    assert list(lines_with_number_and_problem(memoryview(b"one\ntwo\n"))) == [(1, "one", None), (2, "two", None)]


def test_last_event_journal_line_without_line_feed_is_read() -> None:
    assert line_texts(b'{"v":1}\n{"v"') == ['{"v":1}', '{"v"']


def test_empty_lines_of_event_journal_are_counted() -> None:
    assert line_texts(b"\n\none\n") == ["", "", "one"]


def test_only_line_feed_ends_line_of_event_journal() -> None:
    assert line_texts("a\u2028b\rc\x0bd\n".encode()) == ["a\u2028b\rc\x0bd"]


def test_invalid_utf8_bytes_in_event_journal_are_escaped() -> None:
    assert line_texts(b"a\xff\xfeb\n") == ["a\\xff\\xfeb"]


def test_gzip_event_journal_with_several_members_and_padding_is_read() -> None:
    assert line_texts(gzip.compress(b"one\ntw") + gzip.compress(b"o\nthree\n") + b"\0" * 512) == ["one", "two", "three"]


@pytest.mark.parametrize("size", [3, 11, 300, 4000])
def test_truncated_gzip_event_journal_yields_its_lines_and_problem(size: int) -> None:
    text = "".join(f"{random.Random(number).random()}\n" for number in range(1000)).encode()

    numbered_lines = list(lines_with_number_and_problem(memoryview(gzip.compress(text)[:size])))

    assert numbered_lines[-1][1:] == (None, JournalLineProblem.CUT_OFF)
    assert text.decode().startswith("\n".join(str(text) for _, text, _ in numbered_lines[:-1]))
    assert len(numbered_lines) > size // 20


def test_damaged_gzip_event_journal_ends_with_problem() -> None:
    packed = bytearray(gzip.compress(random.Random(1).randbytes(5000)))
    packed[len(packed) // 2 :] = b"\xff" * (len(packed) - len(packed) // 2)

    assert list(lines_with_number_and_problem(memoryview(bytes(packed))))[-1][2] == JournalLineProblem.CUT_OFF


def test_large_event_journal_is_read_completely_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_CHUNK_BYTES", 1000)
    journal_content = b"".join(b"%d:%s\n" % (number, b"x" * (number % 97)) for number in range(500))

    for content in (journal_content, gzip.compress(journal_content)):
        assert [str(line_text).encode() + b"\n" for line_text in line_texts(content)] == journal_content.splitlines(
            keepends=True
        )


def test_empty_event_journal_has_no_lines() -> None:
    assert line_texts(b"") == []


def line(**fields: Any) -> str:
    defaults = {"v": 1, "agent": "shop", "epoch": "e", "jseq": 7, "ts": "2026-03-01T12:00:00.5Z", "kind": "accepted"}
    return json.dumps({**defaults, **fields}, separators=(",", ":"))


@pytest.mark.parametrize(
    ("text", "problem", "is_numbered"),
    [
        (line(), None, True),
        (f" {line()} \r", None, True),
        (line(kind="dreamt"), JournalLineProblem.UNKNOWN_KIND, True),
        (line(v=2), JournalLineProblem.UNKNOWN_VERSION, True),
        (line()[:60], JournalLineProblem.TORN, True),
        (f"{line()[:60]}{line()}", JournalLineProblem.TORN, True),
        ("{", JournalLineProblem.TORN, False),
        ("\0\0", JournalLineProblem.TORN, False),
        (line(jseq="7"), JournalLineProblem.FOREIGN, False),
        (line(jseq=0), JournalLineProblem.FOREIGN, False),
        (line(agent=""), JournalLineProblem.FOREIGN, False),
        ("[1]", JournalLineProblem.FOREIGN, False),
        ("", JournalLineProblem.FOREIGN, False),
    ],
)
def test_line_of_event_journal_is_record_or_has_problem(
    text: str, problem: JournalLineProblem | None, is_numbered: bool
) -> None:
    parsed_line = parse_event_journal_line(1, text)

    assert (parsed_line.problem, parsed_line.record is not None) == (problem, is_numbered)


def test_event_journal_record_has_values_of_its_line() -> None:
    record = parse_event_journal_line(1, line(event_id="", topic="a/b", conn=3, filters=["a/#", 1])).record

    assert record is not None
    assert (record.event_id, record.topic, record.came, record.filters) == (None, "a/b", True, ["a/#", "1"])
    assert record.ts is not None
    assert record.ts.isoformat() == "2026-03-01T12:00:00.500000+00:00"
    assert parse_event_journal_line(1, line(ts="yesterday")).record == record._replace(
        ts=None, topic=None, came=False, filters=None
    )


def test_summary_of_event_journal_file_contains_its_epochs_and_problems() -> None:
    lines = [line(), line(jseq=9, ts="2026-03-01T11:00:00Z"), "?", line(jseq=11)[:60], "{"]

    summaries, _ = summarize_event_journal_file("h", "agent/a.jsonl", memoryview("\n".join(lines).encode()))

    (known, torn) = summaries.parts.values()
    assert (known.agent, known.epoch, known.known, known.line) == ("shop", "e", 11, 2)
    assert (torn.agent, torn.torn) == (None, 5)
    assert summaries.problems == {JournalLineProblem.FOREIGN: (1, 3), JournalLineProblem.TORN: (2, 4)}
    assert (summaries.first, summaries.last) == (known.began, summaries.last)
