"""What a host shows beside the state of its broker."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from activemq_fleet.node.config.configuration_archive import ConfigurationFile
from activemq_fleet.node.config.pending_restart import PendingRestart
from activemq_fleet.node.config.versions import ConfigurationPaths
from activemq_fleet.node.install.configuration_install import Owners, install_configuration
from activemq_fleet.node.kahadb.store_marker import MARKER
from activemq_fleet.node.process.proc import Process, read_process
from activemq_fleet.node.state import health
from tests.unit.release_jars import jar, lay_out
from tests.waiting import PATIENCE, within

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="takes another account")


@contextmanager
def process(*opened: Path, user: int | None = None) -> Iterator[Process]:
    """A process that has these files open, of this account."""
    script = "import sys, os; files = [open(p) for p in sys.argv[1:]]; "
    script += f"os.setgroups([]) or os.setgid({user}) or os.setuid({user}); " if user else ""
    script += "print(); sys.stdout.flush(); sys.stdin.read()"
    command = [sys.executable, "-c", script, *map(str, opened)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin
    assert child.stdout
    try:
        child.stdout.readline()
        found = read_process(child.pid)
        assert found
        yield found
    finally:
        child.stdin.close()
        child.wait(60)
        child.stdout.close()


@pytest.fixture
def base(tmp_path: Path) -> ConfigurationPaths:
    layout = ConfigurationPaths(str(tmp_path / "base"))
    install_configuration(layout, {"conf/x": ConfigurationFile(b"1", 0o640)}, Owners())
    return layout


def gather(
    layout: ConfigurationPaths, running: Process | None = None, owed: PendingRestart | None = None, store: str = ""
) -> dict[str, object]:
    found: dict[str, object] = health.gather_broker_health(layout, running, owed, store)
    return found


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
def test_the_release_is_that_of_the_jars_a_process_has_open(tmp_path: Path, name: str, release: str | None) -> None:
    (tmp_path / name).touch()
    (tmp_path / "activemq-http-9.9.9.jar").touch()
    with process(tmp_path / "activemq-http-9.9.9.jar", tmp_path / name) as running:
        assert health.running_release(running) == release


def test_a_jar_that_a_process_has_open_is_of_the_release_that_it_says_inside(tmp_path: Path) -> None:
    path = lay_out(tmp_path, "5.18.3", name="5.18.6") / "lib/activemq-broker-5.18.6.jar"
    with process(path) as running:
        assert health.running_release(running) == "5.18.3"
        path.unlink()
        assert health.running_release(running) == "5.18.3"


def test_a_jar_without_a_number_is_of_the_release_that_it_says_inside(tmp_path: Path) -> None:
    path = tmp_path / "activemq-broker.jar"
    path.write_bytes(jar(record="5.17.2"))
    with process(path) as running:
        assert health.running_release_and_unknown_reason(running) == ("5.17.2", "")


def test_why_no_release_is_seen_is_said(tmp_path: Path) -> None:
    path = tmp_path / "activemq-broker.jar"
    path.touch()
    with process(path) as running:
        assert health.running_release_and_unknown_reason(running) == (
            None,
            "neither the content nor the name of the broker's jar activemq-broker.jar contains a release",
        )
    with process() as running:
        release, why = health.running_release_and_unknown_reason(running)
    assert release is None
    assert why.endswith("is a jar of the broker (activemq-broker, activemq-core or activemq-all)")


def test_jars_that_were_removed_since_still_tell_the_release(tmp_path: Path) -> None:
    path = tmp_path / "activemq-broker-5.18.3.jar"
    path.touch()
    with process(path) as running:
        path.unlink()
        assert health.running_release(running) == "5.18.3"


def test_the_age_of_a_process_is_that_of_this_boot(base: ConfigurationPaths) -> None:
    with process() as running:
        young = gather(base, running)["age"]
        time.sleep(0.2)
        old = gather(base, running)["age"]
    assert isinstance(young, float)
    assert isinstance(old, float)
    assert old - young >= 0.1


def test_a_configuration_as_it_was_installed_shows_nothing(base: ConfigurationPaths) -> None:
    found = gather(base)
    assert (found["complete"], found["drift"], found["release"], found["age"]) == (True, [], None, None)
    assert found["store_access"] is None


def test_files_changed_by_hand_are_named(base: ConfigurationPaths) -> None:
    conf = Path(base.current) / "conf"
    (conf / "x").write_text("2")
    (conf / "y").touch()
    assert gather(base)["drift"] == ["conf/x was changed by hand", "conf/y was added by hand"]


def test_half_a_version_is_not_complete(base: ConfigurationPaths) -> None:
    (Path(base.current) / ".fleet-manifest.json").unlink()
    assert gather(base)["complete"] is False


def test_the_way_back_is_there_or_not(base: ConfigurationPaths) -> None:
    name = base.current_version_name()
    assert name is not None
    assert gather(base, owed=PendingRestart(name, (), "boot"))["previous_intact"] is True
    (Path(base.current) / "conf/x").write_text("2")
    assert gather(base, owed=PendingRestart(name, (), "boot"))["previous_intact"] is False
    assert gather(base, owed=PendingRestart("gone", (), "boot"))["previous_intact"] is False
    assert gather(base)["previous_intact"] is None


@pytest.fixture
def store(tmp_path: Path) -> Path:
    store = tmp_path / "store"
    store.mkdir()
    (store / MARKER).write_text("x-mq01\nword\n")
    (store / "lock").touch()
    return store


def test_a_store_shows_its_marker_and_its_room(base: ConfigurationPaths, store: Path) -> None:
    with process() as running:
        found = gather(base, running, store=str(store))
    assert (found["store_access"], found["store_marker"], found["store_used"]) == ("", ["x-mq01", "word"], False)
    assert sorted(found["free"]) == sorted([base.base, str(store)])  # type: ignore[call-overload]


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
    with process(generation / "db.data") as running:
        found = gather(base, running, store=str(fence / "store"))
    assert (found["generation"], found["generation_in_force"]) == (1, 1)
    with process() as waiting:
        found = gather(base, waiting, store=str(fence / "store"))
    assert (found["generation"], found["generation_in_force"]) == (None, 1)


@needs_root
def test_a_lock_that_the_brokers_account_cannot_open_is_said(base: ConfigurationPaths, store: Path) -> None:
    for directory in (store, *store.parents):
        if directory != Path("/") and directory.stat().st_uid == 0 and not directory.stat().st_mode & 0o001:
            directory.chmod(directory.stat().st_mode | 0o011)
    (store / "lock").chmod(0o600)
    with process(user=NOBODY) as running:
        found = gather(base, running, store=str(store))
        text = str(found["store_access"])
        assert f"cannot use {store}/lock, which belongs to root:root (mode 0600): run chown nobody:" in text
        (store / "lock").unlink()
        text = str(gather(base, running, store=str(store))["store_access"])
        assert f"{store}, which belongs to root:root (mode 0" in text
        assert text.endswith(f"chmod 750 {store}")
        store.chmod(0o777)
        assert gather(base, running, store=str(store))["store_access"] == ""


def test_a_store_that_does_not_answer_is_not_waited_for(
    base: ConfigurationPaths, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "_PATIENCE", 0.3)
    monkeypatch.setattr(health, "_read_store_evidence", lambda _store: time.sleep(600))
    found = within(PATIENCE, lambda: gather(base, store=str(store)))
    assert found["store_access"] == f"the file system of the store {store} does not answer within 0.3 s"
