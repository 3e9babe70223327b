"""A broker that attacks its clients: ``python -m tests.unit.agent.hostile_broker ATTACK`` prints its port and serves.

Each attack is a function that receives a connection whose CONNECT has been read. If an attack requires answers to
canaries, a separate thread reads the packets of the agent.
"""

from __future__ import annotations

import random
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from activemq_fleet.node.protocols import encode_mqtt_packet
from tests.unit.agent.tiny_broker import read_packet

CONNACK = b"\x20\x02\x00\x00"
MALFORMED = (
    b"\x30\x03\xff\xff\0", b"\x32\x04\0\x02a/", b"\x90\x00", b"\x40\x01\0", b"\x20\x05\0\0\0\0\0",
    b"\x30\x80\x80\x80\x80\x01", b"\xf0\x00", b"\x00\x00", b"\x20\x02\x00\xff", b"\x20\x02\xff\x01",
    b"\x36\x10" + b"x" * 16,
)  # fmt: skip
ATTACKS: dict[str, Callable[[socket.socket], None]] = {}


def attack(function: Callable[[socket.socket], None]) -> Callable[[socket.socket], None]:
    ATTACKS[function.__name__] = function
    return function


def message(topic: bytes, payload: bytes, qos: int = 0, mid: int = 1) -> bytes:
    body = struct.pack("!H", len(topic)) + topic + (struct.pack("!H", mid) if qos else b"") + payload
    return encode_mqtt_packet(0x30 | qos << 1, body)


