"""Read the files of agents' journals: one record on each line, or a problem where the line holds no record."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from sys import intern
from typing import Any, NamedTuple

from activemq_fleet.audit import verdict_words as words
from activemq_fleet.audit.journals import (
    EpochKey,
    EventJournalLine,
    JournalEpoch,
    JournalEpochPart,
    is_barrier_sent_by_agent,
    merge_epoch_parts,
    parse_event_id,
)
from activemq_fleet.audit.verdict_words import JournalLineProblem
from activemq_fleet.logs.decompression import inflated_pieces_with_problems

LARGEST_JOURNAL_FILE = 1 << 30
"""Largest number of bytes of a journal file, which is a single value in Spark; agents begin a new file at 16 MiB."""
_CHUNK_BYTES = 4 << 20  # bytes that are decoded at once
_GZIP_MAGIC = (
    b"\x1f\x8b"  # First bytes of a gzip file. No journal line begins with them, so the file name does not matter.
)
_JSEQ_LIMIT = 1 << 43  # limit of a record's number in an epoch: at 10,000 records per second, 27 years
# The beginning of a record as an agent writes it, which is still readable in a cut-off line.
_RECORD_BEGINNING = re.compile(r'\{"v":[0-9]+,"agent":"([^"\\]+)","epoch":"([^"\\]+)","jseq":([0-9]{1,13}),')
_JOINED_RECORDS = '}{"v":'  # no JSON string contains this text, because its quotes would be escaped
_DECODER = json.JSONDecoder()
_NEVER = datetime.max.replace(tzinfo=UTC)
_KINDS = frozenset(words.KINDS)
_RECEIVED = frozenset((*words.RECEIVING, "barrier"))


class ParsedEventJournalLine(NamedTuple):
    """A parsed line of an agent's event journal.

    It has a record, and a problem if the line cannot be read. ``record`` is None where agent, epoch or number are not
    known, and its kind where the rest cannot be read. ``broker`` and ``conn`` are those that the record names, a broker
    and the number of a connection.
    """

    number: int
    record: EventJournalLine | None
    problem: JournalLineProblem | None
    broker: str | None = None
    conn: int | None = None


class AgentConnectionRecord(NamedTuple):
    """A record in an agent's event journal that the agent made or lost a connection to a broker.

    The agent runs on ``host``; ``is_up`` is true for a connection that was made.
    """

    host: str
    agent: str
    epoch: str
    jseq: int
    at: datetime | None
    is_up: bool
    broker: str | None
    reason: str | None


def lines_with_number_and_problem(content: memoryview) -> Iterator[tuple[int, str | None, JournalLineProblem | None]]:
    """Yield the lines of a file of an agent's event journal as tuples (number, text, problem).

    A compressed file is unpacked. The text of a line is None where gzip data are damaged.
    """
    number, rest = 0, b""
    problem: JournalLineProblem | None = None
    for piece, problem in _unpacked_pieces(content.cast("B")):  # noqa: B007 -- the last problem is yielded after all lines
        # Only LF ends a line. Any other byte can precede it.
        *complete_lines, rest = (rest + piece).split(b"\n")
        for line in complete_lines:
            number += 1
            yield number, line.decode(errors="backslashreplace"), None
    if rest:
        number += 1
        yield number, rest.decode(errors="backslashreplace"), None
    if problem is not None:
        yield number + 1, None, problem


def _unpacked_pieces(content: memoryview) -> Iterator[tuple[bytes, JournalLineProblem | None]]:
    """Yield the unpacked bytes of a journal file in pieces, each with its problem.

    The last piece of a gzip file has a problem if the file is cut off.
    """
    if content[:2] == _GZIP_MAGIC:
        yield from (
            (piece, JournalLineProblem.CUT_OFF if problem else None)
            for piece, _, problem in inflated_pieces_with_problems([content])
        )
    else:
        yield from ((bytes(content[at : at + _CHUNK_BYTES]), None) for at in range(0, len(content), _CHUNK_BYTES))


def parse_event_journal_lines(content: memoryview) -> Iterator[ParsedEventJournalLine]:
    """Parse the content of a file of an agent's event journal, and yield each parsed line."""
    for number, text, problem in lines_with_number_and_problem(content):
        yield ParsedEventJournalLine(number, None, problem) if text is None else parse_event_journal_line(number, text)


