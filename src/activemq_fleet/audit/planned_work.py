"""Which take-overs were planned: a playbook was at work on the pair, as the node that took over has it. Pure.

Playbooks write what they do to a pair down on both of its nodes, each by its own clock. So clocks of two hosts are
never compared here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from activemq_fleet.audit.evidence import Incident
from activemq_fleet.audit.operation_records import Operation

_SLACK = timedelta(seconds=5)
"""A broker may log that it serves so long after the playbook has seen that it does."""


def planned(incident: Incident, operations: Iterable[Operation]) -> Incident:
    """The take-over, marked and explained as planned where its node became active during an operation."""
    for one in operations:
        is_within = incident.ended is not None and one.began <= incident.ended <= one.ended + _SLACK
        if one.host == incident.host and is_within:
            why = f" It was planned: {one.operation[:40]}, by {one.by[:80]}."
            return replace(incident, planned=True, cause=incident.cause + why, remedy="None: it was planned.")
    return incident
