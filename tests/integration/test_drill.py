"""Drills of a real pair, by the library and by the playbook: clean only if no event is lost.

KILLS (default 2) sets the number of kills of the active broker. The rate is low, so that a busy machine still reaches
half of it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from activemq_fleet.audit.scraped_availability import read_availability
from activemq_fleet.drills.drill_verdict import drill_verdict_and_reasons
from activemq_fleet.drills.model import DrillResult
from activemq_fleet.errors import InputError, LabError
from activemq_fleet.lab.agent_load_generator import TwoAgentLoadGenerator, TwoAgentLoadSpec
from activemq_fleet.lab.drill import DrillOptions, run_drill
from activemq_fleet.lab.drill_files import pair_outcomes_and_faults
from activemq_fleet.lab.drill_run import METRICS
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.load_spec import make_load_spec
from activemq_fleet.reports.drill_page import drill_html_page
from activemq_fleet.topology import Fleet, Pair
from tests.integration.labs import pair, processes_of, write_inventory
from tests.integration.waiting import PATIENCE, until
from tests.situations import in_every_situation

REPOSITORY = Path(__file__).resolve().parents[2]
KILLS = int(os.environ.get("KILLS", "2"))
PAIR = "orders-mq01"
A, B = pair("orders")
RATE = 40.0
HAS_PROMETHEUS = shutil.which("prometheus-node-exporter") is not None
"""Whether Prometheus also scrapes the brokers of the drills: Debian's packages of Prometheus are installed together."""
PREFETCH = 100
"""Number of messages that a broker prefetches: these are in the sockets of a frozen subscriber."""


@pytest.fixture(scope="module")
def inventory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_inventory(
        tmp_path_factory.mktemp("inventory"),
        [A, B],
        release="6.3.1",
        lock_acquire_interval=1000,
        network_username="network",
        network_password="s3cret-network",
    )


