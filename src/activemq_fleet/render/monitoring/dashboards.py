"""Generate Grafana dashboards (fleet, pair, broker, agents) as JSON from the tables of panels in dashboards.toml.

The module uses dictionaries and not grafana-foundation-sdk: a panel is only a title, a unit and queries, and the SDK's
package has an epoch in its version for each release of Grafana. The model is that of Grafana 9 and later (schemaVersion
36).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from pydantic import TypeAdapter

_DATA_SOURCE = {"type": "prometheus", "uid": "${source}"}
_WIDTH, _HEIGHT = 8, 8
_GRID_WIDTH = 24


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of a Grafana dashboard.

    It has its title, its queries with their legends, and the unit of its values in Grafana's names.
    """

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A Grafana dashboard.

    It has its name, title, panels, and the variables (label, and metric with this label) that the viewer selects.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    variables: tuple[tuple[str, str], ...] = ()


def _read_dashboards() -> tuple[Dashboard, ...]:
    tables = tomllib.loads(files(__package__).joinpath("dashboards.toml").read_text("utf-8"))
    return TypeAdapter(tuple[Dashboard, ...]).validate_python(tables["dashboards"])


DASHBOARDS = _read_dashboards()


def dashboard_files() -> dict[str, bytes]:
    """Return the files of the Grafana dashboards (JSON), by name.

    The viewer selects the data source.
    """
    return {
        dashboard.name: (json.dumps(_dashboard_model(dashboard), indent=1) + "\n").encode() for dashboard in DASHBOARDS
    }


def replace_grafana_variables_by_values(expr: str, *, host: str = ".*", pair: str = ".*", interval: str = "5m") -> str:
    """Return a PromQL expression in which values replace Grafana's variables, such as ``$host`` and ``$pair``.

    The values are a host, pair and interval.
    """
    values = {"$__rate_interval": interval, "$__range": interval, "$host": host, "$pair": pair}
    for name, value in values.items():
        expr = expr.replace(name, value)
    return expr


def _dashboard_model(dashboard: Dashboard) -> dict[str, Any]:
    return {
        "uid": dashboard.name,
        "title": dashboard.title,
        "tags": ["activemq"],
        "schemaVersion": 36,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_DATA_SOURCE_VARIABLE, *_variable_models(dashboard.variables)]},
        "panels": [_panel_model(panel, position) for position, panel in enumerate(dashboard.panels)],
    }


_DATA_SOURCE_VARIABLE = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _variable_models(variables: Iterable[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    for label, metric in variables:
        query = f"label_values({metric}, {label})"
        yield {
            "name": label,
            "type": "query",
            "datasource": _DATA_SOURCE,
            "query": {"query": query, "refId": label},
            "definition": query,
            "refresh": 2,
            "sort": 1,
            "includeAll": True,
            "multi": True,
        }


def _panel_model(panel: Panel, position: int) -> dict[str, Any]:
    panels_per_row = _GRID_WIDTH // _WIDTH
    return {
        "id": position + 1,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _DATA_SOURCE,
        "gridPos": {
            "x": position % panels_per_row * _WIDTH,
            "y": position // panels_per_row * _HEIGHT,
            "w": _WIDTH,
            "h": _HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": _query_models(panel.queries),
    }


def _query_models(pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    return [
        {"refId": chr(ord("A") + index), "datasource": _DATA_SOURCE, "expr": expr, "legendFormat": legend}
        for index, (expr, legend) in enumerate(pairs)
    ]
