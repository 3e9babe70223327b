"""The report of an audit: one HTML page that needs nothing else, light, dark or on paper. Pure.

Everything that comes from logs and journals is text here, and escaped: lines may be hostile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

from activemq_fleet.audit.charts import STATES, duration, flow, histogram, silences, timeline
from activemq_fleet.audit.evidence import label
from activemq_fleet.audit.picture import Picture, ShownBridge, ShownIncident
from activemq_fleet.audit.result import Result
from activemq_fleet.pages.html import legend, page, row, seconds, section, table, tiles
from activemq_fleet.printable import escape_html

_WORDS = {"clean": "clean", "findings": "with findings", "incomplete": "incomplete"}
_KINDS = {
    "takeover": "take-over",
    "demotion": "demotion",
    "failed_takeover": "failed take-over",
    "split_brain": "split brain",
    "flapping": "flapping",
    "store_error": "store error",
    "refused_credentials": "refusal of credentials",
    "duplicate_bridge": "double bridge",
    "failing_start": "failing start",
}
_VERDICTS = ("delivered", "duplicate", "stuck", "lost", "indeterminate")
_FROM = {
    "agent": "an agent's journal",
    "bridge": "a bridge's log",
    "log": "the brokers' logs",
    "unknown": "",
}
_BAD = frozenset({"split_brain", "failed_takeover", "store_error", "failing_start"})
_GAPS, _NOTES = 60, 20

STYLE = """\
.mark{stroke:var(--ink);stroke-width:1.1}.gap{fill:var(--silence);fill-opacity:.22}
text.mark-number{font-size:11px;font-weight:600}.warned{fill:var(--starting)}.stem{stroke:var(--dot);stroke-opacity:.45}
.incident{border:1px solid var(--line);border-left:4px solid var(--muted);border-radius:6px;padding:9px 14px;
margin:9px 0;break-inside:avoid}
.incident.bad{border-left-color:var(--bad)}.incident.change{border-left-color:var(--active)}
.incident h3{margin:0 0 3px;font-size:15px}.incident p{margin:3px 0;overflow-wrap:anywhere}
.incident .when{color:var(--muted);font-size:13px;font-variant-numeric:tabular-nums}
.incident .number{display:inline-block;min-width:21px;font-weight:600;color:var(--muted)}
.incident .took{float:right;font-weight:600;font-variant-numeric:tabular-nums}
code{font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:12px}
td{overflow-wrap:anywhere}.narrow table{width:auto;min-width:430px}
.tiles{grid-template-columns:repeat(auto-fit,minmax(106px,1fr))}
"""

_STRIPS = (("gap", "nobody active"), ("flow", "lines"), ("warned", "warnings"), ("silence", "errors"))


def html_report(result: Result, picture: Picture) -> str:
    """The whole page."""
    numbers = {one.id: number for number, one in enumerate(picture.incidents, 1)}
    title = f"Audit of {_moment(picture.began, '%d %B %Y')}: {_WORDS[result.verdict]}"
    body = [*_head(result, picture), *tiles(_tiles(result, picture))]
    if picture.hosts:
        body += section(
            "What the fleet did", _timeline_note(picture), timeline(picture, numbers), legend(STATES, _STRIPS)
        )
    body += section("Incidents", _incident_note(picture), *_incidents(picture, numbers))
    body += section("What became of every event", _verdict_note(result), *_verdicts(result, picture))
    if picture.slices:
        body += section("How long events took", _latency_note(picture), flow(picture), histogram(picture))
    if picture.silences:
        shown = silences(picture, [one for one in picture.incidents if one.kind == "takeover"])
        note = "The longest times in which a subscriber handled nothing, by its own clock; lines are take-overs."
        body += section("How long nothing was handled", note, shown)
    body += section("Bridges", _bridge_note(picture), *_bridges(picture))
    body += section("What was missing", "", *_missing(result))
    return page(title, body, style=STYLE)


def headline(result: Result, picture: Picture) -> str:
    """The outcome in one sentence."""
    counts = result.counts
    lost, stuck = counts.messages.get("lost", 0), counts.messages.get("stuck", 0)
    events = sum(counts.messages.values())
    parts = []
    if events:
        if lost:
            parts.append(f"{_many(lost, 'event')} of {events:,} lost")
        elif stuck:
            parts.append(f"no event known to be lost, {stuck:,} of {events:,} stuck")
        elif counts.messages.get("indeterminate"):
            parts.append(f"no event known to be lost; of {counts.messages['indeterminate']:,} it cannot be told")
        else:
            parts.append(f"none of {_many(events, 'event')} lost")
    said = [_many(count, _KINDS[kind]) for kind, count in counts.incidents.items() if kind in _KINDS and count]
    parts.append((", ".join(said) if said else "no incident") + _planned(counts.planned))
    sentence = "; ".join(parts)
    return sentence[0].upper() + sentence[1:]


def _head(result: Result, picture: Picture) -> Iterable[str]:
    began, ended = _moment(picture.began, "%d %B %Y, %H:%M:%S"), _moment(picture.ended, "%d %B %Y, %H:%M:%S")
    yield f'<header class="{result.verdict}">'
    badge = f'<span class="badge">{_WORDS[result.verdict]}</span>'
    yield f'<p class="kicker">Audit, {escape_html(began)} to {escape_html(ended)} UTC {badge}</p>'
    yield f"<h1>{escape_html(headline(result, picture))}</h1>"
    weighing = [gap for gap in result.gaps if gap.weighs]
    if weighing:
        first = "; ".join(f"{gap.host}: {gap.what}" for gap in weighing[:3])
        more = f"; and {len(weighing) - 3} more" if len(weighing) > 3 else ""
        yield f"<p>What was missing may hide more: {escape_html(first + more)}.</p>"
    yield "</header>"


def _planned(count: int) -> str:
    return f", {count:,} planned" if count else ""


def _tiles(result: Result, picture: Picture) -> list[tuple[str, str, str]]:
    messages = result.counts.messages
    took = [one.seconds for one in picture.incidents if one.kind == "takeover" and one.seconds is not None]
    lost, twice, stuck = (messages.get(verdict, 0) for verdict in ("lost", "duplicate", "stuck"))
    incidents, events = sum(result.counts.incidents.values()), sum(messages.values())
    found = [
        (f"{result.read.hosts:,}", f"hosts, {result.counts.events:,} records of {result.read.logs:,} log files", ""),
        (f"{incidents:,}", f"incident{'' if incidents == 1 else 's'}{_planned(result.counts.planned)}", ""),
        (seconds(max(took, default=None)), "longest take-over", ""),
    ]
    if events:
        found += [
            (f"{events:,}", "events accepted", ""),
            (f"{messages.get('delivered', 0):,}", "delivered", ""),
            (f"{lost:,}", "lost", "bad" if lost else "good"),
            (f"{stuck:,}", "stuck", "bad" if stuck else "good"),
            (f"{twice:,}", "handled twice", "bad" if twice else "good"),
        ]
    return found


def _timeline_note(picture: Picture) -> str:
    left = picture.hosts_left
    more = f" {left} more host{' is' if left == 1 else 's are'} not drawn; incidents go first." if left else ""
    return f"Numbers are incidents, as below. Where nothing is drawn, no log tells the state.{more}"


def _incident_note(picture: Picture) -> str:
    if not picture.incidents:
        return "None was found."
    left = picture.incidents_left
    return f"The gravest {len(picture.incidents)} are shown, {left:,} more are in the dataset." if left else ""


def _incidents(picture: Picture, numbers: dict[str, int]) -> Iterator[str]:
    for one in picture.incidents:
        yield f'<div class="incident {_colour(one)}" id="incident-{numbers[one.id]}">'
        took = f'<span class="took">{escape_html(seconds(one.seconds))}</span>' if one.seconds is not None else ""
        where = label(one.host) + (f", pair {one.pair}" if one.pair and one.pair != one.host else "")
        doubt = " (possible)" if one.certainty == "possible" else ""
        doubt += " (planned)" if one.planned else ""
        kind = escape_html(_KINDS.get(one.kind, one.kind))
        number = f'<span class="number">{numbers[one.id]}</span>'
        yield f"<h3>{took}{number}{kind}{doubt}: {escape_html(where)}</h3>"
        yield f'<p class="when">{escape_html(_when(one))}</p>'
        yield f"<p>{escape_html(one.cause)}</p>"
        yield f"<p><b>What to do.</b> {escape_html(one.remedy)}</p>"
        if one.rules:
            rules = ", ".join(
                f"<code>{escape_html(rule)}</code> (docs/rules.md#{escape_html(rule.lower())})" for rule in one.rules
            )
            yield f"<p><b>Rules of check that warn of it before.</b> {rules}</p>"
        yield "</div>"


def _colour(one: ShownIncident) -> str:
    """The class of an incident's box: one that was planned stands back."""
    if one.planned:
        return ""
    return "bad" if one.kind in _BAD else "change" if one.kind in ("takeover", "demotion") else ""


