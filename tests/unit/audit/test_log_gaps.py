"""Missing parts of logs: after which records they are, and what the audit does not claim because of them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from activemq_fleet.audit.evidence import SystemdJournalRecord
from activemq_fleet.audit.gaps import MAX_GAPS, gaps_from_incomplete_log_files, last_record_times_before_gaps
from activemq_fleet.audit.log_summaries import LogFileSummary
from activemq_fleet.audit.omitted_files import HostLogFiles, MissingOrIncompleteFile
from activemq_fleet.logs.decompression import TRUNCATED
from activemq_fleet.logs.host_log_batches import CUT_OFF
from activemq_fleet.node.collect.evidence_archive import NEWEST_ONLY, TIME_IS_OVER
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
        (
            [("activemq.log.2026-11-28.1", 10, ""), ("activemq.log.2026-11-29.2", 20, ""), ("activemq.log", 30, "")],
            [10],
        ),
    ],
)
def test_times_before_gaps_are_those_of_last_records(files: list[tuple[str, int | None, str]], gaps: list[int]) -> None:
    times = last_record_times_before_gaps(summaries(*files))["h"]
    assert times == tuple(datetime.fromtimestamp(seconds, UTC) for seconds in gaps)


DATED = [("activemq-2026-11-28.log", 10, ""), ("activemq-2026-11-29.log", 20, ""), ("activemq.log", 30, "")]


def omitted_files(**why_by_file: str) -> dict[str, MissingOrIncompleteFile]:
    """Return omitted log files from reasons by file name, in which ``_`` is a dot."""
    return {
        path.replace("_", "."): MissingOrIncompleteFile(path.replace("_", "."), why)
        for path, why in why_by_file.items()
    }


@pytest.mark.parametrize(
    ("files", "log_files", "gaps"),
    [
        (DATED, HostLogFiles(), []),
        (DATED[:2], HostLogFiles(), [20]),
        (DATED[:2], HostLogFiles(("activemq-2026-11-28.log",), is_listed=True), []),
        ([DATED[0], (DATED[1][0], None, TRUNCATED), DATED[2]], HostLogFiles(), [10]),
        ([(DATED[1][0], None, TRUNCATED), DATED[0], DATED[2]], HostLogFiles(), [10]),
        (DATED, HostLogFiles(unusable=("activemq-2026-11-27.log.gz",)), [10, 20]),
        (DATED[:2], HostLogFiles(unusable=("activemq-2026-11-30.log.gz",), is_listed=True), [10, 20]),
        (DATED, HostLogFiles(omitted=omitted_files(activemq_log=NEWEST_ONLY)), [10, 20]),
        (DATED, HostLogFiles(omitted=omitted_files(activemq_log=TIME_IS_OVER)), [10, 20, 30]),
        (DATED[2:], HostLogFiles(omitted=omitted_files(activemq_log_1=TIME_IS_OVER)), []),
    ],
)
def test_files_of_unknown_place_may_be_missing_before_each_newer_file(
    files: list[tuple[str, int | None, str]], log_files: HostLogFiles, gaps: list[int]
) -> None:
    times = last_record_times_before_gaps(summaries(*files), {"h": log_files})["h"]
    assert times == tuple(datetime.fromtimestamp(seconds, UTC) for seconds in gaps)


@pytest.mark.parametrize(
    ("kinds", "is_gap"),
    [
        (("LIFE-STOPPED", "LIFE-STOPPING"), True),
        (("LIFE-STOPPED-OLD", "LIFE-STARTED-OLD"), True),
        (("LIFE-STOPPED", "LIFE-STORE-CHOSEN"), False),
        (("LIFE-STARTED", "LIFE-STOPPING"), False),
        (("LIFE-STARTED", "LIFE-STORE-CHOSEN"), False),
    ],
)
def test_start_that_no_log_file_has_is_gap_between_dated_files(kinds: tuple[str, str], is_gap: bool) -> None:
    logs = summaries(*DATED)
    # The file between them has no record about a start or stop.
    logs[0].last_run_kind = logs[0].first_run_kind = kinds[0]
    logs[2].first_run_kind = logs[2].last_run_kind = kinds[1]
    gaps = gaps_from_incomplete_log_files(logs, {"h": HostLogFiles(tuple(log.file for log in logs))})
    gap_of_start = (
        "activemq.log",
        True,
        "activemq-2026-11-28.log ends with a broker that stopped, and activemq.log begins with a broker that runs.",
    )
    assert [(gap.file, gap.weighs, gap.what.split(" The ")[0]) for gap in gaps] == ([gap_of_start] if is_gap else [])


def test_missing_log_files_are_reported_up_to_limit_of_gaps() -> None:
    files = {"h": HostLogFiles(("activemq-1.log", "activemq-1000.log", "activemq.log"))}
    assert len(gaps_from_incomplete_log_files([], files)) == MAX_GAPS


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
