"""Bridges over networks that lose the replies, or are slow: what comes late, twice or not at all.

Brokers with a kahaDB of their own; the link of one leads through a relay to the other one.
"""

from __future__ import annotations

import time
from collections import Counter
from itertools import product

import pytest

from tests.integration.planted import OPENWIRE, STOMP, Ground, Planted, document, link, until
from tests.integration.relay import Relay
from tests.situations import fact_of_activemq, further
from tests.stomp_clients import stomp_drain, stomp_send

pytestmark = fact_of_activemq

PATIENCE = 180.0
ALL = ("5.5.1", "5.18.3", "6.3.1")
STORE = "<persistenceAdapter><kahaDB/></persistenceAdapter>"
QUEUE = "/queue/orders"
SLOW = 20_000
"""Bytes a second of the slow link."""
BODY = 2_000
HELD = 3.0
"""Seconds without a message after which the connection is closed whose replies are held."""


NO_AUDIT = (
    '<destinationPolicy><policyMap><policyEntries><policyEntry queue="&gt;" enableAudit="false"/></policyEntries>'
    "</policyMap></destinationPolicy>"
)


def linked(ground: Ground, release: str, relay: Relay, *policies: str) -> tuple[Planted, Planted]:
    """Two brokers; the first forwards to the second, through the relay, what is sent to the queue."""
    host, port = relay.address
    included = '<staticallyIncludedDestinations><queue physicalName="orders"/></staticallyIncludedDestinations>'
    uri = f"static:(tcp://{host}:{port})?maxReconnectDelay=1000"
    connector = link(uri, networkTTL="3").replace(
        "/></networkConnectors>", f">{included}</networkConnector></networkConnectors>"
    )
    north = ground.plant("north", release, document("north", ground.address(1), connector, STORE))
    south = ground.plant("south", release, document("south", ground.address(2), STORE, *policies))
    for broker in (south, north):
        assert broker.boot().fate == "started", broker.output
    assert until(lambda: any(bridge.peer == "south" for bridge in north.run_state.established_bridges), PATIENCE), (
        north.output
    )
    return north, south


def drained(ground: Ground, expected: int) -> Counter[str]:
    """Take what came to the second broker; the count of each text."""
    first = stomp_drain([(ground.address(2), STOMP)], QUEUE, expected=expected, timeout=PATIENCE)
    return Counter([*first, *stomp_drain([(ground.address(2), STOMP)], QUEUE, idle=5, timeout=30)])


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("release", "audited"),
    [("6.3.1", True), *further(("6.3.1", False), *product(("5.5.1", "5.18.3"), (True, False)))],
)
def test_a_bridge_that_is_cut_before_the_reply_sends_again_and_loses_nothing(
    ground: Ground, release: str, audited: bool
) -> None:
    """The second broker has stored and given out messages; the first one does not know, and sends them once more.

    The second one remembers what its queue has had (``enableAudit``, on by default), and drops them.
    """
    with Relay((ground.address(2), OPENWIRE)) as relay:
        linked(ground, release, relay, *([] if audited else [NO_AUDIT]))
        bodies = [str(number) for number in range(200)]
        stomp_send([(ground.address(1), STOMP)], QUEUE, bodies[:50])
        relay.hold_replies()
        stomp_send([(ground.address(1), STOMP)], QUEUE, bodies[50:150])
        early = stomp_drain([(ground.address(2), STOMP)], QUEUE, idle=HELD, timeout=60)
        relay.reset()
        stomp_send([(ground.address(1), STOMP)], QUEUE, bodies[150:])
        came = drained(ground, len(bodies) - len(early)) + Counter(early)
    twice = sum(count > 1 for count in came.values())
    print(
        f"{release}, {audited=}: {len(bodies)} sent, {len(early)} taken before the cut, {len(came)} came, {twice} twice"
    )
    assert len(early) > 50, "some were taken whose replies were held"
    assert set(came) == set(bodies)
    assert max(came.values()) <= 2
    assert twice == 0 if audited else 0 < twice <= len(early)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("release", further(*ALL))
def test_a_slow_link_holds_up_no_client_and_loses_nothing(ground: Ground, release: str) -> None:
    with Relay((ground.address(2), OPENWIRE), SLOW) as relay:
        linked(ground, release, relay)
        bodies = [f"{number:05}".ljust(BODY, "x") for number in range(100)]
        began = time.monotonic()
        stomp_send([(ground.address(1), STOMP)], QUEUE, bodies)
        accepted = time.monotonic() - began
        came = drained(ground, len(bodies))
        arrived = time.monotonic() - began
    print(f"{release}: accepted after {accepted:.1f} s, all there after {arrived:.1f} s")
    assert came == Counter(bodies)
    assert accepted < arrived / 2  # the link was slow, and the client did not wait for it
