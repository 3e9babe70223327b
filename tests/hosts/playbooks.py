"""Playbooks of the collection that run against machines, with the inventory of a molecule scenario."""

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
"""The release of the pair of a controller, from jars, unless it is ``from_archive``."""
ARCHIVE_RELEASE = "5.18.3"
"""The release that the scenario installs from the archive of the vendor."""
PASSWORD = "made-up-probe-password"
NODES = {"orders-mq01-a.example.com": "10.77.0.31", "orders-mq01-b.example.com": "10.77.0.32"}


def environment(repository: Path, rack: Rack) -> dict[str, str]:
    """Return the environment variables of Ansible and molecule: collections, inputs of the inventories, no colors."""
    home = repository / ".ansible"
    return os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "ANSIBLE_HOME": str(home),
        "ANSIBLE_COLLECTIONS_PATH": str(home / "collections"),
        "ANSIBLE_PIPELINING": "true",
        "ANSIBLE_TIMEOUT": "20",  # for a login on a busy machine
        "ANSIBLE_NOCOLOR": "true",
        "NO_COLOR": "1",
        "FLEET_ROOT": str(repository),
        "FLEET_RACK": str(rack.state),
        "FLEET_RACK_OWNER": str(os.getpid()),
        "MOLECULE_EPHEMERAL_DIRECTORY": str(rack.state.parent),
        "MOLECULE_GLOB": "extensions/molecule/*/molecule.yml",
    }


class PlaybookError(Exception):
    """A playbook ended with an unexpected exit status. It is no AssertionError, because it proves no loss."""


class StreamError(Exception):
    """The client of ``tests.hosts.stream`` failed, so that the outcome of its messages is unknown."""


def checked_output(done: subprocess.CompletedProcess[str], *codes: int) -> str:
    """Print and return the output of a playbook; PlaybookError unless its exit status is one of ``codes`` (0)."""
    print(done.stdout)
    if done.returncode not in (codes or (0,)):
        errors = [line for line in done.stdout.splitlines() if "fatal:" in line or "UNREACHABLE" in line]
        raise PlaybookError(
            f"{' '.join(map(str, done.args))[-200:]} ended with exit status {done.returncode}: {errors[-2:]}"
        )
    return done.stdout


@dataclass(frozen=True, slots=True)
class Controller:
    """A controller that runs playbooks and clients of this checkout in the network of a rack.

    ``scenario`` is the molecule scenario of the inventory, and ``variables`` are its environment variables.
    """

    repository: Path
    rack: Rack
    scenario: str = "pair"
    variables: Mapping[str, str] = field(default_factory=lambda: {"FLEET_PAIR_INSTALL": "jars"})
    nodes: Mapping[str, str] = field(default_factory=lambda: NODES)
    """The addresses of both nodes of the pair, by host, preferred master first."""
    inventory: Path | None = None
    """The inventory, if it is not that of the scenario."""

    @classmethod
    def from_archive(cls, repository: Path, rack: Rack) -> Controller:
        """Return a controller of the pair of the scenario without FLEET_PAIR_INSTALL."""
        return cls(repository, rack, variables={})

    @classmethod
    def of_convention(cls, repository: Path, rack: Rack, convention: Convention, directory: Path) -> Controller:
        """Return a controller of the pair of the scenario with host names of another convention."""
        inventory = directory / "inventory"
        shutil.copytree(repository / "molecule/pair/inventory", inventory)
        nodes = dict(zip(convention.hosts, NODES.values(), strict=False))
        hosts = {host: {"ansible_host": nodes[host], **convention.host_variables.get(host, {})} for host in nodes}
        inventory_data = {"all": {"vars": dict(convention.variables), "children": {"orders": {"hosts": hosts}}}}
        (inventory / "hosts.yml").write_text(json.dumps(inventory_data))
        return cls(repository, rack, nodes=nodes, inventory=inventory)

    def start_pair(self, *, share: str) -> None:
        """Start both nodes with ``share`` as their shared directory, and provide the software to install."""
        self.rack.up(self.nodes, shares=[share], owner=os.getpid())
        self.rack.serve(
            fetch_jar_directory(Release.of(RELEASE)) if self.variables else archive_of(Release.of(ARCHIVE_RELEASE))
        )

    def install_pair(self, *, share: str) -> None:
        """Start both nodes; install and start their brokers with the playbook ``site``."""
        self.start_pair(share=share)
        checked_output(self.run_playbook("site"))

    def active_and_other_node(self) -> tuple[Machine, Machine]:
        """Return the address node and the other node."""
        address = self.exchange("watch", *self.nodes.values())["address"]
        machines = self.rack.machines
        active_node = next(machine for machine in machines if machine.address == address)
        other_node = next(machine for machine in machines if machine.address != address)
        return active_node, other_node

    @contextmanager
    def streaming(self, timeout: float) -> Iterator[dict[str, Any]]:
        """Send messages during the block; the dict then contains their outcome, from ``tests.hosts.stream``."""
        client = [sys.executable, "-m", "tests.hosts.stream", "--username", "probe", "--password", PASSWORD]
        outcome: dict[str, Any] = {}
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
                    raise StreamError(
                        f"the client of the stream received no acknowledgment: {streaming.communicate(timeout=60)}"
                    )
                yield outcome
                output, errors = streaming.communicate(timeout=timeout)
                if streaming.returncode:
                    raise StreamError(
                        f"the client of the stream failed, so that the outcome of its messages is unknown: {errors}"
                    )
                outcome.update(json.loads(output))
            finally:
                streaming.kill()

    def switch_to(self, machine: Machine, *arguments: str) -> str:
        """Make a node of the pair active with the playbook ``switchover``; return its output."""
        return checked_output(
            self.run_playbook(
                "switchover", *arguments, "-e", "activemq_target=orders", "-e", f"activemq_to={machine.name}"
            )
        )

    def run_playbook(self, playbook: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a playbook of the collection; return the completed process with its output."""
        process = self.start_playbook(playbook, *arguments)
        output, _ = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, output)

    def start_playbook(self, playbook: str, *arguments: str, inside: bool = False) -> subprocess.Popen[str]:
        """Start a playbook in a separate process group; return the process, whose output is a pipe.

        With ``inside``, it runs in the network of the machines, like a controller that can connect to the brokers.
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
        """Return the report of the client of ``tests.hosts.exchange``; MachinesError if it failed."""
        client = [sys.executable, "-m", "tests.hosts.exchange", "--username", "probe", "--password", PASSWORD]
        completed = subprocess.run(
            self.rack.lan.inside(*client, *arguments),
            cwd=self.repository,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if completed.returncode:
            raise MachinesError(completed.stderr)
        report: dict[str, Any] = json.loads(completed.stdout)
        return report
