"""The socket of the running agent: what callers get, and what they can do no harm with."""

from __future__ import annotations

import json
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_agent import control
from activemq_agent.agent_errors import AgentError, OutboxFullError, RequestRefusedError
from activemq_agent.client import Client, publish
from activemq_agent.control import LocalRequestServer
from activemq_agent.store import Store, StoreLimits

from .logged import RecordedLog


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state", agent="a", limits=StoreLimits(outbox_rows=1000)) as opened:
        yield opened


@pytest.fixture
def log() -> RecordedLog:
    return RecordedLog()


@pytest.fixture
def path(tmp_path: Path, store: Store, log: RecordedLog) -> Iterator[Path]:
    served = LocalRequestServer(tmp_path / "agent.sock", store, lambda: {"broker": "b:1"}, log=log)
    served.start()
    yield tmp_path / "agent.sock"
    served.close()


def raw(path: Path, content: bytes) -> list[dict[str, Any]]:
    """What comes back for bytes, until the agent or we have ended."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(20)
        caller.connect(str(path))
        caller.sendall(content)
        caller.shutdown(socket.SHUT_WR)
        return [json.loads(line) for line in caller.makefile("rb")]


def test_an_event_is_in_the_outbox_when_its_id_comes_back(path: Path, store: Store) -> None:
    event_id = publish("a/b", '{"x": 1}', socket=path)
    (row,) = store.outgoing_events(10)
    assert (row.event_id, row.topic, row.payload) == (event_id, "a/b", b'{"x": 1}')


def test_bytes_that_are_no_text_arrive_as_they_are(path: Path, store: Store) -> None:
    publish("a/b", b"\xff\x00\n", socket=path)
    assert store.outgoing_events(10)[0].payload == b"\xff\x00\n"


def test_the_same_id_is_accepted_once(path: Path, store: Store) -> None:
    assert [publish("a/b", "x", event_id="mine", socket=path) for _ in range(3)] == ["mine"] * 3
    assert len(store.outgoing_events(10)) == 1


def test_only_the_agents_user_may_connect(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_many_at_once_keep_their_order(path: Path, store: Store) -> None:
    with Client(path) as client:
        ids = client.publish_all([("a/b", str(number)) for number in range(900)])
    rows = store.outgoing_events(1000)
    assert [row.event_id for row in rows] == ids
    assert [row.payload for row in rows] == [b"%d" % number for number in range(900)]


def test_many_large_events_do_not_wait_for_answers_that_nobody_reads(path: Path, store: Store) -> None:
    """The agent answers each of them by itself, and the sockets' buffers hold fewer answers than there are events."""
    with Client(path, timeout=10) as client:
        ids = client.publish_all([("a/b", "x" * 65_536)] * 400)
    assert [row.event_id for row in store.outgoing_events(1000)] == ids


def test_a_full_outbox_is_told_to_the_caller(path: Path, store: Store) -> None:
    with Client(path) as client:
        client.publish_all([("a/b", "x")] * 1000)
        with pytest.raises(OutboxFullError, match="the agent's outbox of unsent events is full"):
            client.publish("a/b", "one more")
    assert store.row_and_byte_counts().outbox_rows == 1000
    assert raw(path, b'{"op":"publish","topic":"a","payload":""}\n')[0]["code"] == "full"


def test_what_can_never_be_sent_is_refused(path: Path) -> None:
    with pytest.raises(RequestRefusedError, match="not a topic to which events can be published"):
        publish("a/#", "x", socket=path)


def test_status_and_requeue_are_answered(path: Path) -> None:
    with Client(path) as client:
        assert client.status() == {"broker": "b:1"}
        assert client.requeue() == 0
        with pytest.raises(RequestRefusedError, match="expired or unconfirmed event of the agent: unknown-1"):
            client.requeue(["unknown-1"])


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"rubbish", "the request to the agent is not valid JSON: send one JSON object per line"),
        (b"\xff\xfe\x00", "the request to the agent is not valid JSON: send one JSON object per line"),
        (b"[" * 100_000, "the request to the agent is not valid JSON: send one JSON object per line"),
        (b"3", "the request to the agent is not a JSON object: send one JSON object per line"),
        (b"{}", "the request to the agent has no valid key op: set it to publish, status or requeue"),
        (b'{"op":["publish"]}', "the request to the agent has no valid key op: set it to publish, status or requeue"),
        (
            b'{"op":"publish","topic":3,"payload":""}',
            "the request to the agent has a topic or id that is not text: write both as JSON strings",
        ),
        (
            b'{"op":"publish","topic":"a"}',
            "the request to the agent has no valid payload: set either payload or payload_base64, as text",
        ),
        (
            b'{"op":"publish","topic":"a","payload":{}}',
            "the request to the agent has no valid payload: set either payload or payload_base64, as text",
        ),
        (
            b'{"op":"publish","topic":"a","payload":"\\ud800"}',
            (
                "the payload of the request to the agent is not valid: write Unicode text in payload, or base64 in "
                "payload_base64"
            ),
        ),
        (
            b'{"op":"publish","topic":"a","payload_base64":"?"}',
            (
                "the payload of the request to the agent is not valid: write Unicode text in payload, or base64 in "
                "payload_base64"
            ),
        ),
        (
            b'{"op":"publish","topic":"a","payload":"","timeout":-1}',
            "the request to the agent has no valid timeout: set a number of seconds above 0",
        ),
        (
            b'{"op":"publish","topic":"a","payload":"","timeout":NaN}',
            "the request to the agent has no valid timeout: set a number of seconds above 0",
        ),
        (
            b'{"op":"requeue"}',
            "the request requeue to the agent names no events: set its key ids to a list of event ids, or its key all "
            "to true",
        ),
    ],
)
def test_rubbish_gets_an_answer_and_the_next_request_too(path: Path, log: RecordedLog, line: bytes, said: str) -> None:
    answers = raw(path, line + b'\n{"op":"status"}\n')
    assert answers == [{"error": said, "code": "bad"}, {"broker": "b:1"}]
    assert log.records == []