def _when(one: ShownIncident) -> str:
    ended = _moment(one.ended, "%d %b %H:%M:%S.%f")[:-3] if one.ended else "not known"
    if one.began is None:
        return f"until {ended} UTC; when it began is not known"
    began = _moment(one.began, "%d %b %H:%M:%S.%f")[:-3]
    source = _FROM.get(one.began_from, "")
    return f"{began} to {ended} UTC" + (f"; its beginning is from {source}" if source else "")


def _verdict_note(result: Result) -> str:
    if not result.counts.messages:
        return "There are no journals of agents, so nothing can be said of events."
    return (
        "Delivered: a subscriber has recorded that it handled it. Lost: acknowledged, and a later barrier came without "
        "it. Stuck: on its way when the journals end. Indeterminate: a journal that is needed is missing or has a gap, "
        "or nobody was expected to get it. Units are events at each subscriber that was to get them."
    )


def _verdicts(result: Result, picture: Picture) -> Iterator[str]:
    messages, units = result.counts.messages, result.counts.deliveries
    if not messages:
        return
    rows = [
        row(
            (verdict, f"{messages.get(verdict, 0):,}", f"{units.get(verdict, 0):,}"),
            ["", "n", "n"],
            "bad" if verdict in ("lost", "stuck") and messages.get(verdict) else "",
        )
        for verdict in _VERDICTS
    ]
    total = (f"{sum(messages.values()):,}", f"{sum(units.values()):,}")
    rows.append(row(("all", *total), ["", "n", "n"], "total"))
    yield f'<div class="narrow">{table(["verdict", "events", "units"], ["", "n", "n"], rows)}</div>'
    if picture.events:
        yield "<h3>The events themselves</h3>"
        kinds = ["id", "", "", ""]
        found = [
            row((one.event_id, one.topic or "", one.verdict, one.reason or ""), kinds, "") for one in picture.events
        ]
        yield table(["event", "topic", "verdict", "why"], ["", "", "", ""], found)
        more = sum(count for verdict, count in messages.items() if verdict != "delivered") - len(found)
        if more > 0:
            yield f'<p class="note">… and {more:,} more, in the dataset messages.</p>'


