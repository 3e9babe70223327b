"""The result of an audit: its outcome, what was missing from the input, and counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from activemq_fleet.audit.advice import NAMES
from activemq_fleet.audit.unexplained_records import UnexplainedRecordGroup
from activemq_fleet.node.printable import count_with_noun

AuditOutcome = Literal["clean", "findings", "incomplete"]

UNREAD = 0.02
"""Share of unreadable records of a host above which the audit is incomplete."""
_MAXIMUM_GAPS = 1000
"""Gaps that audit.json lists; it counts all."""
_GAP_KEYS = ("host", "file", "line", "what", "weighs")


@dataclass(frozen=True, slots=True)
class InputGap:
    """A gap in the input of an audit: a log, event journal or time range of a host that is missing.

    ``weighs`` is True if it may hide incidents or losses.
    """

    host: str
    what: str
    file: str | None = None
    line: int | None = None
    weighs: bool = True


@dataclass(frozen=True, slots=True)
class AuditInputSummary:
    """A summary of the input of an audit in numbers.

    ``bytes`` is its size on disk; ``notes`` lists the assumptions made.
    """

    root: str
    hosts: int
    logs: int
    journals: int
    bytes: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditCounts:
    """The counts of an audit, such as those of events, incidents, bridges and deliveries.

    ``unread``: log records that cannot be read; ``unknown``: log records of no known kind; ``unexplained``: warnings
    and errors that are neither harmless nor part of an incident; ``planned``: planned incidents.
    """

    events: int = 0
    unknown: int = 0
    unread: int = 0
    unexplained: int = 0
    gaps: int = 0
    incidents: Mapping[str, int] = field(default_factory=dict)
    planned: int = 0
    bridges: Mapping[str, int] = field(default_factory=dict)
    messages: Mapping[str, int] = field(default_factory=dict)
    deliveries: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The result of an audit of logs and event journals, which is the content of audit.json."""

    verdict: AuditOutcome
    read: AuditInputSummary
    gaps: tuple[InputGap, ...]
    counts: AuditCounts
    out: str
    unexplained: tuple[UnexplainedRecordGroup, ...] = ()

    @property
    def exit_code(self) -> int:
        """The exit code of the command ``audit``.

        It is 0 if the audit found nothing wrong, else 1.
        """
        return 0 if self.verdict == "clean" else 1

    def to_dict(self) -> dict[str, Any]:
        """Return the result of an audit as the JSON object (a dictionary) of audit.json.

        The gaps that weigh are listed first, because they explain the verdict ``incomplete``.
        """
        listed_gaps = sorted(self.gaps, key=lambda gap: not gap.weighs)[:_MAXIMUM_GAPS]
        return {
            "schema_version": 1,
            "verdict": self.verdict,
            "inputs": {**asdict(self.read), "notes": list(self.read.notes)},
            "gaps": [{name: getattr(gap, name) for name in _GAP_KEYS} for gap in listed_gaps],
            "counts": asdict(self.counts),
            "unexplained": [_unexplained_row(records) for records in self.unexplained],
        }


def audit_outcome(gaps: Sequence[InputGap], counts: AuditCounts) -> AuditOutcome:
    """Return the outcome of an audit: ``clean``, ``findings`` or ``incomplete``.

    It is ``incomplete`` where a gap may hide something. It is ``clean`` where nothing was lost, broken or unplanned,
    and each warning and error is explained.
    """
    if any(gap.weighs for gap in gaps) or counts.messages.get("indeterminate"):
        return "incomplete"
    undelivered_count = sum(count for verdict, count in counts.messages.items() if verdict != "delivered")
    broken = counts.bridges.get("failed", 0) + counts.bridges.get("not rebuilt", 0)
    unplanned = sum(counts.incidents.values()) - counts.planned
    return "findings" if undelivered_count or broken or unplanned or counts.unexplained else "clean"


def audit_headline(result: AuditResult) -> str:
    """Return one sentence that summarizes the result of an audit."""
    incidents = [
        count_with_noun(count, *incident_nouns(kind)) for kind, count in result.counts.incidents.items() if count
    ]
    planned = f", {result.counts.planned:,} planned" if result.counts.planned else ""
    parts = [_losses_text(result.counts.messages), (", ".join(incidents) or "no incident") + planned]
    if result.counts.unexplained:
        parts.append(
            count_with_noun(
                result.counts.unexplained, "unexplained warning or error", "unexplained warnings and errors"
            )
        )
    sentence = "; ".join(part for part in parts if part)
    return sentence[0].upper() + sentence[1:]


def incident_nouns(kind: str) -> tuple[str, str]:
    """Return the nouns, singular and plural, for a kind of incident."""
    name = kind.replace("_", " ")
    return NAMES.get(kind, (name, f"{name}s"))


def _losses_text(messages: Mapping[str, int]) -> str:
    """Return the number of lost events, by counts of verdicts, as part of a sentence; empty without events."""
    events = sum(messages.values())
    if not events:
        return ""
    if lost := messages.get("lost"):
        return f"{count_with_noun(lost, 'event')} of {events:,} lost"
    if stuck := messages.get("stuck"):
        return f"no event is known to be lost; {stuck:,} of {events:,} events are stuck (not handled yet)"
    if unknown := messages.get("indeterminate"):
        return f"no event is known to be lost; the delivery of {count_with_noun(unknown, 'event')} is indeterminate"
    return f"none of {count_with_noun(events, 'event')} lost"


def _unexplained_row(records: UnexplainedRecordGroup) -> dict[str, Any]:
    """Return unexplained records as an object of audit.json."""
    return asdict(records) | {"first": records.first.isoformat(), "last": records.last.isoformat()}