@pytest.fixture(scope="module")
def lab(inventory: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Start the pair and yield its lab."""
    directory = tmp_path_factory.mktemp("drill") / "lab"
    with Lab.open([inventory], directory) as lab:
        lab.up(prometheus=HAS_PROMETHEUS)
        yield lab
    assert not processes_of(directory)


@pytest.fixture(autouse=True)
def both_nodes_running(lab: Lab) -> None:
    """Start stopped nodes before each test, because the previous test may have killed them."""
    for host in (A, B):
        if lab.state(host) == "stopped":
            lab.start(host)
    wait_active_and_standby(lab)


def agent_spec(fleet: Fleet, pair: Pair, rate: float) -> TwoAgentLoadSpec:
    spec = make_load_spec(fleet, pair, rate)
    assert isinstance(spec, TwoAgentLoadSpec)
    return spec


def wait_active_and_standby(lab: Lab) -> None:
    """Wait until one node is active and one is standby; a busy broker may not respond immediately."""

    def states() -> list[str]:
        return sorted(host.state for host in lab.status())

    until(
        lambda: states() == ["active", "standby"], PATIENCE, lambda: f"one node is active, one is standby: {states()}"
    )


def check_clean(result: DrillResult) -> None:
    """Check that the drill lost and duplicated no event, and that its verdict is clean."""
    assert result.event_count_of_all_pairs("lost") == 0, result.reasons
    assert result.event_count_of_all_pairs("duplicate") == 0, result.reasons
    if result.verdict != "clean":
        pytest.fail(f"{result.verdict}: {result.reasons}; {result.faults}; {result.accounts}")
    assert result.reasons == ()
    assert result.event_count_of_all_pairs("accepted") == result.event_count_of_all_pairs("handled") > 0


@in_every_situation
@pytest.mark.timeout(600 + 120 * KILLS)
def test_drill_of_healthy_pair_is_clean(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    drill_result = run_drill(lab, DrillOptions(faults=KILLS, rate=RATE, seed=1, patience=300))

    with capsys.disabled():
        interruptions = [fault.silence for fault in drill_result.faults_under_sufficient_load]
        print(f"\n{len(interruptions)} kills: {interruptions}; {drill_result.accounts}")
    check_clean(drill_result)
    assert len(drill_result.faults_under_sufficient_load) == KILLS
    # Each fault hits the node that was active then, also a fault under insufficient load.
    assert [fault.host for fault in drill_result.faults[1:]] == [fault.successor for fault in drill_result.faults[:-1]]
    assert all(
        fault.takeover and fault.silence and fault.publish_gap and fault.back
        for fault in drill_result.faults_under_sufficient_load
    )
    assert {span.state for span in drill_result.spans} >= {"active", "standby", "stopped", "starting"}
    assert drill_html_page(drill_result).count('class="fault-line"') == len(drill_result.faults)
    if HAS_PROMETHEUS:
        check_scraped_availability(lab, drill_result)
    wait_active_and_standby(lab)  # the lab ran before the drill, and still runs


def check_scraped_availability(lab: Lab, result: DrillResult) -> None:
    """Check that the scrapes show both nodes active in turn and no active node around each kill, and are stored."""
    stored = lab.directory / "drill" / METRICS
    assert result.scraped == read_availability(stored.read_bytes(), str(stored))
    assert {period.host for period in result.scraped.active} == {A, B}
    assert all(fault.unserved for fault in result.faults_under_sufficient_load), result.scraped
    assert "no active node, by scrapes" in drill_html_page(result)


@pytest.mark.timeout(600)
def test_deletion_of_store_with_acknowledged_events_is_reported_as_loss(lab: Lab, tmp_path: Path) -> None:
    """The subscriber is frozen, so that events wait in the store; then the files of the store are deleted."""
    fleet = lab.client_fleet
    sockets = tmp_path / "s"
    sockets.mkdir()
    spec = agent_spec(fleet, fleet.pairs_by_name[PAIR], RATE)
    with TwoAgentLoadGenerator(spec, tmp_path / "load", sockets) as generator:
        generator.start_load(120)
        until(
            lambda: generator.last_handled_time() > 0,
            PATIENCE,
            lambda: f"events are handled: {generator.subscriber.last_output_line}",
        )
        frozen_at = time.time()
        with FrozenSubscriber(generator):
            generator.start_publishing_burst(PREFETCH)
            until(
                lambda: acknowledged_since(generator, frozen_at) > 2 * PREFETCH,
                240,
                lambda: f"events wait in the store: {generator.publisher.last_output_line}",
            )
            active = lab.wait_active(PAIR)
            lab.kill(B if active == A else A)
            lab.kill(active)
            for path in Path(lab.fleet.broker(A).store_directory).glob("db*"):
                path.unlink()
            start_when_ports_are_free(lab, A)
        start_when_ports_are_free(lab, B)
        restarted_at = time.time()
        until(
            lambda: generator.last_handled_time() > restarted_at,
            PATIENCE,
            lambda: f"events are handled again: {generator.subscriber.last_output_line}",
        )
        generator.finish_load()
    account, _ = pair_outcomes_and_faults(tmp_path / "load", PAIR, "MQTT", [])

    assert account.lost > 0
    assert account.gaps == ()
    assert account.lost + account.handled == account.accepted
    assert drill_verdict_and_reasons([], [account], 0)[0] == "findings"


def start_when_ports_are_free(lab: Lab, host: str) -> None:
    """Start a host; retry while the last threads of its killed process still hold the ports."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return lab.start(host)
        except LabError as error:
            if "another program uses it" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.5)


class FrozenSubscriber:
    """A context in which the processes of the subscriber are frozen."""

    def __init__(self, generator: TwoAgentLoadGenerator) -> None:
        config = str(generator.subscriber.config)
        self._processes = [p for p in psutil.process_iter() if config in cmdline_of(p)]
        assert self._processes

    def __enter__(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGSTOP)

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGCONT)


