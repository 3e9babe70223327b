"""A pair with guards on hosts: a frozen machine that resumes, and playbooks for the pair."""

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
    """Install and start a pair with guards with the playbook ``site``."""
    controller = Controller(repository, rack)
    controller.start_pair(share=SHARE)
    checked_output(controller.run_playbook("site", *FENCED))
    return controller


@in_every_situation
def test_resumed_machine_names_each_message_that_it_loses(controller: Controller) -> None:
    active, standby = wait_for_pair(controller.rack.machines)
    with controller.streaming(300) as outcome:
        active.freeze()
        time.sleep(1)
        lock = controller.rack.shared(SHARE) / "orders-mq01/fence/lock"
        owner = lock.stat()
        lock.unlink()
        lock.touch(0o640)
        os.chown(lock, owner.st_uid, owner.st_gid)
        wait_until(lambda: state(standby) == "active", "the other node becomes active", standby)
        active.thaw()
        wait_until(lambda: state(active) == "standby", "the frozen node becomes standby", active, standby)
    # The thawed broker may have acknowledged messages until its guard killed it, within about 0.2 s: the client sends
    # its next message 0.02 s after each acknowledgment.
    with pytest.MonkeyPatch.context() as patch:
        # The account of the broker, which has no other process here, cannot enter the directories of pytest.
        patch.setattr(shared_store, "raise_if_root_would_change_untrusted_directory", lambda _directory: None)
        store = SharedStore(str(controller.rack.shared(SHARE) / "orders-mq01"))
    wait_until(
        lambda: set(outcome["missing"]) <= bodies_in_old_generations(store),
        "the old generations name all missing messages",
        active,
    )
    assert len(outcome["missing"]) <= 10, broker_report(active)
    assert outcome["sent"] > 0
    # A guard that was frozen between its checks of the claims and the lock reports the lock.
    reasons = (
        "the other node took over the store (takeover 2 replaced takeover 1)",
        "the guard lost the lock of the pair's store",
    )
    assert any(f"the guard killed the broker, because {reason}" in journal_of(active) for reason in reasons)


def bodies_in_old_generations(store: SharedStore) -> set[str]:
    """Return the bodies of the uncopied messages in old generations."""
    messages = (
        message
        for number in store.generation_numbers_with_uncopied_messages()
        for message in uncopied_messages(store, number)
    )
    frames = [message.read_frame_of_uncopied_message() for message in messages]
    return {frame[slice(*parse_openwire_message(frame).content)].decode() for frame in frames}


@in_every_situation
def test_second_run_of_site_changes_nothing_and_restart_keeps_generation(controller: Controller) -> None:
    active, standby = wait_for_pair(controller.rack.machines)
    processes_before = [process(machine) for machine in (active, standby)]
    output = checked_output(controller.run_playbook("site", *FENCED))
    assert [process(machine) for machine in (active, standby)] == processes_before
    assert output.count("changed=0") >= 2
    checked_output(controller.run_playbook("restart", *FENCED, "-e", "activemq_target=orders-mq01"))
    wait_for_pair(controller.rack.machines)


@in_every_situation
def test_systemd_stops_and_restarts_broker_whose_guard_was_killed(controller: Controller) -> None:
    active, standby = wait_for_pair(controller.rack.machines)
    active.run("systemctl", "kill", "--signal=KILL", "--kill-whom=main", UNIT)
    wait_until(lambda: state(standby) == "active", "the other node becomes active", standby)
    wait_until(lambda: state(active) == "standby", "the node becomes standby", active)


@in_every_situation
def test_switchover_of_fenced_pair_in_both_directions_loses_no_message(controller: Controller) -> None:
    active, standby = wait_for_pair(controller.rack.machines)
    with controller.streaming(300) as outcome:
        controller.switch_to(standby, *FENCED)
        wait_for_places(standby, active)
        controller.switch_to(active, *FENCED)
        wait_for_places(active, standby)
    assert outcome["missing"] == [], broker_report(active)
    assert outcome["sent"] > 0


@in_every_situation
def test_watchdog_kills_frozen_java_without_message_loss(controller: Controller) -> None:
    active, standby = wait_for_pair(controller.rack.machines)
    with controller.streaming(300) as outcome:
        active.run("pkill", "-STOP", "--parent", process(active), "java")
        wait_until(lambda: state(standby) == "active", "the other node becomes active", active, standby)
        wait_until(lambda: state(active) == "standby", "the node becomes standby", active, standby)
    assert outcome["missing"] == [], broker_report(active)


@in_every_situation
def test_upgrade_and_rollback_of_fenced_pair_under_load_lose_no_message(controller: Controller) -> None:
    wait_for_pair(controller.rack.machines)
    with controller.streaming(600) as outcome:
        for release in ("5.18.3", RELEASE):
            variables = {"activemq_release": release, "activemq_archive": str(fetch_jar_directory(Release.of(release)))}
            checked_output(controller.run_playbook("upgrade", *FENCED, "--extra-vars", json.dumps(variables)))
            wait_for_pair(controller.rack.machines)
    assert outcome["missing"] == [], broker_report(controller.rack.machines[0])


@in_every_situation
def test_collect_gathers_messages_of_guards_and_lists_generations(controller: Controller, tmp_path: Path) -> None:
    active, standby = wait_for_pair(controller.rack.machines)
    checked_output(controller.run_playbook("collect", *FENCED, "-e", f"activemq_collect_to={tmp_path}/collected"))
    collected = tmp_path / "collected" / active.name
    assert "guard: generation" in (collected / f"journal/{UNIT}.log").read_text()
    assert "\tgenerations/" in (collected / "listing/store.txt").read_text()
    facts = [
        json.loads((tmp_path / "collected" / machine.name / "host.json").read_text()) for machine in (active, standby)
    ]
    number = facts[0]["broker"]["generation"]
    assert number == facts[0]["broker"]["generation_in_force"] == facts[1]["broker"]["generation_in_force"]
    assert facts[1]["broker"]["generation"] is None
    assert number in [generation["number"] for generation in facts[0]["generations"]]


@in_every_situation
def test_fence_is_removed_and_added_without_message_loss(controller: Controller) -> None:
    for playbook in ("site", "upgrade"):
        output = checked_output(controller.run_playbook(playbook), 2)
        assert "was made with activemq_fence: guard" in output
        assert "Set activemq_fence to guard, or run the playbook unfence for pair orders-mq01 first" in output
    for machine in controller.rack.machines:
        assert guard_pids(machine)
        machine.run("test", "-x", "/usr/local/sbin/activemq-guard")
    unfence = ["unfence", *FENCED, "-e", "activemq_target=orders-mq01"]
    assert "no longer has a fence" not in checked_output(controller.run_playbook(*unfence, "--check"))
    wait_for_pair(controller.rack.machines)
    with controller.streaming(300) as outcome:
        assert "no longer has a fence" in checked_output(controller.run_playbook(*unfence))
        checked_output(controller.run_playbook("site"))
        active, _ = wait_for_pair(controller.rack.machines)
        assert not guard_pids(active)
        checked_output(controller.run_playbook("site", *FENCED))
        active, standby = wait_for_pair(controller.rack.machines)
        assert guard_pids(active)
        assert guard_pids(standby)
    assert outcome["missing"] == [], broker_report(active)


def guard_pids(machine: Machine) -> list[str]:
    """Return the process ids of the guards that run on a machine."""
    return machine.attempt("pgrep", "-f", "activemq-guard --store").stdout.split()
