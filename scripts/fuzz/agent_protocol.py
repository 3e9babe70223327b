"""Fuzz target: the packets of a hostile broker, read by the connection and the subscriber of the agent."""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from random import Random
from typing import Any, cast

from activemq_agent.config import Config
from activemq_agent.config_values import Endpoint
from activemq_agent.connection_events import SessionEvent, TransportUp
from activemq_agent.packet_limits import MAX_ANSWERS, ReceiveMemoryLimit
from activemq_agent.payload_envelope import event_id_in
from activemq_agent.session import Session
from activemq_agent.store import InboxStorageOutcome, Store
from activemq_agent.subscribing import InboxSubscriber
from activemq_fleet.node.protocols import encode_varint

from .target import Target

LARGEST = 4096
MAX_SENT = 100_000
CANARY = b"@" * 32
"""The placeholder for the payload of the connection's canary, which is not known in advance."""
TOPICS = [
    b"a/E", b"a", b"b/c", b"no/E", b"", b"a/" * 200, b"/" * 1000, b"a/\xff\xfe", b"a/\0", b"a/#", b"+/+",
    b"__canary__/h-subscriber", b"a/__canary__/x", b"a/__barrier__/h", b"a/__barrier__", b"__barrier__",
    "a/\U0001f512".encode(), b"a/\xed\xa0\x80",
]  # fmt: skip
PAYLOADS = [
    b"", b"{}", CANARY, CANARY + b":" + b"9" * 5000, b'{"eventId":"h:e:1"}', b'{"eventId":' + b"[" * 3000, b"9" * 5000,
    b'{"eventId":"\\ud800"}', b'{"eventId":' + b"1" * 5000 + b"}", b"{" * 2000, b"\0" * LARGEST, b"x" * (LARGEST + 1),
]  # fmt: skip


def _packet(random: Random) -> bytes:
    """Return a packet, in most cases one that a broker can send."""
    kind = random.choice((0x20, 0x30, 0x30, 0x30, 0x32, 0x32, 0x40, 0x90, 0xB0, 0xD0, random.randrange(256)))
    if kind & 0xF0 == 0x30:
        topic, payload = random.choice(TOPICS), random.choice(PAYLOADS)
        size = random.randrange(65536) if random.random() < 0.05 else len(topic)
        body = struct.pack("!H", size) + topic + (random.randbytes(2) if kind & 6 else b"") + payload
    else:
        body = random.randbytes(random.choice((0, 1, 2, 2, 2, 3, 3, 4, 40)))
        if kind == 0x20 and random.random() < 0.5:
            body = bytes([0, random.choice((0, 1, 2, 4, 5, 99))])
    size = random.choice((len(body), random.randrange(1 << 28))) if random.random() < 0.05 else len(body)
    return bytes([kind]) + encode_varint(size) + body


def generate(random: Random, samples: Sequence[bytes]) -> bytes:
    """Return a byte that decides whether CONNACK is sent first, and packets, some of which are damaged."""
    data = bytearray(b"".join(_packet(random) for _ in range(random.choice((1, 2, 5, 20)))))
    for _ in range(random.choice((0, 0, 1, 4)) if data else 0):
        data[random.randrange(len(data))] = random.randrange(256)
    return bytes([random.random() < 0.9]) + bytes(data[:MAX_SENT])


class _Store:
    """A store that accepts everything immediately, and reads the event id of each payload as the inbox does."""

    def queue_message_for_inbox(self, topic: str, payload: bytes, **_: Any) -> Future[InboxStorageOutcome]:
        return _done(InboxStorageOutcome(1, event_id_in(payload)))

    def queue_journal_record(self, kind: str, **fields: Any) -> Future[None]:
        return _done(None)


def _done(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(value)
    return future


class _Log:
    def info(self, event: str, **fields: Any) -> None: ...

    warning = error = info


class _Run:
    """A connection over a pair of sockets, without threads: the agent reads all packets and then handles them."""

    def __init__(self) -> None:
        self.intake = ReceiveMemoryLimit(1 << 20)
        self.agent_socket, self.broker_socket = socket.socketpair()
        self.broker_socket.setblocking(False)
        self.client: Any = None
        self.config = Config(urls=(Endpoint("b", 1),), client_id="h", topics=("a/#",), packet_bytes=LARGEST)
        self.subscriber = InboxSubscriber(self.config, cast(Store, _Store()), log=_Log(), open_session=self.open)
        self.subscriber.link.start()

    def open(self, _broker: int, conn: int, put: Callable[[SessionEvent], None]) -> Session:
        session = Session(
            Endpoint("b", 1), self.config, client_id="h", clean=False, on_event=put, conn=conn, intake=self.intake
        )
        self.client = session._client
        self.agent_socket.setblocking(False)
        self.client._sock = self.agent_socket
        put(TransportUp(conn))
        return session

    def send(self, data: bytes) -> None:
        """Send data to the agent, and let it read and handle the data until it closes the connection."""
        while data and self.client._sock is not None:
            with suppress(BlockingIOError):
                data = data[self.broker_socket.send(data) :]
            self.read()
        self.turn()

    def read(self) -> None:
        for _ in range(10_000):
            if self.client._sock is None or not select.select([self.agent_socket], [], [], 0)[0]:
                return
            self.client.loop_read()
            self.turn()
            with suppress(OSError):
                self.broker_socket.recv(1 << 20)

    def turn(self) -> None:
        self.subscriber.link.queue_for_connection_loop(None)  # so that run_once does not wait
        self.subscriber.run_once()

    def close(self) -> None:
        self.agent_socket.close()
        self.broker_socket.close()


def run(data: bytes) -> str:
    """Return the problem after the packets of a hostile broker: an exception, or memory that remains in use."""
    attack = _Run()
    try:
        if data[:1] == b"\1":
            attack.send(b"\x20\x02\0\0")
        canary = next(iter(attack.subscriber.link._canary_number_by_payload), CANARY)
        attack.send(data[1:].replace(CANARY, canary))
        client, link = attack.client, attack.subscriber.link
        attack.turn()
        raised = [reason for reason in link.dropped.counts if reason.endswith("Error")]
        if raised:
            return f"a message raised {raised}"
        if client._in_messages or len(client._out_packet) > MAX_ANSWERS or len(client._in_packet["packet"]) > LARGEST:
            return "the agent keeps more packets of the broker than its limits allow"
        attack.intake.is_memory_limit_reached()
        return f"the memory limit counts {attack.intake._used} released bytes" if attack.intake._used else ""
    finally:
        attack.close()


TARGET = Target("packets of a hostile broker, read by an agent", generate, run)
