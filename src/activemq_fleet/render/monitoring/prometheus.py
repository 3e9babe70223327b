"""Render the directory ``prometheus/``: target files, scrape jobs, alert rules, and the plan for the alert on drift."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from activemq_fleet.addresses import join_host_port, parse_listening_address
from activemq_fleet.documentation_links import page_address_or_command
from activemq_fleet.render.engine import render_template
from activemq_fleet.render.monitoring.alerts import ALERTS, RECORDS, Alert, scale_durations
from activemq_fleet.render.monitoring.dashboards import dashboard_files
from activemq_fleet.topology import Agent, Broker, Fleet

BROKERS, AGENTS, HOSTS = "activemq-brokers", "activemq-agents", "activemq-hosts"
"""The names of the scrape jobs: brokers' exporters, agents, and files of watchdogs and operations on their hosts."""


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """The settings of the Prometheus server whose files are rendered, such as scrape interval and Alertmanager address.

    The defaults are for production; a lab sets others. ``pace`` multiplies the durations in alert rules. ``node`` is
    the address of the one node exporter of all hosts, None where each host has its own.
    """

    interval: str = "15s"
    alertmanager: str = "127.0.0.1:9093"
    pace: float = 1
    node: str | None = None


_PRODUCTION_SETTINGS = PrometheusSettings()


def prometheus_and_grafana_files(
    fleet: Fleet, fingerprints: Mapping[str, str], settings: PrometheusSettings = _PRODUCTION_SETTINGS
) -> dict[str, bytes]:
    """Return the configuration, targets and rules for a Prometheus server, and Grafana dashboards, by path.

    They are in ``prometheus/``; there are none where no broker has ``activemq_metrics``. ``fingerprints`` are those of
    the configurations that the brokers should have, by host.
    """
    brokers = [broker for broker in fleet.brokers if broker.settings.metrics]
    if not brokers:
        return {}
    agents = [agent for agent in fleet.agents if agent.settings.agent_metrics_address]
    jobs = _scrape_jobs(brokers)
    files = {
        "prometheus.yml": render_template(
            "prometheus/prometheus.yml.j2",
            brokers=BROKERS,
            agents=AGENTS,
            hosts=HOSTS,
            shared_node=settings.node is not None,
            interval=settings.interval,
            alertmanager=settings.alertmanager,
            jobs=[(name, login, ca_file) for name, (login, ca_file) in jobs.items()],
        ),
        f"targets/{AGENTS}.json": _targets_file(map(_agent_target, agents)),
        f"targets/{HOSTS}.json": _targets_file([(settings.node, {})] if settings.node else map(_host_target, brokers)),
        "rules/activemq.yml": alert_and_recording_rules_yaml(brokers[0].settings.metrics_runbook, settings.pace),
        "rules/activemq-planned.yml": _planned_configuration_rules_file(brokers, fingerprints, settings),
        **{f"dashboards/{name}.json": content for name, content in dashboard_files().items()},
    }
    for name, access in jobs.items():
        job_brokers = [broker for broker in brokers if _login_and_ca_file(broker) == access]
        files[f"targets/{name}.json"] = _targets_file(map(_broker_target, job_brokers))
    return {f"prometheus/{path}": content for path, content in files.items()}


def alert_and_recording_rules_yaml(runbook: str | None, pace: float = 1) -> bytes:
    """Return the content of the YAML file of Prometheus alert rules, with its recording rules, as bytes.

    A ``pace`` below 1 shortens every duration in it. ``runbook`` is the address of the
    page of alerts, to which each alert links; with None each alert names what ``page_address_or_command`` returns.
    """
    alerts = [
        {
            "name": alert.name,
            "expr": alert.promql(pace),
            "wait": scale_durations(alert.wait, pace),
            "severity": alert.severity,
            "summary": alert.summary,
            "description": alert.meaning,
            "runbook": [_runbook_annotation(alert, runbook)],
        }
        for alert in ALERTS
    ]
    records = [(record.name, scale_durations(record.expr, pace)) for record in RECORDS]
    return render_template("prometheus/rules.yml.j2", records=records, alerts=alerts)


def _runbook_annotation(alert: Alert, runbook: str | None) -> tuple[str, str]:
    """Return the name and the text of the annotation that leads to an alert's section; a command is no URL."""
    if runbook:
        return "runbook_url", f"{runbook}#{alert.documentation_anchor}"
    reference = page_address_or_command("alerts", alert.name)
    return ("runbook_url" if "://" in reference else "runbook"), reference


def _planned_configuration_rules_file(
    brokers: Iterable[Broker], fingerprints: Mapping[str, str], settings: PrometheusSettings
) -> bytes:
    """Return the file of Prometheus rules that record each broker's planned configuration.

    The alert on drift uses them.
    """
    planned = [{**broker.metric_labels, "fingerprint": fingerprints[broker.host]} for broker in brokers]
    return render_template("prometheus/planned.yml.j2", planned=planned, interval=settings.interval)


def _login_and_ca_file(broker: Broker) -> tuple[str, str]:
    """Return the login and the CA certificate file for scrapes of a broker, empty where a scrape needs none."""
    tls = broker.settings.metrics_tls
    return broker.settings.metrics_username or "", (tls.ca_file or "") if tls else ""


def _scrape_jobs(brokers: Iterable[Broker]) -> dict[str, tuple[str, str]]:
    """Return login and CA file of each scrape job of brokers, by the job's name; a Prometheus job has one of each."""
    accesses = sorted({_login_and_ca_file(broker) for broker in brokers})
    files = sorted({ca_file for _, ca_file in accesses if ca_file})
    numbers = {ca_file: f"tls-{number}" for number, ca_file in enumerate(files, 1)}
    return {
        "-".join(filter(None, (BROKERS, login, numbers.get(ca_file, "")))): (login, ca_file)
        for login, ca_file in accesses
    }


def _broker_target(broker: Broker) -> tuple[str, dict[str, str]]:
    scheme = {"__scheme__": "https"} if broker.settings.metrics_tls else {}
    host = _scraped_address(broker.settings.metrics_bind, broker.address)
    return join_host_port(host, broker.ports["metrics"]), broker.metric_labels | scheme


def _agent_target(agent: Agent) -> tuple[str, dict[str, str]]:
    address = parse_listening_address(agent.settings.agent_metrics_address or "")
    labels = {"host": agent.host, "group": agent.group, "pair": agent.pair}
    return join_host_port(_scraped_address(address[0], agent.settings.address or agent.host), address[1]), labels


def _scraped_address(bind: str, address: str) -> str:
    """Return the address to scrape: the listening address, or the host's address if that is a wildcard or loopback."""
    return address if bind in ("0.0.0.0", "::", "127.0.0.1", "::1", "localhost") else bind  # noqa: S104


def _host_target(broker: Broker) -> tuple[str, dict[str, str]]:
    return join_host_port(broker.address, broker.settings.metrics_node_port), broker.metric_labels


def _targets_file(pairs: Iterable[tuple[str, dict[str, str]]]) -> bytes:
    """Return a file for ``file_sd_configs``, one target a line so that two versions can be compared."""
    entries: list[dict[str, Any]] = [{"targets": [target], "labels": labels} for target, labels in pairs]
    lines = ",\n".join(f"  {json.dumps(entry)}" for entry in entries)
    return (f"[\n{lines}\n]\n" if entries else "[]\n").encode()
