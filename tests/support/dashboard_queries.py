"""The queries of all panels of the Grafana dashboards."""

from __future__ import annotations

from collections.abc import Iterator

from activemq_fleet.render.monitoring.dashboards import DASHBOARDS, replace_grafana_variables_by_values


def dashboard_panel_queries(*, host: str = ".*", pair: str = ".*") -> Iterator[tuple[str, str, str]]:
    """Yield every query of the Grafana dashboards as a tuple (name of the dashboard, panel title, PromQL).

    Grafana's variables are replaced by the given host and pair.
    """
    for dashboard in DASHBOARDS:
        for panel in dashboard.panels:
            for expr, _ in panel.queries:
                yield dashboard.name, panel.title, replace_grafana_variables_by_values(expr, host=host, pair=pair)
