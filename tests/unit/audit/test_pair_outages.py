"""Split brains, flapping, outages and lost bridges in the logs of a pair, independent of clock differences."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from activemq_fleet.audit.evidence import DurableSubscriptionMessageLossRisk, Incident, PairNode
from activemq_fleet.audit.pair_findings import incidents_of_pair, pair_findings_of_logs
from tests.unit.audit.broker_logs import (
    MASTER,
    NOON,
    PAIR,
    STANDBY,
    TAKEOVER,
    A,
    B,
    audit_pair,
    kinds,
    log,
    logged_period,
    only_incident,
    operation,
)


def test_takeover_from_master_without_later_records_is_no_split_brain() -> None:
    incidents = audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=[logged_period(B, "9:00", "60:00")])

    assert kinds(incidents) == ["takeover"]


def test_two_active_nodes_with_same_store_are_split_brain() -> None:
    late_records = [logged_period(A, "59:10", "59:50"), logged_period(B, "59:00", "59:40")]

    incident = only_incident(audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=late_records))

    assert (incident.kind, incident.host) == ("split_brain", B)
    assert "L001" in incident.rules


LATE_TAKEOVER = ("5 chosen", "6 wait", "21:10 opened", "21:11 starting", "21:12 started")


def test_overlapping_records_within_clock_skew_are_no_split_brain() -> None:
    incidents = audit_pair(
        log(A, *MASTER),
        log(B, *LATE_TAKEOVER),
        more=[logged_period(A, "26:00", "26:08"), logged_period(B, "40:00", "40:05")],
    )

    assert kinds(incidents) == ["takeover"]


def test_overlapping_records_beyond_clock_skew_are_split_brain() -> None:
    assert kinds(audit_pair(log(A, *MASTER), log(B, *LATE_TAKEOVER), more=[logged_period(A, "26:12", "26:15")])) == [
        "split_brain"
    ]


def test_early_records_of_one_node_beyond_clock_skew_are_no_split_brain() -> None:
    """The difference of the clocks may hide that one node became active after the other."""
    incidents = audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=[logged_period(A, "9:00", "9:10")])

    assert kinds(incidents) == ["takeover"]


def test_resumed_node_that_releases_its_lock_is_no_split_brain() -> None:
    resumed = log(A, *MASTER, "20:01 lock modified", "20:02 lost", "20:03 stopping")
    late_records = [logged_period(A, "20:00", "20:01.5")]

    assert kinds(audit_pair(resumed, log(B, *STANDBY, *TAKEOVER), more=late_records)) == ["demotion", "takeover"]


def test_two_active_nodes_without_known_store_are_no_split_brain() -> None:
    peer_log = log(B, "5 chosen", "6 opened", "7 starting", "8 started")
    late_records = [logged_period(A, "59:10", "59:50"), logged_period(B, "59:00", "59:40")]

    assert audit_pair(log(A, *MASTER), peer_log, more=late_records, store=None) == []


def test_two_active_nodes_with_different_fence_generations_are_no_split_brain() -> None:
    noon = NOON.timestamp()
    generations = {A: ((1, noon - 60),), B: ((2, noon + 21 * 60),)}
    logs = log(A, *MASTER), log(B, *LATE_TAKEOVER)
    late_records = [logged_period(A, "26:12", "26:15")]

    assert kinds(audit_pair(*logs, more=late_records, generations=generations)) == ["takeover"]
    assert kinds(audit_pair(*logs, more=late_records, generations={A: ((1, noon - 60),)})) == ["split_brain"]


def test_active_nodes_without_lock_on_same_known_store_are_split_brain() -> None:
    peer_log = log(B, "5 chosen", "6 opened", "7 starting", "8 started")
    late_records = [logged_period(A, "59:10", "59:50"), logged_period(B, "59:00", "59:40")]

    assert kinds(audit_pair(log(A, *MASTER), peer_log, more=late_records)) == ["split_brain"]


def takeover_rounds(times: tuple[int, ...], clock: float, planned: tuple[int, ...] = ()) -> list[Incident]:
    """Return the incidents of a pair whose active node fails at each of ``times`` (minutes), first A, then B.

    The clock of B is ``clock`` seconds ahead. A playbook operates on the pair at the minutes ``planned``.
    """
    a_lines, b_lines = [*MASTER], [*STANDBY]
    lines_of_nodes = [a_lines, b_lines]
    for index, minute in enumerate(times):
        active_lines, standby_lines = lines_of_nodes[index % 2], lines_of_nodes[1 - index % 2]
        standby_lines += [
            f"{minute}:02 opened",
            f"{minute}:02 unclean",
            f"{minute}:03 starting",
            f"{minute}:04 started",
        ]
        active_lines += [f"{minute}:30 chosen", f"{minute}:31 wait"]
    planned_operations = [
        operation(host, f"{minute}:01", f"{minute}:45", clock_offset)
        for minute in planned
        for host, clock_offset in ((A, 0.0), (B, clock))
    ]
    return audit_pair(log(A, *a_lines), log(B, *b_lines, clock=clock), more=planned_operations)


@pytest.mark.parametrize("clock", [-299.0, -150.0, -30.0, 0.0, 30.0, 150.0, 299.0])
def test_three_takeovers_in_ten_minutes_are_flapping_with_any_clock_skew(clock: float) -> None:
    assert kinds(takeover_rounds((3, 7, 12), clock)) == ["flapping", "takeover", "takeover", "takeover"]


@pytest.mark.parametrize("clock", [-299.0, -30.0, 0.0, 30.0, 299.0])
def test_three_takeovers_in_more_than_ten_minutes_are_no_flapping(clock: float) -> None:
    assert kinds(takeover_rounds((3, 9, 14), clock)) == ["takeover", "takeover", "takeover"]


@pytest.mark.parametrize("clock", [-299.0, -30.0, 0.0, 30.0, 299.0])
def test_takeovers_during_playbook_are_planned_and_no_flapping(clock: float) -> None:
    incidents = takeover_rounds((3, 7, 12), clock, planned=(3, 7, 12))
    assert kinds(incidents) == ["takeover", "takeover", "takeover"]
    assert all(incident.planned for incident in incidents)
    takeover = next(incident for incident in incidents if incident.kind == "takeover")
    assert takeover.cause.endswith("The takeover was planned: restart, by ops@controller.")


def test_planned_takeovers_around_unplanned_takeover_are_no_flapping() -> None:
    incidents = takeover_rounds((3, 7, 12), 0.0, planned=(3, 12))
    assert sorted((incident.kind, incident.planned) for incident in incidents) == [
        ("takeover", False), ("takeover", True), ("takeover", True),
    ]  # fmt: skip


def test_three_unplanned_takeovers_and_planned_takeover_are_flapping() -> None:
    flapping = [
        incident for incident in takeover_rounds((3, 5, 7, 9), 0.0, planned=(5,)) if incident.kind == "flapping"
    ]
    assert only_incident(flapping).cause.startswith("3 takeovers")


def test_three_orderly_stops_in_ten_minutes_are_no_flapping() -> None:
    stops = ("chosen", "wait", "opened", "starting", "started", "stopping", "stopped")
    a_lines = [
        *MASTER,
        "2:00 stopping",
        "2:01 stopped",
        *(
            f"{when} {what}"
            for when, what in zip(("3:00", "3:01", "4:02", "4:03", "4:04", "6:00", "6:01"), stops, strict=True)
        ),
    ]
    b_lines = [*STANDBY, "2:02 opened", "2:03 starting", "2:04 started", "4:00 stopping", "4:01 stopped"]
    b_lines += ["5:00 chosen", "5:01 wait", "6:02 opened", "6:03 starting", "6:04 started"]
    assert kinds(audit_pair(log(A, *a_lines), log(B, *b_lines))) == ["takeover", "takeover", "takeover"]


def test_two_takeovers_are_no_flapping() -> None:
    assert kinds(takeover_rounds((3, 4), 0.0)) == ["takeover", "takeover"]


def test_five_takeovers_in_close_succession_are_one_flapping_incident() -> None:
    incidents = [incident for incident in takeover_rounds((3, 5, 7, 9, 11), 0.0) if incident.kind == "flapping"]

    assert only_incident(incidents).cause.startswith("5 takeovers")


@pytest.mark.parametrize("clock", [-299.0, 299.0])
def test_clock_skew_changes_neither_host_nor_kind_of_incident(clock: float) -> None:
    def identities(incidents: list[Incident]) -> list[tuple[str, str, str]]:
        return sorted((incident.kind, incident.host, incident.certainty) for incident in incidents)

    assert identities(takeover_rounds((3, 7, 40, 44, 90), clock)) == identities(
        takeover_rounds((3, 7, 40, 44, 90), 0.0)
    )


def test_record_of_message_loss_risk_in_shared_store_is_one_incident_of_pair() -> None:
    risk = DurableSubscriptionMessageLossRisk(
        NOON, "/srv/activemq/orders-mq01/at-risk/1-2.json", "reporting:daily of topic://prices (at most 2 messages)"
    )
    seen_by_peer = replace(risk, path="/mnt/store/at-risk/1-2.json")
    nodes = [
        PairNode(A, "orders", PAIR, risks=(risk,)),
        PairNode(B, "orders", PAIR, risks=(seen_by_peer, replace(risk, time=NOON + timedelta(days=1)))),
    ]
    incidents = incidents_of_pair(pair_findings_of_logs(nodes, ()), ())
    assert [(incident.kind, incident.host, incident.began) for incident in incidents] == [
        ("subscriptions_at_risk", A, NOON),
        ("subscriptions_at_risk", B, NOON + timedelta(days=1)),
    ]
    assert f"A broker of {PAIR} started without a usable index" in incidents[0].cause
    assert (
        "reporting:daily of topic://prices (at most 2 messages). The file /srv/activemq/orders-mq01/at-risk/1-2.json"
        in incidents[0].cause
    )
    assert "Then remove the file that this incident names" in incidents[0].remedy


WAITING = ("0 chosen", "1 wait")


def test_pair_whose_nodes_both_wait_is_outage() -> None:
    restarted = (*MASTER, "30:00 refresh", "30:01 chosen", "30:02 wait")

    incident = only_incident(
        audit_pair(log(A, *restarted), log(B, *WAITING), more=[logged_period(A, "29:00", "29:30")])
    )

    assert (incident.kind, incident.began, incident.ended) == ("outage", NOON + timedelta(minutes=30, seconds=2), None)
    assert "L001" in incident.rules


def test_standby_that_waits_after_earlier_stop_of_peer_is_outage() -> None:
    stopped = (*MASTER, "10:00 stopping", "10:01 stopped")

    assert kinds(audit_pair(log(A, *stopped), log(B, "20:00 chosen", "20:01 wait"))) == ["outage"]


def test_standby_that_waited_when_peer_was_stopped_is_no_outage() -> None:
    assert audit_pair(log(A, *MASTER, "10:00 stopping", "10:01 stopped"), log(B, *WAITING)) == []


@pytest.mark.parametrize(
    ("states", "collected", "expected"),
    [
        ({A: "stopped", B: "standby"}, "40:00", ["outage"]),
        ({A: "active", B: "standby"}, "40:00", []),
        ({A: "unhealthy", B: "standby"}, "40:00", []),
        ({B: "standby"}, "40:00", []),
        ({}, "40:00", []),
        ({A: "stopped", B: "standby"}, "10:30", []),  # the lock of a broker that was just killed is not released yet
        ({A: "stopped", B: "standby"}, "", []),
    ],
)
def test_standby_that_still_waits_after_peer_was_killed_is_outage(
    states: dict[str, str], collected: str, expected: list[str]
) -> None:
    """A standby of 5.12 or later logs nothing while it waits, and a killed broker logs nothing when it terminates."""
    logs = (log(A, *MASTER), log(B, *WAITING))
    incidents = audit_pair(*logs, more=[logged_period(A, "5:00", "10:00")], states=states, collected=collected)

    assert kinds(incidents) == expected
    if incidents:
        (incident,) = incidents
        assert incident.began == NOON + timedelta(minutes=10)
        assert "did not run when the logs were collected, although its log shows no stop" in incident.cause


def test_waiting_standby_whose_peer_has_no_log_is_no_outage() -> None:
    assert audit_pair(log(B, *WAITING), host_without_log=A) == []


def test_pair_with_lease_that_neither_node_acquires_is_outage() -> None:
    lease_attempts = ("0 jdbc", "1 lease try")

    assert kinds(audit_pair(log(A, *lease_attempts), log(B, *lease_attempts))) == ["outage"]
    assert (
        audit_pair(log(A, *lease_attempts), log(B, *lease_attempts, "1.2 lease got", "2 starting", "3 started")) == []
    )


def test_lost_bridge_without_later_start_is_link_down() -> None:
    bridge_lines = ("3 dial", "3 connector", "4 bridge up", "60:00 bridge lost")

    incident = only_incident(audit_pair(log(A, *MASTER, *bridge_lines), more=[logged_period(A, "70:00", "70:01")]))

    assert (incident.kind, incident.began) == ("link_down", NOON + timedelta(minutes=60))
    assert "The link to-orders of orders-mq01-a to orders-mq01-a has been down" in incident.cause
    log_of_stopped_broker = log(A, *MASTER, *bridge_lines, "60:20 stopping", "60:21 stopped")
    assert audit_pair(log_of_stopped_broker, more=[logged_period(A, "70:00", "70:01")]) == []
    assert audit_pair(log(A, *MASTER, *bridge_lines), more=[logged_period(A, "60:50", "60:59")]) == []
