"""Write the HTML report of a drill."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from statistics import median

from activemq_fleet.addresses import host_name_without_domain
from activemq_fleet.audit.verdict_words import WORST
from activemq_fleet.drills.drill_verdict import drill_headline, loss_probability_upper_bound
from activemq_fleet.drills.model import DrillResult, EventVerdict, Fault
from activemq_fleet.reports.charts import SvgChart, add_scraped_availability_row, tick_interval_seconds
from activemq_fleet.reports.pages import render_html_page

_FAULT_DESCRIPTIONS = {
    "kill": "killed (SIGKILL)",
    "crash": "crashed (SIGKILL to the Java process only)",
    "pause": "frozen (SIGSTOP)",
    "stop": "stopped cleanly (SIGTERM)",
}
_DOT_WIDTH = 9  # width of a dot
_MAXIMUM_TABLE_ROWS = 20  # rows of the table of events


def drill_html_page(result: DrillResult) -> str:
    """Return the report of a drill (a failover test with injected faults) as an HTML page."""
    counted_faults = result.faults_under_sufficient_load
    return render_html_page(
        "drill.html.j2",
        kind="Drill",
        word={"findings": "did not pass"}.get(result.verdict, result.verdict),
        period=result,
        result=result,
        details=[*result.conditions.machine.items(), *(("note", note) for note in result.conditions.notes)],
        headline=drill_headline(result),
        fault_name=_FAULT_DESCRIPTIONS[result.conditions.what],
        silence=_longest_and_median(_sorted_measured(fault.silence for fault in counted_faults)),
        takeover=_longest_and_median(_sorted_measured(fault.takeover for fault in counted_faults)),
        timeline=drill_timeline_chart(result),
        distribution=_duration_chart(counted_faults),
        chance=100 * loss_probability_upper_bound(len(counted_faults)),
        accounts=result.accounts if len(result.accounts) < 2 else (*result.accounts, result.event_counts_of_all_pairs),
        units=_shown_units(result),
        unit_count=sum(result.event_count_of_all_pairs(verdict) for verdict in WORST if verdict != "delivered"),
    )


def _shown_units(result: DrillResult) -> Sequence[tuple[str, str, EventVerdict, str]]:
    """Return pair, id, verdict and reason of the events that the report lists, the worst verdict first.

    An account has only the first of its events that were not delivered exactly once.
    """
    units = [
        (account.pair, unit.event_id, unit.verdict, unit.reason)
        for account in result.accounts
        for unit in account.units
    ]
    return sorted(units, key=lambda unit: WORST.index(unit[2]))[:_MAXIMUM_TABLE_ROWS]


def _sorted_measured(values: Iterable[float | None]) -> list[float]:
    """Return the durations that were measured, the shortest first."""
    return sorted(value for value in values if value is not None)


def _longest_and_median(values: list[float]) -> tuple[float | None, float | None]:
    return (values[-1], median(values)) if values else (None, None)


def drill_timeline_chart(result: DrillResult) -> SvgChart:
    """Return a timeline chart of a drill (a failover test with injected faults).

    It has the hosts' states, the faults' numbers, and the flow of events per pair.
    """
    chart = SvgChart("Timeline of the fleet", result.began, result.ended)
    hosts = [list(spans) for _, spans in groupby(result.spans, key=lambda span: span.host)]
    for account in result.accounts:
        members = [spans for spans in hosts if spans[0].pair == account.pair]
        top = chart.add_pair_name(account.pair)
        for spans in members:
            chart.add_row_name(chart.height + 10, host_name_without_domain(spans[0].host))
            for span in spans:
                if span.state != "unknown":
                    tooltip = f"{span.host}: {span.state} for {span.ended - span.began:.1f} s"
                    chart.add_bar(f"s-{span.state}", span.began, span.ended, tooltip)
            chart.height += 18
        if result.scraped:
            add_scraped_availability_row(chart, result.scraped, account.pair)
        _add_flow_and_faults(chart, [fault for fault in result.faults if fault.pair == account.pair], top)
        chart.height += 9
    length = int(chart.ended - chart.began)
    ticks = range(0, length + 1, tick_interval_seconds(length, 11))
    labels = [(chart.began + at, f"{at // 60}:{at % 60:02}") for at in ticks]
    return chart.add_time_axis(labels, "minutes and seconds since the drill began")


def _add_flow_and_faults(chart: SvgChart, faults: Sequence[Fault], top: float) -> None:
    """Add a row with the periods in which events of a pair were handled or not handled, and the faults' numbers."""
    chart.add_text_label(chart.left - 10, chart.height + 8, "events", anchor="end")
    chart.add_bar("flow", chart.began, chart.ended, height=8)
    for fault in faults:
        if fault.silence and fault.silent_from is not None:
            tooltip = f"fault {fault.number}: no event handled for {fault.silence:.1f} s"
            chart.add_bar("silence", fault.silent_from, fault.silent_from + fault.silence, tooltip, height=8)
    chart.height += 14
    for fault in faults:
        tooltip = f"fault {fault.number}: {fault.what} {fault.host}"
        if fault.void:
            chart.add_vertical_mark_through_rows_of_pair(
                "void", fault.at, f"({fault.number})", f"{tooltip}, not counted: {fault.void}", top
            )
        else:
            chart.add_vertical_mark_through_rows_of_pair("fault", fault.at, str(fault.number), tooltip, top)


def _duration_chart(faults: Sequence[Fault]) -> SvgChart:
    """Return a chart of the durations of a drill's faults in seconds.

    It has a row for each measure, a dot for each fault, the median and the longest.
    """
    measures: tuple[tuple[str, str, str], ...] = (
        ("until the other node was active", "by the brokers' logs", "takeover"),
        ("no event handled", "by the subscribers' journals", "silence"),
        ("no event acknowledged", "by the publishers' journals", "publish_gap"),
    )
    if any(fault.unserved is not None for fault in faults):
        measures += (("no active node", "by scrapes of the brokers' metrics", "unserved"),)
    measured = [_sorted_measured(getattr(fault, name) for fault in faults) for _, _, name in measures]
    longest = max((values[-1] for values in measured if values), default=1.0)
    step = next((step for step in (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300) if longest / step <= 10), 600)
    ticks = [(number * step, f"{number * step:g}") for number in range(int(longest / step) + 2)]
    chart = SvgChart("Downtime", 0.0, ticks[-1][0], left=226, right=830)
    for (name, source, _), values in zip(measures, measured, strict=True):
        columns = [int(chart.horizontal_position(value) / _DOT_WIDTH) for value in values]
        y = chart.height = chart.height + max(36, _DOT_WIDTH * max(map(columns.count, columns), default=0) + 6)
        chart.add_row_name(y - 14, name, source)
        chart.add_line("axis", chart.left, y + 3, chart.right, y + 3)
        for number, column in enumerate(columns):  # dots are stacked where they would overlap
            stack_height = _DOT_WIDTH * columns[:number].count(column)
            chart.add_circle("dot", (column + 0.5) * _DOT_WIDTH, y - 3 - stack_height, 4)
        if values:
            x = chart.horizontal_position(median(values))
            chart.add_line("median", x, y - 26, x, y + 8)
            chart.add_text_label(chart.right + 20, y - 14, f"median {median(values):.1f} s", "host", "start")
            chart.add_text_label(chart.right + 20, y, f"longest {values[-1]:.1f} s", "host", "start")
        else:
            chart.add_text_label(chart.right + 20, y, "not measured", anchor="start")
        chart.height += 20
    return chart.add_time_axis(ticks, "seconds after the fault: each dot is one fault, the line is the median")
