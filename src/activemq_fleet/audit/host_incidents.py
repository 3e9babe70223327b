"""Find the incidents of one host: lost locks, store errors, refused clients, duplicate and breaking bridges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise

from activemq_fleet.audit import advice
from activemq_fleet.audit.broker_runs import ObservedRun
from activemq_fleet.audit.evidence import Incident, LogEvidence, PairNode, incident_of, seconds_between, short_name
from activemq_fleet.audit.log_evidence import FAILED, FORWARDED, FRAME, REFUSED, STARTS_FAILED, STORE, TWICE
from activemq_fleet.audit.logged_bridges import Bridge, bridges_of, link_name

STARTS = 3
"""So many starts in a row that fail are an incident."""
MESSAGES = 3
"""So many refused messages within a while are an incident."""
STARTS_WITHIN = timedelta(minutes=10)
"""As long as no more than this is between one and the next."""
SOON = timedelta(seconds=30)
"""A start whose broker ends so soon after it was ready has failed: a bean after <broker> fails 2 to 4 s later."""
_STARTED = frozenset({"LIFE-STARTED", "LIFE-STARTED-OLD", "LOCK-FILE-WAIT", "LOCK-FILE-WAIT-OLD", "LOCK-DB-WAIT"})
_SILENT = "X-SILENT-END"
APART = timedelta(minutes=15)
"""Signs of one thing that are further apart than this are two incidents."""
_PEERS = ("NET-UP", "NET-UP-INTERRUPTED", "NET-DOWN")
"""Records of a bridge that name the broker at its other end."""
_NAMELESS = "Unknown"
"""What a bridge calls a broker that has not told its name yet."""
_ENDS_WITHIN = timedelta(seconds=10)
"""A bridge that is refused ends so soon after it."""
BREAKS = 5
"""A bridge that breaks so many times in a row, each time soon after it came up, is an incident."""
_BREAKS_WITHIN = timedelta(seconds=10)
"""A break that is no later than this after the bridge came up is soon."""
_BREAKS_APART = timedelta(minutes=5)
"""Breaks that are further apart than this are not in a row."""
_BROKEN = ("NET-LOCAL-ERR", "NET-REMOTE-ERR", "NET-DOWN")
_OPEN = datetime.max.replace(tzinfo=UTC)
"""The end of what has not ended."""
_NAMED = 6
"""Accounts that one incident names."""
_REFUSED = {
    "client": "a client with {} was refused {}",
    "bridge": "a bridge with {} was refused {}",
    "rights": "a bridge with {} was logged in and lacked rights {}",
}
_BEFORE = timedelta(minutes=2)
"""So long before a lost lock its reason may stand."""


def host_incidents(node: PairNode, seen: Sequence[LogEvidence], runs: Sequence[ObservedRun]) -> list[Incident]:
    """Return a host's demotions, failed starts, store errors, refusals and duplicate bridges as incidents."""
    ordered = sorted(seen, key=lambda one: (one.at, one.sequence))
    return [
        *_demotions(node, ordered, runs),
        *_failing_starts(node, sorted([*ordered, *_silent_ends(runs)], key=lambda one: (one.at, one.sequence))),
        *_store_errors(node, [one for one in ordered if one.kind == STORE]),
        *_failed_messages(node, [one for one in ordered if one.kind == FAILED]),
        *_refusals(
            node,
            [one for one in ordered if one.kind == REFUSED],
            [one for one in ordered if one.kind in _PEERS],
            tuple(sorted({term.name for term in runs if term.name})),
        ),
        *_double_bridges(node, ordered),
        *_breaking_bridges(node, ordered),
        *_refused_frames(node, [evidence for evidence in ordered if evidence.kind == FRAME]),
    ]


def _demotions(node: PairNode, seen: Sequence[LogEvidence], runs: Sequence[ObservedRun]) -> Iterator[Incident]:
    """An active node that lost its lock, until it stood by or was active again."""
    for index, term in enumerate(runs):
        if term.end != "lost_lock" or not term.is_active or term.ended is None:
            continue
        sign = _reason(seen, term.ended)
        what, advised = advice.LOST_LOCKS[sign.kind if sign else ""]
        began = min(sign.at, term.ended) if sign and sign.kind != "RLD-DEMOTED" else term.ended
        after = runs[index + 1] if index + 1 < len(runs) else None
        back = (after.waited or after.started) if after else None
        rules = advised.rules if back else tuple(dict.fromkeys((*advised.rules, "L021")))
        came = "stood by again" if back and after and after.waited else "was active again" if back else ""
        yield incident_of(
            "demotion",
            node,
            advised,
            began=began,
            ended=back or term.released or term.ended,
            seconds=seconds_between(began, back) if back else None,
            began_from="log",
            cause=f"{short_name(node.host)} was active and gave up, because {what}"
            + (f"; it {came}." if came else "; it did not come back by itself."),
            rules=rules,
            told=term.ended,
        )


