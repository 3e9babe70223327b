"""What a Prometheus needs to watch a fleet: targets, scrape jobs, alert rules, and dashboards for Grafana; pure."""

from __future__ import annotations

from activemq_fleet.render.monitoring.alerts import ALERTS
from activemq_fleet.render.monitoring.prometheus import prometheus_files, rules_file

__all__ = ["ALERTS", "prometheus_files", "rules_file"]
