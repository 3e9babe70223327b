"""The agent's durable store. See ``Store``."""

from __future__ import annotations

from activemq_fleet.agent.store.clock import Clock, SystemClock
from activemq_fleet.agent.store.damage import Damage, Gap
from activemq_fleet.agent.store.rows import (
    Counts,
    Incoming,
    JournalRecord,
    Limits,
    Outgoing,
    Receipt,
    Sent,
)
from activemq_fleet.agent.store.statements import Statements
from activemq_fleet.agent.store.store import Store

__all__ = [
    "Clock",
    "Counts",
    "Damage",
    "Gap",
    "Incoming",
    "JournalRecord",
    "Limits",
    "Outgoing",
    "Receipt",
    "Sent",
    "Statements",
    "Store",
    "SystemClock",
]
