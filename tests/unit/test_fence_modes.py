"""Transitions between a store without a fence, a store with generations and a store with a fence command."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from jinja2 import Environment

from activemq_fleet.node.fence.broker_process import ENDED
from activemq_fleet.node.fence.fence_setup_and_removal import unfence_store
from activemq_fleet.node.fence.shared_store import FenceError
from activemq_fleet.node.kahadb.index import is_store_file
from activemq_fleet.node.kahadb.index_keeper import IndexKeeper
from activemq_fleet.node.kahadb.kept_index import KeptIndex
from activemq_fleet.node.kahadb.risk_records import read_newest_risk_records_of_store
from tests.situations import further, some_situations
from tests.unit.guards import GUARD, Node, output_of, wait_for
from tests.unit.kahadb_journals import (
    add_record,
    index_with_topics,
    record_batch,
    subscription_record,
    write_data_file,
)
from tests.waiting import LateError

REMOVAL_TASKS = Path(__file__).parents[2] / "roles/broker/tasks/remove_fence.yml"
JOURNAL = record_batch(add_record("ID:1"), add_record("ID:2"))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    (tmp_path / "store").mkdir()
    return tmp_path / "store"


@pytest.fixture
def nodes(store: Path) -> Iterator[tuple[Node, Node]]:
    nodes = Node(store.parent, "a"), Node(store.parent, "b")
    yield nodes
    for node in nodes:
        node.terminate()


def write_store_with_kept_index(store: Path) -> None:
    """Write a store with two data files, a usable index and its kept copy, as a broker of 5.5 to 5.13.0 has it."""
    write_data_file(store, subscription_record("prices", "reporting:daily"), number=1)
    write_data_file(store, add_record("m1", "topic/prices"), number=2)
    (store / "db.data").write_bytes(index_with_topics({"prices": ["reporting:daily"]}, last_update=2))
    IndexKeeper(str(store)).update_index_and_data_file_copies()
    assert KeptIndex(str(store)).is_complete()


def write_fence_command(store: Path, script: str) -> str:
    """Write the file of a fence command that runs a script, and return its path."""
    path = store.parent / "fence-command.json"
    environment = {"ACTIVEMQ_FENCE_HOST": "b", "ACTIVEMQ_FENCE_PAIR": "x", "ACTIVEMQ_FENCE_SECRETS": "/x"}
    path.write_text(json.dumps({"argv": ["/bin/sh", "-c", script], "timeout": 10, "environment": environment}))
    return str(path)


def wait_until_served(node: Node, claim_numbers: list[int]) -> None:
    wait_for(lambda: node.served == claim_numbers)


def store_files_in(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir() if is_store_file(path.name)}


def current_generation(store: Path) -> Path:
    number = max(int(path.name) for path in (store / "fence/claims").iterdir() if path.name.isdigit())
    directory = json.loads((store / "fence/claims" / str(number)).read_text())["directory"]
    path = store / "generations" / directory
    return path if path.is_dir() else store


# -- from none to guard -------------------------------------------------------------------------------


def test_guard_takes_over_store_after_unguarded_broker_has_stopped(store: Path, nodes: tuple[Node, Node]) -> None:
    (store / "db-1.log").write_bytes(JOURNAL)
    (store / "db.data").write_bytes(b"index")
    with (store / "lock").open("w") as broker:
        fcntl.lockf(broker, fcntl.LOCK_EX | fcntl.LOCK_NB)
        nodes[0].start()
        wait_for(nodes[0].is_waiting)
        with pytest.raises(LateError):
            wait_for(lambda: nodes[0].served, 1)
        assert store_files_in(store) == {"db-1.log", "db.data"}
    wait_for(lambda: nodes[0].served == [2])
    assert (store / "lock").is_dir()
    assert store_files_in(store) == set()
    assert store_files_in(current_generation(store)) == {"db-1.log", "db.data"}
    assert (current_generation(store) / "db-1.log").read_bytes() == JOURNAL


def test_unfenced_copy_of_store_is_removed_once_both_nodes_have_guards(store: Path, nodes: tuple[Node, Node]) -> None:
    (store / "db-1.log").write_bytes(JOURNAL)
    nodes[0].start()
    wait_for(lambda: nodes[0].served == [2])
    assert (store / "generations/1-00000000").is_dir()
    nodes[1].start()
    wait_for(nodes[1].is_waiting)
    wait_for(lambda: not (store / "generations/1-00000000").exists())
    assert (current_generation(store) / "db-1.log").read_bytes() == JOURNAL


# -- from guard to none, and back ----------------------------------------------------------------------


def test_unfenced_store_keeps_contents_and_can_be_fenced_again(store: Path, nodes: tuple[Node, Node]) -> None:
    (store / "db-1.log").write_bytes(JOURNAL)
    guard = nodes[0].start()
    wait_for(lambda: nodes[0].served == [2])
    with pytest.raises(FenceError, match="stop the brokers' service units on both nodes"):
        unfence_store(str(store))
    guard.terminate()
    guard.wait(60)
    output = remove_fence(store)
    assert "It contains the files of generation 2, the copy of the store that the last takeover created" in output
    assert playbook_reports_change(output)
    assert (store / "db-1.log").read_bytes() == JOURNAL
    assert not (store / "lock").exists()
    output = remove_fence(store)
    assert f"guard: the store {store} has no fence, so nothing was changed\n" in output
    assert not playbook_reports_change(output)
    nodes[0].start()
    wait_for(lambda: nodes[0].served == [2, 4])
    assert (current_generation(store) / "db-1.log").read_bytes() == JOURNAL


def remove_fence(store: Path) -> str:
    """Remove the fence of a store with the program of the guard, as the playbook does, and return its output."""
    command = [*GUARD, "--store", str(store), "--unfence"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def playbook_reports_change(output: str) -> bool:
    """Return whether the playbook unfence reports a change of the host for this output of the guard."""
    (condition,) = (
        task["changed_when"]
        for task in yaml.safe_load(REMOVAL_TASKS.read_text())
        if task.get("register") == "__activemq_fence_removal"
    )
    evaluate = Environment(autoescape=False).compile_expression(condition)  # noqa: S701 - no HTML
    return bool(evaluate(__activemq_fence_removal={"stdout": output, "stdout_lines": output.splitlines()}))


def test_playbook_reports_change_for_guard_that_does_not_print_it() -> None:
    assert playbook_reports_change("guard: the store /srv/orders can now be used without activemq_fence\n")


def test_removal_of_fence_replaces_kept_index_that_an_earlier_removal_restored(
    store: Path, nodes: tuple[Node, Node]
) -> None:
    write_store_with_kept_index(store)
    for served in ([2], [2, 4], [2, 4, 6]):
        guard = nodes[0].start()
        wait_until_served(nodes[0], served)
        assert not (store / "kept-index").exists()
        assert KeptIndex(str(current_generation(store))).is_complete()
        guard.terminate()
        guard.wait(60)
        unfence_store(str(store))
        assert KeptIndex(str(store)).is_complete()
        assert store_files_in(store) == {"db-1.log", "db-2.log", "db.data"}
    assert not list(store.glob("set-aside-*"))


def test_removal_of_fence_sets_stale_files_of_store_aside(store: Path, nodes: tuple[Node, Node]) -> None:
    write_store_with_kept_index(store)
    guard = nodes[0].start()
    wait_for(lambda: nodes[0].served == [2])
    guard.terminate()
    guard.wait(60)
    stale_files = {"kept-index/journal/db-9.log": b"stale copy", "db-1.log": b"stale first", "db-9.log": b"stale"}
    for name, content in stale_files.items():
        (store / name).parent.mkdir(parents=True, exist_ok=True)
        (store / name).write_bytes(content)
    unfence_store(str(store))
    (aside,) = store.glob("set-aside-*")
    assert {name: (aside / name).read_bytes() for name in stale_files} == stale_files
    assert store_files_in(store) == {"db-1.log", "db-2.log", "db.data"}
    assert KeptIndex(str(store)).is_complete()


@some_situations(1)
@pytest.mark.parametrize("step", ["rename", "link", "rmdir", "unlink"])
def test_interrupted_removal_of_fence_can_be_repeated(
    store: Path, nodes: tuple[Node, Node], step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (store / "db-1.log").write_bytes(JOURNAL)
    guard = nodes[0].start()
    wait_for(lambda: nodes[0].served == [2])
    guard.terminate()
    guard.wait(60)

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, step, interrupt)
        with pytest.raises(KeyboardInterrupt):
            unfence_store(str(store))
    unfence_store(str(store))
    assert (store / "db-1.log").read_bytes() == JOURNAL
    assert not (store / "lock").exists()


# -- with a fence command -------------------------------------------------------------------------------------


def test_node_takes_over_from_stopped_node_without_fence_command(store: Path, nodes: tuple[Node, Node]) -> None:
    file = write_fence_command(store, "exit 1")
    a, b = nodes
    guard = a.start("--fence-command", file)
    wait_for(lambda: a.rows)
    b.start("--fence-command", file)
    wait_for(b.is_waiting)
    guard.terminate()
    guard.wait(60)
    wait_for(lambda: b.rows)
    assert (store / "lock").is_file()


def test_fence_command_kills_frozen_node_before_other_node_serves(store: Path, nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    pids = store.parent / "pids"
    file = write_fence_command(store, f"kill -9 $(cat {pids}) && sleep 0.2")
    guard = a.start("--fence-command", file)
    wait_for(lambda: a.rows)
    pids.write_text(f"{guard.pid} {a.rows[0][0]}")
    b.start("--fence-command", file)
    wait_for(b.is_waiting)
    guard.send_signal(signal.SIGSTOP)
    os.kill(int(a.rows[0][0]), signal.SIGSTOP)
    (store / "fence/lock").unlink()
    wait_for(lambda: b.rows)
    assert guard.wait(10) == -signal.SIGKILL


def test_no_node_serves_after_failed_fence_command_until_operator_confirms(
    store: Path, nodes: tuple[Node, Node]
) -> None:
    a, b = nodes
    file = write_fence_command(store, "exit 1")
    guard = a.start("--fence-command", file)
    wait_for(lambda: a.rows)
    second_guard = b.start("--fence-command", file)
    wait_for(b.is_waiting)
    guard.kill()
    guard.wait()
    with pytest.raises(LateError):
        wait_for(lambda: b.rows, 3)
    confirm = [*GUARD, "--store", str(store), "--confirm"]
    wrong_confirmation = subprocess.run([*confirm, "7"], capture_output=True, text=True, check=False)
    assert wrong_confirmation.returncode == 1
    assert (
        f"the guard changed nothing: the newest takeover of the store {store} has the number 1, not 7."
        in wrong_confirmation.stdout
    )
    invalid_confirmation = subprocess.run([*confirm, "0"], capture_output=True, text=True, check=False)
    assert invalid_confirmation.returncode == 2
    assert "argument --confirm: 0 is not a number from 1 on" in invalid_confirmation.stderr
    subprocess.run([*confirm, "1"], check=True, capture_output=True)
    wait_for(lambda: b.rows)
    b.terminate()
    assert second_guard.returncode is not None


def test_guard_with_fence_command_refuses_store_with_generations(store: Path, nodes: tuple[Node, Node]) -> None:
    guard = nodes[0].start()
    wait_for(lambda: nodes[0].served == [1])
    guard.terminate()
    guard.wait(60)
    second_guard = nodes[0].start("--fence-command", write_fence_command(store, "exit 0"))
    assert second_guard.wait(60) == 1
    assert "was used with activemq_fence: guard, but activemq_fence is now command" in output_of(second_guard)
    unfence_store(str(store))
    nodes[0].start("--fence-command", write_fence_command(store, "exit 0"))
    wait_for(lambda: len(nodes[0].rows) == 2)


def test_guard_with_generations_takes_over_from_guard_with_fence_command(store: Path, nodes: tuple[Node, Node]) -> None:
    guard = nodes[0].start("--fence-command", write_fence_command(store, "exit 1"))
    wait_for(lambda: nodes[0].rows)
    (store / "db-1.log").write_bytes(JOURNAL)
    nodes[1].start()
    wait_for(nodes[1].is_waiting)
    guard.send_signal(signal.SIGSTOP)
    os.kill(int(nodes[0].rows[0][0]), signal.SIGSTOP)
    (store / "fence/lock").unlink()
    (store / "lock").unlink()
    wait_for(lambda: nodes[1].served == [2])
    os.kill(int(nodes[0].rows[0][0]), signal.SIGCONT)
    guard.send_signal(signal.SIGCONT)
    assert guard.wait(60) == ENDED
    assert (current_generation(store) / "db-1.log").read_bytes() == JOURNAL


# -- a store without a usable index ----------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), *further((("--refuse-loss",),))])
def test_guard_records_subscriptions_at_risk_and_serves_or_waits_for_consent(
    store: Path, nodes: tuple[Node, Node], options: tuple[str, ...]
) -> None:
    write_data_file(store, add_record("m1", "topic/prices"), number=2)
    (store / "db.data").write_bytes(index_with_topics({"prices": ["reporting:daily"]}, last_update=1))
    guard = nodes[0].start(*options)
    if options:
        assert guard.stdout
        next(line for line in guard.stdout if "reporting:daily of topic://prices (at most 1 message)" in line)
        assert not nodes[0].served
        assert read_newest_risk_records_of_store(str(store)) == []
        completed = subprocess.run(
            [*GUARD, "--store", str(store), "--accept-loss"], capture_output=True, text=True, check=True
        )
        assert "generation 1, the newest copy of the store, without an index" in completed.stdout
    wait_for(lambda: nodes[0].served == [2])
    (record,) = read_newest_risk_records_of_store(str(store))
    assert record.risk.rows_of_subscriptions_with_possible_loss() == [
        {"topic": "prices", "subscription": "reporting:daily", "messages": 1}
    ]
    assert store_files_in(current_generation(store)) == {"db-2.log"}


@pytest.mark.parametrize("options", [(), ("--local", "/local"), ("--", "broker")])
def test_guard_without_local_directory_or_broker_command_is_usage_error(store: Path, options: tuple[str, ...]) -> None:
    guard = subprocess.run([*GUARD, "--store", str(store), *options], capture_output=True, text=True, check=False)
    assert guard.returncode == 2
    assert "error: to start a broker, set --local, and add the command line of the broker after --" in guard.stderr
    assert list(store.iterdir()) == []
