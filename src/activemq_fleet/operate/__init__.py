"""Decisions of operations: pure, from evidence to the next step."""

from __future__ import annotations

from activemq_fleet.operate.roll import Look, Plan, Step, plan_roll
from activemq_fleet.operate.stores import StoreLook, StorePlan, plan_stores
from activemq_fleet.operate.target import Place, Target, read_since, resolve_target

__all__ = [
    "Look",
    "Place",
    "Plan",
    "Step",
    "StoreLook",
    "StorePlan",
    "Target",
    "plan_roll",
    "plan_stores",
    "read_since",
    "resolve_target",
]
