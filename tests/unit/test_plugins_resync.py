"""The decision of the playbook resync, and the copy of a store through the controller."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.activemq.fleet.plugins.action import store_copy as action

from activemq_fleet.deployment import FleetFacts
from activemq_fleet.errors import FleetError
from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.kahadb import content_hashes, store_copy
from activemq_fleet.operations import OperationDecisionRequest, decide_operation
from tests.support.facts_of_brokers import facts_of_broker
from tests.unit.kahadb_journals import add_record, trace_record, write_data_file

MASTER, SLAVE = "x-mq01-a", "x-mq01-b"


def broker_evidence(state: str) -> dict[str, Any]:
    phase = {"active": "started", "standby": "attached"}.get(state, "unknown")
    return {
        "state": state,
        "unit": {"ActiveState": "inactive" if state == "stopped" else "active"},
        "log": {"phase": phase},
        "connectors": {},
        "message_returned": None,
        "age": 5.0,
        "restart_required": False,
    }


def store_facts(directory: Path, *records: bytes, **overrides: Any) -> dict[str, Any]:
    write_data_file(directory, trace_record(), *records)
    facts: dict[str, Any] = {
        "runs": [],
        "locked": False,
        "unfinished": False,
        "obstacle": "",
        "free": 1 << 40,
        "allocated": 1,
    }
    return {**facts, **content_hashes.compute_message_and_subscription_hashes(str(directory)), **overrides}


def decide_next_step(
    states: tuple[str, str], stores: tuple[dict[str, Any], ...], service: str = "systemd", **further_options: Any
) -> dict[str, Any]:
    warnings: list[str] = []
    options = {"chosen": "", "restart": False, "check": False, "looked_at": 100.0}
    request = OperationDecisionRequest(
        fleet=FleetFacts(
            brokers={
                MASTER: facts_of_broker(MASTER, "5.5.1", ha="pure", service=service),
                SLAVE: facts_of_broker(SLAVE, "5.5.1", ha="pure", role="slave"),
            }
        ),
        evidence={MASTER: broker_evidence(states[0]), SLAVE: broker_evidence(states[1])},
        target={"pairs": {"x-mq01": [MASTER, SLAVE]}, "since_epoch": 99.0},
        options=options | {"stores": dict(zip((MASTER, SLAVE), stores, strict=True))} | further_options,
        warn=warnings.append,
    )
    step: dict[str, Any] = decide_operation("resync", request)["step"]
    return step


@pytest.fixture
def newer_master(tmp_path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    return store_facts(tmp_path / "a", add_record("m1"), add_record("m2")), store_facts(
        tmp_path / "b", add_record("m1")
    )


def test_next_resync_step_follows_from_evidence_of_both_hosts(newer_master: tuple[dict[str, Any], ...]) -> None:
    step = decide_next_step(("stopped", "stopped"), newer_master)
    assert (step["act"], step["hosts"], step["winner"]) == ("copy", [MASTER, SLAVE], MASTER)
    assert "has 1 message that x-mq01-b never received" in step["say"]


def test_resync_in_check_mode_reports_next_step_and_changes_nothing(newer_master: tuple[dict[str, Any], ...]) -> None:
    step = decide_next_step(("active", "stopped"), newer_master, check=True)
    assert step["act"] == "done"
    assert step["say"].startswith(
        "nothing was changed; the next step would be: x-mq01-a: the playbook stops the broker"
    )


def test_restart_of_resync_is_done_when_both_brokers_started_after_run(tmp_path: Path) -> None:
    equal = store_facts(tmp_path / "a", add_record("m1")), store_facts(tmp_path / "b", add_record("m1"))
    assert decide_next_step(("active", "standby"), equal, restart=True)["act"] == "stop"
    assert decide_next_step(("active", "standby"), equal, restart=True, looked_at=200.0)["act"] == "done"


def test_resync_refuses_disk_without_space_before_broker_is_stopped(newer_master: tuple[dict[str, Any], ...]) -> None:
    with pytest.raises(
        FleetError, match=r"x-mq01-b: nothing was changed, .*: the file system of the store has 0 MiB free"
    ):
        decide_next_step(("active", "stopped"), (newer_master[0], newer_master[1] | {"free": 10}))


def test_resync_refuses_broker_without_service_unit(newer_master: tuple[dict[str, Any], ...]) -> None:
    with pytest.raises(
        FleetError, match="x-mq01-a: activemq_service is none, but the playbook resync can stop and start"
    ):
        decide_next_step(("active", "stopped"), newer_master, service="none")


class Carrier(action.ActionModule):
    """The action, with directories as hosts; it is interrupted after ``call_limit`` calls of the module."""

    def __init__(self, call_limit: int = 1 << 30) -> None:
        self.calls, self.call_limit = 0, call_limit

    def _run_module(self, arguments: dict[str, Any], variables: dict[str, Any]) -> dict[str, Any]:
        self.calls += 1
        if self.calls > self.call_limit:
            raise KeyboardInterrupt
        if arguments["state"] == "read":
            manifest_entry = arguments["files"][arguments["name"]]
            chunk = store_copy.read_packed_chunk(
                arguments["directory"], arguments["name"], arguments["offset"], manifest_entry["size"]
            )
            return {"data": chunk}
        names = ("directory", "files", "name", "offset", "data")
        return {"length": store_copy.append_compressed_chunk(*(arguments[name] for name in names))}


def copy_store(source: Path, target: Path, spool: Path, call_limit: int = 1 << 30) -> int:
    """Fetch and place a complete store; return the number of calls."""
    carrier, files = Carrier(call_limit), store_copy.store_manifest(str(source))
    missing = store_copy.prepare_staging_and_list_missing_files(str(target), files)
    task = {"files": files, "missing": missing, "spool": str(spool)}
    carrier._fetch_missing_files(task | {"directory": str(source)}, {})
    carrier._send_spooled_files(task | {"directory": str(target)}, {})
    return carrier.calls


@pytest.fixture
def copy_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path, Path]:
    monkeypatch.setattr(store_copy, "CHUNK", 100)
    source, target = tmp_path / "a" / "kahadb", tmp_path / "b" / "kahadb"
    write_data_file(source, *(add_record(f"m{number}") for number in range(20)), reserved=500)
    write_data_file(target, add_record("old"))
    (source / "db.data").write_bytes(bytes(range(256)))
    return source, target, tmp_path / "spool"


def test_store_copy_leaves_nothing_on_controller(copy_paths: tuple[Path, Path, Path]) -> None:
    source, target, spool = copy_paths
    copy_store(source, target, spool)
    store_copy.replace_store_by_copy(str(target), store_copy.store_manifest(str(source)), "a")
    assert store_copy.store_manifest(str(target)) == store_copy.store_manifest(str(source))
    assert list(spool.iterdir()) == []


def test_interrupted_store_copy_continues_where_it_stopped(copy_paths: tuple[Path, Path, Path]) -> None:
    source, target, spool = copy_paths
    calls_of_single_run = 2 * (-(-(source / "db-1.log").stat().st_size // 100) + 3)
    runs = calls = 0
    while True:
        runs += 1
        try:
            calls += copy_store(source, target, spool, call_limit=3)
            break
        except KeyboardInterrupt:
            calls += 3
    store_copy.replace_store_by_copy(str(target), store_copy.store_manifest(str(source)), "a")
    assert store_copy.store_manifest(str(target)) == store_copy.store_manifest(str(source))
    assert runs > 10
    assert calls < 2 * calls_of_single_run  # a later run does not transfer everything again


def test_store_file_that_changes_during_copy_is_error(copy_paths: tuple[Path, Path, Path]) -> None:
    source, target, spool = copy_paths
    carrier, files = Carrier(), store_copy.store_manifest(str(source))
    missing = store_copy.prepare_staging_and_list_missing_files(str(target), files)
    (source / "db.data").write_bytes(b"shorter")
    with pytest.raises(NodeError, match="find the process that writes to it"):
        carrier._fetch_missing_files(
            {"files": files, "missing": missing, "spool": str(spool), "directory": str(source)}, {}
        )


def test_store_copy_requires_space_on_controller(
    copy_paths: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target, spool = copy_paths
    monkeypatch.setattr(action, "_SPARE_BYTES", 1 << 62)
    with pytest.raises(NodeError, match="the copy of the store requires"):
        copy_store(source, target, spool)


def test_continued_store_copy_requires_space_only_for_missing_bytes(
    copy_paths: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target, spool = copy_paths
    complete_size = sum(entry["size"] for entry in store_copy.store_manifest(str(source)).values())
    monkeypatch.setattr(action, "_SPARE_BYTES", 0)
    free = complete_size
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    with pytest.raises(KeyboardInterrupt):
        copy_store(source, target, spool, call_limit=3)
    # The controller has received 3 chunks of 100 bytes.
    free = complete_size - 301
    with pytest.raises(NodeError, match="the copy of the store requires"):
        copy_store(source, target, spool)
    free = complete_size - 300
    copy_store(source, target, spool)


def test_store_copy_requires_no_space_on_controller_for_bytes_that_host_has(
    copy_paths: tuple[Path, Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target, spool = copy_paths
    files = store_copy.store_manifest(str(source))
    store_copy.prepare_staging_and_list_missing_files(str(target), files)
    size = files["db-1.log"]["size"]
    chunk = store_copy.read_packed_chunk(str(source), "db-1.log", 0, size)
    store_copy.append_compressed_chunk(str(target), files, "db-1.log", 0, chunk)
    free = sum(entry["size"] for entry in files.values()) - 100
    monkeypatch.setattr(action, "_SPARE_BYTES", 0)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    copy_store(source, target, spool)
