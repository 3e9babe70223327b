"""The mark of tests of which `make test` runs a few situations."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests import situations


@dataclass
class CollectedTest:
    """What `skip_further_situations` uses of an item that pytest collected."""

    nodeid: str
    count: int | None
    added: list[pytest.MarkDecorator] = field(default_factory=list)

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        marked = situations.some_situations(self.count) if self.count else None
        return marked.mark if marked and marked.name == name else None

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.added.append(marker)


def not_skipped(monkeypatch: pytest.MonkeyPatch, collected: list[CollectedTest], *, every: bool = False) -> list[str]:
    monkeypatch.setattr(situations, "EVERY_SITUATION", every)
    situations.skip_further_situations(collected)  # type: ignore[arg-type]  # stand-ins for items
    return [item.nodeid for item in collected if not item.added]


def test_situations_that_run_are_evenly_spread_over_each_test(monkeypatch: pytest.MonkeyPatch) -> None:
    collected = [CollectedTest(f"test_x.py::test_a[{number}]", 3) for number in range(9)]
    collected += [CollectedTest(f"test_x.py::test_b[{number}]", None) for number in range(2)]

    assert not_skipped(monkeypatch, collected) == [
        *(f"test_x.py::test_a[{number}]" for number in (0, 3, 6)),
        *(f"test_x.py::test_b[{number}]" for number in range(2)),
    ]


def test_single_collected_situation_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not_skipped(monkeypatch, [CollectedTest("test_x.py::test_a[7]", 3)]) == ["test_x.py::test_a[7]"]


def test_each_situation_runs_with_situations_all(monkeypatch: pytest.MonkeyPatch) -> None:
    collected = [CollectedTest(f"test_x.py::test_a[{number}]", 1) for number in range(4)]

    assert len(not_skipped(monkeypatch, collected, every=True)) == 4
