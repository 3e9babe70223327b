"""The journal of a watchdog, as ``collect`` brings it: kills, and lines that report none."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from activemq_fleet.audit.watchdog_kills import WATCHDOG_JOURNAL, WatchdogKill, kills_in_journal
from activemq_fleet.node.watchdog.hang_detection import KILL_FAILED, hung_message

HOST = "orders-mq01-a.example.com"
FROZEN = "process 812 was stopped by a signal, and its log reports: Apache ActiveMQ 5.18.3 (x, ID:x) started"


def hung(action: str = "kill", kills: bool = True, text: str = FROZEN) -> str:
    return hung_message(text, action=action, ha="shared-file", unit="activemq.service", seconds=12.4, kills=kills)


def journal(*messages: str, zone: str = "+00:00") -> bytes:
    lines = [
        f"2026-03-01T12:00:{number:02}.250000{zone} web1 activemq-watchdog[77]: {message}"
        for number, message in enumerate(messages, 20)
    ]
    return "\n".join(["-- Journal begins at Sun 2026-03-01 --", *lines, ""]).encode()


def test_kill_has_its_time_the_first_missed_check_and_the_reason() -> None:
    content = journal(hung(), "the watchdog killed the hung broker, process 812")
    assert kills_in_journal(HOST, content) == (
        WatchdogKill(
            HOST,
            datetime(2026, 3, 1, 12, 0, 8, 250000, UTC),
            datetime(2026, 3, 1, 12, 0, 20, 250000, UTC),
            "process 812 was stopped by a signal",
        ),
    )


def test_kill_counts_although_the_watchdog_stopped_together_with_its_broker() -> None:
    assert len(kills_in_journal(HOST, journal(hung()))) == 1


@pytest.mark.parametrize(
    "messages",
    [
        [hung(action="warn")],
        [hung(kills=False)],
        [hung(), f"{KILL_FAILED} 812, because it ended earlier, or waits for a disk that hangs"],
        ["the broker is healthy again: process 812 answers: openwire"],
        ["Started The watchdog of the ActiveMQ broker activemq.", "the broker is hung: many checks"],
    ],
    ids=["warn", "third-kill", "failed", "healthy", "other"],
)
def test_lines_without_a_kill_report_none(messages: list[str]) -> None:
    assert kills_in_journal(HOST, journal(*messages)) == ()


@pytest.mark.parametrize("zone", ["+0000", "Z", "+00:00"])
def test_journal_is_read_in_each_form_of_the_time_zone(zone: str) -> None:
    (kill,) = kills_in_journal(HOST, journal(hung(), zone=zone))
    assert kill.at == datetime(2026, 3, 1, 12, 0, 20, 250000, UTC)


def test_local_time_of_a_journal_becomes_utc() -> None:
    (kill,) = kills_in_journal(HOST, journal(hung(), zone="+0530"))
    assert kill.at == datetime(2026, 3, 1, 6, 30, 20, 250000, UTC)


def test_damaged_and_foreign_lines_are_ignored() -> None:
    content = b"\xff\xfe\n2026-99-01T12:00:20+0000 web1 w[1]: x\n" + journal(hung())[:-1] + b"\n\x00\x00\n2026-03"
    assert len(kills_in_journal(HOST, content)) == 1


def test_control_characters_of_a_reason_are_escaped() -> None:
    (kill,) = kills_in_journal(HOST, journal(hung(text="process 1: \x1b[31mopenwire, and its log has no record")))
    assert "\x1b" not in kill.reason


@pytest.mark.parametrize(
    ("path", "is_journal"),
    [
        ("journal/activemq-watchdog.service.log", True),
        ("journal/orders-watchdog.service.log", True),
        ("journal/activemq.service.log", False),
        ("activemq-watchdog.service.log", False),
    ],
)
def test_watchdog_journal_is_known_by_its_path(path: str, is_journal: bool) -> None:
    assert bool(WATCHDOG_JOURNAL.fullmatch(path)) is is_journal
