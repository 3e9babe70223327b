"""Tests of the machines that the other tests of hosts use."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.hosts.machines import Machine, MachinesError, Rack, UnsupportedError, kernel
from tests.hosts.machines.cgroups import find_hierarchies
from tests.situations import in_every_situation
from tests.waiting import PATIENCE

ADDRESSES = {"one.example.com": "10.77.0.11", "two.example.com": "10.77.0.12"}


@pytest.fixture(scope="module")
def pair(rack: Rack) -> tuple[Machine, Machine]:
    rack.up(ADDRESSES, shares=["/srv/shared"], owner=os.getpid())
    return rack["one.example.com"], rack["two.example.com"]


def reaches(machine: Machine, target: str, *, within: float = 0) -> bool:
    """Return whether ``machine`` gets a response from the sshd of ``target``.

    By default there is one attempt of two seconds. ``within`` repeats the attempt for that many seconds: use it where a
    response is expected.
    """
    script = "import socket, sys; s = socket.create_connection((sys.argv[1], 22), 2)"
    script += "; s.settimeout(2); s.recv(4)"
    deadline = time.monotonic() + within
    while machine.attempt("python3", "-c", script, target).returncode:
        if time.monotonic() >= deadline:
            return False
    return True


def test_machines_reach_each_other_by_full_and_short_name(pair: tuple[Machine, Machine]) -> None:
    assert reaches(pair[0], "two.example.com", within=PATIENCE)
    assert reaches(pair[0], "two", within=PATIENCE)


def test_machines_see_same_files_in_shared_directory(pair: tuple[Machine, Machine]) -> None:
    pair[0].run("touch", "/srv/shared/seen")
    assert pair[1].run("ls", "/srv/shared") == "seen\n"


@in_every_situation
def test_powered_off_machine_does_not_respond_and_keeps_its_disk(pair: tuple[Machine, Machine]) -> None:
    first, second = pair
    second.run("sh", "-c", "echo kept > /root/note; sync")
    second.power_off()
    assert not second.is_running()
    assert not reaches(first, "two")
    second.power_on()
    second.wait_until_ready()
    assert second.run("cat", "/root/note") == "kept\n"
    assert reaches(first, "two", within=PATIENCE)


def test_machine_starts_after_repeated_power_cycles(pair: tuple[Machine, Machine]) -> None:
    _, second = pair
    for _ in range(5):
        second.power_off()
        second.power_on()
    second.wait_until_ready()


def test_systemd_journal_is_readable_while_test_machine_is_off(pair: tuple[Machine, Machine]) -> None:
    _, second = pair
    second.run("sh", "-c", "echo last words | systemd-cat -t test; journalctl --sync")
    second.power_off()
    try:
        assert "last words" in second.journal()
    finally:
        second.power_on()
        second.wait_until_ready()


def test_frozen_machine_responds_only_after_thaw(pair: tuple[Machine, Machine]) -> None:
    first, second = pair
    second.freeze()
    try:
        assert not reaches(first, "two")
    finally:
        second.thaw()
    assert reaches(first, "two", within=PATIENCE)


@in_every_situation
def test_isolated_machine_keeps_running_and_is_unreachable(pair: tuple[Machine, Machine]) -> None:
    first, second = pair
    second.isolate()
    try:
        assert second.is_running()
        assert not reaches(first, "two")
    finally:
        second.reconnect()
    assert reaches(first, "two", within=PATIENCE)


@in_every_situation
def test_racks_with_same_addresses_are_isolated_from_each_other(pair: tuple[Machine, Machine], tmp_path: Path) -> None:
    with Rack(tmp_path / "other") as other:
        other.up({"one.example.com": "10.77.0.11"}, owner=os.getpid())
        other["one.example.com"].run("touch", "/root/other")
        assert pair[0].attempt("test", "-e", "/root/other").returncode == 1
        assert not reaches(other["one.example.com"], ADDRESSES["two.example.com"])
    assert pair[0].is_running()


@in_every_situation
def test_persistent_ssh_connection_is_not_shared_between_racks(pair: tuple[Machine, Machine], tmp_path: Path) -> None:
    persistent = ("-o", "ControlMaster=auto", "-o", "ControlPersist=60", "-o", f"ControlPath={tmp_path}/common")
    with Rack(tmp_path / "other") as other:
        other.up({"one.example.com": "10.77.0.11"}, owner=os.getpid())
        other["one.example.com"].run("touch", "/root/other")
        exit_codes = [
            subprocess.run([machine.ssh_program, *persistent, machine.address, "test", "-e", "/root/other"]).returncode
            for machine in (other["one.example.com"], pair[0])
        ]
    assert exit_codes == [0, 1]


def test_command_down_removes_all_traces_of_rack(machines_supported: None, tmp_path: Path) -> None:
    with Rack(tmp_path / "rack") as rack:
        rack.up({"one": "10.77.0.11"}, owner=os.getpid())
        run_id = rack.run_id
    assert not (tmp_path / "rack").exists()
    assert run_id not in "".join([*os.listdir("/run/netns"), *os.listdir("/run")])
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    assert not [root for root in find_hierarchies().all if (root / f"activemq-fleet-{run_id}").exists()]


@in_every_situation
def test_next_command_up_removes_rack_of_killed_owner(machines_supported: None, tmp_path: Path) -> None:
    owner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    orphan = Rack(tmp_path / "orphan")
    orphan.up({"one": "10.77.0.11"}, owner=owner.pid)
    owner.kill()
    owner.communicate()
    with Rack(tmp_path / "next") as rack:
        rack.up({"one": "10.77.0.11"}, owner=os.getpid())
        assert not (tmp_path / "orphan").exists()
        assert rack["one"].is_running()


@pytest.mark.parametrize(
    ("machines", "message"),
    [
        ({}, "no machine is given"),
        ({"a_b": "10.77.0.11"}, "'a_b': a machine's name is a host name"),
        ({"a": "10.77.0.1"}, "a: address 10.77.0.1 is none of 10.77.0.0/24"),
        ({"a": "192.0.2.1"}, "a: address 192.0.2.1 is none of 10.77.0.0/24"),
        ({"a": "10.77.0.2", "b": "10.77.0.2"}, "two machines with one address"),
    ],
)
def test_rack_refuses_invalid_machines_before_creating_directory(
    machines: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(MachinesError, match=message):
        Rack(tmp_path / "rack").up(machines)
    assert not (tmp_path / "rack").exists()


def test_probe_of_test_machines_reports_missing_root_privileges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert kernel.probe() == ("machines need root for namespaces and mounts (run the tests with sudo)")


def test_setup_of_test_machines_raises_low_limit_of_inotify_instances(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text("128\n")
    monkeypatch.setattr(kernel, "probe", lambda: None)
    monkeypatch.setattr(kernel, "INOTIFY_LIMIT", limit)

    kernel.require()

    assert int(limit.read_text()) == kernel.INOTIFY_INSTANCES


def test_wait_for_test_machine_that_powered_off_fails(tmp_path: Path) -> None:
    with Rack(tmp_path / "rack") as rack:
        rack.up({"one.example.com": "10.77.0.11"}, owner=os.getpid())
        (machine,) = rack.machines
        machine.attempt("systemctl", "poweroff")
        machine.group.wait_until(populated=False)

        with pytest.raises(MachinesError, match=r"one\.example\.com: the machine has stopped unexpectedly"):
            machine.wait_until_reached()


def test_setup_of_test_machines_reports_missing_tools_without_apt_get(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: None if name != "ip" else "/sbin/ip")
    with pytest.raises(UnsupportedError, match=r"debootstrap, mount, nsenter.*there is no apt-get"):
        kernel.require()
