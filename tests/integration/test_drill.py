"""Drills of a real pair: clean where nothing is lost, not clean where something is, and by the playbook.

KILLS (2) sets how often the active broker is killed. The rate is low, so that a busy machine still reaches half of it.
"""

from __future__ import annotations

import json
import os
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
"""Whether the drills here are also seen from outside: Debian's packages of Prometheus are installed together."""
PREFETCH = 100
"""How many messages a broker sends ahead: so many are in the sockets of a subscriber that stands still."""


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
    """The pair, up."""
    directory = tmp_path_factory.mktemp("drill") / "lab"
    with Lab.open([inventory], directory) as lab:
        lab.up(prometheus=HAS_PROMETHEUS)
        yield lab
    assert not processes_of(directory)


@pytest.fixture(autouse=True)
def whole(lab: Lab) -> None:
    """Every test begins with both nodes, whatever the one before has left."""
    for host in (A, B):
        if lab.state(host) == "stopped":
            lab.start(host)
    wait_whole(lab)


def agent_spec(fleet: Fleet, pair: Pair, rate: float) -> TwoAgentLoadSpec:
    spec = make_load_spec(fleet, pair, rate)
    assert isinstance(spec, TwoAgentLoadSpec)
    return spec


def wait_whole(lab: Lab) -> None:
    """Until one is active and one stands by; a busy broker may not answer at once."""

    def states() -> list[str]:
        return sorted(host.state for host in lab.status())

    until(lambda: states() == ["active", "standby"], PATIENCE, lambda: f"a node is active, one waits: {states()}")


def check_clean(result: DrillResult) -> None:
    """Nothing was lost; and the drill has proved that."""
    assert (result.event_count_of_all_pairs("lost"), result.event_count_of_all_pairs("duplicate")) == (0, 0), (
        result.reasons
    )
    if result.verdict != "clean":
        pytest.fail(f"{result.verdict}: {result.reasons}; {result.faults}; {result.accounts}")
    assert result.reasons == ()
    assert result.event_count_of_all_pairs("accepted") == result.event_count_of_all_pairs("handled") > 0


