"""Keeps ``activemq_fleet.agent.handling.Event`` for packages of handlers: it is that of ``activemq_agent``."""

from __future__ import annotations

from activemq_agent.handling import Event

__all__ = ["Event"]
