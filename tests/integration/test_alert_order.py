"""Order in which alerts fire and clear after the active node died or hung, at production intervals, with promtool.

The series have a value every 15 s, like the scrapes in production. The first minute precedes the fault. docs/alerts.md
shows the expected orders.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from activemq_fleet.render.monitoring import alert_and_recording_rules_yaml
from scripts.alerts_page import NOT_TAKEN_OVER, TAKEN_OVER, Order
from tests.support.alert_labels import JOB, LINK, A, B, pytestmark

__all__ = ["pytestmark"]
STEP, FAULT = 15, 60
LINK_OWNER = A.replace("orders-mq01", "shop-mq01").replace('"orders"', '"shop"')
AGENT = 'job="activemq-agents",host="kiosk"'


def promtool_values(*spans: tuple[int, str]) -> str:
    """Return promtool's values of a series: each text repeats until its number of seconds after the last response."""
    texts, start = [], -(FAULT - STEP)
    for end, text in spans:
        texts += [text] * ((end - start) // STEP)
        start = end
    return " ".join(texts)


# The peer serves within 15 s after the first failed scrape; the dead node is started again after ten minutes.
DEATH = {
    f"up{{{JOB},{A}}}": promtool_values((15, "1"), (600, "0"), (900, "1")),
    f"up{{{JOB},{B}}}": promtool_values((900, "1")),
    f"activemq_broker_messages{{{A}}}": promtool_values((15, "0"), (30, "stale")),
    f"activemq_broker_standby{{{A}}}": promtool_values((15, "0"), (600, "_"), (900, "1")),
    f"activemq_broker_messages{{{B}}}": promtool_values((30, "_"), (900, "0")),
    f"activemq_broker_standby{{{B}}}": promtool_values((30, "1"), (900, "0")),
}
# The active node hangs and keeps its lock. Its watchdog detects this within 27 s and only warns; the bridge of another
# pair and an agent's connection end after 30 s without data. After ten minutes the node resumes.
HANG = {
    f"up{{{JOB},{A}}}": promtool_values((15, "1"), (615, "0"), (900, "1")),
    f"up{{{JOB},{B}}}": promtool_values((900, "1")),
    f"activemq_broker_messages{{{A}}}": promtool_values((15, "0"), (30, "stale"), (615, "_"), (900, "0")),
    f"activemq_broker_standby{{{B}}}": promtool_values((900, "1")),
    f"activemq_watchdog_hung{{{A}}}": promtool_values((45, "0"), (600, "1"), (900, "0")),
    f"up{{{JOB},{LINK_OWNER}}}": promtool_values((900, "1")),
    f"activemq_broker_messages{{{LINK_OWNER}}}": promtool_values((900, "0")),
    f"activemq_link_duplex{{{LINK_OWNER},{LINK}}}": promtool_values((900, "0")),
    f"activemq_bridge_responder{{{LINK_OWNER},{LINK}}}": promtool_values(
        (45, "0"), (60, "stale"), (615, "_"), (900, "0")
    ),
    f"up{{{AGENT}}}": promtool_values((900, "1")),
    f"activemq_agent_outbox_oldest_age_seconds{{{AGENT}}}": " ".join(
        str(at - 15 if 15 < at < 615 else 0) for at in range(-(FAULT - STEP), 900, STEP)
    ),
}


def firing_at(order: Order, second: int) -> list[str]:
    return sorted(name for name, begin, end in order if begin <= second < end)


@pytest.mark.parametrize(("series", "order"), [(DEATH, TAKEN_OVER), (HANG, NOT_TAKEN_OVER)], ids=["death", "hang"])
def test_exactly_documented_alerts_fire_and_clear_in_documented_order(
    tmp_path: Path, series: dict[str, str], order: Order
) -> None:
    (tmp_path / "rules.yml").write_bytes(alert_and_recording_rules_yaml(None))
    expected_alerts = [
        {
            "eval_time": f"{second + FAULT - STEP}s",
            "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
            "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in firing_at(order, second)],
        }
        for second in range(-(FAULT - STEP), 885, STEP)
    ]
    inputs = [{"series": name, "values": text} for name, text in series.items()]
    test = {"interval": f"{STEP}s", "input_series": inputs, "promql_expr_test": expected_alerts}
    promtool_test = {"rule_files": ["rules.yml"], "evaluation_interval": f"{STEP}s", "tests": [test]}
    (tmp_path / "tests.yml").write_text(json.dumps(promtool_test))
    completed = subprocess.run(
        ["promtool", "test", "rules", "tests.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stdout + completed.stderr
