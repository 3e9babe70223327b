"""The agent's durable store: the class ``Store`` (outbox, inbox and journal in SQLite) and what its methods return."""

from __future__ import annotations

from activemq_agent.store.clock import Clock, SystemClock
from activemq_agent.store.damage import Damage, Gap
from activemq_agent.store.rows import (
    Counts,
    Incoming,
    JournalRecord,
    Limits,
    Outgoing,
    Receipt,
    Sent,
)
from activemq_agent.store.statements import Statements
from activemq_agent.store.store import Store

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
