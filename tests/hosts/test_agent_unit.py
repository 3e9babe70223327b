"""The unit of the agent on a systemd host with a real pair, which ``site`` installs from wheels without a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from activemq_fleet.artifacts import fetch_jar_directory
from activemq_fleet.releases import Release
from tests import waiting
from tests.hosts import wheels
from tests.hosts.brokers import BASE, broker_report, journal_of
from tests.hosts.machines import Machine, MachinesError, Rack
from tests.hosts.playbooks import NODES, RELEASE, Controller, checked_output, environment
from tests.situations import in_every_situation
from tests.waiting import LateError

UNIT = "activemq-agent.service"
INDEX = "index.service"
"""A web server on the host of the agent, which is the index of pip."""
HOST, ADDRESS = "kiosk01.example.com", "10.77.0.33"
STATE = "/var/lib/activemq-agent"
PROGRAM = "/opt/activemq-agent/bin/activemq-agent"
EXPOSURE = 1.5
"""The highest exposure of the unit that systemd-analyze may report, of 10."""
DRAIN = 20.0
"""The default time in seconds in which a stopping agent sends its outbox."""
HANDLER = f"""#!/bin/sh
# Append the event and an empty line.
cat >> {STATE}/handled
echo >> {STATE}/handled
"""


@dataclass(frozen=True, slots=True)
class Kiosk:
    """A host that runs an agent, and the controller that runs ``site`` for it."""

    controller: Controller
    machine: Machine
    inventory: Path
    wheelhouse: Path

    def site(self, *arguments: str, code: int = 0) -> str:
        """Run the playbook ``site``; return its output."""
        return checked_output(self.controller.run_playbook("site", f"--inventory={self.inventory}", *arguments), code)

    def agent(self, *arguments: str) -> str:
        """Return the output of a command of the agent, as the user of the agent."""
        return self.machine.run("runuser", "-u", "activemq-agent", "--", PROGRAM, *arguments)

    def python(self, *lines: str) -> str:
        """Return the output of a Python program of the user of the agent; EVENTS contains 300 events."""
        script = "; ".join(("EVENTS = [('kiosk/HelloEvent', '{}')] * 300", *lines))
        python = PROGRAM.replace("bin/activemq-agent", "bin/python")
        return self.machine.run("runuser", "-u", "activemq-agent", "--", python, "-c", script)

    def unit_properties(self, *properties: str) -> dict[str, str]:
        properties_text = self.machine.run("systemctl", "show", UNIT, *(f"--property={name}" for name in properties))
        return dict(line.split("=", 1) for line in properties_text.splitlines())

    def log_records(self) -> list[dict[str, Any]]:
        """Return the records of the agent's log, newest last, without lines of systemd."""
        return [json.loads(line) for line in journal_of(self.machine, UNIT).splitlines() if line.startswith("{")]

    def connections(self) -> list[str]:
        """Return the brokers to which the agent has connected, in order."""
        return [record["broker"] for record in self.log_records() if record["event"] == "connected"]

    def handled_ids(self) -> list[str]:
        """Return the ids of events that the handler received, in order."""
        handled_lines = self.machine.attempt("cat", f"{STATE}/handled").stdout
        # The handler may be writing the last line.
        return [json.loads(line)["event_id"] for line in handled_lines.split("\n")[:-1] if line.strip()]

    def wait_until(self, condition: Callable[[], object], what: str) -> float:
        """Wait until a condition holds; return the seconds. LateError contains the state of agent and brokers."""
        began = time.monotonic()
        waiting.wait_until(condition, what, seen=self.report, expected_errors=(MachinesError,))
        return time.monotonic() - began

    def report(self) -> str:
        """Return the state of the agent and the brokers, for the error of a wait that timed out."""
        script = f"systemctl status --no-pager --lines=0 {UNIT}; journalctl --unit {UNIT} --no-pager --lines=25"
        agent_state = self.machine.attempt("bash", "-c", script).stdout
        return "\n".join([agent_state, *(broker_report(self.controller.rack[name]) for name in NODES)])


