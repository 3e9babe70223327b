"""The agent's unit under a real systemd, beside a real pair: installed by ``site``, from wheels, without a network."""

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
"""A web server on the agent's host, which pip there takes for its index."""
HOST, ADDRESS = "kiosk01.example.com", "10.77.0.33"
STATE = "/var/lib/activemq-agent"
PROGRAM = "/opt/activemq-agent/bin/activemq-agent"
EXPOSURE = 1.5
"""Of 10: what systemd-analyze may find the unit to be exposed to."""
DRAIN = 20.0
"""Seconds that a stopping agent gives its outbox, by default."""
HANDLER = f"""#!/bin/sh
# A line an event, with what it was.
cat >> {STATE}/handled
echo >> {STATE}/handled
"""


@dataclass(frozen=True, slots=True)
class Kiosk:
    """A host that runs an agent, and whoever plays ``site`` for it."""

    controller: Controller
    machine: Machine
    inventory: Path
    wheelhouse: Path

    def site(self, *arguments: str, code: int = 0) -> str:
        return checked_output(self.controller.run_playbook("site", f"--inventory={self.inventory}", *arguments), code)

    def agent(self, *arguments: str) -> str:
        """What the command says to the agent's own user."""
        return self.machine.run("runuser", "-u", "activemq-agent", "--", PROGRAM, *arguments)

    def python(self, *lines: str) -> str:
        """What a program of the agent's own user and Python says; EVENTS are 300 of them."""
        script = "; ".join(("EVENTS = [('kiosk/HelloEvent', '{}')] * 300", *lines))
        python = PROGRAM.replace("bin/activemq-agent", "bin/python")
        return self.machine.run("runuser", "-u", "activemq-agent", "--", python, "-c", script)

    def shown(self, *properties: str) -> dict[str, str]:
        text = self.machine.run("systemctl", "show", UNIT, *(f"--property={name}" for name in properties))
        return dict(line.split("=", 1) for line in text.splitlines())

    def said(self) -> list[dict[str, Any]]:
        """The agent's log, newest last; lines that are systemd's own are left out."""
        return [json.loads(line) for line in journal_of(self.machine, UNIT).splitlines() if line.startswith("{")]

    def connections(self) -> list[str]:
        """The brokers that the agent has had a connection with, in order."""
        return [record["broker"] for record in self.said() if record["event"] == "connected"]

    def handled(self) -> list[str]:
        """Ids of events that the handler was given, in order."""
        text = self.machine.attempt("cat", f"{STATE}/handled").stdout
        # The handler's last line may just be written.
        return [json.loads(line)["event_id"] for line in text.split("\n")[:-1] if line.strip()]

    def wait_until(self, condition: Callable[[], object], what: str) -> float:
        """Wait until it holds; how many seconds that took. LateError with what agent and brokers say."""
        began = time.monotonic()
        waiting.wait_until(condition, what, seen=self.look, expected_errors=(MachinesError,))
        return time.monotonic() - began

    def look(self) -> str:
        script = f"systemctl status --no-pager --lines=0 {UNIT}; journalctl --unit {UNIT} --no-pager --lines=25"
        told = self.machine.attempt("bash", "-c", script).stdout
        return "\n".join([told, *(broker_report(self.controller.rack[name]) for name in NODES)])


