"""The failover agent: publishes and subscribes on whichever broker of a pair is active, and stores every event."""

from __future__ import annotations

from activemq_agent._version import __version__
from activemq_agent.client import Client, publish

__all__ = ["Client", "__version__", "publish"]
