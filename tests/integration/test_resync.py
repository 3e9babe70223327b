"""Tests of the selection of the newer store on real 5.5.1 pairs that stopped in many orders: correct, or refused.

The tests count each message for which a broker sent a receipt, and each message whose acknowledgement a broker
stored. ``ORDERINGS=20`` runs all orderings, each from a pair whose clocks differ by ten minutes, once in each
direction. ``CUTS=10`` kills the controller after each action of each ordering. The log and the journal record the time
of the host's clock, so that a time zone of ten minutes is the same as a wrong clock. The times of the files are moved,
too.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.stomp import StompConnection
from activemq_fleet.operations.resync_source_choice import ResyncRefusedError
from tests.integration.labs import pair, write_inventory
from tests.integration.relay import Relay
from tests.integration.resyncing import Controller, Cut
from tests.integration.waiting import PATIENCE, until
from tests.situations import further

MASTER, SLAVE = pair("orders")
QUEUE = "/queue/work"
SKEW = 600.0
NODES = {"m": MASTER, "s": SLAVE}

# The events of an attached pair, and the node with the store to continue with: m, s, = (the stores are equal, or one
# has a message more, whose sender received no receipt) or ! (each has messages that the other lacks: resync refuses).
ORDERINGS = {
    "send m, kill m, send s, kill s, start m": "s",
    "send m, kill s, send m, take m, kill m": "m",
    "load m, kill both": "=",
    "kill m, send s, kill s, start m, start s, kill s, send m": "!",
    "send m, kill m": "=",
    "send m, kill m, send s": "s",
    "send m, kill m, take s": "s",
    "kill m, send s, kill s, start m, start s, send m": "s",
    "send m, kill m, take s, send s, kill s": "s",
    "send m, kill m, send s, start m": "s",
    "send m, kill m, take s, kill s, start m": "s",
    "send m, kill m, kill s": "=",
    "send m, kill s": "=",
    "send m, kill s, take m": "m",
    "send m, kill s, send m, kill m, start m": "m",
    "send m, kill both": "=",
    "load m, kill m, send s": "s",
    "load m, kill s, send m, kill m": "m",
    "send m, kill s, send m, kill m, start s, send s": "!",
    "send m, kill both, lose m": "!",
    "send m, kill m, send s, kill s, lose m, start m": "s",
    "send m, take m, kill both, lose s": "m",
}
COUNT = int(os.environ.get("ORDERINGS", "2"))
ACTS = ("stop m", "stop s", "manifest", "staged", "piece 1", "piece 2", "piece 3", "switched", "start m", "start s")
CUTS_AFTER_EACH_ACT = int(os.environ.get("CUTS", "3")) >= len(ACTS)
CUTS = [ACTS] * len(ORDERINGS) if CUTS_AFTER_EACH_ACT else [("stop m",), ("piece 2",), ("start m",)]


class Pair:
    """A pair, the messages that were sent to it, and the messages that were consumed from it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.controller = Controller(lab, MASTER, SLAVE)
        self.sent: set[str] = set()
        self.consumed: set[str] = set()
        self._number = 0
        self._load_ended = threading.Event()
        self._load_thread: threading.Thread | None = None

    def run_events(self, events: str) -> None:
        """Run a list of events, such as ``send m, kill s``, in its order."""
        for event in events.split(", "):
            action, node = event.split()
            getattr(self, f"_{action}")(node)

    def _send(self, node: str, count: int = 10) -> None:
        with self._connect(node) as connection:
            for _ in range(count):
                self._send_message(connection, node)

    def _send_message(self, connection: StompConnection, node: str) -> None:
        self._number += 1
        body = f"{node}{self._number}"
        connection.send(QUEUE, body)
        self.sent.add(body)

    def _take(self, node: str, count: int = 4) -> None:
        """Consume messages one by one; each counts after both brokers of the pair have stored its ACK.

        With the receipt the broker writes the ACK into its journal. A pure master forwards it to the slave before the
        next frame of the connection.
        """
        with self._connect(node) as connection:
            connection.subscribe(QUEUE, headers={"activemq.prefetchSize": "1"})
            for _ in range(count):
                message = connection.receive(120)
                remaining = self.sent - self.consumed
                assert message is not None, f"timed out: {node} did not deliver {count} messages of {remaining}"
                connection.acknowledge(message, await_receipt=True)
                connection.send("/topic/unused", "", {"persistent": "false"})
                self.consumed.add(message.body)

    def _load(self, node: str) -> None:
        """Send without pauses in a thread, until the next kill."""
        running = threading.Event()
        self._load_ended.clear()
        self._load_thread = threading.Thread(target=self._send_until_kill, args=(node, running))
        self._load_thread.start()
        assert running.wait(120), f"timed out: no message was sent to {node} in 120 s"

    def _send_until_kill(self, node: str, running: threading.Event) -> None:
        with suppress(LabError, OSError), self._connect(node) as connection:
            while not self._load_ended.is_set():
                self._send_message(connection, node)
                running.set()

    def _kill(self, node: str) -> None:
        names = ("m", "s") if node == "both" else (node,)
        victims = [NODES[name] for name in names]
        for host in victims:
            self.lab.pause(host)  # so that neither node detects the failure of the other one
        for host in victims:
            self.lab.kill(host)
        self._load_ended.set()
        if self._load_thread:
            self._load_thread.join()

    def _start(self, node: str) -> None:
        """Start a broker by hand, without a resync."""
        hosts = self.lab._hosts
        broker = self.lab.fleet.broker(NODES[node])
        alone = not hosts.is_alive(self.lab.fleet.broker(NODES["s" if node == "m" else "m"]))
        hosts.launch_process(broker)
        if node == "m":
            until(
                lambda: hosts.listens_on_port(broker, broker.ports["replication"]),
                PATIENCE,
                lambda: hosts.failure_reason(broker),
            )
        else:
            state = "active" if alone else "standby"
            until(
                lambda: hosts.observe_broker(broker).state == state,
                PATIENCE,
                lambda: f"{state}: {hosts.failure_reason(broker)}",
            )

    def _lose(self, node: str) -> None:
        """Remove the store of a node, as a replacement of its disk does."""
        host = NODES[node]
        store = Path(self.controller.store(host))
        store.rename(f"{store}.lost-{self._number}")

    def _connect(self, node: str) -> StompConnection:
        """Connect to a node. Both nodes have this connector, so that messages of the slave alone are counted, too."""
        address = (self.lab.addresses(MASTER, "stomp")[0][0], 61613)
        if node == "s":
            address = (self.lab.client_fleet.broker(SLAVE).address, 61613)
        connections: list[StompConnection] = []

        def connect() -> bool:
            with suppress(LabError, OSError):
                connections.append(StompConnection(address, self.lab.credentials(MASTER), timeout=60))
            return bool(connections)

        until(connect, PATIENCE, f"{address} accepts a client")
        return connections[0]

    def stored_bodies(self) -> set[str]:
        """Return the bodies of the messages that the master of the pair has; the messages stay there."""
        bodies: set[str] = set()
        with self._connect("m") as connection:
            connection.subscribe(QUEUE, headers={"activemq.prefetchSize": "10000"})
            # Expected messages are waited for. Unexpected messages have one second to arrive after them.
            while message := connection.receive(120 if self.sent - self.consumed - bodies else 1):
                bodies.add(message.body)
        return bodies

    def check(self) -> None:
        """Verify that no message with a receipt is lost, and that no consumed message is delivered again."""
        stored = self.stored_bodies()
        assert sorted(self.sent - self.consumed - stored) == []
        assert sorted(self.consumed & stored) == []

    def empty(self) -> None:
        """Consume all remaining messages, so that the next ordering begins with empty stores."""
        self._take("m", len(self.stored_bodies()))
        self.sent.clear()
        self.consumed.clear()

    def shift_file_times(self) -> None:
        """Move the times of the files by the difference of the clocks."""
        for host, seconds in ((MASTER, SKEW), (SLAVE, -SKEW)):
            self.controller.shift(host, seconds)


