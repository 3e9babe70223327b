"""Waits of the tests: the error of a wait that timed out, which is not a failed assertion."""

from __future__ import annotations

import pytest

from tests.waiting import LateError, wait_until


def test_error_of_wait_names_condition_and_last_observation() -> None:
    with pytest.raises(LateError, match="after 0 s: this condition does not hold: it is standby: its log is empty"):
        wait_until(lambda: False, "it is standby", seen=lambda: "its log is empty", patience=0)


def test_error_of_observation_does_not_hide_condition_of_wait() -> None:
    with pytest.raises(LateError, match="it is standby: ZeroDivisionError"):
        wait_until(lambda: False, "it is standby", seen=lambda: 1 / 0, patience=0)


def test_wait_retries_expected_error_and_reports_it_at_timeout() -> None:
    answers = iter([ConnectionError("refused"), True])

    def next_answer() -> object:
        answer = next(answers, ConnectionError("reset"))
        if isinstance(answer, Exception):
            raise answer
        return answer

    wait_until(next_answer, "it answers", pause=0, expected_errors=(ConnectionError,))
    with pytest.raises(LateError, match="it answers: ConnectionError: reset"):
        wait_until(next_answer, "it answers", pause=0, patience=0, expected_errors=(ConnectionError,))
    with pytest.raises(ConnectionError):
        wait_until(next_answer, "it answers", pause=0, patience=0)


def test_error_of_wait_is_not_an_assertion_error() -> None:
    assert not issubclass(LateError, AssertionError)
