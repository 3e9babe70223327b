# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads a broker's log files: the records of one process, its phase (starting, waiting, started …), and its last error.

Sockets and answers of the broker always take precedence over its log.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime

from ..files.untrusted_paths import UntrustedPathError, open_directory, open_file_owned_by_directory_owner_or_root
from ..host_paths import BROKER_LOG
from ..masking import mask_and_shorten
from .broker_run import BrokerRun, LoggedBrokerPhase
from .kinds import COMPARED
from .log_layouts import READABLE_LAYOUTS
from .log_records import Record, parse_log
from .root_cause import CAUSE, root_cause

_ERROR_LEVELS = ("ERROR", "FATAL")
_CLIENT_CONNECTION = re.compile(
    r"Could not accept connection|Security Error occurred on connection|Transport Connection to: "
)
"""Messages about the connection of one client, such as a probe, which never stop a broker."""
_HARMLESS_RECORD = re.compile(r"\s*(?:TRACE|DEBUG|INFO|WARN)\s*\|")
"""The beginning of a log record on the console that is not an error."""
_ERROR_RECORD = re.compile(r"\s*(?:ERROR|FATAL)\s*\|")
_STACK_TRACE_LINE = re.compile(r"  |\t|(?:[a-z]\w*\.)+\w*(?:Exception|Error)\b")
"""The beginning of a line of a stack trace on the console, which the configuration of some releases indents."""
_LINE_END = re.compile(r"\\r\\n|\\[rn]")
_STACK_FRAME = re.compile(r"\s*(?:at \S+\(.*\)?$|\.\.\. \d+ (?:more|common frames omitted))")
_ERROR_TEXT = re.compile(r"(?:[a-z]\w*\.)+\w*(?:Exception|Error)\b|\b(?:ERROR|Error|Unrecognized|Invalid|Could not)\b")
_MAX_CHARACTERS = 400
_TIME_TOLERANCE = 1.5  # seconds
_MIN_MESSAGE_CHARACTERS = 120
"""Minimum number of characters of a message that are shown before its cause."""
# Far more than a start writes; a log that was rotated since then has no records of the start.
_MAX_BYTES = 4 << 20


def read_broker_phase(data_directory: str, since: float) -> LoggedBrokerPhase:
    """Return the phase of a broker, such as starting or started, from the log in its data directory.

    Records older than ``since`` (epoch seconds) are skipped. The file is ``activemq.log``.
    """
    return phase_of_process_since(read_log_records(data_directory, since), since)


def phase_of_process_since(records: Sequence[Record], since: float) -> LoggedBrokerPhase:
    """Return the phase, such as starting or started, of the broker process started at ``since``, from its log records.

    ``since`` is in epoch seconds. Pure.
    """
    # No JVM starts a broker within one second: earlier records belong to the previous process.
    process_phase = phase_after_records(_records_in_period(records, since + _TIME_TOLERANCE))
    return replace(phase_after_records(records), has_started=process_phase.has_started)


def read_log_records(data_directory: str, since: float) -> list[Record]:
    """Read the records that a broker has written to its log since a time, and return them.

    They are those of activemq.log and the file before it in ``data_directory``. ``since`` is in seconds since the
    epoch; of each file its last 4 MiB are read. Records have their stack traces, which can hold the error of a bridge.
    """
    lines = [*_read_last_lines(data_directory, f"{BROKER_LOG}.1"), *_read_last_lines(data_directory, BROKER_LOG)]
    return _records_in_period(list(_complete_records(lines, stacks=True)), since)


def unreadable_log_reason(data_directory: str, since: float) -> str:
    """Return the reason why a broker's log cannot be read; empty for a readable log.

    The broker's process began at ``since``. The log is ``activemq.log`` in ``data_directory``. A log that the
    process has not written to is readable: nothing is missing in it.
    """
    try:
        was_written = os.lstat(os.path.join(data_directory, BROKER_LOG)).st_mtime >= since
    except OSError:
        return ""
    lines = _read_last_lines(data_directory, BROKER_LOG)
    if not was_written or not any(line.strip() for line in lines) or read_log_records(data_directory, since):
        return ""
    newest = max((record.time for record in parse_records(lines)), default=None)
    if newest is None:
        return f"the layout of the records in activemq.log is not supported: {READABLE_LAYOUTS}"
    return (
        f"the newest readable record in activemq.log has the time {newest:%Y-%m-%d %H:%M:%S}, which is before "
        f"the start of the broker's process. If the layout of the log was changed, {READABLE_LAYOUTS}. If the "
        "broker logs times in a different time zone than the host, set the broker's time zone to that of the host"
    )


def last_logged_error(data_directory: str, since: float = 0) -> str:
    """Return the last error in a broker's log since a time, on one line, with secrets masked; "" if there is none.

    Its root cause is included. ``since`` is in seconds since the epoch.
    """
    complete_records = list(_complete_records(_read_last_lines(data_directory, BROKER_LOG), stacks=True))
    records = _records_in_period(complete_records, since)
    errors = [
        record for record in records if record.level in _ERROR_LEVELS and not _CLIENT_CONNECTION.search(record.message)
    ]
    if not errors:
        return ""
    return _join_error_and_cause(errors[-1].message, root_cause(errors[-1].stack.split("\n")))


