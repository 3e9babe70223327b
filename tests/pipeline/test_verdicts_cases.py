"""Verdicts of hand-written cases. Each case has separate agents, and all cases are judged together."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from activemq_fleet.audit import verdict_words as words
from activemq_fleet.audit.gaps import gaps_for_journals_from_other_hosts
from activemq_fleet.audit.journals import AgentJournalGap
from activemq_fleet.audit.verdict_words import MissingJournalPartKind
from activemq_fleet.spark.datasets import AtomicJobOutput
from activemq_fleet.spark.deliveries import judge_and_write_event_deliveries, read_agent_event_journals
from activemq_fleet.spark.inputs import AuditedHost, list_audit_inputs
from tests.support.time_ranges import ANY_TIME

Entry = tuple[str, dict[str, Any]]
FANNED_OUT = 200
CASES: dict[str, Callable[[], dict[str, list[str]]]] = {}


def epoch(name: str) -> str:
    return f"00000000-0000-4000-8000-{zlib.crc32(name.encode()):012}"


def event(publisher: str, seq: int) -> str:
    return f"{publisher}:{epoch(publisher)}:{seq}"


def journal(agent: str, *entries: Entry, epoch_of: str = "", first: int = 1) -> list[str]:
    """Return the lines of a journal whose records are numbered from ``first``."""
    lines = []
    for number, (kind, fields) in enumerate(entries, first):
        ts = f"2026-03-01T12:{number // 60 % 60:02}:{number % 60:02}.000001Z"
        record_head = {
            "v": 1,
            "agent": agent,
            "epoch": epoch_of or epoch(agent),
            "jseq": number,
            "ts": ts,
            "kind": kind,
        }
        lines.append(json.dumps({**record_head, **fields}, separators=(",", ":")))
    return lines


def barrier_of(publisher: str, prefix: str) -> str:
    """Return the topic of a barrier. Publishers with a name of odd length use the old form without their name."""
    return f"{prefix}/__barrier__" if len(publisher) % 2 else f"{prefix}/__barrier__/{publisher}"


def publisher_records(publisher: str, count: int, topic: str = "a/b", *, barrier: bool = True) -> list[Entry]:
    """Return the records of accepted, sent and acknowledged events, numbered from 1, and of a barrier after them."""
    records: list[Entry] = []
    for seq in range(1, count + 1):
        fields = {"event_id": event(publisher, seq), "topic": topic}
        records += [("accepted", fields), ("sent", {**fields, "conn": 1}), ("acknowledged", {**fields, "conn": 1})]
    closing = {"event_id": event(publisher, count + 1), "topic": barrier_of(publisher, topic.rpartition("/")[0])}
    return [*records, ("accepted", closing), ("barrier", closing)] if barrier else records


def handled_records(publisher: str, *seqs: int, topic: str = "a/b") -> list[Entry]:
    events = [{"event_id": event(publisher, seq), "topic": topic, "conn": 1} for seq in seqs]
    return [(kind, fields) for fields in events for kind in ("received", "handling", "handled")]


def received_barrier(publisher: str, seq: int, prefix: str = "a") -> Entry:
    return "barrier", {
        "event_id": event(publisher, seq),
        "topic": barrier_of(publisher, prefix),
        "conn": 1,
        "broker": "mq01",
    }


def subscribed_record(*filters: str) -> Entry:
    return "subscribed", {"filters": list(filters), "conn": 1, "broker": "mq01"}


def case(write_journals: Callable[[], dict[str, list[str]]]) -> Callable[[], dict[str, list[str]]]:
    CASES[write_journals.__name__] = write_journals
    return write_journals


@dataclass(frozen=True)
class Judgment:
    gaps: list[AgentJournalGap]
    units: dict[tuple[str, str], tuple[str, str]]
    events: dict[str, Any]


@pytest.fixture(scope="module")
def judgment(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judgment:
    """Judge all cases from files as ``collect`` writes them, with every second file compressed."""
    root = tmp_path_factory.mktemp("logs")
    for number, write_journals in enumerate(CASES.values()):
        for agent, lines in write_journals().items():
            directory = root / agent / "agent"
            directory.mkdir(parents=True)
            journal_text = "".join(f"{line}\n" for line in lines).encode()
            if number % 2:
                (directory / "journal-000000001.jsonl").write_bytes(journal_text)
            else:
                (directory / "journal-000000001.jsonl.gz").write_bytes(gzip.compress(journal_text))
    output_directory = tmp_path_factory.mktemp("judged") / "out"
    with AtomicJobOutput(spark, str(output_directory)) as output:
        journals = read_agent_event_journals(spark, output, list_audit_inputs(spark, str(root)))
        _, gaps = judge_and_write_event_deliveries(output, journals, ANY_TIME, None)
        output.commit()
    deliveries, messages = (pq.read_table(output_directory / name).to_pylist() for name in ("deliveries", "messages"))
    units = {(row["event_id"], row["subscriber"]): (row["verdict"], row["reason"]) for row in deliveries}
    return Judgment(gaps, units, {row["event_id"]: SimpleNamespace(**row) for row in messages})


@pytest.fixture(scope="module")
def units(judgment: Judgment) -> dict[tuple[str, str], tuple[str, str]]:
    return judgment.units


@pytest.fixture(scope="module")
def events(judgment: Judgment) -> dict[str, Any]:
    return judgment.events


@case
def fan_out() -> dict[str, list[str]]:
    subscribers = {
        f"fan-{n}": journal(f"fan-{n}", subscribed_record("a/+"), *handled_records("fan", 1)) for n in range(FANNED_OUT)
    }
    return {"fan": journal("fan", *publisher_records("fan", 1)), **subscribers}


def test_event_for_many_subscribers_has_delivery_of_each(events: dict[str, Any]) -> None:
    assert events[event("fan", 1)].verdict == "delivered"
    assert len(events[event("fan", 1)].by) == FANNED_OUT


@case
def loner() -> dict[str, list[str]]:
    return {
        "loner": journal("loner", *publisher_records("loner", 1)),
        "loner-sub": journal("loner-sub", subscribed_record("b/#")),
    }


def test_event_without_subscriber_is_indeterminate(events: dict[str, Any]) -> None:
    assert (events[event("loner", 1)].verdict, events[event("loner", 1)].reason) == words.NO_SUBSCRIBER


def test_barrier_is_no_event(events: dict[str, Any]) -> None:
    assert event("loner", 2) not in events


@case
def itself() -> dict[str, list[str]]:
    sent, handled = publisher_records("itself", 3), handled_records("itself", 1, 3)
    return {"itself": journal("itself", subscribed_record("a/#"), *sent, *handled, received_barrier("itself", 4))}


def test_agent_that_subscribes_to_its_topic_has_verdicts(units: dict[Any, Any]) -> None:
    assert units[event("itself", 2), "itself"] == words.BARRIER_CAME
    assert units[event("itself", 3), "itself"] == words.HANDLED


@case
def victim() -> dict[str, list[str]]:
    """Return journals of a case in which another client sends the publisher's barrier before the event.

    It uses the topic that does not name the publisher.
    """
    forged = {"event_id": event("victim", 3), "topic": "a/__barrier__", "conn": 1, "broker": "mq01"}
    subscriber_journal = journal("hearer", subscribed_record("a/#"), *handled_records("victim", 1), ("barrier", forged))
    return {"victim": journal("victim", *publisher_records("victim", 2)), "hearer": subscriber_journal}


def test_forged_barrier_proves_no_loss(units: dict[Any, Any]) -> None:
    assert units[event("victim", 2), "hearer"] == words.NO_BARRIER


@case
def forwarded() -> dict[str, list[str]]:
    forwarded_event = {"event_id": event("origin", 2), "topic": "copies/b"}
    return {
        "origin": journal("origin", *publisher_records("origin", 2)),
        "relay": journal(
            "relay", subscribed_record("a/#"), *handled_records("origin", 1, 2), ("accepted", forwarded_event)
        ),
        "reader": journal("reader", subscribed_record("copies/#"), *handled_records("origin", 2, topic="copies/b")),
    }


def test_forwarded_event_remains_same_event(events: dict[str, Any]) -> None:
    assert events[event("origin", 2)].by == ["reader", "relay"]
    assert events[event("origin", 2)].topic == "a/b"


@case
def salvaged() -> dict[str, list[str]]:
    records_before = journal("salvaged", subscribed_record("a/#"), *handled_records("sal", 1))
    last_record = journal("salvaged", ("stopped", {"reason": "store damaged"}), first=1_000_004)
    later = {"event_id": event("sal", 2), "topic": "a/b"}
    records_after = journal("salvaged", *[("started", {})] * 90, ("handled", later), epoch_of=epoch("salvaged-2"))
    return {
        "sal": journal("sal", *publisher_records("sal", 3)),
        "salvaged": [*records_before, *last_record, *records_after],
    }


def test_new_epoch_of_subscriber_continues_its_inbox(units: dict[Any, Any]) -> None:
    assert units[event("sal", 2), "salvaged"] == words.HANDLED


def test_event_possibly_missing_in_salvaged_store_is_indeterminate(units: dict[Any, Any], judgment: Judgment) -> None:
    assert units[event("sal", 3), "salvaged"] == words.SUBSCRIBER_GAP
    assert [(gap.jseq, gap.records) for gap in judgment.gaps if gap.agent == "salvaged"] == [(5, 999_999)]


@case
def headless() -> dict[str, list[str]]:
    remaining_journal = journal(
        "headless", subscribed_record("a/#"), *handled_records("long", 1, 2), received_barrier("long", 4), first=5000
    )
    return {"long": journal("long", *publisher_records("long", 3)), "headless": remaining_journal}


def test_missing_start_of_event_journal_does_not_hide_lost_event(units: dict[Any, Any]) -> None:
    assert units[event("long", 3), "headless"] == words.BARRIER_CAME


@case
def nameless() -> dict[str, list[str]]:
    return {"nameless": journal("nameless", ("received", {"rx_id": "nameless:x:rx1", "topic": "q", "conn": 1}))}


def test_message_without_event_id_is_no_event(events: dict[str, Any]) -> None:
    assert not any("rx" in str(event_id) for event_id in events)


@case
def unheard() -> dict[str, list[str]]:
    return {
        "unheard": journal(
            "unheard", subscribed_record("a/#"), *handled_records("ghost", 1, 3), received_barrier("ghost", 9)
        )
    }


def test_publisher_without_event_journal_is_reported(units: dict[Any, Any], judgment: Judgment) -> None:
    assert units[event("ghost", 3), "unheard"] == words.HANDLED
    assert [gap.missing_part for gap in judgment.gaps if gap.agent == "ghost"] == [MissingJournalPartKind.JOURNAL]


@case
def torn() -> dict[str, list[str]]:
    lines = journal("torn-sub", subscribed_record("a/#"), *handled_records("torn", 1), *handled_records("torn", 2))
    lines[-1] = lines[-1][:40]
    return {"torn": journal("torn", *publisher_records("torn", 2)), "torn-sub": lines}


def test_event_journal_that_ends_within_line_is_incomplete(units: dict[Any, Any]) -> None:
    assert units[event("torn", 2), "torn-sub"] == words.SUBSCRIBER_GAP


def test_directory_without_event_journals_has_no_verdicts(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "logs/mq01").mkdir(parents=True)
    (tmp_path / "logs/mq01/activemq.log").write_text("nothing\n")

    with AtomicJobOutput(spark, str(tmp_path / "out")) as output:
        journals = read_agent_event_journals(spark, output, list_audit_inputs(spark, str(tmp_path / "logs")))
        assert judge_and_write_event_deliveries(output, journals, ANY_TIME, None)[0].messages == {}
        assert output.row_counts_by_dataset == {"deliveries": 0, "messages": 0}


def judge_hosts(
    spark: SparkSession, root: Path, hosts: dict[str, list[str]], inventory: dict[str, AuditedHost] | None = None
) -> tuple[dict[str, str], dict[tuple[str, str], str], list[str]]:
    """Judge journals by host directory; return verdicts by event, by event and subscriber, and foreign claims."""
    for host, lines in hosts.items():
        (root / "logs" / host / "agent").mkdir(parents=True)
        (root / "logs" / host / "agent" / "journal-000000001.jsonl").write_text("\n".join(lines) + "\n")
    with AtomicJobOutput(spark, str(root / "out")) as output:
        journals = read_agent_event_journals(spark, output, list_audit_inputs(spark, str(root / "logs"), inventory))
        judge_and_write_event_deliveries(output, journals, ANY_TIME, None)
        output.commit()
    messages, deliveries = (pq.read_table(root / "out" / name).to_pylist() for name in ("messages", "deliveries"))
    return (
        {row["event_id"]: row["verdict"] for row in messages},
        {(row["event_id"], row["subscriber"]): row["verdict"] for row in deliveries},
        [
            f"{gap.host}: {gap.what}"
            for gap in gaps_for_journals_from_other_hosts(journals.files, journals.host_by_agent)
        ],
    )


HONEST = [subscribed_record("a/#"), *handled_records("forged-pub", 1, 3), received_barrier("forged-pub", 4)]


def forged_journals(evil: str) -> dict[str, list[str]]:
    """Return journals of a lost event, and of a host whose journal claims that the subscriber handled the event."""
    evil_journal = journal(evil, ("started", {}))
    same_epoch = journal("forged-sub", *handled_records("forged-pub", 2), first=len(HONEST) + 1)
    new_epoch = journal(
        "forged-sub", subscribed_record("a/#"), *handled_records("forged-pub", 2), epoch_of=epoch("another")
    )
    return {
        "forged-pub": journal("forged-pub", *publisher_records("forged-pub", 3)),
        "forged-sub": journal("forged-sub", *HONEST),
        evil: evil_journal + same_epoch + new_epoch,
    }


def test_event_journal_proves_only_events_of_agent_on_its_host(spark: SparkSession, tmp_path: Path) -> None:
    """In attack p24 the lost event counted as delivered."""
    messages, deliveries, claims = judge_hosts(spark, tmp_path, forged_journals("evil"))

    assert messages[event("forged-pub", 2)] == "lost"
    assert deliveries[event("forged-pub", 2), "forged-sub"] == "lost"
    assert claims == [
        "evil: the audit ignores the records of the agent forged-sub in this file, because it uses only the event "
        "journal on forged-sub, the host of this agent. If the agent runs on evil instead, set -i to an inventory that "
        "contains the agent on this host"
    ]


def test_inventory_sets_host_of_event_journal_of_agent(spark: SparkSession, tmp_path: Path) -> None:
    """The host of the attacker sorts first and has the earlier time, and the names of the agents are not hosts."""
    hosts = forged_journals("a-evil")
    hosts = {
        "host-1": hosts["forged-pub"],
        "host-2": hosts["forged-sub"],
        "a-evil": [line.replace("2026-03-01T", "2026-02-01T") for line in hosts["a-evil"]],
    }
    agents = {host: AuditedHost(host, agent=f"forged-{name}") for host, name in (("host-1", "pub"), ("host-2", "sub"))}

    messages, _, claims = judge_hosts(spark, tmp_path, hosts, agents)

    assert messages[event("forged-pub", 2)] == "lost"
    assert claims == [
        "a-evil: the audit ignores the records of the agent forged-sub in this file, because it uses only the event "
        "journal on host-2, the host of this agent. If the agent runs on a-evil instead, set -i to an inventory that "
        "contains the agent on this host"
    ]
