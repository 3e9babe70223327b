"""Find the incidents of one host in the runs and bridges that its log shows.

The module ``log_record_incidents`` finds incidents that consist of many similar records.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import groupby, pairwise

from activemq_fleet.audit import advice
from activemq_fleet.audit.broker_runs import ObservedBrokerRun
from activemq_fleet.audit.evidence import (
    Incident,
    LogRecordEvidence,
    PairNode,
    new_incident,
    seconds_between,
    short_name,
)
from activemq_fleet.audit.log_evidence import FORWARDED, LOCKS
from activemq_fleet.audit.log_record_incidents import (
    SHOWN_NAMES,
    incident_of_series,
    repeated_record_incidents,
    shorten_text,
    split_evidence_at_time_gaps,
)
from activemq_fleet.audit.logged_bridges import LoggedBridge, bridges_from_log_evidence, link_name_of_connector
from activemq_fleet.audit.process_ends import describe_process_end
from activemq_fleet.audit.record_signs import FRAME, REFUSED, STARTS_FAILED, STORE, TWICE
from activemq_fleet.node.log.bridge_breaks import BREAK_AFTER_START, is_frame_size_error

CRASHES = 3
"""Number of consecutive runs without a record of their end from which they are an incident."""
CRASHES_WITHIN = timedelta(days=1)
"""Longest time between the ends of two runs of one such series."""
SLOW_START = 60.0
"""Seconds between acquiring the lock and becoming active from which a start counts as slow."""
STARTS_WITHIN = timedelta(minutes=10)
"""Longest time between two failed starts of one series."""
SOON = timedelta(seconds=30)
"""Time after readiness within which the end of a broker is a failed start; a bean after <broker> fails in 2 to 4 s."""
_STARTED = frozenset({"LIFE-STARTED", "LIFE-STARTED-OLD", "LOCK-FILE-WAIT", "LOCK-FILE-WAIT-OLD", "LOCK-DB-WAIT"})
_SILENT_END = "X-SILENT-END"
_PEER_RECORDS = ("NET-UP", "NET-UP-INTERRUPTED", "NET-DOWN")
"""Records of a bridge that name the broker at its other end."""
_UNKNOWN_BROKER = "Unknown"
"""The name that a bridge logs for a broker whose name it has not received yet."""
_END_AFTER_REFUSAL = timedelta(seconds=10)
"""The longest time between the refusal of a bridge and its end."""
MIN_BREAKS_OF_AUDIT = 5
"""Number of consecutive breaks of a bridge, each soon after it connected, from which they are an incident. A status
reports a bridge after fewer breaks (``MIN_BREAKS_OF_STATUS``), but only while it breaks; an incident remains."""
_MINIMUM_REFUSED_FRAMES = 5
"""The number of frames of one address, refused in a series, that make an incident."""
_BREAK_AFTER_START = timedelta(seconds=BREAK_AFTER_START)
"""A break that is no later than this after the bridge came up is soon."""
_MAXIMUM_TIME_BETWEEN_BREAKS = timedelta(minutes=5)
"""Breaks that are further apart than this are not in a row."""
REFUSALS = ("SecurityException", "already connected")
"""Errors of a bridge that are reported as separate incidents."""
_BREAK_RECORDS = ("NET-LOCAL-ERR", "NET-REMOTE-ERR", "NET-DOWN")
_STILL_UP = datetime.max.replace(tzinfo=UTC)
"""The end of a bridge that is still up."""
_REFUSAL_PHRASES = {
    "client": "the broker refused a client with {account} {times}",
    "bridge": "the broker refused a bridge with {account} {times}",
    "rights": "a bridge with {account} was authenticated but lacked rights {times}",
}
_REASON_BEFORE_LOSS = timedelta(minutes=2)
"""The longest time between the record of the reason and the lost lock."""


def host_incidents(
    node: PairNode, evidence: Sequence[LogRecordEvidence], runs: Sequence[ObservedBrokerRun]
) -> list[Incident]:
    """Return the incidents of one broker host that its log and its broker's runs show.

    The kinds are demotions, failed starts, store errors, refusals and duplicate bridges.
    """
    ordered = sorted(evidence, key=lambda record: (record.at, record.sequence))
    return [
        *_demotions(node, ordered, runs),
        *_failing_starts(
            node, sorted([*ordered, *_silent_ends(runs)], key=lambda record: (record.at, record.sequence)), runs
        ),
        *_crashes(node, runs),
        *_slow_starts(node, runs),
        *_store_error_incidents(node, [record for record in ordered if record.kind == STORE]),
        *_lock_errors(node, [record for record in ordered if record.kind in LOCKS], runs),
        *repeated_record_incidents(node, ordered),
        *_refusals(
            node,
            [record for record in ordered if record.kind == REFUSED],
            [record for record in ordered if record.kind in _PEER_RECORDS],
            tuple(sorted({run.name for run in runs if run.name})),
        ),
        *_duplicate_bridges(node, ordered),
        *_breaking_bridges(node, ordered),
        *_refused_frames(node, [record for record in ordered if record.kind == FRAME]),
    ]


def _demotions(
    node: PairNode, evidence: Sequence[LogRecordEvidence], runs: Sequence[ObservedBrokerRun]
) -> Iterator[Incident]:
    """Yield an incident for each lock that a broker lost, until its node is a standby or active again."""
    for index, run in enumerate(runs):
        if run.end != "lost_lock" or not run.was_active or run.ended is None:
            continue
        record = _lost_lock_reason(evidence, run.ended)
        reason, advised = advice.LOST_LOCKS[record.kind if record else ""]
        began = min(record.at, run.ended) if record and record.kind != "RLD-DEMOTED" else run.ended
        next_run = runs[index + 1] if index + 1 < len(runs) else None
        recovered = (next_run.waited or next_run.started) if next_run else None
        rules = advised.rules if recovered else tuple(dict.fromkeys((*advised.rules, "L021")))
        recovery = (
            "became standby again"
            if recovered and next_run and next_run.waited
            else "became active again"
            if recovered
            else ""
        )
        yield new_incident(
            "demotion",
            node,
            advised,
            began=began,
            ended=recovered or run.released or run.ended,
            seconds=seconds_between(began, recovered) if recovered else None,
            began_from="log",
            cause=f"{short_name(node.host)} was active and stopped serving, because {reason}."
            + (f" It {recovery}." if recovery else " It did not recover automatically."),
            rules=rules,
            recorded=run.ended,
        )


def _lost_lock_reason(evidence: Sequence[LogRecordEvidence], lost: datetime) -> LogRecordEvidence | None:
    """Return the last log record before a lost lock that gives a reason; None without one."""
    reasons = [
        record
        for record in evidence
        if record.kind in advice.LOST_LOCKS and lost - _REASON_BEFORE_LOSS <= record.at <= lost
    ]
    strong = [record for record in reasons if record.kind != "LOCK-KEEPALIVE-ERR"]
    return strong[-1] if strong else reasons[-1] if reasons else None


def _silent_ends(runs: Sequence[ObservedBrokerRun]) -> Iterator[LogRecordEvidence]:
    """Yield evidence of each active broker run that ended soon after its start, without a log record.

    Another run followed.
    """
    for run, following in pairwise(runs):
        begins = following.first or following.chosen
        if run.end == "silent" and not run.lacks_end and run.started and begins and begins - run.started <= SOON:
            text = "the broker process ended soon after it had started, and logged no reason"
            yield LogRecordEvidence(run.host, run.place, run.last or run.started, _SILENT_END, {}, text)


def _failing_starts(
    node: PairNode, evidence: Sequence[LogRecordEvidence], runs: Sequence[ObservedBrokerRun]
) -> Iterator[Incident]:
    """Yield an incident for each series of broker starts that failed, at once or soon after the broker was ready.

    A start after which the broker was active or standby for longer than ``SOON`` ends a series. A start that failed
    once for a store error or a failed takeover belongs to that incident; repeated failures are a series.
    """
    explained = [record.at for record in evidence if record.kind == STORE]
    explained += [run.ended for run in runs if run.end == "failed" and run.waited and run.locked and run.ended]
    failed: list[LogRecordEvidence] = []
    ready: datetime | None = None
    for record in evidence:
        if record.kind in _STARTED:
            ready = ready or record.at
        elif (record.kind in STARTS_FAILED and "aborted" not in record.fields) or record.kind == _SILENT_END:
            stayed = ready is not None and record.at - ready > SOON
            if failed and (stayed or record.at - failed[-1].at > STARTS_WITHIN):
                yield from _incident_of_failed_starts(node, failed, explained)
                failed = []
            failed.append(record)
            ready = None
    yield from _incident_of_failed_starts(node, failed, explained)


def _incident_of_failed_starts(
    node: PairNode, failed: Sequence[LogRecordEvidence], explained: Sequence[datetime]
) -> Iterator[Incident]:
    # One start can log one record of each kind.
    counts = Counter(record.kind for record in failed)
    starts = max(counts.values(), default=0)
    if not starts or (starts < CRASHES and counts.keys() == {_SILENT_END}):
        return
    if starts < CRASHES and any(failed[0].at - SOON <= at <= failed[-1].at + SOON for at in explained):
        return
    often = "once" if starts == 1 else f"{starts} times"
    cause = f"{short_name(node.host)} failed to start {often}: “{shorten_text(failed[-1].text)}”"
    series = [replace(record, fields={"what": "", "who": ""}) for record in failed]
    yield incident_of_series(node, series, "failing_start", cause, advice.FAILING_START)


def _crashes(node: PairNode, runs: Sequence[ObservedBrokerRun]) -> Iterator[Incident]:
    """Yield series of runs in a row that were active and ended without a record, which no takeover reports."""
    series: list[datetime] = []
    clauses: list[str] = []
    for run, following in pairwise(runs):
        ended = run.last or run.started
        begins = following.first or following.chosen
        is_late = (
            run.started is None or begins is None or begins - run.started > SOON
        )  # Without these, its start failed.
        # A node that waits after its end lost its lock to its peer, and the takeover reports this.
        is_silent = run.end == "silent" and (not run.lacks_end or run.process_end is not None)
        is_crash = is_silent and run.was_active and is_late and following.waited is None
        if series and (not is_crash or (ended is not None and ended - series[-1] > CRASHES_WITHIN)):
            yield from _incident_of_crashes(node, series, clauses)
            series, clauses = [], []
        if is_crash and ended is not None:
            series.append(ended)
            if run.process_end is not None:
                clauses.append(describe_process_end(short_name(node.host), run.process_end))
    yield from _incident_of_crashes(node, series, clauses)


def _incident_of_crashes(node: PairNode, series: Sequence[datetime], clauses: Sequence[str]) -> Iterator[Incident]:
    """Yield the incident of a series of broker crashes; ``clauses`` are the ends that a systemd journal explains."""
    if len(series) >= CRASHES:
        times = f"{len(series)} times in a row"
        cause = f"The broker process on {short_name(node.host)} ended {times} without a record in its log."
        if clauses:
            cause += (
                f" The systemd journals show the cause of {len(clauses)} of these crashes. The cause of the last one: "
                f"{clauses[-1]}."
            )
        yield new_incident(
            "crashes",
            node,
            advice.CRASHES,
            began=series[0],
            ended=series[-1],
            seconds=seconds_between(series[0], series[-1]),
            began_from="log",
            cause=cause,
            recorded=series[0],
        )


def _slow_starts(node: PairNode, runs: Sequence[ObservedBrokerRun]) -> Iterator[Incident]:
    for run in runs:
        # Before 5.17.3, the first record after the lock is written when the index is loaded.
        began = run.locked if run.waited else run.chosen or run.locked
        seconds = seconds_between(began, run.started)
        if seconds is not None and seconds >= SLOW_START and not run.pure:
            yield new_incident(
                "slow_store",
                node,
                advice.SLOW_STORE,
                began=began,
                ended=run.started,
                seconds=seconds,
                began_from="log",
                cause=f"{short_name(node.host)} needed {seconds:.0f} s to open its store before it was active: "
                "it loaded the index or replayed the store journal.",
                recorded=run.started,
                mark="start",
            )


def _lock_errors(
    node: PairNode, evidence: Sequence[LogRecordEvidence], runs: Sequence[ObservedBrokerRun]
) -> Iterator[Incident]:
    """Yield incidents of store locks that could not be renewed, although the broker kept its lock."""
    lost = [run.ended for run in runs if run.end == "lost_lock" and run.ended is not None]
    other_records = [
        record
        for record in evidence
        if not any(at - _REASON_BEFORE_LOSS <= record.at <= at + _REASON_BEFORE_LOSS for at in lost)
    ]
    sentence, advised = advice.LOCK_ERROR
    for series in split_evidence_at_time_gaps(other_records):
        signs = [replace(record, fields={"what": "lock", "who": ""}) for record in series]
        cause = f"On {short_name(node.host)} {sentence} {len(series)} times."
        yield incident_of_series(node, signs, "store_error", cause, advised)


def _store_error_incidents(node: PairNode, evidence: Sequence[LogRecordEvidence]) -> Iterator[Incident]:
    """Yield an incident for each series of store errors, with the most specific error as its cause."""
    for series in split_evidence_at_time_gaps(evidence):
        error_kinds = {record.fields["what"] for record in series}
        # The most specific kind: a full disk also causes failed writes, and a missing file also corrupt references.
        main_kind = next(kind for kind in ("full", "database", "missing", "corrupt", "write") if kind in error_kinds)
        sentence, advised = advice.STORE_ERRORS[main_kind]
        first = next(record for record in series if record.fields["what"] == main_kind)
        yield incident_of_series(
            node,
            series,
            "store_error",
            f"On {short_name(node.host)} {sentence}: “{shorten_text(first.text)}”",
            advised,
        )


def _refusals(
    node: PairNode, refusals: Sequence[LogRecordEvidence], bridges: Sequence[LogRecordEvidence], names: tuple[str, ...]
) -> Iterator[Incident]:
    """Yield one incident for each series of refusals of clients or bridges, for all accounts together."""
    for series in split_evidence_at_time_gaps(refusals):
        kinds = {record.fields["what"] for record in series}
        advised = (
            advice.REFUSED_RIGHTS
            if kinds == {"rights"}
            else advice.REFUSED_BRIDGE
            if kinds == {"bridge"}
            else advice.REFUSED_CLIENT
        )
        rules = (*advised.rules, *(advice.REFUSED_BRIDGE.rules if "bridge" in kinds and "client" in kinds else ()))
        cause = f"{short_name(node.host)}: {'; '.join(_describe_refusals(series))}."
        incident = incident_of_series(node, series, "refused_credentials", cause, advice.Remedy(advised.remedy, rules))
        peer = _refusing_peer(series, bridges)
        yield replace(incident, mark="", peer=peer, names=() if peer else names)


def _describe_refusals(series: Sequence[LogRecordEvidence]) -> Iterator[str]:
    """Yield a phrase for each kind of client and account that a broker refused, and one for the accounts left out."""
    times: Counter[tuple[str, str]] = Counter()
    for record in series:
        times[record.fields["what"], record.fields["who"]] += record.count
    for (client_kind, name), count in sorted(times.items())[:SHOWN_NAMES]:
        account = f"the account {name}" if name and name != "null" else "no account"
        often = "once" if count == 1 else f"{count} times"
        yield _REFUSAL_PHRASES[client_kind].format(account=account, times=often)
    if len(times) > SHOWN_NAMES:
        yield f"{len(times) - SHOWN_NAMES} more accounts are not listed here"


def _refusing_peer(series: Sequence[LogRecordEvidence], bridges: Sequence[LogRecordEvidence]) -> str:
    """Return the name of the broker that refused a host's bridges; empty for clients, or if it is unknown.

    The record of the refusal does not name the broker. Other records of the bridge do; up to 5.7 a bridge can be
    refused so early that only the record of its end exists.
    """
    locals_ = {record.fields.get("local", "") for record in series}
    if not all(locals_):
        return ""
    bridge_records = [
        record for record in bridges if record.kind != "NET-DOWN" and record.fields.get("local") in locals_
    ]
    bridge_records += [record for record in (_bridge_end_after(refusal, bridges) for refusal in series) if record]
    peers = {record.fields.get("peer", "") for record in bridge_records} - {_UNKNOWN_BROKER}
    return peers.pop() if len(peers) == 1 else ""


def _bridge_end_after(refusal: LogRecordEvidence, bridges: Sequence[LogRecordEvidence]) -> LogRecordEvidence | None:
    """Return the first log record of a bridge's end soon after its refusal; None without one."""
    ends = (record for record in bridges if record.kind == "NET-DOWN" and record.sequence > refusal.sequence)
    return next((record for record in ends if record.at - refusal.at <= _END_AFTER_REFUSAL), None)


