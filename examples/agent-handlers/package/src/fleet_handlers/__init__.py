"""Handlers that run inside the agent, exactly once an event: what they do is part of its own transaction."""

from __future__ import annotations

import json

from activemq_agent.handling import Event

TABLE = "CREATE TABLE IF NOT EXISTS x_members (cluster TEXT PRIMARY KEY, members INTEGER NOT NULL)"
ADD = "INSERT INTO x_members VALUES (?, ?) ON CONFLICT (cluster) DO UPDATE SET members = members + excluded.members"


def count_member(event: Event) -> None:
    """One member more in its cluster. A count is not safe to do twice, so it goes through ``execute``."""
    _add(event, 1)


def discount_member(event: Event) -> None:
    """One member less."""
    _add(event, -1)


def _add(event: Event, number: int) -> None:
    cluster = json.loads(event.payload)["clusterId"]
    event.execute(TABLE)
    event.execute(ADD, (cluster, number))
