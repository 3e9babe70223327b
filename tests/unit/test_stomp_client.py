"""The STOMP client reads each frame whole, whenever its bytes arrive."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from activemq_fleet.node.probe.deadline_socket import DeadlineSocket
from activemq_fleet.node.probe.stomp_client import StompClient, StompFrame

PATIENCE = 30.0


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, peer = socket.socketpair()
    with ours, peer:
        yield ours, peer


@pytest.mark.parametrize(
    "parts",
    [(b"\n", b"MESSAGE\nmessage-id:1\n\na b\0"), (b"MESSAGE\nmessage-id:1\ncontent-length:3\n\n", b"a\0b\0")],
    ids=["before_head", "after_head"],
)
def test_read_frame_continues_a_frame_that_a_deadline_cut(
    sockets: tuple[socket.socket, socket.socket], parts: tuple[bytes, bytes]
) -> None:
    ours, peer = sockets
    client = StompClient(DeadlineSocket(ours, 0.01, 1000))
    peer.sendall(parts[0])
    with pytest.raises(TimeoutError):
        client.read_frame()
    client.exchange.renew_deadline(PATIENCE)
    peer.sendall(parts[1])
    frame = client.read_frame()
    assert frame.headers["message-id"] == "1"
    assert frame.body.replace("\0", " ") == "a b"


def test_read_frame_returns_at_once_what_is_no_frame(sockets: tuple[socket.socket, socket.socket]) -> None:
    ours, peer = sockets
    peer.sendall(b"\0\0\1\x3a\x01ActiveMQ")
    assert StompClient(DeadlineSocket(ours, PATIENCE, 1000)).read_frame() == StompFrame("", {}, "")
