"""The agent's durable store: the class ``Store`` (outbox, inbox and journal in SQLite) and what its methods take."""

from __future__ import annotations

from activemq_agent.store.clock import Clock
from activemq_agent.store.rows import Incoming, Limits, Outgoing, Sent, StoredReceipt
from activemq_agent.store.store import Store

__all__ = ["Clock", "Incoming", "Limits", "Outgoing", "Sent", "Store", "StoredReceipt"]
