"""The broker's unit under a real systemd: how it starts, ends, comes back and refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.hosts.brokers import (
    MARKER,
    SHARE,
    STORE,
    UNIT,
    broker_report,
    is_waiting,
    journal_of,
    wait_for_pair,
    wait_until,
)
from tests.hosts.load import LATE
from tests.hosts.machines import Machine, MachinesError
from tests.hosts.playbooks import NODES, PASSWORD, Controller, checked_output
from tests.situations import in_every_situation
from tests.support.unit_properties import unit_properties
from tests.waiting import LateError

DISK_FULL_RUNS = int(os.environ.get("DISK_FULL_RUNS") or "1")
"""How often the disk of the store is full, one time after the other."""
EXPOSURE = 2.0
"""Of 10: what systemd-analyze may find the unit to be exposed to."""


@pytest.fixture
def share(installed_pair: Controller) -> Path:
    """The pair's share: a file system of its own, that can be filled without harm to anybody."""
    return installed_pair.rack.shared(SHARE)


@pytest.fixture
def controller(installed_pair: Controller) -> Controller:
    return installed_pair


@pytest.fixture
def pair(controller: Controller) -> tuple[Machine, Machine]:
    """The node that serves, and the one that stands by, whatever the test before did to them."""
    serving, other = controller.active_and_other_node()
    other.wait_until_reached()
    other.run("systemctl", "start", UNIT)
    wait_until(lambda: is_waiting(other), f"{other.name} stands by", serving, other)
    return serving, other


def test_systemd_finds_nothing_to_say_about_the_unit(pair: tuple[Machine, Machine]) -> None:
    for machine in pair:
        done = machine.attempt("systemd-analyze", "verify", f"/etc/systemd/system/{UNIT}")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_unit_is_hardly_exposed(pair: tuple[Machine, Machine]) -> None:
    threshold = f"--threshold={EXPOSURE * 10:.0f}"
    done = pair[0].attempt("systemd-analyze", "security", threshold, "--no-pager", UNIT)
    print(done.stdout[-300:])
    assert done.returncode == 0


PRESSURE = """
import socket, sys, time
clients = [socket.create_connection((sys.argv[1], 61613), 60) for _ in range(400)]
for client in clients:
    client.settimeout(60)
    client.sendall(b"CONNECT" + bytes([10, 10]) + b"x" * (256 << 10))
time.sleep(5)
print("held")
"""


