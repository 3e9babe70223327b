"""Conclude the incidents that counted records of one host show: exhausted resources, refusals, blocked producers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

from activemq_fleet.audit import advice
from activemq_fleet.audit.evidence import (
    Incident,
    LogRecordEvidence,
    PairNode,
    new_incident,
    seconds_between,
    short_name,
)
from activemq_fleet.audit.record_signs import (
    BLOCKED,
    CLIENT,
    CONNECTIONS,
    EXHAUSTED,
    FAILED,
    LIMITED,
    RECONNECTED,
    REPORTED,
    RIGHTS,
    SLOW,
    SPOOL,
    STOLEN,
)
from activemq_fleet.node.log.bridge_breaks import is_frame_size_error

APART = timedelta(minutes=15)
"""Longest time between two log records of one incident."""
MESSAGES = 3
"""Number of refused messages in a series from which they are an incident."""
SHOWN_NAMES = 6
"""The largest number of accounts, destinations or clients that an incident names."""
_MINIMUM_DUPLICATE_CLIENTS = 3
"""The number of refusals of one client id that make an incident: a client that connects again succeeds in the end."""
_MINIMUM_STOLEN_CLIENTS = 10
"""The number of times that a client id changes its connection: a client that connects again takes its own."""
_MINIMUM_TLS_FAILURES = 5
"""The number of TLS connections that fail in a series that make an incident."""
_MINIMUM_RECONNECTIONS = 5
"""The number of reconnections in a series that make an incident."""
_MAXIMUM_RECONNECTION_INTERVAL = timedelta(minutes=1)
"""The longest time between two of them, on average."""
_MINIMUM_SLOW_ACCESSES = 3
"""The number of slow accesses to the store in a series that make an incident."""
_MINIMUM_BLOCKED_TIME = timedelta(minutes=1)
"""The shortest time for which producers wait for memory that makes an incident: flow control works by waiting."""


def repeated_record_incidents(node: PairNode, evidence: Sequence[LogRecordEvidence]) -> Iterator[Incident]:
    """Yield the incidents of a host for which its log has series of similar records, such as refused connections.

    ``evidence`` holds the records, in order of time.
    """
    by_kind: dict[str, list[LogRecordEvidence]] = {}
    for record in evidence:
        by_kind.setdefault(record.kind, []).append(record)
    yield from _exhausted_resources(node, by_kind.get(EXHAUSTED, []))
    yield from _refused_messages(node, by_kind.get(FAILED, []))
    yield from _missing_rights(node, by_kind.get(RIGHTS, []))
    yield from _duplicate_clients(node, by_kind.get(CLIENT, []), by_kind.get(STOLEN, []))
    yield from _blocked_producers(node, by_kind.get(BLOCKED, []), by_kind.get(LIMITED, []))
    yield from _refused_connections(node, by_kind.get(CONNECTIONS, []))
    yield from _lost_spool(node, by_kind.get(SPOOL, []))
    yield from _reconnections(node, by_kind.get(RECONNECTED, []))
    yield from _slow_stores(node, by_kind.get(SLOW, []))
    yield from _logged_error_incidents(node, by_kind.get(REPORTED, []))


def split_evidence_at_time_gaps(evidence: Iterable[LogRecordEvidence]) -> Iterator[list[LogRecordEvidence]]:
    """Split log records, which are evidence of incidents, into lists: one for each series of records close in time.

    Each record comes at most ``APART`` after the record before it.
    """
    series: list[LogRecordEvidence] = []
    until = None
    for record in evidence:
        if series and until is not None and record.at - until > APART:
            yield series
            series, until = [], None
        series.append(record)
        until = record.last_record_time if until is None else max(until, record.last_record_time)
    if series:
        yield series


def incident_of_series(
    node: PairNode, series: Sequence[LogRecordEvidence], kind: advice.IncidentKind, cause: str, remedy: advice.Remedy
) -> Incident:
    """Return the incident that a series of similar log records shows.

    The incident lasts from the first to the last record.
    """
    began, ended = series[0].at, max(record.last_record_time for record in series)
    return new_incident(
        kind,
        node,
        remedy,
        began=began,
        ended=ended,
        seconds=seconds_between(began, ended),
        began_from="log",
        cause=cause,
        recorded=began,
        mark=series[0].fields["what"] + (f" {who}" if (who := series[0].fields["who"]) else ""),
    )


def shorten_text(text: str) -> str:
    """Return a text shortened to at most 200 characters."""
    return text if len(text) <= 200 else f"{text[:199]}…"


def _event_count(series: Iterable[LogRecordEvidence]) -> int:
    """Return the number of events that a series of log records reports.

    It is the largest count of any kind of record. A single event can cause a record of each of several kinds, so the
    counts of the kinds are not added.
    """
    counts: Counter[str] = Counter()
    for record in series:
        counts[record.fields["of"]] += record.count
    return max(counts.values(), default=0)


def _exhausted_resources(node: PairNode, evidence: Sequence[LogRecordEvidence]) -> Iterator[Incident]:
    for what, kind, advised, cause in (
        ("memory", "out_of_memory", advice.OUT_OF_MEMORY, "ran out of memory"),
        ("files", "too_many_open_files", advice.OPEN_FILES, "ran out of file descriptors"),
    ):
        for series in split_evidence_at_time_gaps(record for record in evidence if record.fields["what"] == what):
            which = f" ({series[0].fields['who']})" if series[0].fields["who"] else ""
            record = shorten_text(series[0].text)
            text = f"{short_name(node.host)} {cause} {_times_text(_event_count(series))}{which}: “{record}”."
            yield replace(incident_of_series(node, series, kind, text, advised), mark="")  # type: ignore[arg-type]


def _refused_messages(node: PairNode, evidence: Sequence[LogRecordEvidence]) -> Iterator[Incident]:
    """Yield an incident for each series of messages that a broker refused, except those for a missing right."""
    for series in split_evidence_at_time_gaps(evidence):
        count = _event_count(series)
        if count >= MESSAGES:
            largest = max(series, key=lambda record: record.count)
            cause = f"{short_name(node.host)} refused messages {count} times: “{shorten_text(largest.text)}”"
            yield incident_of_series(node, series, "refused_messages", cause, advice.REFUSED_MESSAGES)


def _missing_rights(node: PairNode, evidence: Sequence[LogRecordEvidence]) -> Iterator[Incident]:
    for series in split_evidence_at_time_gaps(evidence):
        phrases = []
        for user_or_client, records in _most_frequent(series):
            user, _, right = user_or_client.partition(" ")
            action, _, destination = right.rpartition(" ")
            attempts = _times_text(records)
            phrases.append(
                f"a client with the account {user} tried to {action} {destination} {attempts} without the right"
            )
        cause = f"{short_name(node.host)}: {'; '.join(phrases)}."
        incident = incident_of_series(node, series, "refused_rights", cause, advice.REFUSED_CLIENT_RIGHTS)
        yield replace(incident, mark="")


def _duplicate_clients(
    node: PairNode, refused: Sequence[LogRecordEvidence], stolen: Sequence[LogRecordEvidence]
) -> Iterator[Incident]:
    """Yield incidents of client ids that two clients use.

    The second client is refused, or takes over the connection of the first.
    """
    for evidence, least, what in (
        (refused, _MINIMUM_DUPLICATE_CLIENTS, "refused clients, because another connection had the same client id"),
        (stolen, _MINIMUM_STOLEN_CLIENTS, "closed connections, because another client took over their client id"),
    ):
        for series in split_evidence_at_time_gaps(evidence):
            frequent = [(client, count) for client, count in _most_frequent(series) if count >= least]
            if frequent:
                clients = "; ".join(f"{client[:80]} {_times_text(count)}" for client, count in frequent)
                cause = f"{short_name(node.host)} {what}: {clients}."
                yield incident_of_series(node, series, "duplicate_client", cause, advice.DUPLICATE_CLIENT)


def _blocked_producers(
    node: PairNode, evidence: Sequence[LogRecordEvidence], limited: Sequence[LogRecordEvidence]
) -> Iterator[Incident]:
    """Yield incidents of producers that a full store, temporary store or memory blocked."""
    for what, resource, advised in (
        ("store", "the store was full", advice.BLOCKED_STORE),
        ("temp", "the temporary store was full", advice.BLOCKED_TEMP),
        ("memory", "the memory limit was reached", advice.BLOCKED_MEMORY),
    ):
        for series in split_evidence_at_time_gaps(record for record in evidence if record.fields["what"] == what):
            began, ended = series[0].at, max(record.last_record_time for record in series)
            if what == "memory" and ended - began < _MINIMUM_BLOCKED_TIME:
                continue
            destinations = ", ".join(name or "a destination" for name, _ in _most_frequent(series))
            lowered = next((record for record in reversed(limited) if record.at <= ended), None)
            reason = (
                f" The broker had lowered its limit at {lowered.at:%Y-%m-%d %H:%M:%S} UTC: “{lowered.text}”."
                if (lowered and what == "store")
                else ""
            )
            cause = f"{short_name(node.host)} blocked producers of {destinations}, because {resource}.{reason}"
            yield replace(incident_of_series(node, series, "blocked_producers", cause, advised), mark=what)


def _refused_connections(node: PairNode, evidence: Sequence[LogRecordEvidence]) -> Iterator[Incident]:
    for what, least, why, advised in (
        ("limit", 1, "a connector has reached maximumConnections", advice.REFUSED_CONNECTIONS),
        ("tls", _MINIMUM_TLS_FAILURES, "their TLS handshake failed", advice.REFUSED_TLS),
    ):
        for series in split_evidence_at_time_gaps(record for record in evidence if record.fields["what"] == what):
            count = _event_count(series)
            if count >= least:
                cause = f"{short_name(node.host)} refused connections {_times_text(count)}, because {why}"
                cause += f": “{shorten_text(series[0].text)}”."
                yield incident_of_series(node, series, "refused_connections", cause, advised)


def _lost_spool(node: PairNode, evidence: Sequence[LogRecordEvidence]) -> Iterator[Incident]:
    for series in split_evidence_at_time_gaps(evidence):
        full = any(record.fields["what"] == "full" for record in series)
        reason = "its disk was full" if full else "its files were missing or damaged"
        cause = (
            f"{short_name(node.host)} could not use its temporary store {_times_text(_event_count(series))}, because "
            f"{reason}: “{shorten_text(series[0].text)}”."
        )
        yield incident_of_series(node, series, "lost_spool", cause, advice.LOST_SPOOL)


def _reconnections(node: PairNode, evidence: Sequence[LogRecordEvidence]) -> Iterator[Incident]:
    """Yield incidents of bridges whose failover transport reconnects about once per minute or more often."""
    by_uri: dict[str, list[LogRecordEvidence]] = {}
    for record in evidence:
        by_uri.setdefault(record.fields["who"], []).append(record)
    for uri, records in sorted(by_uri.items()):
        for series in split_evidence_at_time_gaps(records):
            count = sum(record.count for record in series)
            lasted = max(record.last_record_time for record in series) - series[0].at
            if count < _MINIMUM_RECONNECTIONS or lasted > count * _MAXIMUM_RECONNECTION_INTERVAL:
                continue
            largest = max(series, key=lambda record: record.count)
            cause = (
                f"A bridge of {short_name(node.host)} to {uri or 'another broker'} lost its connection "
                f"{_times_text(count)} in a row. Each time, the failover: transport of the bridge reconnected: "
                f"“{shorten_text(largest.text)}”."
            )
            advised = advice.FRAMES if is_frame_size_error(largest.text) else advice.BREAKING_BRIDGE
            yield incident_of_series(node, series, "breaking_bridge", cause, advised)


def _slow_stores(node: PairNode, evidence: Sequence[LogRecordEvidence]) -> Iterator[Incident]:
    for series in split_evidence_at_time_gaps(evidence):
        count = sum(record.count for record in series)
        if count >= _MINIMUM_SLOW_ACCESSES or any(record.fields["what"] == "replay" for record in series):
            record_text = shorten_text(series[-1].text)
            cause = f"The store of {short_name(node.host)} was slow {_times_text(count)}: “{record_text}”."
            yield incident_of_series(node, series, "slow_store", cause, advice.SLOW_STORE)


def _logged_error_incidents(node: PairNode, evidence: Sequence[LogRecordEvidence]) -> Iterator[Incident]:
    """Yield one incident for each kind of error that a broker's log names."""
    by_kind: dict[str, list[LogRecordEvidence]] = {}
    for record in evidence:
        by_kind.setdefault(record.fields["what"], []).append(record)
    for kind, series in sorted(by_kind.items()):
        sentence, advised = advice.REPORTED[kind]
        count = sum(record.count for record in series)
        cause = f"On {short_name(node.host)} {sentence} ({_times_text(count)}): “{shorten_text(series[0].text)}”."
        yield incident_of_series(node, series, "reported_error", cause, advised)


def _most_frequent(series: Iterable[LogRecordEvidence]) -> list[tuple[str, int]]:
    """Return the names that a series of log records concerns, with numbers of events, the most frequent first."""
    by_name: dict[str, list[LogRecordEvidence]] = {}
    for record in series:
        by_name.setdefault(record.fields["who"], []).append(record)
    counts = Counter({name: _event_count(records) for name, records in by_name.items()})
    return counts.most_common(SHOWN_NAMES)


def _times_text(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