def _reason(seen: Sequence[LogEvidence], lost: datetime) -> LogEvidence | None:
    """The last record before a lost lock that gives a reason."""
    reasons = [one for one in seen if one.kind in advice.LOST_LOCKS and lost - _BEFORE <= one.at <= lost]
    strong = [one for one in reasons if one.kind != "LOCK-KEEPALIVE-ERR"]
    return strong[-1] if strong else reasons[-1] if reasons else None


def _silent_ends(runs: Sequence[ObservedRun]) -> Iterator[LogEvidence]:
    """Yield evidence of each run that was active, ended soon after without a record, and was followed by another."""
    for run, following in pairwise(runs):
        begins = following.first or following.chosen
        if run.end == "silent" and run.started and begins and begins - run.started <= SOON:
            text = "its process ended soon after the start, without a record"
            yield LogEvidence(run.host, run.place, run.last or run.started, _SILENT, {}, text)


def _failing_starts(node: PairNode, seen: Sequence[LogEvidence]) -> Iterator[Incident]:
    """Yield series of starts that failed, at once or soon after the broker was ready.

    A start that came to serve, or to stand by, for longer than ``SOON`` ends a series.
    """
    failed: list[LogEvidence] = []
    ready: datetime | None = None
    for one in seen:
        if one.kind in _STARTED:
            ready = ready or one.at
        elif one.kind in STARTS_FAILED or one.kind == _SILENT:
            stayed = ready is not None and one.at - ready > SOON
            if failed and (stayed or one.at - failed[-1].at > STARTS_WITHIN):
                yield from _failing_start(node, failed)
                failed = []
            failed.append(one)
            ready = None
    yield from _failing_start(node, failed)


def _failing_start(node: PairNode, failed: Sequence[LogEvidence]) -> Iterator[Incident]:
    # One start may write a record of each kind.
    starts = max(Counter(one.kind for one in failed).values(), default=0)
    if starts >= STARTS:
        cause = f"{short_name(node.host)} was started {starts} times in vain: “{_quoted(failed[-1].text)}”"
        spell = [replace(one, fields={"what": "", "who": ""}) for one in failed]
        yield _of_spell(node, spell, "failing_start", cause, advice.FAILING_START)


def _spells(seen: Iterable[LogEvidence]) -> Iterator[list[LogEvidence]]:
    """Signs that follow each other closely."""
    spell: list[LogEvidence] = []
    for one in seen:
        if spell and one.at - max(last.until for last in spell) > APART:
            yield spell
            spell = []
        spell.append(one)
    if spell:
        yield spell


def _store_errors(node: PairNode, seen: Sequence[LogEvidence]) -> Iterator[Incident]:
    for spell in _spells(seen):
        found = {one.fields["what"] for one in spell}
        # The one that says most: a full disk is also a failed write, a missing file also a corrupt reference.
        what = next(what for what in ("full", "database", "missing", "corrupt", "write") if what in found)
        sentence, advised = advice.STORE_ERRORS[what]
        first = next(one for one in spell if one.fields["what"] == what)
        yield _of_spell(
            node, spell, "store_error", f"On {short_name(node.host)} {sentence}: “{_quoted(first.text)}”", advised
        )


def _failed_messages(node: PairNode, seen: Sequence[LogEvidence]) -> Iterator[Incident]:
    """Yield an incident for messages that the broker refused again and again, not for want of a right."""
    for spell in _spells(seen):
        count = sum(one.count for one in spell)
        if count >= MESSAGES:
            cause = f"{short_name(node.host)} refused messages {count} times: “{_quoted(spell[-1].text)}”"
            yield _of_spell(node, spell, "refused_messages", cause, advice.REFUSED_MESSAGES)


def _refusals(
    node: PairNode, seen: Sequence[LogEvidence], bridges: Sequence[LogEvidence], names: tuple[str, ...]
) -> Iterator[Incident]:
    """One for all that was refused in a while, whoever it was."""
    for spell in _spells(seen):
        kinds = {one.fields["what"] for one in spell}
        advised = (
            advice.REFUSED_RIGHTS
            if kinds == {"rights"}
            else advice.REFUSED_BRIDGE
            if kinds == {"bridge"}
            else advice.REFUSED_CLIENT
        )
        rules = (*advised.rules, *(advice.REFUSED_BRIDGE.rules if "bridge" in kinds and "client" in kinds else ()))
        cause = f"{short_name(node.host)}: {'; '.join(_refused(spell))}."
        incident = _of_spell(node, spell, "refused_credentials", cause, advice.Advice(advised.remedy, rules))
        peer = _peer(spell, bridges)
        yield replace(incident, mark="", peer=peer, names=() if peer else names)


