"""Evaluate drills: faults injected into a fleet under load, and the outcome of every event. Pure.

``lab.drill`` runs a drill on loopback, the playbook ``drill`` on hosts; both use these functions.
"""

from __future__ import annotations

from activemq_fleet.drills.drill_verdict import drill_headline
from activemq_fleet.drills.model import DrillResult, PairEventCounts

__all__ = ["DrillResult", "PairEventCounts", "drill_headline"]
