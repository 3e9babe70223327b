"""Evaluate drills: faults injected into a fleet under load, and the outcome of every event. Pure.

``lab.drill`` runs a drill on loopback, the playbook ``drill`` on hosts; both use these functions.
"""

from __future__ import annotations

from activemq_fleet.drills.accounting import account, in_flight, longest_silence
from activemq_fleet.drills.judging import LOWEST_RATE, headline, judge
from activemq_fleet.drills.model import Account, Conditions, DrillResult, Fault, Span, Unit, What

__all__ = [
    "LOWEST_RATE",
    "Account",
    "Conditions",
    "DrillResult",
    "Fault",
    "Span",
    "Unit",
    "What",
    "account",
    "headline",
    "in_flight",
    "judge",
    "longest_silence",
]
