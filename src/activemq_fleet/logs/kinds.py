"""Name the kinds of log messages of ActiveMQ 5.3.0 to 6.3.1: those of ``node.log``, and more as data.

``kinds.json`` was made from the source of all 114 release tags of apache/activemq and checked against the logs of real
brokers; ``releases`` lists the releases that write a message, with its level. An entry without an expression is a kind
of ``node.log.kinds``, which hosts read too. ``kinds_extra.json`` holds further kinds that real logs show often; their
ids begin with ``X-`` and they are tried last. ``classes`` are the classes whose source has the message in any release.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from activemq_fleet.node.log.kinds import KINDS, LogMessageKind

_FILES = ("kinds.json", "kinds_extra.json")


@cache
def _entries() -> dict[str, dict[str, Any]]:
    texts = [(files("activemq_fleet.logs") / name).read_text(encoding="utf-8") for name in _FILES]
    return {entry["id"]: entry for text in texts for entry in json.loads(text)}


def log_message_kind_ids() -> tuple[str, ...]:
    """Return the ids of all kinds of log messages.

    A message is compared with them in this order.
    """
    return tuple(_entries())


@cache
def log_message_kind(id_: str) -> LogMessageKind:
    """Return the kind of log message with the given id.

    It is compiled on first use. The function raises KeyError for an unknown id.
    """
    entry = _entries()[id_]
    if "regex" not in entry:
        return replace(KINDS[id_], releases=entry["releases"])
    return LogMessageKind(id_, re.compile(entry["regex"]), frozenset(entry.get("classes", ())), entry["releases"])