def _duplicate_bridges(node: PairNode, evidence: Sequence[LogRecordEvidence]) -> Iterator[Incident]:
    """Yield incidents of two bridges with one client id.

    They are reported twice, or once if the host starts and accepts a link.

    A single report can come from a bridge that was rebuilt before its old connection was closed.
    """
    started_links = {
        link_name_of_connector(record.fields.get("connector", ""))
        for record in evidence
        if record.kind == "NET-CONNECTOR-UP"
    }
    accepted_links = {
        record.fields.get("duplexId", "").partition("@")[0] for record in evidence if record.kind == "NET-DUPLEX-UP"
    }
    has_both_ends = bool(started_links & accepted_links)
    duplicates = [record for record in evidence if record.kind == TWICE]
    is_reported = False
    for client, client_records in groupby(
        sorted(duplicates, key=lambda record: (record.fields["who"], record.at)), key=lambda o: o.fields["who"]
    ):
        for series in split_evidence_at_time_gaps(client_records):
            if sum(record.count for record in series) < 2 and not has_both_ends:
                continue
            is_reported = True
            cause = (
                f"Two bridges connected to {short_name(node.host)} with the client id {client[:80]}, and disconnect "
                "each other repeatedly. Both brokers open a duplex link, or two links have the same name."
            )
            yield incident_of_series(node, series, "duplicate_bridge", cause, advice.DUPLICATE_BRIDGE)
    if has_both_ends and not is_reported:
        yield from _bridges_from_both_ends(
            node, bridges_from_log_evidence(sorted(evidence, key=lambda record: record.sequence))
        )


