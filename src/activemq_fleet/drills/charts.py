"""Draw the two charts of a drill report as SVG: the brokers' states over time, and the gaps in traffic."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median

from activemq_fleet.drills.model import DrillResult, Fault, Span
from activemq_fleet.pages.svg import WIDTH, Scale, svg, text
from activemq_fleet.printable import escape_html

_LEFT, _RIGHT = 168, 14
_ROW, _BAR, _STRIP, _HEAD, _APART = 19, 13, 8, 17, 12
_LABEL = 22  # characters of a host's name that have room
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400)
_DOT = 4.5

STATES = (
    ("active", "active"),
    ("standby", "standby"),
    ("starting", "starting"),
    ("hung", "frozen"),
    ("stopped", "down"),
)
"""State and its word in the legend; of anything else nothing is drawn."""


def timeline(result: DrillResult) -> str:
    """Return the time line as SVG: a row for each host, pair by pair, and a strip of events below each pair."""
    scale = Scale(result.began, max(result.ended, result.began + 1), _LEFT, WIDTH - _RIGHT)
    parts: list[str] = []
    y = 6.0
    for pair, spans in _by_pair(result):
        faults = [fault for fault in result.faults if fault.pair == pair]
        parts += _pair_rows(pair, spans, faults, scale, y)
        y += _HEAD + _ROW * len(spans) + _STRIP + 10 + _APART
    bottom = y - _APART + 4
    axis = list(_time_axis(scale, 6.0, bottom))
    return svg(bottom + 36, "Time line of the fleet", [*axis, *parts])


def _by_pair(result: DrillResult) -> Iterator[tuple[str, list[list[Span]]]]:
    hosts = [list(spans) for _, spans in groupby(result.spans, key=lambda span: span.host)]
    for account in result.accounts:
        mine = [spans for spans in hosts if spans[0].pair == account.pair]
        if mine:
            yield account.pair, mine


def _pair_rows(
    pair: str, hosts: Sequence[Sequence[Span]], faults: Sequence[Fault], scale: Scale, y: float
) -> Iterator[str]:
    yield text(_LEFT - 10, y + 12, pair, "pair", anchor="end", most=_LABEL)
    yield from _fault_marks(faults, scale, y, y + _HEAD + _ROW * len(hosts) + _STRIP + 6)
    y += _HEAD
    for spans in hosts:
        yield text(_LEFT - 10, y + 11, spans[0].host.partition(".")[0], "host", anchor="end", most=_LABEL)
        for span in spans:
            yield _bar(span, scale, y)
        y += _ROW
    yield text(_LEFT - 10, y + _STRIP + 1, "events", "small", anchor="end")
    length = scale.right - scale.left
    yield f'<rect class="flow" x="{scale.left}" y="{y + 1:.1f}" width="{length}" height="{_STRIP}"/>'
    for fault in faults:
        if fault.silence and fault.silent_from is not None:
            x, end = scale(fault.silent_from), scale(fault.silent_from + fault.silence)
            title = f"fault {fault.number}: no event handled for {fault.silence:.1f} s"
            yield (
                f'<rect class="silence" x="{x:.1f}" y="{y + 1:.1f}" width="{max(1.5, end - x):.1f}" height="{_STRIP}">'
                f"<title>{escape_html(title)}</title></rect>"
            )


def _bar(span: Span, scale: Scale, y: float) -> str:
    if span.state == "unknown":
        return ""
    x, end = scale(span.began), scale(span.ended)
    title = f"{span.host}: {span.state} for {span.ended - span.began:.1f} s"
    return (
        f'<rect class="s-{span.state}" x="{x:.1f}" y="{y:.1f}" width="{max(0.8, end - x):.1f}" height="{_BAR}">'
        f"<title>{escape_html(title)}</title></rect>"
    )


def _fault_marks(faults: Sequence[Fault], scale: Scale, top: float, bottom: float) -> Iterator[str]:
    """Yield a line at each fault, and its number where it has room."""
    free = 0.0
    for fault in faults:
        x = scale(fault.at)
        kind = "void" if fault.void else "fault"
        title = f"fault {fault.number}: {fault.what} {fault.host}" + (f", void: {fault.void}" if fault.void else "")
        yield (
            f'<line class="{kind}-line" x1="{x:.1f}" y1="{top + 14:.1f}" x2="{x:.1f}" y2="{bottom:.1f}">'
            f"<title>{escape_html(title)}</title></line>"
        )
        label = f"({fault.number})" if fault.void else str(fault.number)
        half = 3.6 * len(label) + 2
        if x - half >= free:
            yield text(x, top + 11, label, f"{kind}-number", anchor="middle")
            free = x + half


def _time_axis(scale: Scale, top: float, bottom: float) -> Iterator[str]:
    length = scale.ended - scale.began
    step = next((step for step in _STEPS if length / step <= 11), _STEPS[-1])
    for number in range(int(length // step) + 1):
        x = scale(scale.began + number * step)
        yield f'<line class="grid" x1="{x:.1f}" y1="{top:.1f}" x2="{x:.1f}" y2="{bottom:.1f}"/>'
        yield text(x, bottom + 15, f"{number * step // 60}:{number * step % 60:02}", "small", anchor="middle")
    yield text(
        (_LEFT + WIDTH - _RIGHT) / 2, bottom + 31, "minutes and seconds since the drill began", "small", "middle"
    )


def distribution(result: DrillResult) -> str:
    """Return a chart as SVG: a dot a fault on a scale of seconds, a row for each measure, with median and longest."""
    rows = [
        ("until the other node was started", "by the brokers' logs", [b.takeover for b in result.counted]),
        ("no event handled", "by the subscribers' journals", [b.silence for b in result.counted]),
        ("no event acknowledged", "by the publishers' journals", [b.publish_gap for b in result.counted]),
    ]
    known = [(name, source, sorted(v for v in values if v is not None)) for name, source, values in rows]
    longest = max((values[-1] for _, _, values in known if values), default=1.0)
    step = next((step for step in (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300) if longest / step <= 10), 600)
    most = (int(longest / step) + 1) * step
    left, right = 232, 170
    scale = Scale(0.0, most, left, WIDTH - right)
    parts, y = list[str](), 8.0
    for name, source, values in known:
        places, height = _stack(values, scale)
        base = y + height
        parts += [text(left - 16, base - 14, name, "host", "end"), text(left - 16, base, source, "small", "end")]
        parts.append(f'<line class="axis" x1="{left}" y1="{base + 3:.1f}" x2="{WIDTH - right}" y2="{base + 3:.1f}"/>')
        parts += [f'<circle class="dot" cx="{x:.1f}" cy="{base - 3 - up:.1f}" r="{_DOT - 0.5}"/>' for x, up in places]
        if values:
            x = scale(median(values))
            parts.append(f'<line class="median" x1="{x:.1f}" y1="{base - 26:.1f}" x2="{x:.1f}" y2="{base + 8:.1f}"/>')
            parts.append(text(WIDTH - right + 20, base - 14, f"median {median(values):.1f} s", "host"))
            parts.append(text(WIDTH - right + 20, base, f"longest {values[-1]:.1f} s", "host"))
        else:
            parts.append(text(WIDTH - right + 20, base, "not measured", "small"))
        y = base + 22
    bottom = y - 8
    return svg(bottom + 38, "How long nothing came", [*_seconds_axis(scale, step, bottom), *parts])


def _seconds_axis(scale: Scale, step: float, bottom: float) -> Iterator[str]:
    for number in range(round(scale.ended / step) + 1):
        x = scale(number * step)
        yield f'<line class="grid" x1="{x:.1f}" y1="6" x2="{x:.1f}" y2="{bottom:.1f}"/>'
        yield text(x, bottom + 15, f"{number * step:g}", "small", anchor="middle")
    yield text(
        (scale.left + scale.right) / 2,
        bottom + 32,
        "seconds after the fault; a dot is a fault, the line is the median",
        "small",
        "middle",
    )


def _stack(values: Sequence[float], scale: Scale) -> tuple[list[tuple[float, float]], float]:
    """Return the positions of dots, stacked where they would overlap, and the height they need."""
    columns: dict[int, int] = {}
    places = []
    for value in values:
        column = int(scale(value) / (2 * _DOT))
        count = columns[column] = columns.get(column, 0) + 1
        places.append(((column + 0.5) * 2 * _DOT, (count - 1) * 2 * _DOT))
    return places, max(34.0, max(columns.values(), default=0) * 2 * _DOT + 6)
