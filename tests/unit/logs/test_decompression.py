"""Log files that are compressed with gzip, whole and damaged."""

from __future__ import annotations

import gzip

import pytest

from activemq_fleet.logs.chunks import unpacked_record_pieces
from activemq_fleet.logs.decompression import TRUNCATED, is_compressed_file_name, without_compression_ending
from tests.log_reading import LINES

LINE = LINES[0]


def inflated(data: bytes) -> tuple[bytes, str]:
    pieces = list(unpacked_record_pieces(memoryview(data), compressed=True))
    return b"".join(bytes(piece) for piece, _, _ in pieces), "".join(problem for *_, problem in pieces)


def test_members_of_a_gzip_file_are_one_log() -> None:
    assert inflated(gzip.compress(LINE) + gzip.compress(b"\n\tat x\n") + b"\0" * 8) == (LINE + b"\n\tat x\n", "")


def test_of_a_truncated_gzip_file_what_there_is_is_kept_and_the_end_is_named() -> None:
    whole = b"".join(b"%s %d\n" % (LINE, number) for number in range(500))
    data, problem = inflated(gzip.compress(whole)[:-400])
    assert 0 < len(data) < len(whole)
    assert whole.startswith(data)
    assert problem == TRUNCATED


def test_bytes_that_are_no_gzip_after_some_that_are_are_named() -> None:
    data, problem = inflated(gzip.compress(LINE) + b"garbage")
    assert (data, problem.startswith("the rest of the gzip file cannot be unpacked")) == (LINE, True)


def test_a_large_gzip_file_is_unpacked_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("activemq_fleet.logs.decompression.STEP", 1000)
    whole = (LINE + b"\n\tat x\n") * 100
    pieces = list(unpacked_record_pieces(memoryview(gzip.compress(whole)), compressed=True))
    assert len(pieces) > 5
    assert all(bytes(piece).startswith(LINE) for piece, _, _ in pieces)
    assert b"".join(bytes(piece) for piece, _, _ in pieces) == whole


@pytest.mark.parametrize(
    ("name", "is_compressed", "plain_name"),
    [
        ("activemq.log.1.gz", True, "activemq.log.1"),
        ("activemq.log", False, "activemq.log"),
        ("a.gz.1", False, "a.gz.1"),
    ],
)
def test_ending_gz_marks_a_compressed_file(name: str, is_compressed: bool, plain_name: str) -> None:
    assert is_compressed_file_name(name) is is_compressed
    assert without_compression_ending(name) == plain_name
