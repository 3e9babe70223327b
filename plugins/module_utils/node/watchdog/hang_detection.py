# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Decides whether the state of a broker is a reason to kill it. Pure.

Invariant: a broker is killed only if all of these conditions hold for the same process in several samples in a row:

- It listens on its ports, or its log reports that it serves, or it has answered this watchdog before and its log has
  been rotated since then.
- Every connector that can be probed was silent, or the process was frozen.

All other brokers are left alone: a broker that starts, waits for the lock, is attached to its master, stops, rejects
the account, or sends a greeting and does not return the message. Text that a client writes into a log never protects a
hung broker: a standby does not listen, and a broker that listens while its log reports a start or stop has
``WATCH_BUSY`` (120) seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..judge import BrokerState, Evidence, conclude_state, describe_probe_answer
from ..masking import mask_text
from ..process.proc import Process
from ..timeouts import MISSES, WATCH_BUSY

NOT_WATCHED = "the broker is not watched"
"""How the status of the watchdog's unit begins while the watchdog cannot read the files of the broker."""
MAX_KILLS = 3
KILLS_WITHIN = 3600.0
REMIND = 600.0
"""Seconds until a state that persists is logged again."""

FINE, IDLE, ODD, HUNG = "fine", "idle", "odd", "hung"


@dataclass(frozen=True)
class WatchdogSample:
    """A sample of a broker: what its watchdog observed in one check.

    The watchdog decides by it whether the broker is hung. ``slave``: whether a slave is attached to a pure master, None
    for other brokers. The evidence has ``answers`` only of connectors that can be probed, and ``phase`` and ``listens``
    only if the broker was silent or frozen.
    """

    evidence: Evidence
    slave: bool | None = None


@dataclass(frozen=True)
class HangDiagnosis:
    """A watchdog's diagnosis of a broker at one check: fine, idle, odd or hung, with the reason.

    ``state`` is the state that ``conclude_state`` concludes. ``kind``: fine, idle (nothing to watch), odd (worth a
    warning, but the broker is not killed) or hung. ``patience``: seconds that the state must persist before the
    watchdog acts. ``is_hung_without_slave``: an odd pure master that is hung, and is not killed because no slave would
    take over.
    """

    state: BrokerState
    kind: str
    text: str
    patience: float = 0.0
    is_hung_without_slave: bool = False

    @property
    def is_hung(self) -> bool:
        """Return whether the broker is hung, also if the watchdog does not kill it."""
        return self.kind == HUNG or self.is_hung_without_slave


def hang_diagnosis_of_sample(sample: WatchdogSample) -> HangDiagnosis:
    """Classify a watchdog's sample of a broker, and return the diagnosis: fine, idle, odd or hung, with the reason.

    Idle means that there is nothing to watch, odd that a warning is due. Secrets in the reason are masked, because all
    accounts of the host can read it in the status of the watchdog's unit.
    """
    diagnosis = _classify_unmasked(sample)
    return replace(diagnosis, text=mask_text(diagnosis.text))


def _classify_unmasked(sample: WatchdogSample) -> HangDiagnosis:
    evidence, state = sample.evidence, conclude_state(sample.evidence).state
    process, silent = evidence.process, evidence.silent_connector_descriptions
    if process is None:
        return HangDiagnosis(state, IDLE, "the broker is not running")
    process_name = f"process {process.pid}"
    greeting = [describe_probe_answer(name, answer) for name, answer in evidence.answers.items() if answer.greeted]
    if evidence.is_stopped_by_signal:
        return _unanswered(sample, state, f"{process_name} was stopped by a signal")
    if greeting and not silent:
        return HangDiagnosis(state, FINE, f"{process_name} answers: {greeting[0]}")
    if greeting:
        details = ", ".join(dict.fromkeys([*silent, *greeting]))
        return HangDiagnosis(state, ODD, f"{process_name} is running but unhealthy: {details}. {_NOT_WELL}")
    if failing := [describe_probe_answer(name, answer) for name, answer in evidence.answers.items() if answer.failed]:
        return HangDiagnosis(state, ODD, f"{process_name} is running but unhealthy: {', '.join(failing)}. {_NOT_WELL}")
    if silent:
        return _unanswered(sample, state, f"{process_name}: {', '.join(silent)}")
    return HangDiagnosis(
        state,
        IDLE,
        f"{process_name} is running and no connector answers, so the broker is a standby, is starting or is stopping",
    )