def find_error_in_output(lines: Sequence[str]) -> str:
    """Return the error in lines of output of a process, on one line with secrets masked.

    It is the root cause, else the first error.

    The process has ended; the lines are its last ones. Without an error the last line is returned, and "" without
    lines. Frames of a stack trace, also those that are only counted (``... 20 more``), are skipped, and so are log
    records that are no error or concern the connection of one client, with their stack traces.
    """
    lines = list(_without_harmless_records([line[:COMPARED] for line in lines]))
    output_lines = [line.strip() for line in lines if line.strip() and not _STACK_FRAME.match(line)]
    error = next((line for line in output_lines if _ERROR_TEXT.search(line)), output_lines[-1] if output_lines else "")
    return _join_error_and_cause("" if error.startswith(CAUSE) else error, root_cause(lines))


def _without_harmless_records(lines: Iterable[str]) -> Iterator[str]:
    is_harmless = False
    for line in lines:
        if _HARMLESS_RECORD.match(line) or (_ERROR_RECORD.match(line) and _CLIENT_CONNECTION.search(line)):
            is_harmless = True
        elif not (_STACK_TRACE_LINE.match(line) or _STACK_FRAME.match(line) or line.lstrip().startswith(CAUSE)):
            is_harmless = False
        if not is_harmless:
            yield line


def _join_error_and_cause(error: str, cause: str) -> str:
    """Return error and cause on one line; when it is too long, the end of the message is cut and never the cause."""
    error, cause = (
        mask_and_shorten(" ".join(_LINE_END.sub(" ", text).split()), _MAX_CHARACTERS) for text in (error, cause)
    )
    if not cause or cause in error:
        return error
    if len(error) + len(cause) > _MAX_CHARACTERS:
        error = error[: max(_MAX_CHARACTERS - len(cause), _MIN_MESSAGE_CHARACTERS)] + "…"
    return f"{error}: {cause}" if error else cause


def _read_last_lines(data_directory: str, name: str) -> list[str]:
    try:
        with open_directory(data_directory) as directory:
            descriptor = open_file_owned_by_directory_owner_or_root(directory, name)
        with os.fdopen(descriptor, "rb") as file:
            start = max(0, os.fstat(file.fileno()).st_size - _MAX_BYTES)
            file.seek(start)
            lines = file.read(_MAX_BYTES).decode(errors="replace").split("\n")
            # The first line may be incomplete.
            return lines[1:] if start else lines
    except (UntrustedPathError, OSError):
        return []


def parse_records(lines: Iterable[str]) -> Iterator[Record]:
    """Parse lines of a broker's log, and yield the log records in them.

    A record without logger and thread is left out.
    """
    return _complete_records(lines, stacks=False)


def _complete_records(lines: Iterable[str], *, stacks: bool) -> Iterator[Record]:
    return (record for record in parse_log(lines, stacks=stacks) if record.logger)


def _records_in_period(records: Sequence[Record], since: float) -> list[Record]:
    """Return the records that were written after ``since`` and not in the future, in the order of the log.

    The tolerance is 1.5 s, because the log has whole seconds.
    """
    now = time.time()
    return [
        record
        for record, logged_at in zip(records, epoch_seconds_of_log_records(records, now))
        if since - _TIME_TOLERANCE <= logged_at <= now + _TIME_TOLERANCE
    ]


def epoch_seconds_of_log_records(records: Sequence[Record], until: float) -> list[float]:
    """Return a list of the times of log records, in their order, in seconds since the epoch, without milliseconds.

    The records are given in the order of the log, and were written until ``until``. In the hour that the clocks of an
    autumn night show twice, the log has no record after a later one: times before a step back are those of the first
    occurrence.
    """
    times = []
    for record in reversed(records):
        until = log_time_to_epoch_seconds(record.time, until)
        times.append(until)
    return times[::-1]


def log_time_to_epoch_seconds(local_time: datetime, until: float) -> float:
    """Return the local time of a log record in seconds since the epoch, without milliseconds.

    A time that occurs twice, in an autumn night, is the second occurrence, if this is not after ``until``.
    """
    try:
        first, second = (local_time.replace(microsecond=0, fold=fold).timestamp() for fold in (0, 1))
    except (ValueError, OverflowError):  # Any client can write a record with a year such as 1.
        return time.mktime(local_time.timetuple())
    return second if first < second <= until + _TIME_TOLERANCE else first


def phase_after_records(records: Iterable[Record]) -> LoggedBrokerPhase:
    """Return the phase of a broker (starting, waiting, started …) after it wrote the given log records.

    Pure.
    """
    return BrokerRun().apply_records(records).logged_phase
