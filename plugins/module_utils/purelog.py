# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""What the log of a pure broker says of its runs: whether it was attached, and whether it served alone.

A small part of the grammar in ``activemq_fleet.logs``. A run begins with the choice of the store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any

_RECORD = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),\d{3} \| +[A-Z]+ +\| (.*)")
_KEPT = 50
_FILES = 20
_MEANINGS = (
    ("began", re.compile(r"Using Persistence Adapter: ")),
    ("started", re.compile(r"(?:Apache ActiveMQ \S+|ActiveMQ JMS Message Broker) \([^()]+\) started")),
    ("attached", re.compile(r"(?:Passive|Active|\d+) Slave Broker .+ is attached")),
    ("established", re.compile(r"Slave connection between .+ and .+ has been (?:re)?established\.")),
    ("served", re.compile(r"Master Failed - starting all connectors")),
    ("served", re.compile(r"Failed to start network bridge: ")),
)


def runs(data: str) -> list[dict[str, Any]]:
    """The runs of which ``data``/activemq.log and those before it tell, oldest first.

    One whose beginning is not told any more has no ``began``.
    """
    found: list[dict[str, Any]] = []
    for name in reversed(["activemq.log", *(f"activemq.log.{number}" for number in range(1, _FILES + 1))]):
        try:
            with open(os.path.join(data, name), encoding="utf-8", errors="replace") as file:
                _follow(file, found)
        except FileNotFoundError:
            continue
    return found[-_KEPT:]


def _follow(lines: Iterable[str], found: list[dict[str, Any]]) -> None:
    for line in lines:
        record = _RECORD.match(line)
        if not record:
            continue
        meaning = next((meaning for meaning, pattern in _MEANINGS if pattern.match(record[2])), None)
        if meaning is None:
            continue
        if meaning == "began" or not found:
            found.append({"began": "", "started": False, "attached": 0, "established": False, "served": False})
        if meaning == "began":
            found[-1]["began"] = record[1]
        elif meaning == "attached":
            found[-1]["attached"] += 1
        else:
            found[-1][meaning] = True
