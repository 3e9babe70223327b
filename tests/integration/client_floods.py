"""Floods by clients that are logged in, each against one default broker with the default heap.

python -m tests.integration.client_floods DIRECTORY RELEASE FLOOD ... prints one row for each flood.
"""

from __future__ import annotations

import itertools
import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from activemq_fleet.addresses import Address
from activemq_fleet.errors import LabError
from activemq_fleet.lab import loopback_overlay
from activemq_fleet.lab.lab import Lab
from activemq_fleet.node.config.versions import ConfigurationPaths
from activemq_fleet.node.process.proc import find_broker_process
from tests.integration.labs import write_inventory
from tests.integration.setting_clients import ANN, HOST, USERS, destinations
from tests.stomp_clients import stomp_round_trip
from tests.waiting import LateError, wait_until

HEAP = "512m"
"""The default of ``activemq_heap``; the heap of a lab is smaller."""
G1 = ("-XX:-UseSerialGC", "-XX:TieredStopAtLevel=4", "-XX:+UseG1GC")
"""Brokers of hosts use the default garbage collector of Java; brokers of a lab use another one."""
BODY = b"x" * 100_000
PUBLISHERS = 4
ENOUGH = 800 << 20
"""Bytes that no broker with a heap of 512 MB can hold."""
BLOCKED = 6.0
"""Seconds without progress after which a broker counts as blocked: flow control stops the publishers."""
LONGEST = 60.0
"""Seconds after which a flood stops that reaches no limit."""
PATIENCE = 120.0
MANY, BATCH = 1_000_000, 100


@dataclass
class FloodResult:
    """The effect of a flood: ``frames`` and ``bytes`` that the broker accepted, and the state of the broker.

    ``stopped_by``: ``size`` (enough was sent), ``blocked``, ``time``, or ``broken`` (no publisher is connected).
    """

    flood: str
    release: str
    frames: int = 0
    bytes: int = 0
    stopped_by: str = ""
    enqueued: int = 0
    serves_during: bool = False
    survived: bool = False
    serves_after: bool = False


class FloodClients:
    """The connections of one flood, on raw sockets; ``close`` closes all of them."""

    def __init__(self, stomp: Address, mqtt: Address | None) -> None:
        self._stomp, self._mqtt = stomp, mqtt
        self._sockets = ExitStack()
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self.frames = self.bytes = 0

    def close(self) -> None:
        self._sockets.close()

    def stomp(self, client_id: str = "") -> socket.socket:
        """Connect and log in over STOMP."""
        client = self._connect(self._stomp)
        named = {"client-id": client_id} if client_id else {}
        client.sendall(frame("CONNECT", b"", login=ANN.username, passcode=ANN.password, **named))
        assert client.recv(65536).startswith(b"CONNECTED")
        return client

    def mqtt(self) -> socket.socket:
        """Connect and log in over MQTT."""
        assert self._mqtt is not None
        client = self._connect(self._mqtt)
        texts = (f"flood{next(self._numbers)}", ANN.username, ANN.password)
        client.sendall(packet(0x10, text("MQTT") + b"\x04\xc2\x00\x3c" + b"".join(map(text, texts))))
        assert client.recv(4)[3:] == b"\0"
        return client

    def subscribe(self, destination: str, **headers: str) -> None:
        """Subscribe over STOMP, and read nothing after that."""
        client = self.stomp()
        client.sendall(frame("SUBSCRIBE", b"", destination=destination, id="1", **headers))
        time.sleep(1)

    def _connect(self, address: Address) -> socket.socket:
        client = socket.create_connection(address, PATIENCE)
        with self._lock:
            self._sockets.enter_context(client)
        return client

    def publish(
        self,
        chunks: Callable[[int], Iterator[bytes]],
        connect: Callable[[], socket.socket] | None = None,
        *,
        publishers: int = PUBLISHERS,
        batch: int = 0,
    ) -> str:
        """Send what ``chunks`` yields for each publisher; return what stopped the flood.

        With ``batch``, each chunk has that many frames, and the publisher waits for one receipt for each chunk.
        """
        stopped = threading.Event()
        latest = [time.monotonic()]

        def send(number: int) -> None:
            with suppress(OSError, AssertionError):
                client = (connect or self.stomp)()
                client.settimeout(1)
                for chunk in chunks(number):
                    rest = memoryview(chunk)
                    while rest:
                        if stopped.is_set():
                            return
                        with suppress(TimeoutError):
                            count = client.send(rest[:65536])
                            rest = rest[count:]
                            latest[0] = time.monotonic()
                            with self._lock:
                                self.bytes += count
                    while batch and not stopped.is_set():
                        with suppress(TimeoutError):
                            response = client.recv(65536)
                            assert b"ERROR" not in response
                            assert response
                            if b"RECEIPT" in response:
                                latest[0] = time.monotonic()
                                break
                    with self._lock:
                        self.frames += batch or 1

        threads = [threading.Thread(target=send, args=(number,), daemon=True) for number in range(publishers)]
        for thread in threads:
            thread.start()
        deadline, reason = time.monotonic() + LONGEST, ""
        while not reason:
            time.sleep(0.1)
            if self.bytes >= ENOUGH:
                reason = "size"
            elif not any(thread.is_alive() for thread in threads):
                reason = "broken"
            elif time.monotonic() - latest[0] > (LONGEST if batch else BLOCKED):
                reason = "blocked"
            elif time.monotonic() > deadline:
                reason = "time"
        stopped.set()
        for thread in threads:
            thread.join(PATIENCE)
        return reason


