"""Brokers of a lab with a watchdog."""

from __future__ import annotations

from activemq_fleet.node.watchdog import watchdog
from tests.integration.planted import Planted


def watched_broker(broker: Planted) -> watchdog.Watchdog:
    """A watchdog that would kill, of a broker whose files lie as the collection installs them."""
    base = broker.data.parent
    (base / "versions/v").mkdir(parents=True)
    (base / "versions/v/conf").symlink_to("../../conf")
    (base / "current").symlink_to("versions/v")
    words = ["--base", str(base), "--unit", "x.service", "--ha", "shared-file", "kill"]
    return watchdog.Watchdog(watchdog._options(words), None)
