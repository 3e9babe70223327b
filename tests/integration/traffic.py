"""Messages across a fleet, and who answers on a port."""

from __future__ import annotations

import base64
import http.client
import os
import socket
import threading
import time
from collections.abc import Sequence

from activemq_fleet.addresses import Address
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.stomp import Credentials
from tests.stomp_clients import stomp_drain, stomp_send


def numbered(tag: str, count: int) -> list[str]:
    """``count`` different bodies."""
    return [f"{tag}-{number}" for number in range(count)]


def send(lab: Lab, host: str, queue: str, bodies: Sequence[str]) -> None:
    """Send persistent messages to one host, each receipted."""
    stomp_send(lab.addresses(host, "stomp"), f"/queue/{queue}", bodies, lab.credentials(host))


def drain(lab: Lab, host: str, queue: str, expected: int, timeout: float = 180.0) -> set[str]:
    """What different messages a consumer at one host gets until there are ``expected``."""
    addresses = lab.addresses(host, "stomp")
    return set(stomp_drain(addresses, f"/queue/{queue}", lab.credentials(host), expected=expected, timeout=timeout))


def cross(lab: Lab, source: str, target: str, queue: str, count: int = 20, timeout: float = 180.0) -> set[str]:
    """Messages sent at ``source`` that a consumer at ``target`` gets: the consumer is there first."""
    got: set[str] = set()
    consumer = threading.Thread(target=lambda: got.update(drain(lab, target, queue, count, timeout)))
    consumer.start()
    time.sleep(1)
    send(lab, source, queue, numbered(queue, count))
    consumer.join()
    return got


def is_open(address: Address) -> bool:
    """True where somebody accepts connections."""
    try:
        socket.create_connection(address, 5).close()
    except OSError:
        return False
    return True


def speaks_openwire(address: Address) -> bool:
    """True where a broker introduces itself with WireFormatInfo."""
    with socket.create_connection(address, 60) as connection:
        connection.settimeout(60)
        return b"ActiveMQ" in connection.recv(512)


def speaks_amqp(address: Address) -> bool:
    """True where AMQP 1.0 with SASL is answered in kind."""
    with socket.create_connection(address, 60) as connection:
        connection.settimeout(60)
        connection.sendall(b"AMQP\x03\x01\x00\x00")
        return connection.recv(8) == b"AMQP\x03\x01\x00\x00"


def speaks_websocket(address: Address) -> bool:
    """True where an upgrade to STOMP over WebSocket is accepted."""
    connection = http.client.HTTPConnection(*address, timeout=60)
    key = base64.b64encode(os.urandom(16)).decode()
    headers = {
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": "stomp",
    }
    try:
        connection.request("GET", "/", headers=headers)
        return connection.getresponse().status == http.client.SWITCHING_PROTOCOLS
    finally:
        connection.close()


def console(address: Address, path: str, who: Credentials | None = None) -> int:
    """The status with which the web console answers."""
    connection = http.client.HTTPConnection(*address, timeout=60)
    headers = {}
    if who:
        headers["Authorization"] = "Basic " + base64.b64encode(f"{who.username}:{who.password}".encode()).decode()
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()
