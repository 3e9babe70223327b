"""Decide the next step of operations such as restart, upgrade and drill from evidence; pure functions."""

from __future__ import annotations

# Every module that decides an operation is imported, so that it is registered.
from activemq_fleet.operations import drill, migrate, preflight, resync  # noqa: F401
from activemq_fleet.operations.health import Node, Problem, node_of, problems_of
from activemq_fleet.operations.installs import Archive, Home, home_of, wrong_releases
from activemq_fleet.operations.jumps import Jump, Persistence, judge_jump
from activemq_fleet.operations.lines import line_changes
from activemq_fleet.operations.requests import RefusalError, Request, decide
from activemq_fleet.operations.rolling import NextStep, Run, next_restart, next_switchover, started_since
from activemq_fleet.operations.site import next_site_step, notes_on_skipped_nodes, pending_actions
from activemq_fleet.operations.stores import StoreLook, StorePlan, plan_stores
from activemq_fleet.operations.table import outcome_table
from activemq_fleet.operations.target import Target, TargetHost, read_since, resolve_target
from activemq_fleet.operations.upgrade import Stores, check_upgrade, may_put_back, next_upgrade

__all__ = [
    "Archive",
    "Home",
    "Jump",
    "NextStep",
    "Node",
    "Persistence",
    "Problem",
    "RefusalError",
    "Request",
    "Run",
    "StoreLook",
    "StorePlan",
    "Stores",
    "Target",
    "TargetHost",
    "check_upgrade",
    "decide",
    "home_of",
    "judge_jump",
    "line_changes",
    "may_put_back",
    "next_restart",
    "next_site_step",
    "next_switchover",
    "next_upgrade",
    "node_of",
    "notes_on_skipped_nodes",
    "outcome_table",
    "pending_actions",
    "plan_stores",
    "problems_of",
    "read_since",
    "resolve_target",
    "started_since",
    "wrong_releases",
]
