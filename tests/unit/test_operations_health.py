"""What keeps a pair from being touched: each state is named, with its host and what to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from activemq_fleet.node.state.evidence import BrokerEvidence, TakenPort
from activemq_fleet.operations.health import BlockingPairProblem, ObservedNode, blocking_pair_problems, observe_node
from tests.support.facts_of_brokers import facts_of_broker

PAIR = "orders-mq01"
A, B = f"{PAIR}-a", f"{PAIR}-b"
RUNNING = {"ActiveState": "active", "LoadState": "loaded", "MainPID": "7", "Job": ""}
ACTIVE = ObservedNode(
    host=A,
    pair=PAIR,
    ha="shared-file",
    state="active",
    how="process 7 is running and answers",
    base="/var/lib/activemq/activemq",
    pid=7,
    age=1000.0,
    clock=5000.0,
    release="5.18.3",
    wanted="5.18.3",
    unit=RUNNING,
    store="/srv/activemq/orders-mq01",
    store_marker=(PAIR, "word"),
    store_access="",
    free={"/var/lib/activemq/activemq": 1 << 40},
)
STANDBY = replace(ACTIVE, host=B, role="slave", state="standby", how="process 7 is running and its log reports: locked")


def problems(
    active: dict[str, Any] | None = None, standby: dict[str, Any] | None = None, **more: Any
) -> list[BlockingPairProblem]:
    return blocking_pair_problems([replace(ACTIVE, **(active or {})), replace(STANDBY, **(standby or {}))], **more)


def only(found: list[BlockingPairProblem]) -> BlockingPairProblem:
    assert len(found) == 1, [str(problem) for problem in found]
    return found[0]


def test_a_pair_of_one_active_and_one_standby_has_no_problem() -> None:
    assert problems() == []


GONE: dict[str, Any] = {"state": "stopped", "how": "no process", "pid": None, "age": None}
# What one of the two shows, whose problem it is, what it is called, and what is to be done about it.
ILL: list[tuple[str, dict[str, Any], dict[str, Any], str, str, str]] = [
    (
        "the peer is stopped",
        {},
        GONE | {"unit": RUNNING | {"ActiveState": "failed"}},
        B,
        "is stopped",
        "systemctl start activemq.service",
    ),
    (
        "the active one is stopped",
        GONE | {"unit": RUNNING | {"ActiveState": "inactive"}},
        {},
        A,
        "is stopped",
        "journalctl -u activemq.service",
    ),
    ("the peer hangs", {}, {"state": "hung"}, B, "is hung", "systemctl kill -s KILL activemq.service"),
    ("the active one "
    "hangs", {"state": "hung"}, {}, A, "the standby cannot take over", "systemctl kill -s KILL activemq.service"),
    ("both are active", {}, {"state": "active"}, A, f"{A} and {B} are both active", "Immediately stop"),
    (
        "both can write to the store in force",
        {"guard": 9, "generation": 0, "generation_in_force": 0},
        {"state": "active", "guard": 8, "generation": 0, "generation_in_force": 0},
        A,
        f"the brokers {A} and {B} can both write to the current files of their shared store",
        "Immediately stop the broker with fewer client",
    ),
    (
        "one serves from a generation that was replaced",
        {"guard": 9, "generation": 2, "generation_in_force": 2},
        {"state": "active", "guard": 8, "generation": 1, "generation_in_force": 1},
        B,
        "serves clients from an old copy of its store (generation 1). A takeover has replaced this copy with",
        "systemctl kill --signal=KILL activemq.service",
    ),
    (
        "no node is active",
        {"state": "standby"},
        {},
        A,
        "no node is active",
        "run fuser -v /srv/activemq/orders-mq01/lock",
    ),
    ("the peer starts for ever", {}, {"state": "starting"}, B, "the broker is starting", "data/activemq.log"),
    (
        "the peer crashes again and again",
        {},
        GONE | {"unit": RUNNING | {"ActiveState": "activating", "NRestarts": "12"}},
        B,
        "does not start",
        "journalctl -u activemq.service",
    ),
    ("the lock cannot be "
    "had", {}, {"store_access": "permission denied"}, B, "cannot lock the store", "the owner of the files"),
    (
        "another process has a port of the standby",
        {},
        {"taken_ports": (TakenPort(61616, "0.0.0.0", 402, "python3"),)},
        B,
        "port 61616 of the standby is in use by python3, pid 402",
        "Stop this process",
    ),
    ("the marker is gone", {}, {"store_marker": None}, B, "has no file .activemq-fleet", "share is mounted"),
    ("another pair's store", {}, {"store_marker": ("stock-mq01",)}, B, "of pair stock-mq01", "Mount the store of"),
    ("two stores", {}, {"store_marker": (PAIR, "other")}, B, f"is not the store of host {A}", "Mount the same share"),
    ("the disk is nearly full", {}, {"free": {"/var": 9 << 20}}, B, "/var has 9 MiB of free space", "Free disk space"),
    ("another release runs", {"release": "5.17.6"}, {}, A, "runs 5.17.6", "Run the playbook upgrade"),
    ("a file was changed by hand", {"drift": ("conf/x was changed by hand",)}, {}, A, "conf/x was", "playbook site"),
    (
        "there is no way back",
        {"restart_required": True, "previous": "0a1b", "previous_intact": False},
        {},
        A,
        "last started (0a1b in ",
        "run the playbook site",
    ),
    (
        "the host has no configuration",
        {},
        {"version": None, "complete": False},
        B,
        "activemq.fleet has installed no configuration",
        "site first",
    ),
    ("half a configuration is there", {}, {"complete": False}, B, "is incomplete", "Run the playbook site first"),
    ("it was started by hand", {}, {"unit": RUNNING | {"MainPID": "0"}}, B, "was started outside the", "Run kill "),
    ("its unit is not "
    "there", {}, {"unit": RUNNING | {"LoadState": "not-found"}}, B, "the service unit activemq", "site"),
    ("its unit is masked", {}, {"unit": RUNNING | {"LoadState": "masked"}}, B, "is masked", "Run systemctl unmask"),
    ("systemd does not run it", {}, {"service": "none"}, B, "activemq_service is none", "that systemd runs"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("active", "standby", "host", "state", "remedy"), [case[1:] for case in ILL], ids=[c[0] for c in ILL]
)
def test_a_state_is_named_with_its_host_and_the_remedy(
    active: dict[str, Any], standby: dict[str, Any], host: str, state: str, remedy: str
) -> None:
    problem = only(problems(active, standby))
    assert problem.text.startswith(f"{host}: ")
    assert state in problem.text
    assert remedy in problem.text


@pytest.mark.parametrize("load_state", ["not-found", "masked", "loaded"])
def test_hosts_without_installed_broker_get_one_problem_each(load_state: str) -> None:
    unit = {"ActiveState": "inactive", "LoadState": load_state, "MainPID": "0", "Job": ""}
    absent = GONE | {"unit": unit, "version": None, "complete": False, "release": None, "store_marker": None}
    text = "activemq.fleet has installed no configuration below /var/lib/activemq/activemq. Run the playbook site first"
    assert [str(problem) for problem in problems(absent, absent)] == [f"{A}: {text}", f"{B}: {text}"]


@pytest.mark.parametrize(
    "shown", [{"ActiveState": "activating"}, {"ActiveState": "deactivating"}, {"Job": "77"}, {"Returns": "active"}]
)
def test_a_broker_that_systemd_is_about_to_start_is_waited_for(shown: dict[str, str]) -> None:
    unit = {"ActiveState": "inactive", "LoadState": "loaded", "Job": "0", "Returns": "inactive"}
    assert only(problems({}, GONE | {"unit": unit | shown})).patience > 60
    assert only(problems({}, GONE | {"unit": unit})).patience == 0


def test_clocks_apart_are_a_problem_of_leases_only() -> None:
    apart = {"clock": 5030.0}
    assert problems({}, apart) == []
    lease = {"ha": "shared-jdbc", "store": None}
    problem = only(problems(lease, lease | apart, window=3.0))
    assert problem.text.startswith(f"{A}: the clock of this host is 27 s or more behind")


def test_clocks_are_not_blamed_for_the_time_between_two_looks() -> None:
    lease = {"ha": "shared-jdbc", "store": None}
    assert problems(lease, lease | {"clock": 5030.0}, window=30.0) == []


def test_an_upgrade_does_not_mind_another_release() -> None:
    assert problems({"release": "5.17.6"}, upgrade=True) == []


def test_a_package_brings_another_release_which_a_restart_puts_in_force() -> None:
    assert problems({"release": "5.17.6", "is_packaged": True}) == []


def test_a_broker_on_its_own_needs_no_peer() -> None:
    assert blocking_pair_problems([replace(ACTIVE, ha="none")]) == []
    assert "is stopped" in only(blocking_pair_problems([replace(ACTIVE, ha="none", **GONE)])).text


def test_evidence_is_read_from_the_module_and_the_compiled_fleet() -> None:
    broker = facts_of_broker(B, pair=PAIR, role="slave", store="/srv/x")
    look = {"state": "stopped", "how": "no process", "restart_required": False, "store_marker": [PAIR], "unit": None}
    node = observe_node(broker, BrokerEvidence.from_broker_info_result(look))
    assert (node.host, node.unit_name, node.store_marker, node.age) == (B, "activemq.service", (PAIR,), None)
