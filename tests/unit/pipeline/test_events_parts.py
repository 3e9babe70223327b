"""A log in several files, blocks or gzip members is read as the one log that it is."""

from __future__ import annotations

import gzip
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

from activemq_fleet.logs.event_batches import SCHEMA, Scanner, Source, head_of
from activemq_fleet.spark.events.chunks import blocks, last_record, unpacked
from activemq_fleet.spark.events.rolls import Roll, adjacent, missing, ordered
from activemq_fleet.spark.events.survey import Seen, parts_of
from tests.log_reading import LINES, Row

LINE = LINES[0]
GOOD = [line for line in LINES if not line.startswith((b" INFO", b"ERROR"))]
SAID = ("time", "raw_time", "level", "kind", "message", "stack", "logger", "thread", "fields", "parsed")


def rows(data: bytes, line: int = 1, after: bytes = b"") -> list[Row]:
    found: list[Row] = pa.Table.from_batches(Scanner(Source(), line).scan(data, after), schema=SCHEMA).to_pylist()
    return found


def said(found: list[Row]) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in SAID) for row in found]


def cut_up(random: Random) -> list[bytes]:
    """A log cut anywhere, but so that each piece has the beginning of a record."""
    while True:
        lines = [LINE, *(random.choice(GOOD) for _ in range(random.randrange(4, 30)))]
        data = random.choice([b"\n", b"\r\n"]).join(lines) + random.choice([b"", b"\n"])
        cuts = sorted({0, *(random.randrange(1, len(data)) for _ in range(random.randrange(1, 4))), len(data)})
        pieces = [data[one:other] for one, other in pairwise(cuts)]
        if all(head_of(piece) < len(piece) for piece in pieces):
            return pieces


def test_a_log_cut_anywhere_into_files_has_the_same_events() -> None:
    random = Random(3)
    for _ in range(300):
        pieces = cut_up(random)
        chain = [(str(at), Seen(0, 0, piece[: head_of(piece)], "time"), True) for at, piece in enumerate(pieces)]
        found = []
        for at, piece in enumerate(pieces):
            part = parts_of(chain)[str(at)][0]
            found += rows(piece[part.skip :], 1, part.after)
        assert said(found) == said(rows(b"".join(pieces))), pieces


def test_the_lines_of_blocks_go_on_counting() -> None:
    chain = [("f", Seen(start, 10, b"\tat x\n", "time"), True) for start in (0, 100, 200)]
    parts = parts_of(chain)["f"]
    assert {start: (part.line, part.skip, part.after) for start, part in parts.items()} == {
        0: (1, 0, b"\tat x\n"),
        100: (11, 6, b"\tat x\n"),
        200: (21, 6, b""),
    }


@pytest.mark.parametrize("joins", [True, False])
def test_what_a_missing_file_held_is_not_given_to_the_one_before(joins: bool) -> None:
    chain = [("a", Seen(0, 0, b"", "time"), True), ("b", Seen(0, 0, b"\tat x\n", "time"), joins)]
    assert (parts_of(chain)["a"][0].after, parts_of(chain)["b"][0].skip) == ((b"\tat x\n", 6) if joins else (b"", 0))


def test_a_file_without_a_record_is_no_end_of_another() -> None:
    chain = [("a", Seen(0, 0, b"", "time"), True), ("b", Seen(0, 0, b"no log at all\n", None), True)]
    assert (parts_of(chain)["a"][0].after, parts_of(chain)["b"][0].skip) == (b"", 0)


# -- blocks, as Spark gives them ---------------------------------------------------------------


def batches(lines: list[tuple[int, int, bytes]], size: int) -> list[pa.RecordBatch]:
    schema = pa.schema([("id", pa.int64()), ("start", pa.int64()), ("line", pa.binary())])
    records = [{"id": id_, "start": start, "line": line} for id_, start, line in lines]
    return [pa.RecordBatch.from_pylist(records[at : at + size], schema=schema) for at in range(0, len(records), size)]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_the_bytes_of_each_block_come_as_they_were_with_its_end_marked(size: int) -> None:
    lines = [(1, 0, b"a\n"), (1, 0, b"\n"), (1, 50, b"b\n"), (2, 0, b"c\xff\n"), (2, 0, b"d\n"), (1, 0, b"e\n")]
    found = list(blocks(iter(batches(lines, size))))
    assert found == [(1, 0, b"a\n\n", True), (1, 50, b"b\n", True), (2, 0, b"c\xff\nd\n", True), (1, 0, b"e\n", True)]


def test_a_long_block_comes_in_pieces_that_end_where_records_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("activemq_fleet.spark.events.chunks.STEP", 300)
    lines = [LINE + b"\n", b"\tat x\n"] * 10
    found = list(blocks(iter(batches([(1, 0, line) for line in lines], 3))))
    assert len(found) > 3
    assert b"".join(data for _, _, data, _ in found) == b"".join(lines)
    assert all(data.startswith(LINE) for _, _, data, _ in found)
    assert [last for *_, last in found] == [*[False] * (len(found) - 1), True]