def _unanswered(sample: WatchdogSample, state: BrokerState, seen: str) -> HangDiagnosis:
    """Return the diagnosis of a broker whose connectors did not answer; ``seen`` describes what was observed."""
    evidence, phase = sample.evidence, sample.evidence.phase
    logged = f"its log reports: {phase.message}" if phase.message else "its log has no record of this start"
    serves = phase.name == "started" or (phase.name == "unknown" and evidence.has_answered)
    if evidence.listens and not serves:
        logged = f"its ports are open, although {logged}"
    # A frozen standby is also hung, but it holds nothing that another broker waits for.
    if state == "hung" and (serves or evidence.listens):
        # A frozen broker neither starts nor stops, and a waiting broker has no open ports.
        is_busy = not serves and not evidence.is_stopped_by_signal and phase.name not in _WAITING
        patience = WATCH_BUSY if is_busy else 0.0
        if sample.slave is False:
            text = (
                f"{seen}, and {logged}. The watchdog does not kill this pure master, because no slave is attached, "
                f"so no broker would take over. {_LOOK}"
            )
            return HangDiagnosis(state, ODD, text, patience, is_hung_without_slave=True)
        return HangDiagnosis(state, HUNG, f"{seen}, and {logged}", patience)
    if evidence.is_stopped_by_signal:
        text = f"{seen}, and {logged}. This broker cannot take over until its process continues. {_GO_ON}"
        return HangDiagnosis(state, ODD, text)
    if phase.name == "unknown":
        text = f"{seen}, and {logged}. The watchdog cannot determine whether the broker serves clients. {_LOOK}"
        return HangDiagnosis(state, ODD, text)
    return HangDiagnosis(state, IDLE, f"{seen}, and {logged}")


_WAITING = ("waiting", "attached")
_NOT_WELL = (
    "The cause may be a full store, a memory limit, too many connections or a deadlock: check the broker's "
    "activemq.log and a thread dump (kill -QUIT)"
)
_LOOK = "Check the broker's activemq.log, and take a thread dump (kill -QUIT) before you kill the process"
_GO_ON = "Continue the process with kill -CONT, or kill it so that systemd restarts the broker"


@dataclass(frozen=True)
class SameDiagnosisStreak:
    """A streak of a watchdog's samples of a broker: the count of successive samples with the same result.

    The samples have the same classification of the same process. ``process_identity``: pid and start time;
    ``is_hung``: whether the samples show a hung broker; ``since``: time of the first sample; ``logged_at``: time of the
    last log line about it.
    """

    process_identity: tuple[int, float] | None = None
    kind: str = FINE
    is_hung: bool = False
    times: int = 0
    since: float = 0.0
    logged_at: float | None = None

    def streak_after_diagnosis(
        self, diagnosis: HangDiagnosis, process: Process | None, now: float
    ) -> SameDiagnosisStreak:
        """Return the updated count of successive equal diagnoses, such as hung, of a broker's process after one more.

        Its count is increased if the process, the kind of the diagnosis and whether the broker is hung are the same,
        else reset to 1. ``now``: seconds of a monotonic clock.
        """
        process_identity = (process.pid, process.started) if process else None
        same = (process_identity, diagnosis.kind, diagnosis.is_hung)
        if same != (self.process_identity, self.kind, self.is_hung):
            return SameDiagnosisStreak(*same, times=1, since=now)
        return replace(self, times=self.times + 1)

    def has_lasted(self, now: float, patience: float = 0.0) -> bool:
        """Return whether the streak has at least 3 samples, and began at least ``patience`` seconds before ``now``."""
        return self.times >= MISSES and now - self.since >= patience

    def is_action_due(self, now: float, patience: float = 0.0) -> bool:
        """Return whether a watchdog must act now, that is, log a warning or kill its broker.

        This is so if the state has lasted long enough, and was not logged within the last 600 seconds.
        """
        return self.has_lasted(now, patience) and (self.logged_at is None or now - self.logged_at >= REMIND)


def can_kill_again(kills: Sequence[float], now: float) -> bool:
    """Return whether a watchdog may kill its broker again: only after fewer than 3 kills within the last hour.

    ``kills`` are the times of its earlier kills. Another kill does not help a broker that hangs repeatedly.
    """
    return len([moment for moment in kills if now - moment < KILLS_WITHIN]) < MAX_KILLS


def format_hung_broker_message(text: str, *, action: str, ha: str, unit: str, seconds: float, kills: bool) -> str:
    """Return a watchdog's log message about a hung broker.

    It has the state, the watchdog's action, and what the operator can do.
    """
    hung = f"the broker is hung: {MISSES} checks in {seconds:.0f} s got no answer; {text}."
    held = {
        "pure": "Its slave takes over when this broker stops",
        "none": "This broker has no standby; systemd starts it again when it stops",
    }.get(ha, "This broker keeps the lock of the store, and its standby takes over only when this broker stops")
    by_hand = f"systemctl kill --signal=KILL {unit}"
    if action != "kill":
        return (
            f"{hung} {held}. The watchdog does not kill this broker, because activemq_watchdog is {action}. To kill "
            f"the broker, run {by_hand}"
        )
    if not kills:
        return (
            f"{hung} The watchdog killed this broker {MAX_KILLS} times within an hour, and does not kill "
            f"it again. Find the cause in activemq.log and a thread dump (kill -QUIT), then run {by_hand}"
        )
    after = "run the playbook resync to restore the pair" if ha == "pure" else "systemd starts it again"
    return f"{hung} {held}. The watchdog kills it; {after}"
