"""Files of journals -> lines, whatever has happened to the files."""

from __future__ import annotations

import gzip
import random

import pyarrow as pa
import pytest

from activemq_fleet.audit import verdict_words as words
from activemq_fleet.spark import journals
from activemq_fleet.spark.journals import journal_lines, split_host_and_file

Row = tuple[str, str, int, str | None, str | None]


def lines(content: bytes, path: str = "file:/logs/shop01/agent/journal-000000001.jsonl") -> list[Row]:
    batch = pa.RecordBatch.from_pydict({"path": [path], "content": pa.array([content], pa.binary())})
    found: list[Row] = []
    for one in journal_lines([batch]):
        found += [tuple(row.values()) for row in one.to_pylist()]
    return found


def values(content: bytes) -> list[str | None]:
    return [row[3] for row in lines(content)]


def test_a_line_knows_its_host_its_file_and_its_number() -> None:
    assert lines(b"one\ntwo\n") == [
        ("shop01", "agent/journal-000000001.jsonl", 1, "one", None),
        ("shop01", "agent/journal-000000001.jsonl", 2, "two", None),
    ]


def test_a_path_may_be_any_that_hadoop_reads() -> None:
    assert split_host_and_file("s3a://logs/2026/shop01/agent/a b.jsonl.gz") == ("shop01", "agent/a b.jsonl.gz")


def test_what_has_no_end_of_line_is_a_line_too() -> None:
    assert values(b'{"v":1}\n{"v"') == ['{"v":1}', '{"v"']


def test_empty_lines_are_counted() -> None:
    assert values(b"\n\none\n") == ["", "", "one"]


def test_only_a_line_feed_ends_a_line() -> None:
    assert values("a\u2028b\rc\x0bd\n".encode()) == ["a\u2028b\rc\x0bd"]


def test_bytes_that_are_no_text_are_written_out() -> None:
    assert values(b"a\xff\xfeb\n") == ["a\\xff\\xfeb"]


def test_gzip_is_told_by_its_first_bytes_and_may_have_several_members() -> None:
    assert values(gzip.compress(b"one\ntw") + gzip.compress(b"o\nthree\n") + b"\0" * 512) == ["one", "two", "three"]


@pytest.mark.parametrize("size", [3, 11, 300, 4000])
def test_a_gzip_file_that_is_cut_off_gives_what_it_has_and_says_so(size: int) -> None:
    text = "".join(f"{random.Random(number).random()}\n" for number in range(1000)).encode()

    found = lines(gzip.compress(text)[:size])

    assert found[-1][3:] == (None, words.CUT_OFF)
    assert text.decode().startswith("\n".join(str(row[3]) for row in found[:-1]))
    assert len(found) > size // 20


def test_damage_inside_a_gzip_file_ends_it() -> None:
    packed = bytearray(gzip.compress(random.Random(1).randbytes(5000)))
    packed[len(packed) // 2 :] = b"\xff" * (len(packed) - len(packed) // 2)

    assert lines(bytes(packed))[-1][4] == words.CUT_OFF


def test_a_large_file_comes_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "_AT_ONCE", 1000)
    text = b"".join(b"%d:%s\n" % (number, b"x" * (number % 97)) for number in range(500))

    for content in (text, gzip.compress(text)):
        assert [str(value).encode() + b"\n" for value in values(content)] == text.splitlines(keepends=True)


def test_an_empty_file_has_no_lines() -> None:
    assert lines(b"") == []
