"""The agent's durable store: the class ``Store`` (outbox, inbox and journal in SQLite) and what its methods take."""

from __future__ import annotations

from activemq_agent.store.clock import MachineClocks
from activemq_agent.store.rows import InboxStorageOutcome, IncomingMessage, OutgoingEvent, SentEvent, StoreLimits
from activemq_agent.store.store import Store

__all__ = [
    "InboxStorageOutcome",
    "IncomingMessage",
    "MachineClocks",
    "OutgoingEvent",
    "SentEvent",
    "Store",
    "StoreLimits",
]
