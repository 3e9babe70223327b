"""Tests of logs in several files, pieces or gzip members: the reader joins them to a single log."""

from __future__ import annotations

import gzip
from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest

from activemq_fleet.logs.chunks import (
    offset_of_last_record,
    record_pieces_from_line_batches,
    unpacked_record_pieces,
)
from activemq_fleet.logs.event_batches import SCHEMA, LogReleaseAndTimeZone, LogScanner, count_bytes_before_first_record
from activemq_fleet.logs.host_log_batches import (
    CUT_OFF,
    LogFile,
    arrow_batches_of_log_file,
    arrow_log_record_batches_of_host,
)
from activemq_fleet.logs.rolled_files import (
    LogPreambleAndFirstRecordDate,
    PlaceAmongLogFiles,
    RolledFile,
    direct_successor_flags_of_rolls,
    log_file_positions_by_name,
    missing_rolled_file_messages,
    preamble_and_first_record_date,
    rolled_files_oldest_first,
)
from tests.log_reading import LINES, Row

LINE = LINES[0]
GOOD = [line for line in LINES if not line.startswith((b" INFO", b"ERROR"))]
STACK = b"java.io.IOException: outer\n\tat some.Place.method(Place.java:1)\n"
COMPLETE_LOG = (
    b"".join(b"2026-03-%02d 10:00:00,001 | INFO  | %d | a.B | main\n" % (day, day) for day in range(1, 29)) + STACK
)
COMPARED_COLUMNS = ("time", "raw_time", "level", "kind", "message", "stack", "logger", "thread", "fields", "parsed")


def rows(data: bytes, line: int = 1, after: bytes = b"") -> list[Row]:
    batches = LogScanner(LogReleaseAndTimeZone(), line).arrow_batches_of_log_records(data, after)
    records: list[Row] = pa.Table.from_batches(batches, schema=SCHEMA).to_pylist()
    return records


def column_values(rows: list[Row]) -> list[tuple[object, ...]]:
    return [tuple(row[name] for name in COMPARED_COLUMNS) for row in rows]


def host_rows(contents: dict[str, bytes], place: PlaceAmongLogFiles | None = None) -> list[Row]:
    """Return the events of the files of a host, in the order in which they were written."""
    files = [
        (LogFile("h", name, LogReleaseAndTimeZone(), name.endswith(".gz"), place), memoryview(data))
        for name, data in contents.items()
    ]
    rows = [row for batch in arrow_log_record_batches_of_host(files) for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: int(row["sequence"]))


def cut_log_at_random(random: Random) -> list[bytes]:
    """Cut a log at random offsets, so that a record begins in each piece."""
    while True:
        lines = [LINE, *(random.choice(GOOD) for _ in range(random.randrange(4, 30)))]
        data = random.choice([b"\n", b"\r\n"]).join(lines) + random.choice([b"", b"\n"])
        offsets = sorted({0, *(random.randrange(1, len(data)) for _ in range(random.randrange(1, 4))), len(data)})
        pieces = [data[start:end] for start, end in pairwise(offsets)]
        if all(count_bytes_before_first_record(piece) < len(piece) for piece in pieces):
            return pieces


def test_log_split_into_files_has_same_events() -> None:
    random = Random(3)
    for _ in range(300):
        contents = cut_log_at_random(random)
        names = [f"activemq.log.{number}" for number in range(len(contents) - 1, 0, -1)] + ["activemq.log"]
        beginnings = {
            name: LogPreambleAndFirstRecordDate(
                content[: count_bytes_before_first_record(content)], f"2026-03-{day:02} 10:00:00,000"
            )
            for day, (name, content) in enumerate(zip(names, contents, strict=True), 1)
        }
        places = log_file_positions_by_name(beginnings, LogReleaseAndTimeZone())
        events = []
        for name, content in zip(names, contents, strict=True):
            events += rows(content[places[name].skip :], 1, places[name].after)
        assert column_values(events) == column_values(rows(b"".join(contents))), contents


