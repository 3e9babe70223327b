"""Logs and journals of a fleet -> what happened, why, and what became of every event.

The decisions are pure and import no Spark (``terms``, ``order``, ``pairs``, ``hosts``, ``links``,
``duration``); ``frames`` brings to them what concerns a pair; ``job`` writes it all down. What
stands here is imported when it is asked for, because it brings Spark along.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from activemq_fleet.pipeline.audit.frames import bridges, incidents
    from activemq_fleet.pipeline.audit.job import Result, audit

__all__ = ["Result", "audit", "bridges", "incidents"]

_WHERE = {"audit": "job", "Result": "job", "bridges": "frames", "incidents": "frames"}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
