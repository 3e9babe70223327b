"""The host that owns the event journal of an agent: lines of this agent in other directories do not count."""

from __future__ import annotations

import json

import pytest

from activemq_fleet.audit.gaps import gaps_for_journals_from_other_hosts
from activemq_fleet.audit.journal_lines import (
    collected_journal_host_by_agent,
    journal_epochs_by_agent_and_id,
    parse_event_journal_line,
    summarize_event_journal_file,
)
from activemq_fleet.audit.verdict_passes import journal_lines_with_agent_positions

EPOCH = "00000000-0000-4000-8000-000000000001"


def line(agent: str, jseq: int, ts: str = "2026-03-01T12:00:00Z") -> bytes:
    record = {
        "v": 1,
        "agent": agent,
        "epoch": EPOCH,
        "jseq": jseq,
        "ts": ts,
        "kind": "handled",
        "event_id": f"p:{EPOCH}:1",
    }
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


GENUINE = line("sub", 1) + line("sub", 2)
FORGED = line("sub", 3, "2026-02-01T12:00:00Z")


@pytest.mark.parametrize(
    ("owner", "hosts", "agent_hosts", "expected"),
    [
        ("sub", ["sub", "evil"], {}, "sub"),
        ("host-2", ["host-2", "evil"], {"sub": "host-2"}, "host-2"),
        ("host-2", ["evil"], {"sub": "host-9"}, "host-9"),
        ("host-2", ["host-2", "evil"], {}, "evil"),
    ],
)
def test_event_journal_of_agent_counts_on_one_host_only(
    owner: str, hosts: list[str], agent_hosts: dict[str, str], expected: str
) -> None:
    contents = {owner: GENUINE, "evil": FORGED}
    files = [
        summarize_event_journal_file(host, "agent/j.jsonl", memoryview(text))[0] for host, text in contents.items()
    ]

    host_by_agent = collected_journal_host_by_agent(files, hosts, agent_hosts)
    epochs, _ = journal_epochs_by_agent_and_id(files, host_by_agent)
    counted = {
        host: [
            positioned.line.jseq
            for positioned in journal_lines_with_agent_positions(
                host, "agent/j.jsonl", memoryview(text), epochs, host_by_agent
            )
        ]
        for host, text in contents.items()
    }

    assert host_by_agent == {"sub": expected}
    assert counted == {
        host: [1, 2] if host == owner == expected else [3] if host == expected else [] for host in contents
    }
    assert {gap.host for gap in gaps_for_journals_from_other_hosts(files, host_by_agent)} == contents.keys() - {
        expected
    }


@pytest.mark.parametrize(
    "text",
    [
        '{"v":1,"agent":"a\\ud800","epoch":"e","jseq":1,"kind":"started"}',
        '{"v":1,"agent":"a","epoch":"e","jseq":1,"kind":"connected","conn":1' + "0" * 30 + "}",
        '{"v":1,"agent":"a","epoch":"e","jseq":1,"kind":"started","reason":' + "[" * 400 + "]" * 400 + "}",
    ],
)
def test_event_journal_values_that_datasets_cannot_hold_are_ignored(text: str) -> None:
    parsed = parse_event_journal_line(1, text)

    assert parsed.record is not None
    assert parsed.record.agent.encode()
    assert parsed.conn is None