@pytest.mark.parametrize("seed", range(20))
def test_rolled_log_files_of_host_have_events_of_complete_log(seed: int) -> None:
    random = Random(seed)
    first_cut = random.randrange(60, len(COMPLETE_LOG) // 2 - 120)
    second_cut = random.randrange(len(COMPLETE_LOG) // 2, len(COMPLETE_LOG) - 200)
    contents = {
        "activemq.log": COMPLETE_LOG[second_cut:],
        "activemq.log.1.gz": gzip.compress(COMPLETE_LOG[first_cut:second_cut]),
        "activemq.log.2": COMPLETE_LOG[:first_cut],
    }
    assert column_values(host_rows(contents)) == column_values(rows(COMPLETE_LOG))


def test_bytes_before_first_log_record_are_unreadable_record() -> None:
    unreadable_event, *events = host_rows({"activemq.log": STACK + COMPLETE_LOG})
    assert (unreadable_event["parsed"], unreadable_event["message"]) == (False, STACK.decode().rstrip())
    assert column_values(events) == column_values(rows(COMPLETE_LOG))


def test_gzip_log_that_cannot_be_unpacked_is_row_with_problem_and_order_of_file() -> None:
    unreadable, current = host_rows({"activemq.log": LINE + b"\n", "activemq.log.1.gz": b"no gzip"})
    assert (unreadable["message"], unreadable["kind"], unreadable["parsed"]) == ("", "UNKNOWN", True)
    assert "cannot be unpacked" in str(unreadable["problem"])
    assert (unreadable["sequence"] >> 40, current["sequence"] >> 40, current["problem"]) == (0, 1, None)


def test_log_file_with_known_position_is_read_without_other_files() -> None:
    records = host_rows({"activemq.log.1": LINE + b"\n"}, PlaceAmongLogFiles(7, after=b"\tat x\n"))
    assert [(row["stack"], row["sequence"] >> 40) for row in records] == [("\tat x", 7)]


def test_first_log_record_is_searched_beyond_beginning_of_file() -> None:
    head = b"\tat x\n" * (1 << 14)
    assert preamble_and_first_record_date(memoryview(head + LINE), compressed=False) == LogPreambleAndFirstRecordDate(
        head, LINE[:23].decode()
    )
    assert preamble_and_first_record_date(memoryview(head), compressed=False).first is None


@pytest.mark.parametrize(("older", "is_continued"), [("activemq.log.1", True), ("activemq.log.2", False)])
def test_start_of_log_file_continues_previous_file_only_without_missing_file(older: str, is_continued: bool) -> None:
    places = log_file_positions_by_name(
        {
            older: LogPreambleAndFirstRecordDate(b"", "2026-03-01 10:00:00"),
            "activemq.log": LogPreambleAndFirstRecordDate(b"\tat x\n", "2026-03-02 10:00:00"),
        },
        LogReleaseAndTimeZone(),
    )
    assert (places[older].after, places["activemq.log"].skip) == ((b"\tat x\n", 6) if is_continued else (b"", 0))


def test_log_file_without_record_does_not_continue_previous_file() -> None:
    places = log_file_positions_by_name(
        {
            "activemq.log.1": LogPreambleAndFirstRecordDate(b"", "2026-03-01 10:00:00"),
            "activemq.log": LogPreambleAndFirstRecordDate(b"no log at all\n", None),
        },
        LogReleaseAndTimeZone(),
    )
    assert {place.after for place in places.values()} == {b""}


# -- large files, whose lines Spark reads ------------------------------------------------------


def batches(lines: list[bytes], size: int) -> list[pa.RecordBatch]:
    return [
        pa.RecordBatch.from_pydict({"line": pa.array(lines[at : at + size], pa.binary())})
        for at in range(0, len(lines), size)
    ]


def events_of_line_batches(data: bytes, size: int, *, compressed: bool = False) -> list[Row]:
    """Return the events of a file whose lines arrive in batches of ``size``."""
    lines = data.removesuffix(b"\n").split(b"\n")
    pieces = record_pieces_from_line_batches(batches(lines, size), len(data), compressed=compressed)
    return [
        row
        for batch in arrow_batches_of_log_file(LogFile("h", "activemq.log", LogReleaseAndTimeZone()), pieces)
        for row in batch.to_pylist()
    ]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("end", [b"", b"\n", b"\n\n", b"\r\n"])
def test_log_file_read_as_line_batches_has_events_of_complete_file(
    size: int, end: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activemq_fleet.logs.chunks.STEP", 300)
    data = b"\n".join([*GOOD, b"\tat x\xff", b"", *GOOD]) + end
    expected = rows(data)
    events = events_of_line_batches(data, size)
    names = (*COMPARED_COLUMNS, "line", "end_line")
    assert [[row[name] for name in names] for row in events] == [[row[name] for name in names] for row in expected]
    assert [CUT_OFF in (row["problem"] or "") for row in events] == [*[False] * (len(expected) - 1), not end]


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize("damage", ["none", "truncated", "flipped bit"])
def test_gzip_log_read_as_line_batches_has_events_of_file_read_at_once(
    size: int, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activemq_fleet.logs.decompression.STEP", 300)
    packed = bytearray(gzip.compress(b"".join(b"%s %d\n" % (LINE, at * 7919 % 99991) for at in range(900))))
    if damage == "truncated":
        del packed[-500:]
    elif damage == "flipped bit":
        packed[len(packed) // 2] ^= 0x10
    expected = [
        row
        for batch in arrow_batches_of_log_file(
            LogFile("h", "activemq.log", LogReleaseAndTimeZone()),
            unpacked_record_pieces(memoryview(bytes(packed)), compressed=True),
        )
        for row in batch.to_pylist()
    ]
    assert events_of_line_batches(bytes(packed), size, compressed=True) == expected
    assert (expected[-1]["problem"] is None) == (damage == "none")


def test_pieces_of_log_line_batches_end_at_record_boundaries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("activemq_fleet.logs.chunks.STEP", 300)
    lines = [LINE, b"\tat x"] * 10
    size = len(b"".join(line + b"\n" for line in lines))
    pieces = list(record_pieces_from_line_batches(batches(lines, 3), size, compressed=False))
    assert len(pieces) > 3
    assert b"".join(bytes(data) for data, *_ in pieces) == b"".join(line + b"\n" for line in lines)
    assert all(bytes(data).startswith(LINE) for data, *_ in pieces)
    assert [last for _, last, _ in pieces] == [*[False] * (len(pieces) - 1), True]


def test_offset_of_long_last_log_record_is_returned() -> None:
    data = LINE + b"\n" + LINE + b"\n" + b"\tat x\n" * (1 << 17)
    assert offset_of_last_record(data) == len(LINE) + 1
    assert offset_of_last_record(LINE + b"\n\tat x\n") == 0


# -- the order of rolled files -----------------------------------------------------------------


def endings(rolled_files: list[RolledFile]) -> list[str]:
    return [rolled_file.file.removeprefix("activemq.log") for rolled_file in rolled_files]


@pytest.mark.parametrize(
    ("rolled_files", "order"),
    [
        ([("", 9), (".1", 8), (".2", 7)], [".2", ".1", ""]),  # log4j 1
        ([("", 9), (".1", 7), (".2", 8)], [".1", ".2", ""]),  # log4j 2
        ([("", 9), (".2", 7), (".10", 8)], [".2", ".10", ""]),
        ([("", 9), (".1", 5), (".2", 7), (".3", 6)], [".1", ".3", ".2", ""]),  # neither order, after an upgrade
        ([("", 9), (".1.gz", 8), (".2.gz", None), (".3.gz", 6)], [".3.gz", ".2.gz", ".1.gz", ""]),
        ([("", 3), ("-20260101.gz", 1), ("-20260102.gz", 2)], ["-20260101.gz", "-20260102.gz", ""]),
        ([("", None), (".1", None), (".2", None)], [".2", ".1", ""]),
    ],
)
def test_rolled_log_files_are_sorted_by_time_of_writing(
    rolled_files: list[tuple[str, int | None]], order: list[str]
) -> None:
    assert (
        endings(rolled_files_oldest_first(RolledFile(f"activemq.log{name}", first) for name, first in rolled_files))
        == order
    )


def test_order_of_rolled_log_files_without_times_depends_on_release() -> None:
    rolled_files = [RolledFile(f"activemq.log{name}") for name in ("", ".1", ".2")]
    assert endings(rolled_files_oldest_first(rolled_files, counts_up=True)) == [".1", ".2", ""]


def test_missing_rolled_log_file_is_reported() -> None:
    rolled_files = rolled_files_oldest_first(
        RolledFile(f"activemq.log{name}", at) for at, name in enumerate([".4", ".2", ".1", ""])
    )
    assert missing_rolled_file_messages(rolled_file.file for rolled_file in rolled_files) == [
        "the log file activemq.log.3 is missing, so its events are unknown: collect it from the host again"
    ]
    assert direct_successor_flags_of_rolls(rolled_files) == [False, False, True, True]


@pytest.mark.parametrize("counts_up", [True, False])
def test_predecessor_of_current_log_file_depends_on_numbering(counts_up: bool) -> None:
    rolled_files = [RolledFile("activemq.log.2", 1), RolledFile("activemq.log", 2)]
    assert direct_successor_flags_of_rolls(rolled_files, counts_up=counts_up) == [False, counts_up]


def test_missing_current_log_file_is_reported() -> None:
    assert missing_rolled_file_messages(["activemq.log.2", "activemq.log.1"]) == [
        "the log file activemq.log is missing, so the newest events are unknown: collect it from the host again"
    ]


# -- rolled files with dates in their names ----------------------------------------------------


@pytest.mark.parametrize(
    "order",
    [
        ["activemq-2026-11-29-1.log.gz", "activemq-2026-11-29-2.log.gz", "activemq-2026-11-29-10.log", "activemq.log"],
        ["activemq.log.2026-11-29", "activemq.log.2026-11-30", "activemq.log"],
        ["2026-11/activemq-2026-11-30-1.log.gz", "2026-12/activemq-2026-12-01-1.log.gz"],
    ],
)
def test_dated_log_files_of_equal_or_unknown_times_are_sorted_by_name(order: list[str]) -> None:
    for times in ([5] * len(order), [*range(len(order) - 1), None], [None] * len(order)):
        rolls = [RolledFile(file, first) for file, first in zip(order, times, strict=True)]
        assert [roll.file for roll in rolled_files_oldest_first(reversed(rolls))] == order


def test_dated_log_files_are_sorted_by_time_where_names_do_not_show_it() -> None:
    order = ["activemq-12-31-2025.log", "activemq-01-01-2026.log", "activemq-01-02-2026.log", "activemq.log"]
    rolls = [RolledFile(file, first) for first, file in enumerate(order)]
    assert [roll.file for roll in rolled_files_oldest_first(reversed(rolls))] == order


@pytest.mark.parametrize(
    ("files", "missing"),
    [
        (["activemq-2026-11-29-1.log", "activemq-2026-11-29-3.log", "activemq.log"], ["activemq-2026-11-29-2.log"]),
        (["activemq.log.2026-11-29.1.gz", "activemq.log.2026-11-29.3", "activemq.log"], ["activemq.log.2026-11-29.2"]),
        # A logger that keeps a number of files deletes the oldest ones.
        (["activemq-2026-11-29-3.log", "activemq-2026-11-29-4.log", "activemq.log"], []),
        (
            ["activemq-2026-11-28-1.log", "activemq-2026-11-29-2.log", "activemq.log"],
            ["activemq-2026-11-29-1.log"],
        ),
        # Days, hours and minutes have two digits. A day without records has no file.
        (["activemq-2026-11-27.log", "activemq-2026-11-29.log", "activemq.log"], []),
        (["activemq.log.2026-11-29-10", "activemq.log.2026-11-29-23", "activemq.log"], []),
        (["activemq-3.log", "activemq-1.log", "activemq.log"], ["activemq-2.log"]),
        (["activemq.log.2024", "activemq.log.2025", "activemq.log"], []),
        # The directory is the date.
        (["2026/11/30/activemq-1.log", "2026/11/30/activemq-3.log", "activemq.log"], ["2026/11/30/activemq-2.log"]),
        (["2026/activemq-1.log", "2026/activemq-2026.log", "activemq.log"], []),
        (["2026-11/activemq-1.log.gz", "2026-12/activemq-2.log", "activemq.log"], ["2026-12/activemq-1.log"]),
        # If the numbers ascend, the oldest files, which the logger deletes, have the lowest ones.
        (["activemq-57.log", "activemq-58.log", "activemq-60.log", "activemq.log"], ["activemq-59.log"]),
        (["activemq-3.log", "activemq-2.log", "activemq.log"], ["activemq-1.log"]),
        (["activemq-2.log", "activemq-1.log", "activemq.log", "activemq-4.log"], ["activemq-3.log"]),
        (["activemq-2026-11-29-3.log", "activemq-2026-11-29-2.log", "activemq.log"], ["activemq-2026-11-29-1.log"]),
    ],
)
def test_only_numbers_in_names_show_missing_dated_log_files(files: list[str], missing: list[str]) -> None:
    assert missing_rolled_file_messages(files) == [
        f"the log file {name} is missing, so its events are unknown: collect it from the host again" for name in missing
    ]


@pytest.mark.parametrize(
    ("files", "is_listed", "is_missing"),
    [
        (["activemq-2026-11-29-1.log"], True, False),
        (["activemq-2026-11-29-1.log"], False, True),
        (["activemq-1.log"], True, False),
        (["activemq-57.log"], True, False),
        (["activemq-57.log", "activemq-58.log"], True, False),
        (["activemq.log.1"], True, True),
        (["activemq-2026-11-29-1.log", "activemq.log"], False, False),
    ],
)
def test_direct_logs_need_no_current_file_only_if_host_was_listed(
    files: list[str], is_listed: bool, is_missing: bool
) -> None:
    messages = missing_rolled_file_messages(files, is_listed=is_listed)
    missing = [message.startswith("the log file activemq.log is missing") for message in messages]
    assert missing == ([True] if is_missing else [])


@pytest.mark.parametrize(
    ("names", "successors"),
    [
        (["29-1.log", "29-2.log", "29-4.log"], [False, True, False, True]),
        (["28-1.log", "29-1.log", "30-2.log"], [False, True, False, True]),
        (["28-2.log", "28-1.log", "29-2.log", "29-1.log"], [False, True, True, True, True]),  # 1 is the newest
        (["28-3.log", "28-2.log", "29-2.log"], [False, True, False, False]),
        (["28.log", "29-2.log"], [False, False, True]),
    ],
)
def test_file_after_missing_dated_log_file_is_no_direct_successor(names: list[str], successors: list[bool]) -> None:
    rolls = [RolledFile(f"activemq-2026-11-{name}") for name in names]
    assert direct_successor_flags_of_rolls([*rolls, RolledFile("activemq.log")]) == successors


def test_start_of_dated_log_file_continues_previous_date_only_with_number_1() -> None:
    for number, skip in ((1, 6), (2, 0)):
        file = f"activemq-2026-11-29-{number}.log"
        places = log_file_positions_by_name(
            {
                "activemq-2026-11-28-1.log": LogPreambleAndFirstRecordDate(b"", "2026-11-28 10:00:00"),
                file: LogPreambleAndFirstRecordDate(b"\tat x\n", "2026-11-29 10:00:00"),
            },
            LogReleaseAndTimeZone(),
        )
        assert places[file].skip == skip