def _refused(spell: Sequence[LogEvidence]) -> Iterator[str]:
    """In words, by what was refused and the account."""
    times: Counter[tuple[str, str]] = Counter()
    for one in spell:
        times[one.fields["what"], one.fields["who"]] += one.count
    for (what, name), count in sorted(times.items())[:_NAMED]:
        account = f"the account {name}" if name and name != "null" else "no account"
        often = "once" if count == 1 else f"{count} times"
        yield _REFUSED[what].format(account, often)
    if len(times) > _NAMED:
        yield f"and {len(times) - _NAMED} more accounts"


def _peer(spell: Sequence[LogEvidence], bridges: Sequence[LogEvidence]) -> str:
    """The broker that refused, where all of it is what this host's bridges were told.

    The record of the refusal does not name it. Those around it do; up to 5.7 a bridge may be refused so soon that
    only its end is told.
    """
    locals_ = {one.fields.get("local", "") for one in spell}
    if not all(locals_):
        return ""
    found = [one for one in bridges if one.kind != "NET-DOWN" and one.fields.get("local") in locals_]
    found += [one for one in (_end_after(sign, bridges) for sign in spell) if one]
    peers = {one.fields.get("peer", "") for one in found} - {_NAMELESS}
    return peers.pop() if len(peers) == 1 else ""


def _end_after(sign: LogEvidence, bridges: Sequence[LogEvidence]) -> LogEvidence | None:
    """The first end of a bridge behind its refusal."""
    ends = (one for one in bridges if one.kind == "NET-DOWN" and one.sequence > sign.sequence)
    return next((one for one in ends if one.at - sign.at <= _ENDS_WITHIN), None)


def _double_bridges(node: PairNode, seen: Sequence[LogEvidence]) -> Iterator[Incident]:
    """Two bridges for one client id, told twice, or once where the host is both ends of links of one name.

    Once alone it may be a bridge that came back before its old connection was given up.
    """
    own = {link_name(one.fields.get("connector", "")) for one in seen if one.kind == "NET-CONNECTOR-UP"}
    passive = {one.fields.get("duplexId", "").partition("@")[0] for one in seen if one.kind == "NET-DUPLEX-UP"}
    both = bool(own & passive)
    twice = [one for one in seen if one.kind == TWICE]
    told = False
    for client, mine in groupby(
        sorted(twice, key=lambda one: (one.fields["who"], one.at)), key=lambda o: o.fields["who"]
    ):
        for spell in _spells(mine):
            if sum(one.count for one in spell) < 2 and not both:
                continue
            told = True
            cause = (
                f"At {short_name(node.host)} a second bridge wanted to be {client[:80]} while the first was there: "
                "links from both ends, or two of one name. They end each other again and again."
            )
            yield _of_spell(node, spell, "duplicate_bridge", cause, advice.DUPLICATE_BRIDGE)
    if both and not told:
        yield from _both_ends(node, bridges_of(sorted(seen, key=lambda one: one.sequence)))


@dataclass(slots=True)
class _Breaks:
    """The breaks of the bridges to one broker in a row, each soon after the bridge came up."""

    peer: str
    breaks: list[LogEvidence] = field(default_factory=list)
    destinations: Counter[str] = field(default_factory=Counter)

    @property
    def error(self) -> str:
        """The error that most of the breaks have; empty where the log has none."""
        errors = Counter(one.fields["e"] for one in self.breaks if one.fields.get("e"))
        return errors.most_common(1)[0][0] if errors else ""


def _breaking_bridges(node: PairNode, seen: Sequence[LogEvidence]) -> Iterator[Incident]:
    """Yield an incident for each bridge that comes up and breaks again at once, many times in a row.

    A bridge that breaks because its login or its client id is refused has an incident of that kind.
    """
    refused = {one.fields["local"] for one in seen if one.kind in (REFUSED, TWICE) and "local" in one.fields}
    up: dict[str, LogEvidence] = {}
    series: dict[str, _Breaks] = {}
    for one in seen:
        if one.kind == "NET-UP":
            up[one.fields["local"]] = one
        elif one.kind == FORWARDED:
            for breaks in series.values():
                breaks.destinations[one.fields["destination"]] += 1
        elif one.kind in _BROKEN and (began := _broken_bridge(one, up)):
            peer = began.fields.get("peer", "")
            breaks = series.setdefault(peer, _Breaks(peer))
            if breaks.breaks and one.at - breaks.breaks[-1].at > _BREAKS_APART:
                yield from _breaking_bridge(node, breaks)
                breaks = series[peer] = _Breaks(peer)
            if one.at - began.at > _BREAKS_WITHIN:
                yield from _breaking_bridge(node, series.pop(peer))
            elif one.fields.get("local") not in refused:
                breaks.breaks.append(one)
    for breaks in series.values():
        yield from _breaking_bridge(node, breaks)


