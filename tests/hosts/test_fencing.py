"""A pair with guards on hosts: a machine that stands still and goes on, and what playbooks do to the pair."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from activemq_fleet.artifacts import fetch_jar_directory
from activemq_fleet.node.fence import shared_store
from activemq_fleet.node.fence.old_generations import uncopied_messages
from activemq_fleet.node.fence.shared_store import SharedStore
from activemq_fleet.node.kahadb.openwire_message import parse_openwire_message
from activemq_fleet.releases import Release
from tests.hosts.brokers import (
    SHARE,
    UNIT,
    broker_report,
    journal_of,
    process,
    state,
    wait_for_pair,
    wait_for_places,
    wait_until,
)
from tests.hosts.machines import Machine, Rack
from tests.hosts.playbooks import RELEASE, Controller, checked_output
from tests.situations import in_every_situation

FENCED = ("-e", "activemq_fence=guard")


@pytest.fixture(scope="module")
def controller(rack: Rack, repository: Path) -> Controller:
    """A pair with guards, installed and started by the playbook ``site``."""
    controller = Controller(repository, rack)
    controller.start_pair(share=SHARE)
    checked_output(controller.run_playbook("site", *FENCED))
    return controller


@in_every_situation
def test_a_machine_that_was_paused_loses_nothing_unnamed_when_it_goes_on(controller: Controller) -> None:
    active, standby = wait_for_pair(controller.rack.machines)
    with controller.streaming(300) as found:
        active.freeze()
        time.sleep(1)
        lock = controller.rack.shared(SHARE) / "orders-mq01/fence/lock"
        owner = lock.stat()
        lock.unlink()
        lock.touch(0o640)
        os.chown(lock, owner.st_uid, owner.st_gid)
        wait_until(lambda: state(standby) == "active", "the other node takes over", standby)
        active.thaw()
        wait_until(lambda: state(active) == "standby", "the paused node comes back as standby", active, standby)
    # The broker that thawed may have acknowledged what it was sent until its guard killed it, within some 0.2 s: the
    # client sends its next message 0.02 s after each receipt.
    with pytest.MonkeyPatch.context() as patch:
        # The account of the broker, which has no other process here, cannot enter pytest's own directories.
        patch.setattr(shared_store, "raise_for_root_in_untrusted_directory", lambda _directory: None)
        store = SharedStore(str(controller.rack.shared(SHARE) / "orders-mq01"))
    wait_until(lambda: set(found["missing"]) <= bodies_in_old_generations(store), "what is missing is named", active)
    assert len(found["missing"]) <= 10, broker_report(active)
    assert found["sent"] > 0
    # A guard that was frozen between its look at the claims and its look at the lock names the lock.
    reasons = (
        "the other node took over the store (takeover 2 replaced takeover 1)",
        "the guard lost the lock of the pair's store",
    )
    assert any(f"the guard killed the broker, because {reason}" in journal_of(active) for reason in reasons)


def bodies_in_old_generations(store: SharedStore) -> set[str]:
    """The bodies of the messages that old generations hold and name."""
    messages = (
        message
        for number in store.generation_numbers_with_uncopied_messages()
        for message in uncopied_messages(store, number)
    )
    frames = [message.read_frame_of_uncopied_message() for message in messages]
    return {frame[slice(*parse_openwire_message(frame).content)].decode() for frame in frames}


@in_every_situation
def test_a_second_run_changes_nothing_and_a_restart_keeps_the_generation(controller: Controller) -> None:
    active, standby = wait_for_pair(controller.rack.machines)
    before = [process(machine) for machine in (active, standby)]
    said = checked_output(controller.run_playbook("site", *FENCED))
    assert [process(machine) for machine in (active, standby)] == before
    assert said.count("changed=0") >= 2
    checked_output(controller.run_playbook("restart", *FENCED, "-e", "activemq_target=orders-mq01"))
    wait_for_pair(controller.rack.machines)


@in_every_situation
def test_a_broker_without_its_guard_is_ended_and_comes_back(controller: Controller) -> None:
    active, standby = wait_for_pair(controller.rack.machines)
    active.run("systemctl", "kill", "--signal=KILL", "--kill-whom=main", UNIT)
    wait_until(lambda: state(standby) == "active", "the other node takes over", standby)
    wait_until(lambda: state(active) == "standby", "the node comes back as standby", active)


@in_every_situation
def test_a_switchover_there_and_back_loses_nothing(controller: Controller) -> None:
    active, standby = wait_for_pair(controller.rack.machines)
    with controller.streaming(300) as found:
        controller.switch_to(standby, *FENCED)
        wait_for_places(standby, active)
        controller.switch_to(active, *FENCED)
        wait_for_places(active, standby)
    assert found["missing"] == [], broker_report(active)
    assert found["sent"] > 0


@in_every_situation
def test_a_java_that_stands_still_is_killed_by_its_watchdog_and_loses_nothing(controller: Controller) -> None:
    active, standby = wait_for_pair(controller.rack.machines)
    with controller.streaming(300) as found:
        active.run("pkill", "-STOP", "--parent", process(active), "java")
        wait_until(lambda: state(standby) == "active", "the other node takes over", active, standby)
        wait_until(lambda: state(active) == "standby", "the node comes back as standby", active, standby)
    assert found["missing"] == [], broker_report(active)


@in_every_situation
def test_an_upgrade_and_the_way_back_under_load_lose_nothing(controller: Controller) -> None:
    wait_for_pair(controller.rack.machines)
    with controller.streaming(600) as found:
        for release in ("5.18.3", RELEASE):
            variables = {"activemq_release": release, "activemq_archive": str(fetch_jar_directory(Release.of(release)))}
            checked_output(controller.run_playbook("upgrade", *FENCED, "--extra-vars", json.dumps(variables)))
            wait_for_pair(controller.rack.machines)
    assert found["missing"] == [], broker_report(controller.rack.machines[0])


@in_every_situation
def test_collect_brings_what_the_guards_said_and_lists_the_generations(controller: Controller, tmp_path: Path) -> None:
    active, standby = wait_for_pair(controller.rack.machines)
    checked_output(controller.run_playbook("collect", *FENCED, "-e", f"activemq_collect_to={tmp_path}/collected"))
    collected = tmp_path / "collected" / active.name
    assert "guard: generation" in (collected / f"journal/{UNIT}.log").read_text()
    assert "\tgenerations/" in (collected / "listing/store.txt").read_text()
    told = [json.loads((tmp_path / "collected" / one.name / "host.json").read_text()) for one in (active, standby)]
    number = told[0]["broker"]["generation"]
    assert number == told[0]["broker"]["generation_in_force"] == told[1]["broker"]["generation_in_force"]
    assert told[1]["broker"]["generation"] is None
    assert number in [one["number"] for one in told[0]["generations"]]


@in_every_situation
def test_a_pair_loses_its_fence_and_gets_it_back_without_losing_a_message(controller: Controller) -> None:
    said = checked_output(controller.run_playbook("site"), 2)
    assert "guards made the store in" in said
    assert "Set activemq_fence to guard, or run the playbook unfence for pair orders-mq01 first" in said
    with controller.streaming(300) as found:
        checked_output(controller.run_playbook("unfence", *FENCED, "-e", "activemq_target=orders-mq01"))
        checked_output(controller.run_playbook("site"))
        active, _ = wait_for_pair(controller.rack.machines)
        assert not guards(active)
        checked_output(controller.run_playbook("site", *FENCED))
        active, standby = wait_for_pair(controller.rack.machines)
        assert guards(active)
        assert guards(standby)
    assert found["missing"] == [], broker_report(active)


def guards(machine: Machine) -> list[str]:
    """The guards that run on a machine."""
    return machine.attempt("pgrep", "-f", "activemq-guard --store").stdout.split()
