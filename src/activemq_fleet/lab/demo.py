"""``make demo``: an inventory becomes real brokers, a master dies under load, nothing is lost.

Ansible and the collection check and install the fleet, as they would on real hosts; the lab only
says where the hosts are and starts them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr
from rich.console import Console
from rich.table import Table

from activemq_fleet.errors import FleetError, LabError
from activemq_fleet.lab.clients import MqttSubscriber
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.load import Account, mqtt_load, stomp_load
from activemq_fleet.lab.status import HostStatus
from activemq_fleet.lab.stomp import Credentials
from activemq_fleet.topology import Agent, Fleet

TOPIC, QUEUE = "events/demo", "demo.orders"
_BEFORE, _AFTER = 300, 300  # messages of each protocol before and after the kill
_SHOWN_LINES = 12


@dataclass(frozen=True, slots=True)
class Takeover:
    """A kill and what followed; ``seconds`` from the kill to a round trip on the other node."""

    pair: str
    victim: str
    pid: int
    successor: str
    seconds: float
    accounts: tuple[Account, ...]


class _Steps:
    """Says what is being done, and how long it took."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:5.1f} s] {text}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 when nothing was lost, else 1 (2 for input that cannot be used)."""
    parser = argparse.ArgumentParser(prog="python -m activemq_fleet.lab.demo", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("build/demo"), help="where everything is written")
    parser.add_argument("--inventory", type=Path, default=Path("examples/shared-store"))
    chosen = parser.parse_args(arguments)
    try:
        return _run(chosen.inventory.resolve(), chosen.output.resolve())
    except FleetError as error:
        print(f"demo: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("demo: interrupted; every broker is stopped", file=sys.stderr)
        return 130


def _run(inventory: Path, output: Path) -> int:
    step = _Steps()
    output.mkdir(parents=True, exist_ok=True)
    step(f"rendering {inventory.name}: every file of every host, and the picture")
    _call([_program("activemq-fleet"), "render", "-i", inventory, "-o", output / "fleet"])
    with Lab.open([inventory], output / "lab", progress=step) as lab:
        lab.down()
        shutil.rmtree(output / "lab", ignore_errors=True)
        lab.prepare()
        for playbook, doing in (("check", "checking the fleet"), ("site", "installing it on its hosts")):
            step(f"{doing}: ansible-playbook activemq.fleet.{playbook}")
            _call([_program("ansible-playbook"), f"activemq.fleet.{playbook}", "-i", inventory, "-i", lab.inventory])
        step(f"starting {len(lab.fleet.brokers)} brokers")
        lab.up()
        before = lab.status()
        step("publishing over MQTT and STOMP, then kill -9")
        takeover = _kill_under_load(lab)
        after = lab.status()
        step("done")
        _screen(lab.client_fleet, before, after, takeover, output)
    return 1 if any(account.lost for account in takeover.accounts) else 0


def _kill_under_load(lab: Lab) -> Takeover:
    agent = lab.client_fleet.agents[0]
    victim = lab.wait_active(agent.pair)
    pid = next((status.pid for status in lab.status() if status.host == victim), None)
    with ExitStack() as stack:
        mine = _credentials(agent)
        listener = MqttSubscriber(agent.urls, [TOPIC], mine, client_id=f"{agent.host}-demo")
        stack.enter_context(listener)
        app = lab.credentials(agent.pair)
        loads = (
            stack.enter_context(mqtt_load(agent.urls, TOPIC, mine, listener)),
            stack.enter_context(stomp_load(lab.addresses(agent.pair, "stomp"), QUEUE, app)),
        )
        for load in loads:
            load.wait_for(_BEFORE)
        began = lab.kill(victim)
        successor = lab.wait_active(agent.pair)
        seconds = time.time() - began
        for load in loads:
            load.wait_for(_AFTER)
        accounts = tuple(load.account() for load in loads)
    return Takeover(agent.pair, victim, pid or 0, successor, seconds, accounts)


def _credentials(agent: Agent) -> Credentials:
    name, password = agent.settings.agent_username, agent.settings.agent_password
    if name is None or not isinstance(password, SecretStr):
        raise LabError(f"{agent.host}: the agent has no credentials that can be read")
    return Credentials(name, password.get_secret_value())


def _program(name: str) -> Path:
    return Path(sys.executable).with_name(name)


def _call(command: Sequence[str | Path]) -> None:
    """Run a program quietly. Raises LabError with its last lines when it fails."""
    quiet = {"ANSIBLE_LOCALHOST_WARNING": "false", "ANSIBLE_INVENTORY_UNPARSED_WARNING": "false"}
    done = subprocess.run(
        [str(word) for word in command], env=os.environ | quiet, capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        print("\n".join(lines[-_SHOWN_LINES:]), file=sys.stderr)
        raise LabError(f"{Path(command[0]).name} {command[1]} ended with {done.returncode}; its last lines are above")


def _screen(
    fleet: Fleet, before: Sequence[HostStatus], after: Sequence[HostStatus], takeover: Takeover, output: Path
) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 110)
    release = fleet.brokers[0].release.text
    console.print(
        f"\n[bold]{len(fleet.brokers)} brokers[/] of {len(fleet.pairs)} pairs in {len(fleet.groups)} groups, "
        f"release {release}; preferred masters are nodes a\n"
    )
    console.print(_fleet_table(before, after, takeover))
    console.print(
        f"\nkill -9 of [bold]{takeover.victim}[/] (active, pid {takeover.pid}) under load: "
        f"[bold]{takeover.successor}[/] took over and answered after [bold]{takeover.seconds:.1f} s[/]\n"
    )
    console.print(_account_table(takeover.accounts))
    console.print(
        f"\npicture and files  {output / 'fleet'}/fleet.svg, hosts/\nlogs of the run    {output / 'lab'}\n",
        soft_wrap=True,
    )


def _fleet_table(before: Sequence[HostStatus], after: Sequence[HostStatus], takeover: Takeover) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("host", "address", "role", "before", "after", "bridges to"):
        table.add_column(title)
    for was, now in zip(before, after, strict=True):
        mark = "[bold]" if now.host in (takeover.victim, takeover.successor) else ""
        states = was.state, now.state
        table.add_row(mark + now.host, now.address, now.role, *states, ", ".join(now.peers) or "-")
    return table


def _account_table(accounts: Sequence[Account]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("events over")
    for title in ("accepted", "delivered", "lost", "duplicated", "longest silence"):
        table.add_column(title, justify="right")
    for account in accounts:
        counts = (account.accepted, account.delivered, len(account.lost), account.duplicated)
        table.add_row(account.protocol, *map(str, counts), f"{account.silence:.1f} s")
    return table


if __name__ == "__main__":
    sys.exit(main())
