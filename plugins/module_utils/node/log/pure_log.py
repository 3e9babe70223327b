# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the runs of a pure broker from its log: whether it was attached to its peer, and whether it served alone.

A run begins with the choice of the store.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

from ..files.untrusted_paths import open_file
from ..host_paths import BROKER_LOG
from .broker_log import parse_records
from .kinds import parse_log_event
from .log_records import Record

_MAX_LINE_BYTES = 64 << 10
_MAX_RUNS = 50
_MAX_ROTATED_FILES = 20
_PROPERTY_BY_KIND = {
    "LIFE-STARTED": "started",
    "LIFE-STARTED-OLD": "started",
    "PMS-SLAVE-ATTACHED": "established",
    "PMS-SLAVE-REATTACHED": "established",
    "LIFE-MASTERFAIL-PROMOTE": "served",
    "PMS-SLAVE-NO-MASTER": "served",
}
"""The property of a run that a record proves, by the record's kind."""


def read_pure_master_slave_runs(data: str) -> list[dict[str, Any]]:
    """Read the logs of a broker of a Pure Master/Slave pair, and summarize each run of its process (start to stop).

    Returns a dict per run, oldest first. The files are activemq.log and its rotated files. At most 50 runs are
    returned. Each has ``began``, ``started``, ``attached``, ``established``, ``served``; ``began`` is empty if the
    beginning of the run is no longer in the files. Raises UntrustedPathError for a log that is not a regular file.
    """
    runs: list[dict[str, Any]] = []
    for event in filter(None, map(parse_log_event, _read_records(data))):
        is_begin, is_attached = event.kind == "LIFE-STORE-CHOSEN", event.kind == "PMS-MASTER-SAW-SLAVE"
        if not (is_begin or is_attached or event.kind in _PROPERTY_BY_KIND):
            continue
        if is_begin or not runs:
            began = f"{event.record.time:%Y-%m-%d %H:%M:%S}" if is_begin else ""
            run = {"began": began, "started": False, "attached": 0, "established": False, "served": False}
            runs = [*runs[1 - _MAX_RUNS :], run]
        if is_attached:
            runs[-1]["attached"] += 1
        elif not is_begin:
            runs[-1][_PROPERTY_BY_KIND[event.kind]] = True
    return runs


def _read_records(data: str) -> Iterator[Record]:
    for name in reversed([BROKER_LOG, *(f"{BROKER_LOG}.{number}" for number in range(1, _MAX_ROTATED_FILES + 1))]):
        with suppress(FileNotFoundError), os.fdopen(open_file(os.path.join(data, name)), "rb") as file:
            yield from parse_records(_read_lines(file))


def _read_lines(file: BinaryIO) -> Iterator[str]:
    """Yield the first 64 KiB of each line of an open log file.

    The rest of a longer line is skipped, as no record of interest is that long.
    """
    is_begin = True
    while line := file.readline(_MAX_LINE_BYTES):
        if is_begin:
            yield line.decode(errors="replace")
        is_begin = line.endswith(b"\n")
