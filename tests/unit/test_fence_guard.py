"""Two guards of one store, run as processes: which node serves, and what stops a broker."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from activemq_fleet.node.fence.broker_process import ENDED
from tests.situations import in_every_situation
from tests.support.journal_batches import add_command, journal_batch
from tests.unit.guards import Node, is_alive, output_of, wait_for
from tests.unit.kahadb_journals import add_record, index_with_messages, write_data_file


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[tuple[Node, Node]]:
    (tmp_path / "store").mkdir()
    nodes = Node(tmp_path, "a"), Node(tmp_path, "b")
    yield nodes
    for node in nodes:
        node.terminate()


def test_second_guard_waits_and_takes_over_with_new_generation(nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    guard = a.start()
    wait_for(lambda: a.served == [1])
    b.start()
    wait_for(b.is_waiting)
    time.sleep(0.5)
    assert b.served == []
    guard.kill()
    wait_for(lambda: b.served == [2])
    wait_for(lambda: not is_alive(a.rows[0][0]))


def test_restarted_guard_continues_with_same_files_in_new_generation(nodes: tuple[Node, Node]) -> None:
    a, _ = nodes
    for number in (1, 2):
        guard = a.start()
        wait_for(lambda: len(a.served) == number)  # noqa: B023
        (newest,) = (a.store / "generations").glob(f"{number}-*")
        (newest / "db.data").open("ab").write(b"index")
        guard.terminate()
        assert guard.wait(60) == 143
    assert a.served == [1, 2]
    assert (newest / "db.data").read_bytes() == b"indexindex"


def test_restarted_guard_makes_new_generation_if_first_reading_of_store_fails(nodes: tuple[Node, Node]) -> None:
    a, _ = nodes
    guard = a.start()
    wait_for(lambda: a.served == [1])
    guard.kill()
    guard.wait()
    wait_for(lambda: not is_alive(a.rows[0][0]))
    a.start_with_first_reading_failing()
    wait_for(lambda: len(a.served) == 2)
    assert a.served == [1, 2]
    assert (a.store / "fence/ended/1").exists()


def test_guard_frozen_during_takeover_stops_its_broker_when_it_resumes(nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    guard = a.start()
    wait_for(lambda: a.served == [1])
    b.start()
    wait_for(b.is_waiting)
    frozen = int(a.rows[0][0])
    guard.send_signal(signal.SIGSTOP)
    os.kill(frozen, signal.SIGSTOP)
    (a.store / "fence/lock").unlink()
    wait_for(lambda: b.served == [2])
    os.kill(frozen, signal.SIGCONT)
    assert is_alive(str(frozen))
    guard.send_signal(signal.SIGCONT)
    assert guard.wait(60) == ENDED
    assert not is_alive(str(frozen))
    # A guard that was frozen between its check of the claims and its check of the lock reports the lock.
    reasons = (
        "the other node took over the store (takeover 2 replaced takeover 1)",
        "the guard lost the lock of the pair's store",
    )
    endings = tuple(f"the broker, because {reason}. This node restarts as standby" for reason in reasons)
    # The process that removes old generations may report after the guard.
    assert any(line.endswith(endings) for line in output_of(guard).splitlines())
    assert (a.store / "fence/ended/1").exists()


def test_guard_that_loses_lock_stops_its_broker_and_other_node_serves(nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    guard = a.start()
    wait_for(lambda: a.served == [1])
    b.start()
    wait_for(b.is_waiting)
    (a.store / "fence/lock").unlink()
    assert guard.wait(60) == ENDED
    wait_for(lambda: b.served == [2])


def test_guard_reports_cut_off_journal_before_broker_opens_store(nodes: tuple[Node, Node]) -> None:
    a, _ = nodes
    write_data_file(a.store, add_record("m1"), reserved=0)
    (a.store / "db.data").write_bytes(index_with_messages((1, 28), {"work": [(1, 28), (1, 500)]}))
    guard = a.start()
    wait_for(lambda: a.served)
    guard.terminate()
    lines = output_of(guard).splitlines()
    (report,) = (at for at, line in enumerate(lines) if "these messages in the index: queue://work (1 message)" in line)
    assert "the broker opens the store" in lines[report + 1]


def test_guard_reports_cut_batch_that_its_copy_leaves_out(nodes: tuple[Node, Node]) -> None:
    a, _ = nodes
    path = write_data_file(a.store, add_record("m1"), add_record("m2"), each=1, reserved=0)
    os.truncate(path, path.stat().st_size - 3)
    complete = (path.stat().st_size + 3) // 2
    guard = a.start()
    wait_for(lambda: a.served)
    guard.terminate()
    report = f"the data file {path} ends inside of its last batch of records."
    (line,) = (line for line in output_of(guard).splitlines() if report in line)
    assert f"does not contain this batch, which begins at byte {complete}." in line


def test_second_guard_of_broker_refuses_to_start_while_broker_runs(nodes: tuple[Node, Node]) -> None:
    a, _ = nodes
    a.start()
    wait_for(lambda: a.served == [1])
    second_guard = Node(a.store.parent, "a").start()
    assert second_guard.wait(60) == 1
    assert "another process of this broker's guard (activemq_fence) still runs. Stop" in output_of(second_guard)


def test_guard_exits_with_status_of_killed_broker(nodes: tuple[Node, Node]) -> None:
    a, _ = nodes
    guard = a.start()
    wait_for(lambda: a.served == [1])
    os.kill(int(a.rows[0][0]), signal.SIGKILL)
    assert guard.wait(60) == 128 + signal.SIGKILL


def test_other_node_takes_over_from_killed_broker_and_old_generation_is_removed(nodes: tuple[Node, Node]) -> None:
    a, b = nodes
    a.start()
    wait_for(lambda: a.served == [1])
    b.start()
    wait_for(b.is_waiting)
    (first_generation,) = (a.store / "generations").iterdir()
    (first_generation / "db.data").write_bytes(b"index")
    os.kill(int(a.rows[0][0]), signal.SIGKILL)
    wait_for(lambda: b.served == [2])
    (second_index,) = (a.store / "generations").glob("2-*/db.data")
    assert second_index.stat().st_nlink == 2  # nothing was copied
    a.start()
    wait_for(lambda: not first_generation.exists())
    assert b.served == [2]


@in_every_situation
def test_fifty_kills_of_guards_leave_at_most_two_generations(nodes: tuple[Node, Node]) -> None:
    """Each guard is killed at a different moment of its start, its takeover or its service."""
    for kill in range(50):
        node = nodes[kill % 2]
        guard = node.start()
        time.sleep(0.02 * (kill % 17))
        guard.kill()
        guard.wait()
        wait_for(lambda: not is_held(node.local / "alive"))  # noqa: B023
    a, b = nodes
    a.start()
    wait_for(lambda: a.served)
    b.start()
    wait_for(lambda: len(list((a.store / "generations").iterdir())) <= 2)


def is_held(file: Path) -> bool:
    """Return whether a guard or its broker holds a file's lock."""
    if not file.exists():
        return False
    with file.open() as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_guard_stops_broker_if_another_process_acquires_cleared_lock(nodes: tuple[Node, Node]) -> None:
    """The command clear-locks of GlusterFS has this effect: another open file can lock the same file, too."""
    a, b = nodes
    guard = a.start()
    wait_for(lambda: a.served == [1])
    b.start()
    wait_for(b.is_waiting)
    (a.store / "fence/lock").write_text("another guard".ljust(128))
    assert guard.wait(60) == ENDED
    assert "the guard lost the lock of the pair's store" in output_of(guard)
    wait_for(lambda: b.served == [2])


