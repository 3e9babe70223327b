"""Verdicts of the clients of the hosts tests: a loss, a duplicate, or an unknown outcome."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.hosts import exchange, stream
from tests.hosts.exchange import ExchangeError, Login, _last_of

LOGIN = Login("probe", "made-up")


class FakeSession:
    """A session that receives given messages, and then loses its connection or remains."""

    def __init__(self, address: str, messages: Sequence[str], *, lost: bool, received: list[str] | None = None) -> None:
        self.address, self.messages, self.lost = address, messages, lost
        self.received: list[str] = [] if received is None else received
        self.changed = threading.Condition()

    def open(self) -> None:
        self.received += self.messages

    def subscribe(self, topic: str) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "QUIET", 0.01)
    monkeypatch.setattr(stream, "QUIET", 0.01)


def replace_sessions(monkeypatch: pytest.MonkeyPatch, module: Any, *sessions: Sequence[str]) -> None:
    """Replace the sessions of a client by given ones, in order; the last session keeps its connection."""
    remaining: Iterator[tuple[int, Sequence[str]]] = iter(enumerate(sessions, 1))

    def session(address: str, *_: object, received: list[str] | None = None, **__: object) -> FakeSession:
        number, messages = next(remaining)
        return FakeSession(address, messages, lost=number < len(sessions), received=received)

    monkeypatch.setattr(module, "Session", session)


def marked_messages(mark: int, *numbers: int) -> list[str]:
    return [f"{mark} {number}" for number in numbers]


@pytest.mark.parametrize(
    "sessions",
    [
        [marked_messages(7, 0, 1, 2)],
        [[*marked_messages(5, 0, 1, 2), *marked_messages(7, 0, 1, 2)]],  # with messages of an earlier call
        [marked_messages(7, 0, 1), marked_messages(7, 1, 2)],  # the connection was lost before 1 was acknowledged
    ],
)
def test_command_take_receives_all_messages_that_command_leave_sent(
    monkeypatch: pytest.MonkeyPatch, sessions: list[list[str]]
) -> None:
    replace_sessions(monkeypatch, exchange, *sessions)
    assert exchange.take(["a", "b"], LOGIN, 3, 5)["taken"] == 3


@pytest.mark.parametrize(
    "messages",
    [
        marked_messages(7, 0, 2),
        marked_messages(7, 0, 1, 1, 2),
        marked_messages(7, 1, 0, 2),
        [*marked_messages(5, 0, 1, 2), *marked_messages(7, 0, 1)],
    ],
)
def test_command_take_reports_missing_duplicate_and_reordered_messages(
    monkeypatch: pytest.MonkeyPatch, messages: list[str]
) -> None:
    replace_sessions(monkeypatch, exchange, messages)
    with pytest.raises(ExchangeError, match="3 messages left"):
        exchange.take(["a"], LOGIN, 3, 0.1)


def test_last_message_numbers_are_those_of_newest_call() -> None:
    assert _last_of([marked_messages(5, 0, 1), [*marked_messages(5, 2), *marked_messages(7, 0)]]) == [[], ["0"]]
    assert _last_of([[]]) == [[]]


def test_message_stream_continues_with_next_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_sessions(monkeypatch, stream, ["0", "1"], ["1", "2", stream.LAST])
    assert stream.take(["a", "b"], LOGIN, "taker", 3) == {"missing": [], "again": 1}


def test_message_of_stream_is_missing_if_last_message_arrived_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    replace_sessions(monkeypatch, stream, ["0", "2", stream.LAST])
    assert stream.take(["a"], LOGIN, "taker", 3) == {"missing": ["1"], "again": 0}


def test_outcome_of_message_stream_is_unknown_without_last_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PATIENCE", 0.05)
    replace_sessions(monkeypatch, stream, ["0", "2"])
    with pytest.raises(ExchangeError, match="1 of 3 messages are missing"):
        stream.take(["a"], LOGIN, "taker", 3)
