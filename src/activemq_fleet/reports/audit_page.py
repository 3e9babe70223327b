"""Write the HTML report of an audit.

A chart is a function that draws figures of ``audit.report_figures``, and its place in SECTIONS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from activemq_fleet.audit.evidence import Incident, short_name
from activemq_fleet.audit.report_figures import BUCKETS, AuditReportData, HandledEventsSlice, PeriodWithoutHandledEvents
from activemq_fleet.audit.result import AuditResult, audit_headline, incident_nouns
from activemq_fleet.audit.scraped_availability import UnservedPeriod, incident_near_period
from activemq_fleet.audit.state_spans import MAX_SPANS, end_active_spans_at_takeovers
from activemq_fleet.audit.takeover_downtimes import downtime_text
from activemq_fleet.node.printable import count_with_noun
from activemq_fleet.reports.charts import SvgChart, add_scraped_availability_row, tick_interval_seconds
from activemq_fleet.reports.pages import duration_text, render_html_page, utc_time_text

_SEVERE_KINDS = frozenset(
    {"split_brain", "outage", "failed_takeover", "failing_start", "store_error", "lost_spool", "out_of_memory"}
    | {"too_many_open_files", "crashes", "subscriptions_at_risk", "blocked_producers", "link_down"}
)
_SECONDS_PER_DAY = 86400
_MAXIMUM_TABLE_ROWS = 60  # rows of a table
_KINDS_WITHOUT_ACTIVE_NODE = frozenset(
    {"takeover", "demotion", "failed_takeover"}
)  # incidents in which no node is active


@dataclass(frozen=True, slots=True)
class ReportSectionOfCharts:
    """A titled section of charts in an HTML report.

    It has a ``note`` of a sentence or more. A section without charts is not shown. ``charts`` return None where there
    is nothing to draw. ``legend``: pairs of a bar's CSS class and its meaning.
    """

    title: str
    note: Callable[[AuditReportData], str]
    charts: tuple[Callable[[AuditReportData], SvgChart | None], ...]
    legend: tuple[tuple[str, str], ...] = ()


def audit_html_page(result: AuditResult, report_data: AuditReportData) -> str:
    """Return the report of an audit of brokers' logs as an HTML page."""
    downtime = report_data.incidents.longest_downtime_bounds
    drawn_sections = [
        (section, section.note(report_data), [chart(report_data) for chart in section.charts]) for section in SECTIONS
    ]
    return render_html_page(
        "audit.html.j2",
        kind="Audit",
        word={"findings": "with findings"}.get(result.verdict, result.verdict),
        period=report_data.times,
        result=result,
        report_data=report_data,
        headline=audit_headline(result),
        longest_takeover=report_data.incidents.longest_takeover_seconds,
        longest_downtime=downtime_text(*downtime) if downtime else "",
        downtime_text=downtime_text,
        incident_nouns=incident_nouns,
        incident_classes=dict.fromkeys(_SEVERE_KINDS, "bad") | dict.fromkeys(("takeover", "demotion"), "change"),
        unserved=_longest_unserved(report_data),
        sections=[(section, note, list(filter(None, charts))) for section, note, charts in drawn_sections],
    )


def _longest_unserved(report_data: AuditReportData) -> list[tuple[UnservedPeriod, str]]:
    """Return the longest times without an active node by scrapes, each with the incident that explains it.

    An incident that the report lists has its number, and is preferred.
    """
    if report_data.scraped is None:
        return []
    gravest_incidents_to_show = report_data.incidents.gravest_incidents_to_show
    explanations = report_data.incidents.incident_by_unserved_period
    numbers = {incident.incident_id: number for number, incident in enumerate(gravest_incidents_to_show, 1)}

    def explanation(period: UnservedPeriod) -> str:
        if listed := incident_near_period(period, gravest_incidents_to_show):
            return f"{numbers[listed.incident_id]}: {incident_nouns(listed.kind)[0]}"
        unlisted = explanations.get(period)
        return f"{incident_nouns(unlisted.kind)[0]} (in the dataset incidents)" if unlisted else "nothing"

    longest = sorted(report_data.scraped.unserved, key=lambda period: -period.downtime_seconds)[:_MAXIMUM_TABLE_ROWS]
    return [(period, explanation(period)) for period in longest]


def _shown_takeovers(report_data: AuditReportData) -> list[Incident]:
    return [incident for incident in report_data.incidents.gravest_incidents_to_show if incident.kind == "takeover"]


