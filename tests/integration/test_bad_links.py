"""Bridges over networks that lose replies or are slow: late, duplicate and lost messages.

Two brokers each have a kahaDB store; the link from the first to the second passes through a relay.
"""

from __future__ import annotations

import time
from collections import Counter
from itertools import product

import pytest

from tests.integration.relay import Relay
from tests.integration.single_brokers import OPENWIRE, STOMP, BrokerSandbox, SandboxBroker, document, link, until
from tests.situations import fact_of_activemq, further
from tests.stomp_clients import stomp_drain, stomp_send

pytestmark = fact_of_activemq

PATIENCE = 180.0
ALL = ("5.5.1", "5.18.3", "6.3.1")
STORE = "<persistenceAdapter><kahaDB/></persistenceAdapter>"
QUEUE = "/queue/orders"
SLOW = 20_000
"""Bytes per second of the slow link."""
BODY = 2_000
HELD = 3.0
"""Seconds without a message after which the connection with the withheld replies is closed."""


NO_AUDIT = (
    '<destinationPolicy><policyMap><policyEntries><policyEntry queue="&gt;" enableAudit="false"/></policyEntries>'
    "</policyMap></destinationPolicy>"
)


def start_linked_brokers(
    sandbox: BrokerSandbox, release: str, relay: Relay, *policies: str
) -> tuple[SandboxBroker, SandboxBroker]:
    """Start two brokers; the first forwards the messages of the queue through the relay to the second."""
    host, port = relay.address
    included = '<staticallyIncludedDestinations><queue physicalName="orders"/></staticallyIncludedDestinations>'
    uri = f"static:(tcp://{host}:{port})?maxReconnectDelay=1000"
    connector = link(uri, networkTTL="3").replace(
        "/></networkConnectors>", f">{included}</networkConnector></networkConnectors>"
    )
    north = sandbox.add_broker("north", release, document("north", sandbox.address(1), connector, STORE))
    south = sandbox.add_broker("south", release, document("south", sandbox.address(2), STORE, *policies))
    for broker in (south, north):
        assert broker.boot().fate == "started", broker.output
    assert until(
        lambda: any(bridge.peer == "south" for bridge in north.run_state.currently_established_bridges), PATIENCE
    ), north.output
    return north, south


def drain_south(sandbox: BrokerSandbox, expected: int) -> Counter[str]:
    """Receive the messages of the second broker; return the count of each text."""
    first_bodies = stomp_drain([(sandbox.address(2), STOMP)], QUEUE, expected=expected, timeout=PATIENCE)
    return Counter([*first_bodies, *stomp_drain([(sandbox.address(2), STOMP)], QUEUE, idle=5, timeout=30)])


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("release", "audited"),
    [("6.3.1", True), *further(("6.3.1", False), *product(("5.5.1", "5.18.3"), (True, False)))],
)
def test_bridge_cut_before_replies_loses_nothing_and_message_audit_drops_copies(
    sandbox: BrokerSandbox, release: str, audited: bool
) -> None:
    """The second broker delivers messages, the first receives no replies and sends them again.

    The audit of the second broker's queue (``enableAudit``, on by default) detects these copies and drops them.
    """
    with Relay((sandbox.address(2), OPENWIRE)) as relay:
        start_linked_brokers(sandbox, release, relay, *([] if audited else [NO_AUDIT]))
        bodies = [str(number) for number in range(200)]
        stomp_send([(sandbox.address(1), STOMP)], QUEUE, bodies[:50])
        relay.hold_replies()
        stomp_send([(sandbox.address(1), STOMP)], QUEUE, bodies[50:150])
        early = stomp_drain([(sandbox.address(2), STOMP)], QUEUE, idle=HELD, timeout=60)
        relay.reset()
        stomp_send([(sandbox.address(1), STOMP)], QUEUE, bodies[150:])
        received = drain_south(sandbox, len(bodies) - len(early)) + Counter(early)
    twice = sum(count > 1 for count in received.values())
    print(
        f"{release}, {audited=}: {len(bodies)} sent, "
        f"{len(early)} received before the interruption, {len(received)} in total, {twice} twice"
    )
    assert len(early) > 50, "no consumer received messages whose replies were withheld"
    assert set(received) == set(bodies)
    assert max(received.values()) <= 2
    assert twice == 0 if audited else 0 < twice <= len(early)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("release", further(*ALL))
def test_slow_link_blocks_no_client_and_loses_no_message(sandbox: BrokerSandbox, release: str) -> None:
    with Relay((sandbox.address(2), OPENWIRE), SLOW) as relay:
        start_linked_brokers(sandbox, release, relay)
        bodies = [f"{number:05}".ljust(BODY, "x") for number in range(100)]
        started_at = time.monotonic()
        stomp_send([(sandbox.address(1), STOMP)], QUEUE, bodies)
        accepted = time.monotonic() - started_at
        received = drain_south(sandbox, len(bodies))
        arrived = time.monotonic() - started_at
    print(f"{release}: accepted after {accepted:.1f} s, all received after {arrived:.1f} s")
    assert received == Counter(bodies)
    assert accepted < arrived / 2  # the link was slow, and the client did not wait for the link
