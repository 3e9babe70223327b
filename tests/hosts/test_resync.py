"""The playbook ``resync`` on a real pure pair of 5.5.1 under systemd, and on one whose controller is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from activemq_fleet.artifacts import fetch_jar_directory
from activemq_fleet.releases import Release
from tests.hosts.brokers import wait_until
from tests.hosts.machines import Machine, Rack
from tests.hosts.playbooks import PlaybookError, environment
from tests.situations import in_every_situation
from tests.support.command_blocks import Command, read_page, run_command
from tests.waiting import LateError

RELEASE = "5.5.1"
MASTER, SLAVE = "legacy-mq01-a.example.com", "legacy-mq01-b.example.com"
NODES = {MASTER: "10.77.0.31", SLAVE: "10.77.0.32"}
UNIT = "activemq.service"
STORE = "/var/lib/activemq/activemq/data/kahadb"
PLANS = "/var/lib/activemq-fleet/resync"
LOG = "/var/lib/activemq/activemq/data/activemq.log"
PASSWORD = "made-up-app-password"
PATIENCE = 600
FAILED = "Master Failed - starting all connectors"
# A slave's own connector is against the profile: here it lets the test count what came to a slave alone.
CONNECTOR = (
    '<transportConnectors><transportConnector name="stomp" uri="stomp+nio://0.0.0.0:61613"/></transportConnectors>'
)
CLIENT = f"""
import sys
from tests.stomp_clients import stomp_drain, stomp_send
from activemq_fleet.lab.stomp import Credentials
what, address, first, count, queue = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
who = Credentials("app", "{PASSWORD}")
if what == "send":
    stomp_send([(address, 61613)], queue, [str(first + n) for n in range(count)], who, timeout=300)
else:
    got = stomp_drain([(address, 61613)], queue, who, expected=count, timeout=300)
    print(*sorted(map(int, set(got))))
