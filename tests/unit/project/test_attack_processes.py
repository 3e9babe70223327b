"""The processes of attacks: an interrupted program closes its running calls and starts no further calls."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.attacks.attack_processes import INTERRUPTED, run_in_processes
from tests.waiting import PATIENCE, wait_until

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = """
import sys
from pathlib import Path
from scripts.attacks.attack_processes import INTERRUPTED, run_in_processes
from tests.support.interruptible_call import wait_for_interruption

if __name__ == "__main__":
    try:
        list(run_in_processes(wait_for_interruption, [Path(sys.argv[1], str(n)) for n in range(6)], 2))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
"""


@pytest.mark.parametrize("stop_signal", [signal.SIGTERM, signal.SIGINT])
def test_interrupted_attack_program_closes_running_calls_and_starts_no_other(
    tmp_path: Path, stop_signal: signal.Signals
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    process = subprocess.Popen([sys.executable, str(program), str(tmp_path)], env={"PYTHONPATH": f"{ROOT}:{ROOT}/src"})
    try:
        wait_until(lambda: len(list(tmp_path.glob("*.open"))) == 2, "two calls run")
        process.send_signal(stop_signal)
        assert process.wait(timeout=PATIENCE) == INTERRUPTED
    finally:
        process.kill()
    assert sorted(path.stem for path in tmp_path.glob("*.closed")) == ["0", "1"]
    assert len(list(tmp_path.glob("*.open"))) == 2


def test_results_of_parallel_calls_have_order_of_inputs() -> None:
    assert list(run_in_processes(abs, [-3, 2, -1], 2)) == [3, 2, 1]
