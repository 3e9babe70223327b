"""Helpers that send messages across a fleet, and that check connectors and the console."""

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


def numbered_bodies(tag: str, count: int) -> list[str]:
    """Return ``count`` different bodies."""
    return [f"{tag}-{number}" for number in range(count)]


def send(lab: Lab, host: str, queue: str, bodies: Sequence[str]) -> None:
    """Send persistent messages to one host; wait for the receipt of each."""
    stomp_send(lab.addresses(host, "stomp"), f"/queue/{queue}", bodies, lab.credentials(host))


def drain(lab: Lab, host: str, queue: str, expected: int, timeout: float = 180.0) -> set[str]:
    """Return the different messages that a consumer at one host receives until there are ``expected``."""
    addresses = lab.addresses(host, "stomp")
    return set(stomp_drain(addresses, f"/queue/{queue}", lab.credentials(host), expected=expected, timeout=timeout))


def send_across(lab: Lab, source: str, target: str, queue: str, count: int = 20, timeout: float = 180.0) -> set[str]:
    """Send messages at ``source``; return those that a consumer at ``target`` receives, which subscribes first."""
    received: set[str] = set()
    consumer = threading.Thread(target=lambda: received.update(drain(lab, target, queue, count, timeout)))
    consumer.start()
    time.sleep(1)
    send(lab, source, queue, numbered_bodies(queue, count))
    consumer.join()
    return received


def is_open(address: Address) -> bool:
    """Return whether a process accepts connections."""
    try:
        socket.create_connection(address, 5).close()
    except OSError:
        return False
    return True


def serves_openwire(address: Address) -> bool:
    """Return whether a broker sends WireFormatInfo on a connection."""
    with socket.create_connection(address, 60) as connection:
        connection.settimeout(60)
        return b"ActiveMQ" in connection.recv(512)


def serves_amqp(address: Address) -> bool:
    """Return whether a broker confirms AMQP 1.0 with SASL."""
    with socket.create_connection(address, 60) as connection:
        connection.settimeout(60)
        connection.sendall(b"AMQP\x03\x01\x00\x00")
        return connection.recv(8) == b"AMQP\x03\x01\x00\x00"


def serves_websocket(address: Address) -> bool:
    """Return whether a broker accepts an upgrade to STOMP over WebSocket."""
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


def console_status(address: Address, path: str, credentials: Credentials | None = None) -> int:
    """Return the status code of a response of the web console."""
    connection = http.client.HTTPConnection(*address, timeout=60)
    headers = {}
    if credentials:
        login = f"{credentials.username}:{credentials.password}"
        headers["Authorization"] = "Basic " + base64.b64encode(login.encode()).decode()
    try:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()