def frame(command: str, body: bytes = b"", /, **headers: str) -> bytes:
    """Return a STOMP frame; it has a dot for each ``_`` in the name of a header."""
    named = {name.replace("_", "."): value for name, value in headers.items()}
    if body:
        named["content-length"] = str(len(body))
    lines = "".join(f"{name}:{value}\n" for name, value in named.items())
    return f"{command}\n{lines}\n".encode() + body + b"\0"


def text(value: str) -> bytes:
    """Return a string as it is encoded in an MQTT packet."""
    return struct.pack("!H", len(value)) + value.encode()


def packet(kind: int, body: bytes) -> bytes:
    """Return an MQTT packet."""
    length, rest = b"", len(body)
    while True:
        rest, digit = divmod(rest, 128)
        length += bytes([digit | (128 if rest else 0)])
        if not rest:
            return bytes([kind]) + length + body


def _sends(destination: str, body: bytes = BODY, **headers: str) -> Callable[[int], Iterator[bytes]]:
    return lambda _number: itertools.repeat(frame("SEND", body, destination=destination, **headers))


def _numbered(command: str, destination: str, **headers: str) -> Callable[[int], Iterator[bytes]]:
    """Return chunks of frames with numbered destinations and headers; the last frame of a chunk requests a receipt."""

    def make(publisher: int) -> Iterator[bytes]:
        for first in range(0, MANY, BATCH):
            frames = []
            for number in range(first, first + BATCH):
                named = {name: value.format(number) for name, value in headers.items()}
                if number == first + BATCH - 1:
                    named["receipt"] = str(number)
                frames.append(frame(command, b"", destination=destination.format(f"{publisher}.{number}"), **named))
            yield b"".join(frames)

    return make


def _publish_mqtt(clients: FloodClients) -> str:
    return clients.publish(lambda _number: itertools.repeat(packet(0x30, text("t") + BODY)), clients.mqtt)


def flood_topic_slow_mqtt(clients: FloodClients) -> str:
    """Flood over MQTT with 100 kB, to a STOMP subscriber that reads nothing and sets no prefetch."""
    clients.subscribe("/topic/t")
    return _publish_mqtt(clients)


def flood_topic_mqtt(clients: FloodClients) -> str:
    return _publish_mqtt(clients)


def flood_topic_slow(clients: FloodClients) -> str:
    clients.subscribe("/topic/t")
    return clients.publish(_sends("/topic/t"))


def flood_topic_slow_prefetch(clients: FloodClients) -> str:
    """Flood a subscriber that reads nothing and sets a large prefetch; publishers do not wait."""
    clients.subscribe("/topic/t", activemq_prefetchSize=str(MANY))
    return clients.publish(_sends("/topic/t"))


def flood_topic_slow_prefetch_550k(clients: FloodClients) -> str:
    """Flood with messages of a little more than half a region of G1: each takes nearly twice its size."""
    clients.subscribe("/topic/t", activemq_prefetchSize=str(MANY))
    return clients.publish(_sends("/topic/t", b"x" * 550_000))


def flood_topic_slow_prefetch_9m(clients: FloodClients) -> str:
    clients.subscribe("/topic/t", activemq_prefetchSize=str(MANY))
    return clients.publish(_sends("/topic/t", b"x" * 9_000_000))


def flood_topic_slow_prefetch_mqtt(clients: FloodClients) -> str:
    """Flood over MQTT, to a subscriber with a large prefetch: the broker keeps delayed messages in memory."""
    clients.subscribe("/topic/t", activemq_prefetchSize=str(MANY))
    return _publish_mqtt(clients)


def flood_topics_slow(clients: FloodClients) -> str:
    """Flood ten topics, each with a subscriber that reads nothing."""
    for number in range(10):
        clients.subscribe(f"/topic/t{number}")
    names = itertools.cycle(f"/topic/t{number}" for number in range(10))
    return clients.publish(lambda _number: (frame("SEND", BODY, destination=name) for name in names), publishers=1)