@pytest.fixture(scope="module")
def kiosk(rack: Rack, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Kiosk:
    """A pair and an agent's host, installed and started by the playbook ``site``."""
    place = tmp_path_factory.mktemp("kiosk")
    rack.up({**NODES, HOST: ADDRESS}, shares=["/srv/activemq", "/srv/wheels"], owner=os.getpid())
    rack.serve(fetch_jar_directory(Release.of(RELEASE)))
    wheelhouse = wheels.build_wheels(place / "wheelhouse")
    handlers = place / "handlers.d"
    handlers.mkdir()
    (handlers / "HelloEvent").write_text(HANDLER)
    inventory = place / "agents.yml"
    inventory.write_text(yaml.safe_dump({"activemq_agents": {"hosts": {HOST: variables(rack, handlers, wheelhouse)}}}))
    rack[HOST].run("ip", "route", "del", "default")
    # Whatever pip asks an index for is seen there, and is not found.
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


def left_in_the_store(kiosk: Kiosk) -> dict[str, int]:
    """Rows that were accepted and are not known to be with a broker; for an agent that does not run."""
    found = kiosk.python(
        "import sqlite3, json",
        f"store = sqlite3.connect('{STATE}/store.db')",
        "names = ('outbox', 'unconfirmed')",
        "print(json.dumps({n: store.execute('select count(*) from ' + n).fetchone()[0] for n in names}))",
    )
    rows: dict[str, int] = json.loads(found)
    return rows


@pytest.fixture
def connected(kiosk: Kiosk) -> Kiosk:
    """The agent runs and is subscribed, whatever the test before did to it."""
    kiosk.machine.run("systemctl", "start", UNIT)
    greet(kiosk)
    return kiosk


def greet(kiosk: Kiosk) -> float:
    """Publish an event and see it handled; seconds from one to the other."""
    name = kiosk.agent("publish", "kiosk/HelloEvent", json.dumps({"at": time.time()})).strip()
    return kiosk.wait_until(lambda: name in kiosk.handled(), f"{name} is handled")


def test_the_agent_is_installed_from_the_wheelhouse_on_a_host_without_a_network(kiosk: Kiosk) -> None:
    assert "default" not in kiosk.machine.run("ip", "route")
    assert "GET" not in journal_of(kiosk.machine, INDEX)
    pip = ("/opt/activemq-agent/bin/python", "-m", "pip", "--disable-pip-version-check")
    installed = json.loads(kiosk.machine.run(*pip, "list", "--format=json"))
    assert {entry["name"].replace("_", "-") for entry in installed} - {"pip", "setuptools"} == {
        "activemq-agent", "click", "paho-mqtt", "prometheus-client", "structlog",
    }  # fmt: skip
    # Without --no-index pip asks its index, and that is seen.
    kiosk.machine.attempt(*pip, "download", "--dest=/tmp/wheels", "structlog")
    assert "GET /simple/structlog/" in journal_of(kiosk.machine, INDEX)


def test_the_agent_starts_connects_to_the_preferred_master_and_handles(connected: Kiosk) -> None:
    # A machine that stands still for half a minute has its watchdog end it.
    killed = journal_of(connected.machine, UNIT).count("Watchdog timeout")
    assert connected.shown("Type", "ActiveState", "SubState", "NRestarts") == {
        "Type": "notify",
        "ActiveState": "active",
        "SubState": "running",
        "NRestarts": str(killed),
    }
    assert set(connected.connections()) == {"orders-mq01-a.example.com:1883"}


def test_systemd_finds_nothing_to_say_about_the_unit(connected: Kiosk) -> None:
    done = connected.machine.attempt("systemd-analyze", "verify", f"/etc/systemd/system/{UNIT}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_unit_is_hardly_exposed(connected: Kiosk) -> None:
    threshold = f"--threshold={EXPOSURE * 10:.0f}"
    done = connected.machine.attempt("systemd-analyze", "security", threshold, "--no-pager", UNIT)
    print(done.stdout[-300:])
    assert done.returncode == 0


def test_the_password_is_for_root_and_the_agent_only(connected: Kiosk) -> None:
    found = connected.machine.run("stat", "--dereference", "--format=%a %U %G", "/etc/activemq-agent/mb.password")
    assert found == "640 root activemq-agent\n"
    assert "made-up-kiosk-password" not in connected.machine.journal()


def test_check_tries_both_nodes_and_finds_one_that_serves(connected: Kiosk) -> None:
    told: list[str] = []

    def found() -> list[list[str]]:
        told.append(connected.agent("check"))
        return [line.split()[1:4] for line in told[-1].splitlines()[-2:]]

    results = [["connection", "test", "failed:"], ["connection", "test", "passed"]]
    connected.wait_until(lambda: sorted(found()) == results, f"one serves and one does not, as in {told}")
    assert "made-up-kiosk-password" not in "".join(told)


def test_metrics_are_there_to_be_fetched(connected: Kiosk) -> None:
    script = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:9464/metrics').read().decode())"
    connected.wait_until(
        lambda: "activemq_agent_" in connected.machine.run("python3", "-c", script), "metrics are to be fetched"
    )


def test_an_agent_that_stands_still_is_restarted_by_the_watchdog(connected: Kiosk) -> None:
    before = int(connected.shown("NRestarts")["NRestarts"])
    killed = journal_of(connected.machine, UNIT).count("Watchdog timeout")
    connected.machine.run("systemctl", "kill", "--signal=STOP", "--kill-who=main", UNIT)
    took = connected.wait_until(lambda: int(connected.shown("NRestarts")["NRestarts"]) > before, "it is restarted")
    print(f"restarted after {took:.0f} s")
    assert journal_of(connected.machine, UNIT).count("Watchdog timeout") > killed
    connected.machine.run("systemctl", "start", UNIT)  # returns when the restart is done
    greet(connected)


def test_a_stop_sends_what_was_accepted_first(connected: Kiosk) -> None:
    names = connected.python("from activemq_agent import Client", "print(*Client().publish_all(EVENTS))").split()
    began = time.monotonic()
    connected.machine.run("systemctl", "stop", UNIT)
    took, found = time.monotonic() - began, connected.shown("ActiveState", "Result")
    left = left_in_the_store(connected)
    if took >= DRAIN and (any(left.values()) or found["Result"] != "success"):
        raise LateError(f"the time for the outbox ran out: {found}, {left} after {took:.0f} s\n{connected.look()}")
    assert found == {"ActiveState": "inactive", "Result": "success"}
    assert left == {"outbox": 0, "unconfirmed": 0}
    connected.machine.run("systemctl", "start", UNIT)
    connected.wait_until(lambda: set(names) <= set(connected.handled()), "all of them are handled")
    assert [name for name in connected.handled() if name in set(names)] == names


@in_every_situation
def test_a_second_run_of_site_changes_nothing_and_restarts_nothing(connected: Kiosk) -> None:
    before = connected.shown("MainPID")
    said = connected.site()
    assert said.count("changed=0") == said.count("changed=")
    assert connected.shown("MainPID") == before


def test_the_agent_stays_with_its_pair_when_the_active_node_dies(connected: Kiosk) -> None:
    before = connected.connections()
    active = connected.controller.rack[before[-1].partition(":")[0]]
    active.run("systemctl", "kill", "--signal=KILL", "activemq.service")
    print(f"handled again after {greet(connected):.1f} s")
    after = connected.connections()[len(before) :]
    # Mostly the other node: a busy machine may have started the killed one before its peer looked.
    assert after
    assert {broker.partition(":")[0] for broker in after} <= NODES.keys()


@in_every_situation
def test_collect_brings_what_brokers_and_agent_have_to_say_and_no_secret(connected: Kiosk, tmp_path: Path) -> None:
    done = connected.controller.run_playbook(
        "collect",
        f"--inventory={connected.inventory}",
        f"--extra-vars=activemq_collect_to={tmp_path}/found activemq_collect_dumps=always",
    )
    print(done.stdout)
    assert done.returncode == 0
    found = {path.name: path for path in (tmp_path / "found").iterdir() if path.is_dir()}
    assert found.keys() == {*NODES, HOST}
    texts = {path: path.read_bytes() for place in found.values() for path in place.rglob("*") if path.is_file()}
    assert not [path for path, content in texts.items() if b"made-up" in content]
    assert "made-up" not in done.stdout
    facts = {name: json.loads((place / "host.json").read_text()) for name, place in found.items()}
    (active,) = (name for name in NODES if facts[name]["state"] == "active")
    assert len(list(found[active].glob("threads/[123].txt"))) == 3, facts[active]["notes"]
    assert b" started | " in texts[found[active] / "activemq.log"]
    assert b"Full thread dump" in texts[found[active] / "journal/activemq.service.log"]
    for name in NODES:
        assert facts[name]["release"] == RELEASE
        assert b"ExecStart=" in texts[found[name] / "units/activemq.service"]
        states = json.loads(texts[found[name] / "configuration/.fleet-found.json"])
        assert {entry["status"] for entry in states.values()} == {"same"}
    assert b'"kind":"handled"' in b"".join(path.read_bytes() for path in found[HOST].glob("agent/*.jsonl"))
    assert texts[found[HOST] / "configuration/mb.password"] == b"@activemq_agent_password@\n"


def test_status_shows_brokers_and_agent_and_names_what_is_wrong_with_them(connected: Kiosk) -> None:
    active, _ = connected.controller.active_and_other_node()
    code, found = status(connected)
    (agent,) = found["agents"]
    assert code == 0, found["findings"]
    assert (agent["state"], agent["outbox"], agent["publisher"].partition(":")[0]) == ("running", 0, active.name)
    (serving,) = (row for row in found["brokers"] if row["state"] == "active")
    assert (serving["host"], serving["holds_lock"], serving["usage"]["connections"] > 1) == (active.name, True, True)

    log4j = f"{BASE}/current/conf/log4j2.properties"
    active.run("bash", "-c", f"cp -p {log4j} /root/before && echo '# by hand' >> {log4j}")
    active.run("systemctl", "kill", "--signal=STOP", "activemq")
    try:
        code, found = status(connected)
    finally:
        active.run("systemctl", "kill", "--signal=CONT", "activemq")
        active.run("cp", "-p", "/root/before", log4j)
    assert code == 1
    assert {("frozen", active.name), ("no-active", next(iter(NODES))), ("changed-by-hand", active.name)} <= {
        (one["rule"], one["host"]) for one in found["findings"]
    }
    connected.controller.exchange("watch", *NODES.values())


def status(kiosk: Kiosk) -> tuple[int, dict[str, Any]]:
    """Exit code and answer of ``activemq-fleet status``."""
    controller = kiosk.controller
    inventory = controller.repository / "molecule" / controller.scenario / "inventory"
    # A busy machine needs longer than the 20 s after which a host counts as unreachable by default.
    options = ["--format", "json", "--timeout", "240"]
    command = ["status", "-i", str(inventory), "-i", str(kiosk.inventory), *options]
    done = subprocess.run(
        [sys.executable, "-m", "activemq_fleet", *command],
        env=environment(controller.repository, controller.rack) | dict(controller.variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


@in_every_situation
def test_changed_files_restart_the_agent(connected: Kiosk) -> None:
    before = connected.shown("MainPID")
    connected.site("--extra-vars", '{"activemq_agent_log_level": "debug"}')
    assert connected.shown("MainPID") != before
    greet(connected)


@in_every_situation
def test_a_key_that_the_agent_does_not_know_is_told_once(connected: Kiosk) -> None:
    restarts = connected.shown("NRestarts")
    try:
        said = connected.site("--extra-vars", '{"activemq_agent_options": {"connecting.cup": 1}}', code=2)
        assert "activemq-agent.service" in said
        assert "the agent does not support the key 'connecting.cup' of agent.conf: if you mean " in journal_of(
            connected.machine, UNIT
        )
        assert connected.shown("ActiveState", "NRestarts") == {"ActiveState": "failed", **restarts}
    finally:
        connected.site()
    greet(connected)


@in_every_situation
def test_what_a_wheel_alone_needs_comes_from_where_pip_conf_says(connected: Kiosk) -> None:
    shutil.copytree(connected.wheelhouse, connected.controller.rack.shared("/srv/wheels"), dirs_exist_ok=True)
    connected.machine.run("tee", "/etc/pip.conf", stdin="[global]\nno-index = true\nfind-links = /srv/wheels\n")
    (wheel,) = connected.wheelhouse.glob("activemq_agent-*.whl")
    connected.site(
        "--extra-vars", json.dumps({"activemq_agent_wheelhouse": None, "activemq_agent_package": str(wheel)})
    )
    assert str(wheel) in connected.machine.run("cat", "/opt/activemq-agent/.fleet-installed")
    greet(connected)
