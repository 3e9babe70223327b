"""The drawings of an audit's report: who was in which state when, what flowed, how long it took. SVG, as text."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby

from activemq_fleet.audit.evidence import label
from activemq_fleet.audit.picture import Picture, ShownHost, ShownIncident, Silence
from activemq_fleet.audit.state_spans import Span
from activemq_fleet.pages.svg import WIDTH, Scale, svg, text
from activemq_fleet.printable import counted, escape_html

_LEFT, _RIGHT = 178, 14
_ROW, _BAR, _HEAD, _APART, _STRIP = 18, 12, 18, 9, 26
_LABEL = 23  # characters of a host's name that have room
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_MOST_STEPS = 9
_DAY = 86400

STATES = (("active", "active"), ("standby", "stands by"), ("starting", "starting"), ("stopped", "stopped"))
"""State and its word in the legend; where nothing is drawn, nothing is known."""
NOBODY = frozenset({"takeover", "demotion", "failed_takeover"})
"""Incidents in which a pair has no active node."""


def timeline(picture: Picture, numbers: Mapping[str, int]) -> str:
    """Rows of hosts, pair by pair, with the incidents' numbers above; below all what the logs had to say."""
    scale = _scale(picture)
    parts: list[str] = []
    y = 6.0
    for pair, hosts in groupby(picture.hosts, key=lambda host: host.pair or host.host):
        mine = list(hosts)
        names = {host.host for host in mine}
        incidents = [one for one in picture.incidents if one.host in names]
        parts += _pair_rows(pair, mine, incidents, numbers, scale, picture, y)
        y += _HEAD + _ROW * len(mine) + _APART
    parts += _lines(picture, scale, y)
    bottom = y + _STRIP + 4
    return svg(bottom + 36, "Time line of the fleet", [*_time_axis(scale, 6.0, bottom), *parts])


def _scale(picture: Picture) -> Scale:
    began = picture.began.timestamp()
    return Scale(began, began + max(1.0, picture.seconds), _LEFT, WIDTH - _RIGHT)


def _pair_rows(
    pair: str,
    hosts: Sequence[ShownHost],
    incidents: Sequence[ShownIncident],
    numbers: Mapping[str, int],
    scale: Scale,
    picture: Picture,
    y: float,
) -> Iterator[str]:
    yield text(_LEFT - 10, y + 12, pair, "pair", anchor="end", most=_LABEL)
    marks = list(_marks(incidents, numbers, scale, y, y + _HEAD + _ROW * len(hosts)))
    y += _HEAD
    for host in hosts:
        yield text(_LEFT - 10, y + 10, label(host.host), "host", anchor="end", most=_LABEL)
        lost = [one.began or one.ended for one in incidents if one.kind == "takeover" and one.host != host.host]
        for span in _cut([*host.spans], [at for at in lost if at is not None]):
            yield _bar(span, scale, picture.ended, y)
        y += _ROW
    yield from marks


def _cut(spans: list[Span], lost: Sequence[datetime]) -> Iterator[Span]:
    """An active node that another took over from was active until then at most; its own log need not say so."""
    for span in spans:
        ends = [at for at in lost if span.began < at and (span.ended is None or at < span.ended)]
        if span.state == "active" and ends:
            yield Span(span.host, span.state, span.began, min(ends))
        else:
            yield span


def _bar(span: Span, scale: Scale, until: datetime, y: float) -> str:
    ended = span.ended or until
    x, end = scale(span.began.timestamp()), scale(ended.timestamp())
    title = f"{span.host}: {span.state} from {_clock(span.began)}" + (f" to {_clock(ended)}" if span.ended else "")
    return (
        f'<rect class="s-{span.state}" x="{x:.1f}" y="{y:.1f}" width="{max(0.8, end - x):.1f}" height="{_BAR}">'
        f"<title>{escape_html(title)}</title></rect>"
    )


def _marks(
    incidents: Sequence[ShownIncident], numbers: Mapping[str, int], scale: Scale, top: float, bottom: float
) -> Iterator[str]:
    """A line at each incident, and its number where there is room for it."""
    free = 0.0
    known = [(at, one) for one in incidents if (at := one.began or one.ended) is not None]
    for at, one in sorted(known, key=lambda pair: (pair[0], pair[1].id)):
        x, ended = scale(at.timestamp()), one.ended or at
        number = str(numbers[one.id])
        title = f"{number}: {one.kind.replace('_', ' ')} at {label(one.host)}"
        width = scale(ended.timestamp()) - x
        if width >= 1.5 and one.kind in NOBODY:
            yield (
                f'<rect class="gap" x="{x:.1f}" y="{top + 14:.1f}" width="{width:.1f}" '
                f'height="{bottom - top - 14:.1f}"><title>{escape_html(title)}</title></rect>'
            )
        yield (
            f'<line class="mark" x1="{x:.1f}" y1="{top + 14:.1f}" x2="{x:.1f}" y2="{bottom:.1f}">'
            f"<title>{escape_html(title)}</title></line>"
        )
        half = 3.4 * len(number) + 2
        if x - half >= free:
            yield text(x, top + 11, number, "mark-number", anchor="middle")
            free = x + half


