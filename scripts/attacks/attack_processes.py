"""Run attacks in parallel processes, and stop their labs if the program is terminated."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import TypeVar

from activemq_fleet.cli.lab_options import stop_signals_as_interrupt

_Input = TypeVar("_Input")
_Output = TypeVar("_Output")

INTERRUPTED = 130
"""Exit status after SIGINT or SIGTERM."""


def run_in_processes(run: Callable[[_Input], _Output], inputs: Sequence[_Input], processes: int) -> Iterator[_Output]:
    """Yield ``run(input)`` for each input, in order, from parallel processes.

    Threads are not enough, because Ansible reads inventories in one thread only. SIGINT and SIGTERM raise
    KeyboardInterrupt, after each process has left the ``with`` blocks of its call.
    """
    context = multiprocessing.get_context("spawn")
    with stop_signals_as_interrupt(), ProcessPoolExecutor(processes, context, _exit_on_sigterm) as pool:
        try:
            yield from pool.map(partial(_run_or_exit, run), inputs)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise


def _exit_on_sigterm() -> None:
    """Handle SIGTERM so that it ends the current call of this process, and ignore SIGINT.

    A terminal sends SIGINT to all processes, and the parent process then terminates its children.
    """

    def end_call(_number: int, _frame: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second signal must not interrupt the cleanup of a lab
        raise SystemExit(INTERRUPTED)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, end_call)


def _run_or_exit(run: Callable[[_Input], _Output], value: _Input) -> _Output:
    """Return ``run(value)``; exit the process after SIGTERM, because the pool would pass the next call to it."""
    try:
        return run(value)
    except SystemExit:
        os._exit(INTERRUPTED)
