"""Deadline sockets: a time limit for an exchange with any peer, and a limit on the bytes that are read."""

import contextlib
import itertools
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from activemq_fleet.node.probe.deadline_socket import DeadlineSocket

PATIENCE = 30.0
"""Seconds after which a read that hangs fails the test; the deadline of a reader is a fraction of it."""


@contextlib.contextmanager
def connected_peer(act: Callable[[socket.socket], object]) -> Iterator[socket.socket]:
    """Yield a socket whose peer runs ``act`` in a thread, until the socket is closed."""
    connection, peer = socket.socketpair()

    def serve() -> None:
        with contextlib.suppress(OSError), peer:
            act(peer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield connection
    finally:
        connection.close()
        thread.join(PATIENCE)
    assert not thread.is_alive(), "timed out"


def outcome_of(read: Callable[[], object]) -> object:
    """Return what a read returns, or the exception that it raises; fail when it hangs."""
    outcomes: list[object] = []

    def run() -> None:
        try:
            outcomes.append(read())
        except (OSError, ValueError) as error:
            outcomes.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert outcomes, "timed out"
    return outcomes[0]


def send_slowly(peer: socket.socket) -> None:
    paused = threading.Event()
    while True:
        peer.sendall(b"a")
        paused.wait(0.05)


def send_zeros(peer: socket.socket) -> None:
    while True:
        peer.sendall(bytes(1000))


@pytest.mark.parametrize(
    "read",
    [
        lambda reader: reader.read(10_000),
        lambda reader: reader.read_until_ending(b"\0"),
        lambda reader: reader.read_to_end(),
        lambda reader: [reader.read(1) for _ in itertools.count()],
    ],
    ids=["read", "read_until_ending", "read_to_end", "many_reads"],
)
def test_read_from_peer_that_sends_byte_by_byte_fails_at_deadline(read: Callable[[DeadlineSocket], object]) -> None:
    with connected_peer(send_slowly) as connection:
        reader = DeadlineSocket(connection, 0.5, 1 << 20)
        outcome = outcome_of(lambda: read(reader))
        assert isinstance(outcome, TimeoutError)
        assert "within 0.5 s" in str(outcome)
        assert isinstance(outcome_of(lambda: reader.read(0)), TimeoutError), (
            "a second read got a new deadline: all reads must share the first deadline"
        )


def test_send_to_peer_that_reads_nothing_fails_at_deadline() -> None:
    stopped = threading.Event()
    with connected_peer(lambda _peer: stopped.wait(PATIENCE)) as connection:
        reader = DeadlineSocket(connection, 0.5, 1 << 20)
        assert isinstance(outcome_of(lambda: reader.send(bytes(1 << 26))), TimeoutError)
        stopped.set()


def test_total_bytes_of_all_reads_from_socket_are_limited() -> None:
    with connected_peer(send_zeros) as connection:
        reader = DeadlineSocket(connection, PATIENCE, 100_000)
        outcome = outcome_of(lambda: [reader.read(7) for _ in itertools.count()])
        assert str(outcome) == (
            "the server on this port sent more than 100000 bytes, which no broker does: check that the broker listens "
            "on this port"
        )


def test_read_from_closed_socket_is_error_unless_caller_reads_to_end() -> None:
    with connected_peer(lambda peer: peer.sendall(b"one\0two")) as connection:
        reader = DeadlineSocket(connection, PATIENCE, 100)
        assert reader.read_until_ending(b"\0") == b"one\0"
        assert reader.read(1) == b"t"
        assert reader.read_to_end() == b"wo"
        assert isinstance(outcome_of(lambda: reader.read(1)), ConnectionResetError)


def test_close_of_socket_waits_limited_time_for_peer() -> None:
    with connected_peer(send_slowly) as connection:
        reader = DeadlineSocket(connection, PATIENCE, 1 << 20)
        assert outcome_of(lambda: reader.close(parting=True)) is None