def test_a_request_without_an_end_is_cut_off(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "LONGEST", 100_000)
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(20)
        caller.connect(str(path))
        caller.sendall(b"x" * 100_001)
        assert b"more than 100000 bytes" in caller.makefile("rb").readline()


def test_a_caller_that_dies_or_stalls_holds_up_nobody(path: Path, store: Store) -> None:
    stalled = socket.socket(socket.AF_UNIX)
    stalled.connect(str(path))
    stalled.sendall(b'{"op":"publish","to')
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as dying:
            dying.connect(str(path))
            dying.sendall(b'{"op":"publish","topic":"a","payload":""}\n' * 10)
    assert publish("a/b", "x", socket=path)
    stalled.close()


def test_callers_at_once_all_get_their_own_ids(path: Path, store: Store) -> None:
    found: list[list[str]] = []

    def call() -> None:
        with Client(path) as client:
            found.append([client.publish("a", "x") for _ in range(10)])

    threads = [threading.Thread(target=call) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one for ids in found for one in ids}) == 200


def test_one_caller_too_many_hears_that_it_is_busy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "CALLERS", 1)
    with Client(path) as client:
        client.status()
        with Client(path) as other, pytest.raises(AgentError, match="connections to its socket are in use"):
            other.status()


def test_a_stopping_agent_takes_no_more_and_still_answers(tmp_path: Path, store: Store) -> None:
    served = LocalRequestServer(tmp_path / "s", store, dict, log=RecordedLog())
    served.start()
    served.stopping = True
    with Client(tmp_path / "s") as client:
        with pytest.raises(AgentError, match="stopping"):
            client.publish("a", "x")
        assert client.status() == {}
    served.close()
    assert store.outgoing_events(1) == []


def test_a_status_that_fails_is_an_answer_too(tmp_path: Path, store: Store) -> None:
    def fail() -> dict[str, Any]:
        raise KeyError("x")

    log = RecordedLog()
    served = LocalRequestServer(tmp_path / "s", store, fail, log=log)
    served.start()
    with Client(tmp_path / "s") as client, pytest.raises(AgentError, match="This is a bug"):
        client.status()
    served.close()
    assert log.events("error") == [
        (
            "the agent failed to carry out a request from its control socket, because of an internal error. This is a "
            "bug of the agent: report it with the field `reason`"
        )
    ]


def test_a_socket_left_behind_is_replaced_and_the_own_one_removed(tmp_path: Path, store: Store) -> None:
    path = tmp_path / "s"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    served = LocalRequestServer(path, store, dict, log=RecordedLog())
    served.start()
    with Client(path) as client:
        assert client.status() == {}
    served.close()
    assert not path.exists()


def test_without_an_agent_one_line_says_so(tmp_path: Path) -> None:
    with pytest.raises(
        AgentError, match=r"^the agent is not running, because no process .* socket .*: start the agent's service unit"
    ):
        publish("a", "x", socket=tmp_path / "agent.sock")


def test_an_agent_that_goes_away_leaves_open_what_happened(path: Path, store: Store, tmp_path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "half"))
    listener.listen()
    threading.Thread(target=lambda: listener.accept()[0].close(), daemon=True).start()
    with (
        Client(tmp_path / "half") as client,
        pytest.raises(AgentError, match="publish this event again with the same --id"),
    ):
        client.publish("a", "x")
    listener.close()


def test_a_path_too_long_for_a_socket_names_the_key(tmp_path: Path, store: Store) -> None:
    with pytest.raises(AgentError, match="more than 107 bytes: set a shorter path"):
        LocalRequestServer(tmp_path / ("x" * 120), store, dict, log=RecordedLog())
