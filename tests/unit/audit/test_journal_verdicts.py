"""Verdicts of events in short journals that are written out record by record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from activemq_fleet.audit.journal_lines import parse_event_journal_line
from activemq_fleet.audit.journals import EventJournalLine
from activemq_fleet.audit.judged_journals import evaluate_journals

EPOCH = "0f8fad5b-d9cb-469f-a165-70867728950e"


class Journals:
    """The event journals of the publisher ``shop`` and the subscriber ``erp``, with numbered records."""

    def __init__(self) -> None:
        self.lines: list[EventJournalLine] = []
        self.seq = 0
        self._last_jseq = {"shop": 0, "erp": 0}

    def add(self, agent: str, kind: str, **fields: Any) -> None:
        self._last_jseq[agent] += 1
        record = {"v": 1, "agent": agent, "epoch": EPOCH, "jseq": self._last_jseq[agent], "kind": kind, **fields}
        line = parse_event_journal_line(1, json.dumps(record)).record
        assert line is not None
        self.lines.append(line)

    def subscribe(self, *filters: str) -> None:
        for topic_filter in filters:
            self.add("erp", "subscribed", filters=[topic_filter], broker="b:1883", conn=1)

    def publish(self, topic: str = "orders/E", *, reason: str | None = None, is_received: bool = False) -> str:
        """Add the records of an event that a broker acknowledged, and return the event id."""
        self.seq += 1
        event_id = f"shop:{EPOCH}:{self.seq}"
        event_fields = {"event_id": event_id, "topic": topic}
        self.add("shop", "accepted", **event_fields)
        self.add("shop", "sent", **event_fields, conn=1, **({"reason": reason} if reason else {}))
        self.add("shop", "acknowledged", **event_fields, conn=1)
        if is_received:
            for kind in ("received", "handling", "handled"):
                self.add("erp", kind, **event_fields)
        return event_id

    def send_barrier(self) -> None:
        self.seq += 1
        event_fields = {"event_id": f"shop:{EPOCH}:{self.seq}", "topic": "orders/__barrier__/shop"}
        self.add("shop", "accepted", **event_fields)
        self.add("shop", "barrier", **event_fields)
        self.add("erp", "barrier", **event_fields, broker="b:1883", conn=1)

    def verdict(self, event_id: str) -> tuple[str, str]:
        outcomes = {outcome.event_id: outcome for outcome in evaluate_journals(self.lines).outcomes}
        return outcomes[event_id].verdict, outcomes[event_id].reason


def test_event_sent_without_id_is_indeterminate_before_and_after_barrier() -> None:
    journals = Journals()
    journals.subscribe("orders/#")
    journals.send_barrier()
    with_id, without_id = journals.publish(), journals.publish(reason="without id")
    assert journals.verdict(with_id)[0] == "stuck"
    verdict, reason = journals.verdict(without_id)
    assert verdict == "indeterminate"
    assert "its payload has no event id" in reason
    journals.send_barrier()
    assert journals.verdict(with_id)[0] == "lost"
    assert journals.verdict(without_id) == (verdict, reason)


@pytest.mark.parametrize("kind", ["acknowledged", "unconfirmed"])
def test_event_sent_without_id_whose_sent_record_is_missing_is_indeterminate(kind: str) -> None:
    journals = Journals()
    journals.subscribe("orders/#")
    journals.send_barrier()
    event_fields = {"event_id": f"shop:{EPOCH}:2", "topic": "orders/E"}
    journals.add("shop", "accepted", **event_fields)
    journals.add("shop", kind, **event_fields, conn=1, reason="without id")
    journals.seq += 1
    journals.send_barrier()
    verdict, reason = journals.verdict(event_fields["event_id"])
    assert verdict == "indeterminate"
    assert "its payload has no event id" in reason


def test_event_sent_without_id_but_received_with_it_is_delivered() -> None:
    journals = Journals()
    journals.subscribe("orders/#")
    journals.send_barrier()
    assert journals.verdict(journals.publish(reason="without id", is_received=True))[0] == "delivered"


def test_start_without_filter_ends_subscription_of_earlier_configuration() -> None:
    journals = Journals()
    journals.add("erp", "started", filters=["orders/#", "returns/#"])
    journals.subscribe("orders/#", "returns/#")
    received = journals.publish(is_received=True)
    lost = journals.publish()
    journals.send_barrier()
    journals.add("erp", "started", filters=["returns/#"])
    journals.subscribe("returns/#")
    not_expected = journals.publish()
    journals.send_barrier()
    assert journals.verdict(received)[0] == "delivered"
    assert journals.verdict(lost)[0] == "lost"
    assert journals.verdict(not_expected) == (
        "indeterminate", "the audit knows no subscriber that should receive the event",
    )  # fmt: skip


def test_start_with_same_filters_or_without_list_continues_subscription() -> None:
    journals = Journals()
    journals.subscribe("orders/#")
    journals.publish(is_received=True)
    journals.add("erp", "started", filters=["orders/#"])
    journals.add("erp", "started")
    lost = journals.publish()
    journals.send_barrier()
    assert journals.verdict(lost)[0] == "lost"


def test_filter_that_is_configured_again_is_subscribed_again() -> None:
    journals = Journals()
    journals.subscribe("orders/#")
    journals.add("erp", "started", filters=[])
    journals.add("erp", "started", filters=["orders/#"])
    journals.subscribe("orders/#")
    journals.publish(is_received=True)
    lost = journals.publish()
    journals.send_barrier()
    assert journals.verdict(lost)[0] == "lost"
