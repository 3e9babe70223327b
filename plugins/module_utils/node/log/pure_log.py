# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the runs of a pure broker from its log: whether it was attached to its peer, and whether it served alone.

A small part of the grammar in ``activemq_fleet.logs``. A run begins with the choice of the store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, BinaryIO

from ..files.untrusted_paths import open_file
from . import broker_log

_LONGEST = 64 << 10
_KEPT = 50
_FILES = 20
_BROKER = ("BrokerService",)
_SLAVE = ("MasterConnector",)
# The meaning of a record, the classes that write it, and its text.
_MEANINGS = (
    ("began", _BROKER, re.compile(r"Using Persistence Adapter: ")),
    ("started", _BROKER, re.compile(r"(?:Apache ActiveMQ \S+|ActiveMQ JMS Message Broker) \([^()]+\) started")),
    ("attached", ("TransportConnection",), re.compile(r"(?:Passive|Active|\d+) Slave Broker .+ is attached")),
    ("established", _SLAVE, re.compile(r"Slave connection between .+ and .+ has been (?:re)?established\.")),
    ("served", _BROKER, re.compile(r"Master Failed - starting all connectors")),
    ("served", _SLAVE, re.compile(r"Failed to start network bridge: ")),
)


def read_runs(data: str) -> list[dict[str, Any]]:
    """Return what activemq.log and its rolled files tell of a pure master or slave: a dict per run, oldest first.

    At most 50 runs; each has ``began``, ``started``, ``attached``, ``established``, ``served``; ``began`` is empty for
    a run whose beginning was rolled away. Raises UntrustedPathError for a log that is no regular file.
    """
    found: list[dict[str, Any]] = []
    for name in reversed(["activemq.log", *(f"activemq.log.{number}" for number in range(1, _FILES + 1))]):
        with suppress(FileNotFoundError), os.fdopen(open_file(os.path.join(data, name)), "rb") as file:
            _follow(_lines(file), found)
    return found[-_KEPT:]


def _lines(file: BinaryIO) -> Iterator[str]:
    """Yield the first 64 KiB of each line.

    The rest of a longer line is skipped, as no record of interest is that long.
    """
    is_begin = True
    while line := file.readline(_LONGEST):
        if is_begin:
            yield line.decode(errors="replace")
        is_begin = line.endswith(b"\n")


def _follow(lines: Iterable[str], found: list[dict[str, Any]]) -> None:
    for record in broker_log.parse_records(line.rstrip("\n") for line in lines):
        meaning = _meaning(record)
        if meaning is None:
            continue
        if meaning == "began" or not found:
            del found[:-_KEPT]
            found.append({"began": "", "started": False, "attached": 0, "established": False, "served": False})
        if meaning == "began":
            found[-1]["began"] = record.time
        elif meaning == "attached":
            found[-1]["attached"] += 1
        else:
            found[-1][meaning] = True


def _meaning(record: broker_log.Record) -> str | None:
    return next(
        (
            name
            for name, classes, text in _MEANINGS
            if record.is_by(classes) and text.match(record.message[: broker_log.SEARCHED])
        ),
        None,
    )
