"""The control socket of a running agent: its responses, and harmful requests."""

from __future__ import annotations

import json
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_agent import local_request_server
from activemq_agent.agent_errors import AgentError, OutboxFullError, RequestRefusedError
from activemq_agent.client import Client, publish
from activemq_agent.local_request_server import LocalRequestServer
from activemq_agent.store import Store, StoreLimits

from .logged import RecordedLog


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "state", agent="a", limits=StoreLimits(outbox_rows=1000)) as opened_store:
        yield opened_store


@pytest.fixture
def log() -> RecordedLog:
    return RecordedLog()


@pytest.fixture
def control_socket(tmp_path: Path, store: Store, log: RecordedLog) -> Iterator[Path]:
    request_server = LocalRequestServer(tmp_path / "agent.sock", store, lambda: {"broker": "b:1"}, log=log)
    request_server.start()
    yield tmp_path / "agent.sock"
    request_server.close()


def send_bytes(control_socket: Path, content: bytes) -> list[dict[str, Any]]:
    """Send bytes, close the sending direction, and return all responses."""
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(20)
        caller.connect(str(control_socket))
        caller.sendall(content)
        caller.shutdown(socket.SHUT_WR)
        return [json.loads(line) for line in caller.makefile("rb")]


def test_published_event_is_in_outbox_when_id_is_returned(control_socket: Path, store: Store) -> None:
    event_id = publish("a/b", '{"x": 1}', socket=control_socket)
    (event,) = store.outgoing_events(10)
    assert (event.event_id, event.topic, event.payload) == (event_id, "a/b", b'{"x": 1}')


def test_binary_payload_of_event_is_stored_unchanged_in_outbox(control_socket: Path, store: Store) -> None:
    publish("a/b", b"\xff\x00\n", socket=control_socket)
    assert store.outgoing_events(10)[0].payload == b"\xff\x00\n"


def test_event_published_repeatedly_with_same_id_is_accepted_once(control_socket: Path, store: Store) -> None:
    assert [publish("a/b", "x", event_id="mine", socket=control_socket) for _ in range(3)] == ["mine"] * 3
    assert len(store.outgoing_events(10)) == 1


def test_control_socket_is_accessible_only_to_agent_user(control_socket: Path) -> None:
    assert stat.S_IMODE(control_socket.stat().st_mode) == 0o600


def test_events_published_in_one_call_keep_their_order(control_socket: Path, store: Store) -> None:
    with Client(control_socket) as client:
        ids = client.publish_all([("a/b", str(number)) for number in range(900)])
    events = store.outgoing_events(1000)
    assert [event.event_id for event in events] == ids
    assert [event.payload for event in events] == [b"%d" % number for number in range(900)]


def test_large_events_are_accepted_before_client_reads_responses(control_socket: Path, store: Store) -> None:
    """The agent answers each event separately, and the buffers of the sockets hold fewer answers than events."""
    with Client(control_socket, timeout=10) as client:
        ids = client.publish_all([("a/b", "x" * 65_536)] * 400)
    assert [event.event_id for event in store.outgoing_events(1000)] == ids


def test_full_outbox_is_reported_to_caller(control_socket: Path, store: Store) -> None:
    with Client(control_socket) as client:
        client.publish_all([("a/b", "x")] * 1000)
        with pytest.raises(OutboxFullError, match="the agent's outbox of unsent events is full"):
            client.publish("a/b", "one more")
    assert store.row_and_byte_counts().outbox_rows == 1000
    assert send_bytes(control_socket, b'{"op":"publish","topic":"a","payload":""}\n')[0]["code"] == "full"


def test_publish_refuses_topic_with_wildcard(control_socket: Path) -> None:
    with pytest.raises(RequestRefusedError, match="not a topic to which events can be published"):
        publish("a/#", "x", socket=control_socket)


@pytest.mark.parametrize("topic", ["a/__canary__/x", "__canary__", "a/__barrier__", "a/b/__barrier__/other-agent"])
def test_publish_refuses_topic_of_test_messages_of_agents(topic: str, control_socket: Path, store: Store) -> None:
    with pytest.raises(RequestRefusedError, match="is reserved for the test messages of agents"):
        publish(topic, "x", socket=control_socket)
    assert store.outgoing_events(1) == []


def test_publish_accepts_topic_similar_to_those_of_test_messages(control_socket: Path, store: Store) -> None:
    topics = ["a/__canary__2/x", "a/__barrier__/b/c"]
    for topic in topics:
        publish(topic, "x", socket=control_socket)
    assert [event.topic for event in store.outgoing_events(9)] == topics


def test_control_socket_answers_status_and_requeue_requests(control_socket: Path) -> None:
    with Client(control_socket) as client:
        assert client.status() == {"broker": "b:1"}
        assert client.requeue() == 0
        with pytest.raises(RequestRefusedError, match="expired or unconfirmed event of the agent: unknown-1"):
            client.requeue(["unknown-1"])


