"""Fixtures of the agent's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.guarded import directory_for_handlers

from .service_runs import Running


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    made: list[Running] = []

    def make(**fields: Any) -> Running:
        directory = tmp_path / str(len(made))
        directory.mkdir()
        made.append(Running(directory, **fields))
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