@pytest.fixture(scope="module")
def kiosk(rack: Rack, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Kiosk:
    """Install and start a pair and the host of an agent with the playbook ``site``."""
    directory = tmp_path_factory.mktemp("kiosk")
    rack.up({**NODES, HOST: ADDRESS}, shares=["/srv/activemq", "/srv/wheels"], owner=os.getpid())
    rack.serve(fetch_jar_directory(Release.of(RELEASE)))
    wheelhouse = wheels.build_wheels(directory / "wheelhouse")
    handlers = directory / "handlers.d"
    handlers.mkdir()
    (handlers / "HelloEvent").write_text(HANDLER)
    inventory = directory / "agents.yml"
    inventory.write_text(yaml.safe_dump({"activemq_agents": {"hosts": {HOST: variables(rack, handlers, wheelhouse)}}}))
    rack[HOST].run("ip", "route", "del", "default")
    # The web server logs each request of pip for its index, and has no package.
    rack[HOST].run("systemd-run", f"--unit={INDEX}", "python3", "-um", "http.server", "--bind=127.0.0.1", "8099")
    rack[HOST].run("tee", "/etc/pip.conf", stdin="[global]\nindex-url = http://127.0.0.1:8099/simple\nretries = 0\n")
    kiosk = Kiosk(Controller(repository, rack), rack[HOST], inventory, wheelhouse)
    kiosk.site()
    return kiosk


def variables(rack: Rack, handlers: Path, wheelhouse: Path) -> dict[str, Any]:
    return {
        "ansible_host": ADDRESS,
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        **{f"ansible_{program}_executable": f"{rack.state}/{program}" for program in ("ssh", "scp", "sftp")},
        "activemq_agent_username": "kiosk",
        "activemq_agent_password": "made-up-kiosk-password",
        "activemq_agent_topics": ["kiosk/#"],
        "activemq_agent_handlers": "/etc/activemq-agent-handlers.d",
        "activemq_agent_handlers_source": str(handlers),
        "activemq_agent_wheelhouse": str(wheelhouse),
        "activemq_agent_metrics_address": "127.0.0.1:9464",
    }


def unsent_events(kiosk: Kiosk) -> dict[str, int]:
    """Return the numbers of accepted events without an acknowledgment, by table, for an agent that does not run."""
    output = kiosk.python(
        "import sqlite3, json",
        f"store = sqlite3.connect('{STATE}/store.db')",
        "names = ('outbox', 'unconfirmed')",
        "print(json.dumps({n: store.execute('select count(*) from ' + n).fetchone()[0] for n in names}))",
    )
    event_counts: dict[str, int] = json.loads(output)
    return event_counts


@pytest.fixture
def connected(kiosk: Kiosk) -> Kiosk:
    """Start the agent, and wait until it is subscribed."""
    kiosk.machine.run("systemctl", "start", UNIT)
    publish_and_wait(kiosk)
    return kiosk


def publish_and_wait(kiosk: Kiosk) -> float:
    """Publish an event and wait until it is handled; return the seconds."""
    name = kiosk.agent("publish", "kiosk/HelloEvent", json.dumps({"at": time.time()})).strip()
    return kiosk.wait_until(lambda: name in kiosk.handled_ids(), f"{name} is handled")


def test_agent_is_installed_from_wheelhouse_on_host_without_network(kiosk: Kiosk) -> None:
    assert "default" not in kiosk.machine.run("ip", "route")
    assert "GET" not in journal_of(kiosk.machine, INDEX)
    pip = ("/opt/activemq-agent/bin/python", "-m", "pip", "--disable-pip-version-check")
    installed = json.loads(kiosk.machine.run(*pip, "list", "--format=json"))
    assert {entry["name"].replace("_", "-") for entry in installed} - {"pip", "setuptools"} == {
        "activemq-agent", "click", "paho-mqtt", "prometheus-client", "structlog",
    }  # fmt: skip
    # Without --no-index, pip queries its index, and the web server logs this.
    kiosk.machine.attempt(*pip, "download", "--dest=/tmp/wheels", "structlog")
    assert "GET /simple/structlog/" in journal_of(kiosk.machine, INDEX)


def test_agent_starts_and_connects_to_preferred_master(connected: Kiosk) -> None:
    # The watchdog kills the agent if the machine is frozen for half a minute.
    killed = journal_of(connected.machine, UNIT).count("Watchdog timeout")
    assert connected.unit_properties("Type", "ActiveState", "SubState", "NRestarts") == {
        "Type": "notify",
        "ActiveState": "active",
        "SubState": "running",
        "NRestarts": str(killed),
    }
    assert set(connected.connections()) == {"orders-mq01-a.example.com:1883"}


def test_systemd_analyze_reports_nothing_about_agent_unit(connected: Kiosk) -> None:
    verified = connected.machine.attempt("systemd-analyze", "verify", f"/etc/systemd/system/{UNIT}")
    assert verified.returncode == 0, verified.stderr
    assert verified.stdout == ""
    assert verified.stderr == ""


def test_systemd_analyze_reports_low_exposure_of_agent_unit(connected: Kiosk) -> None:
    threshold = f"--threshold={EXPOSURE * 10:.0f}"
    rated = connected.machine.attempt("systemd-analyze", "security", threshold, "--no-pager", UNIT)
    print(rated.stdout[-300:])
    assert rated.returncode == 0


def test_only_root_and_agent_can_read_password_of_agent(connected: Kiosk) -> None:
    permissions = connected.machine.run("stat", "--dereference", "--format=%a %U %G", "/etc/activemq-agent/mb.password")
    assert permissions == "640 root activemq-agent\n"
    assert "made-up-kiosk-password" not in connected.machine.journal()


def test_check_of_agent_passes_for_active_node_and_fails_for_standby(connected: Kiosk) -> None:
    outputs: list[str] = []

    def check_results() -> list[list[str]]:
        outputs.append(connected.agent("check"))
        return [line.split()[1:4] for line in outputs[-1].splitlines()[-2:]]

    results = [["connection", "test", "failed:"], ["connection", "test", "passed"]]
    connected.wait_until(lambda: sorted(check_results()) == results, f"one node passes and the other fails: {outputs}")
    assert "made-up-kiosk-password" not in "".join(outputs)


def test_agent_serves_metrics(connected: Kiosk) -> None:
    script = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9464/metrics').read().decode())"
    connected.wait_until(
        lambda: "activemq_agent_" in connected.machine.run("python3", "-c", script), "the agent serves metrics"
    )


def test_systemd_watchdog_restarts_frozen_agent(connected: Kiosk) -> None:
    restarts_before = int(connected.unit_properties("NRestarts")["NRestarts"])
    killed = journal_of(connected.machine, UNIT).count("Watchdog timeout")
    connected.machine.run("systemctl", "kill", "--signal=STOP", "--kill-who=main", UNIT)
    seconds = connected.wait_until(
        lambda: int(connected.unit_properties("NRestarts")["NRestarts"]) > restarts_before,
        "systemd has restarted the agent",
    )
    print(f"restarted after {seconds:.0f} s")
    assert journal_of(connected.machine, UNIT).count("Watchdog timeout") > killed
    connected.machine.run("systemctl", "start", UNIT)  # returns when the restart has ended
    publish_and_wait(connected)


def test_agent_sends_accepted_events_before_it_stops(connected: Kiosk) -> None:
    event_ids = connected.python("from activemq_agent import Client", "print(*Client().publish_all(EVENTS))").split()
    began = time.monotonic()
    connected.machine.run("systemctl", "stop", UNIT)
    seconds, unit = time.monotonic() - began, connected.unit_properties("ActiveState", "Result")
    unsent = unsent_events(connected)
    if seconds >= DRAIN and (any(unsent.values()) or unit["Result"] != "success"):
        raise LateError(
            f"the agent did not send its outbox within {seconds:.0f} s: {unit}, {unsent}\n{connected.report()}"
        )
    assert unit == {"ActiveState": "inactive", "Result": "success"}
    assert unsent == {"outbox": 0, "unconfirmed": 0}
    connected.machine.run("systemctl", "start", UNIT)
    connected.wait_until(lambda: set(event_ids) <= set(connected.handled_ids()), "all events are handled")
    assert [event_id for event_id in connected.handled_ids() if event_id in set(event_ids)] == event_ids


@in_every_situation
def test_second_run_of_site_does_not_change_or_restart_agent(connected: Kiosk) -> None:
    process_before = connected.unit_properties("MainPID")
    output = connected.site()
    assert output.count("changed=0") == output.count("changed=")
    assert connected.unit_properties("MainPID") == process_before


def test_agent_reconnects_to_pair_after_kill_of_active_node(connected: Kiosk) -> None:
    connections_before = connected.connections()
    active = connected.controller.rack[connections_before[-1].partition(":")[0]]
    active.run("systemctl", "kill", "--signal=KILL", "activemq.service")
    print(f"handled again after {publish_and_wait(connected):.1f} s")
    later_connections = connected.connections()[len(connections_before) :]
    # Usually to the other node. On a busy machine, the killed broker may restart before its peer checks the lock.
    assert later_connections
    assert {broker.partition(":")[0] for broker in later_connections} <= NODES.keys()


@in_every_situation
def test_collect_gathers_evidence_of_brokers_and_agent_without_secrets(connected: Kiosk, tmp_path: Path) -> None:
    collected = connected.controller.run_playbook(
        "collect",
        f"--inventory={connected.inventory}",
        f"--extra-vars=activemq_collect_to={tmp_path}/found activemq_collect_dumps=always",
    )
    print(collected.stdout)
    assert collected.returncode == 0
    directories = {path.name: path for path in (tmp_path / "found").iterdir() if path.is_dir()}
    assert directories.keys() == {*NODES, HOST}
    files = {
        path: path.read_bytes() for directory in directories.values() for path in directory.rglob("*") if path.is_file()
    }
    assert not [path for path, content in files.items() if b"made-up" in content]
    assert "made-up" not in collected.stdout
    facts = {name: json.loads((directory / "host.json").read_text()) for name, directory in directories.items()}
    (active,) = (name for name in NODES if facts[name]["state"] == "active")
    assert len(list(directories[active].glob("threads/[123].txt"))) == 3, facts[active]["notes"]
    assert b" started | " in files[directories[active] / "activemq.log"]
    assert b"Full thread dump" in files[directories[active] / "journal/activemq.service.log"]
    for name in NODES:
        assert facts[name]["release"] == RELEASE
        assert b"ExecStart=" in files[directories[name] / "units/activemq.service"]
        states = json.loads(files[directories[name] / "configuration/.fleet-found.json"])
        assert {entry["status"] for entry in states.values()} == {"same"}
    assert b'"kind":"handled"' in b"".join(path.read_bytes() for path in directories[HOST].glob("agent/*.jsonl"))
    assert files[directories[HOST] / "configuration/mb.password"] == b"@activemq_agent_password@\n"


def test_status_shows_brokers_and_agent_with_their_findings(connected: Kiosk) -> None:
    active, _ = connected.controller.active_and_other_node()
    exit_code, report = status(connected)
    (agent,) = report["agents"]
    assert exit_code == 0, report["findings"]
    assert agent["state"] == "running"
    assert agent["outbox"] == 0
    assert agent["publisher"].partition(":")[0] == active.name
    (active_row,) = (row for row in report["brokers"] if row["state"] == "active")
    assert active_row["host"] == active.name
    assert active_row["holds_lock"] is True
    assert active_row["usage"]["connections"] > 1

    log4j = f"{BASE}/current/conf/log4j2.properties"
    active.run("bash", "-c", f"cp -p {log4j} /root/before && echo '# by hand' >> {log4j}")
    active.run("systemctl", "kill", "--signal=STOP", "activemq")
    try:
        exit_code, report = status(connected)
    finally:
        active.run("systemctl", "kill", "--signal=CONT", "activemq")
        active.run("cp", "-p", "/root/before", log4j)
    assert exit_code == 1
    assert {("frozen", active.name), ("no-active", next(iter(NODES))), ("changed-by-hand", active.name)} <= {
        (finding["rule"], finding["host"]) for finding in report["findings"]
    }
    connected.controller.exchange("watch", *NODES.values())


def status(kiosk: Kiosk) -> tuple[int, dict[str, Any]]:
    """Return the exit code and the report of ``activemq-fleet status``."""
    controller = kiosk.controller
    inventory = controller.repository / "molecule" / controller.scenario / "inventory"
    # A busy machine takes longer than the default of 20 s after which a host is unreachable.
    options = ["--format", "json", "--timeout", "240"]
    command = ["status", "-i", str(inventory), "-i", str(kiosk.inventory), *options]
    completed = subprocess.run(
        [sys.executable, "-m", "activemq_fleet", *command],
        env=environment(controller.repository, controller.rack) | dict(controller.variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.stderr == ""
    return completed.returncode, json.loads(completed.stdout)


@in_every_situation
def test_site_restarts_agent_after_change_of_files(connected: Kiosk) -> None:
    process_before = connected.unit_properties("MainPID")
    connected.site("--extra-vars", '{"activemq_agent_log_level": "debug"}')
    assert connected.unit_properties("MainPID") != process_before
    publish_and_wait(connected)


@in_every_situation
def test_agent_reports_unsupported_key_once_and_does_not_restart(connected: Kiosk) -> None:
    restarts = connected.unit_properties("NRestarts")
    try:
        output = connected.site("--extra-vars", '{"activemq_agent_options": {"connecting.cup": 1}}', code=2)
        assert "activemq-agent.service" in output
        assert "the agent does not support the key 'connecting.cup' of agent.conf: if you mean " in journal_of(
            connected.machine, UNIT
        )
        assert connected.unit_properties("ActiveState", "NRestarts") == {"ActiveState": "failed", **restarts}
    finally:
        connected.site()
    publish_and_wait(connected)


@in_every_situation
def test_requirements_of_single_wheel_come_from_find_links_of_pip_conf(connected: Kiosk) -> None:
    shutil.copytree(connected.wheelhouse, connected.controller.rack.shared("/srv/wheels"), dirs_exist_ok=True)
    connected.machine.run("tee", "/etc/pip.conf", stdin="[global]\nno-index = true\nfind-links = /srv/wheels\n")
    (wheel,) = connected.wheelhouse.glob("activemq_agent-*.whl")
    connected.site(
        "--extra-vars", json.dumps({"activemq_agent_wheelhouse": None, "activemq_agent_package": str(wheel)})
    )
    assert str(wheel) in connected.machine.run("cat", "/opt/activemq-agent/.fleet-installed")
    publish_and_wait(connected)
