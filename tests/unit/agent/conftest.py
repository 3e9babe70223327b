"""Fixtures of the agent's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.guarded import directory_for_handlers

from .handler_bench import HandlerBench
from .service_runs import RunningAgent


@pytest.fixture
def start_agent(tmp_path: Path) -> Iterator[Callable[..., RunningAgent]]:
    """Yield a function that starts an agent in a thread, and stop all of these agents at the end."""
    agents: list[RunningAgent] = []

    def start(**fields: Any) -> RunningAgent:
        directory = tmp_path / str(len(agents))
        directory.mkdir()
        agents.append(RunningAgent(directory, **fields))
        return agents[-1].start()

    yield start
    for agent in agents:
        agent.stop()
        agent.systemd.close()


@pytest.fixture
def trusted_directory() -> Iterator[Path]:
    """Yield a directory in which the agent permits handlers."""
    with directory_for_handlers() as directory:
        yield directory


@pytest.fixture
def bench(tmp_path: Path, trusted_directory: Path) -> Iterator[HandlerBench]:
    handler_bench = HandlerBench(tmp_path, trusted_directory / "handlers.d")
    yield handler_bench
    if handler_bench.handlers:
        handler_bench.handlers.close(5.0)
    handler_bench.store.close()
