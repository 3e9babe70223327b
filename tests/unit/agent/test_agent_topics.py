"""Internal topics of the agents, which differ from topics of events and name their sender."""

from __future__ import annotations

import pytest
from paho.mqtt.client import topic_matches_sub

from activemq_fleet.agent_topics import (
    barrier_topic,
    canary_topic,
    canary_topic_matching,
    is_barrier_topic,
    is_barrier_topic_of,
    is_canary_topic,
    topic_without_last_level,
)


def test_canary_and_barrier_topics_are_distinguished_from_event_topics() -> None:
    assert canary_topic("a/b", "host.example.com") == "a/b/__canary__/host_example_com"
    assert canary_topic("", "h+#/$") == "__canary__/h____"
    assert is_canary_topic("a/b/__canary__/h")
    assert is_canary_topic("__canary__/h")
    assert is_canary_topic("a/__canary__")
    assert not is_canary_topic("a/__canary__b/h")
    assert is_barrier_topic("a/__barrier__")
    assert is_barrier_topic("a/__barrier__/b")
    assert not is_barrier_topic("a/__barrier__/b/c")
    assert not is_barrier_topic("a/__barrier__b/c")
    assert (topic_without_last_level("a/b/c"), topic_without_last_level("a")) == ("a/b", "a")
    assert (topic_without_last_level("a/b/__barrier__"), topic_without_last_level("a/b/__barrier__/x")) == (
        "a/b",
        "a/b",
    )


def test_topic_of_barrier_names_its_sender_except_in_older_form() -> None:
    assert barrier_topic("a/b", "host.example.com") == "a/b/__barrier__/host_example_com"
    assert is_barrier_topic_of("a/__barrier__/host_example_com", "host.example.com")
    assert not is_barrier_topic_of("a/__barrier__/host_example_com", "other")
    assert is_barrier_topic_of("a/__barrier__", "anybody")


@pytest.mark.parametrize(
    ("topic_filter", "anchor"),
    [
        ("a/#", "a/__canary__/h"),
        ("#", "__canary__/h"),
        ("a/+/#", "a/__canary__/__canary__/h"),
        ("+", "__canary__"),
        ("a/+", "a/__canary__"),
        ("a/+/c", "a/__canary__/c"),
        ("+/b/+/d", "__canary__/b/__canary__/d"),
        ("a/b", None),
        ("a", None),
    ],
)
def test_only_wildcard_filter_has_canary_topic_and_matches_it(topic_filter: str, anchor: str | None) -> None:
    canary = canary_topic_matching(topic_filter, "h")
    assert canary == anchor
    if canary is not None:
        assert is_canary_topic(canary)
        assert topic_matches_sub(topic_filter, canary)