"""


class Fleet:
    """One pure pair, its inventory, and playbooks run against it."""

    def __init__(self, rack: Rack, repository: Path, directory: Path) -> None:
        self.rack, self.repository, self.directory = rack, repository, directory
        self.home = directory / "controller"
        self.said = directory / "said"
        self.queue = "/queue/kept"
        inventory = directory / "inventory"
        inventory.mkdir()
        (inventory / "hosts.yml").write_text(json.dumps({"all": self._inventory()}))

    def _inventory(self) -> dict[str, object]:
        hosts: dict[str, dict[str, object]] = {name: {"ansible_host": address} for name, address in NODES.items()}
        hosts[SLAVE]["activemq_xml_fragments"] = [{"parent": "broker", "xml": CONNECTOR}]
        return {
            "hosts": hosts,
            "vars": {
                "ansible_user": "root",
                "ansible_python_interpreter": "/usr/bin/python3",
                **{f"ansible_{name}_executable": f"{self.rack.state}/{name}" for name in ("ssh", "scp", "sftp")},
                "activemq_release": RELEASE,
                "activemq_ha": "pure",
                "activemq_install": "jars",
                "activemq_archive": f"{self.rack.state}.software",
                "activemq_heap": "192m",
                "activemq_network_username": "network",
                "activemq_network_password": "made-up-network-password",
                "activemq_users": [{"name": "app", "password": PASSWORD}],
                "activemq_waivers": [{"rule": rule, "reason": "a test"} for rule in ("S001", "S002")],
            },
        }

    @property
    def master(self) -> Machine:
        return self.rack[MASTER]

    @property
    def slave(self) -> Machine:
        return self.rack[SLAVE]

    def start(self, playbook: str, *arguments: str) -> subprocess.Popen[str]:
        """Run a playbook; it leads a process group of its own, and what it says goes to ``said``."""
        environment = os.environ | {
            "ANSIBLE_HOME": str(self.home),
            "ANSIBLE_COLLECTIONS_PATH": str(self.repository / ".ansible/collections"),
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_NOCOLOR": "true",
            "ANSIBLE_TIMEOUT": "20",
        }
        program = Path(sys.executable).with_name("ansible-playbook")
        command = [str(program), f"activemq.fleet.{playbook}", "-i", str(self.directory / "inventory"), *arguments]
        with self.said.open("w") as output:
            return subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    def play(self, playbook: str, *arguments: str, fails: bool = False) -> str:
        process = self.start(playbook, *arguments)
        process.wait()
        said = self.said.read_text()
        print(said)
        if (process.returncode != 0) != fails:
            raise PlaybookError(f"{playbook} ended with {process.returncode}")
        return said

    def client(self, what: str, machine: Machine, first: int, count: int) -> list[int]:
        command = [sys.executable, "-c", CLIENT, what, machine.address, str(first), str(count), self.queue]
        done = subprocess.run(self.rack.lan.inside(*command), cwd=self.repository, capture_output=True, text=True)
        assert done.returncode == 0, f"{what} at {machine.name}: {done.stderr}"
        return [int(word) for word in done.stdout.split()]

    def kill_master(self) -> None:
        """The master dies, its slave serves and takes ten messages of its own, in a queue that nobody had before."""
        if not self.master_lives():
            self.play("resync", "-e", "activemq_target=legacy-mq01")  # an earlier try may have ended anywhere
        self.queue = f"/queue/kept-{uuid.uuid4().hex[:8]}"
        self.client("send", self.master, 0, 20)
        before = self.takeovers()
        self.master.run("systemctl", "kill", "--signal=KILL", UNIT)
        wait_until(
            lambda: self.takeovers() > before, "the slave takes over", self.slave, self.master, patience=PATIENCE
        )
        self.client("send", self.slave, 20, 10)

    def master_lives(self) -> bool:
        return self.master.run("systemctl", "show", "--property=MainPID", "--value", UNIT).strip() != "0"

    def takeovers(self) -> int:
        """How often the slave has taken over, by its log."""
        return int(self.slave.run("sh", "-c", f"grep -c '{FAILED}' {LOG} || true"))

    def interrupt_copy(self) -> bool:
        """Kill the controller of a resync; whether that was amid the copy."""
        running = self.start("resync", "-e", "activemq_target=legacy-mq01")
        spool = self.home / "activemq-fleet" / "resync"
        while running.poll() is None and not any(spool.glob("*/*")):
            time.sleep(0.05)
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        print(self.said.read_text())
        return any(spool.glob("*/*"))


def backups(machine: Machine) -> list[str]:
    script = f"ls -d {STORE}.* 2>/dev/null || true"
    return [Path(line).name for line in machine.run("sh", "-c", script).splitlines()]


def mains(fleet: Fleet) -> list[str]:
    return [machine.run("systemctl", "show", "--property=MainPID", "--value", UNIT) for machine in fleet.rack.machines]


@pytest.fixture(scope="module")
def fleet(rack: Rack, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A pure pair, installed and started by the playbook ``site``."""
    rack.up(NODES, owner=os.getpid())
    rack.serve(fetch_jar_directory(Release.of(RELEASE)))
    fleet = Fleet(rack, repository, tmp_path_factory.mktemp("fleet"))
    fleet.play("site")
    return fleet


@in_every_situation
@pytest.mark.timeout(3600)  # a machine that others load
def test_a_controller_that_is_killed_amid_the_copy_leaves_what_the_next_run_finishes(fleet: Fleet) -> None:
    for _ in range(3):
        fleet.kill_master()
        before = backups(fleet.master), backups(fleet.slave)
        if fleet.interrupt_copy():
            break
        fleet.play("resync", "-e", "activemq_target=legacy-mq01")  # whatever it had done already
    else:
        raise LateError("the controller was never killed amid the copy")

    said = fleet.play("resync", "-e", "activemq_target=legacy-mq01")

    assert f"copies the store of {SLAVE} to {MASTER}" in said
    assert fleet.client("take", fleet.master, 0, 30) == list(range(30))
    kept = set(backups(fleet.master)) - set(before[0])
    assert len(kept) == 2, kept  # the store that was there, and its sums
    assert backups(fleet.slave) == before[1]
    assert not any((fleet.home / "activemq-fleet" / "resync").glob("*"))
    assert fleet.master.run("find", STORE, "!", "-user", "activemq") == ""
    assert fleet.master.run("stat", "-c", "%U %a", PLANS).strip() == "root 700"
    assert fleet.master.run("ls", "-A", PLANS) == ""


