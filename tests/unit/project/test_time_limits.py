"""The check that reports tests which compare a duration with a constant, and the helpers that replace such tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.check_time_limits import find_comparisons, main
from tests.waiting import LateError, within
from tests.work import QUADRATIC, count_lines, growth_of_time

COMPARISONS = {
    "directly": "assert time.monotonic() - began < 5",
    "through a variable": "took = time.monotonic() - began\n    assert took < LIMIT",
    "with a deadline": "end = time.monotonic() + 60\n    assert time.monotonic() < end",
    "of processor time": "used = time.process_time() - began\n    assert 0.1 < used",
    "through a helper": "assert seconds_of(print) < 3",
    "of several": "small, large = (seconds_of(print) for _ in range(2))\n    assert large < 30 * small + 1",
    "in a list": "took = []\n    took.append(seconds_of(print))\n    assert max(took) < 2",
    "as a rate": "assert 100 / seconds_of(print) > 10",
    "approximately": "assert 7 == pytest.approx(time.time(), abs=60)",
    "before a failure": "if seconds_of(print) > 5:\n        pytest.fail('slow')",
    "in a condition": "slow = [name for name in 'ab' if seconds_of(print) > 1]",
    "from timeit": "assert timeit.timeit('1') < 1",
    "from resource": "assert resource.getrusage(0).ru_utime < 1 or resource.getrusage(0)[0] < 1",
    "of dates": "assert (datetime.now() - before).total_seconds() < 9",
}
ALLOWED = {
    "two durations": "assert seconds_of(print) < 3 * seconds_of(print)",
    "a loop": "end = time.monotonic() + 60\n    while time.monotonic() < end:\n        pass",
    "an end of a wait": "while True:\n        if time.monotonic() - began > 9:\n            raise LateError",
    "two moments": "assert began <= time.monotonic()",
    "a moment of the product": "assert began - 60 <= reported",
    "a number": "lines = 5\n    assert lines < 9",
}
FORM = """
import time

LIMIT = 5

def seconds_of(act):
    began = time.perf_counter()
    act()
    return time.perf_counter() - began

def test_it(reported, before):
    began = time.monotonic()
    {}
"""


@pytest.mark.parametrize("form", COMPARISONS)
def test_check_time_limits_reports_comparison_of_duration_with_constant(
    tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_it.py").write_text(FORM.format(COMPARISONS[form]))
    assert main([str(tmp_path)]) == 1
    assert f"{tmp_path}/test_it.py:" in capsys.readouterr().err


@pytest.mark.parametrize("form", ALLOWED)
def test_comparison_that_does_not_depend_on_machine_is_allowed(tmp_path: Path, form: str) -> None:
    (tmp_path / "test_it.py").write_text(FORM.format(ALLOWED[form]))
    assert find_comparisons([tmp_path]) == []


def test_growth_of_time_distinguishes_linear_from_quadratic_work() -> None:
    def compare_all(numbers: list[int]) -> int:
        return sum(first < second for first in numbers for second in numbers)

    assert growth_of_time(sorted, lambda size: list(range(size)), 20_000) < QUADRATIC
    assert growth_of_time(compare_all, lambda size: list(range(size)), 60) > QUADRATIC


def test_count_of_executed_lines_includes_lines_of_called_functions() -> None:
    def add(count: int) -> int:
        total = 0
        for number in range(count):
            total += number
        return total

    assert count_lines(lambda: add(20)) - count_lines(lambda: add(10)) == 20


def test_call_that_hangs_fails_as_timed_out() -> None:
    with pytest.raises(LateError, match="timed out after 0 s"):
        within(0, lambda: __import__("time").sleep(1))
