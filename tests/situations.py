"""Situations of an operation or a release beside the one in which ``make test`` shows it."""

from __future__ import annotations

import os
from typing import Any

import pytest

EVERY_SITUATION = os.environ.get("SITUATIONS") == "all"

in_every_situation = pytest.mark.skipif(not EVERY_SITUATION, reason="one situation of several: SITUATIONS=all")
"""Marks a test whose operation another test of ``make test`` shows in its usual situation."""

fact_of_activemq = pytest.mark.skipif(
    not EVERY_SITUATION, reason="a fact about ActiveMQ, not about this code: SITUATIONS=all"
)
"""Marks a test of what a release does, on which a rule or a default is based: no change of this project alters it."""


def further(*values: Any) -> list[Any]:
    """Return parameters of a test that only ``SITUATIONS=all`` runs; a tuple holds the values of several names."""
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=in_every_situation) for value in values
    ]
