"""The playbook ``resync`` on a real pure pair of 5.5.1 under systemd, also after its controller was killed."""

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
TAKEOVER_MESSAGE = "Master Failed - starting all connectors"
# The profile gives a slave no connector. This one lets the test send messages to the slave alone, and count them.
CONNECTOR = (
    '<transportConnectors><transportConnector name="stomp" uri="stomp+nio://0.0.0.0:61613"/></transportConnectors>'
)
CLIENT = f"""
import sys
from tests.stomp_clients import stomp_drain, stomp_send
from activemq_fleet.lab.stomp import Credentials
action, address, first, count, queue = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
credentials = Credentials("app", "{PASSWORD}")
if action == "send":
    stomp_send([(address, 61613)], queue, [str(first + n) for n in range(count)], credentials, timeout=300)
else:
    bodies = stomp_drain([(address, 61613)], queue, credentials, expected=count, timeout=300)
    print(*sorted(map(int, set(bodies))))
"""


class Fleet:
    """A pure pair, its inventory, and the playbooks that run on it."""

    def __init__(self, rack: Rack, repository: Path, directory: Path) -> None:
        self.rack, self.repository, self.directory = rack, repository, directory
        self.home = directory / "controller"
        self.output_file = directory / "output"
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
        """Start a playbook in a new process group; write its output to ``output_file``."""
        environment = os.environ | {
            "ANSIBLE_HOME": str(self.home),
            "ANSIBLE_COLLECTIONS_PATH": str(self.repository / ".ansible/collections"),
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_NOCOLOR": "true",
            "ANSIBLE_TIMEOUT": "20",
        }
        program = Path(sys.executable).with_name("ansible-playbook")
        command = [str(program), f"activemq.fleet.{playbook}", "-i", str(self.directory / "inventory"), *arguments]
        with self.output_file.open("w") as output:
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
        output = self.output_file.read_text()
        print(output)
        if (process.returncode != 0) != fails:
            raise PlaybookError(
                f"the playbook {playbook} exited with status {process.returncode}: read its output above"
            )
        return output

    def run_client(self, action: str, machine: Machine, first: int, count: int) -> list[int]:
        command = [sys.executable, "-c", CLIENT, action, machine.address, str(first), str(count), self.queue]
        completed = subprocess.run(self.rack.lan.inside(*command), cwd=self.repository, capture_output=True, text=True)
        assert completed.returncode == 0, f"the client failed to {action} at {machine.name}: {completed.stderr}"
        return [int(word) for word in completed.stdout.split()]

    def kill_master(self) -> None:
        """Kill the master after 20 messages to a new queue; send ten more to the slave, which has taken over."""
        if not self.is_master_running():
            self.play("resync", "-e", "activemq_target=legacy-mq01")  # an earlier attempt may have ended at any step
        self.queue = f"/queue/kept-{uuid.uuid4().hex[:8]}"
        self.run_client("send", self.master, 0, 20)
        takeovers_before = self.count_takeovers()
        self.master.run("systemctl", "kill", "--signal=KILL", UNIT)
        wait_until(
            lambda: self.count_takeovers() > takeovers_before,
            "the slave takes over",
            self.slave,
            self.master,
            patience=PATIENCE,
        )
        self.run_client("send", self.slave, 20, 10)

    def is_master_running(self) -> bool:
        return self.master.run("systemctl", "show", "--property=MainPID", "--value", UNIT).strip() != "0"

    def count_takeovers(self) -> int:
        """Return how often the slave has taken over, according to its log."""
        return int(self.slave.run("sh", "-c", f"grep -c '{TAKEOVER_MESSAGE}' {LOG} || true"))

    def interrupt_copy(self) -> bool:
        """Kill the controller of a resync; return whether it was killed during the copy."""
        running = self.start("resync", "-e", "activemq_target=legacy-mq01")
        spool = self.home / "activemq-fleet" / "resync"
        while running.poll() is None and not any(spool.glob("*/*")):
            time.sleep(0.05)
        with suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
        print(self.output_file.read_text())
        return any(spool.glob("*/*"))


def backups(machine: Machine) -> list[str]:
    script = f"ls -d {STORE}.* 2>/dev/null || true"
    return [Path(line).name for line in machine.run("sh", "-c", script).splitlines()]


def main_pids(fleet: Fleet) -> list[str]:
    return [machine.run("systemctl", "show", "--property=MainPID", "--value", UNIT) for machine in fleet.rack.machines]


