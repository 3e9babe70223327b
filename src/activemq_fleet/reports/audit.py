"""Write the report of an audit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby

from activemq_fleet.audit.evidence import short_name
from activemq_fleet.audit.picture import BUCKETS, DeliverySlice, Picture, Silence
from activemq_fleet.audit.result import Result, headline, incident_names
from activemq_fleet.audit.state_spans import until_takeovers
from activemq_fleet.printable import counted
from activemq_fleet.reports.charts import Chart, tick_step
from activemq_fleet.reports.pages import duration_text, render_page, time_text

_GRAVE = ("split_brain", "failed_takeover", "store_error", "failing_start")
_DAY = 86400
_WITHOUT_ACTIVE = frozenset({"takeover", "demotion", "failed_takeover"})  # incidents in which no node is active


def audit_report(result: Result, picture: Picture) -> str:
    """Return the report of an audit as an HTML page."""
    takeovers = [one.seconds for one in picture.incidents if one.kind == "takeover" and one.seconds is not None]
    return render_page(
        "audit.html.j2",
        kind="Audit",
        word={"findings": "with findings"}.get(result.verdict, result.verdict),
        period=picture,
        result=result,
        picture=picture,
        headline=headline(result),
        longest_takeover=max(takeovers, default=None),
        incident_names=incident_names,
        incident_classes=dict.fromkeys(_GRAVE, "bad") | dict.fromkeys(("takeover", "demotion"), "change"),
        timeline=timeline_chart(picture),
        flow=flow_chart(picture),
        latency_histogram=latency_chart(picture),
        silences=silences_chart(picture),
    )


def timeline_chart(picture: Picture) -> Chart:
    """Return the states of hosts, pair by pair, with the incidents' numbers; below them the lines of all logs."""
    chart = Chart("Time line of the fleet", picture.began.timestamp(), picture.ended.timestamp())
    timed = [(at, n, one) for n, one in enumerate(picture.incidents, 1) if (at := one.began or one.ended) is not None]
    timed.sort(key=lambda entry: entry[:2])
    for pair, members in groupby(picture.hosts, key=lambda host: host.pair or host.host):
        hosts = {host.host: host.spans for host in members}
        incidents = [entry for entry in timed if entry[2].host in hosts]
        top = chart.begin_pair(pair)
        for host, spans in hosts.items():
            chart.add_name(chart.height + 10, short_name(host))
            lost = [at for at, _, one in incidents if one.kind == "takeover" and one.host != host]
            for span in until_takeovers(spans, lost):
                ended = f" to {time_text(span.ended)}" if span.ended else ""
                tooltip = f"{host}: {span.state} from {time_text(span.began)}{ended}"
                until = span.ended or picture.ended
                chart.add_bar(f"s-{span.state}", span.began.timestamp(), until.timestamp(), tooltip)
            chart.height += 18
        for at, number, one in incidents:
            tooltip = f"{number}: {one.kind.replace('_', ' ')} at {short_name(one.host)}"
            shaded_until = one.ended.timestamp() if one.ended and one.kind in _WITHOUT_ACTIVE else 0
            chart.add_mark("incident", at.timestamp(), str(number), tooltip, top, shaded_until)
        chart.height += 9
    _add_lines(chart, picture)
    return _with_axis(chart)


def _add_lines(chart: Chart, picture: Picture) -> None:
    """Add bars of all lines, of warnings and of errors; their height is a root, so that a few are seen too."""
    chart.add_name(chart.height + 10, "lines in logs", "warnings, errors")
    most = max((one.all for one in picture.lines), default=1)
    chart.height += 26
    for one in picture.lines:
        grave = f"{counted(one.warnings, 'warning')}, {counted(one.errors, 'error')}"
        tooltip = f"{time_text(one.began)}: {counted(one.all, 'line')}, {grave}"
        for kind, count in (("flow", one.all), ("warned", one.warnings + one.errors), ("silence", one.errors)):
            if count:
                _add_column(chart, kind, one.began, max(1.2, 26 * math.sqrt(count / most)), tooltip)
    chart.height += 4


def _add_column(chart: Chart, kind: str, began: datetime, height: float, tooltip: str) -> None:
    """Add a column as wide as a slice of time, above the chart's height."""
    width = (chart.right - chart.left) / BUCKETS
    chart.add_rectangle(kind, chart.position_of(began.timestamp()), chart.height - height, width, height, tooltip)


def _with_axis(chart: Chart) -> Chart:
    """Return the chart with an axis of times in UTC."""
    length = chart.ended - chart.began
    step = tick_step(length, 9)
    form = "%H:%M:%S" if step < 60 else "%H:%M" if length <= _DAY else "%d %b" if step >= _DAY else "%d %b %H:%M"
    ticks = range(math.ceil(chart.began / step) * step, math.floor(chart.ended) + 1, step)
    return chart.add_axis(
        [(at, time_text(at, form)) for at in ticks], f"UTC, from {time_text(chart.began, '%d %B %Y')}"
    )


