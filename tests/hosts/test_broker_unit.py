"""The unit of the broker on systemd hosts: starts, stops, recoveries and refused starts."""

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
    BASE,
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
"""How often the disk of the store becomes full in sequence."""
EXPOSURE = 2.0
"""The highest exposure of the unit that systemd-analyze may report, of 10."""


@pytest.fixture
def share(installed_pair: Controller) -> Path:
    """Return the share of the pair: a separate file system that a test may fill."""
    return installed_pair.rack.shared(SHARE)


@pytest.fixture
def controller(installed_pair: Controller) -> Controller:
    return installed_pair


@pytest.fixture
def pair(controller: Controller) -> tuple[Machine, Machine]:
    """Start both nodes; return the active and the standby node."""
    active_node, other_node = controller.active_and_other_node()
    other_node.wait_until_reached()
    other_node.run("systemctl", "start", UNIT)
    wait_until(lambda: is_waiting(other_node), f"{other_node.name} is standby", active_node, other_node)
    return active_node, other_node


def test_systemd_analyze_reports_nothing_about_broker_unit(pair: tuple[Machine, Machine]) -> None:
    for machine in pair:
        verified = machine.attempt("systemd-analyze", "verify", f"/etc/systemd/system/{UNIT}")
        assert verified.returncode == 0, verified.stderr
        assert verified.stdout == ""
        assert verified.stderr == ""


def test_systemd_analyze_reports_low_exposure_of_broker_unit(pair: tuple[Machine, Machine]) -> None:
    threshold = f"--threshold={EXPOSURE * 10:.0f}"
    rated = pair[0].attempt("systemd-analyze", "security", threshold, "--no-pager", UNIT)
    print(rated.stdout[-300:])
    assert rated.returncode == 0


CLIENT_SCRIPT = """
import socket, sys, time
clients = [socket.create_connection((sys.argv[1], 61613), 60) for _ in range(400)]
for client in clients:
    client.settimeout(60)
    client.sendall(b"CONNECT" + bytes([10, 10]) + b"x" * (256 << 10))
time.sleep(5)
print("held")
"""


