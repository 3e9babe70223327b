"""A log in several files, pieces or gzip members is read as the one log that it is."""

from __future__ import annotations

import gzip
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

from activemq_fleet.logs.chunks import offset_of_last_record, record_pieces_from_line_batches
from activemq_fleet.logs.event_batches import SCHEMA, LogReleaseAndTimeZone, LogScanner, count_bytes_before_first_record
from activemq_fleet.logs.host_log_batches import CUT_OFF, LogFile, arrow_batches_of_host_logs, arrow_batches_of_log_file
from activemq_fleet.logs.rolled_files import (
    LogBeginning,
    PlaceAmongLogFiles,
    RolledFile,
    is_direct_successor,
    log_file_positions_by_name,
    missing_rolled_file_messages,
    preamble_and_first_record_date,
    rolled_files_oldest_first,
)
from tests.log_reading import LINES, Row

LINE = LINES[0]
GOOD = [line for line in LINES if not line.startswith((b" INFO", b"ERROR"))]
STACK = b"java.io.IOException: outer\n\tat some.Place.method(Place.java:1)\n"
WHOLE = b"".join(b"2026-03-%02d 10:00:00,001 | INFO  | %d | a.B | main\n" % (day, day) for day in range(1, 29)) + STACK
SAID = ("time", "raw_time", "level", "kind", "message", "stack", "logger", "thread", "fields", "parsed")


def rows(data: bytes, line: int = 1, after: bytes = b"") -> list[Row]:
    batches = LogScanner(LogReleaseAndTimeZone(), line).scan_into_record_batches(data, after)
    records: list[Row] = pa.Table.from_batches(batches, schema=SCHEMA).to_pylist()
    return records


def said(found: list[Row]) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in SAID) for row in found]


def host_rows(contents: dict[str, bytes], place: PlaceAmongLogFiles | None = None) -> list[Row]:
    """The events of a host's files, in the order in which they were written."""
    files = [
        (LogFile("h", name, LogReleaseAndTimeZone(), name.endswith(".gz"), place), memoryview(data))
        for name, data in contents.items()
    ]
    rows = [row for batch in arrow_batches_of_host_logs(files) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: int(row["sequence"]))


def cut_up(random: Random) -> list[bytes]:
    """A log cut anywhere, but so that each piece has the beginning of a record."""
    while True:
        lines = [LINE, *(random.choice(GOOD) for _ in range(random.randrange(4, 30)))]
        data = random.choice([b"\n", b"\r\n"]).join(lines) + random.choice([b"", b"\n"])
        cuts = sorted({0, *(random.randrange(1, len(data)) for _ in range(random.randrange(1, 4))), len(data)})
        pieces = [data[one:other] for one, other in pairwise(cuts)]
        if all(count_bytes_before_first_record(piece) < len(piece) for piece in pieces):
            return pieces


def test_a_log_cut_anywhere_into_files_has_the_same_events() -> None:
    random = Random(3)
    for _ in range(300):
        pieces = cut_up(random)
        names = [f"activemq.log.{number}" for number in range(len(pieces) - 1, 0, -1)] + ["activemq.log"]
        beginnings = {
            name: LogBeginning(piece[: count_bytes_before_first_record(piece)], f"2026-03-{day:02} 10:00:00,000")
            for day, (name, piece) in enumerate(zip(names, pieces, strict=True), 1)
        }
        places = log_file_positions_by_name(beginnings, LogReleaseAndTimeZone())
        found = []
        for name, piece in zip(names, pieces, strict=True):
            found += rows(piece[places[name].skip :], 1, places[name].after)
        assert said(found) == said(rows(b"".join(pieces))), pieces


