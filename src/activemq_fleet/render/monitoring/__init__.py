"""Render the monitoring of a fleet: Prometheus targets, scrape jobs and alert rules, and Grafana dashboards."""

from __future__ import annotations

from activemq_fleet.render.monitoring.alerts import ALERTS
from activemq_fleet.render.monitoring.prometheus import prometheus_files, rules_file

__all__ = ["ALERTS", "prometheus_files", "rules_file"]
