"""Write docs/alerts.md from the table of alerts; with --check, report whether it is up to date."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from activemq_fleet.render.monitoring import ALERTS
from activemq_fleet.render.monitoring.alerts import scale_durations
from scripts.generated_page import DOCS, write_or_check

PAGE = DOCS / "alerts.md"

# Seconds from the last successful scrape until an alert fires, and until it clears; a test confirms them.
Order = Sequence[tuple[str, int, int]]
TAKEN_OVER: Order = [("ActiveMQTakeOver", 30, 315), ("ActiveMQStandbyMissing", 150, 600)]
NOT_TAKEN_OVER: Order = [
    ("ActiveMQBrokerHung", 45, 600),
    ("ActiveMQNoActiveNode", 75, 615),
    ("ActiveMQBridgeDown", 165, 615),
    ("ActiveMQAgentOutboxAging", 450, 615),
]
_ORDERS = {"stops, and its peer takes over": TAKEN_OVER, "hangs, and keeps its lock": NOT_TAKEN_OVER}

_HEAD = """\
<!-- Made by `make rules` from src/activemq_fleet/render/monitoring/alerts.toml. -->
# Alerts

`activemq-fleet render` writes the alerts into `prometheus/rules/activemq.yml` if brokers have [metrics](metrics.md).
Each alert has a `severity` (critical: act now; warning: act during the day; info: no action), a summary with the host
or pair, and a link to its section on this page.

*Muted* alerts do not fire for a pair on which a playbook (`site`, `restart`, `switchover`, `upgrade`, `resync`,
`migrate`, `drill`) or a command of the lab is running, nor for six minutes after its end, because the work itself
causes them. A playbook that was interrupted before it recorded its end mutes alerts for two hours at most.
If the clocks of a host and of Prometheus differ by more, work on the host mutes no alerts.

All alerts clear automatically when the cause is gone. This table shows the order of alerts when an active node fails:

{order}
Times start at the last successful scrape, which is up to 15 s before the failure. The interval of scrapes and
evaluations is 15 s, as in `prometheus.yml`, and the `group_wait` of Alertmanager is not included. The table assumes
that the peer serves within one scrape after the first failed one, and that the watchdog only warns. Bridges and agents
detect a silent broker after 30 s, and the failure is repaired after ten minutes. No other alert fires
(`test_alert_order.py` shows this with promtool). In a lab real brokers cause the alerts, at a twentieth
of the time (`test_monitoring.py`).

| alert | severity | after | muted by planned work |
|---|---|---|---|
"""


def main(arguments: list[str]) -> int:
    """Write the page, or with --check return 1 if it is out of date."""
    return write_or_check(PAGE, "".join(_page()), "the table of alerts", arguments)


def _page() -> Iterator[str]:
    rows = [
        f"| {case} | {name} | {begin} s | {end} s |\n" for case, order in _ORDERS.items() for name, begin, end in order
    ]
    table = "| the active node | alert | fires after | clears after |\n|---|---|---|---|\n" + "".join(rows)
    yield _HEAD.format(order=table)
    for alert in ALERTS:
        wait = scale_durations(alert.wait, 1)
        wait = "immediately" if wait == "0s" else wait
        link, planned = f"[{alert.name}](#{alert.documentation_anchor})", "yes" if alert.planned else "no"
        yield f"| {link} | {alert.severity} | {wait} | {planned} |\n"
    for alert in ALERTS:
        yield f"\n## {alert.name}\n{alert.meaning}\n\nWhat to do: {alert.todo}\n\n```promql\n{alert.promql()}\n```\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
