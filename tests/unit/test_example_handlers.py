"""The example handlers: they do what the README documents, and every handler can run twice."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sqlite3
import subprocess
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from activemq_agent.handling import GROUP, Event
from activemq_agent.store import Store, StoreLimits

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "agent-handlers"
HANDLERS = EXAMPLE / "handlers.d"
NAMES = sorted(path.name for path in HANDLERS.iterdir() if path.is_file())
MEMBER = {"MEMBER_ID": "web-1", "CLUSTER_ID": "web"}


def run_handler(
    directory: Path, name: str, payload: dict[str, Any], **environment: str
) -> subprocess.CompletedProcess[str]:
    event = {"event_id": "t:1", "rx_id": "r1", "topic": f"x/{name}", "attempt": 1, "payload": json.dumps(payload)}
    return subprocess.run(
        [HANDLERS / name],
        input=json.dumps(event),
        env=os.environ | MEMBER | {"KNOWN": str(directory), "EVENT_ID": "t:1", "RX_ID": "r1"} | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def run_handler_twice(directory: Path, name: str, payload: dict[str, Any], **environment: str) -> None:
    """Run a handler twice, as after a kill of the agent; both runs must succeed."""
    for _ in range(2):
        process = run_handler(directory, name, payload, **environment)
        assert (process.returncode, process.stderr) == (0, "")


def read_state(directory: Path, name: str) -> Any:
    return json.loads((directory / f"{name}.json").read_text())


def test_every_example_handler_is_documented_and_executable() -> None:
    documented_names = re.findall(r"`(\w+Event)`", (EXAMPLE / "README.md").read_text())
    assert set(NAMES) | {"InstanceReadyToShutdownEvent"} == set(documented_names)
    assert all(os.access(HANDLERS / name, os.X_OK) for name in NAMES)


def test_example_handlers_keep_members_of_last_topology_and_later_events(tmp_path: Path) -> None:
    members = {"web-1": {"clusterId": "web", "serviceName": "php"}, "web-2": {"clusterId": "web"}}
    topology = {"serviceMap": {"php": {"clusterIdClusterMap": {"web": {"memberMap": members}}}}}
    run_handler_twice(tmp_path, "MemberActivatedEvent", {"memberId": "old-1", "clusterId": "old"})
    run_handler_twice(tmp_path, "CompleteTopologyEvent", {"topology": topology})
    run_handler_twice(tmp_path, "MemberActivatedEvent", {"memberId": "web-3", "clusterId": "web", "serviceName": "php"})
    run_handler_twice(tmp_path, "MemberTerminatedEvent", {"memberId": "web-2"})

    assert read_state(tmp_path, "members") == {
        name: {"clusterId": "web", "serviceName": "php"} for name in ("web-1", "web-3")
    }


def test_example_handler_deletes_removed_tenant_with_its_domains(tmp_path: Path) -> None:
    tenants = [{"tenantId": number, "tenantDomain": f"t{number}.example.com"} for number in (1, 2)]
    run_handler_twice(tmp_path, "CompleteTenantEvent", {"tenants": tenants})
    run_handler_twice(tmp_path, "TenantSubscribedEvent", {"tenantId": 2, "serviceName": "php"})
    for number, domain in ((1, "a.example.com"), (2, "b.example.com"), (2, "c.example.com")):
        run_handler_twice(tmp_path, "DomainMappingAddedEvent", {"tenantId": number, "domainName": domain})
    run_handler_twice(tmp_path, "DomainsMappingRemovedEvent", {"tenantId": 2, "domainName": "c.example.com"})
    run_handler_twice(tmp_path, "ApplicationSignUpRemovedEvent", {"applicationId": "shop", "tenantId": 1})

    assert read_state(tmp_path, "tenants") == {"2": {"domain": "t2.example.com", "services": ["php"]}}
    assert read_state(tmp_path, "domains") == {"b.example.com": {"tenantId": 2, "contextPath": "/"}}


def test_example_handler_repeats_ready_event_of_own_member_with_same_id(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    agent.write_text(f'#!/bin/sh\necho "$@" "$(cat)" >> {tmp_path}/published\n')
    agent.chmod(0o755)
    run_handler_twice(tmp_path, "InstanceCleanupMemberEvent", {"memberId": "web-2"}, ACTIVEMQ_AGENT=str(agent))
    run_handler_twice(tmp_path, "InstanceCleanupMemberEvent", {"memberId": "web-1"}, ACTIVEMQ_AGENT=str(agent))

    line = 'publish --id ready-t:1 instance/status/InstanceReadyToShutdownEvent {"memberId": "web-1"}\n'
    assert (tmp_path / "published").read_text() == 2 * line


def test_example_handler_fetches_only_artifacts_of_its_cluster(tmp_path: Path) -> None:
    upstream, clone = tmp_path / "upstream", tmp_path / "own"
    git = ("git", "-c", "user.name=x", "-c", "user.email=x@example.com", "-C")
    for command in (("git", "init", "-q", upstream), ("git", "clone", "-q", upstream, clone),
                    (*git, upstream, "commit", "-q", "--allow-empty", "-m", "new")):  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
    run_handler_twice(tmp_path, "ArtifactUpdatedEvent", {"clusterId": "other"}, ARTIFACTS="/nowhere")
    run_handler_twice(tmp_path, "ArtifactUpdatedEvent", {"clusterId": "web"}, ARTIFACTS=str(clone))

    log = subprocess.run((*git, clone, "log", "--format=%s"), check=True, capture_output=True, text=True).stdout
    assert log == "new\n"


# The Complete… events are excluded, because an empty topology and an empty list of tenants are valid.
@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith("Complete")])
def test_example_handler_fails_for_event_without_required_fields(name: str, tmp_path: Path) -> None:
    assert run_handler(tmp_path, name, {}).returncode != 0


def load_package() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fleet_handlers", EXAMPLE / "package/src/fleet_handlers/__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_entry_points_of_example_handler_package_exist() -> None:
    points = tomllib.loads((EXAMPLE / "package/pyproject.toml").read_text())["project"]["entry-points"][GROUP]
    assert all(hasattr(load_package(), value.partition(":")[2]) and name in NAMES for name, value in points.items())


def test_example_handler_commits_member_count_with_its_event(tmp_path: Path) -> None:
    handlers = load_package()
    store = Store.open(tmp_path, agent="kiosk", limits=StoreLimits(filters=("#",)))
    try:
        for handler in (handlers.count_member, handlers.count_member, handlers.discount_member):
            receipt = store.queue_message_for_inbox(
                "topology/x", b'{"clusterId": "web"}', broker="b:1883", conn=1
            ).result()
            event = Event(None, "r", "topology/x", b'{"clusterId": "web"}', 1)
            handler(event)
            store.queue_handled_record(receipt.rx, event.statements).result()
    finally:
        store.close()

    assert sqlite3.connect(tmp_path / "store.db").execute("SELECT * FROM x_members").fetchall() == [("web", 1)]
