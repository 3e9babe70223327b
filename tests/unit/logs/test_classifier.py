"""Tests of the log message classifier: it gives the same kinds as a trial of all expressions."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.logs.classifier import (
    KINDS,
    LogMessageClassifier,
    classifier_for_release,
    is_written_by_release,
    prefix_and_longest_literal,
)
from activemq_fleet.logs.kinds import log_message_kind, log_message_kind_ids
from activemq_fleet.releases import Release
from tests.log_reading import examples_of, first_matching_kind

RELEASES = [None, "5.5.1", "5.16.7", "6.3.1"]


@cache
def kinds_of_release(release: str | None) -> tuple[str, ...]:
    return (
        log_message_kind_ids()
        if release is None
        else tuple(k for k in log_message_kind_ids() if is_written_by_release(log_message_kind(k), Release.of(release)))
    )


def assert_classifier_agrees(message: str, release: str | None) -> None:
    code, fields = classifier_for_release(release).kind_index_and_values(message)
    assert (KINDS[code], dict(fields)) == first_matching_kind(message, kinds_of_release(release))


@pytest.mark.parametrize("release", RELEASES)
def test_example_log_messages_have_first_kind_that_matches(release: str | None) -> None:
    for kind_id in log_message_kind_ids():
        for message in examples_of(kind_id):
            assert_classifier_agrees(message, release)


@given(st.data())
def test_log_message_classifier_agrees_with_trial_of_all_expressions(data: st.DataObject) -> None:
    message_parts = st.one_of(
        st.sampled_from(log_message_kind_ids()).map(
            lambda kind_id: prefix_and_longest_literal(log_message_kind(kind_id).regex.pattern)[1]
        ),
        st.sampled_from(log_message_kind_ids()).flatmap(lambda kind_id: st.sampled_from(examples_of(kind_id))),
        st.sampled_from([" ", "\n", ", ", ": ", "x", "12", "tcp://a:1", "ID:a-1-2-3:4"]),
        st.text(max_size=4),
    )
    assert_classifier_agrees(
        "".join(data.draw(st.lists(message_parts, min_size=1, max_size=4))), data.draw(st.sampled_from(RELEASES))
    )


def test_every_log_message_expression_matches_one_of_its_examples() -> None:
    assert [
        kind_id
        for kind_id in log_message_kind_ids()
        if not any(log_message_kind(kind_id).regex.search(text) for text in examples_of(kind_id))
    ] == []


def test_prefix_and_literal_of_log_message_expression_are_in_its_examples() -> None:
    for kind_id in log_message_kind_ids():
        prefix, literal = prefix_and_longest_literal(log_message_kind(kind_id).regex.pattern)
        for message in examples_of(kind_id):
            assert message.startswith(prefix), kind_id
            assert literal in message, kind_id


def test_prefix_and_literal_of_expression_exclude_alternatives_and_options() -> None:
    assert prefix_and_longest_literal(r"^abc|def$") == ("", "")
    assert prefix_and_longest_literal(r"^abcd?e(?:xyz)*fg{2}[hijklm]no") == ("abc", "abc")


def test_repeated_log_message_is_classified_once() -> None:
    classifier = LogMessageClassifier("5.18.3")
    kind_and_values = classifier.kind_index_and_values("Connector stomp started")
    assert kind_and_values is classifier.kind_index_and_values("Connector stomp started")


@pytest.mark.parametrize(
    ("kind_id", "release", "is_written"),
    [
        ("LIFE-STARTED-OLD", "5.6.0", True),
        ("LIFE-STARTED-OLD", "5.7.0", False),
        ("LIFE-STARTED", "6.3.1", True),
        ("RLD-PROMOTED", "5.16.8", True),
        ("RLD-PROMOTED", "5.17.6", False),
        ("TR-CONN-FAILED", "5.5.1", False),
        ("LIFE-CONTEXT-FAIL", "5.5.1", True),
        ("KDB-CORRUPT-FATAL", "5.14.0", True),
        ("LOCK-FILE-WAIT-OLD", "5.12.0", True),
    ],
)
def test_releases_of_log_message_kind_are_parsed_from_text(kind_id: str, release: str, is_written: bool) -> None:
    assert is_written_by_release(log_message_kind(kind_id), Release.of(release)) is is_written
