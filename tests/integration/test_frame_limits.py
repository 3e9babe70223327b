"""Memory that unauthenticated connections can occupy, with the old default limit and with the collection's default."""

from __future__ import annotations

import re
import socket
import struct
import threading
from contextlib import ExitStack, suppress

import pytest

from activemq_fleet.settings.connectors_and_links import DEFAULT_OPTIONS, FRAME_SIZE, default_connector_options
from tests.integration.single_brokers import OPENWIRE, STOMP, BrokerSandbox, SandboxBroker, document, until
from tests.integration.waiting import PATIENCE
from tests.situations import fact_of_activemq, further
from tests.stomp_clients import stomp_round_trip

pytestmark = fact_of_activemq

HEAP = ("-Xmx512m", "-XX:+ExitOnOutOfMemoryError")
"""Options of a rendered service unit."""
CONNECTIONS, FRAME = 4, 90 << 20
CHUNK = bytes(1 << 20).replace(b"\0", b"x")


def flood(address: tuple[str, int], prefix: bytes = b"CONNECT\n\n") -> None:
    """Open four connections that each send 90 MiB of an endless frame and stay open until the broker closes them."""
    with ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection(address, PATIENCE)) for _ in range(CONNECTIONS)]
        threads = [threading.Thread(target=send_endless_frame, args=(client, prefix)) for client in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def send_endless_frame(client: socket.socket, prefix: bytes) -> None:
    with suppress(OSError):
        client.sendall(prefix)
        for _ in range(FRAME // len(CHUNK)):
            client.sendall(CHUNK)


def start_broker(sandbox: BrokerSandbox, release: str, limit: str) -> SandboxBroker:
    activemq_xml = document("flooded", sandbox.address(1))
    uri = rf'uri="stomp+nio://\1:{STOMP}?wireFormat.maxFrameSize={limit}"'
    openwire = default_connector_options("nio")[FRAME_SIZE]
    activemq_xml = activemq_xml.replace(f':{OPENWIRE}"', f':{OPENWIRE}?{FRAME_SIZE}={openwire}"')
    activemq_xml = re.sub(rf'uri="stomp://([0-9.]+):{STOMP}"', uri, activemq_xml)
    broker = sandbox.add_broker("flooded", release, activemq_xml, options=HEAP)
    assert broker.boot().fate == "started", broker.output
    return broker


@pytest.mark.parametrize("release", [*further("5.18.3"), "6.3.1"])
def test_unauthenticated_frames_stop_broker_that_accepts_100_mib(sandbox: BrokerSandbox, release: str) -> None:
    broker = start_broker(sandbox, release, "104857600")
    flood((sandbox.address(1), STOMP))
    assert until(lambda: broker.has_ended, PATIENCE), broker.output
    assert "java.lang.OutOfMemoryError" in broker.output


@pytest.mark.parametrize("release", [*further("5.18.3"), "6.3.1"])
def test_broker_with_default_frame_limit_survives_unauthenticated_frames(sandbox: BrokerSandbox, release: str) -> None:
    broker = start_broker(sandbox, release, DEFAULT_OPTIONS[FRAME_SIZE])
    address = (sandbox.address(1), STOMP)
    largest = (
        int(default_connector_options("nio")[FRAME_SIZE]) - 4
    )  # NIOTransport includes the four bytes of the length
    for _ in range(3):
        flood(address)
        flood((sandbox.address(1), OPENWIRE), struct.pack(">i", largest))
        flood((sandbox.address(1), OPENWIRE), struct.pack(">i", FRAME))
    stomp_round_trip(address, None, "alive", timeout=PATIENCE)
    assert not broker.has_ended
    assert "java.lang.OutOfMemoryError" not in broker.output
