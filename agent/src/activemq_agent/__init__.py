"""The failover agent: publishes and subscribes at the active broker of a pair, and stores every event on disk."""

from __future__ import annotations

from activemq_agent._version import __version__
from activemq_agent.client import Client, publish

__all__ = ["Client", "__version__", "publish"]
