# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Finds in a broker's log the bridges that break repeatedly, each time soon after they came up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..masking import mask_and_shorten
from .broker_log import epoch_seconds_of_log_records
from .kinds import parse_log_event
from .log_records import Record

MIN_BREAKS_OF_STATUS = 3
"""Number of consecutive breaks from which on a status reports a bridge. Fewer suffice than for an incident of an audit,
because a status only reports a bridge that still breaks."""
BREAK_AFTER_START = 10.0
"""Seconds after its start within which a break of a bridge counts."""
RECENT = 120.0
"""Seconds since the last break after which a status no longer reports the bridge."""
_FRAME_ERRORS = ("MaxFrameSizeExceeded", "larger than max allowed")
_MAX_ERROR_CHARACTERS = 300


def flapping_bridges(records: Sequence[Record], now: float) -> list[dict[str, Any]]:
    """Return the flapping network bridges of a broker: those that broke repeatedly soon after they were established.

    They are found in the records of the broker's log, and flap at ``now`` (seconds since the epoch). The result is a
    list of dicts. Each has ``peer`` (the remote brokerName), ``count``, ``first`` and ``last`` (seconds since the
    epoch), and ``error``, the most frequent one with secrets masked, which is empty where the log does not name one.
    Pure.
    """
    established: dict[str, tuple[str, float]] = {}
    times: dict[str, list[float]] = {}
    errors: dict[str, Counter[str]] = {}
    for record, logged_second in zip(records, epoch_seconds_of_log_records(records, now)):
        event = parse_log_event(record)
        if event is None or not event.kind.startswith("NET-"):
            continue
        logged_at = logged_second + record.time.microsecond / 1e6
        local, peer = event.fields.get("local", ""), event.fields.get("peer", "")
        if event.kind == "NET-UP":
            established[local] = peer, logged_at
            continue
        if event.kind == "NET-DOWN":
            local = _local_end_of_bridge(peer, established)
        peer, established_at = established.pop(local, ("", logged_at))
        if not peer:
            continue
        if logged_at - established_at > BREAK_AFTER_START:
            for history in (times, errors):
                history.pop(peer, None)
        else:
            times.setdefault(peer, []).append(logged_at)
            if "e" in event.fields:
                errors.setdefault(peer, Counter())[event.fields["e"]] += 1
    return [
        {
            "peer": peer,
            "count": len(breaks),
            "first": breaks[0],
            "last": breaks[-1],
            "error": mask_and_shorten(_most_frequent(errors.get(peer)), _MAX_ERROR_CHARACTERS),
        }
        for peer, breaks in times.items()
        if len(breaks) >= MIN_BREAKS_OF_STATUS and now - breaks[-1] <= RECENT and not _is_stable(peer, established, now)
    ]


def is_frame_size_error(text: str) -> bool:
    """Return whether the text of a bridge error or of a log record reports a frame above ``maxFrameSize``."""
    return any(error in text for error in _FRAME_ERRORS)


def _local_end_of_bridge(peer: str, established: dict[str, tuple[str, float]]) -> str:
    return next((local for local, (name, _unused) in established.items() if name == peer), "")


def _is_stable(peer: str, established: dict[str, tuple[str, float]], now: float) -> bool:
    return any(
        name == peer and now - established_at > BREAK_AFTER_START for name, established_at in established.values()
    )


def _most_frequent(texts: Counter[str] | None) -> str:
    return texts.most_common(1)[0][0] if texts else ""
