"""Run the tiers one after the other, stop at the first tier that fails, and print the results.

    python -m scripts.run_tests [TIER ...] [--keep-going]

A tier whose tests were all skipped is shown as SKIPPED, with the reason, and never as passed. The last line, ``N
passed, N failed, N skipped``, contains the sums of all tiers. Exit 0 if no test failed, 1 if a test failed, and 130
after an interruption.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from scripts.junit import count
from scripts.tiers import CHECKS, PYTHON, TIERS, Check, Tier

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a tier. ``problem`` is a failure that is not the failure of a single test."""

    tier: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    reasons: dict[str, int] = field(default_factory=dict)
    problem: str = ""
    ran: bool = True

    @property
    def only_skipped(self) -> bool:
        return self.skipped > 0 and not (self.passed or self.failed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tiers of the command line, or all tiers."""
    options = _options(arguments)
    tiers = [tier for tier in TIERS if not options.tiers or tier.name in options.tiers]
    reports = _reports_directory()
    results: list[Result] = []
    try:
        for tier in tiers:
            if any(result.failed for result in results) and not options.keep_going:
                results.append(Result(tier.name, ran=False))
                continue
            results.append(run_tier(tier, reports))
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return 130
    print("\n".join(["", *table(results), "", total(results)]), flush=True)
    return 1 if any(result.failed for result in results) else 0


def run_tier(tier: Tier, reports: Path) -> Result:
    """Run a tier, and pass its output through."""
    _print_heading(f"{tier.name}: {tier.title}")
    if tier.artifacts and (problem := _fetch_artifacts()):
        return Result(tier.name, failed=1, problem=problem)
    began = time.monotonic()
    match tier.kind:
        case "checks":
            result = _run_checks(tier, CHECKS)
        case "pytest":
            result = _run_pytest(tier, reports / f"{tier.name}.xml")
        case "command":
            code = _call(tier.command, reports)
            problem = f"exit code {code}" if code else ""
            result = Result(tier.name, passed=int(code == 0), failed=int(code != 0), problem=problem)
    seconds = time.monotonic() - began
    _print_heading(f"{tier.name}: {total([result])} in {seconds:.1f} s")
    return replace(result, seconds=seconds)


def _run_checks(tier: Tier, checks: Iterable[Check]) -> Result:
    """Run the checks, as many in parallel as the machine has cores, and print their results in order."""
    failed: list[str] = []
    passed = 0
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for check, (code, output, seconds) in zip(checks, pool.map(_capture, checks), strict=True):
            print(f"    {check.name:<16} {'failed' if code else 'ok'} {seconds:6.1f} s", flush=True)
            if code:
                failed.append(check.name)
                print(output.rstrip() or f"exit code {code}, without output", flush=True)
            else:
                passed += 1
    return Result(tier.name, passed, len(failed), problem=", ".join(failed))


def _capture(check: Check) -> tuple[int, str, float]:
    began = time.monotonic()
    process = subprocess.run(
        check.command,
        cwd=ROOT,
        env=_environment(),
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    return process.returncode, process.stdout, time.monotonic() - began


def _run_pytest(tier: Tier, report: Path) -> Result:
    code = _call([PYTHON, "-m", "pytest", *tier.command, f"--junit-xml={report}", "--quiet"], report.parent)
    counts = count(report)
    if counts is None:
        return Result(tier.name, failed=1, problem=f"pytest exited with {code} and wrote no report")
    failed, problem = counts.failed, ""
    if not (counts.passed or counts.failed or counts.skipped):
        failed, problem = 1, "pytest collected no test"
    elif code and not failed:
        failed, problem = 1, f"pytest exited with {code}"
    return Result(tier.name, counts.passed, failed, counts.skipped, reasons=counts.reasons, problem=problem)


def _call(command: Sequence[str], reports: Path) -> int:
    # By default, Molecule stores its state in a directory named after the project, which two runs would share.
    environment = _environment() | {"MOLECULE_EPHEMERAL_DIRECTORY": str(reports / "molecule")}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False, stdin=subprocess.DEVNULL).returncode


def _environment() -> dict[str, str]:
    """Return the caller's, with this environment's commands, the checkout's Ansible and no colours in a file.

    Python stores compiled modules, also if PYTHONDONTWRITEBYTECODE is set: the tests start thousands of processes.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = kept | {
        "ANSIBLE_HOME": str(ROOT / ".ansible"),
        "FLEET_REPEATABLE": "1",
        "PATH": os.pathsep.join([str(Path(PYTHON).parent), os.environ.get("PATH", os.defpath)]),
    }
    return environment if sys.stdout.isatty() else environment | {"NO_COLOR": "1"}


def _fetch_artifacts() -> str:
    command = [PYTHON, "-m", "scripts.prefetch", "tests"]
    process = subprocess.run(command, cwd=ROOT, env=_environment(), check=False, stdin=subprocess.DEVNULL)
    return "the files of the releases could not be downloaded" if process.returncode else ""


def table(results: Sequence[Result]) -> list[str]:
    """Return the final table with one row per tier, each followed by its problem and its reasons for skipped tests."""
    lines = [f"{'tier':<12} {'passed':>7} {'failed':>7} {'skipped':>8} {'seconds':>8}"]
    for result in results:
        if not result.ran:
            lines.append(f"{result.tier:<12} not run: an earlier tier failed")
            continue
        if result.only_skipped:
            lines.append(f"{result.tier:<12} SKIPPED: {'; '.join(result.reasons)}")
            continue
        numbers = f"{result.passed:>7} {result.failed:>7} {result.skipped:>8} {result.seconds:>8.1f}"
        lines.append(f"{result.tier:<12} {numbers}")
        if result.problem:
            lines.append(f"{'':<12} failed: {result.problem}")
        lines.extend(f"{'':<12} SKIPPED {number}: {reason}" for reason, number in result.reasons.items())
    return lines


def total(results: Sequence[Result]) -> str:
    """Return the last line, with the number of tests of all tiers."""
    passed, failed, skipped = (
        sum(getattr(result, name) for result in results) for name in ("passed", "failed", "skipped")
    )
    return f"{passed} passed, {failed} failed, {skipped} skipped"


def _reports_directory() -> Path:
    """Return a new directory for each run, so that parallel runs do not share files."""
    parent = ROOT / "build" / "test"
    parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=parent))


def _print_heading(text: str) -> None:
    print(f"==> {text}", flush=True)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="run_tests", description=(__doc__ or "").partition("\n")[0])
    names = [tier.name for tier in TIERS]
    parser.add_argument("tiers", nargs="*", metavar="TIER", help=f"tiers to run: {', '.join(names)} (default: all)")
    parser.add_argument("--keep-going", action="store_true", help="continue after a failed tier (KEEP_GOING=1)")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.tiers if name not in names]
    if unknown:
        parser.error(f"unknown tier {', '.join(unknown)}; use one or more of {', '.join(names)}")
    options.keep_going = options.keep_going or bool(os.environ.get("KEEP_GOING"))
    return options


if __name__ == "__main__":
    sys.exit(main())
