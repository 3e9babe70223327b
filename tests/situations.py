"""Situations of an operation or a release in addition to the situation that ``make test`` covers."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pytest

EVERY_SITUATION = os.environ.get("SITUATIONS") == "all"

in_every_situation = pytest.mark.skipif(
    not EVERY_SITUATION,
    reason="another test covers the usual situation of this operation: set SITUATIONS=all to run this test",
)
"""Marks a test whose operation another test of ``make test`` covers in its usual situation."""

fact_of_activemq = pytest.mark.skipif(
    not EVERY_SITUATION,
    reason="the test checks a fact about ActiveMQ that this code cannot change: set SITUATIONS=all to run it",
)
"""Marks a test of a release's behavior on which a rule or a default is based. No change of this project alters it."""


def further(*values: Any) -> list[Any]:
    """Return parameters of a test that only ``SITUATIONS=all`` runs; a tuple holds the values of several names."""
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=in_every_situation) for value in values
    ]


def some_situations(count: int) -> pytest.MarkDecorator:
    """Mark a parametrized test: ``make test`` runs ``count`` of its situations, SITUATIONS=all each."""
    return pytest.mark.some_situations(count)


def skip_further_situations(items: Iterable[pytest.Item]) -> None:
    """Skip all but the marked number of situations of each test, evenly spread over those that were selected."""
    if EVERY_SITUATION:
        return
    situations: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("some_situations"):
            situations[item.nodeid.partition("[")[0]].append(item)
    for collected in situations.values():
        marker = collected[0].get_closest_marker("some_situations")
        assert marker is not None
        count = min(marker.args[0], len(collected))
        selected = {number * len(collected) // count for number in range(count)}
        for number, item in enumerate(collected):
            if number not in selected:
                item.add_marker(in_every_situation)
