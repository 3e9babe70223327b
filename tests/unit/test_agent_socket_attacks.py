"""The account of an agent cannot block the module that queries the agent's socket."""

from __future__ import annotations

import itertools
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from activemq_fleet.node.state import agent_status

READ_LIMIT = 60.0
"""Seconds after which a read that hangs fails the test; the deadline of the reader is 5 s."""


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(itertools.repeat(b" "), TimeoutError, id="a byte at a time"),
        pytest.param(itertools.repeat(b" " * (1 << 18)), ValueError, id="without an end"),
    ],
)
def test_query_of_hostile_agent_socket_fails_at_deadline_or_size_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Iterator[bytes], error: type[Exception]
) -> None:
    path, accepted, ended = tmp_path / "agent.sock", threading.Event(), threading.Event()
    outcomes: list[object] = []
    monkeypatch.setattr(agent_status, "_TIMEOUT", 1.0)

    def send_forever() -> None:
        caller, _ = listener.accept()
        accepted.set()
        with caller:
            for chunk in answer:
                try:
                    caller.sendall(chunk)
                except OSError:
                    return
                ended.wait(0.2 if len(chunk) == 1 else 0)

    def query() -> None:
        try:
            outcomes.append(agent_status.query_agent_status(str(path)))
        except (OSError, ValueError) as raised:
            outcomes.append(raised)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)
        threading.Thread(target=send_forever, daemon=True).start()
        reader = threading.Thread(target=query, daemon=True)
        reader.start()
        reader.join(READ_LIMIT)
        assert accepted.is_set(), "the attack did not reach the reader"
        ended.set()
    assert outcomes, f"timed out after {READ_LIMIT:g} s: the query has not ended"
    assert isinstance(outcomes[0], error)
