"""Write the report of a drill as one HTML page without external files, for light and dark mode and for paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from statistics import median

from activemq_fleet.drills.charts import STATES, distribution, timeline
from activemq_fleet.drills.judging import headline, highest_chance
from activemq_fleet.drills.model import Account, DrillResult, Fault
from activemq_fleet.pages.html import legend, page, row, seconds, section, table, tiles
from activemq_fleet.printable import escape_html

_WORDS = {"clean": "clean", "findings": "did not pass", "incomplete": "incomplete", "void": "void"}
_FAULTS = {
    "kill": "killed (SIGKILL)",
    "pause": "frozen (SIGSTOP)",
    "stop": "stopped in good order",
}
_UNITS_SHOWN = 20

_STRIPS = (("flow", "events are handled"), ("silence", "none are"))


def html_report(result: DrillResult) -> str:
    """Return the report of a drill as an HTML page."""
    title = f"Drill of {_moment(result.began, '%d %B %Y')}: {_WORDS[result.verdict]}"
    return page(title, [
        *_head(result),
        *_tiles(result),
        *section("What the fleet did", _timeline_note(result), timeline(result), legend(STATES, _STRIPS)),
        *section("How long nothing came", "", distribution(result)),
        *section("Fault by fault", "", _fault_table(result.faults)),
        *section("What became of every event", _account_note(result), *_accounts(result)),
        *section("Conditions", "", _conditions(result)),
    ])  # fmt: skip


def _head(result: DrillResult) -> Iterable[str]:
    began, ended = _moment(result.began, "%d %B %Y, %H:%M:%S"), _moment(result.ended, "%H:%M:%S")
    yield f'<header class="{result.verdict}">'
    badge = f'<span class="badge">{_WORDS[result.verdict]}</span>'
    yield f'<p class="kicker">Drill, {escape_html(began)} to {ended} UTC {badge}</p>'
    yield f"<h1>{escape_html(headline(result))}</h1>"
    if result.reasons:
        yield "<ul>" + "".join(f"<li>{escape_html(reason)}</li>" for reason in result.reasons[:8]) + "</ul>"
    yield "</header>"


def _tiles(result: DrillResult) -> Iterable[str]:
    silences = [fault.silence for fault in result.counted if fault.silence is not None]
    takeovers = [fault.takeover for fault in result.counted if fault.takeover is not None]
    faults, lost, twice = len(result.counted), result.total("lost"), result.total("duplicate")
    entries = [
        (f"{faults}", f"fault{'' if faults == 1 else 's'}: {_FAULTS[result.conditions.what]}", ""),
        (f"{result.total('accepted'):,}", "events accepted", ""),
        (f"{result.total('handled'):,}", "handled", ""),
        (f"{lost:,}", "lost", "bad" if lost else "good"),
        (f"{twice:,}", "handled twice", "bad" if twice else "good"),
        (seconds(max(silences, default=None)), f"longest silence; median {_median(silences)}", ""),
        (seconds(max(takeovers, default=None)), f"longest take-over; median {_median(takeovers)}", ""),
    ]  # fmt: skip
    yield from tiles(entries)


def _timeline_note(result: DrillResult) -> str:
    void = sum(fault.void is not None for fault in result.faults)
    note = "Numbers are faults. Below each pair: when events were handled, and when none were."
    return note + (
        f" {void} fault{' is' if void == 1 else 's are'} in brackets: too little load, repeated." if void else ""
    )


def _fault_table(faults: Sequence[Fault]) -> str:
    head = (
        ("", "n"), ("time (UTC)", "h"), ("node", "h"), ("taken over by", "h"), ("take-over", "n"),
        ("no event handled", "n"), ("none acknowledged", "n"), ("stood by again", "n"), ("events/s before", "n"),
        ("in flight", "n"),
    )  # fmt: skip
    rows = []
    for fault in faults:
        cells = (
            str(fault.number),
            _moment(fault.at, "%H:%M:%S"),
            fault.host.partition(".")[0],
            (fault.successor or "nobody").partition(".")[0],
            seconds(fault.takeover),
            seconds(fault.silence),
            seconds(fault.publish_gap),
            seconds(fault.back),
            f"{min(fault.rate_accepted, fault.rate_handled):.0f}",
            str(fault.in_flight),
        )
        kind = "bad" if fault.problem else "void" if fault.void else ""
        rows.append(row(cells, [kind_ for _, kind_ in head], kind))
        said = fault.problem or (f"void, repeated: {fault.void}" if fault.void else fault.note)
        if said:
            rows.append(f'<tr class="{kind} said"><td></td><td colspan="9">{escape_html(said)}</td></tr>')
    return table([name for name, _ in head], [kind for _, kind in head], rows)


def _account_note(result: DrillResult) -> str:
    chance = highest_chance(len(result.counted))
    promise = (
        "Accepted: on the agent's disk before its caller got the id. Acknowledged: a broker said so. Handled: the "
        "subscriber has recorded it. Lost: acknowledged, and a later barrier came without it. Stuck: on its way when "
        "the drill ended. Counted from both agents' journals, record by record."
    )
    if result.verdict != "clean":
        return promise
    faults = f"No loss in {len(result.counted)} faults"
    return f"{promise} {faults} leaves, at 95 %, a loss at up to {100 * chance:.0f} % of them."


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
        row(
            (account.pair, account.protocol, *(f"{getattr(account, name):,}" for name in names)),
            kinds,
            "bad" if account.lost or account.stuck or account.duplicate else "",
        )
        for account in accounts
    ]
    if len(accounts) > 1:
        total = (f"{sum(getattr(account, name) for account in accounts):,}" for name in names)
        rows.append(row(("all", "", *total), kinds, "total"))
    return table(head, kinds, rows)


def _units(result: DrillResult) -> Iterable[str]:
    units = [(account.pair, unit) for account in result.accounts for unit in account.units]
    if not units:
        return
    rows = [row((pair, unit.event_id, unit.verdict, unit.reason), ["", "id", "", ""], "") for pair, unit in units]
    yield "<h3>The events themselves</h3>"
    yield table(["pair", "event", "verdict", "why"], ["", "", "", ""], rows[:_UNITS_SHOWN])
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
        ("Faults", f"{conditions.wanted}, each at the node that was active: {_FAULTS[conditions.what]}"),
        ("Load", f"{conditions.rate:g} events a second on each pair, from real agents{over}"),
        ("Seed", str(conditions.seed)),
        *((name.capitalize(), text) for name, text in conditions.machine.items()),
        *(("Note", note) for note in conditions.notes),
    ]  # fmt: skip
    return (
        "<dl>"
        + "".join(f"<dt>{escape_html(name)}</dt><dd>{escape_html(text)}</dd>" for name, text in entries)
        + "</dl>"
    )


def _median(values: Sequence[float]) -> str:
    return seconds(median(values) if values else None)


def _moment(at: float, form: str) -> str:
    return datetime.fromtimestamp(at, UTC).strftime(form)
