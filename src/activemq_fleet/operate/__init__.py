"""Decisions of operations: pure, from evidence to the next step."""

from __future__ import annotations

from activemq_fleet.operate.health import Node, Problem, node_of, problems_of
from activemq_fleet.operate.lines import line_changes
from activemq_fleet.operate.roll import Look, Plan, Step, plan_roll
from activemq_fleet.operate.rolling import NextStep, RefusalError, Run, next_restart, next_switchover, started_since
from activemq_fleet.operate.stores import StoreLook, StorePlan, plan_stores
from activemq_fleet.operate.target import Place, Target, read_since, resolve_target

__all__ = [
    "Look",
    "NextStep",
    "Node",
    "Place",
    "Plan",
    "Problem",
    "RefusalError",
    "Run",
    "Step",
    "StoreLook",
    "StorePlan",
    "Target",
    "line_changes",
    "next_restart",
    "next_switchover",
    "node_of",
    "plan_roll",
    "plan_stores",
    "problems_of",
    "read_since",
    "resolve_target",
    "started_since",
]
