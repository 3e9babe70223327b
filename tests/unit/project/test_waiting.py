"""Waits of the tests: what they say when they run out, and that this is no failed assertion."""

from __future__ import annotations

import pytest

from tests.waiting import LateError, wait_until


def test_a_wait_that_ran_out_says_what_was_waited_for_and_what_was_seen() -> None:
    with pytest.raises(LateError, match="after 0 s: this condition does not hold: it stands by: its log is empty"):
        wait_until(lambda: False, "it stands by", seen=lambda: "its log is empty", patience=0)


def test_what_goes_wrong_with_a_look_does_not_hide_the_wait() -> None:
    with pytest.raises(LateError, match="it stands by: ZeroDivisionError"):
        wait_until(lambda: False, "it stands by", seen=lambda: 1 / 0, patience=0)


def test_an_error_that_may_pass_is_waited_out_and_told_at_the_end() -> None:
    answers = iter([ConnectionError("refused"), True])

    def answer() -> object:
        found = next(answers, ConnectionError("reset"))
        if isinstance(found, Exception):
            raise found
        return found

    wait_until(answer, "it answers", pause=0, expected_errors=(ConnectionError,))
    with pytest.raises(LateError, match="it answers: ConnectionError: reset"):
        wait_until(answer, "it answers", pause=0, patience=0, expected_errors=(ConnectionError,))
    with pytest.raises(ConnectionError):
        wait_until(answer, "it answers", pause=0, patience=0)


def test_a_wait_that_ran_out_is_no_failed_assertion() -> None:
    assert not issubclass(LateError, AssertionError)