@dataclass(slots=True)
class _BridgeBreaks:
    """Successive breaks of the network bridges to one broker, each soon after the bridge came up."""

    peer: str
    breaks: list[LogRecordEvidence] = field(default_factory=list)
    destinations: Counter[str] = field(default_factory=Counter)

    @property
    def most_frequent_bridge_error_text(self) -> str:
        """The text of the most frequent error with which a network bridge broke; empty if no break has an error."""
        errors = Counter(record.fields["e"] for record in self.breaks if record.fields.get("e"))
        return errors.most_common(1)[0][0] if errors else ""


def _breaking_bridges(node: PairNode, evidence: Sequence[LogRecordEvidence]) -> Iterator[Incident]:
    """Yield an incident for each network bridge that repeatedly breaks immediately after it comes up.

    A bridge that breaks because its login or its client id is refused has an incident of that kind.
    """
    up: dict[str, LogRecordEvidence] = {}
    series: dict[str, _BridgeBreaks] = {}
    for record in evidence:
        if record.kind == "NET-UP":
            up[record.fields["local"]] = record
        elif record.kind == FORWARDED:
            for breaks in series.values():
                breaks.destinations[record.fields["destination"]] += 1
        elif record.kind in _BREAK_RECORDS and (began := _remove_broken_bridge(record, up)):
            peer = began.fields.get("peer", "")
            breaks = series.setdefault(peer, _BridgeBreaks(peer))
            if breaks.breaks and record.at - breaks.breaks[-1].at > _MAXIMUM_TIME_BETWEEN_BREAKS:
                yield from _incident_of_breaks(node, breaks)
                breaks = series[peer] = _BridgeBreaks(peer)
            if record.at - began.at > _BREAK_AFTER_START:
                yield from _incident_of_breaks(node, series.pop(peer))
            elif not any(text in record.fields.get("e", "") for text in REFUSALS):
                breaks.breaks.append(record)
    for breaks in series.values():
        yield from _incident_of_breaks(node, breaks)


