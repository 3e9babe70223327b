"""Summarize the events of each log file while it is read, for a report and its gaps."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from activemq_fleet.audit.aggregates import SortedSample, sorted_sample
from activemq_fleet.logs.host_log_batches import LINES

_DIGITS = re.compile(r"\d+")
STOPPED_KINDS = frozenset({"LIFE-STOPPED", "LIFE-STOPPED-OLD"})
"""The kinds of the last record of a broker that stops."""
RUNNING_KINDS = frozenset({"LIFE-STARTED", "LIFE-STARTED-OLD", "LIFE-STOPPING"})
"""The kinds of records of a run that other records of the same run precede."""
_BEGINNING_KINDS = frozenset({"LIFE-REFRESH", "LIFE-STORE-CHOSEN", "LIFE-STARTING", "LIFE-STARTING-OLD"})
_RUN_KINDS = pa.array(sorted(STOPPED_KINDS | RUNNING_KINDS | _BEGINNING_KINDS))
_CLASS_NAME = r"^[\w$-]{2,}\."  # not o.a.a.b.BrokerService


@dataclass(slots=True)
class LogFileSummary:
    """A summary of the log events (parsed log records) in one log file of a broker.

    It has the number of events, the numbers of unknown and of unreadable ones, their problems and their times.
    ``order``: the file's position among its host's, 0 the oldest. ``rows``: events, of which ``unknown`` are of no
    known kind and ``unread`` could not be parsed, the first at line ``first_unread``. ``has_loggers``: whether a record
    has its logger, and ``has_class_names`` whether a logger is a class with its package. ``problems``: texts about the
    bytes, with N for numbers. ``last``: the latest time, in microseconds since 1970; ``times``: samples of all times.
    ``first_run_kind`` and ``last_run_kind``: the kinds of the first and the last record about a broker's start or stop.
    """

    host: str
    file: str
    order: int
    rows: int = 0
    unknown: int = 0
    unread: int = 0
    first_unread: int | None = None
    has_loggers: bool = False
    has_class_names: bool = False
    last: int | None = None
    first_run_kind: str | None = None
    last_run_kind: str | None = None
    problems: set[str] = field(default_factory=set)
    times: list[SortedSample] = field(default_factory=list)

    @classmethod
    def empty_for_batch(cls, batch: pa.RecordBatch) -> LogFileSummary:
        """Return an empty summary of the log file from which a batch of log events was read."""
        host, file, sequence = (batch.column(name)[0].as_py() for name in ("host", "file", "sequence"))
        return cls(host, file, sequence // LINES)

    def count_events(self, batch: pa.RecordBatch) -> None:
        """Count a batch of log events in the summary of their log file.

        The columns of the batch are those of ``host_log_batches.arrow_log_record_batches_of_host``.
        """
        self.rows += batch.num_rows
        self.unknown += pc.sum(pc.equal(batch.column("kind"), "UNKNOWN")).as_py() or 0
        unread = batch.num_rows - batch.column("parsed").true_count
        if unread and self.first_unread is None:
            self.first_unread = batch.column("line").filter(pc.invert(batch.column("parsed")))[0].as_py()
        self.unread += unread
        if not self.has_class_names:
            loggers = batch.column("logger").drop_null()
            self.has_loggers |= len(loggers) > 0
            self.has_class_names = bool(pc.any(pc.match_substring_regex(loggers, _CLASS_NAME)).as_py())
        run_kinds = batch.column("kind").filter(pc.is_in(batch.column("kind"), _RUN_KINDS))
        if len(run_kinds):
            self.first_run_kind = self.first_run_kind or run_kinds[0].as_py()
            self.last_run_kind = run_kinds[-1].as_py()
        self.problems |= {_DIGITS.sub("N", text) for text in batch.column("problem").drop_null().to_pylist()}
        times = batch.column("time").drop_null().cast(pa.int64())
        if len(times):
            self.last = max(self.last or 0, pc.max(times).as_py())
            self.times.append(sorted_sample(times.to_numpy()))

    def to_dict(self) -> dict[str, Any]:
        """Return the summary of a log file as a dictionary that can be written as JSON."""
        return {**asdict(self), "problems": sorted(self.problems)}

    @classmethod
    def from_dict(cls, summary: Mapping[str, Any]) -> LogFileSummary:
        """Return the summary of a log file from its JSON dictionary, which ``to_dict`` returned.

        Raises TypeError for another dictionary.
        """
        times = [SortedSample(seen, tuple(values)) for seen, values in summary["times"]]
        return cls(**{**summary, "problems": set(summary["problems"]), "times": times})