@in_every_situation
def test_a_pair_that_is_attached_is_left_alone(fleet: Fleet) -> None:
    before = mains(fleet)
    said = fleet.play("resync")
    assert f"requires no change: {MASTER} has started, and {SLAVE} is attached" in said
    assert mains(fleet) == before


@in_every_situation
@pytest.mark.timeout(1800)
def test_pairs_that_are_well_are_restarted_when_asked_for_and_keep_their_messages(fleet: Fleet) -> None:
    fleet.queue = f"/queue/kept-{uuid.uuid4().hex[:8]}"
    fleet.client("send", fleet.master, 0, 20)
    before, kept = mains(fleet), backups(fleet.master)
    # The same as resync with activemq_resync_restart.
    said = fleet.play("restart")
    assert f"{SLAVE}: the playbook stops the slave first" in said
    assert not set(before) & set(mains(fleet))
    assert backups(fleet.master) == kept
    assert fleet.client("take", fleet.master, 0, 20) == list(range(20))


@in_every_situation
@pytest.mark.timeout(1800)
def test_a_check_says_what_would_be_next_and_touches_nothing(fleet: Fleet) -> None:
    fleet.kill_master()
    listed = ("find", f"{STORE}/..", "-printf", "%p %s %i %T@\\n")
    before = (mains(fleet), backups(fleet.slave), fleet.master.run(*listed))
    said = fleet.play("resync", "--check")
    assert "nothing was changed; the next step would be: " in said
    assert f"{SLAVE} has the newer store" in said
    assert said.count("changed=0 ") == said.count("changed=")
    assert (mains(fleet), backups(fleet.slave), fleet.master.run(*listed)) == before


@in_every_situation
@pytest.mark.timeout(1800)
def test_a_plan_that_the_broker_s_account_plants_moves_no_directory_of_root(fleet: Fleet) -> None:
    """After the test before: the master's store is the older one, and would be replaced."""
    if fleet.master_lives():
        fleet.kill_master()
    plan = json.dumps({"staging": "/root/moved", "backup": f"{STORE}.before-it", "from": "nobody"})
    fleet.master.run("mkdir", "-p", "/root/moved")
    fleet.master.run("runuser", "-u", "activemq", "--", "sh", "-c", f"echo '{plan}' > {STORE}.resync.json")
    try:
        said = fleet.play("resync", "-e", "activemq_target=legacy-mq01", fails=True)
        assert "is not used, because an account other than root could have changed it" in " ".join(said.split())
        assert fleet.master.run("stat", "-c", "%U", "/root/moved", STORE).split() == ["root", "activemq"]
    finally:
        fleet.master.run("rm", f"{STORE}.resync.json")


@in_every_situation
@pytest.mark.timeout(1800)
def test_the_store_that_a_person_names_is_gone_on_with_and_the_other_one_is_kept(fleet: Fleet) -> None:
    """After the test before: twenty messages that both know, ten more that only the slave has."""
    if fleet.master_lives():  # by itself, or tried a second time
        fleet.kill_master()
    before = set(backups(fleet.slave))
    said = fleet.play("resync", "-e", "activemq_target=legacy-mq01", "-e", f"activemq_resync_from={MASTER}")
    assert f"copies the store of {MASTER} to {SLAVE}" in said
    assert fleet.client("take", fleet.master, 0, 20) == list(range(20))
    assert len(set(backups(fleet.slave)) - before) == 2  # with its sums


@in_every_situation
@pytest.mark.timeout(1800)
def test_command_of_the_page_resyncs_a_pair_whose_slave_took_over(fleet: Fleet, rack: Rack, repository: Path) -> None:
    fleet.kill_master()

    for step in read_page(repository / "docs/resync.md").steps:
        assert isinstance(step, Command)
        command = replace(step, line=step.line.replace("orders-mq01", "legacy-mq01"))
        run_command(command, fleet.directory, environment(repository, rack))

    assert fleet.master_lives()
