"""Which of two stores is the newer one, on real 5.5.1 pairs that died in every order: right or refused.

The truth is counted: every message that a broker receipted, and every one whose acknowledgement it
has processed. ``ORDERINGS=20`` goes through all orderings, each from a pair whose clocks are ten
minutes apart, one time this way and one time the other; ``CUTS=10`` kills the controller after every
act of every one of them. The log and the journal name times by their host's clock, so a time zone of ten minutes
is a clock that is wrong, and the files' own times are moved too.
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
from activemq_fleet.operations.recency import ResyncRefusedError
from tests.integration.labs import pair, write_inventory
from tests.integration.relay import Relay
from tests.integration.resyncing import Controller, Cut
from tests.integration.waiting import PATIENCE, until
from tests.situations import further

MASTER, SLAVE = pair("orders")
QUEUE = "/queue/work"
SKEW = 600.0
NODES = {"m": MASTER, "s": SLAVE}

# What happens to an attached pair, and whose store is the one to go on with: m, s, = (they hold the same, or one
# of them a message more that nobody was told is stored) or ! (both hold what the other does not know: refused).
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
EVERYWHERE = int(os.environ.get("CUTS", "3")) >= len(ACTS)
CUTS = [ACTS] * len(ORDERINGS) if EVERYWHERE else [("stop m",), ("piece 2",), ("start m",)]


class Pair:
    """A pair, what was sent to it, and what was taken from it."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.controller = Controller(lab, MASTER, SLAVE)
        self.sent: set[str] = set()
        self.taken: set[str] = set()
        self._number = 0
        self._over = threading.Event()
        self._load_thread: threading.Thread | None = None

    def live(self, story: str) -> None:
        """Let all this happen."""
        for event in story.split(", "):
            what, who = event.split()
            getattr(self, f"_{what}")(who)

    def _send(self, who: str, count: int = 10) -> None:
        with self._connect(who) as connection:
            for _ in range(count):
                self._send_one(connection, who)

    def _send_one(self, connection: StompConnection, who: str) -> None:
        self._number += 1
        body = f"{who}{self._number}"
        connection.send(QUEUE, body)
        self.sent.add(body)

    def _take(self, who: str, count: int = 4) -> None:
        """Take messages one by one; each counts once the broker has processed what followed its ACK."""
        with self._connect(who) as connection:
            connection.subscribe(QUEUE, headers={"activemq.prefetchSize": "1"})
            for _ in range(count):
                message = connection.receive(120)
                assert message is not None, f"{count} messages are to come of {who}: {self.sent - self.taken}"
                connection.acknowledge(message)
                connection.send("/topic/nobody", "", {"persistent": "false"})
                self.taken.add(message.body)

    def _load(self, who: str) -> None:
        """Send without a pause from now on, until the next death is over."""
        running = threading.Event()
        self._over.clear()
        self._load_thread = threading.Thread(target=self._send_on, args=(who, running))
        self._load_thread.start()
        assert running.wait(120), f"nothing was sent to {who} in 120 s"

    def _send_on(self, who: str, running: threading.Event) -> None:
        with suppress(LabError, OSError), self._connect(who) as connection:
            while not self._over.is_set():
                self._send_one(connection, who)
                running.set()

    def _kill(self, who: str) -> None:
        victims = [NODES[node] for node in (("m", "s") if who == "both" else (who,))]
        for host in victims:
            self.lab.pause(host)  # so that none of them sees the other one die
        for host in victims:
            self.lab.kill(host)
        self._over.set()
        if self._load_thread:
            self._load_thread.join()

    def _start(self, who: str) -> None:
        """By hand, as somebody does who knows no better."""
        hosts = self.lab._hosts
        broker = self.lab.fleet.broker(NODES[who])
        alone = not hosts.is_alive(self.lab.fleet.broker(NODES["s" if who == "m" else "m"]))
        hosts.launch_process(broker)
        if who == "m":
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

    def _lose(self, who: str) -> None:
        """The disk was replaced."""
        host = NODES[who]
        store = Path(self.controller.store(host))
        store.rename(f"{store}.lost-{self._number}")

    def _connect(self, who: str) -> StompConnection:
        """Both nodes have this connector here: what came to a slave alone is to be counted too."""
        address = (self.lab.addresses(MASTER, "stomp")[0][0], 61613)
        if who == "s":
            address = (self.lab.client_fleet.broker(SLAVE).address, 61613)
        found: list[StompConnection] = []

        def dial() -> bool:
            with suppress(LabError, OSError):
                found.append(StompConnection(address, self.lab.credentials(MASTER), timeout=60))
            return bool(found)

        until(dial, PATIENCE, f"{address} takes a client")
        return found[0]

    def held(self) -> set[str]:
        """What the master of the pair holds; it is left there."""
        bodies: set[str] = set()
        with self._connect("m") as connection:
            connection.subscribe(QUEUE, headers={"activemq.prefetchSize": "10000"})
            # What must come is waited for; what must not has a second to come after it.
            while message := connection.receive(120 if self.sent - self.taken - bodies else 1):
                bodies.add(message.body)
        return bodies

    def check(self) -> None:
        """Nothing that was receipted is gone, and nothing that was taken comes back."""
        held = self.held()
        assert sorted(self.sent - self.taken - held) == []
        assert sorted(self.taken & held) == []

    def empty(self) -> None:
        """Take all that is left, so that the next ordering begins with nothing."""
        self._take("m", len(self.held()))
        self.sent.clear()
        self.taken.clear()

    def shift(self) -> None:
        """Move the times of the files, as far as the clocks are apart."""
        for host, seconds in ((MASTER, SKEW), (SLAVE, -SKEW)):
            self.controller.shift(host, seconds)


