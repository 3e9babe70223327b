"""The watchdog at real brokers that are busy with something else than hanging."""

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
from tests.integration.planted import STOMP, Ground, Planted, document, until
from tests.situations import further, in_every_situation
from tests.support.watched_labs import watched_broker

MEGABYTE = "x" * (1 << 20)
SILENCE = 5.0
FULL = {
    "store": '<storeUsage><storeUsage limit="40 mb"/></storeUsage>',
    "memory": '<memoryUsage><memoryUsage limit="4 mb"/></memoryUsage>',
}


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that is only busy must not look like a broker that hangs."""
    monkeypatch.setattr(watchdog, "PROBE", 6.0)


def fill(producer: StompConnection) -> None:
    for _ in range(100):
        producer.send("/queue/full", MEGABYTE)


@in_every_situation
@pytest.mark.parametrize(
    ("release", "what"), [("6.3.1", "memory"), *further(("5.18.3", "store"), ("5.5.1", "memory"), ("5.18.3", "memory"))]
)
def test_a_full_broker_is_left_alone_and_a_frozen_one_is_killed(
    tmp_path: Path, ground: Ground, monkeypatch: pytest.MonkeyPatch, release: str, what: str
) -> None:
    store = f'<persistenceAdapter><kahaDB directory="{tmp_path}/kahadb"/></persistenceAdapter>'
    usage = f"<systemUsage><systemUsage>{FULL[what]}</systemUsage></systemUsage>"
    children = (store, usage) if what == "store" else (usage,)
    broker = ground.plant("full", release, document("full", ground.address(1), *children))
    assert broker.boot().fate == "started", broker.output
    dog = watched_broker(broker)
    dog.check_broker()
    with StompConnection((ground.address(1), STOMP), timeout=SILENCE) as producer:
        with pytest.raises(StompTimeout):
            fill(producer)
        for _ in range(3):
            dog.check_broker()
        state = gather_broker_state(str(broker.data.parent), None)["state"]
    process = find_broker_process(str(broker.data.parent))
    assert process is not None
    assert dog._count.kind in ("fine", "odd")
    # A full memory holds the message of the probe back, too.
    assert state == {"memory": "unhealthy", "store": "active"}[what]
    os.kill(process.pid, signal.SIGSTOP)
    monkeypatch.setattr(watchdog, "PROBE", 2.0)  # it cannot answer, however long it is given
    for _ in range(3):
        assert broker.settle(0.1).exit_code is None
        dog.check_broker()
    assert until(lambda: broker.settle(0.1).exit_code == -signal.SIGKILL, 120)


def is_quiet(broker: Planted) -> bool:
    """Whether a second passes without a word of it."""
    before = broker.output
    time.sleep(1)
    return broker.output == before


@pytest.mark.parametrize("release", [*further("5.5.1"), "6.3.1"])
def test_its_questions_leave_no_trace_in_the_log(ground: Ground, release: str) -> None:
    broker = ground.plant("quiet", release, document("quiet", ground.address(1)))
    assert broker.boot().fate == "started", broker.output
    until(lambda: is_quiet(broker), 60)  # what it has to say of its start may come a little later
    dog = watched_broker(broker)
    before = broker.output
    for _ in range(5):
        dog.check_broker()
    assert dog._count.kind == "fine"
    assert not until(lambda: broker.output != before, 2)