def _chart_over_time(title: str, report_data: AuditReportData) -> SvgChart:
    return SvgChart(title, report_data.times.began.timestamp(), report_data.times.ended.timestamp())


def audit_timeline_chart(report_data: AuditReportData) -> SvgChart | None:
    """Return a timeline chart of the hosts' states for the report of an audit of brokers' logs.

    It shows the numbers of incidents and of log lines.
    """
    if not report_data.hosts:
        return None
    chart = _chart_over_time("Timeline of the fleet", report_data)
    numbered = enumerate(report_data.incidents.gravest_incidents_to_show, 1)
    timed = [
        (at, number, incident) for number, incident in numbered if (at := incident.began or incident.ended) is not None
    ]
    timed.sort(key=lambda entry: entry[:2])
    for pair, members in groupby(report_data.hosts, key=lambda host: host.pair or host.host):
        hosts = {host.host: host.spans for host in members}
        incidents = [entry for entry in timed if entry[2].host in hosts]
        top = chart.add_pair_name(pair)
        for host, spans in hosts.items():
            chart.add_row_name(chart.height + 10, short_name(host))
            takeover_times = [
                at for peer in hosts if peer != host for at in report_data.incidents.newest_takeover_times(peer)
            ]
            for span in end_active_spans_at_takeovers(spans, takeover_times):
                ended = f" to {utc_time_text(span.ended)}" if span.ended else ""
                tooltip = f"{host}: {span.state} from {utc_time_text(span.began)}{ended}"
                end = span.ended or report_data.times.ended
                chart.add_bar(f"s-{span.state}", span.began.timestamp(), end.timestamp(), tooltip)
            chart.height += 18
        if report_data.scraped:
            add_scraped_availability_row(chart, report_data.scraped, pair)
        for at, number, incident in incidents:
            tooltip = f"{number}: {incident.kind.replace('_', ' ')} at {short_name(incident.host)}"
            shaded_until = (
                incident.ended.timestamp() if incident.ended and incident.kind in _KINDS_WITHOUT_ACTIVE_NODE else 0
            )
            chart.add_vertical_mark_through_rows_of_pair(
                "incident", at.timestamp(), str(number), tooltip, top, shaded_until
            )
        chart.height += 9
    _add_log_line_counts(chart, report_data)
    return _add_time_axis(chart)


def _add_log_line_counts(chart: SvgChart, report_data: AuditReportData) -> None:
    """Add bars for the numbers of all log lines, of warnings and of errors to a chart.

    Their height grows with the square root, so that small numbers are visible too.
    """
    chart.add_row_name(chart.height + 10, "lines in logs", "warnings, errors")
    slices = report_data.lines.line_warning_error_counts_by_slice
    highest_count = max((counts.all for counts in slices), default=1)
    chart.height += 26
    for counts in slices:
        severe_counts = f"{count_with_noun(counts.warnings, 'warning')}, {count_with_noun(counts.errors, 'error')}"
        tooltip = f"{utc_time_text(counts.began)}: {count_with_noun(counts.all, 'line')}, {severe_counts}"
        for kind, count in (
            ("flow", counts.all),
            ("warned", counts.warnings + counts.errors),
            ("silence", counts.errors),
        ):
            if count:
                _add_time_slice_column(
                    chart, kind, counts.began, max(1.2, 26 * math.sqrt(count / highest_count)), tooltip
                )
    chart.height += 4


def _add_time_slice_column(chart: SvgChart, kind: str, began: datetime, height: float, tooltip: str) -> None:
    """Add a column as wide as a slice of time, above the chart's height."""
    width = (chart.right - chart.left) / BUCKETS
    chart.add_rect(kind, chart.horizontal_position(began.timestamp()), chart.height - height, width, height, tooltip)


def _add_time_axis(chart: SvgChart) -> SvgChart:
    """Return the chart with an axis of times in UTC."""
    length = chart.ended - chart.began
    step = tick_interval_seconds(length, 9)
    form = (
        "%H:%M:%S"
        if step < 60
        else "%H:%M"
        if length <= _SECONDS_PER_DAY
        else "%d %b"
        if step >= _SECONDS_PER_DAY
        else "%d %b %H:%M"
    )
    ticks = range(math.ceil(chart.began / step) * step, math.floor(chart.ended) + 1, step)
    return chart.add_time_axis(
        [(at, utc_time_text(at, form)) for at in ticks], f"UTC, from {utc_time_text(chart.began, '%d %B %Y')}"
    )


