"""Inputs of the report of ``audit``."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa

from activemq_fleet.audit.deliveries import EventOutcome
from activemq_fleet.audit.evidence import Incident
from activemq_fleet.audit.report_figures import (
    AuditReportData,
    BridgeFigures,
    EventFigures,
    IncidentFigures,
    LinkSummary,
    LogLineFigures,
    PeriodWithoutHandledEvents,
    ReportPeriod,
    TimeLineHost,
)
from activemq_fleet.audit.result import AuditCounts, AuditInputSummary, AuditResult, InputGap, audit_outcome
from activemq_fleet.audit.state_spans import HostStateSpan

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def time_after(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def make_incident(number: int = 1, kind: str = "takeover", text: str = "a was killed", **more: object) -> Incident:
    fields: dict[str, object] = {
        "recorded": time_after(number),
        "kind": kind,
        "host": "orders-mq01-b.example.com",
        "pair": "orders-mq01",
        "began": time_after(40),
        "ended": time_after(43.9),
        "seconds": 3.9,
        "began_from": "agent",
        "certainty": "proved",
        "cause": text,
        "remedy": "start it again",
        "rules": ("L022",),
        **more,
    }
    return Incident(**fields)  # type: ignore[arg-type]


def make_picture(text: str = "x", hosts: int = 1, incidents: int = 1, seconds: float = 90) -> AuditReportData:
    times = ReportPeriod(NOON, time_after(seconds))
    incident_figures, bridges, lines, events = (
        IncidentFigures(),
        BridgeFigures(),
        LogLineFigures(times),
        EventFigures(times),
    )
    for number in range(incidents):
        incident_figures.count_incident(make_incident(number, text=text))
    bridges.links.add_items_keeping_smallest_keys(
        LinkSummary(f"h-{text}", f"l-{text}", (text,), "out", 2, 1, 3, "down", text, 6.2)
    )
    log_lines = {"time": pa.array([NOON] * 3, pa.timestamp("us", "UTC")), "level": pa.array(["INFO", "WARN", "ERROR"])}
    lines.count_lines(pa.RecordBatch.from_pydict(log_lines))
    for number in range(100):
        handled = time_after(1 + 0.002 * number)
        events.count_event(EventOutcome(f"d-{number}", "t", "delivered", "handled", time_after(1), handled, ["s"]), [])
    events.count_event(EventOutcome("b", "t", "delivered", "handled", time_after(3), time_after(2), ["s"]), [])
    events.count_event(EventOutcome(f"e-{text}", f"t-{text}", "lost", text, None, None, []), [])
    events.idle_periods.add_items_keeping_smallest_keys(PeriodWithoutHandledEvents(f"s-{text}", time_after(40), 4.2))
    names = [f"h{number}-{text}" for number in range(hosts)]
    time_line_hosts = [
        TimeLineHost(name, f"p{n // 2}-{text}", (HostStateSpan(name, "active", NOON, None),))
        for n, name in enumerate(names)
    ]
    return AuditReportData(times, incident_figures, time_line_hosts, 0, bridges, lines, events)


def make_result(text: str = "x", **messages: int) -> AuditResult:
    counts = AuditCounts(events=10, incidents={"takeover": 1}, messages=messages or {"delivered": 7, "lost": 1})
    gaps = (InputGap(f"h-{text}", f"cut-{text}", f"f-{text}", 3),)
    return AuditResult(
        audit_outcome(gaps, counts),
        AuditInputSummary(f"file:/{text}", 3, 2, 1, 100, (f"note {text}",)),
        gaps,
        counts,
        "out",
    )
