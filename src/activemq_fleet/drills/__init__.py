"""Drills: what was done to a fleet under load, what became of every event, and the report of it. Pure.

``lab.drill`` does one on loopback, the playbook ``drill`` on hosts; both end here.
"""

from __future__ import annotations

from activemq_fleet.drills.accounting import account, in_flight, longest_silence
from activemq_fleet.drills.judging import LOWEST_RATE, headline, judge
from activemq_fleet.drills.model import Account, Conditions, DrillResult, Fault, Span, Unit, What
from activemq_fleet.drills.report import html_report

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
    "html_report",
    "in_flight",
    "judge",
    "longest_silence",
]