@pytest.fixture(scope="module")
def fleet(rack: Rack, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Return a pure pair, installed and started by the playbook ``site``."""
    rack.up(NODES, owner=os.getpid())
    rack.serve(fetch_jar_directory(Release.of(RELEASE)))
    fleet = Fleet(rack, repository, tmp_path_factory.mktemp("fleet"))
    fleet.play("site")
    return fleet


@in_every_situation
@pytest.mark.timeout(3600)  # for a machine under load
def test_next_resync_completes_copy_of_killed_controller(fleet: Fleet) -> None:
    for _ in range(3):
        fleet.kill_master()
        backups_before = backups(fleet.master), backups(fleet.slave)
        if fleet.interrupt_copy():
            break
        fleet.play("resync", "-e", "activemq_target=legacy-mq01")  # from any step that the killed run had reached
    else:
        raise LateError("no kill of the controller hit the copy in three attempts: run the test again")

    output = fleet.play("resync", "-e", "activemq_target=legacy-mq01")

    assert f"copies the store of {SLAVE} to {MASTER}" in output
    assert fleet.run_client("take", fleet.master, 0, 30) == list(range(30))
    kept = set(backups(fleet.master)) - set(backups_before[0])
    assert len(kept) == 2, kept  # the previous store, and its checksums
    assert backups(fleet.slave) == backups_before[1]
    assert not any((fleet.home / "activemq-fleet" / "resync").glob("*"))
    assert fleet.master.run("find", STORE, "!", "-user", "activemq") == ""
    assert fleet.master.run("stat", "-c", "%U %a", PLANS).strip() == "root 700"
    assert fleet.master.run("ls", "-A", PLANS) == ""


@in_every_situation
def test_resync_changes_nothing_on_attached_pair(fleet: Fleet) -> None:
    processes_before = main_pids(fleet)
    output = fleet.play("resync")
    assert f"requires no change: {MASTER} has started, and {SLAVE} is attached" in output
    assert main_pids(fleet) == processes_before


@in_every_situation
@pytest.mark.timeout(1800)
def test_restart_of_healthy_pure_pair_keeps_messages(fleet: Fleet) -> None:
    fleet.queue = f"/queue/kept-{uuid.uuid4().hex[:8]}"
    fleet.run_client("send", fleet.master, 0, 20)
    processes_before, kept = main_pids(fleet), backups(fleet.master)
    # This playbook does the same as resync with activemq_resync_restart.
    output = fleet.play("restart")
    assert f"{SLAVE}: the playbook stops the slave first" in output
    assert not set(processes_before) & set(main_pids(fleet))
    assert backups(fleet.master) == kept
    assert fleet.run_client("take", fleet.master, 0, 20) == list(range(20))


@in_every_situation
@pytest.mark.timeout(1800)
def test_resync_in_check_mode_reports_next_step_and_changes_nothing(fleet: Fleet) -> None:
    fleet.kill_master()
    list_files = ("find", f"{STORE}/..", "-printf", "%p %s %i %T@\\n")
    traces_before = (main_pids(fleet), backups(fleet.slave), fleet.master.run(*list_files))
    output = fleet.play("resync", "--check")
    assert "nothing was changed; the next step would be: " in output
    assert f"{SLAVE} has the newer store" in output
    assert output.count("changed=0 ") == output.count("changed=")
    assert (main_pids(fleet), backups(fleet.slave), fleet.master.run(*list_files)) == traces_before


@in_every_situation
@pytest.mark.timeout(1800)
def test_resync_refuses_plan_that_account_of_broker_wrote(fleet: Fleet) -> None:
    """After the previous test, the store of the master is older, so a resync would replace it."""
    if fleet.is_master_running():
        fleet.kill_master()
    plan = json.dumps({"staging": "/root/moved", "backup": f"{STORE}.before-it", "from": "nobody"})
    fleet.master.run("mkdir", "-p", "/root/moved")
    fleet.master.run("runuser", "-u", "activemq", "--", "sh", "-c", f"echo '{plan}' > {STORE}.resync.json")
    try:
        output = fleet.play("resync", "-e", "activemq_target=legacy-mq01", fails=True)
        assert "is not used, because an account other than root could have changed it" in " ".join(output.split())
        assert fleet.master.run("stat", "-c", "%U", "/root/moved", STORE).split() == ["root", "activemq"]
    finally:
        fleet.master.run("rm", f"{STORE}.resync.json")


@in_every_situation
@pytest.mark.timeout(1800)
def test_resync_copies_store_that_operator_selects_and_keeps_other_store(fleet: Fleet) -> None:
    """After the previous test, both nodes hold 20 messages, and the slave alone holds ten more."""
    if fleet.is_master_running():  # if the test runs alone or for a second time
        fleet.kill_master()
    backups_before = set(backups(fleet.slave))
    output = fleet.play("resync", "-e", "activemq_target=legacy-mq01", "-e", f"activemq_resync_from={MASTER}")
    assert f"copies the store of {MASTER} to {SLAVE}" in output
    assert fleet.run_client("take", fleet.master, 0, 20) == list(range(20))
    assert len(set(backups(fleet.slave)) - backups_before) == 2  # with its checksums


@in_every_situation
@pytest.mark.timeout(1800)
def test_command_of_page_resyncs_pair_whose_slave_took_over(fleet: Fleet, rack: Rack, repository: Path) -> None:
    fleet.kill_master()

    for step in read_page(repository / "docs/resync.md").steps:
        assert isinstance(step, Command)
        command = replace(step, line=step.line.replace("orders-mq01", "legacy-mq01"))
        run_command(command, fleet.directory, environment(repository, rack))

    assert fleet.is_master_running()
