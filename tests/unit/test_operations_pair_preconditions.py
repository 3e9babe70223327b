"""States of a pair that block an operation: each problem names its host and the remedy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from activemq_fleet.node.state.evidence import BrokerEvidence, TakenPort
from activemq_fleet.operations.pair_preconditions import (
    ObservedNode,
    UnmetPrecondition,
    observe_node,
    unmet_pair_preconditions,
)
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


def problems_of_pair(
    active: dict[str, Any] | None = None, standby: dict[str, Any] | None = None, **more: Any
) -> list[UnmetPrecondition]:
    return unmet_pair_preconditions([replace(ACTIVE, **(active or {})), replace(STANDBY, **(standby or {}))], **more)


def only_problem(problems: list[UnmetPrecondition]) -> UnmetPrecondition:
    assert len(problems) == 1, [str(problem) for problem in problems]
    return problems[0]


def test_pair_of_active_and_standby_has_no_problem() -> None:
    assert problems_of_pair() == []


STOPPED: dict[str, Any] = {"state": "stopped", "how": "no process", "pid": None, "age": None}
# The id, the states of the active and the standby node, the host with the problem, its text, and the remedy.
UNHEALTHY_PAIRS: list[tuple[str, dict[str, Any], dict[str, Any], str, str, str]] = [
    (
        "the peer is stopped",
        {},
        STOPPED | {"unit": RUNNING | {"ActiveState": "failed"}},
        B,
        "is stopped",
        "systemctl start activemq.service",
    ),
    (
        "the active node is stopped",
        STOPPED | {"unit": RUNNING | {"ActiveState": "inactive"}},
        {},
        A,
        "is stopped",
        "journalctl -u activemq.service",
    ),
    ("the peer hangs", {}, {"state": "hung"}, B, "is hung", "systemctl kill -s KILL activemq.service"),
    ("the active node "
    "hangs", {"state": "hung"}, {}, A, "the standby cannot take over", "systemctl kill -s KILL activemq.service"),
    ("both nodes are active", {}, {"state": "active"}, A, f"{A} and {B} are both active", "Immediately stop"),
    (
        "both nodes can write to the current store",
        {"guard": 9, "generation": 0, "generation_in_force": 0},
        {"state": "active", "guard": 8, "generation": 0, "generation_in_force": 0},
        A,
        f"the brokers {A} and {B} can both write to the current files of their shared store",
        "Immediately stop the broker with fewer client",
    ),
    (
        "one node serves clients from a replaced generation",
        {"guard": 9, "generation": 2, "generation_in_force": 2},
        {"state": "active", "guard": 8, "generation": 1, "generation_in_force": 1},
        B,
        "serves clients from generation 1, an old copy of its store. A takeover has replaced this copy with",
        "systemctl kill --signal=KILL activemq.service",
    ),
    (
        "the active node serves clients from a replaced generation",
        {"guard": 9, "generation": 3, "generation_in_force": 4},
        {"guard": 8, "generation_in_force": 4},
        A,
        "serves clients from generation 3, an old copy of its store. A takeover has replaced this copy with generation "
        "4",
        "systemctl kill --signal=KILL activemq.service",
    ),
    (
        "the newest generation cannot be read",
        {"guard": 9, "generation": 5},
        {"state": "active", "guard": 8, "generation": 5},
        A,
        f"{A} and {B} are both active, and the newest generation (numbered copy) of the store cannot be read",
        "stop the broker with fewer client connections",
    ),
    (
        "the generation of an active node is not known",
        {"guard": 9, "generation": 4, "generation_in_force": 4},
        {"state": "active", "guard": 8, "generation_in_force": 4},
        A,
        f"the generation (numbered copy) of the store that the broker of {B} uses is not known",
        "stop the broker with fewer client connections",
    ),
    (
        "no node is active",
        {"state": "standby"},
        {},
        A,
        "no node is active",
        "run fuser -v /srv/activemq/orders-mq01/lock",
    ),
    (
        "no node with a guard is active",
        {"state": "standby", "fence": "guard"},
        {"fence": "guard"},
        A,
        "or for their guards (activemq_fence), which cannot take over the store",
        "run fuser -v /srv/activemq/orders-mq01/fence/lock /srv/activemq/orders-mq01/lock",
    ),
    ("the peer starts indefinitely", {}, {"state": "starting"}, B, "the broker is starting", "data/activemq.log"),
    (
        "the peer crashes repeatedly",
        {},
        STOPPED | {"unit": RUNNING | {"ActiveState": "activating", "NRestarts": "12"}},
        B,
        "does not start",
        "journalctl -u activemq.service",
    ),
    ("the lock cannot be "
    "acquired", {}, {"store_access": "permission denied"}, B, "cannot lock the store", "the owner of the files"),
    (
        "another process has a port of the standby",
        {},
        {"taken_ports": (TakenPort(61616, "0.0.0.0", 402, "python3"),)},
        B,
        "port 61616 of the standby is in use by python3, pid 402",
        "Stop this process",
    ),
    ("the marker is missing", {}, {"store_marker": None}, B, "has no file .activemq-fleet", "share is mounted"),
    ("store of another pair", {}, {"store_marker": ("stock-mq01",)}, B, "of pair stock-mq01", "Mount the store of"),
    (
        "the nodes have different stores",
        {},
        {"store_marker": (PAIR, "other")},
        B,
        f"is not the store of host {A}",
        "Mount the same share",
    ),
    ("the disk is nearly full", {}, {"free": {"/var": 9 << 20}}, B, "/var has 9 MiB of free space", "Free disk space"),
    ("another release runs", {"release": "5.17.6"}, {}, A, "runs 5.17.6", "Run the playbook upgrade"),
    ("a file was changed manually", {"drift": ("conf/x was changed by hand",)}, {}, A, "conf/x was", "playbook site"),
    (
        "rollback is not possible",
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
    ("the configuration is incomplete", {}, {"complete": False}, B, "is incomplete", "Run the playbook site first"),
    ("broker started manually", {}, {"unit": RUNNING | {"MainPID": "0"}}, B, "was started outside the", "Run kill "),
    ("the service unit does not "
    "exist", {}, {"unit": RUNNING | {"LoadState": "not-found"}}, B, "the service unit activemq", "site"),
    ("the unit is masked", {}, {"unit": RUNNING | {"LoadState": "masked"}}, B, "is masked", "Run systemctl unmask"),
    ("systemd does not run the broker", {}, {"service": "none"}, B, "activemq_service is none", "that systemd runs"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("active", "standby", "host", "state", "remedy"),
    [case[1:] for case in UNHEALTHY_PAIRS],
    ids=[case[0] for case in UNHEALTHY_PAIRS],
)
def test_problem_of_unhealthy_pair_has_host_state_and_remedy(
    active: dict[str, Any], standby: dict[str, Any], host: str, state: str, remedy: str
) -> None:
    problem = only_problem(problems_of_pair(active, standby))
    assert problem.text.startswith(f"{host}: ")
    assert state in problem.text
    assert remedy in problem.text


@pytest.mark.parametrize("generation", [1, 5])
def test_generations_of_different_stores_are_not_compared(generation: int) -> None:
    other_store = {"store_marker": (PAIR, "other"), "generation": generation, "generation_in_force": generation}
    problems = problems_of_pair(
        {"guard": 9, "generation": 5, "generation_in_force": 5}, {"state": "active", "guard": 8, **other_store}
    )
    assert [problem.text.partition(". ")[0] for problem in problems] == [
        f"{A}: {A} and {B} are both active, so they do not use the same lock",
        f"{B}: the store in /srv/activemq/orders-mq01 is not the store of host {A}, so both nodes could become active",
    ]


def test_outdated_generation_is_judged_by_own_store_of_node() -> None:
    problems = problems_of_pair(
        {"guard": 9, "generation": 1, "generation_in_force": 2},
        {"store_marker": (PAIR, "other"), "generation_in_force": 7},
    )
    assert "serves clients from generation 1" in problems[0].text
    assert "replaced this copy with generation 2," in problems[0].text


@pytest.mark.parametrize("load_state", ["not-found", "masked", "loaded"])
def test_each_host_without_installed_broker_has_single_problem(load_state: str) -> None:
    unit = {"ActiveState": "inactive", "LoadState": load_state, "MainPID": "0", "Job": ""}
    absent = STOPPED | {"unit": unit, "version": None, "complete": False, "release": None, "store_marker": None}
    problem_text = (
        "activemq.fleet has installed no configuration below /var/lib/activemq/activemq. Run the playbook site first"
    )
    assert [str(problem) for problem in problems_of_pair(absent, absent)] == [
        f"{A}: {problem_text}",
        f"{B}: {problem_text}",
    ]


@pytest.mark.parametrize(
    "unit_properties",
    [{"ActiveState": "activating"}, {"ActiveState": "deactivating"}, {"Job": "77"}, {"Returns": "active"}],
)
def test_problem_of_broker_that_systemd_starts_has_patience(unit_properties: dict[str, str]) -> None:
    unit = {"ActiveState": "inactive", "LoadState": "loaded", "Job": "0", "Returns": "inactive"}
    assert only_problem(problems_of_pair({}, STOPPED | {"unit": unit | unit_properties})).patience > 60
    assert only_problem(problems_of_pair({}, STOPPED | {"unit": unit})).patience == 0


def test_different_clocks_are_problem_only_with_leases() -> None:
    different_clock = {"clock": 5030.0}
    assert problems_of_pair({}, different_clock) == []
    lease = {"ha": "shared-jdbc", "store": None}
    problem = only_problem(problems_of_pair(lease, lease | different_clock, window=3.0))
    assert problem.text.startswith(f"{A}: the clock of this host is 27 s or more behind")


def test_clock_difference_within_observation_window_is_no_problem() -> None:
    lease = {"ha": "shared-jdbc", "store": None}
    assert problems_of_pair(lease, lease | {"clock": 5030.0}, window=30.0) == []


def test_different_release_is_no_problem_for_upgrade() -> None:
    assert problems_of_pair({"release": "5.17.6"}, upgrade=True) == []


def test_different_release_of_package_is_no_problem() -> None:
    assert problems_of_pair({"release": "5.17.6", "is_packaged": True}) == []


def test_single_broker_requires_no_peer() -> None:
    assert unmet_pair_preconditions([replace(ACTIVE, ha="none")]) == []
    assert "is stopped" in only_problem(unmet_pair_preconditions([replace(ACTIVE, ha="none", **STOPPED)])).text


def test_single_broker_that_waits_for_lock_has_problem_with_patience() -> None:
    problem = only_problem(unmet_pair_preconditions([replace(STANDBY, ha="none", store=None)]))
    assert problem.text.startswith(f"{B}: no node is active, because {B} waits for a lock that another process holds")
    assert problem.patience > 0


def test_observed_node_combines_broker_info_and_compiled_fleet() -> None:
    broker = facts_of_broker(B, pair=PAIR, role="slave", store="/srv/x")
    broker_info = {
        "state": "stopped",
        "how": "no process",
        "restart_required": False,
        "store_marker": [PAIR],
        "unit": None,
    }
    node = observe_node(broker, BrokerEvidence.from_broker_info_result(broker_info))
    assert (node.host, node.unit_name, node.store_marker, node.age) == (B, "activemq.service", (PAIR,), None)
