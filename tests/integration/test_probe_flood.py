"""Test of a probe of a real broker while a client floods the topic of probes."""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest

from activemq_fleet.node.config.probe_account import Login
from activemq_fleet.node.probe.connector_probe import ProbeAnswer, probe_connector
from tests.integration.single_brokers import STOMP, BrokerSandbox, document

FLOODERS = 4
PROBE_TIMEOUT = 5.0
PATIENCE = 20 * PROBE_TIMEOUT
"""Seconds after which a probe that hangs fails the test."""


@pytest.mark.timeout(400)
def test_probe_returns_while_client_floods_topic_of_probes(sandbox: BrokerSandbox) -> None:
    broker = sandbox.add_broker("flooded", "6.3.1", document("flooded", sandbox.address(1)))
    assert broker.boot().fate == "started", broker.output
    address, flood_ended, sent_frames = (sandbox.address(1), STOMP), threading.Event(), [0]
    frame = b"SEND\ndestination:/topic/activemq.fleet.probe\npersistent:false\n\n" + b"x" * 100_000 + b"\0"

    def flood() -> None:
        with contextlib.suppress(OSError), socket.create_connection(address, 30) as client:
            client.sendall(b"CONNECT\n\n\0")
            client.recv(1000)
            while not flood_ended.is_set():
                client.sendall(frame)
                sent_frames[0] += 1

    flooders = [threading.Thread(target=flood, daemon=True) for _ in range(FLOODERS)]
    answers: list[ProbeAnswer] = []
    probing = threading.Thread(
        target=lambda: answers.append(probe_connector("stomp", address, Login(), PROBE_TIMEOUT)), daemon=True
    )
    for flooder in flooders:
        flooder.start()
    started = threading.Event()
    while sent_frames[0] < 200 and not started.wait(0.05):
        assert any(flooder.is_alive() for flooder in flooders), "the attack did not reach its target: all clients ended"
    probing.start()
    probing.join(PATIENCE)
    flood_ended.set()
    assert sent_frames[0] >= 200, f"the attack did not reach its target: only {sent_frames[0]} frames were sent"
    assert answers, f"timed out: the probe did not return within {PATIENCE:g} s"
