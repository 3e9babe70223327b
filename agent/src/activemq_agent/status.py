"""The state of a running agent, as ``activemq-agent status`` shows it."""

from __future__ import annotations

import dataclasses
import os
import time
from typing import TYPE_CHECKING, Any

from activemq_agent import __version__

if TYPE_CHECKING:
    from activemq_agent.link import Link
    from activemq_agent.service import Service


def status_of(service: Service) -> dict[str, Any]:
    """Return the state of a running agent as nested dictionaries of plain values; ages and times in seconds."""
    publisher, subscriber, handlers = service.publisher, service.subscriber, service.handlers
    counts = dataclasses.asdict(service.store.counts())
    found: dict[str, Any] = {
        "agent": service.config.agent,
        "version": __version__,
        "pid": os.getpid(),
        "epoch": service.store.epoch,
        "uptime": round(time.monotonic() - service.began, 3),
        "stopping": service.control.stopping,
        "publisher": {
            **_link(publisher.link),
            "sent": publisher.sent,
            "acknowledged": publisher.acknowledged,
            "refused": service.control.refused,
            "unproved": list(publisher.unproved_topic_prefixes),
        },
    }
    if subscriber is not None:
        found["subscriber"] = {
            **_link(subscriber.link),
            "received": subscriber.received,
            "subscribed": sorted(subscriber.granted),
            "denied": sorted(subscriber.refused),
            "full": list(subscriber.full_filters),
        }
    found["handlers"] = {
        "handled": handlers.handled,
        "without_handler": handlers.without_handler,
        "failures": handlers.failures,
        "overdue": list(handlers.overdue_filters),
    }
    found["store"] = counts
    damage = service.store.damage
    found["damage"] = None if damage is None else str(damage)
    return found


def _link(link: Link) -> dict[str, Any]:
    return {
        "broker": link.broker,
        "brokers": list(link.names),
        "alarm": link.alarm,
        "failure_reasons": dict(link.failure_reasons),
        "connections": link.connections,
        "losses": dict(link.losses),
        "dropped": dict(link.dropped.counts),
        "round_trip": None if link.round_trip is None else round(link.round_trip, 6),
    }
