"""Verdicts of histories from the functions of the product, without Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from activemq_fleet.audit import journals
from tests.histories.mutants import MODULES

_HEAD = re.compile(r'\{"v":\d+,"agent":"([^"\\]+)","epoch":"([^"\\]+)","jseq":(\d+),')
Units = dict[tuple[str, str], str]
"""Verdicts of deliveries, by event and subscriber."""


@dataclass
class Read:
    """The content of journal files: lines, parts, and by epoch the highest received sequence number."""

    lines: list[Any] = field(default_factory=list)
    parts: list[Any] = field(default_factory=list)
    received: dict[tuple[str, str], int] = field(default_factory=dict)


def read(files: Mapping[str, list[str]]) -> Read:
    """Return the content of journals, which are given by HOST/agent/NAME."""
    content = Read()
    for path, lines in files.items():
        host, file = path.split("/", 1)
        by_epoch: dict[Any, list[tuple[int, Any]]] = {}
        for number, text in enumerate(lines, 1):
            line, is_torn = _line(text)
            if line is not None or is_torn:
                by_epoch.setdefault(line and line[:2], []).append((number, line))
        for epoch, epoch_lines in by_epoch.items():
            complete = [(number, line) for number, line in epoch_lines if line and line.kind]
            content.parts.append(
                journals.JournalEpochPart(
                    host,
                    file,
                    epoch and epoch[0],
                    epoch and epoch[1],
                    known=max((line.jseq for _, line in epoch_lines if line), default=None),
                    began=min((line.ts for _, line in complete), default=None),
                    line=max((number for number, _ in complete), default=None),
                    torn=max((number for number, line in epoch_lines if line is None), default=None),
                )
            )
            content.lines += [line for _, line in epoch_lines if line]
            for _, line in complete:
                _note_received(content.received, line)
    return content


def _line(text: str) -> tuple[journals.EventJournalLine | None, bool]:
    """Return the record of a line, or None, and whether the line is a torn record."""
    try:
        record = json.loads(text)
    except ValueError:
        head = _HEAD.match(text)
        line = _torn(head) if head else None
        return line, text.startswith("{")
    if not isinstance(record, dict) or not {"agent", "epoch", "jseq", "kind"} <= record.keys():
        return None, False
    line = journals.EventJournalLine(
        record["agent"], record["epoch"], record["jseq"], datetime.fromisoformat(record["ts"]), record["kind"],
        record.get("event_id"), record.get("rx_id"), record.get("topic"), "broker" in record or "conn" in record,
        record.get("filters"), record.get("reason"),
    )  # fmt: skip
    return line, False


def _torn(head: re.Match[str]) -> journals.EventJournalLine:
    return journals.EventJournalLine(
        head[1], head[2], int(head[3]), ts=None, kind=None, event_id=None, rx_id=None, topic=None, came=False,
        filters=None, reason=None,
    )  # fmt: skip


def _note_received(received: dict[tuple[str, str], int], line: journals.EventJournalLine) -> None:
    parts = journals.parse_event_id(line.event_id or "")
    if parts is None:
        return
    agent, epoch, number = parts
    is_sent = line.kind == "barrier" and not line.came and str(line.event_id).startswith(f"{line.agent}:")
    is_published = (line.agent, line.epoch) == (agent, epoch) and (line.kind == "accepted" or is_sent)
    is_received = (
        line.kind in ("received", "duplicate", "handling", "handled", "quarantined", "barrier") and not is_published
    )
    received[agent, epoch] = max(received.get((agent, epoch), 0), number if is_received else 0)


def judge(content: Read, modules: SimpleNamespace = MODULES) -> tuple[Units, dict[str, str]]:
    """Return the verdicts of deliveries, and of events, from modules that may contain a bug."""
    journals, ranges = modules.journals, modules.reached_ranges
    epochs = journals.merge_epoch_parts(content.parts, content.received)
    in_order = sorted(
        content.lines, key=lambda line: (line.agent, epochs[line.agent, line.epoch].rank, line.jseq, line.kind is None)
    )
    entries = list(journals.records_and_gaps_in_order(in_order, epochs))
    subscribers = ranges.subscriptions_by_subscriber_name(
        [entry for entry in entries if isinstance(entry, journals.AgentSubscriptionChange)]
    )
    missing = {entry.agent: entry.records for entry in entries if isinstance(entry, journals.MissingRecordCount)}
    records = sorted(
        (entry for entry in entries if isinstance(entry, journals.EventRecordWithJournalPosition)),
        key=lambda entry: entry.event_id,
    )
    events_of = modules.event_records.events_from_records
    reach = dict(ranges.received_event_ranges_with_keys(events_of(records), subscribers, missing))
    units: Units = {}
    events: dict[str, str] = {}
    for outcome, deliveries in modules.deliveries.DeliveryJudge(subscribers, missing, reach).outcomes_with_deliveries(
        events_of(records)
    ):
        for delivery in deliveries:
            assert (delivery.event_id, delivery.subscriber) not in units, (
                f"two verdicts of one delivery: {delivery.event_id} to {delivery.subscriber}"
            )
            units[delivery.event_id, delivery.subscriber] = delivery.verdict
        if outcome:
            events[outcome.event_id] = outcome.verdict
    return units, events
