"""The atomic replacement of the directory of a release."""

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
from tests.unit.release_jars import create_release_directory

UNIT = "activemq.service"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "activemq-5.18.6"


def directory_next_to(home: Path, suffix: str) -> Path:
    return home.with_name(home.name + suffix)


def directory_names(home: Path) -> list[str]:
    return sorted(path.name for path in home.parent.iterdir() if path.name.startswith("activemq"))


def releases_in(home: Path) -> list[str]:
    releases: list[str] = release_tree.releases_in_home(str(home))
    return releases


@contextmanager
def process_running_from(home: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process that has the jar of the broker open and terminates on SIGTERM; yield it."""
    (jar,) = (home / "lib").iterdir()
    script = "import sys; file = open(sys.argv[1]); print(); sys.stdout.flush(); sys.stdin.read()"
    command = [sys.executable, "-c", script, str(jar)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        yield child
        child.kill()


def test_first_release_is_moved_into_activemq_home(home: Path) -> None:
    create_release_directory(directory_next_to(home, ".new"), "5.18.6")
    assert release_tree.move_new_release_into_unused_home(str(home), "5.18.6") == {"changed": True, "waits": False}
    assert (directory_names(home), releases_in(home)) == ([home.name], ["5.18.6"])


@pytest.mark.parametrize(
    ("contained_release", "message"),
    [("5.18.3", "contains ActiveMQ 5.18.3 instead of"), (None, "contains no broker instead of")],
)
def test_different_release_is_not_moved_into_activemq_home(
    home: Path, contained_release: str | None, message: str
) -> None:
    if contained_release:
        create_release_directory(directory_next_to(home, ".new"), contained_release, name="5.18.6")
    else:
        directory_next_to(home, ".new").mkdir()
    with pytest.raises(NodeError, match=message):
        release_tree.move_new_release_into_unused_home(str(home), "5.18.6")
    assert directory_names(home) == []


def test_different_release_leaves_existing_activemq_home_unchanged(home: Path) -> None:
    create_release_directory(home, "5.18.6")
    create_release_directory(directory_next_to(home, ".new"), "5.18.3")
    with pytest.raises(NodeError):
        release_tree.move_new_release_into_unused_home(str(home), "5.18.6")
    assert (directory_names(home), releases_in(home)) == ([home.name], ["5.18.6"])


@pytest.mark.parametrize("existing", ["different release", "link", "empty directory"])
def test_activemq_home_without_expected_release_is_replaced(home: Path, tmp_path: Path, existing: str) -> None:
    if existing == "different release":
        create_release_directory(home, "5.18.3")
    elif existing == "link":
        home.symlink_to(create_release_directory(tmp_path / "elsewhere", "5.18.3"))
    else:
        home.mkdir()
    create_release_directory(directory_next_to(home, ".new"), "5.18.6")
    assert release_tree.move_new_release_into_unused_home(str(home), "5.18.6") == {"changed": True, "waits": False}
    assert (directory_names(home), releases_in(home)) == ([home.name], ["5.18.6"])


def test_activemq_home_with_expected_release_is_unchanged(home: Path) -> None:
    inode = create_release_directory(home, "5.18.6").stat().st_ino
    create_release_directory(directory_next_to(home, ".new"), "5.18.6")
    assert release_tree.move_new_release_into_unused_home(str(home), "5.18.6") == {"changed": False, "waits": False}
    assert (directory_names(home), home.stat().st_ino) == ([home.name], inode)


def test_new_release_waits_while_process_uses_activemq_home(home: Path) -> None:
    create_release_directory(home, "5.18.3")
    create_release_directory(directory_next_to(home, ".new"), "5.18.6")
    with process_running_from(home):
        assert release_tree.move_new_release_into_unused_home(str(home), "5.18.6") == {"changed": True, "waits": True}
        assert (directory_names(home), releases_in(home)) == ([home.name, f"{home.name}.new"], ["5.18.3"])


def test_old_release_is_restored_when_move_of_new_release_fails(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_release_directory(home, "5.18.3")
    create_release_directory(directory_next_to(home, ".new"), "5.18.6")
    rename = disk.rename_within_parent_and_sync

    def fail_for_new_release(source: str, target: str) -> None:
        if source.endswith(".new"):
            raise OSError(28, "No space left on device", source)
        rename(source, target)

    monkeypatch.setattr(disk, "rename_within_parent_and_sync", fail_for_new_release)
    with pytest.raises(OSError, match="No space left"):
        release_tree.move_new_release_into_unused_home(str(home), "5.18.6")
    assert releases_in(home) == ["5.18.3"]


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Install a systemctl whose stop terminates the process with the id in a file; yield the file with its calls."""
    calls = tmp_path / "calls"
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\necho $1 $2 >> {calls}\n[ $1 = start ] || [ ! -s {tmp_path}/pid ] || kill $(cat {tmp_path}/pid)\n"
        f"[ $1 = start ] || sleep 0.3\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    signals = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
    handlers = {number: signal.getsignal(number) for number in signals}
    yield calls
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_waiting_release_replaces_running_release_and_can_be_rolled_back(
    home: Path, tmp_path: Path, systemctl: Path
) -> None:
    create_release_directory(home, "5.18.3")
    create_release_directory(directory_next_to(home, ".new"), "5.18.6")
    with process_running_from(home) as child:
        (tmp_path / "pid").write_text(str(child.pid))
        assert release_tree.replace_running_release(str(home), "5.18.6", UNIT) == {"changed": True}
    (tmp_path / "pid").unlink()
    assert systemctl.read_text().splitlines() == [f"stop {UNIT}", f"start {UNIT}"]
    assert (releases_in(home), releases_in(directory_next_to(home, ".old"))) == (["5.18.6"], ["5.18.3"])
    assert release_tree.replace_running_release(str(home), "5.18.6", UNIT) == {"changed": False}
    assert release_tree.restore_old_release(str(home), "5.18.6", UNIT) == {"changed": True}
    assert (directory_names(home), releases_in(home)) == ([home.name], ["5.18.3"])
    assert release_tree.restore_old_release(str(home), "5.18.6", UNIT) == {"changed": False}
    assert systemctl.read_text().splitlines() == [f"stop {UNIT}", f"start {UNIT}"] * 2


def test_replacement_of_release_fails_and_starts_unit_if_process_uses_home(home: Path, systemctl: Path) -> None:
    create_release_directory(home, "5.18.3")
    create_release_directory(directory_next_to(home, ".new"), "5.18.6")
    with process_running_from(home) as child, pytest.raises(NodeError, match=f"process {child.pid} runs from"):
        release_tree.replace_running_release(str(home), "5.18.6", UNIT)
    assert releases_in(home) == ["5.18.3"]
    assert systemctl.read_text().splitlines() == [f"stop {UNIT}", f"start {UNIT}"]


def test_unit_is_not_stopped_without_expected_new_release(home: Path, systemctl: Path) -> None:
    create_release_directory(home, "5.18.3")
    with pytest.raises(NodeError, match="the broker was not stopped"):
        release_tree.replace_running_release(str(home), "5.18.6", UNIT)
    assert not systemctl.exists()


class PowerCutError(BaseException):
    """The error that stops an operation immediately, as a loss of power does."""


def simulate_power_loss_before_change(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """Simulate a loss of power before the disk change with this number; no change is half done."""
    change_count = 0

    def interrupted(change: Callable[..., None]) -> Callable[..., None]:
        def change_or_raise(*arguments: str) -> None:
            nonlocal change_count
            change_count += 1
            if change_count == number:
                raise PowerCutError
            change(*arguments)

        return change_or_raise

    monkeypatch.setattr(disk, "rename_within_parent_and_sync", interrupted(disk.rename_within_parent_and_sync))
    monkeypatch.setattr(disk, "remove_tree_or_file", interrupted(disk.remove_tree_or_file))


def interrupt_operation(monkeypatch: pytest.MonkeyPatch, number: int, operation: Callable[[], object]) -> bool:
    """Run an operation with a loss of power before this change; return whether the operation was interrupted."""
    with monkeypatch.context() as patched:
        simulate_power_loss_before_change(patched, number)
        try:
            operation()
        except PowerCutError:
            return True
    return False


CUTS = range(1, 9)
"""Numbers of disk changes, more than any operation makes: the last ones interrupt nothing."""


@pytest.mark.parametrize("number", CUTS)
def test_next_run_finishes_move_of_release_interrupted_at_any_change(
    home: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    create_release_directory(home, "5.18.3")
    create_release_directory(directory_next_to(home, ".new"), "5.18.6")
    was_interrupted = interrupt_operation(
        monkeypatch, number, lambda: release_tree.move_new_release_into_unused_home(str(home), "5.18.6")
    )
    assert was_interrupted == (number < CUTS[-1])
    disk.remove_tree_or_file(str(directory_next_to(home, ".new")))  # as the first task of the role does
    create_release_directory(directory_next_to(home, ".new"), "5.18.6")
    release_tree.move_new_release_into_unused_home(str(home), "5.18.6")
    release_tree.remove_old_release(str(home), "5.18.6")
    assert (directory_names(home), releases_in(home)) == ([home.name], ["5.18.6"])


@some_situations(2)
@pytest.mark.parametrize("number", CUTS)
def test_release_replacement_interrupted_at_any_change_leaves_startable_broker(
    home: Path, systemctl: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    create_release_directory(home, "5.18.3")
    create_release_directory(directory_next_to(home, ".new"), "5.18.6")
    interrupt_operation(monkeypatch, number, lambda: release_tree.replace_running_release(str(home), "5.18.6", UNIT))
    is_missing = not home.exists()
    systemctl.unlink()
    assert release_tree.roll_back_interrupted_replacement_and_start_unit(str(home), UNIT) == {"changed": is_missing}
    assert systemctl.exists() == is_missing
    assert releases_in(home) in (["5.18.3"], ["5.18.6"])
    release_tree.replace_running_release(str(home), "5.18.6", UNIT)
    assert (releases_in(home), releases_in(directory_next_to(home, ".old"))) == (["5.18.6"], ["5.18.3"])


@some_situations(2)
@pytest.mark.parametrize("number", CUTS)
def test_next_run_rolls_back_release_replacement_interrupted_at_any_change(
    home: Path, systemctl: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    create_release_directory(home, "5.18.3")
    create_release_directory(directory_next_to(home, ".new"), "5.18.6")
    interrupt_operation(monkeypatch, number, lambda: release_tree.replace_running_release(str(home), "5.18.6", UNIT))
    release_tree.restore_old_release(str(home), "5.18.6", UNIT)
    assert releases_in(home) == ["5.18.3"]
    assert not directory_next_to(home, ".old").exists()


@some_situations(2)
@pytest.mark.parametrize("number", CUTS)
def test_next_run_completes_rollback_of_release_interrupted_at_any_change(
    home: Path, systemctl: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    create_release_directory(home, "5.18.6")
    create_release_directory(directory_next_to(home, ".old"), "5.18.3")
    interrupt_operation(monkeypatch, number, lambda: release_tree.restore_old_release(str(home), "5.18.6", UNIT))
    release_tree.restore_old_release(str(home), "5.18.6", UNIT)
    assert releases_in(home) == ["5.18.3"]
    assert not directory_next_to(home, ".old").exists()


@pytest.mark.parametrize("number", CUTS)
def test_interrupted_removal_leaves_old_release_complete_or_absent(
    home: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    create_release_directory(home, "5.18.6")
    create_release_directory(directory_next_to(home, ".old"), "5.18.3")
    interrupt_operation(monkeypatch, number, lambda: release_tree.remove_old_release(str(home), "5.18.6"))
    is_left = directory_next_to(home, ".old").exists()
    assert not is_left or releases_in(directory_next_to(home, ".old")) == ["5.18.3"]
    assert release_tree.remove_old_release(str(home), "5.18.6") == {"changed": is_left}
    assert (releases_in(home), directory_next_to(home, ".old").exists()) == (["5.18.6"], False)


def test_old_release_is_not_removed_while_process_uses_it(home: Path) -> None:
    create_release_directory(home, "5.18.6")
    old_release = create_release_directory(directory_next_to(home, ".old"), "5.18.3")
    with process_running_from(old_release):
        assert release_tree.remove_old_release(str(home), "5.18.6") == {"changed": False}
    assert release_tree.remove_old_release(str(home), "5.18.6") == {"changed": True}
    assert directory_names(home) == [home.name]


@pytest.mark.parametrize("releases", [("5.18.6", "5.18.6"), ("5.18.3", "5.18.1")])
def test_manual_copy_of_old_release_is_neither_removed_nor_restored(
    home: Path, systemctl: Path, releases: tuple[str, str]
) -> None:
    create_release_directory(home, releases[0])
    create_release_directory(directory_next_to(home, ".old"), releases[1])
    assert release_tree.remove_old_release(str(home), "5.18.6") == {"changed": False}
    assert release_tree.restore_old_release(str(home), "5.18.6", UNIT) == {"changed": False}
    assert (releases_in(home), releases_in(directory_next_to(home, ".old"))) == ([releases[0]], [releases[1]])
    assert not systemctl.exists()
