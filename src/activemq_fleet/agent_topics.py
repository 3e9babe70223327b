"""The MQTT topics of agents themselves: canaries, which an agent sends to itself, and barriers.

Imports nothing of the project. Every topic ends in the name of the agent that sends on it, so that brokers can reject
all other senders. Received topics are compared, and never taken apart.
"""

from __future__ import annotations

import re

CANARY = "__canary__"
BARRIER = "__barrier__"
ROLES = ("publisher", "subscriber", "check")
"""The connections of an agent that have a canary each: ``AGENT-ROLE``."""
LARGEST_CANARY = 64
"""The most bytes of a canary's payload; agents send 32."""
LARGEST_BARRIER = 512
"""The most bytes of a barrier's payload: an agent's event id has 260 at most."""


def agent_topic_level(agent: str) -> str:
    """Return an agent's name as one level of an MQTT topic.

    All but letters, digits, ``_`` and ``-`` become ``_``. Some releases swap dots and slashes.
    """
    return re.sub(r"[^A-Za-z0-9_-]", "_", agent)


def canary_topic(prefix: str, agent: str) -> str:
    """Return the canary topic of an agent: the MQTT topic ``PREFIX/__canary__/AGENT`` of its test messages.

    An empty prefix gives ``__canary__/AGENT``.
    """
    return f"{prefix}/{CANARY}/{agent_topic_level(agent)}" if prefix else f"{CANARY}/{agent_topic_level(agent)}"


def canary_topic_matching(topic_filter: str, agent: str) -> str | None:
    """Return a topic for an agent's test messages that matches an MQTT filter; None for a filter without wildcards.

    Such a topic is a canary topic: ``a/#`` matches ``a/__canary__/AGENT``. ActiveMQ writes a durable subscription to
    the store of each topic that the filter matches. Without such a topic, the broker that takes over does not have the
    subscription, and all events that are published before the subscriber connects are lost (20 of 20 on 5.18.3 and
    6.3.1, ``tests/integration/test_agent_first_event.py``).
    """
    topic = topic_filter.replace("+", CANARY)  # Wildcards are complete levels (``config.check_filter``).
    if topic.endswith("#"):
        return canary_topic(topic[:-1].removesuffix("/"), agent)
    return topic if topic != topic_filter else None


def is_canary_topic(topic: str) -> bool:
    """Return whether an MQTT topic is a canary topic, which carries an agent's test messages.

    No topic of events has the level ``__canary__``.
    """
    return CANARY in topic and f"/{CANARY}/" in f"/{topic}/"


def barrier_topic(prefix: str, agent: str) -> str:
    """Return the MQTT topic of an agent's barriers, messages that mark that all earlier events were sent.

    It is ``PREFIX/__barrier__/AGENT``.
    """
    return f"{prefix}/{BARRIER}/{agent_topic_level(agent)}"


def is_barrier_topic(topic: str) -> bool:
    """Return whether an MQTT topic carries barriers, messages of an agent that mark that all earlier events were sent.

    It is ``PREFIX/__barrier__/AGENT``, or has the older form ``PREFIX/__barrier__``.
    """
    topic_with_slash = f"/{topic}"
    return topic_with_slash.endswith(f"/{BARRIER}") or topic_with_slash.rpartition("/")[0].endswith(f"/{BARRIER}")


def is_barrier_topic_of(topic: str, agent: str) -> bool:
    """Return whether an MQTT topic carries a given agent's barriers, which mark that all earlier events were sent.

    True also for the older form of the topic, which names no agent.
    """
    return topic.endswith((f"/{BARRIER}", f"/{BARRIER}/{agent_topic_level(agent)}"))


def topic_without_last_level(topic: str) -> str:
    """Return the MQTT topic of an event without its last level, or the whole topic if it has one level.

    A canary or barrier proves the route of the events with the same result. A barrier has the result of the events that
    it follows.
    """
    prefix = topic.rpartition("/")[0]
    if is_barrier_topic(topic):
        prefix = prefix.removesuffix(f"/{BARRIER}")
    return prefix or topic
