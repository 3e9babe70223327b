"""Journals of the systemd units of a broker, as written by ``collect`` and ``journalctl``."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime

import pytest

from activemq_fleet.audit.evidence import SystemdJournalRecord
from activemq_fleet.audit.unit_journals import systemd_journal_records
from activemq_fleet.node.log.unit_records import KILL_FAILED
from activemq_fleet.node.watchdog.hang_detection import format_hung_broker_message
from activemq_fleet.spark.inputs import file_kind

HOST, UNIT = "orders-mq01-a.example.com", "activemq.service"
STOPPED_PROCESS = "process 812 was stopped by a signal, and its log reports: Apache ActiveMQ 5.18.3 (x, ID:x) started"
AT = datetime(2026, 3, 1, 12, 0, 20, 250000, UTC)
GUARD = "guard: the guard killed the broker, because the other node took over the store. This node restarts as standby"


def hung_message(action: str = "kill", kills: bool = True, text: str = STOPPED_PROCESS) -> str:
    return format_hung_broker_message(text, action=action, ha="shared-file", unit=UNIT, seconds=12.4, kills=kills)


def journal(*messages: str, zone: str = "+00:00", identifier: str = "activemq-watchdog[77]") -> bytes:
    lines = [
        f"2026-03-01T12:00:{number:02}.250000{zone} web1 {identifier}: {message}"
        for number, message in enumerate(messages, 20)
    ]
    return "\n".join(["-- Journal begins at Sun 2026-03-01 --", *lines, ""]).encode()


def records(content: bytes) -> list[SystemdJournalRecord]:
    return list(systemd_journal_records(HOST, UNIT, memoryview(content)))


def test_watchdog_record_of_hung_broker_has_time_seconds_and_reason() -> None:
    fields = {"seconds": "12", "reason": "process 812 was stopped by a signal"}
    assert records(journal(hung_message())) == [SystemdJournalRecord(HOST, 2, AT, "WATCHDOG-KILLS", fields)]


@pytest.mark.parametrize(
    ("messages", "kinds"),
    [
        ([hung_message(action="warn")], ["WATCHDOG-HUNG"]),
        ([hung_message(kills=False)], ["WATCHDOG-HUNG"]),
        (
            [
                hung_message(),
                f"{KILL_FAILED} 812. Run ps -o stat -p 812: the state D means that the process waits for its storage",
            ],
            ["WATCHDOG-KILLS", "WATCHDOG-KILL-FAILED"],
        ),
        (["the broker is healthy again: process 812 answers: openwire"], ["WATCHDOG-HEALTHY"]),
        (["Started The watchdog of the ActiveMQ broker activemq.", "the broker is hung: many checks"], []),
    ],
    ids=["warn", "third-kill", "failed", "healthy", "other"],
)
def test_each_message_of_watchdog_has_its_kind(messages: list[str], kinds: list[str]) -> None:
    assert [record.kind for record in records(journal(*messages))] == kinds


@pytest.mark.parametrize(
    ("identifier", "message", "kinds"),
    [
        ("activemq-guard[12]", GUARD, ["GUARD-KILLED"]),
        ("activemq-watchdog[12]", GUARD, []),
        ("systemd[1]", f"{UNIT}: Main process exited, code=killed, status=9/KILL", ["UNIT-EXITED"]),
        ("systemd[1]", f"{UNIT}: main process exited, code=dumped, status=6/ABRT", ["UNIT-EXITED"]),
        ("systemd[1]", f"{UNIT}: A process of this unit has been killed by the OOM killer.", ["UNIT-OUT-OF-MEMORY"]),
        ("systemd[1]", f"{UNIT}: Failed with result 'oom-kill'.", ["UNIT-OUT-OF-MEMORY"]),
        ("systemd[1]", "activemq-watchdog.service: Main process exited, code=killed, status=9/KILL", []),
        ("activemq-guard[12]", f"{UNIT}: Main process exited, code=killed, status=9/KILL", []),
        ("systemd[1]", hung_message(), []),
    ],
)
def test_systemd_journal_record_counts_only_if_expected_program_wrote_it(
    identifier: str, message: str, kinds: list[str]
) -> None:
    assert [record.kind for record in records(journal(message, identifier=identifier))] == kinds


def test_systemd_records_do_not_count_if_name_of_broker_unit_is_unknown() -> None:
    content = journal(f"{UNIT}: Main process exited, code=killed, status=9/KILL", identifier="systemd[1]")
    assert list(systemd_journal_records(HOST, None, memoryview(content))) == []


@pytest.mark.parametrize("zone", ["+0000", "Z", "+00:00"])
def test_systemd_journal_is_read_with_each_form_of_time_zone(zone: str) -> None:
    assert [record.at for record in records(journal(hung_message(), zone=zone))] == [AT]


def test_local_time_of_systemd_journal_is_converted_to_utc() -> None:
    assert [record.at for record in records(journal(hung_message(), zone="+0530"))] == [AT.replace(hour=6, minute=30)]


@pytest.mark.parametrize(
    "line",
    [
        f"2026-03-01T12:00:20.250000+0000 web1 activemq-watchdog[77]: {hung_message()}",
        f"{AT.timestamp():.6f} web1 activemq-watchdog[77]: {hung_message()}",
        json.dumps(
            {
                "__REALTIME_TIMESTAMP": str(round(AT.timestamp() * 1e6)),
                "SYSLOG_IDENTIFIER": "activemq-watchdog",
                "MESSAGE": hung_message(),
            }
        ),
    ],
    ids=["short-iso-precise", "short-unix", "json"],
)
def test_systemd_journal_is_read_in_each_output_format_of_journalctl(line: str) -> None:
    for content in (line.encode(), gzip.compress(line.encode()), line.encode() + b"\r\n"):
        assert [(record.at, record.kind) for record in records(content)] == [(AT, "WATCHDOG-KILLS")]


def test_damaged_and_foreign_lines_of_systemd_journal_are_ignored() -> None:
    foreign = (
        b'\xff\xfe\n2026-99-01T12:00:20+0000 web1 w[1]: the broker is hung: \n{"MESSAGE": "oom-kill"}\n{oom-kill\n'
    )
    content = foreign + journal(hung_message())[:-1] + b"\n\x00\x00\n2026-03"
    assert len(records(content)) == 1


def test_control_characters_in_reason_of_watchdog_record_are_escaped() -> None:
    (record,) = records(journal(hung_message(text="process 1: \x1b[31mopenwire, and its log has no record")))
    assert "\x1b" not in record.fields["reason"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("journal/activemq-watchdog.service.log", "unit_journal"),
        ("journal/orders-watchdog.service.log.gz", "unit_journal"),
        ("journal/activemq.service.log", "unit_journal"),
        ("activemq-watchdog.service.log", "other"),
    ],
)
def test_file_of_systemd_journal_is_detected_by_its_path(path: str, kind: str) -> None:
    assert file_kind(path) == kind
