"""Report what is missing from an audit's input, by what was read of logs and journals."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from activemq_fleet.audit.journal_lines import JournalFileSummary
from activemq_fleet.audit.journals import JournalGap
from activemq_fleet.audit.log_summaries import LogFileSummary
from activemq_fleet.audit.result import UNREAD, Gap
from activemq_fleet.logs.rolled_files import missing_files

_CUT = re.compile(r"\b(?:cut|truncated|damaged|missing)\b", re.IGNORECASE)
"""Words of problems that mean that bytes are missing; others are bytes that were there and no text."""
MOST_GAPS = 500


def log_gaps(logs: Sequence[LogFileSummary], names: Mapping[str, Iterable[str]]) -> list[Gap]:
    """Return the gaps in log files: files that are cut off or missing, and records that could not be parsed.

    ``names`` are those of all log files by host. Records that could not be parsed weigh where they are many.
    """
    problems = sorted({(one.host, one.file, what) for one in logs for what in one.problems})
    gaps = [
        Gap(host, what.replace("N ", "some "), file, weighs=_CUT.search(what) is not None)
        for host, file, what in problems
    ]
    gaps += [Gap(host, what) for host, mine in sorted(names.items()) for what in missing_files(mine)]
    unread = sorted((one for one in logs if one.unread), key=lambda one: (-one.unread, one.host, one.file))
    return gaps + [
        Gap(
            one.host,
            f"{one.unread} of {one.rows} records could not be read",
            one.file,
            one.first_unread,
            weighs=one.unread > UNREAD * one.rows,
        )
        for one in unread[:MOST_GAPS]
    ]


def gap_order(gap: JournalGap) -> tuple[str, str, int]:
    """Return the sort key of a journal's gap: agent, epoch and number of the first missing record."""
    return gap.agent, gap.epoch, gap.jseq


def foreign_claims(files: Iterable[JournalFileSummary], host_of: Mapping[str, str]) -> list[Gap]:
    """Return a gap for each file with lines of an agent whose journal another host has, the first ``MOST_GAPS``.

    ``host_of`` is what ``journal_hosts`` returns.
    """
    claims = sorted(
        {
            (part.host, part.file, part.agent)
            for file in files
            for part in file.parts.values()
            if part.agent is not None and host_of.get(part.agent, part.host) != part.host
        }
    )
    return [
        Gap(host, f"lines of the agent {agent}, whose journal is that of {host_of[agent]}: they do not count", file)
        for host, file, agent in claims[:MOST_GAPS]
    ]


def journal_gaps(gaps: Iterable[JournalGap], files: Iterable[JournalFileSummary]) -> list[Gap]:
    """Return the first ``MOST_GAPS`` gaps of journals, and as many files with unreadable lines, as gaps for the report.

    Each makes the audit incomplete."""
    found = [
        Gap(
            one.agent,
            f"journal of epoch {one.epoch}: {one.what} from record {one.jseq}"
            + (f" ({one.records})" if one.records else ""),
        )
        for one in sorted(gaps, key=gap_order)[:MOST_GAPS]
    ]
    malformed = sorted(
        (one.host, one.file, first, count, problem) for one in files for problem, (count, first) in one.problems.items()
    )
    return found + [
        Gap(host, f"{count} line{'' if count == 1 else 's'}: {problem}", file, first)
        for host, file, first, count, problem in malformed[:MOST_GAPS]
    ]