@pytest.mark.parametrize("seed", range(20))
def test_files_of_a_host_cut_anywhere_are_one_log(seed: int) -> None:
    random = Random(seed)
    one, other = random.randrange(60, len(WHOLE) // 2 - 120), random.randrange(len(WHOLE) // 2, len(WHOLE) - 200)
    contents = {
        "activemq.log": WHOLE[other:],
        "activemq.log.1.gz": gzip.compress(WHOLE[one:other]),
        "activemq.log.2": WHOLE[:one],
    }
    assert said(host_rows(contents)) == said(rows(WHOLE))


def test_bytes_before_the_first_record_of_all_are_a_record_that_could_not_be_read() -> None:
    first, *others = host_rows({"activemq.log": STACK + WHOLE})
    assert (first["parsed"], first["message"]) == (False, STACK.decode().rstrip())
    assert said(others) == said(rows(WHOLE))


def test_a_file_whose_place_is_known_is_read_without_the_others_of_its_host() -> None:
    records = host_rows({"activemq.log.1": LINE + b"\n"}, PlaceAmongLogFiles(7, after=b"\tat x\n"))
    assert [(row["stack"], row["sequence"] >> 40) for row in records] == [("\tat x", 7)]


def test_a_record_is_looked_for_further_on_where_the_beginning_has_none() -> None:
    head = b"\tat x\n" * (1 << 14)
    assert preamble_and_first_record_date(memoryview(head + LINE), compressed=False) == LogBeginning(
        head, LINE[:23].decode()
    )
    assert preamble_and_first_record_date(memoryview(head), compressed=False).first is None


@pytest.mark.parametrize(("older", "joins"), [("activemq.log.1", True), ("activemq.log.2", False)])
def test_what_a_missing_file_held_is_not_given_to_the_one_before(older: str, joins: bool) -> None:
    places = log_file_positions_by_name(
        {
            older: LogBeginning(b"", "2026-03-01 10:00:00"),
            "activemq.log": LogBeginning(b"\tat x\n", "2026-03-02 10:00:00"),
        },
        LogReleaseAndTimeZone(),
    )
    assert (places[older].after, places["activemq.log"].skip) == ((b"\tat x\n", 6) if joins else (b"", 0))


def test_a_file_without_a_record_is_no_end_of_another() -> None:
    places = log_file_positions_by_name(
        {
            "activemq.log.1": LogBeginning(b"", "2026-03-01 10:00:00"),
            "activemq.log": LogBeginning(b"no log at all\n", None),
        },
        LogReleaseAndTimeZone(),
    )
    assert {place.after for place in places.values()} == {b""}


# -- large files, whose lines Spark gives ------------------------------------------------------


def batches(lines: list[bytes], size: int) -> list[pa.RecordBatch]:
    return [
        pa.RecordBatch.from_pydict({"line": pa.array(lines[at : at + size], pa.binary())})
        for at in range(0, len(lines), size)
    ]


def from_lines(data: bytes, size: int, known: int | None) -> list[Row]:
    """The events of a file whose lines come in batches of so many. ``known``: the size of the file, if it is known."""
    lines = data.removesuffix(b"\n").split(b"\n")
    pieces = record_pieces_from_line_batches(batches(lines, size), known)
    return [
        row
        for batch in arrow_batches_of_log_file(LogFile("h", "activemq.log", LogReleaseAndTimeZone()), pieces)
        for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n", b"\r\n"])
def test_a_file_that_comes_as_lines_has_the_events_of_the_whole(
    size: int, end: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activemq_fleet.logs.chunks.STEP", 300)
    data = b"\n".join([*GOOD, b"\tat x\xff", b"", *GOOD]) + end
    whole = rows(data)
    found = from_lines(data, size, len(data))
    names = (*SAID, "line", "end_line")
    assert [[row[name] for name in names] for row in found] == [[row[name] for name in names] for row in whole]
    assert [CUT_OFF in (row["problem"] or "") for row in found] == [*[False] * (len(whole) - 1), not end]


def test_without_the_size_of_a_file_its_last_line_has_an_end() -> None:
    assert from_lines(LINE, 1, None)[-1]["problem"] is None


def test_lines_come_in_pieces_that_end_where_records_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("activemq_fleet.logs.chunks.STEP", 300)
    lines = [LINE, b"\tat x"] * 10
    pieces = list(record_pieces_from_line_batches(batches(lines, 3), None))
    assert len(pieces) > 3
    assert b"".join(bytes(data) for data, *_ in pieces) == b"".join(line + b"\n" for line in lines)
    assert all(bytes(data).startswith(LINE) for data, *_ in pieces)
    assert [last for _, last, _ in pieces] == [*[False] * (len(pieces) - 1), True]


def test_the_last_record_is_found_however_long_it_is() -> None:
    data = LINE + b"\n" + LINE + b"\n" + b"\tat x\n" * (1 << 17)
    assert offset_of_last_record(data) == len(LINE) + 1
    assert offset_of_last_record(LINE + b"\n\tat x\n") == 0


# -- the order of rolled files -----------------------------------------------------------------


def names(rolls: list[RolledFile]) -> list[str]:
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
    assert names(rolled_files_oldest_first(RolledFile(f"activemq.log{name}", first) for name, first in rolls)) == order


def test_without_times_the_release_tells_in_which_direction_files_are_counted() -> None:
    rolls = [RolledFile(f"activemq.log{name}") for name in ("", ".1", ".2")]
    assert names(rolled_files_oldest_first(rolls, counts_up=True)) == [".1", ".2", ""]


def test_a_file_that_is_missing_between_others_is_named() -> None:
    rolls = rolled_files_oldest_first(
        RolledFile(f"activemq.log{name}", at) for at, name in enumerate([".4", ".2", ".1", ""])
    )
    assert missing_rolled_file_messages(roll.file for roll in rolls) == [
        "the log file activemq.log.3 is missing, so its events are unknown: collect it from the host again"
    ]
    assert [is_direct_successor(rolls, at) for at in range(4)] == [False, False, True, True]


@pytest.mark.parametrize("up", [True, False])
def test_before_the_file_that_is_written_came_number_1_or_the_highest(up: bool) -> None:
    assert is_direct_successor([RolledFile("activemq.log.2", 1), RolledFile("activemq.log", 2)], 1, counts_up=up) is up


def test_rolled_files_without_the_one_that_is_written_lack_it() -> None:
    assert missing_rolled_file_messages(["activemq.log.2", "activemq.log.1"]) == [
        "the log file activemq.log is missing, so the newest events are unknown: collect it from the host again"
    ]
