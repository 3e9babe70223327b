"""What a micro-batch has to parse again, and which directories hold what was read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from activemq_fleet.spark.follow.merging import merged
from activemq_fleet.spark.follow.slabs import SLAB, Slab, shares_of, slabs_of
from activemq_fleet.spark.follow.state import Span, ended_at, parts_of, spans


@dataclass
class Read:
    """Two files of a host, one of three slabs; ``about`` and ``pieces`` may be changed before they are looked at."""

    about: list[dict[str, Any]] = field(default_factory=list)
    pieces: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        known = {"host": "mq01a", "kind": "log", "release": "5.18.3", "timezone": "UTC", "order": 0, "skip": 0}
        self.about = [
            {**known, "number": 1, "file": "activemq.log.1", "after": b"", "end": 3 * SLAB},
            {**known, "number": 2, "file": "activemq.log", "after": b"", "end": 1000, "order": 1},
        ]
        for number, sizes in ((1, [SLAB] * 3), (2, [600, 400])):
            for at, size in enumerate(sizes):
                begin = sum(sizes[:at])
                piece = {"host": "mq01a", "number": number, "begin": begin, "line": begin, "size": size}
                self.pieces.append({**piece, "hash": begin + 7, "problem": None})

    def marks(self) -> dict[tuple[int, int], str]:
        return {(slab.about["number"], slab.about["slab"]): slab.mark for slab in self.slabs()}

    def slabs(self) -> list[Slab]:
        return slabs_of(self.about, self.pieces)

    def grow(self) -> None:
        """The second file gets a line."""
        self.about[1]["end"] += 50
        self.pieces.append({**self.pieces[-1], "begin": 1000, "line": 1000, "size": 50, "hash": 5})

    def other(self, number: int, **about: Any) -> None:
        self.about[number - 1] |= about


ALL = {(1, 0), (1, 1), (1, 2), (2, 0)}


@pytest.mark.parametrize(
    ("change", "concerned"),
    [
        (lambda read: read.grow(), {(2, 0)}),
        (lambda read: read.other(1, after=b"\tat the.end"), {(1, 2)}),
        (lambda read: read.other(2, skip=11), {(2, 0)}),
        (lambda read: read.other(1, skip=11), {(1, 0)}),
        (lambda read: read.other(1, file="activemq.log.2"), {(1, 0), (1, 1), (1, 2)}),
        (lambda read: [read.other(number, timezone="Europe/Berlin") for number in (1, 2)], ALL),
        (lambda read: [read.other(number, release="5.5.1") for number in (1, 2)], ALL),
        (lambda read: read.pieces[1].update(hash=99), {(1, 1)}),
        (lambda read: read.pieces[2].update(problem="damaged"), {(1, 2)}),
        (lambda read: read.other(1, order=7), set()),
        (lambda read: read.pieces.reverse(), set()),
    ],
    ids=["line", "after", "skip", "skip-1", "name", "zone", "release", "bytes", "problem", "order", "any-order"],
)
def test_what_changes_is_parsed_again_and_nothing_else(change: Any, concerned: set[tuple[int, int]]) -> None:
    before, read = Read().marks(), Read()
    change(read)
    after = read.marks()
    assert before.keys() == after.keys() == ALL
    assert {slab for slab in before if before[slab] != after[slab]} == concerned


def test_bytes_of_which_no_hash_is_known_are_parsed_each_time() -> None:
    read = Read()
    read.pieces[0]["hash"] = None
    first, second = read.marks(), read.marks()
    assert {slab for slab in first if first[slab] != second[slab]} == {(1, 0)}


def test_small_slabs_share_and_large_ones_do_not() -> None:
    read = Read()
    for number in range(3, 40):
        read.about.append({**read.about[1], "number": number})
        read.pieces.append({**read.pieces[-1], "number": number, "begin": 0})
    shares = shares_of(read.slabs(), "log")
    assert sorted(len(share.slabs) for share in shares) == [1, 1, 1, 38]
    assert len({share.mark for share in shares}) == 4
    assert not shares_of(read.slabs(), "journal")


@pytest.mark.parametrize("batch", [0, 1, 15, 16, 17, 255, 256, 257, 4095, 4096, 5000])
def test_every_micro_batch_is_in_one_directory(batch: int) -> None:
    found = spans(batch)
    assert [number for begin, size in found for number in range(begin, begin + size)] == list(range(batch + 1))
    assert len(found) <= 16 + 15 * 3


def test_what_is_put_together_and_removed_leaves_what_is_read() -> None:
    there: set[Span] = set()
    for batch in range(4400):
        for span in ended_at(batch):
            assert set(parts_of(span)) <= there
            there.add(span)
        for span in ended_at(batch - 1):
            there -= set(parts_of(span))
        there.add((batch, 1))
        assert set(spans(batch)) <= there
    assert len(there) < 60


def piece(begin: int, text: bytes, **more: Any) -> dict[str, Any]:
    known = {"host": "mq01a", "number": 1, "kind": "log", "line": begin, "size": len(text), "hash": begin + 1}
    return {**known, "begin": begin, "chunk": text, "head": b"", "first": "2026-03-01", "problem": None, **more}


def test_pieces_that_follow_each_other_become_one() -> None:
    rows = [piece(3, b"def"), piece(0, b"abc", head=b"ab", first=None), piece(6, b"g", problem="cut")]
    (found,) = merged(pa.Table.from_pylist(rows)).to_pylist()
    assert (found["begin"], found["line"], found["size"], found["chunk"]) == (0, 0, 7, b"abcdefg")
    assert (found["head"], found["first"], found["problem"]) == (b"ab", "2026-03-01", "cut")
    assert found["hash"] not in (1, 4, 7, None)


def test_a_hole_and_a_problem_are_not_covered_up() -> None:
    rows = [piece(0, b"abc"), piece(4, b"e", problem="the rest is missing"), piece(5, b"f"), piece(6, b"")]
    found = merged(pa.Table.from_pylist(rows)).to_pylist()
    assert [(row["begin"], row["chunk"], row["problem"]) for row in found] == [
        (0, b"abc", None),
        (4, b"e", "the rest is missing"),
        (5, b"f", None),
    ]
    assert found[0]["hash"] == 1