def flow_chart(picture: Picture) -> Chart:
    """Return how many events were handled in each slice of time, and how long they took, in powers of ten."""
    chart = Chart("Events handled, and how long it took", picture.began.timestamp(), picture.ended.timestamp())
    most = max((one.handled for one in picture.slices), default=1)
    chart.add_name(20, "events handled", f"up to {most * BUCKETS / max(picture.seconds, 1e-6):,.0f} a second")
    chart.height = 78
    for one in picture.slices:
        tooltip = f"{time_text(one.began)}: {counted(one.handled, 'event')} handled"
        _add_column(chart, "flow", one.began, max(1.0, 70 * one.handled / most), tooltip)
    chart.add_name(116, "from accepted", "to handled")
    chart.height = 200
    _add_latencies(chart, [one for one in picture.slices if one.longest is not None])
    return _with_axis(chart)


def _add_latencies(chart: Chart, slices: Sequence[DeliverySlice]) -> None:
    """Add the medians and longest of slices above the chart's height, on a scale of powers of ten of milliseconds."""
    if not slices:
        none = "no event whose acceptance and handling are both known"
        chart.add_text(chart.left + 10, chart.height - 48, none, anchor="start")
        return
    highest = max(3, *(math.ceil(_power_of_ten(one.longest)) for one in slices))

    def y_of(seconds: float | None) -> float:
        return chart.height - 96 * min(1.0, _power_of_ten(seconds) / highest)

    for seconds in (10.0 ** (power - 3) for power in range(highest + 1)):
        chart.add_line("grid", chart.left, y_of(seconds), chart.right, y_of(seconds))
        chart.add_text(chart.left + 3, y_of(seconds) - 2, duration_text(seconds), anchor="start")
    for one in slices:
        x, median = chart.position_of(one.began.timestamp()), y_of(one.median)
        tooltip = f"{time_text(one.began)}: median {duration_text(one.median)}, longest {duration_text(one.longest)}"
        chart.add_line("stem", x, median, x, y_of(one.longest), tooltip)
        chart.add_shape("circle", "dot", cx=x, cy=median, r=1.9)


def _power_of_ten(seconds: float | None) -> float:
    """Return the logarithm of milliseconds; 0 for a millisecond and below."""
    return math.log10(max(1e-3, seconds or 0.0) * 1000)


def latency_chart(picture: Picture) -> Chart:
    """Return how many events took how long, by powers of two of milliseconds."""
    chart, counts = Chart("How long events took", 0, 1), picture.latency.counts
    chart.add_name(32, "how many events", "took how long")
    low, high, most = min(counts, default=0), max(counts, default=0), max(counts.values(), default=1)
    width = min(62.0, (chart.right - chart.left) / max(6, high - low + 1))
    base = 130.0
    for power in range(low, high + 2):
        count, x = counts.get(power, 0), chart.left + (power - low) * width
        chart.add_text(x, base + 15, _power_of_two(power))
        if count:
            height = max(1.5, 110 * count / most)
            tooltip = f"{counted(count, 'event')} took {_power_of_two(power)} to {_power_of_two(power + 1)}"
            chart.add_rectangle("s-active", x + 1, base - height, width - 2, height, tooltip)
            chart.add_text(x + width / 2, base - height - 4, f"{count:,}")
    chart.add_line("axis", chart.left, base, chart.right, base)
    chart.height = base + 24
    return chart


def _power_of_two(power: int) -> str:
    """Return about so many milliseconds: 1 s for 1.024 s."""
    return duration_text(float(f"{2.0**power / 1000:.2g}"))


def silences_chart(picture: Picture) -> Chart:
    """Return the longest times without an event handled, a row for each subscriber, with lines at take-overs."""
    chart = Chart("How long nothing was handled", picture.began.timestamp(), picture.ended.timestamp())
    by_subscriber: dict[str, list[Silence]] = {}
    for one in sorted(picture.silences, key=lambda one: -one.seconds):
        by_subscriber.setdefault(one.subscriber, []).append(one)
    for name in sorted(list(by_subscriber)[:12]):
        chart.add_name(chart.height + 10, name)
        for one in by_subscriber[name]:
            began, length = one.began.timestamp(), f"{one.seconds:.1f} s"
            tooltip = f"{one.subscriber}: nothing handled for {length} from {time_text(one.began)}"
            chart.add_bar("silence", began, began + one.seconds, tooltip)
            if one is by_subscriber[name][0]:  # the longest has its length beside it
                left, right = chart.position_of(began) - 5, chart.position_of(began + one.seconds) + 5
                fits = right < 915
                chart.add_text(right if fits else left, chart.height + 10, length, anchor="start" if fits else "end")
        chart.height += 22
    for takeover in (one for one in picture.incidents if one.kind == "takeover"):
        if at := takeover.began or takeover.ended:
            chart.add_line(
                "incident-line", chart.position_of(at.timestamp()), 6, chart.position_of(at.timestamp()), chart.height
            )
    return _with_axis(chart)
