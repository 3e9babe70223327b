"""Report what is missing from an audit's input, by what was read of logs and journals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from activemq_fleet.audit.journal_lines import EventJournalFileSummary
from activemq_fleet.audit.journals import AgentJournalGap
from activemq_fleet.audit.log_summaries import LogFileSummary
from activemq_fleet.audit.result import UNREAD, InputGap
from activemq_fleet.audit.verdict_words import MissingJournalPart
from activemq_fleet.logs.event_batches import INVALID_BYTES
from activemq_fleet.logs.rolled_files import RolledFile, is_direct_successor, missing_rolled_file_messages
from activemq_fleet.node.log.log_layouts import READABLE_LAYOUTS
from activemq_fleet.node.printable import count_with_noun

_INVALID_BYTES_OF_SUMMARY = f"N {INVALID_BYTES}"
"""The only problem of a log file that is complete, as summaries contain it."""
MAX_GAPS = 500


def gaps_from_incomplete_log_files(
    logs: Sequence[LogFileSummary], file_names_by_host: Mapping[str, Iterable[str]]
) -> list[InputGap]:
    """Return a gap for each collected log file that is cut off, missing or not readable.

    Records that could not be parsed are gaps, too; they weigh where they are many. At most ``MAX_GAPS`` files with
    such records are reported, those that weigh first. ``file_names_by_host`` are the names of all log files.
    """
    problems = sorted({(summary.host, summary.file, problem) for summary in logs for problem in summary.problems})
    gaps = [
        InputGap(
            host,
            problem.replace(_INVALID_BYTES_OF_SUMMARY, f"some {INVALID_BYTES}"),
            file,
            weighs=problem != _INVALID_BYTES_OF_SUMMARY,
        )
        for host, file, problem in problems
    ]
    gaps += [
        InputGap(host, problem)
        for host, file_names in sorted(file_names_by_host.items())
        for problem in missing_rolled_file_messages(file_names)
    ]
    unread = sorted(
        (summary for summary in logs if summary.unread),
        key=lambda summary: (not _has_many_unread_records(summary), -summary.unread, summary.host, summary.file),
    )
    gaps += [
        InputGap(summary.host, f"the log records have no full class names: {READABLE_LAYOUTS}", summary.file, 1)
        for summary in logs
        if summary.has_loggers and not summary.has_class_names
    ]
    return gaps + [_gap_of_unread_records(summary) for summary in unread[:MAX_GAPS]]


def last_record_times_before_gaps(logs: Iterable[LogFileSummary]) -> dict[str, tuple[datetime, ...]]:
    """Return the times of the last log records before missing parts of each host's log, by host.

    The rest of a file that is cut off is such a part, and a rolled file that is missing, also ``activemq.log``.
    """
    logs_by_host: dict[str, list[LogFileSummary]] = {}
    for summary in sorted(logs, key=lambda summary: summary.order):
        logs_by_host.setdefault(summary.host, []).append(summary)
    return {host: tuple(_times_before_gaps(summaries)) for host, summaries in logs_by_host.items()}


def _times_before_gaps(summaries: Sequence[LogFileSummary]) -> Iterator[datetime]:
    """Yield the times of the last log records before missing parts of a host's log, whose oldest file is first."""
    rolls = [RolledFile(summary.file) for summary in summaries]
    last: int | None = None
    for index, summary in enumerate(summaries):
        last = max((at for at in (last, summary.last) if at is not None), default=None)
        is_newest = index + 1 == len(rolls)
        lacks_next_file = not (rolls[index].is_current if is_newest else is_direct_successor(rolls, index + 1))
        if last is not None and (lacks_next_file or summary.problems - {_INVALID_BYTES_OF_SUMMARY}):
            yield datetime.fromtimestamp(0, UTC) + timedelta(microseconds=last)


def _has_many_unread_records(summary: LogFileSummary) -> bool:
    return summary.unread > UNREAD * summary.rows


def _gap_of_unread_records(summary: LogFileSummary) -> InputGap:
    weighs = _has_many_unread_records(summary)
    text = f"{summary.unread} of {summary.rows} log records could not be parsed, so the audit may lack incidents"
    if weighs:
        text += f". The first of these records is in line {summary.first_unread}: {READABLE_LAYOUTS}"
    return InputGap(summary.host, text, summary.file, summary.first_unread, weighs=weighs)


def journal_gap_sort_key(gap: AgentJournalGap) -> tuple[str, str, int]:
    """Return the sort key of a gap in an agent's journal: agent, epoch and number of the first missing record."""
    return gap.agent, gap.epoch, gap.jseq


def gaps_for_journals_from_other_hosts(
    files: Iterable[EventJournalFileSummary], host_by_agent: Mapping[str, str]
) -> list[InputGap]:
    """Return a gap for each journal file that contains lines of an agent of another host.

    Only the first ``MAX_GAPS`` gaps are returned. ``host_by_agent`` is what ``journal_host_by_agent`` returns.
    """
    claims = sorted(
        {
            (part.host, part.file, part.agent)
            for file in files
            for part in file.parts.values()
            if part.agent is not None and host_by_agent.get(part.agent, part.host) != part.host
        }
    )
    return [
        InputGap(
            host,
            f"the audit ignores the records of the agent {agent} in this file, because it uses only the event journal "
            f"on {host_by_agent[agent]}, the host of this agent. If the agent runs on {host} instead, set -i to an "
            "inventory that contains the agent on this host",
            file,
        )
        for host, file, agent in claims[:MAX_GAPS]
    ]


def _gap_text(gap: AgentJournalGap) -> str:
    """Return the sentence about records that are missing from a journal of an agent."""
    journal = f"the agent's event journal (the files whose lines contain the epoch {gap.epoch})"
    if gap.missing_part is MissingJournalPart.JOURNAL:
        return f"{journal} was not collected: run the playbook activemq.fleet.collect again for the host of the agent"
    if gap.missing_part is MissingJournalPart.END:
        return (
            f"{journal} lacks record {gap.jseq} and all later records: run the playbook activemq.fleet.collect again "
            "for the host of the agent"
        )
    records = count_with_noun(gap.records, "record") if gap.records else "records"
    return (
        f"{journal} lacks {records}, from record {gap.jseq} on: run the playbook activemq.fleet.collect again for the "
        "host of the agent"
    )


def missing_records_and_unreadable_lines(
    gaps: Iterable[AgentJournalGap], files: Iterable[EventJournalFileSummary]
) -> list[InputGap]:
    """Return a list of the gaps in agents' event journals, as InputGap: missing records, then unreadable lines.

    The list has at most ``MAX_GAPS`` gaps with missing records, from ``gaps``, then at most ``MAX_GAPS`` groups of
    unreadable lines, from ``files``: one for each file and problem. Each makes the audit incomplete.
    """
    record_gaps = [
        InputGap(
            gap.agent,
            _gap_text(gap),
        )
        for gap in sorted(gaps, key=journal_gap_sort_key)[:MAX_GAPS]
    ]
    malformed = sorted(
        (summary.host, summary.file, first, count, problem.value)
        for summary in files
        for problem, (count, first) in summary.problems.items()
    )
    return record_gaps + [
        InputGap(
            host, f"the audit ignores {count_with_noun(count, 'line')} of the event journal: {problem}", file, first
        )
        for host, file, first, count, problem in malformed[:MAX_GAPS]
    ]
