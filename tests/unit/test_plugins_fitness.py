"""The health facts of a host: release and age of the broker process, configuration and store."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from activemq_fleet.node.config.configuration_archive import ConfigurationFile
from activemq_fleet.node.config.pending_restart import PendingRestartRecord
from activemq_fleet.node.config.versions import ConfigurationPaths
from activemq_fleet.node.fence.shared_store import claimant_name_of_this_machine
from activemq_fleet.node.host_paths import STORE_MARKER
from activemq_fleet.node.install.configuration_install import Owners, install_configuration
from activemq_fleet.node.process.proc import Process, is_still_running, read_process
from activemq_fleet.node.state import broker_health
from tests.unit.release_jars import create_release_directory, jar_content
from tests.waiting import PATIENCE, wait_until, within

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process as another account")


@contextmanager
def process_with_open_files(*paths: Path, user: int | None = None) -> Iterator[Process]:
    """Start a process of an account that has these files open, and yield it."""
    script = "import sys, os; files = [open(p) for p in sys.argv[1:]]; "
    script += f"os.setgroups([]) or os.setgid({user}) or os.setuid({user}); " if user else ""
    script += "print(); sys.stdout.flush(); sys.stdin.read()"
    command = [sys.executable, "-c", script, *map(str, paths)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin
    assert child.stdout
    try:
        child.stdout.readline()
        child_process = read_process(child.pid)
        assert child_process
        yield child_process
    finally:
        child.stdin.close()
        child.wait(60)
        child.stdout.close()


@pytest.fixture
def base(tmp_path: Path) -> ConfigurationPaths:
    paths = ConfigurationPaths(str(tmp_path / "base"))
    install_configuration(paths, {"conf/x": ConfigurationFile(b"1", 0o640)}, Owners())
    return paths


def gather_health(
    paths: ConfigurationPaths,
    running: Process | None = None,
    pending: PendingRestartRecord | None = None,
    store: str = "",
) -> dict[str, object]:
    facts: dict[str, object] = broker_health.gather_release_drift_and_store_facts(paths, running, pending, store)
    return facts


@pytest.mark.parametrize(
    ("name", "release"),
    [
        ("activemq-broker-5.18.3.jar", "5.18.3"),
        ("activemq-core-5.5.1.jar", "5.5.1"),
        ("activemq-all-6.3.1.jar", "6.3.1"),
        ("activemq-broker-5.11.0.redhat-1.jar", "5.11.0.redhat-1"),
        ("activemq-broker-jmx.jar", None),
    ],
)
def test_running_release_is_that_of_open_jars_of_process(tmp_path: Path, name: str, release: str | None) -> None:
    (tmp_path / name).touch()
    (tmp_path / "activemq-http-9.9.9.jar").touch()
    with process_with_open_files(tmp_path / "activemq-http-9.9.9.jar", tmp_path / name) as running:
        assert broker_health.running_release(running) == release


def test_running_release_comes_from_content_of_open_jar_even_if_deleted(tmp_path: Path) -> None:
    path = create_release_directory(tmp_path, "5.18.3", name="5.18.6") / "lib/activemq-broker-5.18.6.jar"
    with process_with_open_files(path) as running:
        assert broker_health.running_release(running) == "5.18.3"
        path.unlink()
        assert broker_health.running_release(running) == "5.18.3"


def test_running_release_comes_from_content_of_jar_without_version_in_name(tmp_path: Path) -> None:
    path = tmp_path / "activemq-broker.jar"
    path.write_bytes(jar_content(record="5.17.2"))
    with process_with_open_files(path) as running:
        assert broker_health.running_release_and_unknown_reason(running) == ("5.17.2", "")


def test_unknown_running_release_has_reason(tmp_path: Path) -> None:
    path = tmp_path / "activemq-broker.jar"
    path.touch()
    with process_with_open_files(path) as running:
        assert broker_health.running_release_and_unknown_reason(running) == (
            None,
            "neither the content nor the name of the broker's jar activemq-broker.jar contains a release",
        )
    with process_with_open_files() as running:
        release, reason = broker_health.running_release_and_unknown_reason(running)
    assert release is None
    assert reason.endswith("is a jar of the broker (activemq-broker, activemq-core or activemq-all)")


def test_running_release_comes_from_name_of_deleted_jar(tmp_path: Path) -> None:
    path = tmp_path / "activemq-broker-5.18.3.jar"
    path.touch()
    with process_with_open_files(path) as running:
        path.unlink()
        assert broker_health.running_release(running) == "5.18.3"


def test_age_of_broker_process_grows_with_time(base: ConfigurationPaths) -> None:
    with process_with_open_files() as running:
        first_age = gather_health(base, running)["age"]
        time.sleep(0.2)
        second_age = gather_health(base, running)["age"]
    assert isinstance(first_age, float)
    assert isinstance(second_age, float)
    assert second_age - first_age >= 0.1


def test_unchanged_configuration_is_complete_and_without_drift(base: ConfigurationPaths) -> None:
    facts = gather_health(base)
    assert (facts["complete"], facts["drift"], facts["release"], facts["age"]) == (True, [], None, None)
    assert facts["store_access"] is None


def test_drift_names_files_changed_and_added_by_hand(base: ConfigurationPaths) -> None:
    conf = Path(base.current) / "conf"
    (conf / "x").write_text("2")
    (conf / "y").touch()
    assert gather_health(base)["drift"] == ["conf/x was changed by hand", "conf/y was added by hand"]


def test_configuration_version_without_manifest_is_incomplete(base: ConfigurationPaths) -> None:
    (Path(base.current) / ".fleet-manifest.json").unlink()
    assert gather_health(base)["complete"] is False


def test_previous_configuration_is_intact_only_if_present_and_unchanged(base: ConfigurationPaths) -> None:
    name = base.current_version_name()
    assert name is not None
    assert gather_health(base, pending=PendingRestartRecord(name, (), "boot"))["previous_intact"] is True
    (Path(base.current) / "conf/x").write_text("2")
    assert gather_health(base, pending=PendingRestartRecord(name, (), "boot"))["previous_intact"] is False
    assert gather_health(base, pending=PendingRestartRecord("gone", (), "boot"))["previous_intact"] is False
    assert gather_health(base)["previous_intact"] is None


@pytest.fixture
def store(tmp_path: Path) -> Path:
    store = tmp_path / "store"
    store.mkdir()
    (store / STORE_MARKER).write_text("x-mq01\nword\n")
    (store / "lock").touch()
    return store


def test_health_of_store_has_marker_and_free_space(base: ConfigurationPaths, store: Path) -> None:
    with process_with_open_files() as running:
        facts = gather_health(base, running, store=str(store))
    assert (facts["store_access"], facts["store_marker"], facts["store_used"]) == ("", ["x-mq01", "word"], False)
    assert sorted(facts["free"]) == sorted([base.base, str(store)])  # type: ignore[call-overload]


@pytest.mark.parametrize(("guard", "problem"), [(None, "the broker runs without a guard"), (7, "")])
def test_broker_without_guard_cannot_lock_fenced_store(
    base: ConfigurationPaths, store: Path, monkeypatch: pytest.MonkeyPatch, guard: int | None, problem: str
) -> None:
    (store / "lock").unlink()
    (store / "lock").mkdir()
    (store / "fence").mkdir()
    (store / "fence/lock").touch()
    monkeypatch.setattr(broker_health, "guard_pid_of_broker", lambda _process: guard)
    with process_with_open_files() as running:
        access = str(gather_health(base, running, store=str(store))["store_access"])
    assert (problem in access, bool(access)) == (True, bool(problem))
    assert gather_health(base, store=str(store))["store_access"] == ""


def test_broker_that_ends_while_fenced_store_is_read_is_not_reported_without_guard(
    base: ConfigurationPaths, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_evidence = broker_health._store_evidence

    def end_broker_after_reading(store: str, process: Process, data: str) -> dict[str, object]:
        evidence: dict[str, object] = read_evidence(store, process, data)
        os.kill(process.pid, signal.SIGKILL)
        wait_until(lambda: not is_still_running(process), "the process ends")
        return evidence

    (store / "lock").unlink()
    (store / "lock").mkdir()
    (store / "fence").mkdir()
    (store / "fence/lock").touch()
    monkeypatch.setattr(broker_health, "_store_evidence", end_broker_after_reading)
    with process_with_open_files() as running:
        assert gather_health(base, running, store=str(store))["store_access"] == ""


def test_store_of_broker_that_has_ended_is_read_as_of_stopped_broker(base: ConfigurationPaths, store: Path) -> None:
    with process_with_open_files() as running:
        pass
    facts = gather_health(base, running, store=str(store))
    assert (facts["store_access"], facts["store_marker"], facts["store_used"]) == ("", ["x-mq01", "word"], False)


def test_unresponsive_store_of_broker_that_ends_meanwhile_is_read_once(
    base: ConfigurationPaths, store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def hang_and_end_broker(*_arguments: object) -> None:
        with (tmp_path / "reads").open("a") as file:
            file.write("read\n")
        os.kill(running.pid, signal.SIGKILL)
        time.sleep(600)

    monkeypatch.setattr(broker_health, "_STORE_TIMEOUT", 2.0)
    monkeypatch.setattr(broker_health, "_read_store_evidence", hang_and_end_broker)
    with process_with_open_files() as running:
        facts = gather_health(base, running, store=str(store))
    assert facts["store_access"] == f"the file system of the store {store} does not answer within 2 s"
    assert (tmp_path / "reads").read_text() == "read\n"


def test_store_that_does_not_exist_is_unused(base: ConfigurationPaths, store: Path) -> None:
    facts = gather_health(base, store=f"{store}/none")
    assert (facts["store_used"], facts["store_access"]) == (False, f"the store directory {store}/none does not exist")


@pytest.mark.parametrize("failing", ["open_directory", "was_store_ever_used"])
def test_use_of_unreadable_store_is_unknown(
    base: ConfigurationPaths, store: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail_to_read(*_arguments: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(broker_health, failing, fail_to_read)
    facts = gather_health(base, store=str(store))
    assert (facts["store_used"], facts["store_access"]) == (None, f"{store}: input/output error")


def test_fenced_store_shows_generation_in_force_and_open_generation_of_broker(
    base: ConfigurationPaths, store: Path
) -> None:
    fence = store.parent / "fence"
    generation = store / "generations/1-0123456789abcdef"
    for directory in (generation, store / "fence/claims", fence):
        directory.mkdir(parents=True)
    (store / "fence/claims/1").write_text(json.dumps({"number": 1, "node": "n", "directory": generation.name}))
    (generation / "db.data").touch()
    (fence / "shared").symlink_to(store)
    (fence / "store").symlink_to(generation)
    with process_with_open_files(generation / "db.data") as running:
        facts = gather_health(base, running, store=str(fence / "store"))
    assert (facts["generation"], facts["generation_in_force"]) == (1, 1)
    with process_with_open_files() as waiting:
        facts = gather_health(base, waiting, store=str(fence / "store"))
    assert (facts["generation"], facts["generation_in_force"]) == (None, 1)


def let_all_accounts_enter(directory: Path) -> None:
    for parent in (directory, *directory.parents):
        if parent != Path("/") and parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)


@needs_root
def test_store_access_names_path_that_broker_account_cannot_use(base: ConfigurationPaths, store: Path) -> None:
    let_all_accounts_enter(store)
    (store / "lock").chmod(0o600)
    with process_with_open_files(user=NOBODY) as running:
        facts = gather_health(base, running, store=str(store))
        access_problem = str(facts["store_access"])
        assert f"cannot use {store}/lock, which belongs to root:root (mode 0600): run chown nobody:" in access_problem
        (store / "lock").unlink()
        access_problem = str(gather_health(base, running, store=str(store))["store_access"])
        assert f"{store}, which belongs to root:root (mode 0" in access_problem
        assert access_problem.endswith(f"chmod 750 {store}")
        store.chmod(0o777)
        assert gather_health(base, running, store=str(store))["store_access"] == ""


@needs_root
def test_store_of_stopped_guarded_broker_is_read_as_its_account(base: ConfigurationPaths, store: Path) -> None:
    guard_directory, generation = Path(base.data, "fence"), "1-0123456789abcdef"
    for directory in (store / "generations" / generation, store / "fence/claims", guard_directory):
        directory.mkdir(parents=True)
    (guard_directory / "node").write_text("n")
    (guard_directory / "shared").symlink_to(store)
    (guard_directory / "store").symlink_to(store / "generations" / generation)
    claim = {"number": 1, "node": claimant_name_of_this_machine(str(guard_directory)), "directory": generation}
    (store / "fence/claims/1").write_text(json.dumps({**claim, "made": 7.5}))
    let_all_accounts_enter(store)
    let_all_accounts_enter(guard_directory)
    for path in (store, *store.rglob("*"), Path(base.data), *Path(base.data).rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    facts = gather_health(base, store=str(guard_directory / "store"))
    assert (facts["store_access"], facts["store_marker"], facts["store_used"]) == ("", ["x-mq01", "word"], True)
    assert (facts["generation_in_force"], facts["generations"]) == (1, [{"number": 1, "made": 7.5}])


@needs_root
def test_use_of_store_of_another_account_is_known_to_root(base: ConfigurationPaths, store: Path) -> None:
    (store / "db-1.log").touch()
    os.chown(store, NOBODY, NOBODY)
    facts = gather_health(base, store=str(store))
    assert (facts["store_access"], facts["store_marker"], facts["store_used"]) == ("", ["x-mq01", "word"], True)
    assert str(store) in facts["free"]  # type: ignore[operator]


def test_health_of_unresponsive_store_times_out(
    base: ConfigurationPaths, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_health, "_STORE_TIMEOUT", 0.3)
    monkeypatch.setattr(broker_health, "_read_store_evidence", lambda _store: time.sleep(600))
    facts = within(PATIENCE, lambda: gather_health(base, store=str(store)))
    assert facts["store_access"] == f"the file system of the store {store} does not answer within 0.3 s"
