"""Runs the collection's playbooks against machines, with the inventory of one of the molecule scenarios."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from activemq_fleet.artifacts import fetch_jar_directory
from activemq_fleet.releases import Release
from tests.conventions import Convention
from tests.hosts.machines import Machine, MachinesError, Rack
from tests.hosts.software import archive_of

RELEASE = "6.3.1"
"""From jars: what a controller's pair runs unless it is ``from_archive``."""
ARCHIVED = "5.18.3"
"""What the scenario installs from the archive that the vendor published."""
PASSWORD = "made-up-probe-password"
NODES = {"orders-mq01-a.example.com": "10.77.0.31", "orders-mq01-b.example.com": "10.77.0.32"}


def environment(repository: Path, rack: Rack) -> dict[str, str]:
    """For Ansible and molecule: this checkout's collections, what the scenarios' inventories ask for, no colours."""
    home = repository / ".ansible"
    return os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ANSIBLE_HOME": str(home),
        "ANSIBLE_COLLECTIONS_PATH": str(home / "collections"),
        "ANSIBLE_PIPELINING": "true",
        "ANSIBLE_TIMEOUT": "20",  # to log in, on a machine that others load
        "ANSIBLE_NOCOLOR": "true",
        "NO_COLOR": "1",
        "FLEET_ROOT": str(repository),
        "FLEET_RACK": str(rack.state),
        "FLEET_RACK_OWNER": str(os.getpid()),
        "MOLECULE_EPHEMERAL_DIRECTORY": str(rack.state.parent),
        "MOLECULE_GLOB": "extensions/molecule/*/molecule.yml",
    }


class PlaybookError(Exception):
    """A playbook ended otherwise than it should have. No AssertionError: by itself that is no loss."""


class StreamError(Exception):
    """The client of ``tests.hosts.stream`` could not do its part, so nothing is known of what it sent."""


def ended(done: subprocess.CompletedProcess[str], *codes: int) -> str:
    """Print and return what a playbook said. Raises PlaybookError when its exit status is none of ``codes`` (0)."""
    print(done.stdout)
    if done.returncode not in (codes or (0,)):
        told = [line for line in done.stdout.splitlines() if "fatal:" in line or "UNREACHABLE" in line]
        raise PlaybookError(f"{' '.join(map(str, done.args))[-200:]} ended with {done.returncode}: {told[-2:]}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class Controller:
    """Where playbooks and clients start from: this checkout, looking at one rack's network.

    ``scenario`` is the one whose inventory is used, ``variables`` are its variables of the environment.
    """

    repository: Path
    rack: Rack
    scenario: str = "pair"
    variables: Mapping[str, str] = field(default_factory=lambda: {"FLEET_PAIR_INSTALL": "jars"})
    nodes: Mapping[str, str] = field(default_factory=lambda: NODES)
    """The addresses of both nodes of the pair, by host, preferred master first."""
    inventory: Path | None = None
    """Another inventory than the scenario's."""

    @classmethod
    def from_archive(cls, repository: Path, rack: Rack) -> Controller:
        """A controller of the scenario's pair as it is without FLEET_PAIR_INSTALL."""
        return cls(repository, rack, variables={})

    @classmethod
    def of_convention(cls, repository: Path, rack: Rack, convention: Convention, directory: Path) -> Controller:
        """A controller of the scenario's pair with hosts that are named by another convention."""
        inventory = directory / "inventory"
        shutil.copytree(repository / "molecule/pair/inventory", inventory)
        nodes = dict(zip(convention.hosts, NODES.values(), strict=False))
        hosts = {host: {"ansible_host": nodes[host], **convention.stated.get(host, {})} for host in nodes}
        content = {"all": {"vars": dict(convention.variables), "children": {"orders": {"hosts": hosts}}}}
        (inventory / "hosts.yml").write_text(json.dumps(content))
        return cls(repository, rack, nodes=nodes, inventory=inventory)

    def start_pair(self, *, share: str) -> None:
        """Boot both nodes with ``share`` as their common mount, and lay out what they install."""
        self.rack.up(self.nodes, shares=[share], owner=os.getpid())
        self.rack.serve(
            fetch_jar_directory(Release.of(RELEASE)) if self.variables else archive_of(Release.of(ARCHIVED))
        )

    def install_pair(self, *, share: str) -> None:
        """Boot both nodes, and let the playbook ``site`` install and start their brokers."""
        self.start_pair(share=share)
        ended(self.play("site"))

    def sides(self) -> tuple[Machine, Machine]:
        """The node that serves, and the other one."""
        active = self.exchange("watch", *self.nodes.values())["address"]
        machines = self.rack.machines
        serving = next(machine for machine in machines if machine.address == active)
        other = next(machine for machine in machines if machine.address != active)
        return serving, other

    @contextmanager
    def streaming(self, timeout: float) -> Iterator[dict[str, Any]]:
        """Messages all the while; afterwards what became of them, by ``tests.hosts.stream``."""
        client = [sys.executable, "-m", "tests.hosts.stream", "--username", "probe", "--password", PASSWORD]
        found: dict[str, Any] = {}
        with subprocess.Popen(
            self.rack.lan.inside(*client, *self.nodes.values()),
            cwd=self.repository,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as streaming:
            try:
                if not streaming.stdout or streaming.stdout.readline() != "begun\n":
                    raise StreamError(f"no message was acknowledged: {streaming.communicate(timeout=60)}")
                yield found
                said, errors = streaming.communicate(timeout=timeout)
                if streaming.returncode:
                    raise StreamError(f"it is not known what became of the messages: {errors}")
                found.update(json.loads(said))
            finally:
                streaming.kill()

    def switch_to(self, machine: Machine, *arguments: str) -> str:
        """Let the playbook ``switchover`` make a node of the pair the active one; return what it said."""
        return ended(
            self.play("switchover", *arguments, "-e", "activemq_target=orders", "-e", f"activemq_to={machine.name}")
        )

    def play(self, playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a playbook of the collection; return it with its exit status and all it said."""
        process = self.start(playbook, *arguments)
        said, _ = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, said)

    def start(self, playbook: str, *arguments: str, inside: bool = False) -> subprocess.Popen[str]:
        """The same, for whoever reads its lines as they come; it leads a process group of its own.

        With ``inside`` it runs within the machines' network, as a controller that reaches the brokers.
        """
        inventory = self.inventory or self.repository / "molecule" / self.scenario / "inventory"
        program = Path(sys.executable).with_name("ansible-playbook")
        command = [str(program), f"activemq.fleet.{playbook}", f"--inventory={inventory}", *arguments]
        return subprocess.Popen(
            self.rack.lan.inside(*command) if inside else command,
            cwd=self.repository,
            env=environment(self.repository, self.rack) | dict(self.variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def exchange(self, *arguments: str) -> dict[str, Any]:
        """What the client of ``tests.hosts.exchange`` found; MachinesError when it failed."""
        client = [sys.executable, "-m", "tests.hosts.exchange", "--username", "probe", "--password", PASSWORD]
        done = subprocess.run(
            self.rack.lan.inside(*client, *arguments),
            cwd=self.repository,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise MachinesError(done.stderr)
        found: dict[str, Any] = json.loads(done.stdout)
        return found
