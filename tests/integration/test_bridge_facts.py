"""What the rules about bridges claim, on real brokers: which options are refused, what is lost, what is stuck."""

from __future__ import annotations

import re
import time
from itertools import product

import pytest

from activemq_fleet.lab.stomp import StompConnection
from activemq_fleet.lint import file_findings, known_uri_options
from activemq_fleet.releases import Release
from tests.integration.planted import OPENWIRE, STOMP, Ground, Planted, document, link, until
from tests.situations import fact_of_activemq, further, in_every_situation
from tests.stomp_clients import stomp_send

pytestmark = fact_of_activemq

PATIENCE = 120.0
WATCHED = 4.0
BODIES = ["1", "2", "3", "4", "5"]

# -- N007 -------------------------------------------------------------------------------------

FORMS = {
    "tcp": "static:(tcp://127.0.0.1:{port}?{option}={value})",
    "ssl": "static:(ssl://127.0.0.1:{port}?{option}={value})",
    "failover": "static:(failover:(tcp://127.0.0.1:{port})?{option}={value})",
}
# A number for one kind of option, a truth for the other: what is understood takes one of them.
VALUES = ("1", "true")
BOGUS = ("nosuch", "tcpnodelay", "TcpNoDelay", "maximumConnections", "wireformat.cacheEnabled", "wireFormat.nosuch")
# They make a logger, a format or a list of brokers of their value, and say so in other ways.
OTHERWISE = {"wireFormat", "trace", "logWriterName", "dynamicManagement", "jmxPort", "priorityURIs", "updateURIsURL"}
FIRST_PORT = 10_000


def cases() -> list[tuple[str, str, str]]:
    newest = Release.of("6.3.1")
    transports = known_uri_options.connection_uri_options("ssl", newest) | known_uri_options.connection_uri_options(
        "nio+ssl", newest
    )
    names = {"tcp": transports, "ssl": transports, "failover": known_uri_options.failover_options(newest)}
    return [
        (form, option, value)
        for form, known in names.items()
        for option, value in product(sorted({*known, *BOGUS} - OTHERWISE), VALUES)
    ]


@pytest.mark.parametrize("release", [*further("5.5.1", "5.8.0", "5.18.3"), "6.3.1"])
def test_a_bridge_refuses_exactly_the_options_that_the_rule_names(ground: Ground, release: str) -> None:
    tried = cases()
    uris = [
        FORMS[form].format(port=FIRST_PORT + number, option=option, value=value)
        for number, (form, option, value) in enumerate(tried)
    ]
    links = "".join(f'<networkConnector name="l{number}" uri="{uri}"/>' for number, uri in enumerate(uris))
    text = document("north", ground.address(1), f"<networkConnectors>{links}</networkConnectors>")
    text = text.replace("<broker ", '<broker networkConnectorStartAsync="true" ', 1)
    north = ground.plant("north", release, text)
    boot(north)
    assert until(lambda: len(dialled(north)) == len(tried), PATIENCE), sorted(dialled(north))
    rule = named(uris, release, tried)
    until(lambda: refused(north, tried) == rule, PATIENCE)
    time.sleep(1)
    assert refused(north, tried) == rule


def dialled(broker: Planted) -> set[int]:
    return {
        int(port) for port in re.findall(r"Establishing network connection from \S+ to \S*?:(1\d{4})", broker.output)
    }


def refused(broker: Planted, tried: list[tuple[str, str, str]]) -> set[tuple[str, str]]:
    """The options that were refused with either value."""
    lines = (line for line in broker.output.splitlines() if "Could not connect to remote URI" in line)
    ports = {int(port) for line in lines for port in re.findall(r":(1\d{4})[?)]", line)}
    refusals = [FIRST_PORT + number in ports for number in range(len(tried))]
    pairs = zip(tried[::2], refusals[::2], refusals[1::2], strict=True)
    return {(form, option) for (form, option, _), one, other in pairs if one and other}