@in_every_situation
def test_broker_under_load_stays_below_its_memory_limit(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    """The load is 400 connections that each send 256 KiB, and 2000 stored messages."""
    active, _ = pair
    process_before = unit_properties(active, "MainPID", "NRestarts")
    command = controller.rack.lan.inside(sys.executable, "-c", CLIENT_SCRIPT, active.address)
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as clients:
        controller.exchange("leave", active.address, "2000")
        assert clients.communicate(timeout=240)[0] == "held\n"
    controller.exchange("take", *NODES.values(), "2000")
    limits = unit_properties(active, "MemoryCurrent", "MemoryMax")
    print(limits)
    assert unit_properties(active, "MainPID", "NRestarts") == process_before
    assert int(limits["MemoryMax"]) > 0
    if limits["MemoryCurrent"].isdigit():
        assert int(limits["MemoryCurrent"]) < 0.8 * int(limits["MemoryMax"])


def test_only_active_node_listens_on_broker_ports(pair: tuple[Machine, Machine]) -> None:
    script = "ss -Hltn | awk '{print $4}' | sed 's/.*://' | sort -un"
    for machine, ports in zip(pair, (["22", "1883", "61613", "61616"], ["22"]), strict=True):
        wait_until(
            lambda machine=machine, ports=ports: machine.run("sh", "-c", script).split() == ports,  # type: ignore[misc]
            f"{machine.name} listens on {ports} and no other port",
            machine,
        )


def test_killed_broker_restarts_as_standby(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    active, _ = pair
    process_and_restarts = unit_properties(active, "MainPID"), int(unit_properties(active, "NRestarts")["NRestarts"])
    active.run("systemctl", "kill", "--signal=KILL", UNIT)
    # The peer checks the lock every second, and the restart follows after 5 s. On a busy machine, the killed broker may
    # become active again.
    report = controller.exchange("watch", "--timeout", "240", *NODES.values())
    print(f"{report['address']} is active after {report['seconds']} s")
    wait_until(
        lambda: int(unit_properties(active, "NRestarts")["NRestarts"]) > process_and_restarts[1],
        "systemd restarts the broker",
        active,
    )
    wait_for_pair(pair)
    assert unit_properties(active, "MainPID") != process_and_restarts[0]
    assert int(unit_properties(active, "NRestarts")["NRestarts"]) == process_and_restarts[1] + 1


def test_stop_of_broker_unit_ends_with_exit_status_143_and_result_success(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    active, standby = pair
    active.run("systemctl", "stop", UNIT)
    wait_until(
        lambda: unit_properties(active, "ActiveState")["ActiveState"] not in ("active", "deactivating"),
        "the broker stops",
        active,
    )
    assert unit_properties(active, "ActiveState", "Result", "ExecMainStatus") == {
        "ActiveState": "inactive",
        "Result": "success",
        "ExecMainStatus": "143",
    }
    assert controller.exchange("watch", "--timeout", "240", standby.address)["address"] == standby.address


def log_count(machine: Machine, text: str) -> int:
    """Return the number of lines with a text in the log of the broker."""
    counted = machine.attempt(
        "grep", "--count", "--fixed-strings", text, "/var/lib/activemq/activemq/data/activemq.log"
    )
    if counted.returncode not in (0, 1):
        raise MachinesError(f"{machine.name}: grep cannot read the log of the broker: {counted.stderr}")
    return int(counted.stdout)


def test_master_that_lost_its_lock_releases_store_and_pair_recovers(
    controller: Controller, pair: tuple[Machine, Machine], share: Path
) -> None:
    active, _ = pair
    demotion = "no longer able to keep the exclusive lock"
    controller.exchange("leave", active.address, "20")
    demotions, shutdowns = log_count(active, demotion), log_count(active, "is shutdown")
    # A file server that loses its locks has the same effect.
    (share / "orders-mq01/lock").unlink()
    wait_until(lambda: log_count(active, demotion) > demotions, "the master stops without its lock", *pair)
    # Until then its ports are open, and it delivers messages.
    wait_until(lambda: log_count(active, "is shutdown") > shutdowns, "the master has stopped", *pair)
    # Either node may be active now: 6.3 restarts the demoted broker in its process, sometimes before its peer checks
    # the lock. Both may have a lock on the deleted file, so that the active node may change again.
    wait_for_pair(pair)
    controller.exchange("take", *NODES.values(), "20")
    wait_for_pair(pair)


@pytest.mark.timeout(1200 + 300 * DISK_FULL_RUNS)
def test_broker_with_full_disk_stops_and_resumes_without_loss(
    controller: Controller, pair: tuple[Machine, Machine], share: Path
) -> None:
    with controller.streaming(1200) as outcome:
        for number in range(DISK_FULL_RUNS):
            began = time.monotonic()
            fill_disk(controller, pair, share)
            print(f"full disk {number + 1}: messages are stored again after {time.monotonic() - began:.1f} s")
    print(outcome)
    assert outcome["sent"] > 0
    assert outcome["missing"] == []


@in_every_situation
def test_agents_account_for_every_event_when_disk_is_full(
    controller: Controller, pair: tuple[Machine, Machine], share: Path, tmp_path: Path
) -> None:
    """Two real agents under load: every accepted event is handled once, and none is lost."""

    def load(command: str, *arguments: str) -> dict[str, Any]:
        program = [sys.executable, "-m", "tests.hosts.load", command, str(tmp_path / "load"), *arguments]
        completed = subprocess.run(
            program, cwd=controller.repository, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if completed.returncode == LATE:
            raise LateError("\n".join([completed.stderr, *map(broker_report, pair)]))
        assert completed.returncode == 0, completed.stderr
        report: dict[str, Any] = json.loads(completed.stdout)
        return report

    login = ["--username", "probe", "--password", PASSWORD]
    try:
        load("start", "--rack", str(controller.rack.state), *login, f"orders-mq01={','.join(NODES.values())}")
        load("begin", "full-disk")
        fill_disk(controller, pair, share)
        account = load("settle")["orders-mq01"]
    finally:
        load("stop")
    print(account)
    assert account["handled"] == account["accepted"] > 0
    assert account["lost"] == account["duplicate"] == 0


def fill_disk(controller: Controller, pair: tuple[Machine, Machine], share: Path) -> None:
    """Fill the disk until a broker stops; then free it, and wait until the active node stores messages."""

    def shutdown_counts() -> list[int]:
        return [log_count(machine, "is shutting down") for machine in pair]

    shutdowns_before = shutdown_counts()
    try:
        # closing the file writes the buffer, and fails with a full disk, too
        with suppress(OSError), (share / "ballast").open("wb") as ballast:
            while True:
                ballast.write(bytes(1 << 20))
        wait_until(lambda: shutdown_counts() != shutdowns_before, "a broker stops because the disk is full", *pair)
    finally:
        (share / "ballast").unlink(missing_ok=True)
    wait_until_stored(controller, pair)


def wait_until_stored(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    """Wait until the active node stores messages: it checks the free space every minute."""
    for _ in range(5):
        address = controller.exchange("watch", "--timeout", "240", *NODES.values())["address"]
        try:
            controller.exchange("--patience", "90", "leave", address, "1")
        except MachinesError as error:
            print(f"{address} does not store messages ({error}), or the other node has become active")
        else:
            controller.exchange("take", *NODES.values(), "1")
            return
    raise LateError("\n".join(["no broker stores messages after the disk was full", *map(broker_report, pair)]))


def test_broker_unit_refuses_start_without_store_marker(pair: tuple[Machine, Machine]) -> None:
    _, standby = pair
    standby.run("systemctl", "stop", UNIT)
    standby.run("mv", MARKER, f"{STORE}/aside")
    try:
        start_attempt = standby.attempt("systemctl", "start", UNIT)
        wait_until(lambda: refusals(standby), "the journal contains the reason of the refusal", standby)
    finally:
        standby.run("mv", f"{STORE}/aside", MARKER)
        standby.run("systemctl", "stop", UNIT)
    assert start_attempt.returncode not in (0, 255)
    assert "java" not in refusals(standby)[-1]


def refusals(machine: Machine) -> list[str]:
    """Return the journal of each start that was refused because the store does not belong to the pair."""
    starts = journal_of(machine).split("Starting ")
    return [start for start in starts if f"{STORE} is not the store of pair orders-mq01" in start]


def test_node_without_mounted_share_does_not_become_master(
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
    # A process may have the share open for a moment.
    wait_until(lambda: machine.run("umount", "/srv/activemq") == "", "the share is unmounted", machine)


@in_every_situation
def test_site_refuses_node_without_mounted_share(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    active, standby = pair
    unmount_share(standby)
    try:
        output = checked_output(controller.run_playbook("site"), 2)
        assert f"{standby.name}: directory {STORE} is not the store of host {active.name}" in output
        assert standby.run("find", "/srv/activemq") == "/srv/activemq\n"
        assert unit_properties(standby, "ActiveState") == {"ActiveState": "inactive"}
    finally:
        standby.power_off()
        standby.power_on()
        standby.wait_until_ready()
    assert controller.exchange("watch", active.address)["address"] == active.address


def test_store_has_same_uid_and_gid_on_both_nodes(pair: tuple[Machine, Machine], controller: Controller) -> None:
    for machine in pair:
        assert machine.run("id", "--user", "activemq") == "977\n"
        assert machine.run("id", "--group", "activemq") == "977\n"
    (journal, *_) = sorted((controller.rack.shared("/srv/activemq") / "orders-mq01").glob("db-*.log"))
    assert journal.stat().st_uid == 977
    assert journal.stat().st_gid == 977


def test_pair_recovers_automatically_after_power_loss(controller: Controller, pair: tuple[Machine, Machine]) -> None:
    controller.exchange("leave", pair[0].address, "20")
    for machine in pair:
        machine.power_off()
    for machine in pair:
        machine.power_on()
    controller.exchange("watch", "--timeout", "240", *NODES.values())
    controller.exchange("take", *NODES.values(), "20")
    for machine in pair:
        machine.wait_until_ready()


WATCHDOG_UNIT = "activemq-watchdog.service"
LINK_UNITS = f"""cd /etc/systemd/system
for unit in {UNIT} {WATCHDOG_UNIT}; do
    systemctl disable $unit
    ln -sf {BASE}/current/systemd/$unit $unit
    systemctl daemon-reload
    systemctl enable $unit
done"""
"""Links the units to the configuration, as releases before the copies of units installed them."""
MOUNT_BASE = f"""set -e
systemctl stop {WATCHDOG_UNIT} {UNIT}
mv /var/lib/activemq /data
mkdir /var/lib/activemq
cat > /etc/systemd/system/var-lib-activemq.mount <<MOUNT
[Unit]
Before=local-fs.target
[Mount]
What=/data
Where=/var/lib/activemq
Type=none
Options=bind
[Install]
WantedBy=local-fs.target
MOUNT
systemctl daemon-reload
systemctl enable --now var-lib-activemq.mount
sync"""
UNMOUNT_BASE = f"""set -e
systemctl stop {WATCHDOG_UNIT} {UNIT}
systemctl disable --now var-lib-activemq.mount
rm /etc/systemd/system/var-lib-activemq.mount
rmdir /var/lib/activemq
mv /data /var/lib/activemq
systemctl daemon-reload
systemctl start {UNIT} {WATCHDOG_UNIT}"""


def test_site_replaces_linked_units_by_copies_without_restart(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    pids = [unit_properties(machine, "MainPID") for machine in pair]
    for machine in pair:
        machine.run("sh", "-c", LINK_UNITS)
    checked_output(controller.run_playbook("site"))
    for machine in pair:
        for unit in (UNIT, WATCHDOG_UNIT):
            path = f"/etc/systemd/system/{unit}"
            assert machine.run("stat", "--format=%F %a %U", path) == "regular file 644 root\n"
            assert machine.run("cat", path) == machine.run("cat", f"{BASE}/current/systemd/{unit}")
            assert unit_properties(machine, "UnitFileState", "NeedDaemonReload", unit=unit) == {
                "UnitFileState": "enabled",
                "NeedDaemonReload": "no",
            }
    assert [unit_properties(machine, "MainPID") for machine in pair] == pids


def test_broker_starts_at_boot_if_its_base_is_mounted_after_start_of_systemd(pair: tuple[Machine, Machine]) -> None:
    _, standby = pair
    standby.run("sh", "-c", MOUNT_BASE)
    try:
        standby.power_off()
        standby.power_on()
        standby.wait_until_ready()
        wait_until(lambda: is_waiting(standby), f"{standby.name} is standby after the boot", standby)
        assert unit_properties(standby, "ActiveState", unit=WATCHDOG_UNIT) == {"ActiveState": "active"}
    finally:
        standby.run("sh", "-c", UNMOUNT_BASE)
    wait_for_pair(pair)


@in_every_situation
def test_second_run_of_site_does_not_change_or_restart_brokers(
    controller: Controller, pair: tuple[Machine, Machine]
) -> None:
    pids = [unit_properties(machine, "MainPID") for machine in pair]
    output = checked_output(controller.run_playbook("site"))
    assert output.count("changed=0") == output.count("changed=")
    assert [unit_properties(machine, "MainPID") for machine in pair] == pids
