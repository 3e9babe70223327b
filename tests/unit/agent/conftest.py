"""Fixtures of the agent's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.guarded import directory_for_handlers

from .service_runs import RunningAgent


@pytest.fixture
def start_agent(tmp_path: Path) -> Iterator[Callable[..., RunningAgent]]:
    made: list[RunningAgent] = []

    def make(**fields: Any) -> RunningAgent:
        directory = tmp_path / str(len(made))
        directory.mkdir()
        made.append(RunningAgent(directory, **fields))
        return made[-1].start()

    yield make
    for one in made:
        one.stop()
        one.systemd.close()


@pytest.fixture
def guarded() -> Iterator[Path]:
    """A directory in which handlers may lie."""
    with directory_for_handlers() as directory:
        yield directory