def parse_event_journal_line(number: int, text: str) -> ParsedEventJournalLine:
    """Parse one line of an agent's event journal, and return its number and its record, or the problem of the line.

    A torn record gives only agent, epoch and number, if it begins with them.
    """
    line = None
    try:
        document, _ = _DECODER.raw_decode(text.lstrip(" "))
        is_json = True
        if text.rstrip().endswith("}") and _JOINED_RECORDS not in text and isinstance(document, dict):
            line = _journal_line_of(document)
    except (ValueError, RecursionError):
        document, is_json = None, False
    if line is not None:
        if document.get("v") in (1, None):
            problem = None if line.kind in _KINDS else JournalLineProblem.UNKNOWN_KIND
            conn = document.get("conn")
            is_number = type(conn) is int and 0 <= conn < _JSEQ_LIMIT
            return ParsedEventJournalLine(
                number, line, problem, _utf8_text(document.get("broker")), conn if is_number else None
            )
        return ParsedEventJournalLine(number, _torn_record(text), JournalLineProblem.UNKNOWN_VERSION)
    begins_like_one = text.lstrip(" ").startswith("{") and not is_json
    if begins_like_one or "\0" in text or _JOINED_RECORDS in text:
        return ParsedEventJournalLine(number, _torn_record(text), JournalLineProblem.TORN)
    return ParsedEventJournalLine(number, None, JournalLineProblem.FOREIGN)


def _journal_line_of(fields: Mapping[str, Any]) -> EventJournalLine | None:
    """Return the journal line of a JSON object; None if its agent, epoch, number or kind is missing."""
    agent, epoch, kind = (_utf8_text(fields.get(name)) for name in ("agent", "epoch", "kind"))
    jseq, filters = fields.get("jseq"), fields.get("filters")
    if not (agent and epoch and kind and type(jseq) is int and 1 <= jseq <= _JSEQ_LIMIT):
        return None
    return EventJournalLine(
        agent=intern(agent),
        epoch=intern(epoch),
        jseq=jseq,
        ts=_parse_time(fields.get("ts")),
        kind=intern(kind),
        event_id=_utf8_text(fields.get("event_id")) or None,
        rx_id=_utf8_text(fields.get("rx_id")) or None,
        topic=_utf8_text(fields.get("topic")) or None,
        came=fields.get("broker") is not None or type(fields.get("conn")) is int,
        filters=[str(_utf8_text(topic_filter)) for topic_filter in filters] if isinstance(filters, list) else None,
        reason=_utf8_text(fields.get("reason")),
    )


def _torn_record(text: str) -> EventJournalLine | None:
    head = _RECORD_BEGINNING.match(text)
    if head is None:
        return None
    return EventJournalLine(
        head[1], head[2], int(head[3]), ts=None, kind=None, event_id=None, rx_id=None, topic=None, came=False,
        filters=None, reason=None,
    )  # fmt: skip


def _utf8_text(value: Any) -> str | None:
    """Return a value as text that UTF-8 can hold: JSON can write halves of characters."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _parse_time(value: Any) -> datetime | None:
    try:
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        return None


@dataclass(slots=True)
class EventJournalFileSummary:
    """A summary of one file of an agent's event journal.

    It has the parts of agents' journals that the file holds, and the problems of its lines. ``parts``: its content by
    agent and epoch; (None, None) is the key of lines without a known agent. ``received``: the highest SEQ that another
    agent received, by the agent and epoch in events' ids, 0 for none. ``problems``: the number of lines with each
    problem, and the first of them. ``first`` and ``last`` are times.
    """

    host: str
    file: str
    parts: dict[tuple[str | None, str | None], JournalEpochPart] = field(default_factory=dict)
    received: dict[EpochKey, int] = field(default_factory=dict)
    problems: dict[JournalLineProblem, tuple[int, int]] = field(default_factory=dict)
    first: datetime | None = None
    last: datetime | None = None

    def count_line(self, line: ParsedEventJournalLine) -> None:
        """Count a line of an agent's journal file in the summary of the file."""
        record, number, problem = line.record, line.number, line.problem
        if problem is not None:
            count, first = self.problems.get(problem, (0, number))
            self.problems[problem] = count + 1, first
        agent, epoch = key = (record.agent, record.epoch) if record else (None, None)
        part = self.parts.get(key) or JournalEpochPart(self.host, self.file, agent, epoch, None, None, None, None)
        if record is None:
            if problem is not None and problem.may_hide_records:
                self.parts[key] = part._replace(torn=number)
            return
        is_whole = record.kind is not None
        self.parts[key] = part._replace(
            known=max(part.known or 0, record.jseq),
            began=_earliest(part.began, record.ts),
            line=number if is_whole else part.line,
        )
        self.first = _earliest(self.first, record.ts)
        self.last = max((time for time in (self.last, record.ts) if time is not None), default=None)
        if is_whole and (parts := parse_event_id(record.event_id or "")):
            is_own = parts[:2] == key and (record.kind == "accepted" or is_barrier_sent_by_agent(record))
            received_seq = parts[2] if record.kind in _RECEIVED and not is_own else 0
            self.received[parts[:2]] = max(self.received.get(parts[:2], 0), received_seq)