def _remove_broken_bridge(ended: LogRecordEvidence, up: dict[str, LogRecordEvidence]) -> LogRecordEvidence | None:
    """Remove and return the bridge in ``up`` that a log record shows to be broken.

    A NET-DOWN record names only the peer.
    """
    local = ended.fields.get("local")
    if local is None:
        peers = (name for name, began in up.items() if began.fields.get("peer") == ended.fields.get("peer"))
        local = next(peers, "")
    return up.pop(local, None)


def _incident_of_breaks(node: PairNode, breaks: _BridgeBreaks) -> Iterator[Incident]:
    count = len(breaks.breaks)
    if count < MIN_BREAKS_OF_AUDIT:
        return
    began, ended = breaks.breaks[0].at, breaks.breaks[-1].at
    minutes = max((ended - began).total_seconds() / 60, 1)
    destination = ""
    if breaks.destinations:
        names = ", ".join(name for name, _ in breaks.destinations.most_common(SHOWN_NAMES))
        destination = f" During this time the bridge forwarded messages with these destinations: {names}."
    error = (
        f"“{shorten_text(breaks.most_frequent_bridge_error_text)}”"
        if breaks.most_frequent_bridge_error_text
        else "no error in this log"
    )
    is_frame = is_frame_size_error(breaks.most_frequent_bridge_error_text)
    yield new_incident(
        "breaking_bridge",
        node,
        advice.FRAMES if is_frame else advice.BREAKING_BRIDGE,
        began=began,
        ended=ended,
        seconds=seconds_between(began, ended),
        began_from="log",
        cause=f"The bridge from {short_name(node.host)} to {breaks.peer[:80]} broke {count} times "
        f"({count / minutes:.0f} times per minute), each time within {_BREAK_AFTER_START.seconds} s after it came up: "
        f"{error}.{destination}",
        recorded=began,
        mark=breaks.peer,
    )


