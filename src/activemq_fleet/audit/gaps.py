"""Report what is missing from an audit's input, by what was read of logs and journals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from activemq_fleet.audit.journal_lines import EventJournalFileSummary
from activemq_fleet.audit.journals import AgentJournalGap
from activemq_fleet.audit.log_summaries import RUNNING_KINDS, STOPPED_KINDS, LogFileSummary
from activemq_fleet.audit.omitted_files import HostLogFiles
from activemq_fleet.audit.result import UNREAD, InputGap
from activemq_fleet.audit.verdict_words import MissingJournalPartKind
from activemq_fleet.logs.event_batches import INVALID_BYTES
from activemq_fleet.logs.rolled_files import (
    RolledFile,
    direct_successor_flags_of_rolls,
    is_newest_file_missing,
    missing_rolled_file_messages,
)
from activemq_fleet.node.log.log_layouts import READABLE_LAYOUTS
from activemq_fleet.node.printable import count_with_noun

_INVALID_BYTES_OF_SUMMARY = f"N {INVALID_BYTES}"
"""The only problem of a log file that is complete, as summaries contain it."""
MAX_GAPS = 500


def gaps_from_incomplete_log_files(
    logs: Sequence[LogFileSummary], files_by_host: Mapping[str, HostLogFiles]
) -> list[InputGap]:
    """Return an InputGap (missing audit input) for each collected log file that is cut off, missing or not readable.

    Records that could not be parsed are gaps, too; they weigh where they are many. At most ``MAX_GAPS`` files with
    such records are reported, those that weigh first, and at most ``MAX_GAPS`` missing files. ``files_by_host`` are all
    log files of each host.
    """
    summaries_by_host = _summaries_oldest_first(logs)
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
    missing_files = [
        InputGap(host, problem)
        for host, files in sorted(files_by_host.items())
        for problem in missing_rolled_file_messages(
            _names_oldest_first(files, summaries_by_host.get(host, ())), is_listed=files.is_listed
        )
    ]
    gaps += missing_files[:MAX_GAPS]
    gaps += [
        InputGap(
            host,
            f"{previous.file} ends with a broker that stopped, and {summary.file} begins with a broker that runs. The "
            "records of its start are missing: collect all log files from the host again",
            summary.file,
        )
        for host, summaries in sorted(summaries_by_host.items())
        for previous, summary in _files_with_missing_start_between(summaries)
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


def _summaries_oldest_first(logs: Iterable[LogFileSummary]) -> dict[str, list[LogFileSummary]]:
    """Return the summaries of each host's log files, the oldest first."""
    logs_by_host: dict[str, list[LogFileSummary]] = {}
    for summary in sorted(logs, key=lambda summary: summary.order):
        logs_by_host.setdefault(summary.host, []).append(summary)
    return logs_by_host


def _names_oldest_first(files: HostLogFiles, summaries: Sequence[LogFileSummary]) -> list[str]:
    """Return the names of a host's log files, the oldest first, and then those of files without records."""
    return list(dict.fromkeys([*(summary.file for summary in summaries), *files.names]))


def _files_with_missing_start_between(
    summaries: Sequence[LogFileSummary],
) -> Iterator[tuple[LogFileSummary, LogFileSummary]]:
    """Yield log files of a host between which the start of a broker is missing; the oldest of ``summaries`` is first.

    This is the only evidence of a missing day in logs whose names have dates.
    """
    with_runs = [summary for summary in summaries if summary.first_run_kind is not None]
    for previous, summary in pairwise(with_runs):
        if previous.last_run_kind in STOPPED_KINDS and summary.first_run_kind in RUNNING_KINDS:
            yield previous, summary


def last_record_times_before_gaps(
    logs: Iterable[LogFileSummary], files_by_host: Mapping[str, HostLogFiles] = {}
) -> dict[str, tuple[datetime, ...]]:
    """Return the times of the last log records before missing parts of each host's log, by host.

    The rest of a file that is cut off is such a part, and a rolled file that is missing, also ``activemq.log``. The
    place of a file that was omitted, is empty or has no readable record is not known exactly: it may be before each
    file but the oldest. ``files_by_host`` are all log files of each host.
    """
    return {
        host: tuple(sorted(set(_times_before_gaps(summaries, files_by_host.get(host, HostLogFiles())))))
        for host, summaries in _summaries_oldest_first(logs).items()
    }


def _times_before_gaps(summaries: Sequence[LogFileSummary], files: HostLogFiles) -> Iterator[datetime]:
    """Yield the times of the last log records before missing parts of a host's log, whose oldest file is first."""
    rolls = [RolledFile(summary.file) for summary in summaries]
    successors = direct_successor_flags_of_rolls(rolls)
    unplaced = [*files.omitted, *files.unusable]
    unplaced += [summary.file for summary in summaries if summary.last is None and _has_damage(summary)]
    last: int | None = None
    for index, summary in enumerate(summaries):
        last = max((at for at in (last, summary.last) if at is not None), default=None)
        omission = files.omitted.get(summary.file)
        lacks_end = omission is not None and not omission.lacks_only_beginning
        if index + 1 == len(rolls):
            lacks_next_file = is_newest_file_missing(rolls, is_listed=files.is_listed)
            lacks_next_file |= bool(unplaced) and not rolls[index].is_current
        else:
            lacks_next_file = not successors[index + 1] or bool(unplaced)
        if last is not None and (lacks_next_file or lacks_end or _has_damage(summary)):
            yield datetime.fromtimestamp(0, UTC) + timedelta(microseconds=last)


def _has_damage(summary: LogFileSummary) -> bool:
    """Return whether a part of a log file is missing."""
    return bool(summary.problems - {_INVALID_BYTES_OF_SUMMARY})


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

    Only the first ``MAX_GAPS`` gaps are returned. ``host_by_agent`` is the result of
    ``collected_journal_host_by_agent``.
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
    if gap.missing_part is MissingJournalPartKind.JOURNAL:
        return f"{journal} was not collected: run the playbook activemq.fleet.collect again for the host of the agent"
    if gap.missing_part is MissingJournalPartKind.END:
        return (
            f"{journal} lacks record {gap.jseq} and all later records: run the playbook activemq.fleet.collect again "
            "for the host of the agent"
        )
    records = count_with_noun(gap.records, "record") if gap.records else "records"
    return (
        f"{journal} lacks {records}, from record {gap.jseq} on: run the playbook activemq.fleet.collect again for the "
        "host of the agent"
    )


def input_gaps_in_event_journals(
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
