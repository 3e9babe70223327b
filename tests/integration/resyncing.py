"""The steps of the playbook ``resync`` on a pure pair in a lab, without Ansible.

The controller calls the functions of the modules of the playbook on the directories of the lab, and gets each next step
from the same library. So a test can interrupt a run after any of its acts.
"""

from __future__ import annotations

import importlib
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from activemq_fleet.lab.lab import Lab
from activemq_fleet.node.kahadb import store_copy
from activemq_fleet.node.kahadb.content_hashes import compute_message_and_subscription_hashes
from activemq_fleet.node.kahadb.store_files import allocated_bytes
from activemq_fleet.node.state.broker_state import gather_broker_state
from activemq_fleet.node.state.evidence import BrokerEvidence
from activemq_fleet.operations.resync import PurePairNode, ResyncStep, next_resync_step
from activemq_fleet.operations.resync_source_choice import PurePairNodeStore

_ROUNDS = 200
_ZONE = re.compile(r"-Duser\.timezone=GMT\+(\d\d:\d\d)")
_PATIENCE = 180.0
"""Seconds that a run may wait between two acts: a JVM on a busy machine may take a minute to start."""


class Cut(Exception):
    """The controller was killed after an act."""


@contextmanager
def _time_zone(java_options: Sequence[str]) -> Iterator[None]:
    """Set the time zone of this process to that of the broker's Java, as on a host whose clock is ahead."""
    zone = next((match[1] for option in java_options if (match := _ZONE.fullmatch(option))), None)
    time_zone_before = os.environ.get("TZ")
    if zone:
        os.environ["TZ"] = f"AHEAD-{zone}"  # in POSIX, the sign is inverted
        time.tzset()
    try:
        yield
    finally:
        os.environ.pop("TZ", None) if time_zone_before is None else os.environ.update(TZ=time_zone_before)
        time.tzset()


class Controller:
    """Successive runs of resync on one pair; ``cut`` ends a run after the act with that name."""

    def __init__(self, lab: Lab, master: str, slave: str) -> None:
        self.lab, self.master, self.slave = lab, master, slave
        self.messages: list[str] = []
        self.acts: list[str] = []
        self.winner = ""
        self.backup = ""

    def base(self, host: str) -> str:
        return str(Path(self.lab.directory) / "hosts" / host / "activemq")

    def store(self, host: str) -> str:
        return self.lab.fleet.broker(host).store_directory

    def contents(self, directory: str) -> dict[str, Any]:
        """Return the content hashes of a store or of a backup."""
        hashes: dict[str, Any] = compute_message_and_subscription_hashes(directory)
        return hashes

    def inspect_node(self, host: str, peer: str, role: str) -> PurePairNode:
        module = importlib.import_module("ansible_collections.activemq.fleet.plugins.modules.store_info")
        with _time_zone(self.lab.fleet.broker(host).settings.java_options):
            broker = gather_broker_state(self.base(host), None)
        store = module.gather_store_and_run_facts(self.base(host), self.store(host), read_journal=True)
        needed = allocated_bytes(self.store(peer))
        return PurePairNode.pure_pair_node_from_store(
            PurePairNodeStore.node_store_from_store_info(host, role, store),
            BrokerEvidence.from_broker_info_result(broker),
            store,
            needed,
        )

    def step(self, chosen: str = "") -> ResyncStep:
        """Return the next step, from the current state of both nodes."""
        nodes = (
            self.inspect_node(self.master, self.slave, "master"),
            self.inspect_node(self.slave, self.master, "slave"),
        )
        return next_resync_step({"pair": nodes}, chosen=chosen)

    def run(self, chosen: str = "", cut: str = "") -> ResyncStep:
        """Run all steps until nothing is left to do; return the last step.

        Raise Cut after the act ``cut``, and ResyncRefusedError from the library.
        """
        self.acts, rounds, since = [], 0, time.monotonic()
        while rounds < _ROUNDS and time.monotonic() - since < _PATIENCE:
            step = self.step(chosen)
            self.messages.append(step.say)
            if step.act == "done":
                return step
            if step.act == "wait":
                time.sleep(0.3)
                continue
            rounds += 1
            for act in self._act(step):
                self.acts.append(act)
                if act == cut:
                    raise Cut
            since = time.monotonic()
        raise AssertionError(f"the resync does not end; its last messages: {self.messages[-5:]}")

    def _act(self, step: ResyncStep) -> Iterator[str]:
        if step.act == "stop":
            self.lab.kill(step.hosts[0])
            yield f"stop {self._node(step)}"
        elif step.act == "start":
            self.lab.start(step.hosts[0])
            yield f"start {self._node(step)}"
        elif step.act == "finish":
            store_copy.finish_replacement_and_return_backup(self.store(step.hosts[0]))
            yield "finish"
        elif step.act == "copy":
            self.winner = step.winner
            yield from self._copy(self.store(step.hosts[0]), self.store(step.hosts[1]), step.winner)

    def _node(self, step: ResyncStep) -> str:
        return "m" if step.hosts[0] == self.master else "s"

    def _copy(self, source: str, target: str, winner: str) -> Iterator[str]:
        files = store_copy.store_manifest(source)
        yield "manifest"
        missing = store_copy.prepare_staging_and_list_missing_files(target, files)
        yield "staged"
        pieces = 0
        for name, offset in missing.items():
            position = offset
            while position < files[name]["size"]:
                packed_chunk = store_copy.read_packed_chunk(source, name, position, files[name]["size"])
                position = store_copy.append_compressed_chunk(target, files, name, position, packed_chunk)
                pieces += 1
                yield f"piece {pieces}"
        self.backup = store_copy.replace_store_by_copy(target, files, winner)
        assert store_copy.store_manifest(target) == store_copy.store_manifest(source)
        yield "switched"

    def shift(self, host: str, seconds: float) -> None:
        """Shift the times of the files of a host by some seconds, as under a wrong clock."""
        for directory, _, names in os.walk(os.path.dirname(self.store(host))):
            for name in names:
                path = os.path.join(directory, name)
                moment = os.stat(path).st_mtime + seconds
                os.utime(path, (moment, moment))
