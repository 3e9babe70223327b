"""Brokers of a lab with a watchdog."""

from __future__ import annotations

from activemq_fleet.node.watchdog.watchdog import Watchdog
from activemq_fleet.node.watchdog.watchdog_cli import parse_options
from tests.integration.single_brokers import SandboxBroker


def watched_broker(broker: SandboxBroker) -> Watchdog:
    """Return a watchdog with the action ``kill`` for a broker whose files have the layout of the collection."""
    base = broker.data.parent
    (base / "versions/v").mkdir(parents=True)
    (base / "versions/v/conf").symlink_to("../../conf")
    (base / "current").symlink_to("versions/v")
    words = ["--base", str(base), "--unit", "x.service", "--ha", "shared-file", "kill"]
    return Watchdog(parse_options(words), None)