def cmdline_of(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def acknowledged_since(generator: TwoAgentLoadGenerator, since: float) -> int:
    """Return the number of events that were acknowledged after a moment."""
    tail = generator.publisher.tail.add_counts_of_new_journal_records()
    return tail.count_records_between("acknowledged", since, time.time())


@pytest.mark.timeout(600)
def test_drill_restarts_standby_that_stops_at_takeover_and_reports_it(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill = lab.kill

    def kill_both_nodes(host: str) -> float:
        killed_at = kill(host)
        kill(B if host == A else A)
        return killed_at

    monkeypatch.setattr(lab, "kill", kill_both_nodes)
    result = run_drill(lab, DrillOptions(faults=1, rate=RATE, seed=1, patience=300))

    check_clean(result)
    (fault,) = result.faults_under_sufficient_load
    standby = B if fault.host == A else A
    assert fault.successor == standby
    assert f"the drill started {standby} again, as systemd does on a managed host: no node of pair {PAIR}" in str(
        fault.note
    )
    assert re.search(rf"{standby}: .* \(exit status 137, log: ", str(fault.note))


@in_every_situation
@pytest.mark.timeout(900)
def test_playbook_drills_lab_with_overlay_inventory(lab: Lab, inventory: Path, tmp_path: Path) -> None:
    report = tmp_path / "drill.html"
    command = [Path(sys.executable).with_name("ansible-playbook"), "activemq.fleet.drill", "-i", inventory]
    extra = {"activemq_drill_kills": 1, "activemq_drill_rate": RATE, "activemq_drill_report": str(report)}
    completed = subprocess.run(
        [*map(str, command), "-i", str(lab.overlay_inventory_path), "-e", json.dumps(extra)],
        env=os.environ | {"ANSIBLE_HOME": str(REPOSITORY / ".ansible"), "ANSIBLE_NOCOLOR": "true"},
        capture_output=True,
        text=True,
        check=False,
        timeout=860,
    )

    output = completed.stdout[-4000:] + completed.stderr
    if not report.exists():
        pytest.fail(f"the playbook wrote no report, so the drill proves nothing: {output}")
    check_clean(DrillResult.from_dict(json.loads(report.with_suffix(".json").read_text())))
    assert completed.returncode == 0, output
    assert "Nothing was lost: 1 fault" in completed.stdout
    assert "<h1>Nothing was lost" in report.read_text()
    wait_active_and_standby(lab)


@pytest.mark.timeout(400)
def test_drill_names_rejected_login_and_fails(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def spec_with_wrong_login(*arguments: Any) -> TwoAgentLoadSpec:
        spec = agent_spec(*arguments)
        return replace(spec, publisher={**spec.publisher, "mb.username": "till", "mb.password": "wrong"})

    monkeypatch.setattr("activemq_fleet.lab.drill_run.make_load_spec", spec_with_wrong_login)
    with pytest.raises(InputError, match=r"brokers reject the login of its test load: .*'till' or its password"):
        run_drill(lab, DrillOptions(faults=1, rate=RATE))


def test_playbook_refuses_drill_of_group_that_does_not_allow_it(inventory: Path, lab: Lab) -> None:
    pids = {host.host: host.pid for host in lab.status()}
    command = [Path(sys.executable).with_name("ansible-playbook"), "activemq.fleet.drill", "-i", inventory]
    completed = subprocess.run(
        [*map(str, command), "-i", str(lab.overlay_inventory_path), "-e", '{"activemq_drill_allowed": false}'],
        env=os.environ | {"ANSIBLE_HOME": str(REPOSITORY / ".ansible"), "ANSIBLE_NOCOLOR": "true"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert completed.returncode != 0
    assert "the drill is not allowed for group orders" in completed.stdout + completed.stderr
    assert {host.host: host.pid for host in lab.status()} == pids
