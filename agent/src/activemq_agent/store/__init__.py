"""The agent's durable store: the class ``Store`` (outbox, inbox and journal in SQLite) and what its methods take."""

from __future__ import annotations

from activemq_agent.store.clock import MachineClocks
from activemq_agent.store.rows import IncomingMessage, OutgoingEvent, SentEvent, StorageReceipt, StoreLimits
from activemq_agent.store.store import Store

__all__ = ["IncomingMessage", "MachineClocks", "OutgoingEvent", "SentEvent", "StorageReceipt", "Store", "StoreLimits"]