def inventory(directory: Path, ahead: str) -> Path:
    """One pair; the clock of one node is ten minutes ahead. The slave has a connector, to be counted by."""
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
    content = json.loads(path.read_text())
    connector = f'<transportConnector name="stomp" uri="stomp+nio://{SLAVE}:61613"/>'
    hosts = content["all"]["hosts"]
    hosts[SLAVE] = {
        "activemq_xml_fragments": [
            {"parent": "broker", "xml": f"<transportConnectors>{connector}</transportConnectors>"}
        ]
    }
    hosts[NODES[ahead]]["activemq_java_options"] = ["-Duser.timezone=GMT+00:10"]
    path.write_text(json.dumps(content))
    return path


@pytest.fixture(params=["m", "s"] if COUNT > 4 else ["m"])
def twins(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """A pair that is attached, and whose clocks are apart."""
    with Lab.open(inventory(tmp_path / "inventory", request.param), tmp_path / "lab") as lab:
        lab.up()
        yield Pair(lab)


def resync(pair: Pair, cuts: Sequence[str]) -> None:
    """Run it; the controller is killed after each of these acts, and the next run goes on."""
    for cut in cuts:
        try:
            pair.controller.run(cut=cut)
        except Cut:
            continue
        return
    pair.controller.run()


@pytest.mark.timeout(300 + 240 * COUNT)
def test_whoever_died_and_wherever_resync_was_killed_it_is_right_or_refuses(twins: Pair) -> None:
    for number, (story, expected) in enumerate(list(ORDERINGS.items())[:COUNT]):
        twins.live(story)
        twins.shift()
        twins.controller.winner, twins.controller.messages = "", []
        cuts = CUTS[number] if number < len(CUTS) else ()
        if expected == "!":
            with pytest.raises(ResyncRefusedError) as refused:
                resync(twins, cuts)
            print(f"{story}: refused: {refused.value}")
            assert twins.controller.acts == []
            if "lose m" in story:
                with pytest.raises(ResyncRefusedError, match="is missing or empty"):
                    twins.controller.run(chosen=MASTER)
                twins.controller.run(chosen=SLAVE)
                twins.check()
            else:
                resync_from(twins, MASTER)
        else:
            resync(twins, cuts)
            print(f"{story}: {twins.controller.winner or 'equal'}")
            said = (story, twins.controller.messages)
            assert expected == "=" or twins.controller.winner == NODES[expected], said
            twins.check()
        twins.empty()


def resync_from(pair: Pair, host: str) -> None:
    """As an operator decides it; what the other node held stays in its backup."""
    store = pair.controller.store(SLAVE if host == MASTER else MASTER)
    held = pair.controller.inspect_node(SLAVE if host == MASTER else MASTER, host, "slave").store.state
    pair.controller.run(chosen=host)
    assert pair.controller.backup.startswith(f"{store}.before-")
    assert pair.controller.contents(pair.controller.backup)["state"] == held


@pytest.mark.timeout(600)
@pytest.mark.parametrize("twins", further("m"), indirect=True)
def test_split_pair_is_repaired_by_documented_procedure(twins: Pair) -> None:
    """docs/resync.md: let the messages of one node be consumed, then go on from the other one."""
    lab, broker = twins.lab, twins.lab.client_fleet.broker(MASTER)
    target = (broker.address, broker.ports["replication"])
    for host in (SLAVE, MASTER):
        lab.kill(host)
    with Relay(target) as relay:
        file = lab.directory / "hosts" / SLAVE / "activemq/current/conf/activemq.xml"
        text, named = file.read_text(), f"nio://{MASTER}:{target[1]}"
        assert text.count(named) == 1
        file.write_text(text.replace(named, f"nio://{target[0]}:{relay.address[1]}"))
        twins.controller.run()
        twins.live("send m")
        relay.reset()
        until(lambda: lab.state(SLAVE) == "active", PATIENCE, "the slave serves, too")
        assert lab.state(MASTER) == "active"
        twins.live("send m, send s")
        time.sleep(2)
        assert {lab.state(host) for host in (MASTER, SLAVE)} == {"active"}  # for good, though the network is well again
        with pytest.raises(ResyncRefusedError, match="activemq_resync_from"):
            twins.controller.run()

        twins._take("s", 20)
        copies = set(twins.taken)
        twins.controller.run(chosen=MASTER)
        held = twins.held()
    assert twins.sent == held | copies
    print(f"{len(twins.sent)} sent, {len(held & copies)} twice")
    assert len(held & copies) == 10  # what both held before the cut
