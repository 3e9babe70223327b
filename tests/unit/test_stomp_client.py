"""Frames that the STOMP client reads completely, regardless of when their bytes arrive."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from activemq_fleet.node.probe.deadline_socket import DeadlineSocket
from activemq_fleet.node.probe.stomp_client import StompClient, StompFrame

PATIENCE = 30.0


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    local, peer = socket.socketpair()
    with local, peer:
        yield local, peer


@pytest.mark.parametrize(
    "parts",
    [(b"\n", b"MESSAGE\nmessage-id:1\n\na b\0"), (b"MESSAGE\nmessage-id:1\ncontent-length:3\n\n", b"a\0b\0")],
    ids=["before_head", "after_head"],
)
def test_stomp_client_continues_to_read_frame_after_deadline(
    sockets: tuple[socket.socket, socket.socket], parts: tuple[bytes, bytes]
) -> None:
    local, peer = sockets
    client = StompClient(DeadlineSocket(local, 0.01, 1000))
    peer.sendall(parts[0])
    with pytest.raises(TimeoutError):
        client.read_frame()
    client.exchange.renew_deadline(PATIENCE)
    peer.sendall(parts[1])
    frame = client.read_frame()
    assert frame.headers["message-id"] == "1"
    assert frame.body.replace("\0", " ") == "a b"


def test_stomp_client_reads_empty_frame_from_server_of_other_protocol(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    local, peer = sockets
    peer.sendall(b"\0\0\1\x3a\x01ActiveMQ")
    assert StompClient(DeadlineSocket(local, PATIENCE, 1000)).read_frame() == StompFrame("", {}, "")
