# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Finds in a broker's log the bridges that break repeatedly, each time soon after they came up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from .broker_log import log_time_to_epoch_seconds
from .kinds import parse_log_event
from .log_records import Record

BREAKS = 3
"""A bridge that broke so many times in a row breaks repeatedly."""
SOON = 10.0
"""Seconds after it came up within which a bridge breaks soon."""
RECENT = 120.0
"""Seconds since the last break after which the bridge is no longer reported."""
_LONGEST = 300


def flapping_bridges(records: Sequence[Record], now: float) -> list[dict[str, Any]]:
    """Return the flapping network bridges of a broker: those that broke repeatedly soon after they were established.

    They are found in the records of the broker's log, and flap at ``now`` (seconds since the epoch). The result is a
    list of dicts. Each has ``peer`` (the remote brokerName), ``count``, ``first`` and ``last`` (seconds since the
    epoch), ``error``, the most frequent one, and ``destination`` of the message that it was about to forward; both are
    empty where the log does not name them. Pure.
    """
    up: dict[str, tuple[str, float]] = {}
    times: dict[str, list[float]] = {}
    errors: dict[str, Counter[str]] = {}
    for event in filter(None, map(parse_log_event, records)):
        if not event.kind.startswith("NET-"):
            continue
        at = log_time_to_epoch_seconds(event.record.time) + event.record.time.microsecond / 1e6
        local, peer = event.fields.get("local", ""), event.fields.get("peer", "")
        if event.kind == "NET-UP":
            up[local] = peer, at
            continue
        if event.kind == "NET-DOWN":
            local = _bridge_to(peer, up)
        peer, began = up.pop(local, ("", at))
        if not peer:
            continue
        if at - began > SOON:
            for known in (times, errors):
                known.pop(peer, None)
        else:
            times.setdefault(peer, []).append(at)
            if "e" in event.fields:
                errors.setdefault(peer, Counter())[event.fields["e"][:_LONGEST]] += 1
    return [
        {
            "peer": peer,
            "count": len(breaks),
            "first": breaks[0],
            "last": breaks[-1],
            "error": _most_frequent(errors.get(peer)),
        }
        for peer, breaks in times.items()
        if len(breaks) >= BREAKS and now - breaks[-1] <= RECENT and not _lasts(peer, up, now)
    ]


def _bridge_to(peer: str, up: dict[str, tuple[str, float]]) -> str:
    return next((local for local, (name, _unused) in up.items() if name == peer), "")


def _lasts(peer: str, up: dict[str, tuple[str, float]], now: float) -> bool:
    return any(name == peer and now - began > SOON for name, began in up.values())


def _most_frequent(texts: Counter[str] | None) -> str:
    return texts.most_common(1)[0][0] if texts else ""
