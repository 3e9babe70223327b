"""Evaluate drills: faults injected into a fleet under load, and the outcome of every event. Pure.

``lab.drill`` runs a drill on loopback, the playbook ``drill`` on hosts; both use these functions.
"""

from __future__ import annotations

from activemq_fleet.drills.accounting import account_for_events, count_in_flight, longest_silence
from activemq_fleet.drills.judging import LOWEST_RATE, headline, judge
from activemq_fleet.drills.model import (
    Conditions,
    DeliveryAccount,
    DrillResult,
    EventOutcome,
    Fault,
    FaultKind,
    StateSpan,
)

__all__ = [
    "LOWEST_RATE",
    "Conditions",
    "DeliveryAccount",
    "DrillResult",
    "EventOutcome",
    "Fault",
    "FaultKind",
    "StateSpan",
    "account_for_events",
    "count_in_flight",
    "headline",
    "judge",
    "longest_silence",
]
