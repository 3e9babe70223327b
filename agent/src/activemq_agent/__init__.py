"""The failover agent: stays with whichever broker of a pair is alive, and keeps every event that it accepted."""

from __future__ import annotations

__version__ = "0.1.0"

from activemq_agent.client import Client, publish

__all__ = ["Client", "__version__", "publish"]
