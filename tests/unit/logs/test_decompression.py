"""Tests of the decompression of complete and damaged gzip log files."""

from __future__ import annotations

import gzip

import pytest

from activemq_fleet.logs.chunks import unpacked_record_pieces
from activemq_fleet.logs.decompression import TRUNCATED, is_compressed_file_name, without_compression_ending
from tests.log_reading import LINES

LINE = LINES[0]
COMPRESSED_LINE = gzip.compress(LINE)


def decompress(data: bytes) -> tuple[bytes, str]:
    pieces = list(unpacked_record_pieces(memoryview(data), compressed=True))
    return b"".join(bytes(piece) for piece, _, _ in pieces), "".join(problem for *_, problem in pieces)


def test_members_of_gzip_file_are_joined() -> None:
    assert decompress(gzip.compress(LINE) + gzip.compress(b"\n\tat x\n") + b"\0" * 8) == (LINE + b"\n\tat x\n", "")


def test_start_of_truncated_gzip_file_is_kept_and_truncation_reported() -> None:
    complete_log = b"".join(b"%s %d\n" % (LINE, number) for number in range(500))
    data, problem = decompress(gzip.compress(complete_log)[:-400])
    assert 0 < len(data) < len(complete_log)
    assert complete_log.startswith(data)
    assert problem == TRUNCATED


def test_garbage_after_member_of_gzip_log_is_reported() -> None:
    data, problem = decompress(gzip.compress(LINE) + b"garbage")
    assert (data, problem.startswith("the rest of the gzip file cannot be unpacked")) == (LINE, True)


@pytest.mark.parametrize(
    "data",
    [b"", LINE, COMPRESSED_LINE[:15], b"\x1f\x8c" + COMPRESSED_LINE[2:], COMPRESSED_LINE[:-1]],
    ids=["empty", "plain text", "cut off in header", "damaged header", "cut off in checksum"],
)
def test_gzip_log_that_cannot_be_unpacked_is_empty_piece_with_problem(data: bytes) -> None:
    [(piece, is_last, problem)] = unpacked_record_pieces(memoryview(data), compressed=True)
    assert LINE.startswith(piece)
    assert (is_last, "collect it from the host again" in problem) == (True, True)


def test_records_before_damage_of_gzip_log_are_kept() -> None:
    complete_log = b"".join(b"%s %d\n" % (LINE, number * 7919 % 99991) for number in range(5000))
    compressed_log = bytearray(gzip.compress(complete_log))
    for offset in range(len(compressed_log) // 2, len(compressed_log) - 8, len(compressed_log) // 20):
        damaged_log = compressed_log.copy()
        damaged_log[offset] ^= 0x10
        data, problem = decompress(bytes(damaged_log))
        assert complete_log[: len(complete_log) // 4] == data[: len(complete_log) // 4]
        assert problem.startswith("the rest of the gzip file cannot be unpacked")


def test_gzip_members_are_joined_wherever_input_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    data = gzip.compress(LINE * 50) + b"\0" * 30 + gzip.compress(LINE[::-1]) + b"\0" * 40
    for size in range(1, 60):
        monkeypatch.setattr("activemq_fleet.logs.decompression._INPUT_BYTES", size)
        assert decompress(data) == (LINE * 50 + LINE[::-1], "")


def test_large_gzip_file_is_decompressed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("activemq_fleet.logs.decompression.STEP", 1000)
    monkeypatch.setattr("activemq_fleet.logs.decompression._OUTPUT_BYTES", 300)
    complete_log = (LINE + b"\n\tat x\n") * 100
    pieces = list(unpacked_record_pieces(memoryview(gzip.compress(complete_log)), compressed=True))
    assert len(pieces) > 5
    assert all(bytes(piece).startswith(LINE) for piece, _, _ in pieces)
    assert b"".join(bytes(piece) for piece, _, _ in pieces) == complete_log


@pytest.mark.parametrize(
    ("name", "is_compressed", "plain_name"),
    [
        ("activemq.log.1.gz", True, "activemq.log.1"),
        ("activemq.log", False, "activemq.log"),
        ("a.gz.1", False, "a.gz.1"),
    ],
)
def test_log_file_name_that_ends_with_gz_marks_compressed_log(name: str, is_compressed: bool, plain_name: str) -> None:
    assert is_compressed_file_name(name) is is_compressed
    assert without_compression_ending(name) == plain_name
