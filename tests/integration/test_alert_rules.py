"""Series for which every alert fires, at the documented minute and not earlier, evaluated with promtool."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.render.monitoring import ALERTS, alert_and_recording_rules_yaml
from tests.support.alert_labels import JOB, LINK, A, B
from tests.support.dashboard_queries import dashboard_panel_queries

ACTIVE_A = {f"activemq_broker_messages{{{A}}}": "0x60"}
BOTH_UP = {f"up{{{JOB},{A}}}": "1x60", f"up{{{JOB},{B}}}": "1x60"}
AGENT = 'job="activemq-agents",host="kiosk"'
DLQ = 'kind="Queue",destination="ActiveMQ.DLQ"'
QUEUE = 'kind="Queue",destination="orders.in"'

# For each alert: series with a value per minute, and the minute at which the alert fires (None: it never fires).
CASES: list[tuple[str, dict[str, str], int | None]] = [
    ("ActiveMQNoActiveNode", BOTH_UP, 1),
    ("ActiveMQNoActiveNode", BOTH_UP | {f"activemq_broker_messages{{{B}}}": "7x60"}, None),
    ("ActiveMQNoActiveNode", BOTH_UP | {f"activemq_broker_messages{{{A}}}": "7x60",
                                       f"activemq_broker_standby{{{A}}}": "1x60"}, 1),
    ("ActiveMQTwoActiveNodes", ACTIVE_A | {f"activemq_broker_messages{{{B}}}": "5x60"}, 1),
    ("ActiveMQTwoActiveNodes", ACTIVE_A | {f"activemq_broker_messages{{{B}}}": "5x60",
                                           f"activemq_broker_standby{{{B}}}": "1x60"}, None),
    ("ActiveMQStandbyMissing", ACTIVE_A | {f"up{{{JOB},{B}}}": "0x60"}, 2),
    ("ActiveMQStandbyMissing", ACTIVE_A | BOTH_UP, None),
    ("ActiveMQTakeOver", {f"activemq_broker_messages{{{A}}}": "0 0 stale",
                          f"activemq_broker_messages{{{B}}}": "_ _ _ 0x20"}, 3),
    ("ActiveMQTakeOver", ACTIVE_A, None),
    ("ActiveMQBridgeDown", ACTIVE_A | {f"activemq_link_duplex{{{A},{LINK}}}": "0x60"}, 2),
    ("ActiveMQBridgeDown", ACTIVE_A | {f"activemq_link_duplex{{{A},{LINK}}}": "0x60",
                                       f"activemq_bridge_responder{{{A},{LINK}}}": "0x60"}, None),
    ("ActiveMQBridgeDown", {f"activemq_link_duplex{{{B},{LINK}}}": "0x60"}, None),
    ("ActiveMQBridgeBreaking", ACTIVE_A | {f"activemq_link_duplex{{{A},{LINK}}}": "0x60",
                                           f"activemq_bridge_responder{{{A},{LINK}}}": " ".join(["0 stale"] * 15)}, 11),
    ("ActiveMQBridgeBreaking", ACTIVE_A | {f"activemq_link_duplex{{{A},{LINK}}}": "0x60",
                                           f"activemq_bridge_responder{{{A},{LINK}}}": "0x5 stale _ 0x50"}, None),
    ("ActiveMQHalfDuplexLink", ACTIVE_A | {f"activemq_link_duplex{{{A},{LINK}}}": "1x60",
                                           f"activemq_bridge_responder{{{A},{LINK}}}": "0x60"}, 5),
    ("ActiveMQStoreFilling", {f"activemq_broker_store_used_ratio{{{A}}}": "0.85x60"}, 5),
    ("ActiveMQStoreFilling", {f"activemq_broker_store_used_ratio{{{A}}}": "0.51+0.004x60"}, 6),
    ("ActiveMQStoreFilling", {f"activemq_broker_store_used_ratio{{{A}}}": "0.6x60"}, None),
    ("ActiveMQStoreFull", {f"activemq_broker_store_used_ratio{{{A}}}": "1x60"}, 1),
    ("ActiveMQMemoryFilling", {f"activemq_broker_memory_used_ratio{{{A}}}": "0.95x60"}, 10),
    ("ActiveMQBacklogWithoutConsumers", {f"activemq_destination_messages{{{A},{QUEUE}}}": "0+5x60",
                                         f"activemq_destination_consumers{{{A},{QUEUE}}}": "0x60"}, 11),
    ("ActiveMQBacklogWithoutConsumers", {f"activemq_destination_messages{{{A},{QUEUE}}}": "0+5x60",
                                         f"activemq_destination_consumers{{{A},{QUEUE}}}": "1x60"}, None),
    ("ActiveMQDeadLetters", {f"activemq_destination_messages{{{A},{DLQ}}}": "0 0 1x9"}, 2),
    ("ActiveMQDeadLetters", {f"activemq_destination_messages{{{A},{QUEUE}}}": "9x9"}, None),
    ("ActiveMQMessagesExpired", {f"activemq_destination_expired_messages_total{{{A},{QUEUE}}}": "0 0 3x9"}, 2),
    ("ActiveMQConnectionsNearLimit", {f"activemq_broker_connections{{{A}}}": "90x60",
                                      f"activemq_broker_connections_limit{{{A}}}": "100x60"}, 5),
    ("ActiveMQConnectionsNearLimit", {f"process_open_fds{{{JOB},{A}}}": "990x60",
                                      f"process_max_fds{{{JOB},{A}}}": "1000x60"}, 5),
    ("ActiveMQAgentOutboxAging", {f"activemq_agent_outbox_oldest_age_seconds{{{AGENT}}}": "400x60"}, 2),
    ("ActiveMQAgentSilent", {f"up{{{AGENT}}}": "0x60"}, 2),
    ("ActiveMQBrokerHung", {f"activemq_watchdog_hung{{{A}}}": "0 1x9"}, 1),
    ("ActiveMQSubscriptionsAtRisk", {f"activemq_watchdog_subscriptions_at_risk{{{A}}}": "0 2x9",
                                     f"activemq_watchdog_subscriptions_at_risk{{{B}}}": "0 2x9"}, 1),
    ("ActiveMQSubscriptionsAtRisk", {f"activemq_watchdog_subscriptions_at_risk{{{A}}}": "0x60"}, None),
    ("ActiveMQConfigurationDrift", {f'activemq:planned_configuration{{{A},fingerprint="1"}}': "1x60",
                                    f'activemq_configuration_info{{{A},fingerprint="0"}}': "1x60"}, 15),
    ("ActiveMQConfigurationDrift", {f'activemq:planned_configuration{{{A},fingerprint="1"}}': "1x60",
                                    f'activemq_configuration_info{{{A},fingerprint="1"}}': "1x60"}, None),
    ("ActiveMQCertificateEnds", {f'activemq_certificate_expiry_timestamp_seconds{{{A},connector="mqtt"}}':
                                 "864000x90"}, 10),
    ("ActiveMQCertificateEnds", {f'activemq_certificate_expiry_timestamp_seconds{{{A},connector="mqtt"}}': "60x90"},
     None),
    ("ActiveMQCertificateEnded", {f'activemq_certificate_expiry_timestamp_seconds{{{A},connector="mqtt"}}': "90x90"},
     2),
]  # fmt: skip


def check_alert(directory: Path, series: dict[str, str], alert: str, minute: int, fires: bool) -> None:
    """Check with promtool whether an alert fires at a minute of the series."""
    (directory / "rules.yml").write_bytes(alert_and_recording_rules_yaml(None))
    query = {"eval_time": f"{minute}m", "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) > 0'}
    query["exp_samples"] = [{"labels": "{}", "value": 1}] if fires else []  # type: ignore[assignment]
    run_promtool(directory, series, query, rule_files=["rules.yml"])


def run_promtool(directory: Path, series: dict[str, str], test: dict[str, Any], rule_files: list[str]) -> None:
    """Run one test of a query with promtool; ``series`` maps each series to its values per minute."""
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    case: dict[str, Any] = {"interval": "1m", "input_series": inputs, "promql_expr_test": [test]}
    promtool_test = {"rule_files": rule_files, "evaluation_interval": "1m", "tests": [case]}
    (directory / "tests.yml").write_text(json.dumps(promtool_test))
    completed = subprocess.run(
        ["promtool", "test", "rules", "tests.yml"], cwd=directory, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr


@pytest.mark.parametrize(("alert", "series", "minute"), CASES)
def test_alert_fires_for_its_series_at_documented_minute_and_not_earlier(
    tmp_path: Path, alert: str, series: dict[str, str], minute: int | None
) -> None:
    if minute is None:
        check_alert(tmp_path, series, alert, 30, fires=False)
        return
    check_alert(tmp_path, series, alert, minute, fires=True)
    if minute:
        check_alert(tmp_path, series, alert, minute - 1, fires=False)


@pytest.mark.parametrize("running", [True, False])
def test_planned_work_mutes_alerts_about_missing_nodes_while_it_runs(tmp_path: Path, running: bool) -> None:
    work = {
        f"activemq_operation_running{{{A}}}": "1x60" if running else "0x60",
        f"activemq_operation_changed_timestamp_seconds{{{A}}}": "0x60",
    }
    for alert in ("ActiveMQNoActiveNode", "ActiveMQStandbyMissing"):
        series = BOTH_UP if alert == "ActiveMQNoActiveNode" else ACTIVE_A | {f"up{{{JOB},{B}}}": "0x60"}
        check_alert(tmp_path, series | work, alert, 5, fires=False)
        # Alerts are muted until six minutes after the end of the work, or for two hours if no end is recorded.
        check_alert(tmp_path, series | work, alert, 30, fires=not running)


@pytest.mark.parametrize("hours", [-12, 12])
def test_wrong_clock_of_host_mutes_no_alert_after_planned_work(tmp_path: Path, hours: int) -> None:
    work = {
        f"activemq_operation_running{{{A}}}": "0x60",
        f"activemq_operation_changed_timestamp_seconds{{{A}}}": f"{hours * 3600}x60",
    }
    check_alert(tmp_path, BOTH_UP | work, "ActiveMQNoActiveNode", 5, fires=True)


def test_every_alert_has_test_case() -> None:
    assert {alert.name for alert in ALERTS} == {name for name, _, _ in CASES} | {"ActiveMQMetricsFailing"}


@pytest.mark.parametrize(
    ("series", "name", "value"),
    [({}, "no alert", 0), ({'ALERTS{alertname="ActiveMQStoreFull"}': "1x9"}, "ActiveMQStoreFull", 1)],
)
def test_every_series_of_alerts_panel_has_name_for_its_legend(
    tmp_path: Path, series: dict[str, str], name: str, value: int
) -> None:
    (expr,) = (
        expr
        for dashboard, title, expr in dashboard_panel_queries()
        if (dashboard, title) == ("activemq-fleet", "Alerts")
    )
    samples = [{"labels": f'{{alertname="{name}"}}', "value": value}]
    run_promtool(tmp_path, series, {"eval_time": "1m", "expr": expr, "exp_samples": samples}, rule_files=[])
