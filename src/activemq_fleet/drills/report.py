"""The report of a drill: one HTML page that needs nothing else, light, dark or on paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from statistics import median

from activemq_fleet.drills.charts import PATTERNS, STATES, distribution, timeline
from activemq_fleet.drills.judging import headline, highest_chance
from activemq_fleet.drills.model import Account, Blow, DrillResult
from activemq_fleet.drills.style import STYLE

_WORDS = {"clean": "clean", "findings": "did not pass", "incomplete": "incomplete", "void": "void"}
_BLOWS = {
    "kill": "killed (SIGKILL)",
    "pause": "frozen (SIGSTOP)",
    "stop": "stopped in good order",
}
_UNITS_SHOWN = 20


def html_report(result: DrillResult) -> str:
    """The whole page."""
    title = f"Drill of {_moment(result.began, '%d %B %Y')}: {_WORDS[result.verdict]}"
    return "\n".join([
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>",
        PATTERNS,
        *_head(result),
        *_tiles(result),
        *_section("What the fleet did", _timeline_note(result), timeline(result), _legend()),
        *_section("How long nothing came", "", distribution(result)),
        *_section("Blow by blow", "", _blow_table(result.blows)),
        *_section("What became of every event", _account_note(result), *_accounts(result)),
        *_section("Conditions", "", _conditions(result)),
        "</main>\n</body>\n</html>\n",
    ])  # fmt: skip


def _head(result: DrillResult) -> Iterable[str]:
    began, ended = _moment(result.began, "%d %B %Y, %H:%M:%S"), _moment(result.ended, "%H:%M:%S")
    yield f'<header class="{result.verdict}">'
    badge = f'<span class="badge">{_WORDS[result.verdict]}</span>'
    yield f'<p class="kicker">Drill, {escape(began)} to {ended} UTC {badge}</p>'
    yield f"<h1>{escape(headline(result))}</h1>"
    if result.reasons:
        yield "<ul>" + "".join(f"<li>{escape(reason)}</li>" for reason in result.reasons[:8]) + "</ul>"
    yield "</header>"


def _tiles(result: DrillResult) -> Iterable[str]:
    silences = [blow.silence for blow in result.counted if blow.silence is not None]
    takeovers = [blow.takeover for blow in result.counted if blow.takeover is not None]
    blows, lost, twice = len(result.counted), result.total("lost"), result.total("duplicate")
    tiles = [
        (f"{blows}", f"blow{'' if blows == 1 else 's'}: {_BLOWS[result.conditions.what]}", ""),
        (f"{result.total('accepted'):,}", "events accepted", ""),
        (f"{result.total('handled'):,}", "handled", ""),
        (f"{lost:,}", "lost", "bad" if lost else "good"),
        (f"{twice:,}", "handled twice", "bad" if twice else "good"),
        (_seconds(max(silences, default=None)), f"longest silence; median {_median(silences)}", ""),
        (_seconds(max(takeovers, default=None)), f"longest take-over; median {_median(takeovers)}", ""),
    ]  # fmt: skip
    yield '<div class="tiles">'
    yield from (
        f'<div class="tile {kind}"><b>{escape(value)}</b><span>{escape(label)}</span></div>'
        for value, label, kind in tiles
    )
    yield "</div>"


def _section(title: str, note: str, *content: str) -> Iterable[str]:
    yield f"<section>\n<h2>{escape(title)}</h2>"
    if note:
        yield f'<p class="note">{escape(note)}</p>'
    yield from content
    yield "</section>"


def _timeline_note(result: DrillResult) -> str:
    void = sum(blow.void is not None for blow in result.blows)
    note = "Numbers are blows. Below each pair: when events were handled, and when none were."
    return note + (
        f" {void} blow{' is' if void == 1 else 's are'} in brackets: too little load, repeated." if void else ""
    )


def _legend() -> str:
    states = "".join(
        f'<span><svg viewBox="0 0 26 13" width="26" height="13"><rect class="s-{state}" x="0.5" y="0.5" width="25" '
        f'height="12"/></svg>{word}</span>'
        for state, word in STATES
    )
    strips = "".join(
        f'<span><svg viewBox="0 0 26 13" width="26" height="13"><rect class="{kind}" y="3" width="26" '
        f'height="8"/></svg>{word}</span>'
        for kind, word in (("flow", "events are handled"), ("silence", "none are"))
    )
    return f'<p class="legend">{states}{strips}</p>'


def _blow_table(blows: Sequence[Blow]) -> str:
    head = (
        ("", "n"), ("time (UTC)", "h"), ("node struck", "h"), ("taken over by", "h"), ("take-over", "n"),
        ("no event handled", "n"), ("none acknowledged", "n"), ("stood by again", "n"), ("events/s before", "n"),
        ("in flight", "n"),
    )  # fmt: skip
    rows = []
    for blow in blows:
        cells = (
            str(blow.number),
            _moment(blow.at, "%H:%M:%S"),
            blow.host.partition(".")[0],
            (blow.successor or "nobody").partition(".")[0],
            _seconds(blow.takeover),
            _seconds(blow.silence),
            _seconds(blow.publish_gap),
            _seconds(blow.back),
            f"{min(blow.rate_accepted, blow.rate_handled):.0f}",
            str(blow.in_flight),
        )
        kind = "bad" if blow.problem else "void" if blow.void else ""
        rows.append(_row(cells, [kind_ for _, kind_ in head], kind))
        said = blow.problem or (f"void, repeated: {blow.void}" if blow.void else blow.note)
        if said:
            rows.append(f'<tr class="{kind} said"><td></td><td colspan="9">{escape(said)}</td></tr>')
    return _table([name for name, _ in head], [kind for _, kind in head], rows)


def _account_note(result: DrillResult) -> str:
    chance = highest_chance(len(result.counted))
    promise = (
        "Accepted: on the agent's disk before its caller got the id. Acknowledged: a broker said so. Handled: the "
        "subscriber has recorded it. Lost: acknowledged, and a later barrier came without it. Stuck: on its way when "
        "the drill ended. Counted from both agents' journals, record by record."
    )
    if result.verdict != "clean":
        return promise
    blows = f"No loss in {len(result.counted)} blows"
    return f"{promise} {blows} leaves, at 95 %, a loss at up to {100 * chance:.0f} % of them."


def _accounts(result: DrillResult) -> Iterable[str]:
    yield _account_table(result.accounts)
    yield from _units(result)


def _account_table(accounts: Sequence[Account]) -> str:
    names = ("accepted", "acknowledged", "handled", "lost", "stuck", "duplicate", "indeterminate", "copies")
    head = [
        "pair",
        "over",
        *("handled twice" if n == "duplicate" else "copies dropped" if n == "copies" else n for n in names),
    ]
    kinds = ["", "", *["n"] * len(names)]
    rows = [
        _row(
            (account.pair, account.protocol, *(f"{getattr(account, name):,}" for name in names)),
            kinds,
            "bad" if account.lost or account.stuck or account.duplicate else "",
        )
        for account in accounts
    ]
    if len(accounts) > 1:
        total = (f"{sum(getattr(account, name) for account in accounts):,}" for name in names)
        rows.append(_row(("all", "", *total), kinds, "total"))
    return _table(head, kinds, rows)


def _units(result: DrillResult) -> Iterable[str]:
    units = [(account.pair, unit) for account in result.accounts for unit in account.units]
    if not units:
        return
    rows = [_row((pair, unit.event_id, unit.verdict, unit.reason), ["", "id", "", ""], "") for pair, unit in units]
    yield "<h3>The events themselves</h3>"
    yield _table(["pair", "event", "verdict", "why"], ["", "", "", ""], rows[:_UNITS_SHOWN])
    if len(rows) > _UNITS_SHOWN:
        more = len(rows) - _UNITS_SHOWN
        yield f'<p class="note">… and {more} more; the JSON of the drill names up to a hundred a pair.</p>'


def _conditions(result: DrillResult) -> str:
    conditions = result.conditions
    where = "the lab: real brokers on loopback addresses" if conditions.where == "lab" else "the hosts of the inventory"
    pairs = ", ".join(
        f"{pair} ({release}{', ' + conditions.profiles[pair] if pair in conditions.profiles else ''})"
        for pair, release in conditions.releases.items()
    )
    over = "; over STOMP where a release has no usable MQTT" if "STOMP" in conditions.protocols.values() else ""
    entries = [
        ("Where", where),
        ("Target", conditions.target),
        ("Pairs", pairs),
        ("Blows", f"{conditions.wanted}, each at the node that was active: {_BLOWS[conditions.what]}"),
        ("Load", f"{conditions.rate:g} events a second on each pair, from real agents{over}"),
        ("Seed", str(conditions.seed)),
        *((name.capitalize(), text) for name, text in conditions.machine.items()),
        *(("Note", note) for note in conditions.notes),
    ]  # fmt: skip
    return "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in entries) + "</dl>"


def _table(head: Sequence[str], kinds: Sequence[str], rows: Iterable[str]) -> str:
    cells = "".join(f'<th class="{kind}">{escape(name)}</th>' for name, kind in zip(head, kinds, strict=True))
    return (
        f'<div class="wide"><table>\n<thead><tr>{cells}</tr></thead>\n<tbody>\n'
        + "\n".join(rows)
        + "\n</tbody></table></div>"
    )


def _row(cells: Sequence[str], kinds: Sequence[str], kind: str) -> str:
    inside = "".join(f'<td class="{of}">{escape(cell)}</td>' for cell, of in zip(cells, kinds, strict=True))
    return f'<tr class="{kind}">{inside}</tr>'


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} s"


def _median(values: Sequence[float]) -> str:
    return _seconds(median(values) if values else None)


def _moment(at: float, form: str) -> str:
    return datetime.fromtimestamp(at, UTC).strftime(form)
