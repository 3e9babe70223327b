"""Decisions of operations: pure, from evidence to the next step."""

from __future__ import annotations

from activemq_fleet.operate.roll import Look, Plan, Step, plan_roll
from activemq_fleet.operate.stores import StoreLook, StorePlan, plan_stores

__all__ = ["Look", "Plan", "Step", "StoreLook", "StorePlan", "plan_roll", "plan_stores"]
