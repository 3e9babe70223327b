"""Follow the log of one run of a broker, across the files that it was rolled into."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from activemq_fleet.lab.processes import ProcessRun
from activemq_fleet.node.host_paths import BROKER_LOG
from activemq_fleet.node.log.broker_log import find_error_in_output
from activemq_fleet.node.log.broker_run import BrokerRun
from activemq_fleet.node.log.log_records import IncrementalLogParser, Record, parse_log

_LINE_END = re.compile(r"\r?\n|\\r\\n|\\[rn]")
"""The end of a message's line, as it is or as our layout for log4j 2 writes it."""

_FATAL_OUTPUT_LINE = re.compile(
    r"guard: the guard (?:killed the broker|did not start the broker)|Terminating due to java\.lang\.OutOfMemoryError"
    r"|# A fatal error has been detected"
)
"""A line of output after which the broker's process has ended. It is the reason, whatever the log contains."""


class LogTail:
    """A reader that follows the growing log of a broker's run.

    It begins with the run, and reads only newly written text.
    """

    def __init__(self, data: Path, run: ProcessRun) -> None:
        self._data = data
        self._inode, self._offset = run.log_inode, run.log_offset
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parser = IncrementalLogParser(stacks=False)
        self._broker_run = BrokerRun()

    def read_run_state(self) -> BrokerRun:
        """Read a broker's log to its end, and return the state of the broker's current run."""
        for text in self.read_new_text():
            self._broker_run.apply_records(self._parser.feed(text))
        return self._broker_run

    def read_new_text(self) -> Iterator[str]:
        """Yield the text in the broker's log that was written since the last call.

        It is yielded file by file.
        """
        files = _log_files_and_inodes(self._data)
        first_index = next((at for at, (_, inode) in enumerate(files) if inode == self._inode), 0)
        for path, inode in files[first_index:]:
            with path.open("rb") as log:
                if os.fstat(log.fileno()).st_ino != inode:
                    return  # The file was rolled since its inode was read. The next call continues with this file.
                if inode != self._inode:
                    self._inode, self._offset = inode, 0
                log.seek(self._offset)
                content = log.read()
            self._offset += len(content)
            yield self._decoder.decode(content)


def log_records_of_broker_run(data: Path, run: ProcessRun) -> list[Record]:
    """Return the log records, with their stack traces, of one run of a broker."""
    return list(parse_log("".join(LogTail(data, run).read_new_text())))


def explain_failed_run(data: Path, run: ProcessRun) -> str:
    """Return one line of text that explains why a broker's process failed, from its log and its console output.

    It is the printed line with which the guard or Java ended the broker, else the last error in the log, else the error
    that the broker printed. 5.5 only prints why its configuration could not be loaded. Without an error it is the log's
    last warning, else the last line that was printed; empty where neither the log nor the output shows anything.
    """
    try:
        output = (data / "console.log").read_bytes().decode(errors="replace").split("\n")
    except OSError:
        output = []
    fatal_line = next(filter(_FATAL_OUTPUT_LINE.match, reversed(output)), "")
    if fatal_line:
        return fatal_line.strip()
    records = log_records_of_broker_run(data, run)
    error = last_error_with_root_cause(record for record in records if record.level in ("ERROR", "FATAL"))
    if error:
        return error
    printed = find_error_in_output(output)
    if "rror" in printed or "xception" in printed:
        return printed
    return last_error_with_root_cause(records) or printed


def last_error_with_root_cause(records: Iterable[Record]) -> str:
    """Return the last error in a broker's log, with its root cause, as one line.

    Without errors it is the last warning. Returns "" where the log holds neither.
    """
    worst: Record | None = None
    for record in records:
        if record.level in ("ERROR", "FATAL") or (record.level == "WARN" and (worst is None or worst.level == "WARN")):
            worst = record
    if worst is None:
        return ""
    message = _LINE_END.split(worst.message.strip(), maxsplit=1)[0].rpartition("; nested exception is ")[2]
    causes = [line for line in map(str.strip, worst.stack.split("\n")) if line.startswith("Caused by: ")]
    cause = (causes[-1].removeprefix("Caused by: ") if causes else worst.stack.split("\n", 1)[0]).strip()
    return f"{message}: {cause}" if cause and cause not in message and not cause.startswith("at ") else message


def _log_files_and_inodes(data: Path) -> list[tuple[Path, int]]:
    """Return a log's files and their inodes, oldest first.

    The order is by time, because log4j 1 and log4j 2 number rolled files in opposite directions.
    """
    log_files = []
    for path in data.glob(f"{BROKER_LOG}*"):
        with suppress(FileNotFoundError):
            status = path.stat()
            log_files.append((path.name == BROKER_LOG, status.st_mtime_ns, path, status.st_ino))
    return [(path, inode) for _, _, path, inode in sorted(log_files)]