def send_repeatedly(peer: socket.socket, data: bytes) -> None:
    """Send the same bytes repeatedly, and read nothing."""
    block = memoryview(data * max(1, (1 << 18) // len(data)))
    while True:
        peer.sendall(block)


def answer_packets(peer: socket.socket, lock: threading.Lock) -> None:
    """Answer as a broker does: send SUBACK and PUBACK, and send each message back to its sender."""
    with suppress(OSError, EOFError):
        while True:
            first, body = read_packet(peer)
            kind = first & 0xF0
            with lock:
                if kind == 0x80:
                    peer.sendall(b"\x90\x03" + body[:2] + body[-1:])
                elif kind == 0x30 and first & 6:
                    (size,) = struct.unpack("!H", body[:2])
                    mid = body[2 + size : 4 + size]
                    peer.sendall(b"\x40\x02" + mid + message(body[2 : 2 + size], body[4 + size :]))
                elif kind == 0xC0:
                    peer.sendall(b"\xd0\x00")


def answer_in_background(peer: socket.socket) -> Iterator[threading.Lock]:
    """Answer the canaries of a connection in a thread, and yield repeatedly the lock under which the attack sends."""
    lock = threading.Lock()
    threading.Thread(target=answer_packets, args=(peer, lock), daemon=True).start()
    time.sleep(0.3)
    while True:
        yield lock


@attack
def flood_of_subscribed_messages(peer: socket.socket) -> None:
    peer.sendall(CONNACK)
    send_repeatedly(peer, message(b"a/Flood", b"x" * 100))


@attack
def flood_of_acknowledged_messages(peer: socket.socket) -> None:
    peer.sendall(CONNACK)
    send_repeatedly(peer, b"".join(message(b"a/Flood", b"x" * 2000, 1, mid) for mid in range(1, 100)))


@attack
def flood_of_unsubscribed_messages(peer: socket.socket) -> None:
    peer.sendall(CONNACK)
    send_repeatedly(peer, message(b"unrequested/topic", b"x" * 1000, 1))


@attack
def flood_from_broker_that_answers_canaries(peer: socket.socket) -> None:
    peer.sendall(CONNACK)
    blocks = [b"".join(message(topic, b"x" * 500, 1, mid) for mid in range(1, 50)) for topic in (b"a/E", b"no/E")]
    for lock in answer_in_background(peer):
        with lock:
            peer.sendall(random.choice(blocks))


@attack
def announced_giant_packets(peer: socket.socket) -> None:
    peer.sendall(CONNACK + b"\x30\xff\xff\xff\x7f")
    time.sleep(600)


@attack
def giant_packets(peer: socket.socket) -> None:
    peer.sendall(CONNACK)
    while True:
        peer.sendall(b"\x32\xff\xff\xff\x7f")
        for _ in range(256):
            peer.sendall(b"\0\x03a/b" + b"x" * ((1 << 20) - 5))


@attack
def largest_accepted_packets(peer: socket.socket) -> None:
    peer.sendall(CONNACK)
    send_repeatedly(peer, message(b"a/Large", b'{"eventId":"x","a":[' + b"[]," * 340_000 + b"[]]}", 1))


@attack
def control_characters_for_handler(peer: socket.socket) -> None:
    peer.sendall(CONNACK)
    send_repeatedly(peer, message(b"a/Handled", b"\0" * 1_000_000, 1))


@attack
def messages_of_qos_2(peer: socket.socket) -> None:
    peer.sendall(CONNACK)
    mid = 0
    while True:
        mid = mid % 65535 + 1
        peer.sendall(message(b"a/Twice", b"x" * 10_000, 2, mid))


@attack
def endless_connacks(peer: socket.socket) -> None:
    send_repeatedly(peer, CONNACK)


@attack
def endless_pings(peer: socket.socket) -> None:
    peer.sendall(CONNACK)
    send_repeatedly(peer, b"\xc0\x00")


@attack
def answers_without_requests(peer: socket.socket) -> None:
    peer.sendall(CONNACK)
    send_repeatedly(
        peer, b"".join(bytes([kind, 2]) + struct.pack("!H", mid) for mid in range(100) for kind in (0x40, 0xB0))
    )


@attack
def subacks_without_requests(peer: socket.socket) -> None:
    peer.sendall(CONNACK)
    send_repeatedly(peer, b"".join(b"\x90\x03" + struct.pack("!HB", mid, mid % 256) for mid in range(1, 60_000, 7)))


@attack
def huge_topics(peer: socket.socket) -> None:
    peer.sendall(CONNACK)
    send_repeatedly(peer, message(b"a" + b"/" * 65_000, b"", 1) + message(b"a/" + b"x" * 65_000, b""))


@attack
def binary_topics(peer: socket.socket) -> None:
    peer.sendall(CONNACK + message(b"a/\xff\xfe", b"x"))
    time.sleep(600)


@attack
def malformed_packets(peer: socket.socket) -> None:
    random.seed()
    head = random.choice((b"", CONNACK))
    peer.sendall(head + random.choice((*MALFORMED, random.randbytes(64))))
    time.sleep(5)


@attack
def connack_byte_by_byte(peer: socket.socket) -> None:
    for byte in CONNACK + message(b"a/Slow", b"x" * 500_000):
        peer.sendall(bytes([byte]))
        time.sleep(0.9)


@attack
def second_connack_after_answered_canaries(peer: socket.socket) -> None:
    peer.sendall(CONNACK)
    for lock in answer_in_background(peer):
        time.sleep(2)
        with lock:
            peer.sendall(CONNACK)


@attack
def random_attack(peer: socket.socket) -> None:
    """Run a random attack on each connection, except those of a busy broker, which an agent does not leave."""
    busy = {"random_attack", "flood_from_broker_that_answers_canaries"}
    random.choice([function for name, function in ATTACKS.items() if name not in busy])(peer)


def serve(name: str) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)

    def attack_client(peer: socket.socket) -> None:
        with suppress(OSError, EOFError), peer:
            read_packet(peer)
            ATTACKS[name](peer)

    while True:
        peer, _ = listener.accept()
        threading.Thread(target=attack_client, args=(peer,), daemon=True).start()


if __name__ == "__main__":
    serve(sys.argv[1])