def _event_rate_chart(report_data: AuditReportData) -> SvgChart | None:
    """Return a chart of the number of handled events, and their duration, in each slice of time.

    The scale of durations is logarithmic.
    """
    slices = report_data.events.time_slices_with_handled_events
    if not slices:
        return None
    chart = _chart_over_time("Handled events and their latency", report_data)
    highest_count = max(event_slice.handled for event_slice in slices)
    seconds = (report_data.times.ended - report_data.times.began).total_seconds()
    chart.add_row_name(20, "events handled", f"up to {highest_count * BUCKETS / max(seconds, 1e-6):,.0f} per second")
    chart.height = 78
    for event_slice in slices:
        tooltip = f"{utc_time_text(event_slice.began)}: {count_with_noun(event_slice.handled, 'event')} handled"
        _add_time_slice_column(
            chart, "flow", event_slice.began, max(1.0, 70 * event_slice.handled / highest_count), tooltip
        )
    chart.add_row_name(116, "from accepted", "to handled")
    chart.height = 200
    _add_latencies(
        chart, [event_slice for event_slice in slices if event_slice.handling_times.duration_counts_by_power_of_two_ms]
    )
    return _add_time_axis(chart)


def _add_latencies(chart: SvgChart, slices: Sequence[HandledEventsSlice]) -> None:
    """Add the median and the longest time of each slice above the chart's height, on a logarithmic scale."""
    if not slices:
        message = "no event has both a known time of acceptance and a known time of handling"
        chart.add_text_label(chart.left + 10, chart.height - 48, message, anchor="start")
        return
    highest = max(
        3,
        *(math.ceil(_log10_of_milliseconds(event_slice.handling_times.quantile_seconds(1))) for event_slice in slices),
    )

    def y_of(seconds: float | None) -> float:
        return chart.height - 96 * min(1.0, _log10_of_milliseconds(seconds) / highest)

    for seconds in (10.0 ** (power - 3) for power in range(highest + 1)):
        chart.add_line("grid", chart.left, y_of(seconds), chart.right, y_of(seconds))
        chart.add_text_label(chart.left + 3, y_of(seconds) - 2, duration_text(seconds), anchor="start")
    for event_slice in slices:
        x, median, longest = (
            chart.horizontal_position(event_slice.began.timestamp()),
            event_slice.handling_times.quantile_seconds(0.5),
            event_slice.handling_times.quantile_seconds(1),
        )
        tooltip = (
            f"{utc_time_text(event_slice.began)}: median {duration_text(median)}, longest {duration_text(longest)}"
        )
        chart.add_line("stem", x, y_of(median), x, y_of(longest), tooltip)
        chart.add_circle("dot", x, y_of(median), 1.9)


def _log10_of_milliseconds(seconds: float | None) -> float:
    """Return the logarithm of milliseconds; 0 for a millisecond and below."""
    return math.log10(max(1e-3, seconds or 0.0) * 1000)


def _latency_chart(report_data: AuditReportData) -> SvgChart | None:
    """Return a histogram of the latencies of events, by powers of two of milliseconds."""
    if not report_data.events.time_slices_with_handled_events:
        return None
    chart = SvgChart("Latency of events", 0, 1)
    counts = report_data.events.handling_duration_histogram.duration_counts_by_power_of_two_ms
    chart.add_row_name(32, "number of events", "by latency")
    low, high, highest_count = min(counts, default=0), max(counts, default=0), max(counts.values(), default=1)
    width = min(62.0, (chart.right - chart.left) / max(6, high - low + 1))
    base = 130.0
    for power in range(low, high + 2):
        count, x = counts.get(power, 0), chart.left + (power - low) * width
        chart.add_text_label(x, base + 15, _power_of_two_text(power))
        if count:
            height = max(1.5, 110 * count / highest_count)
            tooltip = (
                f"{count_with_noun(count, 'event')} took {_power_of_two_text(power)} to {_power_of_two_text(power + 1)}"
            )
            chart.add_rect("s-active", x + 1, base - height, width - 2, height, tooltip)
            chart.add_text_label(x + width / 2, base - height - 4, f"{count:,}")
    chart.add_line("axis", chart.left, base, chart.right, base)
    chart.height = base + 24
    return chart


