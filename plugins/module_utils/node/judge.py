# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Concludes the state of a broker from observations. Pure; no other module decides this.

Modules and playbooks, the lab and the watchdog each gather evidence and call ``conclude_state``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from .log.broker_run import UNKNOWN, LoggedBrokerPhase
from .probe.connector_probe import ProbeAnswer
from .process.proc import Process

BrokerState = Literal["active", "unhealthy", "standby", "starting", "stopped", "hung"]
STATES: tuple[BrokerState, ...] = ("active", "unhealthy", "standby", "starting", "stopped", "hung")
SERVING: tuple[BrokerState, ...] = ("active", "unhealthy")
"""States of the node that has the store of its pair and accepts clients."""


@dataclass(frozen=True)
class Evidence:
    """The evidence about one broker from which its state is concluded.

    It is evidence such as the process, the phase in the log, and answers to probes. A field without an observation
    keeps its default, which implies nothing.

    ``answers`` are the results of probes by connector name. ``pure``: the broker is a node of a pure master/slave pair.
    ``listens``: the process has the ports of its connectors open. ``holds_lock``: it holds its store's lock, None if
    the kernel does not know. ``has_answered``: the same process has answered before. ``ending``: why the broker
    stopped, according to systemd and the log.
    """

    process: Process | None
    phase: LoggedBrokerPhase = UNKNOWN
    answers: Mapping[str, ProbeAnswer] = field(default_factory=dict)
    pure: bool = False
    listens: bool = False
    holds_lock: bool | None = False
    has_answered: bool = False
    ending: str = ""

    @property
    def is_stopped_by_signal(self) -> bool:
        """Whether the broker's process is stopped by a signal such as SIGSTOP."""
        return self.process is not None and self.process.state == "T"

    @property
    def silent_connector_descriptions(self) -> list[str]:
        """Descriptions of the silent connectors of a broker, which returned no message to a probe.

        Each is a clause. The connectors accepted the probe or timed out.
        """
        return [
            describe_probe_answer(name, answer) for name, answer in self.answers.items() if answer.returned is False
        ]


def describe_probe_answer(connector_name: str, answer: ProbeAnswer) -> str:
    """Return a part of a sentence that names a broker's connector and describes its answer to a probe.

    An example is "on connector stomp the broker …".
    """
    return f"on connector {connector_name} {answer.detail}"


@dataclass(frozen=True)
class Conclusion:
    """The conclusion about a broker: its state and the reason.

    The state is one of ``STATES``, and the reason one sentence.
    """

    state: BrokerState
    reason: str


def conclude_state(evidence: Evidence) -> Conclusion:
    """Conclude the state of a broker from evidence, and return it with the reason.

    The state is one of ``STATES``. A broker is active if it completed a round trip, or if its error shows that only the
    account lacks a permission. A broker that sends a greeting but does not complete a round trip for another reason is
    unhealthy. An open port does not prove readiness. For a pure master not even an answer does: it answers before its
    slave is attached, and its log reports ``started`` only after that (measured on 5.5.1). Clients can write into a
    log, so the log counts only if answers, open ports and the lock do not determine the state.
    """
    process, phase = evidence.process, evidence.phase
    if process is None:
        ending = f"; {evidence.ending}" if evidence.ending else ""
        return Conclusion("stopped", f"no process of this broker is running{ending}")
    running = f"process {process.pid} is running"
    if evidence.is_stopped_by_signal:
        return Conclusion("hung", f"process {process.pid} was stopped by a signal")
    log_clause = f"its log reports: {phase.message}" if phase.message else "its log has no record of this start"
    silent_connectors = evidence.silent_connector_descriptions
    if answers := _decisive_answers(evidence):
        name, answer = answers[0]
        is_unhealthy = answer.returned is False or answer.failed
        # Before the start is complete, a connector that closes connections may be opening or closing.
        if answer.greeted or answer.answered or phase.has_started:
            if evidence.pure and not phase.has_started and phase.name != "unknown":
                return Conclusion("starting", f"{running} and answers, and {log_clause}")
            state: BrokerState = "unhealthy" if is_unhealthy else "active"
            return Conclusion(state, f"{running}, and {describe_probe_answer(name, answer)}")
    if silent_connectors and evidence.listens:
        return Conclusion("hung", f"{running} and its ports are open, but {silent_connectors[0]}")
    # Each node of a pure pair, also the slave, has a separate store and holds its lock.
    holds_lock = evidence.holds_lock and not evidence.pure
    serving_evidence = "its ports are open" if evidence.listens else "it holds the lock" if holds_lock else ""
    if phase.name in ("waiting", "attached"):
        # A slave of a pure pair may have open connectors that accept no clients.
        if serving_evidence and not (evidence.pure and phase.name == "attached"):
            return Conclusion(
                "starting", f"{running} and {serving_evidence}, but no connector answers, and {log_clause}"
            )
        return Conclusion("standby", f"{running} and {log_clause}")
    if phase.name == "started" and not evidence.answers:
        return Conclusion("active", f"{running}, its configuration has no connectors, and {log_clause}")
    if phase.name == "started" and silent_connectors:
        return Conclusion("hung", f"{running} and {log_clause}, but {silent_connectors[0]}")
    if phase.name == "unknown" and silent_connectors and evidence.has_answered:
        return Conclusion("hung", f"{running} and has answered before, but now {silent_connectors[0]}")
    return Conclusion("starting", f"{running}, no connector answers, and {log_clause}")


def _decisive_answers(evidence: Evidence) -> list[tuple[str, ProbeAnswer]]:
    """Return the name and answer of each connector at which the broker answered or failed, the decisive one first.

    A completed round trip comes first, then an error, then an answer without a message.
    """
    answers = [(name, answer) for name, answer in evidence.answers.items() if answer.answered or answer.greeted]
    failures = [(name, answer) for name, answer in evidence.answers.items() if answer.failed and not answer.greeted]
    answers.sort(key=lambda named_answer: (named_answer[1].returned is not True, named_answer[1].returned is not False))
    return answers or failures