def flood_queue(clients: FloodClients) -> str:
    return clients.publish(_sends("/queue/q"))


def flood_queue_persistent(clients: FloodClients) -> str:
    return clients.publish(_sends("/queue/q", persistent="true"))


def flood_queue_slow_prefetch(clients: FloodClients) -> str:
    clients.subscribe("/queue/q", ack="client", activemq_prefetchSize=str(MANY))
    return clients.publish(_sends("/queue/q"))


def flood_transactions(clients: FloodClients) -> str:
    def make(number: int) -> Iterator[bytes]:
        yield frame("BEGIN", transaction=f"x{number}")
        yield from itertools.repeat(frame("SEND", BODY, destination="/queue/q", transaction=f"x{number}"))

    return clients.publish(make)


def flood_destinations(clients: FloodClients) -> str:
    return clients.publish(_numbered("SEND", "/queue/q.{}"), batch=BATCH)


def flood_temporary_destinations(clients: FloodClients) -> str:
    return clients.publish(_numbered("SUBSCRIBE", "/temp-queue/q{}", id="{}"), batch=BATCH)


def flood_durable_subscriptions(clients: FloodClients) -> str:
    """Create one durable subscription after the other with one client."""
    number = itertools.count()
    return clients.publish(
        _numbered("SUBSCRIBE", "/topic/d", id="{}", activemq_subscriptionName="s{}"),
        lambda: clients.stomp(f"durable{next(number)}"),
        batch=BATCH,
    )


def flood_subscriptions(clients: FloodClients) -> str:
    return clients.publish(_numbered("SUBSCRIBE", "/topic/t", id="{}"), batch=BATCH)


def flood_connections(clients: FloodClients) -> str:
    """Open as many connections as the connector accepts, each with a subscription."""
    with suppress(OSError, AssertionError):
        for _ in range(1000):
            clients.stomp().sendall(frame("SUBSCRIBE", destination="/topic/t", id="1"))
            clients.frames += 1
    return clients.publish(_sends("/topic/t"), publishers=1)


def flood_frames(clients: FloodClients) -> str:
    """Send incomplete frames of 9 MB on 100 connections."""
    frame_part = b"SEND\ndestination:/topic/t\n\n" + b"x" * 9_000_000
    return clients.publish(lambda _number: iter([frame_part]), publishers=100)


FLOODS: dict[str, Callable[[FloodClients], str]] = {
    name.removeprefix("flood_"): function for name, function in list(globals().items()) if name.startswith("flood_")
}


def run_flood(directory: Path, release: str, flood: str, **variables: object) -> FloodResult:
    """Flood one default broker of a release, close all clients, and return the effect."""
    options: tuple[str, ...] = loopback_overlay._JVM_OPTIONS
    vars(loopback_overlay)["_JVM_OPTIONS"] = (*(word for word in options if word not in G1), *G1)
    broker_variables = {"ha": "none", "console": False, "users": USERS, "release": release, **variables}
    with Lab.open(write_inventory(directory, [HOST], **broker_variables), directory / "lab", heap=HEAP) as lab:
        lab.up()
        try:
            return _flood_and_measure(lab, release, flood)
        finally:
            lab.down()


def _flood_and_measure(lab: Lab, release: str, flood: str) -> FloodResult:
    stomp = lab.addresses(HOST, "stomp")[0]
    mqtt = lab.addresses(HOST, "mqtt")[0] if lab.fleet.broker(HOST).connector("mqtt") else None
    base = ConfigurationPaths(str(lab.directory / "hosts" / HOST / "activemq")).base
    clients, result = FloodClients(stomp, mqtt), FloodResult(flood, release)
    try:
        result.stopped_by = FLOODS[flood](clients)
        result.frames, result.bytes = clients.frames, clients.bytes
        result.serves_during = _serves(stomp, 5.0)
        with suppress(Exception):  # only a running broker has counters
            topics = destinations(lab, HOST, "Topic")
            result.enqueued = sum(row["EnqueueCount"] for name, row in topics.items() if name[0] == "t")
    finally:
        clients.close()
    with suppress(LateError):
        wait_until(
            lambda: find_broker_process(base) is None or _serves(stomp, 10.0),
            "the broker has exited or serves",
            patience=PATIENCE,
        )
    result.survived = find_broker_process(base) is not None
    result.serves_after = result.survived and _serves(stomp, 10.0)
    return result


def _serves(address: Address, timeout: float) -> bool:
    with suppress(LabError, OSError):
        stomp_round_trip(address, ANN, "alive", timeout=timeout)
        return True
    return False


if __name__ == "__main__":
    for name in sys.argv[3:] or FLOODS:
        print(json.dumps(asdict(run_flood(Path(sys.argv[1]) / name, sys.argv[2], name))), flush=True)
