"""Keeps ``from activemq_fleet.agent.handling import Event`` for packages of handlers; use ``activemq_agent.handling``."""

from __future__ import annotations

from activemq_agent.handling import Event

__all__ = ["Event"]
