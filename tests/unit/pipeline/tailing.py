"""A stream without Spark: offsets go through JSON, ranges are read at once, and what came is put together."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from activemq_fleet.spark.follow.advance import HOLD, Tail
from activemq_fleet.spark.follow.places import Offset, changes
from activemq_fleet.spark.follow.reading import content_of


class Clock:
    """Time that passes only when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def record(number: int, *more: str) -> str:
    """A record of a broker's log; each has its own text."""
    time = f"2026-03-01 {number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02},{number % 1000:03}"
    return "\n".join([f"{time} | INFO  | message {number} | org.example.Logger | main", *more, ""])


@dataclass
class Stream:
    """``texts`` and ``gone``: what has been read. ``names``: what each file is called, and whether it is gone."""

    root: Path
    clock: Clock = field(default_factory=Clock)
    most: int | None = None
    offset: Offset = field(default_factory=Offset)
    data: dict[tuple[str, int], bytes] = field(default_factory=dict)
    names: dict[tuple[str, int], tuple[str, bool]] = field(default_factory=dict)
    tail: Tail = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self, hold: float = HOLD) -> None:
        """A new process: it knows the offset and nothing else."""
        self.tail = Tail(self.root, hold, clock=self.clock)

    def batch(self, before_reading: Callable[[], None] = lambda: None) -> bool:
        """One micro-batch; False if there was nothing to do."""
        end = Offset.from_json(json.loads(json.dumps(self.tail.advance(self.offset, self.most).to_json())))
        if end == self.offset:
            return False
        before_reading()
        self.take(end)
        self.offset = end
        return True

    def take(self, end: Offset) -> None:
        """Read what lies before ``end``; doing it twice changes nothing."""
        ranges, names = changes(self.offset, end)
        for name in names:
            if not name.number:
                continue
            self.names[name.host, name.number] = (name.place.file, name.place.gone)
        for one in ranges:
            found = content_of(self.root / one.host, one)
            assert found is not None, f"{one.place.file} of {one.host} was lost"
            before = self.data.get((one.host, one.number), b"")[: one.begin]
            assert (len(before), before.count(b"\n")) == (one.begin, one.line)
            self.data[one.host, one.number] = before + found[0]

    def run(self, times: int = 50) -> None:
        """Go on until nothing is left to do, not even what is held back."""
        self.restart(hold=0)
        for _ in range(times):
            if not self.batch():
                return
        raise AssertionError("the stream finds no end")

    def texts(self) -> dict[tuple[str, str], str]:
        """What has been read of each file that is there, by host and present name."""
        return dict(self._texts(gone=False))

    def gone(self) -> list[str]:
        """The texts of files that are no more."""
        return [text for _, text in self._texts(gone=True)]

    def _texts(self, *, gone: bool) -> Iterator[tuple[tuple[str, str], str]]:
        for (host, number), (file, is_gone) in self.names.items():
            if is_gone == gone:
                yield (host, file), self.data[host, number].decode()
