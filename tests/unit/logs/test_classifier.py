"""The dispatch finds what trying all expressions one by one finds."""

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
from tests.log_reading import examples_of, plain_kind

RELEASES = [None, "5.5.1", "5.16.7", "6.3.1"]


@cache
def among(release: str | None) -> tuple[str, ...]:
    return (
        log_message_kind_ids()
        if release is None
        else tuple(k for k in log_message_kind_ids() if is_written_by_release(log_message_kind(k), Release.of(release)))
    )


def agrees(message: str, release: str | None) -> None:
    code, fields = classifier_for_release(release).kind_index_and_values(message)
    assert (KINDS[code], dict(fields)) == plain_kind(message, among(release))


@pytest.mark.parametrize("release", RELEASES)
def test_what_an_expression_matches_is_found_as_the_first_that_does(release: str | None) -> None:
    for id_ in log_message_kind_ids():
        for message in examples_of(id_):
            agrees(message, release)


@given(st.data())
def test_classifier_agrees_with_trial_of_all_expressions(data: st.DataObject) -> None:
    pieces = st.one_of(
        st.sampled_from(log_message_kind_ids()).map(
            lambda id_: prefix_and_longest_literal(log_message_kind(id_).regex.pattern)[1]
        ),
        st.sampled_from(log_message_kind_ids()).flatmap(lambda id_: st.sampled_from(examples_of(id_))),
        st.sampled_from([" ", "\n", ", ", ": ", "x", "12", "tcp://a:1", "ID:a-1-2-3:4"]),
        st.text(max_size=4),
    )
    agrees("".join(data.draw(st.lists(pieces, min_size=1, max_size=4))), data.draw(st.sampled_from(RELEASES)))


def test_every_expression_has_an_example_that_it_matches() -> None:
    assert [
        id_
        for id_ in log_message_kind_ids()
        if not any(log_message_kind(id_).regex.search(text) for text in examples_of(id_))
    ] == []


def test_the_letters_of_an_expression_are_in_all_that_it_matches() -> None:
    for id_ in log_message_kind_ids():
        prefix, needed = prefix_and_longest_literal(log_message_kind(id_).regex.pattern)
        for message in examples_of(id_):
            assert message.startswith(prefix), id_
            assert needed in message, id_


def test_a_choice_or_an_option_is_not_taken_for_letters() -> None:
    assert prefix_and_longest_literal(r"^abc|def$") == ("", "")
    assert prefix_and_longest_literal(r"^abcd?e(?:xyz)*fg{2}[hijklm]no") == ("abc", "abc")


def test_messages_that_repeat_are_looked_up_once() -> None:
    classifier = LogMessageClassifier("5.18.3")
    first = classifier.kind_index_and_values("Connector stomp started")
    assert first is classifier.kind_index_and_values("Connector stomp started")


@pytest.mark.parametrize(
    ("id_", "release", "fit"),
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
def test_releases_of_a_kind_are_read_from_their_text(id_: str, release: str, fit: bool) -> None:
    assert is_written_by_release(log_message_kind(id_), Release.of(release)) is fit
