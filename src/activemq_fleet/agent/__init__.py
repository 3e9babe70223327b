"""The failover agent: stays with whichever broker of a pair is alive, and keeps every event that it accepted."""

from __future__ import annotations

from activemq_fleet.agent.client import Client, publish

__all__ = ["Client", "publish"]
