"""The verdicts of histories by the product's functions, without Spark."""

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


@dataclass
class Read:
    """What files of journals hold: lines, parts, and by the epochs that ids name the highest SEQ that came."""

    lines: list[Any] = field(default_factory=list)
    parts: list[Any] = field(default_factory=list)
    named: dict[tuple[str, str], int] = field(default_factory=dict)


def read(files: Mapping[str, list[str]]) -> Read:
    """Read journals, by HOST/agent/NAME."""
    found = Read()
    for path, lines in files.items():
        host, file = path.split("/", 1)
        by_epoch: dict[Any, list[tuple[int, Any]]] = {}
        for number, text in enumerate(lines, 1):
            line, is_torn = _line(text)
            if line is not None or is_torn:
                by_epoch.setdefault(line and line[:2], []).append((number, line))
        for epoch, mine in by_epoch.items():
            whole = [(number, line) for number, line in mine if line and line.kind]
            found.parts.append(
                journals.JournalEpochPart(
                    host,
                    file,
                    epoch and epoch[0],
                    epoch and epoch[1],
                    known=max((line.jseq for _, line in mine if line), default=None),
                    began=min((line.ts for _, line in whole), default=None),
                    line=max((number for number, _ in whole), default=None),
                    torn=max((number for number, line in mine if line is None), default=None),
                )
            )
            found.lines += [line for _, line in mine if line]
            for _, line in whole:
                _name(found.named, line)
    return found


def _line(text: str) -> tuple[journals.EventJournalLine | None, bool]:
    """The record of a line, if there is one, and whether something was written there that cannot be read."""
    try:
        r = json.loads(text)
    except ValueError:
        head = _HEAD.match(text)
        line = _torn(head) if head else None
        return line, text.startswith("{")
    if not isinstance(r, dict) or not {"agent", "epoch", "jseq", "kind"} <= r.keys():
        return None, False
    line = journals.EventJournalLine(
        r["agent"], r["epoch"], r["jseq"], datetime.fromisoformat(r["ts"]), r["kind"], r.get("event_id"),
        r.get("rx_id"), r.get("topic"), "broker" in r or "conn" in r, r.get("filters"), r.get("reason"),
    )  # fmt: skip
    return line, False


def _torn(head: re.Match[str]) -> journals.EventJournalLine:
    return journals.EventJournalLine(
        head[1], head[2], int(head[3]), ts=None, kind=None, event_id=None, rx_id=None, topic=None, came=False,
        filters=None, reason=None,
    )  # fmt: skip


def _name(named: dict[tuple[str, str], int], line: journals.EventJournalLine) -> None:
    parts = journals.parse_event_id(line.event_id or "")
    if parts is None:
        return
    agent, epoch, seq = parts
    is_sent = line.kind == "barrier" and not line.came and str(line.event_id).startswith(f"{line.agent}:")
    is_own = (line.agent, line.epoch) == (agent, epoch) and (line.kind == "accepted" or is_sent)
    came = line.kind in ("received", "duplicate", "handling", "handled", "quarantined", "barrier") and not is_own
    named[agent, epoch] = max(named.get((agent, epoch), 0), seq if came else 0)


def judge(found: Read, modules: SimpleNamespace = MODULES) -> tuple[Units, dict[str, str]]:
    """The verdicts of units, and of events, by modules that may have a bug planted."""
    journals, ranges = modules.journals, modules.reached_ranges
    epochs = journals.merge_epoch_parts(found.parts, found.named)
    in_order = sorted(
        found.lines, key=lambda line: (line.agent, epochs[line.agent, line.epoch].rank, line.jseq, line.kind is None)
    )
    entries = list(journals.records_and_gaps_in_order(in_order, epochs))
    subscribers = ranges.subscribers_by_name(
        [entry for entry in entries if isinstance(entry, journals.AgentSubscriptionChange)]
    )
    missing = {entry.agent: entry.records for entry in entries if isinstance(entry, journals.MissingRecordCount)}
    records = sorted(
        (entry for entry in entries if isinstance(entry, journals.EventRecordWithPosition)),
        key=lambda entry: entry.event_id,
    )
    events_of = modules.event_records.events_from_records
    reach = dict(ranges.reached_ranges_with_keys(events_of(records), subscribers, missing))
    units: Units = {}
    events: dict[str, str] = {}
    for outcome, deliveries in modules.deliveries.DeliveryJudge(subscribers, missing, reach).outcomes_with_deliveries(
        events_of(records)
    ):
        for unit in deliveries:
            assert (unit.event_id, unit.subscriber) not in units, "a unit came twice"
            units[unit.event_id, unit.subscriber] = unit.verdict
        if outcome:
            events[outcome.event_id] = outcome.verdict
    return units, events
