"""The topics of the agents' own: canaries, which agents send to themselves, and barriers. A leaf, as ``addresses``.

Every one ends in the name of the agent that sends on it, so that brokers can let nobody else do so. Topics that
were received are compared here, and never taken apart.
"""

from __future__ import annotations

import re

CANARY = "__canary__"
BARRIER = "__barrier__"
ROLES = ("publisher", "subscriber", "check")
"""The connections of an agent that have a canary each: ``AGENT-ROLE``."""
LARGEST_CANARY = 64
"""Bytes of a canary's payload; ours have 32."""
LARGEST_BARRIER = 512
"""Bytes of a barrier's payload: an event id of ours has 260 at most."""


def level_of(agent: str) -> str:
    """An agent's name as one level of a topic; dots and signs become ``_``: some releases swap dots and slashes."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", agent)


def canary_topic(prefix: str, agent: str) -> str:
    """``PREFIX/__canary__/AGENT``: where an agent sends to itself; all agents drop what comes on such topics.

    An empty prefix gives ``__canary__/AGENT``.
    """
    return f"{prefix}/{CANARY}/{level_of(agent)}" if prefix else f"{CANARY}/{level_of(agent)}"


def concrete_topic(topic_filter: str, agent: str) -> str | None:
    """A canary's topic that a filter with wildcards matches: ``a/#`` -> ``a/__canary__/AGENT``; None without any.

    ActiveMQ writes a durable subscription to the store of each topic that the filter matches. Where there is none
    yet, the broker that takes over knows nothing of it, and what is published there before the subscriber is back
    goes to nobody (all of 20 events on 5.18.3 and 6.3.1, ``tests/integration/test_agent_first_event.py``).
    """
    topic = topic_filter.replace("+", CANARY)  # which is a level by itself, as # is (``config.check_filter``)
    if topic.endswith("#"):
        return canary_topic(topic[:-1].removesuffix("/"), agent)
    return topic if topic != topic_filter else None


def is_canary(topic: str) -> bool:
    """Whether a topic is some agent's canary, or an anchor: no event has such a level."""
    return CANARY in topic and f"/{CANARY}/" in f"/{topic}/"


def barrier_topic(prefix: str, agent: str) -> str:
    """``PREFIX/__barrier__/AGENT``: what arrives there means that all of the agent's events before it are sent."""
    return f"{prefix}/{BARRIER}/{level_of(agent)}"


def is_barrier(topic: str) -> bool:
    """Whether a topic is one of barriers: ``PREFIX/__barrier__/AGENT``, or the older form ``PREFIX/__barrier__``."""
    rooted = f"/{topic}"
    return rooted.endswith(f"/{BARRIER}") or rooted.rpartition("/")[0].endswith(f"/{BARRIER}")


def is_barrier_of(topic: str, agent: str) -> bool:
    """Whether an agent of this name sends its barriers on a topic; the older form names nobody."""
    return topic.endswith((f"/{BARRIER}", f"/{BARRIER}/{level_of(agent)}"))


def prefix_of(topic: str) -> str:
    """The prefix that an event's topic is proved by: all but its last level, or all of a topic of one level.

    A barrier has the prefix of the events that it follows.
    """
    prefix = topic.rpartition("/")[0]
    if is_barrier(topic):
        prefix = prefix.removesuffix(f"/{BARRIER}")
    return prefix or topic
