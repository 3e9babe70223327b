"""Dashboards for Grafana as JSON, from plain tables of panels: fleet, pair, broker and agents.

Plain dictionaries and not grafana-foundation-sdk: a panel here is a title, a unit and queries, and the SDK's package
has an epoch in its version for each release of Grafana. The model is that of Grafana 9 and later (schemaVersion 36).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_SOURCE = {"type": "prometheus", "uid": "${source}"}
_WIDTH, _HEIGHT = 8, 8
_ACROSS = 24


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel of a Grafana dashboard: its title, its queries with their legends, and the unit of its values in
    Grafana's names.
    """

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A Grafana dashboard: its name, title, panels, and the variables (label, and metric with this label) that the
    viewer selects.
    """

    name: str
    title: str
    panels: tuple[Panel, ...]
    variables: tuple[tuple[str, str], ...] = ()


_JOB = '{job="activemq-brokers"}'
_PAIR = '{pair=~"$pair"}'
_HOST = '{host=~"$host"}'

DASHBOARDS = (
    Dashboard(
        "activemq-fleet",
        "ActiveMQ fleet",
        (
            Panel("Pairs served", (("count(count by (group, pair) (activemq:broker_active))", "pairs"),), kind="stat"),
            Panel(
                "Pairs without an active node",
                ((f"count(count by (group, pair) (up{_JOB})) - "
                  "(count(count by (group, pair) (activemq:broker_active)) or vector(0))", "pairs"),),
                kind="stat",
            ),
            Panel("Brokers down", ((f"count(up{_JOB} == 0) or vector(0)", "brokers"),), kind="stat"),
            Panel("Alerts", (('sum by (alertname) (ALERTS{alertname=~"ActiveMQ.*"}) or vector(0)', "{{alertname}}"),)),
            Panel("Active nodes", (("activemq:broker_active", "{{host}}"),)),
            Panel("Messages that wait", (("sum by (pair) (activemq_broker_messages)", "{{pair}}"),)),
            Panel(
                "Messages accepted a second",
                (("sum by (pair) (rate(activemq_broker_enqueued_messages_total[$__rate_interval]))", "{{pair}}"),),
                "ops",
            ),
            Panel("Store used", (("activemq_broker_store_used_ratio", "{{host}}"),), "percentunit"),
            Panel("Releases", (("count by (release) (activemq_configuration_info)", "{{release}}"),)),
        ),
    ),
    Dashboard(
        "activemq-pair",
        "ActiveMQ pair",
        (
            Panel("Active node", ((f"activemq:broker_active{_PAIR}", "{{host}}"),)),
            Panel(
                "Nodes that answer", (('up{job="activemq-brokers",pair=~"$pair"}', "{{host}}"),)
            ),
            Panel(
                "Take-overs in the last day",
                ((f"count by (pair) (count by (pair, host) (max_over_time(activemq:broker_active{_PAIR}[1d]))) - 1",
                  "{{pair}}"),),
            ),
            Panel("Messages that wait", ((f"activemq_broker_messages{_PAIR}", "{{host}}"),)),
            Panel(
                "Messages a second",
                (
                    (f"rate(activemq_broker_enqueued_messages_total{_PAIR}[$__rate_interval])", "accepted, {{host}}"),
                    (f"rate(activemq_broker_dequeued_messages_total{_PAIR}[$__rate_interval])", "done, {{host}}"),
                ),
                "ops",
            ),
            Panel("Bridges up", ((f"sum by (host, link) (activemq_bridge_responder{_PAIR} == bool 0)",
                                  "{{host}} {{link}}"),)),
            Panel("Store used", ((f"activemq_broker_store_used_ratio{_PAIR}", "{{host}}"),), "percentunit"),
        ),
        (("pair", "activemq_configuration_info"),),
    ),
    Dashboard(
        "activemq-broker",
        "ActiveMQ broker",
        (
            Panel(
                "Store, memory and temporary files used",
                tuple((f"activemq_broker_{what}_used_ratio{_HOST}", what) for what in ("store", "memory", "temp")),
                "percentunit",
            ),
            Panel("Uptime", (('time() - process_start_time_seconds{job="activemq-brokers",host=~"$host"}', "JVM"),),
                  "s"),
            Panel("Messages by destination", ((f"activemq_destination_messages{_HOST}", "{{destination}}"),)),
            Panel("Consumers by destination", ((f"activemq_destination_consumers{_HOST}", "{{destination}}"),)),
            Panel(
                "Messages a second by destination",
                ((f"rate(activemq_destination_enqueued_messages_total{_HOST}[$__rate_interval])", "{{destination}}"),),
                "ops",
            ),
            Panel(
                "Expired messages",
                ((f"increase(activemq_destination_expired_messages_total{_HOST}[$__range])", "{{destination}}"),),
            ),
            Panel("Open files of the process",
                  (('process_open_fds{job="activemq-brokers",host=~"$host"}', "open"),)),
            Panel("Bridges, messages a second",
                  ((f"rate(activemq_bridge_dequeued_messages_total{_HOST}[$__rate_interval])", "{{link}}"),), "ops"),
            Panel("Heap", (('jvm_memory_bytes_used{area="heap",host=~"$host"}', "used"),
                           ('jvm_memory_bytes_max{area="heap",host=~"$host"}', "most")), "bytes"),
            Panel("Time in garbage collection",
                  ((f"rate(jvm_gc_collection_seconds_sum{_HOST}[$__rate_interval])", "{{gc}}"),), "percentunit"),
            Panel("CPU", (('rate(process_cpu_seconds_total{job="activemq-brokers",host=~"$host"}'
                           "[$__rate_interval])", "cores"),)),
        ),
        (("host", "activemq_configuration_info"),),
    ),
    Dashboard(
        "activemq-agents",
        "ActiveMQ agents",
        (
            Panel("Agents that answer", (('up{job="activemq-agents"}', "{{host}}"),)),
            Panel("Events that wait to be sent", (("activemq_agent_outbox_events", "{{host}}"),)),
            Panel("Age of the oldest", (("activemq_agent_outbox_oldest_age_seconds", "{{host}}"),), "s"),
            Panel("Messages that wait to be handled", (("activemq_agent_inbox_events", "{{host}}"),)),
            Panel("Connected to", (("activemq_agent_active_broker == 1", "{{host}} {{connection}}: {{broker}}"),)),
            Panel("Events acknowledged a second",
                  (("rate(activemq_agent_acknowledged_total[$__rate_interval])", "{{host}}"),), "ops"),
            Panel("Events handled a second",
                  (("rate(activemq_agent_handled_total[$__rate_interval])", "{{host}}"),), "ops"),
            Panel("Round trip of canaries", (("activemq_agent_canary_seconds", "{{host}} {{connection}}"),), "s"),
            Panel("Expired, quarantined and damaged",
                  (("activemq_agent_expired_events", "expired, {{host}}"),
                   ("activemq_agent_quarantined_events", "quarantined, {{host}}"),
                   ("activemq_agent_damaged_rows", "damaged, {{host}}"))),
        ),
    ),
)  # fmt: skip


def dashboards() -> dict[str, bytes]:
    """Return the Grafana dashboards as JSON files, by name; the viewer selects the data source."""
    return {one.name: (json.dumps(_model(one), indent=1) + "\n").encode() for one in DASHBOARDS}


def queries(*, host: str = ".*", pair: str = ".*", interval: str = "5m") -> Iterator[tuple[str, str, str]]:
    """Yield (dashboard, panel title, PromQL) of every query, with Grafana's variables replaced by the given host and
    pair.
    """
    for one in DASHBOARDS:
        for panel in one.panels:
            for expr, _ in panel.queries:
                yield one.name, panel.title, substituted(expr, host=host, pair=pair, interval=interval)


def substituted(expr: str, *, host: str = ".*", pair: str = ".*", interval: str = "5m") -> str:
    """Return the PromQL of a panel with Grafana's variables replaced."""
    values = {"$__rate_interval": interval, "$__range": interval, "$host": host, "$pair": pair}
    for name, value in values.items():
        expr = expr.replace(name, value)
    return expr


def _model(one: Dashboard) -> dict[str, Any]:
    return {
        "uid": one.name,
        "title": one.title,
        "tags": ["activemq"],
        "schemaVersion": 36,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_SOURCE_CHOICE, *_choices(one.variables)]},
        "panels": [_panel(panel, at) for at, panel in enumerate(one.panels)],
    }


_SOURCE_CHOICE = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _choices(variables: Iterable[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    for label, metric in variables:
        query = f"label_values({metric}, {label})"
        yield {
            "name": label,
            "type": "query",
            "datasource": _SOURCE,
            "query": {"query": query, "refId": label},
            "definition": query,
            "refresh": 2,
            "sort": 1,
            "includeAll": True,
            "multi": True,
        }


def _panel(panel: Panel, at: int) -> dict[str, Any]:
    across = _ACROSS // _WIDTH
    return {
        "id": at + 1,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {"x": at % across * _WIDTH, "y": at // across * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": _query_models(panel.queries),
    }


def _query_models(pairs: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
    return [
        {"refId": chr(ord("A") + at), "datasource": _SOURCE, "expr": expr, "legendFormat": legend}
        for at, (expr, legend) in enumerate(pairs)
    ]