def named(uris: list[str], release: str, tried: list[tuple[str, str, str]]) -> set[tuple[str, str]]:
    """What N007 says about the same links; its message tells form and option. Of a file it tells the first hundred."""
    findings = []
    for first in range(0, len(uris), 50):
        links = "".join(f'<networkConnector name="l" uri="{uri}"/>' for uri in uris[first : first + 50])
        text = document("north", "127.0.0.1", f"<networkConnectors>{links}</networkConnectors>")
        findings += [one for one in file_findings(text.encode(), Release.of(release)) if one.rule == "N007"]
    reported = {
        re.sub(r"the option (.*?) does not exist in URIs with the scheme (.*?) in .*", r"\2 \1", finding.message)
        for finding in findings
    }
    return {(form, option) for form, option, _ in tried if f"{form} {option}" in reported}


# -- N024, N029, N034, N036 ---------------------------------------------------------------------


def boot(*brokers: Planted) -> None:
    for broker in brokers:
        broker.launch()
    for broker in brokers:
        assert broker.settle().fate == "started", broker.output


def peers(broker: Planted) -> list[str]:
    return [bridge.peer for bridge in broker.run_state.established_bridges]


def linked(ground: Ground, release: str, *lists: str, **attributes: str) -> Planted:
    """A broker at address 1 with a bridge to one at address 2; ``lists`` stand inside the link."""
    inside = link(f"static:(nio://{ground.address(2)}:{OPENWIRE})", **attributes)
    inside = inside.replace("/></networkConnectors>", f">{''.join(lists)}</networkConnector></networkConnectors>")
    south = ground.plant("south", release, document("south", ground.address(2)))
    north = ground.plant("north", release, document("north", ground.address(1), inside))
    boot(south, north)
    assert until(lambda: peers(north) == ["south"], PATIENCE), north.output
    return north


@in_every_situation
@pytest.mark.parametrize(("conduit", "copies"), [("false", 4), ("true", 2)])
def test_without_conduit_subscriptions_each_of_two_consumers_gets_two_copies(
    ground: Ground, conduit: str, copies: int
) -> None:
    linked(ground, "5.18.3", conduitSubscriptions=conduit)
    south = (ground.address(2), STOMP)
    with StompConnection(south) as one, StompConnection(south) as other:
        one.subscribe("/topic/news", ack="auto")
        other.subscribe("/topic/news", ack="auto")
        time.sleep(1)  # until the bridge has heard of both; on a busy machine it may take longer
        deadline, got = time.monotonic() + PATIENCE, 0
        while got < copies and time.monotonic() < deadline:
            stomp_send([(ground.address(1), STOMP)], "/topic/news", ["hello"])
            got = sum(received(consumer) for consumer in (one, other))
    assert got == copies


def received(consumer: StompConnection) -> int:
    """How many messages come until none does for a while."""
    got = 0
    while (message := consumer.receive(WATCHED)) is not None:
        assert message.body == "hello"
        got += 1
    return got


LISTS = (
    '<excludedDestinations><queue physicalName="{excluded}"/></excludedDestinations>'
    '<staticallyIncludedDestinations><queue physicalName="{listed}"/></staticallyIncludedDestinations>'
)


@pytest.mark.parametrize(
    ("release", "excluded", "listed", "here", "there"),
    [
        *further(("5.11.4", "orders.x", "orders.&gt;", [], BODIES)),
        ("5.18.3", "orders.x", "orders.&gt;", [], []),
        *further(
            ("5.18.3", "orders.x", "orders.x", BODIES, []),
            ("5.18.3", "others", "orders.&gt;", [], BODIES),
        ),
    ],
    ids=["forwarded all the same", "stuck", "not forwarded", "not excluded"],
)
def test_what_becomes_of_an_excluded_static_include(
    ground: Ground, release: str, excluded: str, listed: str, here: list[str], there: list[str]
) -> None:
    linked(ground, release, LISTS.format(excluded=excluded, listed=listed))
    stomp_send([(ground.address(1), STOMP)], "/queue/orders.x", BODIES)
    assert drained(ground, 2, "orders.x", there) == there
    assert drained(ground, 1, "orders.x", here) == here


