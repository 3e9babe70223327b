"""Takeovers and failed takeovers in the logs of a pair: their start, duration and cause."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from activemq_fleet.audit.evidence import Incident, SystemdJournalRecord
from tests.unit.audit.broker_logs import (
    MASTER,
    NOON,
    STANDBY,
    TAKEOVER,
    A,
    B,
    agent,
    audit_pair,
    bridge_loss,
    kinds,
    log,
    logged_period,
    only_incident,
    operation,
)


def at(text: str) -> datetime:
    """Return the time ``MINUTES:SECONDS`` after noon."""
    minutes, _, seconds = text.partition(":")
    return NOON + timedelta(minutes=int(minutes), seconds=float(seconds))


def record_of_hang(host: str, since: str, moment: str, kind: str = "WATCHDOG-KILLS") -> SystemdJournalRecord:
    """Return the record of the watchdog for a broker that has not responded since a time, and its kill."""
    seconds = round((at(moment) - at(since)).total_seconds())
    fields = {"seconds": str(seconds), "reason": "process 812 was stopped by a signal"}
    return SystemdJournalRecord(host, 1, at(moment), kind, fields)


def only_takeover(incidents: list[Incident]) -> Incident:
    return only_incident(incidents, "takeover")


def test_pair_that_starts_and_runs_has_no_incident() -> None:
    assert audit_pair(log(A, *MASTER), log(B, *STANDBY)) == []


def test_standby_that_becomes_active_is_takeover() -> None:
    incident = only_incident(audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER)))

    assert (incident.kind, incident.host, incident.pair, incident.certainty) == ("takeover", B, "orders-mq01", "proved")
    assert "orders-mq01-a" in incident.cause


def test_takeover_after_kill_without_other_evidence_has_no_start_time() -> None:
    incident = only_incident(audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER)))

    assert (incident.began, incident.seconds, incident.began_from) == (None, None, "unknown")


def test_takeover_after_kill_starts_with_connection_loss_of_agent() -> None:
    incident = only_incident(audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=agent("1:08.5", "1:14")))

    assert (incident.began_from, incident.seconds) == ("agent", 3.5)


def test_stop_of_agent_is_no_evidence_for_start_of_takeover() -> None:
    agent_records = agent("1:08.5", "1:14")
    agent_records[0] = agent_records[0]._replace(reason="stopped")

    incident = only_incident(audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=agent_records))

    assert incident.began_from == "unknown"


def test_connection_loss_one_hour_earlier_does_not_belong_to_takeover() -> None:
    incident = only_incident(audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=agent("-60:0", "-59:0")))

    assert incident.began_from == "unknown"


def test_takeover_without_agent_starts_with_loss_of_bridge() -> None:
    incident = only_incident(
        audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=[bridge_loss("1:09", "1:13")])
    )

    assert (incident.began_from, incident.seconds) == ("bridge", 3.0)


def test_connection_loss_of_agent_has_precedence_over_bridge() -> None:
    connection_losses = [*agent("1:08", "1:14"), bridge_loss("1:09", "1:13")]

    assert (
        only_incident(audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=connection_losses)).began_from
        == "agent"
    )


@pytest.mark.parametrize("clock", [-299.0, -60.0, 60.0, 299.0])
def test_takeover_duration_is_measured_by_clock_of_agent_if_clocks_differ(clock: float) -> None:
    agent_records = agent("1:08.5", "1:14", clock=clock)

    incident = only_incident(audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=agent_records))

    assert incident.seconds == 5.5
    assert incident.began is not None
    assert incident.ended is not None
    assert (incident.ended - incident.began).total_seconds() == 5.5


def test_takeover_after_orderly_stop_starts_with_stop_record() -> None:
    active_log = log(A, *MASTER, "1:08 stopping", "1:09 stopped")

    incident = only_incident(audit_pair(active_log, log(B, *STANDBY, *TAKEOVER)))

    assert (incident.began_from, incident.seconds) == ("log", 4.0)
    assert "was stopped cleanly" in incident.cause


@pytest.mark.parametrize("clock", [-280.0, 280.0])
def test_takeover_has_no_duration_if_clocks_contradict_lock(clock: float) -> None:
    active_log = log(A, *MASTER, "1:08 stopping", "1:09 stopped", clock=clock)

    incident = only_incident(audit_pair(active_log, log(B, *STANDBY, *TAKEOVER)))

    assert (incident.kind, incident.seconds) == ("takeover", None)


def test_node_that_reacquires_its_lock_is_demotion_and_no_takeover() -> None:
    demoted_and_waiting = (
        "1:00 lost",
        "1:01 stopping",
        "1:02 stopped",
        "1:03 chosen",
        "1:04 wait",
        "1:09 opened",
        "1:10 started",
    )

    assert kinds(audit_pair(log(A, *MASTER, *demoted_and_waiting), log(B, *STANDBY))) == ["demotion"]


def test_start_that_waited_for_failed_start_of_peer_is_no_takeover() -> None:
    peer_log = log(A, "0 chosen", "1 opened", "2 start failed", "2 stopping")

    assert kinds(audit_pair(peer_log, log(B, *STANDBY, *TAKEOVER))) == ["failing_start"]


def test_takeover_without_log_of_peer_is_possible() -> None:
    incident = only_incident(audit_pair(log(B, *STANDBY, *TAKEOVER), host_without_log=A))

    assert (incident.kind, incident.certainty) == ("takeover", "possible")


def test_takeover_is_detected_without_record_of_waiting() -> None:
    assert kinds(audit_pair(log(A, *MASTER), log(B, *TAKEOVER))) == ["takeover"]


def test_start_while_both_nodes_are_stopped_is_no_takeover() -> None:
    active_log = log(A, *MASTER, "1:00 stopping", "1:01 stopped")

    assert audit_pair(active_log, log(B, "30:00 chosen", "30:01 opened", "30:02 starting", "30:03 started")) == []


def test_standby_that_acquires_lease_is_takeover() -> None:
    active_log = log(A, "0 jdbc", "0 lease try", "0.1 lease got", "1 starting", "2 started")
    standby_log = log(B, "5 jdbc", "5 lease try", "1:10 lease got", "1:11 starting", "1:12 started")

    assert kinds(audit_pair(active_log, standby_log, store=None)) == ["takeover"]


def test_promotion_of_slave_is_takeover() -> None:
    master = log(A, "0 chosen", "1 opened", "2 old started", "9 slave seen")
    slave = log(
        B,
        "5 chosen",
        "6 opened",
        "7 slave connects",
        "8 slave attached",
        "9 old started",
        "1:00 master lost",
        "1:00.2 promoted",
    )

    incident = only_incident(audit_pair(master, slave, store=None))

    assert (incident.kind, incident.host, incident.began_from, incident.seconds) == ("takeover", B, "log", 0.2)
    assert "P009" in incident.rules


def test_promotion_is_takeover_even_if_start_of_master_was_not_logged() -> None:
    slave = log(
        B, "5 chosen", "7 slave connects", "8 slave attached", "9 old started", "1:00 master lost", "1:00.2 promoted"
    )

    incident = only_incident(audit_pair(log(A, "0 chosen", "8 slave seen"), slave, store=None))

    assert (incident.kind, incident.certainty) == ("takeover", "proved")
    assert "orders-mq01-a" in incident.cause


def test_attached_slave_is_no_incident() -> None:
    slave = log(B, "5 chosen", "6 opened", "7 slave connects", "8 slave attached", "9 old started", "1:00 stopping")

    assert audit_pair(log(A, *MASTER), slave, store=None) == []


def test_slave_that_stops_with_its_master_is_failed_takeover() -> None:
    master = log(A, "0 chosen", "1 opened", "2 old started", "9 slave seen")
    slave = log(B, "5 chosen", "6 opened", "7 slave connects", "8 slave attached", "1:00 master lost", "1:00 retired")

    incident = only_incident(audit_pair(master, slave, store=None))

    assert (incident.kind, incident.rules) == ("failed_takeover", ("P007",))


def test_standby_that_acquires_lock_and_fails_is_failed_takeover() -> None:
    incident = only_incident(
        audit_pair(log(A, *MASTER), log(B, *STANDBY, "1:10 opened", "1:11 start failed", "1:12 stopping"))
    )

    assert (incident.kind, incident.host, incident.seconds) == ("failed_takeover", B, 1.0)


def test_standby_that_is_stopped_while_it_waits_is_no_incident() -> None:
    assert audit_pair(log(A, *MASTER), log(B, *STANDBY, "1:00 stopping", "1:01 stopped")) == []


def test_takeover_after_kill_by_watchdog_names_reason_and_downtime() -> None:
    incident = only_takeover(
        audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=[record_of_hang(A, "0:20", "1:09")])
    )
    assert (incident.began_from, incident.began, incident.seconds) == ("watchdog", NOON + timedelta(seconds=20), 52.0)
    assert incident.cause == (
        "orders-mq01-a hung (process 812 was stopped by a signal), and its watchdog killed it at 12:01:09 UTC; "
        "orders-mq01-b took over after its store had been recovered. The downtime of the pair was between 51.5 and "
        "70.0 s. The last log record of orders-mq01-a before it hung is from 12:00:02 UTC: the upper bound counts from "
        "this record, because no later one proves that orders-mq01-a worked. The lower bound counts from the first "
        "record that proves its failure. orders-mq01-a did not answer its "
        "watchdog from 12:00:20 UTC on. orders-mq01-b was active from 12:01:12 UTC on."
    )
    assert (incident.downtime_min, incident.downtime_max) == (51.5, 70.0)
    assert "thread dump" in incident.remedy


def test_takeover_starts_with_hang_before_watchdog_kill_rather_than_agent_loss() -> None:
    agent_and_watchdog_records = [*agent("1:08.5", "1:14"), record_of_hang(A, "0:20", "1:09")]
    incident = only_takeover(audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=agent_and_watchdog_records))
    assert (incident.began_from, incident.seconds) == ("watchdog", 52.0)


def test_takeover_after_watchdog_kill_with_differing_clocks_has_no_duration() -> None:
    logs = log(A, *MASTER, clock=-200.0), log(B, *STANDBY, *TAKEOVER)
    incident = only_takeover(audit_pair(*logs, more=[record_of_hang(A, "-3:20", "-3:29")]))
    assert (incident.began_from, incident.seconds) == ("watchdog", None)
    assert "hung (process 812" in incident.cause
    assert "differ, so the duration of the takeover is unknown" in incident.cause


@pytest.mark.parametrize(
    ("host", "since", "at"),
    [(B, "0:20", "1:09"), (A, "-9:0", "-8:0"), (A, "9:00", "9:10")],
    ids=["peer", "old", "late"],
)
def test_watchdog_kill_of_other_node_or_time_does_not_explain_takeover(host: str, since: str, at: str) -> None:
    incident = only_takeover(
        audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=[record_of_hang(host, since, at)])
    )
    assert (incident.began_from, incident.seconds) == ("unknown", None)


def test_kill_by_watchdog_does_not_explain_takeover_after_orderly_stop() -> None:
    active_log = log(A, *MASTER, "1:05 stopping", "1:06 stopped")
    incident = only_takeover(
        audit_pair(active_log, log(B, *STANDBY, *TAKEOVER), more=[record_of_hang(A, "1:00", "1:09")])
    )
    assert "was stopped cleanly" in incident.cause


def test_downtime_starts_with_last_log_record_before_hang() -> None:
    watchdog_and_log_records = [record_of_hang(A, "0:20", "1:09"), logged_period(A, "15", "50")]
    incident = only_takeover(audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=watchdog_and_log_records))
    assert (incident.downtime_min, incident.downtime_max) == (51.5, 57.0)


def test_downtime_of_unexplained_kill_has_bounds_by_last_record_and_lock() -> None:
    incident = only_incident(
        audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=[logged_period(A, "40", "58")])
    )
    assert (incident.seconds, incident.downtime_min, incident.downtime_max) == (None, 2.0, 14.0)
    assert "The downtime of the pair was between 2.0 and 14.0 s." in incident.cause


def test_downtime_after_orderly_stop_is_duration_of_takeover() -> None:
    active_log = log(A, *MASTER, "1:05 stopping", "1:06 stopped")
    incident = only_incident(audit_pair(active_log, log(B, *STANDBY, *TAKEOVER)))
    assert (incident.seconds, incident.downtime_min, incident.downtime_max) == (7.0, 7.0, 7.0)
    assert "downtime" not in incident.cause


def test_cause_of_takeover_names_slow_stop_and_late_lock() -> None:
    active_log = log(A, *MASTER, "10 stopping", "40 stopped")
    incident = only_incident(audit_pair(active_log, log(B, *STANDBY, *TAKEOVER)))
    assert incident.cause.endswith(
        "orders-mq01-a released its store 30 s after its stop had begun. orders-mq01-b acquired the lock 30 s after "
        "orders-mq01-a had stopped."
    )


def test_hung_broker_is_incident_with_and_without_watchdog_kill() -> None:
    for kind, outcome in (("WATCHDOG-KILLS", "killed it."), ("WATCHDOG-HUNG", "did not kill the broker.")):
        incident = only_incident(
            audit_pair(log(A, *MASTER), log(B, *STANDBY), more=[record_of_hang(A, "0:20", "1:09", kind)])
        )
        assert (incident.kind, incident.host, incident.began) == ("hung_broker", A, at("0:20"))
        assert incident.cause.endswith(outcome)


def test_hang_of_broker_that_ended_before_crash_does_not_explain_takeover() -> None:
    healthy = SystemdJournalRecord(A, 2, at("0:40"), "WATCHDOG-HEALTHY")
    hung = record_of_hang(A, "0:10", "0:30", "WATCHDOG-HUNG")
    logs = log(A, *MASTER), log(B, *STANDBY, *TAKEOVER)
    incidents = audit_pair(*logs, more=[hung, healthy])
    assert "orders-mq01-a stopped logging" in only_takeover(incidents).cause
    assert (
        "It answered again later."
        in only_incident([incident for incident in incidents if incident.kind == "hung_broker"]).cause
    )


@pytest.mark.parametrize(
    ("kind", "fields", "cause"),
    [
        (
            "UNIT-OUT-OF-MEMORY",
            {},
            "the kernel killed the broker of orders-mq01-a at 12:01:09 UTC, because memory was exhausted",
        ),
        ("UNIT-EXITED", {"status": "code=killed, status=9/KILL"}, "systemd recorded code=killed, status=9/KILL at"),
    ],
)
def test_systemd_record_explains_stop_of_broker_in_cause_of_takeover(
    kind: str, fields: dict[str, str], cause: str
) -> None:
    record = SystemdJournalRecord(A, 1, at("1:09"), kind, fields)
    incident = only_incident(audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=[record]))
    assert (incident.began_from, incident.seconds, incident.downtime_max) == ("systemd", 3.0, 70.0)
    assert cause in incident.cause


def test_kill_by_guard_after_takeover_explains_stop_without_duration() -> None:
    record = SystemdJournalRecord(A, 1, at("1:30"), "GUARD-KILLED", {"reason": "the other node took over the store"})
    incident = only_incident(audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=[record]))
    assert (incident.began_from, incident.seconds, incident.downtime_max) == ("unknown", None, 70.0)
    reason = (
        "the guard of orders-mq01-a, which protects the store, killed its broker at 12:01:30 UTC, because the other "
        "node took over the store;"
    )
    assert incident.cause.startswith(reason)
    assert "contradict" not in incident.cause


def test_failed_start_of_node_after_takeover_does_not_explain_its_earlier_stop() -> None:
    record = SystemdJournalRecord(A, 1, at("1:30"), "UNIT-EXITED", {"status": "code=exited, status=1/FAILURE"})
    incident = only_incident(audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=[record]))
    assert (incident.began_from, incident.seconds) == ("unknown", None)
    assert "orders-mq01-a stopped logging" in incident.cause


def test_takeover_before_or_after_operation_is_not_planned() -> None:
    for window in (("0:10", "1:05"), ("1:20", "2:00")):
        incidents = audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=[operation(B, *window)])
        assert [(incident.kind, incident.planned) for incident in incidents] == [("takeover", False)]


def test_failed_takeover_during_operation_is_not_planned() -> None:
    standby_log = log(B, *STANDBY, "1:10 opened", "1:11 start failed")
    incidents = audit_pair(log(A, *MASTER), standby_log, more=[operation(B, "1:00", "1:30")])
    assert ("failed_takeover", False) in [(incident.kind, incident.planned) for incident in incidents]


def test_connection_loss_of_agent_belongs_only_to_its_takeover() -> None:
    """The agent lost its connection once, during the second takeover and shortly after the first."""
    a_lines, b_lines = [*MASTER, "3:30 chosen", "3:31 wait"], [*STANDBY, "3:02 opened", "3:03 starting", "3:04 started"]
    b_lines += ["5:30 chosen", "5:31 wait"]
    a_lines += ["5:02 opened", "5:03 starting", "5:04 started"]

    first_takeover, second_takeover = sorted(
        audit_pair(log(A, *a_lines), log(B, *b_lines), more=agent("5:01", "5:05", broker="10.0.0.1", to="10.0.0.2")),
        key=lambda incident: str(incident.ended),
    )

    assert (first_takeover.host, first_takeover.began_from, first_takeover.seconds) == (B, "unknown", None)
    assert (second_takeover.host, second_takeover.began_from, second_takeover.seconds) == (A, "agent", 3.0)


def test_first_log_records_after_restart_do_not_belong_to_killed_broker() -> None:
    """These records precede the record that names the store."""
    active_log = log(A, *MASTER, "20:02 chosen", "20:03 wait")
    standby_log = log(B, *STANDBY, *TAKEOVER)

    incidents = audit_pair(
        active_log, standby_log, more=[logged_period(A, "19:58", "19:59"), logged_period(B, "30:00", "30:01")]
    )

    assert kinds(incidents) == ["takeover"]


def test_failed_start_of_broker_does_not_explain_stop_of_its_previous_run() -> None:
    active_log = log(
        A, *MASTER, "20:00 invalid", "40:00 refresh", "40:01 invalid", "60:00 refresh", "60:05 chosen", "60:06 wait"
    )

    incidents = audit_pair(active_log, log(B, *STANDBY, *TAKEOVER), more=[logged_period(A, "39:58", "39:59")])

    takeover = only_incident([incident for incident in incidents if incident.kind != "failing_start"])
    assert (takeover.kind, takeover.certainty, takeover.began_from) == ("takeover", "proved", "unknown")
    assert "without a log record" in takeover.cause
