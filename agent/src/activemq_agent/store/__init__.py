"""The agent's durable store: the class ``Store`` (outbox, inbox and journal in SQLite) and what its methods take."""

from __future__ import annotations

from activemq_agent.store.clock import Clock
from activemq_agent.store.rows import IncomingMessage, OutgoingEvent, SentEvent, StoredReceipt, StoreLimits
from activemq_agent.store.store import Store

__all__ = ["Clock", "IncomingMessage", "OutgoingEvent", "SentEvent", "Store", "StoreLimits", "StoredReceipt"]
