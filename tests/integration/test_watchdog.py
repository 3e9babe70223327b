"""Tests of the watchdog on real brokers that are busy, and not hung."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from activemq_fleet.lab.stomp import StompConnection, StompTimeout
from activemq_fleet.node.process.proc import find_broker_process
from activemq_fleet.node.state.broker_state import gather_broker_state
from activemq_fleet.node.watchdog import watchdog
from tests.integration.single_brokers import STOMP, BrokerSandbox, SandboxBroker, document, until
from tests.situations import further, in_every_situation
from tests.support.watched_labs import watched_broker

MEGABYTE = "x" * (1 << 20)
RECEIPT_TIMEOUT = 5.0
FULL = {
    "store": '<storeUsage><storeUsage limit="40 mb"/></storeUsage>',
    "memory": '<memoryUsage><memoryUsage limit="4 mb"/></memoryUsage>',
}


@pytest.fixture(autouse=True)
def long_probe_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengthen the timeout of probes, so that a busy machine does not make a broker appear to be hung."""
    monkeypatch.setattr(watchdog, "PROBE", 6.0)


def fill_queue(producer: StompConnection) -> None:
    for _ in range(100):
        producer.send("/queue/full", MEGABYTE)


@in_every_situation
@pytest.mark.parametrize(
    ("release", "limit"),
    [("6.3.1", "memory"), *further(("5.18.3", "store"), ("5.5.1", "memory"), ("5.18.3", "memory"))],
)
def test_watchdog_kills_frozen_broker_and_not_full_broker(
    tmp_path: Path, sandbox: BrokerSandbox, monkeypatch: pytest.MonkeyPatch, release: str, limit: str
) -> None:
    store = f'<persistenceAdapter><kahaDB directory="{tmp_path}/kahadb"/></persistenceAdapter>'
    usage = f"<systemUsage><systemUsage>{FULL[limit]}</systemUsage></systemUsage>"
    children = (store, usage) if limit == "store" else (usage,)
    broker = sandbox.add_broker("full", release, document("full", sandbox.address(1), *children))
    assert broker.boot().fate == "started", broker.output
    broker_watchdog = watched_broker(broker)
    broker_watchdog.check_broker()
    with StompConnection((sandbox.address(1), STOMP), timeout=RECEIPT_TIMEOUT) as producer:
        with pytest.raises(StompTimeout):
            fill_queue(producer)
        for _ in range(3):
            broker_watchdog.check_broker()
        state = gather_broker_state(str(broker.data.parent), None)["state"]
    process = find_broker_process(str(broker.data.parent))
    assert process is not None
    assert broker_watchdog._streak.kind in ("fine", "odd")
    # A full memory also blocks the message of the probe.
    assert state == {"memory": "unhealthy", "store": "active"}[limit]
    os.kill(process.pid, signal.SIGSTOP)
    monkeypatch.setattr(watchdog, "PROBE", 2.0)  # the frozen broker cannot respond within any timeout
    for _ in range(3):
        assert broker.settle(0.1).exit_code is None
        broker_watchdog.check_broker()
    assert until(lambda: broker.settle(0.1).exit_code == -signal.SIGKILL, 120)


def is_quiet(broker: SandboxBroker) -> bool:
    """Return whether the broker logs and prints nothing for a second."""
    output_before = broker.output
    time.sleep(1)
    return broker.output == output_before


@pytest.mark.parametrize("release", [*further("5.5.1"), "6.3.1"])
def test_probes_of_watchdog_leave_no_record_in_log(sandbox: BrokerSandbox, release: str) -> None:
    broker = sandbox.add_broker("quiet", release, document("quiet", sandbox.address(1)))
    assert broker.boot().fate == "started", broker.output
    until(lambda: is_quiet(broker), 60)  # the last records of the start may be written a little later
    broker_watchdog = watched_broker(broker)
    output_before = broker.output
    for _ in range(5):
        broker_watchdog.check_broker()
    assert broker_watchdog._streak.kind == "fine"
    assert not until(lambda: broker.output != output_before, 2)