def _refused_frames(node: PairNode, evidence: Sequence[LogRecordEvidence]) -> Iterator[Incident]:
    """Yield an incident for each address whose frames exceeded a connector's limit many times."""
    by_address: dict[str, list[LogRecordEvidence]] = {}
    for record in evidence:
        by_address.setdefault(record.fields["who"], []).append(record)
    for address, records in sorted(by_address.items()):
        for series in split_evidence_at_time_gaps(records):
            count = sum(record.count for record in series)
            if count >= _MINIMUM_REFUSED_FRAMES:
                sender = f"{address} " if address else "a client or a bridge "
                is_openwire = series[0].fields["what"] == "frame"
                limit = "wireFormat.maxFrameSize" if is_openwire else "a limit"
                cause = (
                    f"{short_name(node.host)} closed {count} connections because {sender}sent a frame that is larger "
                    f"than {limit} of its connector: “{shorten_text(series[0].text)}”"
                )
                advised = advice.FRAMES if is_openwire else advice.CLIENT_FRAMES
                yield incident_of_series(node, series, "refused_frames", cause, advised)


def _bridges_from_both_ends(node: PairNode, bridges: Sequence[LoggedBridge]) -> Iterator[Incident]:
    """Yield incidents of duplex links that both ends started and no log reports: up to 5.7 both bridges can stay up."""
    links: dict[tuple[str, str], list[tuple[datetime, datetime, str]]] = {}
    for bridge in bridges:
        if bridge.link and bridge.peer and bridge.began:
            # The end of a bridge whose process was killed is unknown.
            ended = bridge.ended or (_STILL_UP if bridge.state == "up" else bridge.began)
            links.setdefault((bridge.link, bridge.peer), []).append((bridge.began, ended, bridge.direction))
    for (link, peer), periods in sorted(links.items()):
        overlaps = list(_overlaps(sorted(periods)))
        if not overlaps:
            continue
        began, last = overlaps[0][0], max(end for _, end in overlaps)
        yield new_incident(
            "duplicate_bridge",
            node,
            advice.DUPLICATE_BRIDGE,
            began=began,
            ended=None if last == _STILL_UP else last,
            seconds=None if last == _STILL_UP else seconds_between(began, last),
            began_from="log",
            cause=f"Between {short_name(node.host)} and {peer[:80]} two bridges of the link {link[:80]} were up at "
            "the same time, one from each broker: messages may be delivered twice.",
            recorded=began,
            mark=f"{link} {peer}",
        )


def _overlaps(periods: Iterable[tuple[datetime, datetime, str]]) -> Iterator[tuple[datetime, datetime]]:
    """Yield the times at which both directions of a link were up.

    ``periods`` (began, ended, direction) are sorted by begin.
    """
    until: dict[str, datetime] = {}
    for began, ended, direction in periods:
        for other, end in until.items():
            if other != direction and end > began:
                yield began, min(end, ended)
        until[direction] = max(ended, until.get(direction, ended))
