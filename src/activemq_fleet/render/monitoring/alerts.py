"""Read the alerts of a fleet from alerts.toml, each with its PromQL, severity, duration, meaning and remedy."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

_DURATION = re.compile(r"<(\d+)(s|m|h|)>")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "": 1}
_NO_PLANNED_OPERATION = " unless on (group, pair) activemq:operation"


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """A Prometheus recording rule.

    It has the name of the new series, and its PromQL.
    """

    name: str
    expr: str


@dataclass(frozen=True, slots=True)
class Alert:
    """An alerting rule of Prometheus.

    ``wait`` is how long its cause must last, ``planned`` whether planned work on the pair mutes it. ``meaning`` and
    ``todo`` are for docs/alerts.md, ``summary`` is the line in the notification.
    """

    name: str
    severity: Literal["critical", "warning", "info"]
    wait: str
    expr: str
    summary: str
    meaning: str
    todo: str
    planned: bool = False

    @property
    def documentation_anchor(self) -> str:
        """The anchor of the alert's section in the page docs/alerts.md, for links to it."""
        return self.name.lower()

    def promql(self, duration_factor: float = 1) -> str:
        """Return the PromQL expression of the alert, with its durations multiplied by ``duration_factor``.

        With 1, they are unchanged.
        """
        return scale_durations(self.expr + (_NO_PLANNED_OPERATION if self.planned else ""), duration_factor)


def _read_toml() -> dict[str, list[dict[str, Any]]]:
    return tomllib.loads(files(__package__).joinpath("alerts.toml").read_text("utf-8"))


_TABLES = _read_toml()
RECORDS = tuple(RecordingRule(**entry) for entry in _TABLES["records"])
ALERTS = tuple(Alert(**entry) for entry in _TABLES["alerts"])


def scale_durations(text: str, duration_factor: float) -> str:
    """Return a text, such as a PromQL expression, with its durations scaled by the factor ``duration_factor``.

    Durations are in angle brackets, such as ``<5m>`` and ``<300>``. A number without a unit is in seconds, and stays
    without a unit; no duration becomes shorter than a second.
    """

    def replaced(match: re.Match[str]) -> str:
        number, unit = int(match[1]), match[2]
        if duration_factor == 1:
            return f"{number}{unit}"
        seconds = max(1, round(number * _SECONDS[unit] * duration_factor)) if number else 0
        return f"{seconds}s" if unit else str(seconds)

    return _DURATION.sub(replaced, text)