def summary_of_too_large_file(host: str, file: str) -> EventJournalFileSummary:
    """Return the summary of a file of an agent's event journal that is too large to be read.

    Such a file may hold records of any agent.
    """
    summary = EventJournalFileSummary(host, file)
    summary.count_line(ParsedEventJournalLine(1, None, JournalLineProblem.TOO_LARGE))
    return summary


def summarize_event_journal_file(
    host: str, file: str, content: memoryview
) -> tuple[EventJournalFileSummary, list[AgentConnectionRecord]]:
    """Return the summary of a file of an agent's event journal, and the records of connections in the file.

    Connections are recorded when they are made or lost.
    """
    summary, connections = EventJournalFileSummary(host, file), list[AgentConnectionRecord]()
    for line in parse_event_journal_lines(content):
        summary.count_line(line)
        record = line.record
        if record is not None and record.kind in ("connected", "connection_lost"):
            is_up = record.kind == "connected"
            sort_key = record.agent, record.epoch, record.jseq, record.ts
            connections.append(AgentConnectionRecord(host, *sort_key, is_up, line.broker, record.reason))
    return summary, connections


def collected_journal_host_by_agent(
    files: Sequence[EventJournalFileSummary], hosts: Collection[str], agent_hosts: Mapping[str, str]
) -> dict[str, str]:
    """Return, by failover agent, the host whose collected directory holds the agent's event journal.

    Journal lines in the directory of any other host do not count. A host can write anything into its journal, including
    lines of other agents. The host is the one in ``agent_hosts`` (from the inventory). Else it is the one of ``hosts``
    with the name of the agent, which is the default. Else it is the first host whose journal names the agent, by the
    time of the earliest record.
    """
    claims: dict[str, dict[str, datetime]] = {}
    for file in files:
        for part in file.parts.values():
            if part.agent is not None:
                began = part.began or _NEVER
                of_agent = claims.setdefault(part.agent, {})
                of_agent[part.host] = min(began, of_agent.get(part.host, began))
    known = set(hosts)
    return {
        agent: agent_hosts.get(agent)
        or (agent if agent in known else min(of_agent, key=lambda host: (of_agent[host], host)))
        for agent, of_agent in claims.items()
    }


def journal_epochs_by_agent_and_id(
    files: Sequence[EventJournalFileSummary], host_by_agent: Mapping[str, str] | None = None
) -> tuple[dict[EpochKey, JournalEpoch], dict[EpochKey, int]]:
    """Return the epochs (lifetimes of an agent's store) in all journal files, by the agent and the epoch's id.

    The second value is the highest SEQ that a subscriber received, by agent and epoch. ``host_by_agent`` is what
    ``collected_journal_host_by_agent`` returns; without it every line counts.
    """
    highest_seq_by_epoch: dict[EpochKey, int] = {}
    for file in files:
        for key, seq in file.received.items():
            highest_seq_by_epoch[key] = max(seq, highest_seq_by_epoch.get(key, 0))
    parts = (
        part
        for file in files
        for part in file.parts.values()
        if is_agent_journal_on_host(part.agent, part.host, host_by_agent)
    )
    return merge_epoch_parts(parts, highest_seq_by_epoch), highest_seq_by_epoch


def is_agent_journal_on_host(agent: str | None, host: str, host_by_agent: Mapping[str, str] | None) -> bool:
    """Return whether an agent's event journal was collected from the host on which the agent runs.

    ``host`` is the host of the collected directory. Only then the agent's journal lines in this directory count. Also
    returns True if the agent or its host is unknown.
    """
    return agent is None or host_by_agent is None or host_by_agent.get(agent, host) == host


def _earliest(known: datetime | None, recorded: datetime | None) -> datetime | None:
    return min((at for at in (known, recorded) if at is not None), default=None)