def test_a_slice_of_a_batch_is_read_at_its_place() -> None:
    (batch,) = batches([(1, 0, b"a\n"), (1, 0, b"b\n"), (1, 0, b"c\n")], 3)
    assert list(blocks(iter([batch.slice(1, 1)]))) == [(1, 0, b"b\n", True)]


# -- gzip --------------------------------------------------------------------------------------


def inflated(data: bytes) -> tuple[bytes, str]:
    pieces = list(unpacked(memoryview(data), compressed=True))
    return b"".join(bytes(piece) for piece, _, _ in pieces), "".join(problem for *_, problem in pieces)


def test_members_of_a_gzip_file_are_one_log() -> None:
    assert inflated(gzip.compress(LINE) + gzip.compress(b"\n\tat x\n") + b"\0" * 8) == (LINE + b"\n\tat x\n", "")


def test_of_a_truncated_gzip_file_what_there_is_is_kept_and_the_end_is_named() -> None:
    whole = b"".join(b"%s %d\n" % (LINE, number) for number in range(500))
    data, problem = inflated(gzip.compress(whole)[:-400])
    assert 0 < len(data) < len(whole)
    assert whole.startswith(data)
    assert problem == "the file is truncated: its gzip data end too early"


def test_bytes_that_are_no_gzip_after_some_that_are_are_named() -> None:
    data, problem = inflated(gzip.compress(LINE) + b"garbage")
    assert (data, problem.startswith("the rest cannot be unpacked")) == (LINE, True)


def test_a_large_gzip_file_is_unpacked_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("activemq_fleet.spark.events.chunks.STEP", 1000)
    whole = (LINE + b"\n\tat x\n") * 100
    pieces = list(unpacked(memoryview(gzip.compress(whole)), compressed=True))
    assert len(pieces) > 5
    assert all(bytes(piece).startswith(LINE) for piece, _, _ in pieces)
    assert b"".join(bytes(piece) for piece, _, _ in pieces) == whole


def test_the_last_record_is_found_however_long_it_is() -> None:
    data = LINE + b"\n" + LINE + b"\n" + b"\tat x\n" * (1 << 17)
    assert last_record(data) == len(LINE) + 1
    assert last_record(LINE + b"\n\tat x\n") == 0


# -- the order of rolled files -----------------------------------------------------------------


def names(rolls: list[Roll]) -> list[str]:
    return [roll.file.removeprefix("activemq.log") for roll in rolls]


@pytest.mark.parametrize(
    ("rolls", "order"),
    [
        ([("", 9), (".1", 8), (".2", 7)], [".2", ".1", ""]),  # log4j 1
        ([("", 9), (".1", 7), (".2", 8)], [".1", ".2", ""]),  # log4j 2
        ([("", 9), (".2", 7), (".10", 8)], [".2", ".10", ""]),
        ([("", 9), (".1", 5), (".2", 7), (".3", 6)], [".1", ".3", ".2", ""]),  # neither: an upgrade
        ([("", 9), (".1.gz", 8), (".2.gz", None), (".3.gz", 6)], [".3.gz", ".2.gz", ".1.gz", ""]),
        ([("", 3), ("-20260101.gz", 1), ("-20260102.gz", 2)], ["-20260101.gz", "-20260102.gz", ""]),
        ([("", None), (".1", None), (".2", None)], [".2", ".1", ""]),
    ],
)
def test_files_are_put_in_the_order_in_which_they_were_written(
    rolls: list[tuple[str, int | None]], order: list[str]
) -> None:
    assert names(ordered(Roll(f"activemq.log{name}", first) for name, first in rolls)) == order


def test_without_times_the_release_tells_in_which_direction_files_are_counted() -> None:
    rolls = [Roll(f"activemq.log{name}") for name in ("", ".1", ".2")]
    assert names(ordered(rolls, counts_up=True)) == [".1", ".2", ""]


def test_a_file_that_is_missing_between_others_is_named() -> None:
    rolls = ordered(Roll(f"activemq.log{name}", at) for at, name in enumerate([".4", ".2", ".1", ""]))
    assert missing(rolls) == ["activemq.log.3 is missing"]
    assert [adjacent(rolls, at) for at in range(4)] == [False, False, True, True]


@pytest.mark.parametrize("up", [True, False])
def test_before_the_file_that_is_written_came_number_1_or_the_highest(up: bool) -> None:
    assert adjacent([Roll("activemq.log.2", 1), Roll("activemq.log", 2)], 1, counts_up=up) is up


def test_rolled_files_without_the_one_that_is_written_lack_it() -> None:
    assert missing([Roll("activemq.log.2", 1), Roll("activemq.log.1", 2)]) == ["activemq.log is missing"]