@pytest.mark.parametrize(
    ("line", "message"),
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
            '{"op":"publish","topic":"a","payload_base64":"é"}'.encode(),
            (
                "the payload of the request to the agent is not valid: write Unicode text in payload, or base64 in "
                "payload_base64"
            ),
        ),
        (
            b'{"op":"publish","topic":"a","payload":"","timeout":1%s}' % (b"0" * 400),
            "the request to the agent has no valid timeout: write a number of seconds above 0",
        ),
        (
            b'{"op":"publish","topic":"a","payload":"","timeout":-1}',
            "the request to the agent has no valid timeout: write a number of seconds above 0",
        ),
        (
            b'{"op":"publish","topic":"a","payload":"","timeout":NaN}',
            "the request to the agent has no valid timeout: write a number of seconds above 0",
        ),
        (
            b'{"op":"requeue"}',
            "the request requeue to the agent names no events: set its key ids to a list of event ids, or its key all "
            "to true",
        ),
    ],
)
def test_control_socket_answers_invalid_request_and_next_request(
    control_socket: Path, log: RecordedLog, line: bytes, message: str
) -> None:
    responses = send_bytes(control_socket, line + b'\n{"op":"status"}\n')
    assert responses == [{"error": message, "code": "bad"}, {"broker": "b:1"}]
    assert log.records == []


def test_control_socket_refuses_request_above_maximum_length(
    control_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_request_server, "LONGEST", 100_000)
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(20)
        caller.connect(str(control_socket))
        caller.sendall(b"x" * 100_001)
        assert b"more than 100000 bytes" in caller.makefile("rb").readline()


def test_closed_or_stalled_control_client_does_not_block_other_clients(control_socket: Path, store: Store) -> None:
    stalled_caller = socket.socket(socket.AF_UNIX)
    stalled_caller.connect(str(control_socket))
    stalled_caller.sendall(b'{"op":"publish","to')
    for _ in range(20):
        with socket.socket(socket.AF_UNIX) as closing_caller:
            closing_caller.connect(str(control_socket))
            closing_caller.sendall(b'{"op":"publish","topic":"a","payload":""}\n' * 10)
    assert publish("a/b", "x", socket=control_socket)
    stalled_caller.close()


def test_concurrent_publishers_receive_different_event_ids(control_socket: Path, store: Store) -> None:
    id_lists: list[list[str]] = []

    def publish_events() -> None:
        with Client(control_socket) as client:
            id_lists.append([client.publish("a", "x") for _ in range(10)])

    threads = [threading.Thread(target=publish_events) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({event_id for ids in id_lists for event_id in ids}) == 200


@pytest.mark.parametrize("payload", ["small", "x" * 3_000_000])
def test_client_sends_nothing_after_request_without_answer(tmp_path: Path, payload: str) -> None:
    """A stalled agent reads nothing. It would read a later request as the rest of the large one, and refuse it."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        with Client(tmp_path / "s", timeout=0.2) as client:
            connection, _ = listener.accept()
            with pytest.raises(AgentError, match="the agent sent no answer"):
                client.publish("a/b", payload)
            with pytest.raises(AgentError, match="the request was not sent: create a new client") as error:
                client.publish("a/b", "later")
            assert not isinstance(error.value, RequestRefusedError)
        with connection, connection.makefile("rb") as requests:
            assert b"later" not in requests.read()


def test_control_socket_refuses_client_above_limit_of_connections(
    control_socket: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_request_server, "CALLERS", 1)
    with Client(control_socket) as client:
        client.status()
        with (
            Client(control_socket) as second_client,
            pytest.raises(AgentError, match="connections to its socket are in use"),
        ):
            second_client.status()


def test_stopping_agent_refuses_events_and_answers_status(tmp_path: Path, store: Store) -> None:
    request_server = LocalRequestServer(tmp_path / "s", store, dict, log=RecordedLog())
    request_server.start()
    request_server.stopping = True
    with Client(tmp_path / "s") as client:
        with pytest.raises(AgentError, match="stopping"):
            client.publish("a", "x")
        assert client.status() == {}
    request_server.close()
    assert store.outgoing_events(1) == []


def test_internal_error_in_status_is_reported_to_caller(tmp_path: Path, store: Store) -> None:
    def fail() -> dict[str, Any]:
        raise KeyError("x")

    log = RecordedLog()
    request_server = LocalRequestServer(tmp_path / "s", store, fail, log=log)
    request_server.start()
    with Client(tmp_path / "s") as client, pytest.raises(AgentError, match="This is a bug"):
        client.status()
    request_server.close()
    assert log.events("error") == [
        (
            "the agent failed to carry out a request from its control socket, because of an internal error. This is a "
            "bug of the agent: report it with the field `reason`"
        )
    ]


def test_stale_control_socket_is_replaced_and_removed_when_agent_stops(tmp_path: Path, store: Store) -> None:
    control_socket = tmp_path / "s"
    stale_socket = socket.socket(socket.AF_UNIX)
    stale_socket.bind(str(control_socket))
    stale_socket.close()
    request_server = LocalRequestServer(control_socket, store, dict, log=RecordedLog())
    request_server.start()
    with Client(control_socket) as client:
        assert client.status() == {}
    request_server.close()
    assert not control_socket.exists()


def test_publish_without_running_agent_raises_error_with_remedy(tmp_path: Path) -> None:
    with pytest.raises(
        AgentError, match=r"^the agent is not running, because no process .* socket .*: start the agent's service unit"
    ):
        publish("a", "x", socket=tmp_path / "agent.sock")


def test_error_of_lost_control_connection_requests_retry_with_same_event_id(
    control_socket: Path, store: Store, tmp_path: Path
) -> None:
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


def test_control_socket_path_above_107_bytes_is_refused(tmp_path: Path, store: Store) -> None:
    with pytest.raises(AgentError, match="more than 107 bytes: set a shorter path"):
        LocalRequestServer(tmp_path / ("x" * 120), store, dict, log=RecordedLog())