def test_store_keeps_messages_if_guard_crashes_at_any_step_of_takeover(tmp_path: Path) -> None:
    """The next generation of the other node has the content of the store, whatever files the crash leaves behind."""
    journal_content = journal_batch(add_command("one"))
    crashes = 0
    for step in range(0, 100, 3):
        root = tmp_path / f"{step}"
        (root / "store").mkdir(parents=True)
        a, b = Node(root, "a"), Node(root, "b")
        guard = b.start()
        wait_for(lambda: b.served == [1])  # noqa: B023
        (first_generation,) = (root / "store/generations").glob("1-*")
        (first_generation / "db-1.log").write_bytes(journal_content)
        guard.kill()
        guard.wait()
        crashing = a.start_crashing(step, signal.SIGKILL)
        wait_for(lambda: a.served or crashing.poll() is not None)  # noqa: B023
        is_crash = crashing.poll() == -signal.SIGKILL
        crashing.kill()
        crashing.wait()
        guard = b.start()
        wait_for(lambda: len(b.served) == 2)  # noqa: B023
        newest = root / "store/generations" / b.rows[-1][1]
        assert (newest / "db-1.log").read_bytes() == journal_content
        guard.kill()
        guard.wait()
        assert guard.stdout
        guard.stdout.close()
        crashes += is_crash
        if not is_crash:
            break
    assert crashes > 5


def test_takeover_on_full_disk_leaves_no_files_and_succeeds_once_space_is_free(
    nodes: tuple[Node, Node],
) -> None:
    """The kernel limits the files of the guard to a size that is smaller than the index."""
    a, b = nodes
    first_guard = a.start()
    wait_for(lambda: a.served == [1])
    (generation,) = (a.store / "generations").iterdir()
    (generation / "db.data").write_bytes(bytes(1_000_000))
    second_guard = b.start()
    wait_for(b.is_waiting)
    resource.prlimit(second_guard.pid, resource.RLIMIT_FSIZE, (500_000, resource.RLIM_INFINITY))
    first_guard.kill()
    time.sleep(2.5)
    assert b.served == []
    wait_for(lambda: list((a.store / "generations").iterdir()) == [generation])
    resource.prlimit(second_guard.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    wait_for(lambda: b.served == [2])
