"""Render the monitoring of a fleet: Prometheus targets, scrape jobs and alert rules, and Grafana dashboards."""

from __future__ import annotations

from activemq_fleet.render.monitoring.alerts import ALERTS
from activemq_fleet.render.monitoring.prometheus import alert_and_recording_rules_yaml, prometheus_and_grafana_files

__all__ = ["ALERTS", "alert_and_recording_rules_yaml", "prometheus_and_grafana_files"]
