"""The mark of tests of which `make test` runs a few situations."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests import situations


@dataclass
class CollectedTest:
    """The members of an item collected by pytest that `skip_further_situations` uses."""

    nodeid: str
    count: int | None
    added: list[pytest.MarkDecorator] = field(default_factory=list)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        marked = situations.some_situations(self.count) if self.count else None
        return marked.mark if marked and marked.name == name else None

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.added.append(marker)


def running_tests(monkeypatch: pytest.MonkeyPatch, collected: list[CollectedTest], *, every: bool = False) -> list[str]:
    """Return the tests that `skip_further_situations` does not skip."""
    monkeypatch.setattr(situations, "EVERY_SITUATION", every)
    situations.skip_further_situations(collected)  # type: ignore[arg-type]  # substitutes for items
    return [test.nodeid for test in collected if not test.added]


def test_selected_situations_are_evenly_distributed_over_each_test(monkeypatch: pytest.MonkeyPatch) -> None:
    collected = [CollectedTest(f"test_x.py::test_a[{number}]", 3) for number in range(9)]
    collected += [CollectedTest(f"test_x.py::test_b[{number}]", None) for number in range(2)]

    assert running_tests(monkeypatch, collected) == [
        *(f"test_x.py::test_a[{number}]" for number in (0, 3, 6)),
        *(f"test_x.py::test_b[{number}]" for number in range(2)),
    ]


def test_only_collected_situation_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert running_tests(monkeypatch, [CollectedTest("test_x.py::test_a[7]", 3)]) == ["test_x.py::test_a[7]"]


def test_all_situations_of_tests_run_if_variable_situations_is_all(monkeypatch: pytest.MonkeyPatch) -> None:
    collected = [CollectedTest(f"test_x.py::test_a[{number}]", 1) for number in range(4)]

    assert len(running_tests(monkeypatch, collected, every=True)) == 4
