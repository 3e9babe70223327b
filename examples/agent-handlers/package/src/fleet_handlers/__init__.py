"""Handlers that run inside the agent. Their changes are part of the transaction that marks the event as handled."""

from __future__ import annotations

import json

from activemq_agent.handling import Event

TABLE = "CREATE TABLE IF NOT EXISTS x_members (cluster TEXT PRIMARY KEY, members INTEGER NOT NULL)"
ADD = "INSERT INTO x_members VALUES (?, ?) ON CONFLICT (cluster) DO UPDATE SET members = members + excluded.members"


def count_member(event: Event) -> None:
    """Add a member to the count of its cluster. With ``execute``, no event is counted twice."""
    _add(event, 1)


def discount_member(event: Event) -> None:
    """Subtract a member from the count of its cluster."""
    _add(event, -1)


def _add(event: Event, number: int) -> None:
    cluster = json.loads(event.payload)["clusterId"]
    event.execute(TABLE)
    event.execute(ADD, (cluster, number))