def _lines(picture: Picture, scale: Scale, y: float) -> Iterator[str]:
    """How many lines the logs had, and of those warnings and errors: the height is a root, so that few show too."""
    yield text(_LEFT - 10, y + 12, "lines in logs", "small", anchor="end")
    yield text(_LEFT - 10, y + 24, "warnings, errors", "small", anchor="end")
    most = max((one.all for one in picture.lines), default=1)
    base, width = y + _STRIP, max(1.0, (scale.right - scale.left) / 240)
    for one in picture.lines:
        x = scale(one.began.timestamp())
        grave = f"{counted(one.warnings, 'warning')}, {counted(one.errors, 'error')}"
        title = f"{_clock(one.began)}: {counted(one.all, 'line')}, {grave}"
        for kind, count in (("flow", one.all), ("warned", one.warnings + one.errors), ("silence", one.errors)):
            if count:
                height = max(1.2, _STRIP * math.sqrt(count / most))
                yield (
                    f'<rect class="{kind}" x="{x:.1f}" y="{base - height:.1f}" width="{width:.1f}" '
                    f'height="{height:.1f}"><title>{escape_html(title)}</title></rect>'
                )


def _time_axis(scale: Scale, top: float, bottom: float) -> Iterator[str]:
    length = scale.ended - scale.began
    days = math.ceil(length / _DAY / _MOST_STEPS)
    step = next((step for step in _STEPS if length / step <= _MOST_STEPS), _DAY * days)
    form = "%H:%M:%S" if step < 60 else "%H:%M" if length <= _DAY else "%d %b" if step >= _DAY else "%d %b %H:%M"
    first = math.ceil(scale.began / step) * step
    for number in range(_MOST_STEPS + 2):
        moment = first + number * step
        if moment > scale.ended:
            break
        x = scale(moment)
        yield f'<line class="grid" x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}"/>'
        said = datetime.fromtimestamp(moment, UTC).strftime(form)
        yield text(x, bottom + 15, said, "small", anchor="middle")
    day = datetime.fromtimestamp(scale.began, UTC).strftime("%d %B %Y")
    yield text((_LEFT + WIDTH - _RIGHT) / 2, bottom + 31, f"UTC, from {day}", "small", "middle")


def flow(picture: Picture) -> str:
    """Events handled in each slice of time, and below, how long they took, on a scale of powers of ten."""
    scale, parts = _scale(picture), list[str]()
    top, height = 8.0, 70.0
    width = max(1.0, (scale.right - scale.left) / 240)
    most = max((one.handled for one in picture.slices), default=1)
    slice_seconds = picture.seconds / 240
    parts += _side(top + 12, "events handled", f"up to {most / max(slice_seconds, 1e-9):,.0f} a second")
    for one in picture.slices:
        tall = max(1.0, height * one.handled / most)
        x = scale(one.began.timestamp())
        title = f"{_clock(one.began)}: {counted(one.handled, 'event')} handled"
        parts.append(
            f'<rect class="flow" x="{x:.1f}" y="{top + height - tall:.1f}" width="{width:.1f}" height="{tall:.1f}">'
            f"<title>{escape_html(title)}</title></rect>"
        )
    top += height + 26
    parts += _latency_band(picture, scale, top, 96.0)
    bottom = top + 96.0
    return svg(bottom + 36, "Events handled, and how long it took", [*_time_axis(scale, 6.0, bottom), *parts])


def _side(y: float, name: str, note: str) -> list[str]:
    return [text(_LEFT - 10, y, name, "host", anchor="end"), text(_LEFT - 10, y + 14, note, "small", anchor="end")]


