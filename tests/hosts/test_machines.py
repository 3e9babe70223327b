"""The machines themselves: what the other host tests stand on."""

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
    """Whether ``machine`` gets an answer from ``target``'s sshd, in one try of two seconds or
    in one of those that begin ``within`` so many seconds: what must be so is waited for, what must not be is tried."""
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


def test_a_shared_directory_is_one_directory(pair: tuple[Machine, Machine]) -> None:
    pair[0].run("touch", "/srv/shared/seen")
    assert pair[1].run("ls", "/srv/shared") == "seen\n"


@in_every_situation
def test_power_off_is_silent_and_the_disk_stays(pair: tuple[Machine, Machine]) -> None:
    one, two = pair
    two.run("sh", "-c", "echo kept > /root/note; sync")
    two.power_off()
    assert not two.is_running()
    assert not reaches(one, "two")
    two.power_on()
    two.wait_until_ready()
    assert two.run("cat", "/root/note") == "kept\n"
    assert reaches(one, "two", within=PATIENCE)


def test_power_can_go_and_come_again_at_once(pair: tuple[Machine, Machine]) -> None:
    _, two = pair
    for _ in range(5):
        two.power_off()
        two.power_on()
    two.wait_until_ready()


def test_the_journal_can_be_read_while_the_machine_is_off(pair: tuple[Machine, Machine]) -> None:
    _, two = pair
    two.run("sh", "-c", "echo last words | systemd-cat -t test; journalctl --sync")
    two.power_off()
    try:
        assert "last words" in two.journal()
    finally:
        two.power_on()
        two.wait_until_ready()


def test_a_frozen_machine_does_not_answer_until_it_is_thawed(pair: tuple[Machine, Machine]) -> None:
    one, two = pair
    two.freeze()
    try:
        assert not reaches(one, "two")
    finally:
        two.thaw()
    assert reaches(one, "two", within=PATIENCE)


@in_every_situation
def test_an_isolated_machine_runs_on_alone(pair: tuple[Machine, Machine]) -> None:
    one, two = pair
    two.isolate()
    try:
        assert two.is_running()
        assert not reaches(one, "two")
    finally:
        two.reconnect()
    assert reaches(one, "two", within=PATIENCE)


@in_every_situation
def test_two_racks_with_the_same_addresses_do_not_meet(pair: tuple[Machine, Machine], tmp_path: Path) -> None:
    with Rack(tmp_path / "other") as other:
        other.up({"one.example.com": "10.77.0.11"}, owner=os.getpid())
        other["one.example.com"].run("touch", "/root/other")
        assert pair[0].attempt("test", "-e", "/root/other").returncode == 1
        assert not reaches(other["one.example.com"], ADDRESSES["two.example.com"])
    assert pair[0].is_running()


@in_every_situation
def test_a_connection_that_is_kept_open_is_not_taken_for_another_racks(
    pair: tuple[Machine, Machine], tmp_path: Path
) -> None:
    kept = ("-o", "ControlMaster=auto", "-o", "ControlPersist=60", "-o", f"ControlPath={tmp_path}/common")
    with Rack(tmp_path / "other") as other:
        other.up({"one.example.com": "10.77.0.11"}, owner=os.getpid())
        other["one.example.com"].run("touch", "/root/other")
        seen = [
            subprocess.run([machine.ssh_program, *kept, machine.address, "test", "-e", "/root/other"]).returncode
            for machine in (other["one.example.com"], pair[0])
        ]
    assert seen == [0, 1]


def test_down_leaves_nothing_behind(machines_supported: None, tmp_path: Path) -> None:
    with Rack(tmp_path / "rack") as rack:
        rack.up({"one": "10.77.0.11"}, owner=os.getpid())
        run_id = rack.run_id
    assert not (tmp_path / "rack").exists()
    assert run_id not in "".join([*os.listdir("/run/netns"), *os.listdir("/run")])
    assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
    assert not [root for root in find_hierarchies().all if (root / f"activemq-fleet-{run_id}").exists()]


@in_every_situation
def test_a_killed_owners_rack_is_swept_by_the_next_up(machines_supported: None, tmp_path: Path) -> None:
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
        ({}, "no machine given"),
        ({"a_b": "10.77.0.11"}, "'a_b': a machine's name is a host name"),
        ({"a": "10.77.0.1"}, "a: address 10.77.0.1 is none of 10.77.0.0/24"),
        ({"a": "192.0.2.1"}, "a: address 192.0.2.1 is none of 10.77.0.0/24"),
        ({"a": "10.77.0.2", "b": "10.77.0.2"}, "two machines with one address"),
    ],
)
def test_wrong_machines_are_refused_before_anything_is_made(
    machines: dict[str, str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(MachinesError, match=message):
        Rack(tmp_path / "rack").up(machines)
    assert not (tmp_path / "rack").exists()


def test_a_user_without_root_gets_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert kernel.probe() == ("machines need root for namespaces and mounts (run the tests with sudo)")


def test_a_low_limit_of_inotify_instances_is_raised(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    limit = tmp_path / "max_user_instances"
    limit.write_text("128\n")
    monkeypatch.setattr(kernel, "probe", lambda: None)
    monkeypatch.setattr(kernel, "INOTIFY_LIMIT", limit)

    kernel.require()

    assert int(limit.read_text()) == kernel.INOTIFY_INSTANCES


def test_a_machine_that_ends_by_itself_is_not_waited_for(tmp_path: Path) -> None:
    with Rack(tmp_path / "rack") as rack:
        rack.up({"one.example.com": "10.77.0.11"}, owner=os.getpid())
        (one,) = rack.machines
        one.attempt("systemctl", "poweroff")
        one.group.wait_until(populated=False)

        with pytest.raises(MachinesError, match=r"one\.example\.com: has ended by itself"):
            one.wait_until_reached()


def test_a_missing_tool_without_apt_get_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr("shutil.which", lambda name: None if name != "ip" else "/sbin/ip")
    with pytest.raises(UnsupportedError, match=r"debootstrap, mount, nsenter.*there is no apt-get"):
        kernel.require()