def _power_of_two_text(power: int) -> str:
    """Return a power of two in milliseconds as rounded text, such as 1 s for 1.024 s."""
    return duration_text(float(f"{2.0**power / 1000:.2g}"))


def _longest_event_gaps_chart(report_data: AuditReportData) -> SvgChart | None:
    """Return a chart of the longest times without a handled event.

    They are shown for each subscriber. Vertical lines mark takeovers.
    """
    idle_periods = report_data.events.idle_periods.items_with_smallest_keys() if report_data.events.messages else []
    if not idle_periods:
        return None
    chart = _chart_over_time("Longest times without a handled event", report_data)
    by_subscriber: dict[str, list[PeriodWithoutHandledEvents]] = {}
    for period in idle_periods:
        by_subscriber.setdefault(period.subscriber, []).append(period)
    for name in sorted(list(by_subscriber)[:12]):
        chart.add_row_name(chart.height + 10, name)
        for period in by_subscriber[name]:
            began, length = period.began.timestamp(), f"{period.seconds:.1f} s"
            tooltip = f"{period.subscriber}: nothing handled for {length} from {utc_time_text(period.began)}"
            chart.add_bar("silence", began, began + period.seconds, tooltip)
            if period is by_subscriber[name][0]:  # The longest one is labeled with its length.
                left, right = (
                    chart.horizontal_position(began) - 5,
                    chart.horizontal_position(began + period.seconds) + 5,
                )
                fits_right = right < 915
                chart.add_text_label(
                    right if fits_right else left, chart.height + 10, length, anchor="start" if fits_right else "end"
                )
        chart.height += 22
    for takeover in _shown_takeovers(report_data):
        if at := takeover.began or takeover.ended:
            x = chart.horizontal_position(at.timestamp())
            chart.add_line("incident-line", x, 6, x, chart.height)
    return _add_time_axis(chart)


def _timeline_note(report_data: AuditReportData) -> str:
    note = "Numbers mark the incidents below. Where no bar is drawn, no log shows the state of the broker."
    if any(len(host.spans) >= MAX_SPANS for host in report_data.hosts):
        note += f" Bars show only the newest {MAX_SPANS} states of a broker."
    if hidden_hosts := report_data.hosts_left:
        noun = "host is" if hidden_hosts == 1 else "hosts are"
        note += f" {hidden_hosts} more {noun} not drawn; hosts with incidents come first."
    return note


def _event_gaps_note(report_data: AuditReportData) -> str:
    note = "The longest times in which a subscriber handled no event, by the clock of its host. Lines mark takeovers."
    hidden_takeovers = report_data.incidents.counts["takeover"] - len(_shown_takeovers(report_data))
    if hidden_takeovers:
        note += (
            f" The chart does not mark {count_with_noun(hidden_takeovers, 'takeover')} that this report does not list."
        )
    return note


def _latency_note(report_data: AuditReportData) -> str:
    histogram = report_data.events.handling_duration_histogram
    if not histogram.duration_counts_by_power_of_two_ms:
        return ""
    median, percentile_99, longest = (duration_text(histogram.quantile_seconds(share)) for share in (0.5, 0.99, 1))
    clock_note = (
        f" {count_with_noun(histogram.backwards, 'event')} were handled before their acceptance: the clocks differ."
    )
    return (
        f"Time from acceptance to handling: median {median}, 99th percentile {percentile_99}, maximum {longest}. Dots "
        "mark medians, and lines extend to the maximum. The acceptance time is from the clock of the publisher. The "
        "handling time is from the clock of the subscriber."
    ) + (clock_note if histogram.backwards else "")


SECTIONS = (
    ReportSectionOfCharts(
        "Timeline",
        _timeline_note,
        (audit_timeline_chart,),
        (
            ("s-active", "active"),
            ("s-standby", "standby"),
            ("s-starting", "starting"),
            ("s-stopped", "stopped"),
            ("gap", "no active node"),
            ("flow", "lines"),
            ("warned", "warnings"),
            ("silence", "errors"),
        ),
    ),
    ReportSectionOfCharts("Latency of events", _latency_note, (_event_rate_chart, _latency_chart)),
    ReportSectionOfCharts(
        "Longest times without a handled event",
        _event_gaps_note,
        (_longest_event_gaps_chart,),
    ),
)
"""All charts in the order of the report: the first section precedes the incidents, the others follow the events."""