def drained(ground: Ground, number: int, queue: str, expected: list[str]) -> list[str]:
    """What is in a queue: what is expected there is waited for, and what else may come a few seconds more."""
    got: list[str] = []
    with StompConnection((ground.address(number), STOMP), timeout=PATIENCE) as consumer:
        consumer.subscribe(f"/queue/{queue}")
        while (message := consumer.receive(PATIENCE if set(expected) - set(got) else WATCHED)) is not None:
            got.append(message.body)
            consumer.acknowledge(message)
    return got


REPLAY = (
    '<destinationPolicy><policyMap><policyEntries><policyEntry queue="&gt;"><networkBridgeFilterFactory>'
    '<conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true"/>'
    "</networkBridgeFilterFactory></policyEntry></policyEntries></policyMap></destinationPolicy>"
)


@pytest.mark.parametrize(("audit", "arrive"), [("true", []), *further(("false", BODIES))])
def test_an_audit_of_bridges_throws_away_what_is_replayed(ground: Ground, audit: str, arrive: list[str]) -> None:
    brokers = []
    for name, number, peer in (("north", 1, 2), ("south", 2, 1)):
        store = f'<persistenceAdapter><kahaDB directory="{ground.layout.directory}/{name}/store"/></persistenceAdapter>'
        over = link(f"static:(nio://{ground.address(peer)}:{OPENWIRE})", networkTTL="3")
        text = document(name, ground.address(number), over, REPLAY, store)
        text = text.replace('name="openwire"', f'name="openwire" auditNetworkProducers="{audit}"')
        brokers.append(ground.plant(name, "5.18.3", text))
    boot(*brokers)
    assert until(lambda: all(len(peers(broker)) == 1 for broker in brokers), PATIENCE)
    with StompConnection((ground.address(2), STOMP)) as consumer:
        consumer.subscribe("/queue/q", headers={"activemq.prefetchSize": "100"})
        stomp_send([(ground.address(1), STOMP)], "/queue/q", BODIES)
        crossed = [consumer.receive(PATIENCE) for _ in BODIES]  # and none is acknowledged
        assert [message and message.body for message in crossed] == BODIES
    assert sorted(set(drained(ground, 1, "q", arrive))) == arrive
    assert ("suppressing duplicate message send" in brokers[0].output) is (audit == "true")


ACCOUNTS = (
    "<plugins><simpleAuthenticationPlugin><users>"
    '<authenticationUser username="net" password="secret" groups="net"/>'
    "</users></simpleAuthenticationPlugin></plugins>"
)


@pytest.mark.parametrize("release", [*further("5.5.1"), "5.18.3"])
def test_a_link_without_account_is_refused_by_its_own_broker(ground: Ground, release: str) -> None:
    over = link(f"static:(nio://{ground.address(2)}:{OPENWIRE})")
    south = ground.plant("south", release, document("south", ground.address(2)))
    north = ground.plant("north", release, document("north", ground.address(1), over, ACCOUNTS))
    boot(south, north)
    assert north.wait_for_output("shutdown due to a local error: java.lang.SecurityException", PATIENCE, times=2)


def test_a_link_with_an_account_of_its_own_broker_comes_up(ground: Ground) -> None:
    over = link(f"static:(nio://{ground.address(2)}:{OPENWIRE})", userName="net", password="secret")
    south = ground.plant("south", "5.18.3", document("south", ground.address(2)))
    north = ground.plant("north", "5.18.3", document("north", ground.address(1), over, ACCOUNTS))
    boot(south, north)
    assert until(lambda: peers(north) == ["south"], PATIENCE), north.output
