"""Fixtures of all integration tests: labs and brokers that stop at the end of each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from activemq_fleet.lab.lab import Lab
from tests.integration.labs import processes_of
from tests.integration.single_brokers import BrokerSandbox

LabOf = Callable[..., Lab]


@pytest.fixture
def lab_of(tmp_path: Path) -> Iterator[LabOf]:
    """Provide a function that opens labs, each in a new directory; check that no process is left after the test."""
    with ExitStack() as stack:
        directories: list[Path] = []

        def open_lab(sources: str | Path | Sequence[str | Path], *, extra_vars: Sequence[str] = ()) -> Lab:
            directories.append(tmp_path / f"lab{len(directories)}")
            return stack.enter_context(Lab.open(sources, directories[-1], extra_vars=extra_vars))

        yield open_lab
    assert not [pid for directory in directories for pid in processes_of(directory)]


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[BrokerSandbox]:
    """Provide a sandbox for brokers with handwritten files; check that no process is left after the test."""
    with BrokerSandbox(tmp_path / "sandbox") as sandbox:
        yield sandbox
    assert not processes_of(sandbox.lab_paths.directory)
