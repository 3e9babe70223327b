"""Decide the next step of operations such as restart, upgrade and drill from evidence; pure functions."""

from __future__ import annotations

# Every module that decides an operation is imported, so that it is registered.
from activemq_fleet.operations import (  # noqa: F401
    drill,
    installs,
    lines,
    migrate,
    preflight,
    resync,
    rolling,
    site,
    stores,
    target,
    upgrade,
)
from activemq_fleet.operations.requests import RefusalError, Request, decide

__all__ = ["RefusalError", "Request", "decide"]