@in_every_situation
@pytest.mark.timeout(600 + 120 * KILLS)
def test_a_drill_of_a_sound_pair_is_clean(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_drill(lab, DrillOptions(faults=KILLS, rate=RATE, seed=1, patience=300))

    with capsys.disabled():
        silences = [fault.silence for fault in result.faults_under_sufficient_load]
        print(f"\n{len(silences)} kills: {silences}; {result.accounts}")
    check_clean(result)
    assert len(result.faults_under_sufficient_load) == KILLS
    # Each time the one that was active then; one that does not count is a fault all the same.
    assert [fault.host for fault in result.faults[1:]] == [fault.successor for fault in result.faults[:-1]]
    assert all(
        fault.takeover and fault.silence and fault.publish_gap and fault.back
        for fault in result.faults_under_sufficient_load
    )
    assert {span.state for span in result.spans} >= {"active", "standby", "stopped", "starting"}
    assert drill_html_page(result).count('class="fault-line"') == len(result.faults)
    if HAS_PROMETHEUS:
        check_seen_from_outside(lab, result)
    wait_whole(lab)  # it ran before, and still runs


def check_seen_from_outside(lab: Lab, result: DrillResult) -> None:
    """Prometheus saw both nodes active in turn, and nobody around each kill; its answer is kept for an audit."""
    kept = lab.directory / "drill" / METRICS
    assert result.scraped == read_availability(kept.read_bytes(), str(kept))
    assert {period.host for period in result.scraped.active} == {A, B}
    assert all(fault.unserved for fault in result.faults_under_sufficient_load), result.scraped
    assert "no active node, by scrapes" in drill_html_page(result)


@pytest.mark.timeout(600)
def test_a_store_that_forgets_what_it_acknowledged_is_found_out(lab: Lab, tmp_path: Path) -> None:
    """The subscriber stands still, so that events wait in the store; the store is emptied, as no disk should be."""
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
        with frozen(generator):
            generator.start_publishing_burst(PREFETCH)
            until(
                lambda: waiting(generator, frozen_at) > 2 * PREFETCH,
                240,
                lambda: f"events wait: {generator.publisher.last_output_line}",
            )
            active = lab.wait_active(PAIR)
            lab.kill(B if active == A else A)
            lab.kill(active)
            for path in Path(lab.fleet.broker(A).store_directory).glob("db*"):
                path.unlink()
            bring_back(lab, A)
        bring_back(lab, B)
        again = time.time()
        until(
            lambda: generator.last_handled_time() > again,
            PATIENCE,
            lambda: f"handled again: {generator.subscriber.last_output_line}",
        )
        generator.finish_load()
    account, _ = pair_outcomes_and_faults(tmp_path / "load", PAIR, "MQTT", [])

    assert account.lost > 0
    assert account.gaps == ()
    assert account.lost + account.handled == account.accepted
    assert drill_verdict_and_reasons([], [account], 0)[0] == "findings"


def bring_back(lab: Lab, host: str) -> None:
    """Start it. The last threads of a process that was killed hold its ports for a moment longer than its first."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return lab.start(host)
        except LabError as error:
            if "another program uses it" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.5)


class frozen:  # noqa: N801 -- reads as what it does
    """The subscriber's processes stand still inside the block."""

    def __init__(self, generator: TwoAgentLoadGenerator) -> None:
        here = str(generator.subscriber.config)
        self._processes = [p for p in psutil.process_iter() if here in cmdline_of(p)]
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


def waiting(generator: TwoAgentLoadGenerator, since: float) -> int:
    """How many events were acknowledged since the subscriber stands still."""
    tail = generator.publisher.tail.count_new_journal_records()
    return tail.count_records_between("acknowledged", since, time.time())


@in_every_situation
@pytest.mark.timeout(900)
def test_the_playbook_drills_a_lab_through_its_layer(lab: Lab, inventory: Path, tmp_path: Path) -> None:
    report = tmp_path / "drill.html"
    command = [Path(sys.executable).with_name("ansible-playbook"), "activemq.fleet.drill", "-i", inventory]
    extra = {"activemq_drill_kills": 1, "activemq_drill_rate": RATE, "activemq_drill_report": str(report)}
    done = subprocess.run(
        [*map(str, command), "-i", str(lab.overlay_inventory_path), "-e", json.dumps(extra)],
        env=os.environ | {"ANSIBLE_HOME": str(REPOSITORY / ".ansible"), "ANSIBLE_NOCOLOR": "true"},
        capture_output=True,
        text=True,
        check=False,
        timeout=860,
    )

    said = done.stdout[-4000:] + done.stderr
    if not report.exists():
        pytest.fail(f"no drill came about, so nothing can be said about losses: {said}")
    check_clean(DrillResult.from_dict(json.loads(report.with_suffix(".json").read_text())))
    assert done.returncode == 0, said
    assert "Nothing was lost: 1 fault" in done.stdout
    assert "<h1>Nothing was lost" in report.read_text()
    wait_whole(lab)


@pytest.mark.timeout(400)
def test_a_login_that_brokers_refuse_is_named_before_anything_is_struck(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*arguments: Any) -> TwoAgentLoadSpec:
        right = agent_spec(*arguments)
        return replace(right, publisher={**right.publisher, "mb.username": "till", "mb.password": "wrong"})

    monkeypatch.setattr("activemq_fleet.lab.drill_run.make_load_spec", wrong)
    with pytest.raises(InputError, match=r"brokers reject the login of its test load: .*'till' or its password"):
        run_drill(lab, DrillOptions(faults=1, rate=RATE))


def test_a_group_that_is_not_there_to_be_tried_is_refused(inventory: Path, lab: Lab) -> None:
    before = {host.host: host.pid for host in lab.status()}
    command = [Path(sys.executable).with_name("ansible-playbook"), "activemq.fleet.drill", "-i", inventory]
    done = subprocess.run(
        [*map(str, command), "-i", str(lab.overlay_inventory_path), "-e", '{"activemq_drill_allowed": false}'],
        env=os.environ | {"ANSIBLE_HOME": str(REPOSITORY / ".ansible"), "ANSIBLE_NOCOLOR": "true"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert done.returncode != 0
    assert "the drill is not allowed for group orders" in done.stdout + done.stderr
    assert {host.host: host.pid for host in lab.status()} == before
