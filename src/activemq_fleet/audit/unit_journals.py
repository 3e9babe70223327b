"""Read the systemd journals of brokers' units, as ``collect`` and ``journalctl`` write them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from activemq_fleet.audit.evidence import SystemdJournalRecord
from activemq_fleet.audit.journal_lines import lines_with_number_and_problem
from activemq_fleet.node.log.unit_records import HEALTHY_AGAIN, KILL_FAILED, event_of_unit_record
from activemq_fleet.node.printable import escape_unprintable

LARGEST_UNIT_JOURNAL = 1 << 28
"""Largest number of bytes of a systemd journal, which is a single value in Spark; collect writes 25 MB by default."""
_MAXIMUM_REASON_LENGTH = 300  # characters of a reason
# The outputs short-iso, short-iso-precise and short-unix of journalctl.
_LINE = re.compile(
    r"(?:(?P<date>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?)(?P<zone>Z|[+-]\d\d:?\d\d)|(?P<seconds>\d{9,11}\.\d{1,6})) "
    r"\S+ (?P<identifier>[^\s\[\]:]+)(?:\[\d+\])?: (?P<message>.*)"
)
_MARKERS = (
    "the broker is hung: ", KILL_FAILED, HEALTHY_AGAIN, "the guard killed ", "OOM killer", "oom-kill",
    "ain process exited, ",
)  # fmt: skip
"""A line without any of these texts is of no known kind."""


def systemd_journal_records(host: str, unit: str | None, content: memoryview) -> Iterator[SystemdJournalRecord]:
    """Yield the records in a systemd journal of a host.

    They are records of known kinds, in order. Other lines are ignored. systemd's records count only if they are about
    ``unit``, the broker's unit. The content may be gzip.
    """
    for number, text, _ in lines_with_number_and_problem(content):
        if text is None or not any(needle in text for needle in _MARKERS):
            continue
        fields = _fields_of_json(text) if text.startswith("{") else _fields_of_line(text)
        if fields is None:
            continue
        at, identifier, message = fields
        event = event_of_unit_record(identifier, message)
        if event is not None and event.fields.get("unit") in (None, unit):
            fields_shown = {
                name: escape_unprintable(value)[:_MAXIMUM_REASON_LENGTH] for name, value in event.fields.items()
            }
            yield SystemdJournalRecord(host, number, at, event.kind, fields_shown)


def _fields_of_line(text: str) -> tuple[datetime, str, str] | None:
    """Return time, program and message of a line of a systemd journal; None for a line of another format."""
    line = _LINE.match(text.rstrip("\r"))
    if line is None:
        return None
    try:
        if line["seconds"]:
            at = datetime.fromtimestamp(float(line["seconds"]), UTC)
        else:
            at = datetime.fromisoformat(f"{line['date']}{line['zone']}").astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return at, line["identifier"], line["message"]


def _fields_of_json(text: str) -> tuple[datetime, str, str] | None:
    """Return time, program and message of a systemd journal line in JSON; None for a line of another format."""
    try:
        fields: Any = json.loads(text)
        at = datetime.fromtimestamp(int(fields["__REALTIME_TIMESTAMP"]) / 1e6, UTC)
        identifier, message = fields["SYSLOG_IDENTIFIER"], fields["MESSAGE"]
    except (ValueError, TypeError, KeyError, OverflowError, OSError, RecursionError):
        return None
    return (at, identifier, message) if isinstance(identifier, str) and isinstance(message, str) else None
