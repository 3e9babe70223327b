"""Writes docs/alerts.md from the table of alerts; with --check says whether it is up to date."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from activemq_fleet.render.monitoring import ALERTS
from activemq_fleet.render.monitoring.alerts import paced
from scripts.generated_page import DOCS, write_or_check

PAGE = DOCS / "alerts.md"

_HEAD = """\
<!-- Made by `make rules` from src/activemq_fleet/render/monitoring/alerts.py. -->
# Alerts

`activemq-fleet render` writes them into `prometheus/rules/activemq.yml` where brokers have [metrics](metrics.md). Each
alert carries `severity` (critical: somebody must come now; warning: during the day; info: to know), a summary with the
host or pair, and a link to its place here.

*Muted* alerts do not fire for a pair on which a playbook (`site`, `restart`, `switchover`, `upgrade`, `resync`,
`migrate`, `drill`) or a command of the lab is at work, nor for six minutes after its end: what they report is what the
work causes. A playbook whose end was never written down mutes for two hours at most.

When an active node dies, `ActiveMQTakeOver` comes first, within a scrape of the take-over, `ActiveMQStandbyMissing`
after two minutes, and nothing else. Without a take-over it is `ActiveMQNoActiveNode` after one minute and, from the
brokers that dial the pair, `ActiveMQBridgeDown` after two. All end by themselves when the cause is gone.

| alert | severity | after | muted by planned work |
|---|---|---|---|
"""


def main(arguments: list[str]) -> int:
    """Write the page, or with --check return 1 when it is not the one that would be written."""
    return write_or_check(PAGE, "".join(_page()), "the alerts say", arguments)


def _page() -> Iterator[str]:
    yield _HEAD
    for alert in ALERTS:
        wait = paced(alert.wait, 1)
        wait = "at once" if wait == "0s" else wait
        yield f"| [{alert.name}](#{alert.anchor}) | {alert.severity} | {wait} | {'yes' if alert.planned else 'no'} |\n"
    for alert in ALERTS:
        yield f"\n## {alert.name}\n{alert.meaning}\n\nWhat to do: {alert.todo}\n\n```promql\n{alert.promql()}\n```\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
