"""An unpacked release gets the directory of its name, or nothing changes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.files import disk
from activemq_fleet.node.install import release_tree
from tests.situations import some_situations
from tests.unit.release_jars import lay_out

UNIT = "activemq.service"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "activemq-5.18.6"


def directory_next_to(home: Path, end: str) -> Path:
    return home.with_name(home.name + end)


def names(home: Path) -> list[str]:
    return sorted(path.name for path in home.parent.iterdir() if path.name.startswith("activemq"))


def holds(home: Path) -> list[str]:
    found: list[str] = release_tree.releases_in_home(str(home))
    return found


@contextmanager
def running_from(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has the broker's jar open, and ends on SIGTERM."""
    (jar,) = (home / "lib").iterdir()
    script = "import sys; file = open(sys.argv[1]); print(); sys.stdout.flush(); sys.stdin.read()"
    command = [sys.executable, "-c", script, str(jar)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        yield child
        child.kill()


def test_the_first_one_gets_the_name(home: Path) -> None:
    lay_out(directory_next_to(home, ".new"), "5.18.6")
    assert release_tree.move_new_release_into_unused_home(str(home), "5.18.6") == {"changed": True, "waits": False}
    assert (names(home), holds(home)) == ([home.name], ["5.18.6"])


@pytest.mark.parametrize(
    ("inside", "said"), [("5.18.3", "contains ActiveMQ 5.18.3 instead of"), (None, "contains no broker instead of")]
)
def test_another_release_never_gets_the_name(home: Path, inside: str | None, said: str) -> None:
    if inside:
        lay_out(directory_next_to(home, ".new"), inside, name="5.18.6")
    else:
        directory_next_to(home, ".new").mkdir()
    with pytest.raises(NodeError, match=said):
        release_tree.move_new_release_into_unused_home(str(home), "5.18.6")
    assert names(home) == []


def test_another_release_leaves_what_is_there(home: Path) -> None:
    lay_out(home, "5.18.6")
    lay_out(directory_next_to(home, ".new"), "5.18.3")
    with pytest.raises(NodeError):
        release_tree.move_new_release_into_unused_home(str(home), "5.18.6")
    assert (names(home), holds(home)) == ([home.name], ["5.18.6"])


@pytest.mark.parametrize("what", ["another release", "a link", "nothing"])
def test_a_directory_that_is_not_what_its_name_says_is_replaced(home: Path, tmp_path: Path, what: str) -> None:
    if what == "another release":
        lay_out(home, "5.18.3")
    elif what == "a link":
        home.symlink_to(lay_out(tmp_path / "elsewhere", "5.18.3"))
    else:
        home.mkdir()
    lay_out(directory_next_to(home, ".new"), "5.18.6")
    assert release_tree.move_new_release_into_unused_home(str(home), "5.18.6") == {"changed": True, "waits": False}
    assert (names(home), holds(home)) == ([home.name], ["5.18.6"])


def test_a_directory_that_is_what_its_name_says_is_left_alone(home: Path) -> None:
    inode = lay_out(home, "5.18.6").stat().st_ino
    lay_out(directory_next_to(home, ".new"), "5.18.6")
    assert release_tree.move_new_release_into_unused_home(str(home), "5.18.6") == {"changed": False, "waits": False}
    assert (names(home), home.stat().st_ino) == ([home.name], inode)


def test_nothing_is_moved_from_under_a_process(home: Path) -> None:
    lay_out(home, "5.18.3")
    lay_out(directory_next_to(home, ".new"), "5.18.6")
    with running_from(home):
        assert release_tree.move_new_release_into_unused_home(str(home), "5.18.6") == {"changed": True, "waits": True}
        assert (names(home), holds(home)) == ([home.name, f"{home.name}.new"], ["5.18.3"])


def test_the_old_one_comes_back_when_the_new_one_cannot_be_moved(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(home, "5.18.3")
    lay_out(directory_next_to(home, ".new"), "5.18.6")
    rename = disk.rename_within_parent_and_sync

    def refusing(source: str, target: str) -> None:
        if source.endswith(".new"):
            raise OSError(28, "No space left on device", source)
        rename(source, target)

    monkeypatch.setattr(disk, "rename_within_parent_and_sync", refusing)
    with pytest.raises(OSError, match="No space left"):
        release_tree.move_new_release_into_unused_home(str(home), "5.18.6")
    assert holds(home) == ["5.18.3"]


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Stands in for systemd's: a stop ends the process whose number stands in a file. Returns what it was asked."""
    calls = tmp_path / "calls"
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\necho $1 $2 >> {calls}\n[ $1 = start ] || [ ! -s {tmp_path}/pid ] || kill $(cat {tmp_path}/pid)\n"
        f"[ $1 = start ] || sleep 0.3\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    numbers = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
    before = {number: signal.getsignal(number) for number in numbers}
    yield calls
    for number, handler in before.items():
        signal.signal(number, handler)


def test_what_waits_is_exchanged_while_the_unit_is_stopped_and_can_go_back(
    home: Path, tmp_path: Path, systemctl: Path
) -> None:
    lay_out(home, "5.18.3")
    lay_out(directory_next_to(home, ".new"), "5.18.6")
    with running_from(home) as child:
        (tmp_path / "pid").write_text(str(child.pid))
        assert release_tree.replace_running_release(str(home), "5.18.6", UNIT) == {"changed": True}
    (tmp_path / "pid").unlink()
    assert systemctl.read_text().splitlines() == [f"stop {UNIT}", f"start {UNIT}"]
    assert (holds(home), holds(directory_next_to(home, ".old"))) == (["5.18.6"], ["5.18.3"])
    assert release_tree.replace_running_release(str(home), "5.18.6", UNIT) == {"changed": False}
    assert release_tree.restore_old_release(str(home), "5.18.6", UNIT) == {"changed": True}
    assert (names(home), holds(home)) == ([home.name], ["5.18.3"])
    assert release_tree.restore_old_release(str(home), "5.18.6", UNIT) == {"changed": False}
    assert systemctl.read_text().splitlines() == [f"stop {UNIT}", f"start {UNIT}"] * 2


def test_a_process_of_another_broker_keeps_its_directory_and_the_unit_comes_back(home: Path, systemctl: Path) -> None:
    lay_out(home, "5.18.3")
    lay_out(directory_next_to(home, ".new"), "5.18.6")
    with running_from(home) as child, pytest.raises(NodeError, match=f"process {child.pid} runs from"):
        release_tree.replace_running_release(str(home), "5.18.6", UNIT)
    assert holds(home) == ["5.18.3"]
    assert systemctl.read_text().splitlines() == [f"stop {UNIT}", f"start {UNIT}"]


def test_nothing_is_stopped_for_what_is_not_the_release(home: Path, systemctl: Path) -> None:
    lay_out(home, "5.18.3")
    with pytest.raises(NodeError, match="the broker was not stopped"):
        release_tree.replace_running_release(str(home), "5.18.6", UNIT)
    assert not systemctl.exists()


class PowerCutError(BaseException):
    """Ends the work at once, as the loss of power does."""


def cut_before(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Lose the power before the change of the disk that has this number; no change is half made."""
    done = 0

    def counting(change: Callable[..., None]) -> Callable[..., None]:
        def counted(*arguments: str) -> None:
            nonlocal done
            done += 1
            if done == number:
                raise PowerCutError
            change(*arguments)

        return counted

    monkeypatch.setattr(disk, "rename_within_parent_and_sync", counting(disk.rename_within_parent_and_sync))
    monkeypatch.setattr(disk, "remove_tree_or_file", counting(disk.remove_tree_or_file))


def is_cut_short(monkeypatch: pytest.MonkeyPatch, number: int, work: Callable[[], object]) -> bool:
    with monkeypatch.context() as patched:
        cut_before(patched, number)
        try:
            work()
        except PowerCutError:
            return True
    return False


CUTS = range(1, 9)
"""More than any of the operations makes changes: the last ones cut nothing."""


@pytest.mark.parametrize("number", CUTS)
def test_a_placing_that_is_cut_short_anywhere_is_finished_by_the_next(
    home: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    lay_out(home, "5.18.3")
    lay_out(directory_next_to(home, ".new"), "5.18.6")
    is_cut = is_cut_short(
        monkeypatch, number, lambda: release_tree.move_new_release_into_unused_home(str(home), "5.18.6")
    )
    assert is_cut == (number < CUTS[-1])
    disk.remove_tree_or_file(str(directory_next_to(home, ".new")))  # the first task of the role removes it, too
    lay_out(directory_next_to(home, ".new"), "5.18.6")
    release_tree.move_new_release_into_unused_home(str(home), "5.18.6")
    release_tree.remove_old_release(str(home), "5.18.6")
    assert (names(home), holds(home)) == ([home.name], ["5.18.6"])


@some_situations(2)
@pytest.mark.parametrize("number", CUTS)
def test_an_exchange_that_is_cut_short_anywhere_leaves_a_broker_that_can_start(
    home: Path, systemctl: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    lay_out(home, "5.18.3")
    lay_out(directory_next_to(home, ".new"), "5.18.6")
    is_cut_short(monkeypatch, number, lambda: release_tree.replace_running_release(str(home), "5.18.6", UNIT))
    is_missing = not home.exists()
    systemctl.unlink()
    assert release_tree.roll_back_interrupted_replacement_and_start_unit(str(home), UNIT) == {"changed": is_missing}
    assert systemctl.exists() == is_missing
    assert holds(home) in (["5.18.3"], ["5.18.6"])
    release_tree.replace_running_release(str(home), "5.18.6", UNIT)
    assert (holds(home), holds(directory_next_to(home, ".old"))) == (["5.18.6"], ["5.18.3"])


@some_situations(2)
@pytest.mark.parametrize("number", CUTS)
def test_the_next_run_goes_back_after_an_exchange_that_was_cut_short_anywhere(
    home: Path, systemctl: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    lay_out(home, "5.18.3")
    lay_out(directory_next_to(home, ".new"), "5.18.6")
    is_cut_short(monkeypatch, number, lambda: release_tree.replace_running_release(str(home), "5.18.6", UNIT))
    release_tree.restore_old_release(str(home), "5.18.6", UNIT)
    assert holds(home) == ["5.18.3"]
    assert not directory_next_to(home, ".old").exists()


@some_situations(2)
@pytest.mark.parametrize("number", CUTS)
def test_a_way_back_that_is_cut_short_anywhere_is_gone_to_its_end(
    home: Path, systemctl: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    lay_out(home, "5.18.6")
    lay_out(directory_next_to(home, ".old"), "5.18.3")
    is_cut_short(monkeypatch, number, lambda: release_tree.restore_old_release(str(home), "5.18.6", UNIT))
    release_tree.restore_old_release(str(home), "5.18.6", UNIT)
    assert holds(home) == ["5.18.3"]
    assert not directory_next_to(home, ".old").exists()


@pytest.mark.parametrize("number", CUTS)
def test_half_of_what_was_replaced_is_never_put_back(home: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    lay_out(home, "5.18.6")
    lay_out(directory_next_to(home, ".old"), "5.18.3")
    is_cut_short(monkeypatch, number, lambda: release_tree.remove_old_release(str(home), "5.18.6"))
    is_there = directory_next_to(home, ".old").exists()
    assert not is_there or holds(directory_next_to(home, ".old")) == ["5.18.3"]
    assert release_tree.remove_old_release(str(home), "5.18.6") == {"changed": is_there}
    assert (holds(home), directory_next_to(home, ".old").exists()) == (["5.18.6"], False)


def test_what_was_replaced_stays_while_a_process_runs_from_it(home: Path) -> None:
    lay_out(home, "5.18.6")
    old = lay_out(directory_next_to(home, ".old"), "5.18.3")
    with running_from(old):
        assert release_tree.remove_old_release(str(home), "5.18.6") == {"changed": False}
    assert release_tree.remove_old_release(str(home), "5.18.6") == {"changed": True}
    assert names(home) == [home.name]


@pytest.mark.parametrize("at", [("5.18.6", "5.18.6"), ("5.18.3", "5.18.1")])
def test_a_copy_that_somebody_made_is_neither_removed_nor_put_back(
    home: Path, systemctl: Path, at: tuple[str, str]
) -> None:
    lay_out(home, at[0])
    lay_out(directory_next_to(home, ".old"), at[1])
    assert release_tree.remove_old_release(str(home), "5.18.6") == {"changed": False}
    assert release_tree.restore_old_release(str(home), "5.18.6", UNIT) == {"changed": False}
    assert (holds(home), holds(directory_next_to(home, ".old"))) == ([at[0]], [at[1]])
    assert not systemctl.exists()
