"""Draw the panels of the dashboards with data of a real Prometheus, for docs/pictures: ``python -m scripts.panels``.

Prometheus scrapes two pairs and an agent of a lab for four minutes, under low load, while an active node is killed.
The script does not use Grafana, which Debian does not contain, and whose license does not permit its use in this
project.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from string import Template
from typing import Any

from activemq_fleet.lab.lab import Lab
from activemq_fleet.render.monitoring.dashboards import DASHBOARDS, Panel, replace_grafana_variables_by_values
from activemq_fleet.reports import pages
from activemq_fleet.reports.charts import SvgChart, tick_interval_seconds
from activemq_fleet.reports.pages import utc_time_text
from scripts.pictures import DIRECTORY
from tests.integration.agents import Agent, Load, write_fleet

_SECONDS = 240.0
_PLOT, _LINE = 70.0, 14.0  # heights of a panel's plot, and of a line of its legend
_COLORS = 6
_MAX_SERIES = 8
"""The maximum number of series in a panel."""
_PAGE = """\
{% import "macros.html.j2" as m %}
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Panels of the dashboards</title>
<style>
{% include "style.css" %}
.series{fill:none;stroke-width:1.6}
.series-0{stroke:var(--active)}.series-1{stroke:var(--good)}.series-2{stroke:var(--starting)}
.series-3{stroke:var(--hung)}.series-4{stroke:var(--down)}.series-5{stroke:var(--standby-line)}
.key-0{fill:var(--active)}.key-1{fill:var(--good)}.key-2{fill:var(--starting)}
.key-3{fill:var(--hung)}.key-4{fill:var(--down)}.key-5{fill:var(--standby-line)}
</style>
</head>
<body>
<main>
<header>
<p class="kicker">{{ began|moment("%d %B %Y, %H:%M:%S") }} to {{ ended|moment("%H:%M:%S") }} UTC</p>
<h1>Panels of the dashboards</h1>
</header>
<p class="note">Two pairs of 6.3.1 and an agent in a lab, scraped each second. The active node of the first pair was
killed after a third of the time, and started again after two thirds. Each line is a series of the query of a panel.</p>
{% for title, charts in sections %}
<section>
<h2>{{ title }}</h2>
{% for drawing in charts %}
{{ m.chart(drawing) -}}
{% endfor %}
</section>
{% endfor %}
</main>
</body>
</html>
"""
BROKERS = [f"orders-mq0{number}-{node}.example.com" for number in (1, 2) for node in "ab"]
AGENT = "kiosk.example.com"


def main() -> int:
    """Write docs/pictures/dashboards.html. Requires Prometheus, Alertmanager and node-exporter of Debian."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        root = Path(directory)
        agents = {AGENT: {"topics": ["orders/#"]}}
        variables = {"metrics_destinations": ["orders.>"], "topology": "mesh", "release": "6.3.1"}
        inventory = write_fleet(root / "inventory", root, BROKERS, agents, **variables)
        with Lab.open([inventory], directory=root / "lab", progress=print) as lab:
            lab.up(prometheus=True)
            began = time.time()
            with Agent(lab, AGENT) as agent:
                _cause_data(lab, agent)
                page = _page(lab, began, time.time())
    (DIRECTORY / "dashboards.html").write_text(page, encoding="utf-8")
    return 0


def _cause_data(lab: Lab, agent: Agent) -> None:
    """Publish events with the agent for four minutes; kill an active broker in the second third of the time."""
    agent.wait_connected()
    with Load(agent, ["orders/new"], rate=20):
        time.sleep(_SECONDS / 3)
        lab.kill(BROKERS[0])
        time.sleep(_SECONDS / 3)
        lab.start(BROKERS[0])
        time.sleep(_SECONDS / 3)


def _page(lab: Lab, began: float, ended: float) -> str:
    sections = [
        (dashboard.title, [_chart(panel, lab, began, ended) for panel in dashboard.panels]) for dashboard in DASHBOARDS
    ]
    return pages.ENVIRONMENT.from_string(_PAGE).render(began=began, ended=ended, sections=sections)


def _chart(panel: Panel, lab: Lab, began: float, ended: float) -> SvgChart:
    """Return a panel as a chart with one line per series, and a legend with their last values below it."""
    series = list(_series(panel, lab, began, ended))[:_MAX_SERIES]
    highest = max((value for _, points in series for _, value in points), default=0.0) or 1.0
    chart = SvgChart(panel.title, began, ended)
    chart.add_text_label(chart.left, chart.height + 12, panel.title, css="pair", anchor="start")
    chart.height += 20
    bottom = chart.height + _PLOT
    chart.add_text_label(chart.left - 8, chart.height + 9, _value(highest, panel.unit), anchor="end")
    chart.add_text_label(chart.left - 8, bottom, "0", anchor="end")
    chart.add_line("axis", chart.left, bottom, chart.right, bottom)
    for number, (name, points) in enumerate(series):
        for run in _unbroken(points):
            line = " ".join(
                f"{chart.horizontal_position(at):.1f},{bottom - value / highest * _PLOT:.1f}" for at, value in run
            )
            chart.add_element("polyline", f"series series-{number % _COLORS}", name, points=line)
    chart.height = bottom
    for number, (name, points) in enumerate(series):
        chart.height += _LINE
        chart.add_rect(f"key key-{number % _COLORS}", chart.left, chart.height - 8, 9, 9)
        text = f"{name}: {_value(points[-1][1], panel.unit)}"
        chart.add_text_label(chart.left + 15, chart.height, text, anchor="start")
    step = tick_interval_seconds(ended - began, 8)
    ticks = range(int(began // step + 1) * step, int(ended) + 1, step)
    return chart.add_time_axis([(at, utc_time_text(float(at), "%H:%M:%S")) for at in ticks], "")


def _series(panel: Panel, lab: Lab, began: float, ended: float) -> Iterator[tuple[str, list[tuple[float, float]]]]:
    """Yield the legend and the points of each series of a panel; a point is (epoch seconds, value)."""
    for expr, legend in panel.queries:
        response: dict[str, Any] = json.loads(
            lab.monitoring.query_prometheus_range_json(
                replace_grafana_variables_by_values(expr, interval="15s"), began, ended
            )
        )
        for series in response["data"]["result"]:
            name = Template(legend.replace("{{", "${").replace("}}", "}")).safe_substitute(series["metric"])
            yield name, [(float(at), float(value)) for at, value in series["values"]]


def _unbroken(points: list[tuple[float, float]]) -> Iterator[list[tuple[float, float]]]:
    """Yield sequences of points that are one second apart; between two sequences, the series had no value."""
    for _, run in groupby(enumerate(points), lambda numbered_point: round(numbered_point[1][0]) - numbered_point[0]):
        yield [point for _, point in run]


def _value(value: float, unit: str) -> str:
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "bytes":
        return f"{value / (1 << 20):.3g} MiB"
    return f"{value:.3g}" + {"ops": "/s", "s": " s"}.get(unit, "")


if __name__ == "__main__":
    sys.exit(main())