def _broken_bridge(ended: LogEvidence, up: dict[str, LogEvidence]) -> LogEvidence | None:
    """Remove and return the bridge in ``up`` that a record shows to be broken; NET-DOWN names the peer alone."""
    local = ended.fields.get("local")
    if local is None:
        peers = (name for name, began in up.items() if began.fields.get("peer") == ended.fields.get("peer"))
        local = next(peers, "")
    return up.pop(local, None)


def _breaking_bridge(node: PairNode, breaks: _Breaks) -> Iterator[Incident]:
    count = len(breaks.breaks)
    if count < BREAKS:
        return
    began, ended = breaks.breaks[0].at, breaks.breaks[-1].at
    minutes = max((ended - began).total_seconds() / 60, 1)
    destination = ""
    if breaks.destinations:
        names = ", ".join(name for name, _ in breaks.destinations.most_common(_NAMED))
        destination = f" Destinations of the messages that it forwarded meanwhile: {names}."
    error = f"“{_quoted(breaks.error)}”" if breaks.error else "no error in this log"
    is_frame = "MaxFrameSizeExceeded" in breaks.error or "larger than max allowed" in breaks.error
    yield incident_of(
        "breaking_bridge",
        node,
        advice.FRAMES if is_frame else advice.BREAKING_BRIDGE,
        began=began,
        ended=ended,
        seconds=seconds_between(began, ended),
        began_from="log",
        cause=f"The bridge from {short_name(node.host)} to {breaks.peer[:80]} broke {count} times "
        f"({count / minutes:.0f} times per minute), each time within {_BREAKS_WITHIN.seconds} s after it came up: "
        f"{error}.{destination}",
        told=began,
        mark=breaks.peer,
    )


def _refused_frames(node: PairNode, seen: Sequence[LogEvidence]) -> Iterator[Incident]:
    """Yield an incident for each address whose frames exceeded the limit of a connector many times."""
    by_address: dict[str, list[LogEvidence]] = {}
    for one in seen:
        by_address.setdefault(one.fields["who"], []).append(one)
    for address, signs in sorted(by_address.items()):
        for spell in _spells(signs):
            count = sum(one.count for one in spell)
            if count >= BREAKS:
                sender = f"{address} " if address else "a client or a bridge "
                cause = (
                    f"{short_name(node.host)} closed {count} connections because {sender}sent a frame that is larger "
                    f"than wireFormat.maxFrameSize of its connector: “{_quoted(spell[0].text)}”"
                )
                yield _of_spell(node, spell, "refused_frames", cause, advice.FRAMES)


def _both_ends(node: PairNode, bridges: Sequence[Bridge]) -> Iterator[Incident]:
    """A duplex link of one name from both ends of which nobody complains: up to 5.7 both may stay up."""
    links: dict[tuple[str, str], list[tuple[datetime, datetime, str]]] = {}
    for one in bridges:
        if one.link and one.peer and one.began:
            # One that a kill ended was up for nobody knows how long.
            ended = one.ended or (_OPEN if one.state == "up" else one.began)
            links.setdefault((one.link, one.peer), []).append((one.began, ended, one.direction))
    for (link, peer), mine in sorted(links.items()):
        both = list(_overlaps(sorted(mine)))
        if not both:
            continue
        began, last = both[0][0], max(end for _, end in both)
        yield incident_of(
            "duplicate_bridge",
            node,
            advice.DUPLICATE_BRIDGE,
            began=began,
            ended=None if last == _OPEN else last,
            seconds=None if last == _OPEN else seconds_between(began, last),
            began_from="log",
            cause=f"Between {short_name(node.host)} and {peer[:80]} two bridges of the link {link[:80]} were up at "
            "once, one from each end: what is sent on may come twice.",
            told=began,
            mark=f"{link} {peer}",
        )


def _overlaps(mine: Iterable[tuple[datetime, datetime, str]]) -> Iterator[tuple[datetime, datetime]]:
    """While bridges of both directions were up; ``mine`` (began, ended, direction) is in the order of begins."""
    until: dict[str, datetime] = {}
    for began, ended, direction in mine:
        for other, end in until.items():
            if other != direction and end > began:
                yield began, min(end, ended)
        until[direction] = max(ended, until.get(direction, ended))


def _of_spell(
    node: PairNode, spell: Sequence[LogEvidence], kind: advice.IncidentKind, cause: str, advised: advice.Advice
) -> Incident:
    began, ended = spell[0].at, max(one.until for one in spell)
    return incident_of(
        kind,
        node,
        advised,
        began=began,
        ended=ended,
        seconds=seconds_between(began, ended),
        began_from="log",
        cause=cause,
        told=began,
        mark=spell[0].fields["what"] + (f" {who}" if (who := spell[0].fields["who"]) else ""),
    )


def _quoted(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:199]}…"
