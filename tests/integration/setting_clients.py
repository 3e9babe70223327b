"""Clients of a broker whose settings are tested, and the values that the broker reports."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.stomp import Credentials, StompConnection, StompError
from activemq_fleet.node.config.versions import ConfigurationPaths
from activemq_fleet.node.probe.management import query_mbeans
from activemq_fleet.node.probe.stomp_client import StompFrame
from activemq_fleet.node.process.proc import Process, find_broker_process
from activemq_fleet.releases import Release
from tests.integration.labs import processes_of, write_inventory

HOST = "orders-mq01-a.example.com"
ANN = Credentials("ann", "anns-secret")
USERS = [{"name": ANN.username, "password": ANN.password, "groups": "staff"}]


class Client(StompConnection):
    """A client of STOMP 1.1, which can refuse a message."""

    def _write(self, command: str, headers: Mapping[str, str], body: str = "") -> None:
        connect_headers = {"accept-version": "1.1", "host": "broker"} if command == "CONNECT" else {}
        super()._write(command, {**headers, **connect_headers}, body)

    def follow(self, destination: str, **headers: str) -> None:
        """Subscribe, and acknowledge each message by hand."""
        self.subscribe(destination, ack="client-individual", headers={"id": destination, **headers})

    def listen(self, destination: str, **headers: str) -> None:
        """Subscribe as ``follow`` does, without a wait for the receipt of the broker."""
        defaults = {"id": destination, "destination": destination, "ack": "client-individual"}
        self._write("SUBSCRIBE", defaults | headers)

    def answer(self, message: StompFrame, command: str = "ACK") -> None:
        """Acknowledge a message, or refuse it with NACK."""
        headers = {name: message.headers[name] for name in ("subscription", "message-id")}
        self._write(command, headers)

    def roll_back(self, message: StompFrame) -> None:
        """Acknowledge a message in a transaction, and abort the transaction."""
        self._write("BEGIN", {"transaction": "t"})
        headers = {name: message.headers[name] for name in ("subscription", "message-id")}
        self._write("ACK", {**headers, "transaction": "t"})
        self._write("ABORT", {"transaction": "t", "receipt": "aborted"})
        self._await_receipt("aborted")

    def bodies(self, number: int, *, timeout: float = 5.0, acknowledge: bool = True) -> list[str]:
        """Receive up to ``number`` messages and acknowledge each; return their bodies."""
        bodies: list[str] = []
        while len(bodies) < number and (message := self.receive(timeout)):
            if acknowledge:
                self.answer(message)
            bodies.append(message.body)
        return bodies


@contextmanager
def broker_with(directory: Path, release: str, **variables: Any) -> Iterator[Lab]:
    """Run a lab with one broker with some settings; keys that the release lacks are waived and not in its file."""
    waiver = {"rule": "T011", "reason": "tests have one inventory for all releases"}
    common = {"ha": "none", "console": False, "users": USERS, "release": release, "waivers": [waiver]}
    with Lab.open(write_inventory(directory, [HOST], **common, **variables), directory / "lab") as lab:
        lab.up()
        yield lab
    assert not processes_of(directory / "lab")


def connect_client(lab: Lab, client_id: str | None = None) -> Client:
    """Return a new client of the broker."""
    return Client(lab.addresses(HOST, "stomp")[0], ANN, client_id=client_id)


def release_of(lab: Lab) -> Release:
    return lab.fleet.broker(HOST).release


def skip_without(lab: Lab, element: str, attribute: str = "") -> None:
    """Skip the test if the release of the broker lacks an element, or an attribute of it."""
    release = release_of(lab)
    if not release.supports(element, attribute or None):
        pytest.skip(f"ActiveMQ {release.text} has no {attribute or element}")


def advisories(lab: Lab, *names: str) -> dict[str, int]:
    """Return the number of advisories of each kind."""
    topics = destinations(lab, HOST, "Topic")
    return {name: topics.get(f"ActiveMQ.Advisory.{name}", {"EnqueueCount": 0})["EnqueueCount"] for name in names}


def broker_process(lab: Lab, host: str) -> Process:
    """Return the process of the broker."""
    process = find_broker_process(ConfigurationPaths(str(lab.directory / "hosts" / host / "activemq")).base)
    assert process is not None
    return process


def destinations(lab: Lab, host: str, kind: str = "Queue") -> dict[str, dict[str, Any]]:
    """Return the queues or topics of the broker by name, with their attributes."""
    mbeans = query_mbeans(broker_process(lab, host), f"type=Broker,destinationType={kind},*", _attributes_to_read)
    return {mbean["destinationName"]: mbean for mbean in mbeans if "EnqueueCount" in mbean}


def _attributes_to_read(key_properties: Mapping[str, str]) -> tuple[str, ...]:
    return () if {"endpoint", "view"} & key_properties.keys() else ATTRIBUTES


ATTRIBUTES = (
    *("QueueSize", "EnqueueCount", "MaxPageSize", "MaxAuditDepth"),
    *("MaxProducersToAudit", "UseCache", "BlockedProducerWarningInterval", "ConsumerCount"),
    *("ProducerFlowControl", "AlwaysRetroactive", "MessageGroupType"),
)


def queues(lab: Lab, host: str) -> dict[str, int]:
    """Return the number of messages in each queue of the broker, by name."""
    return {name: mbean["QueueSize"] for name, mbean in destinations(lab, host).items()}


def fill(client: Client, destination: str, body: str, **headers: str) -> tuple[int, str]:
    """Send until the broker refuses a message; return the number of accepted messages, and the error of the broker."""
    for accepted in range(200):
        try:
            client.send(destination, body, headers)
        except StompError as error:
            return accepted, str(error)
    return 200, ""


def expiry_header() -> dict[str, str]:
    """Return the header of a message that expires after 0.2 s."""
    return {"expires": str(int((time.time() + 0.2) * 1000))}