@in_every_situation
def test_a_broker_lives_under_load_below_the_limit_of_its_memory(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    """Four hundred connections that each make it hold 256 KiB, and two thousand messages to keep."""
    active, _ = pair
    before = unit_properties(active, "MainPID", "NRestarts")
    inside = controller.rack.lan.inside(sys.executable, "-c", PRESSURE, active.address)
    with subprocess.Popen(inside, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as pressure:
        controller.exchange("leave", active.address, "2000")
        assert pressure.communicate(timeout=240)[0] == "held\n"
    controller.exchange("take", *NODES.values(), "2000")
    limits = unit_properties(active, "MemoryCurrent", "MemoryMax")
    print(limits)
    assert unit_properties(active, "MainPID", "NRestarts") == before
    assert int(limits["MemoryMax"]) > 0
    if limits["MemoryCurrent"].isdigit():
        assert int(limits["MemoryCurrent"]) < 0.8 * int(limits["MemoryMax"])


def test_only_the_node_that_serves_listens(pair: tuple[Machine, Machine]) -> None:
    script = "ss -Hltn | awk '{print $4}' | sed 's/.*://' | sort -un"
    for machine, ports in zip(pair, (["22", "1883", "61613", "61616"], ["22"]), strict=True):
        wait_until(
            lambda each=machine, wanted=ports: each.run("sh", "-c", script).split() == wanted,  # type: ignore[misc]
            f"{machine.name} listens on {ports} and nothing else",
            machine,
        )


def test_a_killed_broker_comes_back_as_the_standby_of_its_peer(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    active, _ = pair
    before = unit_properties(active, "MainPID"), int(unit_properties(active, "NRestarts")["NRestarts"])
    active.run("systemctl", "kill", "--signal=KILL", UNIT)
    # Its peer looks every second, and it comes after five: where that is not enough for a busy machine it serves again.
    found = controller.exchange("watch", "--timeout", "240", *NODES.values())
    print(f"{found['address']} serves after {found['seconds']} s")
    wait_until(
        lambda: int(unit_properties(active, "NRestarts")["NRestarts"]) > before[1], "systemd starts it again", active
    )
    wait_for_pair(pair)
    assert unit_properties(active, "MainPID") != before[0]
    assert int(unit_properties(active, "NRestarts")["NRestarts"]) == before[1] + 1


def test_a_stop_ends_with_143_and_counts_as_clean(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    active, standby = pair
    active.run("systemctl", "stop", UNIT)
    wait_until(
        lambda: unit_properties(active, "ActiveState")["ActiveState"] not in ("active", "deactivating"),
        "it stops",
        active,
    )
    assert unit_properties(active, "ActiveState", "Result", "ExecMainStatus") == {
        "ActiveState": "inactive",
        "Result": "success",
        "ExecMainStatus": "143",
    }
    assert controller.exchange("watch", "--timeout", "240", standby.address)["address"] == standby.address


def said(machine: Machine, text: str) -> int:
    """How often the broker's log says so."""
    counted = machine.attempt(
        "grep", "--count", "--fixed-strings", text, "/var/lib/activemq/activemq/data/activemq.log"
    )
    if counted.returncode not in (0, 1):
        raise MachinesError(f"{machine.name}: its log cannot be read: {counted.stderr}")
    return int(counted.stdout)


def test_master_that_lost_its_lock_releases_store_and_pair_recovers(
    controller: Controller, pair: tuple[Machine, Machine], share: Path
) -> None:
    active, _ = pair
    demoted = "no longer able to keep the exclusive lock"
    controller.exchange("leave", active.address, "20")
    before, ends = said(active, demoted), said(active, "is shutdown")
    # What a server of shares does that forgets its locks.
    (share / "orders-mq01/lock").unlink()
    wait_until(lambda: said(active, demoted) > before, "the master gives up without its lock", *pair)
    # Until then its ports are open, and it gives messages back.
    wait_until(lambda: said(active, "is shutdown") > ends, "the master has ended", *pair)
    # Either may serve now: 6.3 starts the demoted broker again in its process, at times before its peer looks. Both
    # may have had a lock on the file that is gone, so who serves may change once more.
    wait_for_pair(pair)
    controller.exchange("take", *NODES.values(), "20")
    wait_for_pair(pair)


@pytest.mark.timeout(1200 + 300 * DISK_FULL_RUNS)
def test_broker_with_full_disk_stops_and_resumes_without_loss(
    controller: Controller, pair: tuple[Machine, Machine], share: Path
) -> None:
    with controller.streaming(1200) as result:
        for number in range(DISK_FULL_RUNS):
            began = time.monotonic()
            fill_the_disk(controller, pair, share)
            print(f"full disk {number + 1}: stored again after {time.monotonic() - began:.1f} s")
    print(result)
    assert result["sent"] > 0
    assert result["missing"] == []


@in_every_situation
def test_what_a_full_disk_refuses_is_never_reported_as_delivered_by_agents(
    controller: Controller, pair: tuple[Machine, Machine], share: Path, tmp_path: Path
) -> None:
    """Of two real agents under load: what was acknowledged was handled, and what was accepted too, in the end."""

    def load(act: str, *words: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "tests.hosts.load", act, str(tmp_path / "load"), *words]
        done = subprocess.run(
            command, cwd=controller.repository, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if done.returncode == LATE:
            raise LateError("\n".join([done.stderr, *map(broker_report, pair)]))
        assert done.returncode == 0, done.stderr
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    login = ["--username", "probe", "--password", PASSWORD]
    try:
        load("start", "--rack", str(controller.rack.state), *login, f"orders-mq01={','.join(NODES.values())}")
        load("begin", "full-disk")
        fill_the_disk(controller, pair, share)
        account = load("settle")["orders-mq01"]
    finally:
        load("stop")
    print(account)
    assert account["handled"] == account["accepted"] > 0
    assert account["lost"] == account["duplicate"] == 0


def fill_the_disk(controller: Controller, pair: tuple[Machine, Machine], share: Path) -> None:
    """Until a broker has ended of it; then there is room again, and somebody serves."""

    def endings() -> list[int]:
        return [said(machine, "is shutting down") for machine in pair]

    before = endings()
    try:
        # what is still buffered is written when the file is closed, and meets the full disk too
        with suppress(OSError), (share / "ballast").open("wb") as ballast:
            while True:
                ballast.write(bytes(1 << 20))
        wait_until(lambda: endings() != before, "the full disk ends a broker", *pair)
    finally:
        (share / "ballast").unlink(missing_ok=True)
    make_it_store(controller, pair)


def make_it_store(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    """Until the node that serves stores what it is sent: it looks every minute whether there is room again."""
    for _ in range(5):
        serving = controller.exchange("watch", "--timeout", "240", *NODES.values())["address"]
        try:
            controller.exchange("--patience", "90", "leave", serving, "1")
        except MachinesError as error:
            print(f"{serving} stores nothing ({error}), or another has taken over")
        else:
            controller.exchange("take", *NODES.values(), "1")
            return
    raise LateError("\n".join(["no broker stores anything after its disk was full", *map(broker_report, pair)]))


def test_without_the_marker_the_start_is_refused_in_one_clear_line(pair: tuple[Machine, Machine]) -> None:
    _, standby = pair
    standby.run("systemctl", "stop", UNIT)
    standby.run("mv", MARKER, f"{STORE}/aside")
    try:
        refused = standby.attempt("systemctl", "start", UNIT)
        wait_until(lambda: refusals(standby), "it says why it does not start", standby)
    finally:
        standby.run("mv", f"{STORE}/aside", MARKER)
        standby.run("systemctl", "stop", UNIT)
    assert refused.returncode not in (0, 255)
    assert "java" not in refusals(standby)[-1]


def refusals(machine: Machine) -> list[str]:
    """What was said of each start that was refused because the store is not the pair's."""
    starts = journal_of(machine).split("Starting ")
    return [start for start in starts if f"{STORE} is not the store of pair orders-mq01" in start]


def test_a_share_that_is_not_mounted_never_makes_a_second_master(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    active, standby = pair
    unmount_share(standby)
    try:
        assert standby.attempt("systemctl", "start", UNIT).returncode not in (0, 255)
        assert standby.run("find", "/srv/activemq") == "/srv/activemq\n"
        with pytest.raises(MachinesError, match="refused"):
            controller.exchange("round", standby.address)
    finally:
        standby.run("systemctl", "stop", UNIT)
        standby.power_off()
        standby.power_on()
        standby.wait_until_ready()
    assert controller.exchange("watch", active.address)["address"] == active.address


def unmount_share(machine: Machine) -> None:
    machine.run("systemctl", "stop", UNIT)
    # Who looked at it a moment ago may have it open.
    wait_until(lambda: machine.run("umount", "/srv/activemq") == "", "the share is unmounted", machine)


@in_every_situation
def test_site_does_not_go_on_without_the_share(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    active, standby = pair
    unmount_share(standby)
    try:
        told = checked_output(controller.run_playbook("site"), 2)
        assert f"{standby.name}: directory {STORE} is not the store of host {active.name}" in told
        assert standby.run("find", "/srv/activemq") == "/srv/activemq\n"
        assert unit_properties(standby, "ActiveState") == {"ActiveState": "inactive"}
    finally:
        standby.power_off()
        standby.power_on()
        standby.wait_until_ready()
    assert controller.exchange("watch", active.address)["address"] == active.address


def test_the_store_belongs_to_one_number_on_both_nodes(pair: tuple[Machine, Machine], controller: Controller) -> None:
    for machine in pair:
        assert machine.run("id", "--user", "activemq") == "977\n"
        assert machine.run("id", "--group", "activemq") == "977\n"
    (journal, *_) = sorted((controller.rack.shared("/srv/activemq") / "orders-mq01").glob("db-*.log"))
    assert (journal.stat().st_uid, journal.stat().st_gid) == (977, 977)


def test_a_pair_that_lost_its_power_comes_back_by_itself(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    controller.exchange("leave", pair[0].address, "20")
    for machine in pair:
        machine.power_off()
    for machine in pair:
        machine.power_on()
    controller.exchange("watch", "--timeout", "240", *NODES.values())
    controller.exchange("take", *NODES.values(), "20")
    for machine in pair:
        machine.wait_until_ready()


@in_every_situation
def test_a_full_second_run_of_site_changes_nothing_and_restarts_nothing(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    pids = [unit_properties(machine, "MainPID") for machine in pair]
    told = checked_output(controller.run_playbook("site"))
    assert told.count("changed=0") == told.count("changed=")
    assert [unit_properties(machine, "MainPID") for machine in pair] == pids
