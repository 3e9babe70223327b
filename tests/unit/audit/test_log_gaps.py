"""Missing parts of logs: after which records they are, and what the audit does not claim because of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from activemq_fleet.audit.evidence import SystemdJournalRecord
from activemq_fleet.audit.gaps import last_record_times_before_gaps
from activemq_fleet.audit.log_summaries import LogFileSummary
from activemq_fleet.logs.decompression import TRUNCATED
from activemq_fleet.logs.host_log_batches import CUT_OFF
from tests.unit.audit.broker_logs import MASTER, NOON, STANDBY, TAKEOVER, A, B, audit_pair, log, only_incident


def summaries(*files: tuple[str, int | None, str]) -> list[LogFileSummary]:
    """Return summaries of a host's log files from names, seconds of the last record and problems, oldest first."""
    return [
        LogFileSummary("h", name, order, last=None if last is None else last * 10**6, problems={problem} - {""})
        for order, (name, last, problem) in enumerate(files)
    ]


@pytest.mark.parametrize(
    ("files", "gaps"),
    [
        ([("activemq.log.1", 10, ""), ("activemq.log", 20, "")], []),
        ([("activemq.log.1", 10, "N invalid bytes"), ("activemq.log", 20, "")], []),
        ([("activemq.log.2", 10, ""), ("activemq.log.1", 20, "")], [20]),
        ([("activemq.log.3", 10, ""), ("activemq.log.1", 20, ""), ("activemq.log", 30, "")], [10]),
        ([("activemq.log.1.gz", 10, TRUNCATED), ("activemq.log", 20, "")], [10]),
        ([("activemq.log.2", 10, ""), ("activemq.log.1.gz", None, TRUNCATED), ("activemq.log", 20, "")], [10]),
        ([("activemq.log.1.gz", None, TRUNCATED), ("activemq.log", 20, "")], []),
        ([("activemq.log", 20, CUT_OFF)], [20]),
    ],
)
def test_times_before_gaps_are_those_of_last_records(files: list[tuple[str, int | None, str]], gaps: list[int]) -> None:
    times = last_record_times_before_gaps(summaries(*files))["h"]
    assert times == tuple(datetime.fromtimestamp(seconds, UTC) for seconds in gaps)


def test_takeover_after_missing_end_of_log_has_unknown_cause() -> None:
    incident = only_incident(audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), gaps={A: "2"}))
    assert (incident.kind, incident.certainty) == ("takeover", "possible")
    assert incident.cause.startswith(
        "the end of the log of orders-mq01-a is missing, so it is unknown why orders-mq01-a stopped; orders-mq01-b"
    )
    assert "add the log of the previous active node" in incident.remedy


def test_only_gap_between_runs_of_old_node_makes_takeover_possible() -> None:
    restarted = log(A, *MASTER, "2:00 chosen", "2:01 wait")
    for gap, certainty in (("2", "possible"), ("2:01", "proved"), ("1", "proved")):
        incident = only_incident(audit_pair(restarted, log(B, *STANDBY, *TAKEOVER), gaps={A: gap}))
        assert (incident.kind, incident.certainty) == ("takeover", certainty)
        assert ("is missing" in incident.cause) == (certainty == "possible")


@pytest.mark.parametrize("end", [("10 stopping", "11 stopped"), ("10 lost",)])
def test_recorded_end_of_old_node_is_cause_of_takeover_despite_later_gap(end: tuple[str, ...]) -> None:
    incidents = audit_pair(log(A, *MASTER, *end), log(B, *STANDBY, *TAKEOVER), gaps={A: "11"})
    assert only_incident(incidents, "takeover").certainty == "proved"


def test_systemd_record_proves_end_of_old_node_despite_gap_of_log() -> None:
    record = SystemdJournalRecord(A, 1, NOON.replace(minute=1, second=9), "UNIT-OUT-OF-MEMORY", {})
    incident = only_incident(audit_pair(log(A, *MASTER), log(B, *STANDBY, *TAKEOVER), more=[record], gaps={A: "2"}))
    assert (incident.certainty, "memory was exhausted" in incident.cause) == ("proved", True)


def test_missing_ends_of_runs_are_no_crashes() -> None:
    starts = [f"{minute}:{line}" for minute in (10, 20, 30) for line in ("00 chosen", "01 opened", "02 started")]
    complete_log = log(A, *MASTER, *starts)
    assert "crashes" in {incident.kind for incident in audit_pair(complete_log)}
    assert "crashes" not in {incident.kind for incident in audit_pair(complete_log, gaps={A: "10:02"})}


def test_outage_is_only_possible_if_end_of_waiting_node_is_missing() -> None:
    logs = log(A, *STANDBY), log(B, *STANDBY)
    assert only_incident(audit_pair(*logs), "outage").certainty == "proved"
    assert only_incident(audit_pair(*logs, gaps={A: "6"}), "outage").certainty == "possible"
