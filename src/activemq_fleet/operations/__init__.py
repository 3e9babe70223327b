"""Decide the next step of operations such as restart, upgrade and drill from evidence; pure functions."""

from __future__ import annotations

# Every module that decides an operation is imported, so that it is registered.
from activemq_fleet.operations import (  # noqa: F401
    drill_steps,
    migrate,
    preflight,
    restart_and_switchover,
    resync,
    shared_store_markers,
    site,
    target,
    unfence,
    upgrade,
)
from activemq_fleet.operations.operation_decisions import (
    OperationDecisionRequest,
    RefusalError,
    RunProgress,
    decide_operation,
)

__all__ = ["OperationDecisionRequest", "RefusalError", "RunProgress", "decide_operation"]
