"""The failover agent: publishes and subscribes on whichever broker of a pair is active, and stores every event."""

from __future__ import annotations

__version__ = "0.1.0"

from activemq_agent.client import Client, publish

__all__ = ["Client", "__version__", "publish"]
