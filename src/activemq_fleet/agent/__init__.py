"""Keeps ``activemq_fleet.agent.publish`` and ``activemq_fleet.agent.Client``: both are those of ``activemq_agent``.

Raises ImportError with the line to run where the distribution ``activemq-agent`` is not installed.
"""

from __future__ import annotations

from activemq_fleet.install_hint import install_hint

try:
    from activemq_agent import Client, publish
except ModuleNotFoundError as error:
    raise ImportError(f"activemq_fleet.agent needs {error.name}: {install_hint('agent')}") from error

__all__ = ["Client", "publish"]
