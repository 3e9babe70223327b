"""The runner of ``make test`` counts and reports the outcomes of the tests correctly."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import run_tests
from scripts.junit import Counts, count
from scripts.run_tests import Result, table, total
from scripts.tiers import Tier

TIER = Tier("unit", "made up", "pytest", ["tests/unit"])


def _write_report(path: Path, cases: str) -> Path:
    """Write a JUnit report with test cases."""
    path.write_text(f"<testsuites><testsuite>{cases}</testsuite></testsuites>")
    return path


def test_each_outcome_of_junit_report_is_counted(tmp_path: Path) -> None:
    cases = """
        <testcase classname="a" name="passes"/>
        <testcase classname="a" name="fails"><failure/></testcase>
        <testcase classname="a" name="has_no_setup"><error/></testcase>
        <testcase classname="a" name="is_skipped"><skipped message="no root"/></testcase>
    """
    assert count(_write_report(tmp_path / "r.xml", cases)) == Counts(1, 2, 1, {"no root": 1})


def test_test_whose_cleanup_fails_counts_as_one_failure(tmp_path: Path) -> None:
    cases = '<testcase classname="a" name="x"><failure/></testcase><testcase classname="a" name="x"><error/></testcase>'
    assert count(_write_report(tmp_path / "r.xml", cases)) == Counts(0, 1, 0, {})


@pytest.mark.parametrize("text", [None, "<testsuites>"], ids=["missing", "cut off"])
def test_unreadable_junit_report_has_no_counts(tmp_path: Path, text: str | None) -> None:
    report = tmp_path / "r.xml"
    if text is not None:
        report.write_text(text)
    assert count(report) is None


@pytest.mark.parametrize(
    ("code", "cases", "problem"),
    [
        (5, "", "pytest collected no test"),
        (3, '<testcase classname="a" name="x"/>', "pytest exited with 3"),
        (4, None, "pytest exited with 4 and wrote no report"),
    ],
)
def test_failure_of_pytest_itself_is_counted_as_failure_of_tier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, cases: str | None, problem: str
) -> None:
    def call_pytest(command: list[str], _: Path) -> int:
        if cases is not None:
            _write_report(Path(command[-2].partition("=")[2]), cases)
        return code

    monkeypatch.setattr(run_tests, "_call", call_pytest)
    tier_result = run_tests.run_tier(TIER, tmp_path)
    assert (tier_result.failed, tier_result.problem) == (1, problem)


def test_skipped_test_tier_is_shown_with_its_reason() -> None:
    lines = table([Result("hosts", skipped=4, reasons={"no systemd hosts here: not root": 4})])
    assert lines[1:] == ["hosts        SKIPPED: no systemd hosts here: not root"]


def test_test_tier_after_failed_tier_is_shown_as_not_run() -> None:
    lines = table([Result("lint", failed=1, problem="ruff"), Result("unit", ran=False)])
    assert lines[-1] == "unit         not run: an earlier tier failed"


def test_total_of_test_run_is_sum_of_its_tiers() -> None:
    assert total([Result("a", 1, 0, 2), Result("b", 10, 1, 0)]) == "11 passed, 1 failed, 2 skipped"


def test_test_tiers_after_failed_tier_do_not_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    started_tiers: list[str] = []

    def run_tier(tier: Tier, _: Path) -> Result:
        started_tiers.append(tier.name)
        return Result(tier.name, failed=1) if tier.name == "unit" else Result(tier.name, passed=1)

    monkeypatch.delenv("KEEP_GOING", raising=False)
    monkeypatch.setattr(run_tests, "run_tier", run_tier)
    monkeypatch.setattr(run_tests, "_reports_directory", lambda: tmp_path)
    assert run_tests.main([]) == 1
    assert started_tiers == ["lint", "unit"]
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 1 failed, 0 skipped"
