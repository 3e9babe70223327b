# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""The kinds of records in the systemd journals of a broker's units: of its watchdog, of its guard and of systemd.

The watchdog (``watchdog.hang_detection``, ``watchdog.watchdog``) and the guard (``fence.guard``, ``fence.guard_cli``)
print the messages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_HUNG = re.compile(r"the broker is hung: \d+ checks in (?P<seconds>\d{1,6}) s got no answer; (?P<reason>.*?), and ")
"""The beginning of ``hang_detection.format_hung_broker_message``.

``seconds`` is the time since the first check without an answer.
"""
KILL_FAILED = "the watchdog could not kill process"
"""The beginning of the watchdog's record of a failed kill."""
HEALTHY_AGAIN = "the broker is healthy again: "
"""The beginning of the watchdog's record of a broker that answers again."""
_MAX_CHARACTERS = 4000
"""Characters of a message that are compared with the kinds."""
_WATCHDOG = "watchdog"
_GUARD = "guard"
_SYSTEMD = "systemd"
_EXPRESSIONS = {
    _WATCHDOG: {
        "WATCHDOG-KILLS": rf"(?=.* The watchdog kills it; ){_HUNG.pattern}",
        "WATCHDOG-HUNG": _HUNG.pattern,
        "WATCHDOG-KILL-FAILED": KILL_FAILED,
        "WATCHDOG-HEALTHY": HEALTHY_AGAIN,
    },
    _GUARD: {"GUARD-KILLED": r"guard: the guard killed the broker, because (?P<reason>.+)\. This node restarts as "},
    _SYSTEMD: {
        "UNIT-OUT-OF-MEMORY": r"(?P<unit>\S+): (?:A process of this unit has been killed by the OOM killer\.|"
        r"Failed with result 'oom-kill'\.)",
        "UNIT-EXITED": r"(?P<unit>\S+): [Mm]ain process exited, (?P<status>code=\w+, status=[\w/]+)",
    },
}
_KINDS = {
    writer: {kind: re.compile(expression) for kind, expression in expressions.items()}
    for writer, expressions in _EXPRESSIONS.items()
}


@dataclass(frozen=True)
class UnitEvent:
    """An event of a systemd unit, from a record of the systemd journal.

    The record is of a known kind, and the event has the values of its message.
    """

    kind: str
    fields: Mapping[str, str]


def event_of_unit_record(identifier: str, message: str) -> UnitEvent | None:
    """Return the event that a systemd journal record of a unit reports; None for a record of another kind.

    ``identifier`` is its program.
    """
    writer = identifier if identifier == _SYSTEMD else identifier.rpartition("-")[2]
    for kind, regex in _KINDS.get(writer, {}).items():
        match = regex.match(message[:_MAX_CHARACTERS])
        if match is not None:
            return UnitEvent(kind, match.groupdict())
    return None