def inventory(directory: Path, ahead: str) -> Path:
    """Write the inventory of a pair in which the clock of one node is ten minutes ahead.

    The slave has a connector, so that its messages can be counted.
    """
    path = write_inventory(
        directory,
        [MASTER, SLAVE],
        release="5.5.1",
        ha="pure",
        network_username="network",
        network_password="made-up-network",
        users=[{"name": "app", "password": "made-up-app"}],
        waivers=[{"rule": rule, "reason": "a lab"} for rule in ("S001", "S002")],
    )
    inventory_data = json.loads(path.read_text())
    connector = f'<transportConnector name="stomp" uri="stomp+nio://{SLAVE}:61613"/>'
    hosts = inventory_data["all"]["hosts"]
    hosts[SLAVE] = {
        "activemq_xml_fragments": [
            {"parent": "broker", "xml": f"<transportConnectors>{connector}</transportConnectors>"}
        ]
    }
    hosts[NODES[ahead]]["activemq_java_options"] = ["-Duser.timezone=GMT+00:10"]
    path.write_text(json.dumps(inventory_data))
    return path


@pytest.fixture(params=["m", "s"] if COUNT > 4 else ["m"])
def skewed_pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Yield an attached pair whose clocks differ."""
    with Lab.open(inventory(tmp_path / "inventory", request.param), tmp_path / "lab") as lab:
        lab.up()
        yield Pair(lab)


def resync(pair: Pair, cuts: Sequence[str]) -> None:
    """Run resync. Kill the controller after each of the cuts, and continue with the next run."""
    for cut in cuts:
        try:
            pair.controller.run(cut=cut)
        except Cut:
            continue
        return
    pair.controller.run()


@pytest.mark.timeout(300 + 240 * COUNT)
def test_resync_selects_newer_store_or_refuses_after_each_order_of_kills(skewed_pair: Pair) -> None:
    for number, (events, expected) in enumerate(list(ORDERINGS.items())[:COUNT]):
        skewed_pair.run_events(events)
        skewed_pair.shift_file_times()
        skewed_pair.controller.winner, skewed_pair.controller.messages = "", []
        cuts = CUTS[number] if number < len(CUTS) else ()
        if expected == "!":
            with pytest.raises(ResyncRefusedError) as refused:
                resync(skewed_pair, cuts)
            print(f"{events}: refused: {refused.value}")
            assert skewed_pair.controller.acts == []
            if "lose m" in events:
                with pytest.raises(ResyncRefusedError, match="is missing or empty"):
                    skewed_pair.controller.run(chosen=MASTER)
                skewed_pair.controller.run(chosen=SLAVE)
                skewed_pair.check()
            else:
                resync_from(skewed_pair, MASTER)
        else:
            resync(skewed_pair, cuts)
            print(f"{events}: {skewed_pair.controller.winner or 'equal'}")
            details = (events, skewed_pair.controller.messages)
            assert expected == "=" or skewed_pair.controller.winner == NODES[expected], details
            skewed_pair.check()
        skewed_pair.empty()


def resync_from(pair: Pair, host: str) -> None:
    """Run resync from the node that an operator chooses; the store of the other node stays in its backup."""
    store = pair.controller.store(SLAVE if host == MASTER else MASTER)
    replaced_state = pair.controller.inspect_node(SLAVE if host == MASTER else MASTER, host, "slave").store.state
    pair.controller.run(chosen=host)
    assert pair.controller.backup.startswith(f"{store}.before-")
    assert pair.controller.contents(pair.controller.backup)["state"] == replaced_state


@pytest.mark.timeout(600)
@pytest.mark.parametrize("skewed_pair", further("m"), indirect=True)
def test_split_pair_is_repaired_by_documented_procedure(skewed_pair: Pair) -> None:
    """docs/resync.md: consume the messages of one node, then continue with the other node."""
    lab, broker = skewed_pair.lab, skewed_pair.lab.client_fleet.broker(MASTER)
    target = (broker.address, broker.ports["replication"])
    for host in (SLAVE, MASTER):
        lab.kill(host)
    with Relay(target) as relay:
        file = lab.directory / "hosts" / SLAVE / "activemq/current/conf/activemq.xml"
        activemq_xml, master_uri = file.read_text(), f"nio://{MASTER}:{target[1]}"
        assert activemq_xml.count(master_uri) == 1
        file.write_text(activemq_xml.replace(master_uri, f"nio://{target[0]}:{relay.address[1]}"))
        skewed_pair.controller.run()
        skewed_pair.run_events("send m")
        relay.reset()
        until(lambda: lab.state(SLAVE) == "active", PATIENCE, "the slave is active, too")
        assert lab.state(MASTER) == "active"
        skewed_pair.run_events("send m, send s")
        time.sleep(2)
        # Both stay active, although the network works again.
        assert {lab.state(host) for host in (MASTER, SLAVE)} == {"active"}
        with pytest.raises(ResyncRefusedError, match="activemq_resync_from"):
            skewed_pair.controller.run()

        skewed_pair._take("s", 20)
        copies = set(skewed_pair.consumed)
        skewed_pair.controller.run(chosen=MASTER)
        stored = skewed_pair.stored_bodies()
    assert skewed_pair.sent == stored | copies
    print(f"{len(skewed_pair.sent)} sent, {len(stored & copies)} twice")
    assert len(stored & copies) == 10  # the messages that both nodes had before the cut
