# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""When a broker counts as hung, and when that is reason to kill it. Pure.

Invariant: a broker is killed only when it listens on its ports or its own log says that it serves (or
it has answered this watchdog before, and its log has rolled since), every connector that can be asked
was silent or the process stood still, and that so many times in a row, for one and the same process.
Everything else is left alone: a broker that starts, waits for the lock, is attached to its
master, ends, refuses the account, or greets and holds the message back.

What a client can write into a log never keeps a broker alive: a standby does not listen, and one that
listens while its log says that it starts or ends is given a while and not for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..host.broker_log import UNKNOWN, Phase
from ..host.probe import Answer
from ..host.process import Process

MISSES = 3
MOST_KILLS = 3
KILLS_WITHIN = 3600.0
BUSY = 120.0
"""Seconds that a silent broker with open ports is given while its log says that it starts or ends."""
REMIND = 600.0
"""Seconds until something that lasts is said again."""

FINE, IDLE, ODD, HUNG = "fine", "idle", "odd", "hung"


@dataclass(frozen=True)
class Glance:
    """One look at the broker. ``answers`` are by connector, and only of those that can be asked.

    ``phase`` is read only where the broker was silent or stands still. ``known``: this very process has answered
    before. ``slave``: whether a slave is attached to a pure master, None for all others. ``listens``: the process
    has the ports of its connectors open.
    """

    process: Process | None
    answers: Mapping[str, Answer] = field(default_factory=dict)
    phase: Phase = UNKNOWN
    known: bool = False
    slave: bool | None = None
    listens: bool = False


@dataclass(frozen=True)
class Opinion:
    """``kind``: fine, idle (nothing to watch), odd (worth a word, never a kill) or hung.

    ``patience``: seconds for which the same must be seen before anything follows.
    """

    kind: str
    text: str
    patience: float = 0.0


def is_silent(answers: Mapping[str, Answer]) -> bool:
    """Whether a connector took the connection, or let it time out, and the broker never spoke."""
    return any(answer.returned is False for answer in answers.values())


def judge(glance: Glance) -> Opinion:
    """What one look shows."""
    process, answers = glance.process, glance.answers
    if process is None:
        return Opinion(IDLE, "no broker runs")
    who = f"process {process.pid}"
    greeting = [f"{name} {answer.detail}" for name, answer in answers.items() if answer.greeted]
    silent = [f"{name} {answer.detail}" for name, answer in answers.items() if answer.returned is False]
    if process.state == "T":
        return _unanswered(glance, f"{who} was stopped by a signal")
    if greeting and not silent:
        return Opinion(FINE, f"{who} answers: {greeting[0]}")
    if greeting:
        return Opinion(
            ODD, f"{who} lives and is not well: {', '.join(dict.fromkeys([*silent, *greeting]))}. {_NOT_WELL}"
        )
    if silent:
        return _unanswered(glance, f"{who}: {', '.join(silent)}")
    return Opinion(IDLE, f"{who} lives and no connector answers: it stands by, starts or ends")


def _unanswered(glance: Glance, seen: str) -> Opinion:
    phase = glance.phase
    said = f"its log says: {phase.message}" if phase.message else "its log says nothing of this start"
    frozen = glance.process is not None and glance.process.state == "T"
    serves = phase.name == "started" or (phase.name == "unknown" and glance.known)
    if glance.listens and not serves:
        said = f"its ports are open, though {said}"
    if (serves or glance.listens) and glance.slave is False:
        return Opinion(ODD, f"{seen}, and {said}. No slave is attached, so nobody would take over. {_LOOK}")
    if serves or glance.listens:
        # Nobody starts or ends while it stands still, and nobody waits with open ports.
        is_busy = not serves and not frozen and phase.name not in _WAITING
        return Opinion(HUNG, f"{seen}, and {said}", BUSY if is_busy else 0.0)
    if frozen:
        return Opinion(ODD, f"{seen}, and {said}: it cannot take over. {_GO_ON}")
    if phase.name == "unknown":
        return Opinion(ODD, f"{seen}, and {said}: whether it serves is not known. {_LOOK}")
    return Opinion(IDLE, f"{seen}, and {said}")


_WAITING = ("waiting", "attached")
_NOT_WELL = (
    "Something holds it back: a full store, a memory limit, too many connections, a deadlock; "
    "its log and a thread dump (kill -QUIT) say what"
)
_LOOK = "Look at its log and take a thread dump (kill -QUIT) before you end it"
_GO_ON = "Let it go on (kill -CONT), or end it and it is started anew"


@dataclass(frozen=True)
class Count:
    """How often in a row the same was seen of one process. Begins anew with another process or a good answer."""

    who: tuple[int, float] | None = None
    kind: str = FINE
    times: int = 0
    since: float = 0.0
    told: float | None = None

    def after(self, opinion: Opinion, process: Process | None, now: float) -> Count:
        """``now`` in seconds, of a clock that never goes back."""
        who = (process.pid, process.started) if process else None
        if who != self.who or opinion.kind != self.kind:
            return Count(who, opinion.kind, 1, now)
        return replace(self, times=self.times + 1)

    def is_due(self, now: float, patience: float = 0.0) -> bool:
        """Whether it has lasted long enough to act, and was not told of lately."""
        lasted = self.times >= MISSES and now - self.since >= patience
        return lasted and (self.told is None or now - self.told >= REMIND)


def may_kill(kills: Sequence[float], now: float) -> bool:
    """The brake: a broker that hangs again and again is not helped by one more kill."""
    return len([moment for moment in kills if now - moment < KILLS_WITHIN]) < MOST_KILLS


def said_of_hung(text: str, *, action: str, ha: str, unit: str, seconds: float, kills: bool) -> str:
    """The line of the journal about a hung broker: its state, what follows, what to do."""
    hung = f"the broker is hung: {MISSES} looks in {seconds:.0f} s had no answer; {text}."
    held = {
        "pure": "Its slave takes over when it ends",
        "none": "Nobody stands in for it; systemd starts it again when it ends",
    }.get(ha, "It keeps the lock, and its standby takes over only when it ends")
    by_hand = f"systemctl kill --signal=KILL {unit}"
    if action != "kill":
        return f"{hung} {held}: {by_hand} (activemq_watchdog is {action}, so it is left alone)"
    if not kills:
        return (
            f"{hung} It was killed {MOST_KILLS} times within an hour and is left alone now: find out what it "
            f"waits for (log, thread dump), then {by_hand}"
        )
    after = "playbook resync brings it back" if ha == "pure" else "systemd starts it again"
    return f"{hung} {held}. It is killed; {after}"