def _latency_band(picture: Picture, scale: Scale, top: float, height: float) -> Iterator[str]:
    yield from _side(top + 12, "from accepted", "to handled")
    known = [one for one in picture.slices if one.longest is not None]
    if not known:
        yield text(_LEFT + 10, top + height / 2, "no event whose acceptance and handling are both known", "small")
        return
    highest = max(3.0, *(math.ceil(math.log10(max(1e-3, one.longest or 0) * 1000)) for one in known))

    def level(seconds: float | None) -> float:
        power = math.log10(max(1e-3, seconds or 0.0) * 1000)
        return top + height - height * min(1.0, power / highest)

    for power in range(int(highest) + 1):
        y = level(10.0 ** (power - 3))
        yield f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{WIDTH - _RIGHT}" y2="{y:.1f}"/>'
        yield text(_LEFT + 3, y - 2, duration(10.0 ** (power - 3)), "small")
    for one in known:
        x, end = scale(one.began.timestamp()), level(one.longest)
        title = f"{_clock(one.began)}: median {duration(one.median)}, longest {duration(one.longest)}"
        yield (
            f'<line class="stem" x1="{x:.1f}" y1="{level(one.median):.1f}" x2="{x:.1f}" y2="{end:.1f}">'
            f"<title>{escape_html(title)}</title></line>"
        )
        yield f'<circle class="dot" cx="{x:.1f}" cy="{level(one.median):.1f}" r="1.9"/>'


def histogram(picture: Picture) -> str:
    """How many events took how long, by powers of two of milliseconds."""
    counts = picture.latency.counts
    low, high = min(counts, default=0), max(counts, default=0)
    bars = max(6, high - low + 1)
    left, right, height, top = _LEFT, WIDTH - _RIGHT, 110.0, 20.0
    width = min(62.0, (right - left) / bars)
    most = max(counts.values(), default=1)
    parts = _side(top + 12, "how many events", "took how long")
    for power in range(low, high + 1):
        count = counts.get(power, 0)
        x = left + (power - low) * width
        tall = 0.0 if not count else max(1.5, height * count / most)
        base = top + height
        parts.append(
            f'<rect class="s-active" x="{x + 1:.1f}" y="{base - tall:.1f}" width="{width - 2:.1f}" height="{tall:.1f}">'
            f"<title>{counted(count, 'event')} took {_power(power)} to {_power(power + 1)}</title></rect>"
        )
        if count:
            parts.append(text(x + width / 2, base - tall - 4, f"{count:,}", "small", anchor="middle"))
        parts.append(text(x, base + 15, _power(power), "small", anchor="middle"))
    parts.append(text(left + (high - low + 1) * width, top + height + 15, _power(high + 1), "small", anchor="middle"))
    parts.append(f'<line class="axis" x1="{left}" y1="{top + height}" x2="{right}" y2="{top + height}"/>')
    return svg(top + height + 24, "How long events took", parts)


def silences(picture: Picture, takeovers: Sequence[ShownIncident]) -> str:
    """The longest times without an event handled, a row for each subscriber, over time."""
    scale, parts = _scale(picture), list[str]()
    by: dict[str, list[Silence]] = {}
    for one in picture.silences:
        by.setdefault(one.subscriber, []).append(one)
    chosen = sorted(by, key=lambda name: -max(one.seconds for one in by[name]))[:12]
    y = 10.0
    bottom = y + 24 * len(chosen)
    for takeover in takeovers:
        at = takeover.began or takeover.ended
        if at is not None:
            x = scale(at.timestamp())
            parts.append(f'<line class="mark" x1="{x:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{bottom:.1f}"/>')
    for name in sorted(chosen):
        parts.append(text(_LEFT - 10, y + 13, name, "host", anchor="end", most=_LABEL))
        longest = max(by[name], key=lambda one: one.seconds)
        for one in by[name]:
            x, end = scale(one.began.timestamp()), scale(one.began.timestamp() + one.seconds)
            title = f"{one.subscriber}: nothing handled for {one.seconds:.1f} s from {_clock(one.began)}"
            parts.append(
                f'<rect class="silence" x="{x:.1f}" y="{y + 4:.1f}" width="{max(1.5, end - x):.1f}" height="10">'
                f"<title>{escape_html(title)}</title></rect>"
            )
        x = scale(longest.began.timestamp() + longest.seconds)
        end_of = x < WIDTH - 90
        parts.append(
            text(x + 5 if end_of else scale(longest.began.timestamp()) - 5, y + 13, f"{longest.seconds:.1f} s", "small",
                 "start" if end_of else "end")
        )  # fmt: skip
        y += 24
    return svg(bottom + 36, "How long nothing was handled", [*_time_axis(scale, 6.0, bottom), *parts])


def _power(power: int) -> str:
    """About a power of two of milliseconds: 1 s is 1.024."""
    return duration(float(f"{2.0**power / 1000:.2g}"))


def duration(seconds: float | None) -> str:
    """A duration in the unit that suits it."""
    if seconds is None:
        return "–"
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def _clock(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%d %b %H:%M:%S")
