"""Evidence of brokers from which tests conclude a status."""

from __future__ import annotations

import hashlib
from typing import Any

from activemq_fleet.render import render_broker
from activemq_fleet.topology import Fleet

NOW = 1_800_000_000.0


A, B = "orders-mq01-a.example.com", "orders-mq01-b.example.com"


def usage_evidence(**more: Any) -> dict[str, Any]:
    limits = {name: {"percent": 1, "limit": 1 << 30} for name in ("store", "memory", "temp")}
    counts = {"messages": 3, "durable": 2, "dlq": 0, "connections": 1, "queues": [], "bridges": [], "whole": True}
    return {**limits, **counts, **more}


def broker_evidence(fleet: Fleet, host: str, **more: Any) -> dict[str, Any]:
    """Return the evidence of a healthy broker's host: the preferred master is active, and its peer is the standby."""
    planned = render_broker(fleet.broker(host), reveal=False)
    is_active = fleet.broker(host).role == "master"
    return {
        "state": "active" if is_active else "standby",
        "how": "process 7 is running",
        "frozen": False,
        "pid": 7,
        "guard": None,
        "since": "2027-01-15T07:00:00Z",
        "state_since": NOW - 7200,
        "release": "5.18.3",
        "version": "abc",
        "store": "/srv/activemq/orders-mq01",
        "store_access": "",
        "holds_lock": is_active,
        "generation": None,
        "generation_in_force": None,
        "drift": [],
        "restart_reasons": [],
        "free": {"/var/lib/activemq": 1 << 40},
        "usage": usage_evidence() if is_active else {},
        "usage_error": "",
        "log_error": "",
        "records": [],
        "deployed": {path: hashlib.sha256(content).hexdigest() for path, content in planned.items()},
        "certificates": [],
        **more,
    }
