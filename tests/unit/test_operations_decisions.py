"""Common parts of all operations: their progress, lost hosts, and the final table."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from activemq_fleet.deployment import FleetFacts
from activemq_fleet.errors import InputError
from activemq_fleet.node.state.evidence import BrokerEvidence
from activemq_fleet.operations import OperationDecisionRequest, decide_operation
from activemq_fleet.operations.operation_decisions import RunProgress, outcome_table_lines
from tests.support.facts_of_brokers import facts_of_broker

A, B = "orders-mq01-a", "orders-mq01-b"


def test_outcome_table_shows_state_before_and_after_gap_and_acts_of_each_host() -> None:
    lines = outcome_table_lines(
        [A, B],
        {A: "5.17.6 active", B: "5.17.6 standby"},
        {A: BrokerEvidence("standby", release="5.18.3"), B: BrokerEvidence("active", release="5.18.3")},
        {A: ["switch", "upgrade"], B: ["upgrade"]},
        {A: 0.94},
    )
    assert lines == [
        "host           before          after           gap    changed",
        "orders-mq01-a  5.17.6 active   5.18.3 standby  0.9 s  switch, upgrade",
        "orders-mq01-b  5.17.6 standby  5.18.3 active   -      upgrade",
    ]


def test_outcome_table_shows_unchanged_host_with_same_state() -> None:
    header, line = outcome_table_lines([A], {}, {A: BrokerEvidence("active")}, {A: []}, {A: None})
    assert line.split() == [A, "active", "active", "-", "no"]
    assert header.split() == ["host", "before", "after", "gap", "changed"]


@pytest.mark.parametrize(
    ("before", "acted", "gap"),
    [
        ("5.18.3 active", ["restart"], "not measured"),
        ("5.18.3 active", ["upgrade"], "not measured"),
        ("5.18.3 unhealthy", ["restart"], "not measured"),
        ("5.18.3 standby", ["restart"], "-"),
        ("5.18.3 active", ["inject"], "-"),
    ],
)
def test_outcome_table_marks_restart_of_active_broker_without_measured_gap(
    before: str, acted: list[str], gap: str
) -> None:
    evidence_after = {A: BrokerEvidence("active", release="5.18.3")}

    line = outcome_table_lines([A], {A: before}, evidence_after, {A: acted}, {})[1]

    assert f"5.18.3 active  {gap} " in line


def test_outcome_table_shows_not_known_for_host_without_evidence() -> None:
    assert "not known" in outcome_table_lines([A], {}, {}, {}, {})[1]


def restart(progress: RunProgress, states: dict[str, dict[str, Any]], **options: Any) -> dict[str, Any]:
    """Return the decision of a restart of two single brokers, A and then B."""
    brokers = {
        host: facts_of_broker(host, "5.18.3", role=role, peer=peer, ha="none", service="systemd")
        for host, role, peer in ((A, "master", B), (B, "slave", A))
    }
    evidence = {
        host: {"state": "active", "how": "seen", "pid": 7, "version": "v1", "release": "5.18.3", "age": 10.0, **state}
        for host, state in states.items()
    }
    now = time.time()
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers=brokers),
        evidence=evidence,
        target={"hosts": [A, B], "chosen": [A, B], "since_epoch": now},
        progress=progress,
        options={"looked_at": now, "settle": 60, **options},
    )
    return decide_operation("restart", request)


def test_progress_of_decision_is_input_of_next_decision_until_table() -> None:
    first_decision = restart(RunProgress(), {A: {}, B: {}})
    assert (first_decision["step"]["act"], first_decision["step"]["hosts"], first_decision["progress"]["done"]) == (
        "restart",
        [A],
        [],
    )
    assert first_decision["progress"]["hosts"] == {
        A: {"acted": ["restart"], "before": "5.18.3 active", "counts": []},
        B: {"acted": [], "before": "5.18.3 active", "counts": []},
    }
    second_decision = restart(
        RunProgress.progress_from_dict(json.loads(json.dumps(first_decision["progress"]))),
        {A: {"pid": 8, "age": 0.0}, B: {}},
    )
    assert (second_decision["step"]["hosts"], second_decision["progress"]["done"]) == ([B], [A])
    third = restart(
        RunProgress.progress_from_dict(second_decision["progress"]),
        {A: {"pid": 8, "age": 0.0}, B: {"pid": 9, "age": 0.0}},
    )
    assert (third["step"]["act"], third["progress"]["done"]) == ("done", [A, B])
    assert [line.split()[-1] for line in third["table"]] == ["changed", "restart", "restart"]


def test_waited_seconds_accumulate_until_next_act() -> None:
    waiting = restart(RunProgress(waited=4.0), {A: {"state": "starting"}, B: {}})
    assert waiting["step"]["act"] == "wait"
    assert waiting["progress"]["waited"] == 4.0 + waiting["step"]["seconds"]
    assert restart(RunProgress.progress_from_dict(waiting["progress"]), {A: {}, B: {}})["progress"]["waited"] == 0.0


def test_evidence_of_wrong_type_is_error_that_names_host_and_key() -> None:
    with pytest.raises(InputError, match=rf"{B}: .* 'seven' for pid, which must be of the type int"):
        restart(RunProgress(), {A: {}, B: {"pid": "seven"}})
    with pytest.raises(InputError, match=rf"{A}: .* 'fine' for state, which must be of the type BrokerState"):
        restart(RunProgress(), {A: {"state": "fine"}, B: {}})


def test_decision_refuses_host_that_play_has_lost() -> None:
    with pytest.raises(InputError, match=f"{B} failed or was not reached, so no further host .* run the same command"):
        restart(RunProgress(), {A: {}}, alive=[A], same_command="the same command")


def test_lost_host_without_sudo_is_error_with_remedy_for_sudo() -> None:
    failed = {"failed": True, "msg": "Task failed: Missing sudo password"}
    with pytest.raises(InputError) as error:
        restart(RunProgress(), {A: {}, B: failed}, alive=[A], same_command="the same command")

    assert str(error.value).startswith(
        f"{B} failed or was not reached, so no further host is changed. Permit sudo without a password for the SSH "
        f"user on {B}, or add --ask-become-pass to ansible-playbook, and run the same command."
    )
