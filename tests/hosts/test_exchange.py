"""What the clients of these tests make of what comes: a loss, something twice, or nothing that proves anything."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.hosts import exchange, stream
from tests.hosts.exchange import ExchangeError, Login, _last_of

LOGIN = Login("probe", "made-up")


class Played:
    """A session that gets what it is told to, and then loses its connection or stays."""

    def __init__(self, address: str, comes: Sequence[str], *, stays: bool, received: list[str] | None = None) -> None:
        self.address, self.comes, self.lost = address, comes, not stays
        self.received: list[str] = [] if received is None else received
        self.changed = threading.Condition()

    def open(self) -> None:
        self.received += self.comes

    def subscribe(self, topic: str) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "QUIET", 0.01)
    monkeypatch.setattr(stream, "QUIET", 0.01)


def plays(monkeypatch: pytest.MonkeyPatch, module: Any, *sessions: Sequence[str]) -> None:
    """Sessions one after the other; the last of them stays."""
    left: Iterator[tuple[int, Sequence[str]]] = iter(enumerate(sessions, 1))

    def session(address: str, *_: object, received: list[str] | None = None, **__: object) -> Played:
        number, comes = next(left)
        return Played(address, comes, stays=number == len(sessions), received=received)

    monkeypatch.setattr(module, "Session", session)


def marked(mark: int, *numbers: int) -> list[str]:
    return [f"{mark} {number}" for number in numbers]


@pytest.mark.parametrize(
    "sessions",
    [
        [marked(7, 0, 1, 2)],
        [[*marked(5, 0, 1, 2), *marked(7, 0, 1, 2)]],  # of an earlier call, too
        [marked(7, 0, 1), marked(7, 1, 2)],  # the connection was lost before 1 was acknowledged
    ],
)
def test_all_that_was_left_is_taken(monkeypatch: pytest.MonkeyPatch, sessions: list[list[str]]) -> None:
    plays(monkeypatch, exchange, *sessions)
    assert exchange.take(["a", "b"], LOGIN, 3, 5)["taken"] == 3


@pytest.mark.parametrize(
    "comes", [marked(7, 0, 2), marked(7, 0, 1, 1, 2), marked(7, 1, 0, 2), [*marked(5, 0, 1, 2), *marked(7, 0, 1)]]
)
def test_what_is_missing_comes_twice_or_in_another_order_is_told(
    monkeypatch: pytest.MonkeyPatch, comes: list[str]
) -> None:
    plays(monkeypatch, exchange, comes)
    with pytest.raises(ExchangeError, match="3 messages left"):
        exchange.take(["a"], LOGIN, 3, 0.1)


def test_numbers_are_those_of_the_newest_call() -> None:
    assert _last_of([marked(5, 0, 1), [*marked(5, 2), *marked(7, 0)]]) == [[], ["0"]]
    assert _last_of([[]]) == [[]]


def test_a_stream_goes_on_with_the_next_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    plays(monkeypatch, stream, ["0", "1"], ["1", "2", stream.LAST])
    assert stream.take(["a", "b"], LOGIN, "taker", 3) == {"missing": [], "again": 1}


def test_a_number_is_missing_when_the_last_message_came_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plays(monkeypatch, stream, ["0", "2", stream.LAST])
    assert stream.take(["a"], LOGIN, "taker", 3) == {"missing": ["1"], "again": 0}


def test_nothing_is_known_when_the_last_message_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PATIENCE", 0.05)
    plays(monkeypatch, stream, ["0", "2"])
    with pytest.raises(ExchangeError, match="1 of 3 messages are missing"):
        stream.take(["a"], LOGIN, "taker", 3)