def _latency_note(picture: Picture) -> str:
    latency = picture.latency
    if latency.median is None:
        return ""
    note = (
        f"Accepted to handled: half within {duration(latency.median)}, 99 of 100 within {duration(latency.most)}, "
        f"the longest {duration(latency.longest)}. Dots are medians, lines go up to the longest. Acceptance is by the "
        "publisher's clock and handling by the subscriber's."
    )
    if latency.backwards:
        note += f" {_many(latency.backwards, 'event')} seem handled before they were accepted: the clocks differ."
    return note


def _bridge_note(picture: Picture) -> str:
    if not picture.bridges:
        return "No log tells of a bridge."
    left = " Healthier ones are in the dataset bridges." if picture.more_bridges else ""
    return f"By link; those that are not up at the end of the logs come first.{left}"


def _bridges(picture: Picture) -> Iterator[str]:
    if not picture.bridges:
        return
    head = ["host", "link", "peers", "", "up", "lost", "tried in vain", "longest away", "at the end"]
    kinds = ["", "", "", "", "n", "n", "n", "n", ""]
    yield table(head, kinds, [_bridge(one, kinds) for one in picture.bridges])


def _bridge(one: ShownBridge, kinds: Sequence[str]) -> str:
    end = one.state if one.state == "up" or not one.cause else f"{one.state}: {one.cause}"
    cells = (
        label(one.host),
        one.link or "–",
        ", ".join(one.peers),
        {"out": "dialled", "in": "was dialled"}.get(one.direction, one.direction),
        f"{one.times:,}",
        f"{one.broken:,}",
        f"{one.flaps:,}",
        seconds(one.longest_down),
        end,
    )
    return row(cells, kinds, "bad" if one.state == "failed" else "")


def _missing(result: Result) -> Iterator[str]:
    if not result.gaps:
        yield '<p class="note">Nothing: every log and journal that was there could be read to its end.</p>'
    else:
        kinds = ["", "", "n", "", ""]
        rows = [
            row(
                (gap.host, gap.file or "", "" if gap.line is None else f"{gap.line:,}", gap.what,
                 "yes" if gap.weighs else "no"),
                kinds,
                "bad" if gap.weighs else "",
            )
            for gap in sorted(result.gaps, key=lambda gap: not gap.weighs)[:_GAPS]
        ]  # fmt: skip
        yield table(["host", "file", "line", "what", "may hide something"], kinds, rows)
        if len(result.gaps) > _GAPS:
            yield f'<p class="note">… and {len(result.gaps) - _GAPS:,} more, in audit.json.</p>'
    if result.read.notes:
        notes = "".join(f"<li>{escape_html(note)}</li>" for note in result.read.notes[:_NOTES])
        more = f"<li>… and {len(result.read.notes) - _NOTES:,} more</li>" if len(result.read.notes) > _NOTES else ""
        yield f'<h3>What had to be assumed</h3><ul class="note">{notes}{more}</ul>'
    counts = result.counts
    read = result.read
    what = f"{read.logs:,} log files and {read.journals:,} journals of {read.hosts:,} hosts, {read.size / 1e6:,.1f} MB"
    known = f"Of {counts.events:,} records {counts.unknown:,} are of a kind that is not known"
    what += f", from {escape_html(read.root)}"
    yield f'<p class="note">Read: {what}. {known}, {counts.unread:,} could not be read.</p>'


def _many(count: int, what: str) -> str:
    plural = what if count == 1 else what.replace("refusal", "refusals") if "refusal" in what else f"{what}s"
    return f"{count:,} {plural}"


def _moment(at: datetime, form: str) -> str:
    return at.astimezone(UTC).strftime(form)
