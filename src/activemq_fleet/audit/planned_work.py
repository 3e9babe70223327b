"""Mark the take-overs that a playbook caused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from activemq_fleet.audit.evidence import Incident
from activemq_fleet.audit.operation_records import Operation

_SLACK = timedelta(seconds=5)
"""A broker may log that it serves so long after the playbook has seen that it does."""


def mark_planned(incident: Incident, operations: Iterable[Operation]) -> Incident:
    """Return the take-over, marked and explained as planned where its node became active during an operation."""
    for one in operations:
        is_within = incident.ended is not None and one.began <= incident.ended <= one.ended + _SLACK
        if one.host == incident.host and is_within:
            why = f" It was planned: {one.operation[:40]}, by {one.by[:80]}."
            return replace(incident, planned=True, cause=incident.cause + why, remedy="None: it was planned.")
    return incident
