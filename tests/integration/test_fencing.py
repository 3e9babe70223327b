"""A node that freezes, is replaced by its peer, and thaws: with a guard, no message of the store is lost."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from activemq_fleet.addresses import Address
from activemq_fleet.errors import LabError
from activemq_fleet.lab import processes
from activemq_fleet.lab.freeze import freeze_and_resume_active_broker
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.stomp import StompPublisher
from activemq_fleet.releases import Release
from tests.integration.conftest import LabOf
from tests.integration.labs import pair, processes_of, write_inventory
from tests.integration.waiting import PATIENCE, until
from tests.situations import further, in_every_situation
from tests.stomp_clients import stomp_drain
from tests.support.command_blocks import read_page, replace_values, run_page, select_commands
from tests.support.documentation_pages import REPOSITORY

A, B = pair("orders")
PAIR = "orders-mq01"
NETWORK = {"network_username": "network", "network_password": "s3cret-network"}


@dataclass
class Sender:
    """A client that publishes numbered messages in order until ``stopped`` is set."""

    lab: Lab
    name: str
    addresses: Sequence[Address]
    answer_timeout: float
    patience: float
    pause: float = 0.0
    accepted: list[str] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)

    @property
    def queue(self) -> str:
        return f"/queue/{self.name}"

    def run(self) -> None:
        client = StompPublisher(self.addresses, self.lab.credentials(PAIR), answer_timeout=self.answer_timeout)
        with client, suppress(LabError):
            while not self.stopped.wait(self.pause):
                body = json.dumps({"eventId": f"{self.name}-{len(self.accepted)}"})
                client.publish_until_confirmed(self.queue, body, timeout=self.patience)
                self.accepted.append(body)


@contextmanager
def start_senders(lab: Lab, frozen: str) -> Iterator[list[Sender]]:
    """Start a client that fails over, and two that stay connected to the freezing node and send without a pause."""
    pair_addresses, frozen_addresses = lab.addresses(PAIR, "stomp"), lab.addresses(frozen, "stomp")
    senders = [
        Sender(lab, "roaming", pair_addresses, 3.0, PATIENCE, pause=0.01),
        *(Sender(lab, f"staying{n}", frozen_addresses, 30.0, 30.0) for n in range(2)),
    ]
    with ExitStack() as stack:
        for sender in senders:
            thread = threading.Thread(target=sender.run, name=sender.name)
            thread.start()
            stack.callback(thread.join, 40)
            stack.callback(sender.stopped.set)
        until(
            lambda: all(len(sender.accepted) > 100 for sender in senders),
            PATIENCE,
            "every client has sent 100 messages",
        )
        yield senders


def events_missing_after_restart(lab: Lab, senders: Sequence[Sender]) -> dict[str, set[str]]:
    """Kill both nodes, start the pair again, and return the missing events of each client."""
    for host in (A, B):
        if lab.is_alive(host):
            lab.kill(host)
    lab.up()
    active = lab.wait_active(PAIR)
    missing = {}
    for sender in senders:
        accepted = set(sender.accepted)
        received = stomp_drain(
            lab.addresses(active, "stomp"), sender.queue, lab.credentials(PAIR), expected=len(accepted), timeout=60
        )
        missing[sender.name] = event_ids(accepted - set(received))
    return missing


def event_ids(bodies: Iterable[str]) -> set[str]:
    return {json.loads(body)["eventId"] for body in bodies}


def events_in_old_generations(store: str) -> set[str]:
    """Return the events of the messages that only old generations contain, as the command line reports them."""
    return {row["event"] for row in json.loads(run_activemq_fleet("store", "behind", store, "--format", "json"))}


@pytest.mark.parametrize("release", ["6.3.1", *further("5.18.3", "5.11.4", "5.8.0", "5.5.1")])
def test_frozen_node_that_thaws_after_takeover_loses_nothing_and_takes_over_again(
    tmp_path: Path, lab_of: LabOf, release: str
) -> None:
    lab = lab_of(write_inventory(tmp_path / "inventory", (A, B), release=release, fence="guard", **NETWORK))
    lab.up()
    running = processes_of(lab.directory)
    lab.up()
    assert processes_of(lab.directory) == running, "a second `lab up` restarted guards or brokers"
    frozen = lab.wait_active(PAIR)
    with start_senders(lab, frozen) as senders:
        freeze_result = freeze_and_resume_active_broker(lab, frozen, steal_lock=True, thaw_after=3)
        assert freeze_result.served_after is not None
        assert freeze_result.ended_after is not None
        assert not freeze_result.two_masters
        lab.start(frozen)
        lab.kill(freeze_result.successor)
        assert lab.wait_active(PAIR) == frozen
        roaming, count = senders[0], len(senders[0].accepted)
        until(lambda: len(roaming.accepted) > count + 20, PATIENCE, "the pair accepts messages again")
    store = lab.fleet.broker(frozen).shared_store_directory
    assert store
    missing = events_missing_after_restart(lab, senders)
    assert missing.pop(roaming.name) == set(), "a message of the client that fails over is missing"
    # The thawed broker may have acknowledged messages of the other clients until its guard killed it.
    behind = set().union(*missing.values())
    until(
        lambda: behind <= events_in_old_generations(store),
        PATIENCE,
        f"the command line names every missing message: {behind}",
    )


@in_every_situation
@pytest.mark.parametrize("release", ["6.3.1", *further("5.18.3", "5.11.4", "5.5.1")])
def test_messages_after_fence_point_are_listed_and_can_be_replayed(tmp_path: Path, lab_of: LabOf, release: str) -> None:
    """The broker thaws long before its guard, and does not check its lock during this time."""
    inventory = write_inventory(tmp_path / "inventory", (A, B), release=release, fence="guard", **NETWORK)
    if Release.of(release).has_lockers:
        (inventory.parent / "host_vars").mkdir()
        (inventory.parent / f"host_vars/{A}.yml").write_text("activemq_lock_keepalive_interval: 600000")
    lab = lab_of(inventory.parent)
    lab.up()
    frozen = lab.wait_active(PAIR)
    assert frozen == A
    store = lab.fleet.broker(frozen).shared_store_directory
    assert store
    guard = next(process for process in map(psutil.Process, processes_of(lab.directory)) if is_guard(process, frozen))
    broker = processes.guarded_broker_process(guard)
    assert broker
    with start_senders(lab, frozen) as senders:
        lab.pause(frozen)
        replace_lock(store)
        lab.wait_active(PAIR)
        counts = [len(sender.accepted) for sender in senders[1:]]
        broker.resume()
        until(
            lambda: sum(len(sender.accepted) for sender in senders[1:]) > sum(counts) + 150 + len(counts),
            PATIENCE,
            "150 messages and the first of each client are acknowledged after the fence point",
        )
        lab.resume(frozen)
        until(lambda: not lab.is_alive(frozen), PATIENCE, "the guard kills the thawed broker")
    lab.start(frozen)
    until(
        lambda: (Path(store) / "fence/behind/1").exists(), PATIENCE, "the list of messages after the fence point exists"
    )
    named = events_in_old_generations(store)
    # The first message of each client may have been stored before the freeze, and acknowledged after it.
    late = [body for sender, number in zip(senders[1:], counts, strict=True) for body in sender.accepted[number + 1 :]]
    assert len(late) > 150
    assert event_ids(late) <= named
    credentials = lab.credentials(PAIR)
    assert credentials
    (tmp_path / "replayer.password").write_text(credentials.password)
    values = {"/srv/activemq/orders-mq01": store, "replayer ": f"{credentials.username} "}
    for host in (A, B):
        ((address, port),) = lab.addresses(host, "openwire")
        values[f"{host.partition('.')[0]}:61616"] = f"{address}:{port}"
    listed = json.loads(run_activemq_fleet("store", "behind", store, "--format", "json"))
    message = listed[0]
    values |= {
        "queue://orders": message["destination"],
        "ID:client-1:1:1:1:57": message["message"],
        "agent-7:6f0c…:57": message["event"],
        "N messages": f"{len(listed)} messages",
    }
    page = select_commands(read_page(REPOSITORY / "docs/fencing.md"), "activemq-fleet store ")
    run_page(replace_values(page, values), tmp_path)
    assert not list((Path(store) / "generations").glob("1-*"))
    assert events_missing_after_restart(lab, senders) == {sender.name: set() for sender in senders}


def is_guard(process: psutil.Process, host: str) -> bool:
    words = process.cmdline()
    return "activemq_fleet.node.fence.guard_cli" in words and any(f"/{host}/" in word for word in words)


def replace_lock(store: str) -> None:
    lock = Path(store) / "fence/lock"
    lock.unlink()
    lock.touch()


def run_activemq_fleet(*words: str) -> str:
    """Run the command line; return its output."""
    command = [sys.executable, "-m", "activemq_fleet", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL).stdout
