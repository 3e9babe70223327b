# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the host's record of planned operations for ``audit``: ``/var/lib/activemq-fleet/operations.jsonl``.

Root appends one line on both nodes of a pair when a playbook begins an operation on the pair, and one when it ends. A
line has about 250 bytes, so a thousand restarts have half a megabyte. A file of more than ``LARGEST`` bytes keeps its
newest half: about four thousand lines, as many as ``audit`` reads.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress

from ..files.untrusted_paths import Directory, open_directory
from ..host_paths import OPERATIONS_FILE
from ..textfile import DIRECTORY as TEXTFILES
from ..textfile import RUN, MetricSample, to_prometheus_text

DIRECTORY = "/var/lib/activemq-fleet"
LARGEST = 2 << 20


def append_operation_record(record: Mapping[str, str], directory: str = DIRECTORY) -> str:
    """Append the record of a planned operation, such as a restart, to the host's file of operation records.

    Returns the line. It is a file of JSON lines; the host's time is added. A file that has grown too large loses its
    older half.

    Raises OSError, or UntrustedPathError for a path in which an account other than root could create a link.
    """
    line = json.dumps({"v": 1, "ts": _utc_time_text(time.time()), **record}, sort_keys=True)
    parent, name = os.path.split(directory)
    with open_directory(parent) as parent_directory, _open_or_create(parent_directory, name) as record_directory:
        # The directory is locked: a writer that waited for a lock of the file would write to the replaced file.
        fcntl.flock(record_directory.descriptor, fcntl.LOCK_EX)
        with suppress(FileExistsError):
            os.close(record_directory.create_and_open_file(OPERATIONS_FILE))
        with os.fdopen(
            record_directory.open_file(OPERATIONS_FILE, {os.geteuid()}, single_name=True, write=True),
            "r+b",
            buffering=0,
        ) as file:
            size = file.seek(0, os.SEEK_END)
            # The previous line may be incomplete, if the disk was full.
            is_incomplete = size > 0 and os.pread(file.fileno(), 1, size - 1) != b"\n"
            data = (b"\n" if is_incomplete else b"") + line.encode() + b"\n"
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.path.join(directory, OPERATIONS_FILE))
            os.fsync(file.fileno())
            newest = _newest_half(file.fileno(), size + len(data))
        if newest:
            with suppress(OSError):  # a full disk: the record is written, and the next call trims the file
                record_directory.replace_file(OPERATIONS_FILE, newest)
    return line


def write_operation_in_progress_metrics(kind: str, operation: str, labels: Mapping[str, str], run: str = RUN) -> None:
    """Write to a node exporter file whether an operation, such as an upgrade, is in progress on a broker's pair.

    The textfile collector reads the file. It is ``RUN/activemq-fleet/HOST.prom``, which every account
    may read; ``labels`` must contain ``host``.

    Raises OSError, or UntrustedPathError for a path in which an account other than root could create a link.
    """
    help_text = "1 while a playbook works on the broker's pair"
    operation_label = {"operation": operation}
    samples = [
        MetricSample("activemq_operation_running", "gauge", help_text, int(kind == "begin"), operation_label),
        MetricSample(
            "activemq_operation_changed_timestamp_seconds",
            "gauge",
            "time of the last change of activemq_operation_running, in seconds since the epoch",
            time.time(),
            operation_label,
        ),
    ]
    with open_directory(run) as parent_directory, _open_or_create(parent_directory, TEXTFILES, 0o755) as metrics:
        metrics.replace_file(f"{labels['host']}.prom", to_prometheus_text(samples, labels), mode=0o644)


def _newest_half(descriptor: int, size: int) -> bytes:
    """Return the last complete lines, ``LARGEST``/2 bytes, of a file that is too large; empty for a smaller file."""
    if size <= LARGEST:
        return b""
    return os.pread(descriptor, LARGEST // 2, size - LARGEST // 2).partition(b"\n")[2]


def _open_or_create(parent_directory: Directory, name: str, mode: int = 0o700) -> Directory:
    try:
        return parent_directory.create_and_open_directory(name, mode)
    except FileExistsError:
        return parent_directory.open_subdirectory(name)


def _utc_time_text(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1e6):06d}Z"
