"""Claims of the rules about bridges, on real brokers: refused options, lost messages and stuck messages."""

from __future__ import annotations

import re
import time
from itertools import product

import pytest

from activemq_fleet.lab.stomp import StompConnection
from activemq_fleet.lint import file_findings, known_uri_options
from activemq_fleet.releases import Release
from tests.integration.single_brokers import OPENWIRE, STOMP, BrokerSandbox, SandboxBroker, document, link, until
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
# A number and a Boolean: an option that exists accepts at least one of them.
VALUES = ("1", "true")
BOGUS = ("nosuch", "tcpnodelay", "TcpNoDelay", "maximumConnections", "wireformat.cacheEnabled", "wireFormat.nosuch")
# Options whose value names a logger, a format or a list of brokers, so that brokers report errors in other ways.
UNTESTED_OPTIONS = {
    "wireFormat",
    "trace",
    "logWriterName",
    "dynamicManagement",
    "jmxPort",
    "priorityURIs",
    "updateURIsURL",
}
FIRST_PORT = 10_000


def option_cases() -> list[tuple[str, str, str]]:
    newest = Release.of("6.3.1")
    transports = known_uri_options.connection_uri_options("ssl", newest) | known_uri_options.connection_uri_options(
        "nio+ssl", newest
    )
    names = {"tcp": transports, "ssl": transports, "failover": known_uri_options.failover_options(newest)}
    return [
        (form, option, value)
        for form, known in names.items()
        for option, value in product(sorted({*known, *BOGUS} - UNTESTED_OPTIONS), VALUES)
    ]


@pytest.mark.parametrize("release", [*further("5.5.1", "5.8.0", "5.18.3"), "6.3.1"])
def test_bridge_refuses_exactly_options_named_by_rule_n007(sandbox: BrokerSandbox, release: str) -> None:
    cases = option_cases()
    uris = [
        FORMS[form].format(port=FIRST_PORT + number, option=option, value=value)
        for number, (form, option, value) in enumerate(cases)
    ]
    links = "".join(f'<networkConnector name="l{number}" uri="{uri}"/>' for number, uri in enumerate(uris))
    activemq_xml = document("north", sandbox.address(1), f"<networkConnectors>{links}</networkConnectors>")
    activemq_xml = activemq_xml.replace("<broker ", '<broker networkConnectorStartAsync="true" ', 1)
    north = sandbox.add_broker("north", release, activemq_xml)
    start_brokers(north)
    assert until(lambda: len(dialed_ports(north)) == len(cases), PATIENCE), sorted(dialed_ports(north))
    rule = options_named_by_rule(uris, release, cases)
    until(lambda: refused_options(north, cases) == rule, PATIENCE)
    time.sleep(1)
    assert refused_options(north, cases) == rule


def dialed_ports(broker: SandboxBroker) -> set[int]:
    return {
        int(port) for port in re.findall(r"Establishing network connection from \S+ to \S*?:(1\d{4})", broker.output)
    }


def refused_options(broker: SandboxBroker, cases: list[tuple[str, str, str]]) -> set[tuple[str, str]]:
    """Return the options that were refused with both values."""
    lines = (line for line in broker.output.splitlines() if "Could not connect to remote URI" in line)
    ports = {int(port) for line in lines for port in re.findall(r":(1\d{4})[?)]", line)}
    refusals = [FIRST_PORT + number in ports for number in range(len(cases))]
    pairs = zip(cases[::2], refusals[::2], refusals[1::2], strict=True)
    return {
        (form, option)
        for (form, option, _), refused_with_number, refused_with_boolean in pairs
        if refused_with_number and refused_with_boolean
    }


def options_named_by_rule(uris: list[str], release: str, cases: list[tuple[str, str, str]]) -> set[tuple[str, str]]:
    """Return the options that N007 reports for the same links; its message has form and option.

    N007 reports at most 100 options per file.
    """
    findings = []
    for first in range(0, len(uris), 50):
        links = "".join(f'<networkConnector name="l" uri="{uri}"/>' for uri in uris[first : first + 50])
        activemq_xml = document("north", "127.0.0.1", f"<networkConnectors>{links}</networkConnectors>")
        findings += [
            finding for finding in file_findings(activemq_xml.encode(), Release.of(release)) if finding.rule == "N007"
        ]
    reported = {
        re.sub(r"the option (.*?) does not exist in URIs with the scheme (.*?) in .*", r"\2 \1", finding.message)
        for finding in findings
    }
    return {(form, option) for form, option, _ in cases if f"{form} {option}" in reported}


# -- N024, N029, N034, N036 ---------------------------------------------------------------------


def start_brokers(*brokers: SandboxBroker) -> None:
    for broker in brokers:
        broker.launch()
    for broker in brokers:
        assert broker.settle().fate == "started", broker.output


def bridge_peers(broker: SandboxBroker) -> list[str]:
    return [bridge.peer for bridge in broker.run_state.currently_established_bridges]


def start_linked_brokers(sandbox: BrokerSandbox, release: str, *lists: str, **attributes: str) -> SandboxBroker:
    """Start a broker at address 1 with a bridge to a broker at address 2; ``lists`` are children of the link."""
    connector = link(f"static:(nio://{sandbox.address(2)}:{OPENWIRE})", **attributes)
    connector = connector.replace("/></networkConnectors>", f">{''.join(lists)}</networkConnector></networkConnectors>")
    south = sandbox.add_broker("south", release, document("south", sandbox.address(2)))
    north = sandbox.add_broker("north", release, document("north", sandbox.address(1), connector))
    start_brokers(south, north)
    assert until(lambda: bridge_peers(north) == ["south"], PATIENCE), north.output
    return north


@in_every_situation
@pytest.mark.parametrize(("conduit", "copies"), [("false", 4), ("true", 2)])
def test_each_of_two_consumers_gets_two_copies_without_conduit_subscriptions(
    sandbox: BrokerSandbox, conduit: str, copies: int
) -> None:
    start_linked_brokers(sandbox, "5.18.3", conduitSubscriptions=conduit)
    south = (sandbox.address(2), STOMP)
    with StompConnection(south) as first_consumer, StompConnection(south) as second_consumer:
        first_consumer.subscribe("/topic/news", ack="auto")
        second_consumer.subscribe("/topic/news", ack="auto")
        time.sleep(1)  # until the bridge has received both subscriptions; on a busy machine it may take longer
        deadline, received = time.monotonic() + PATIENCE, 0
        while received < copies and time.monotonic() < deadline:
            stomp_send([(sandbox.address(1), STOMP)], "/topic/news", ["hello"])
            received = sum(count_messages(consumer) for consumer in (first_consumer, second_consumer))
    assert received == copies


def count_messages(consumer: StompConnection) -> int:
    """Receive messages until none arrives for WATCHED seconds; return their number."""
    count = 0
    while (message := consumer.receive(WATCHED)) is not None:
        assert message.body == "hello"
        count += 1
    return count


LISTS = (
    '<excludedDestinations><queue physicalName="{excluded}"/></excludedDestinations>'
    '<staticallyIncludedDestinations><queue physicalName="{listed}"/></staticallyIncludedDestinations>'
)


@pytest.mark.parametrize(
    ("release", "excluded", "listed", "kept", "forwarded"),
    [
        *further(("5.11.4", "orders.x", "orders.&gt;", [], BODIES)),
        ("5.18.3", "orders.x", "orders.&gt;", [], []),
        *further(
            ("5.18.3", "orders.x", "orders.x", BODIES, []),
            ("5.18.3", "others", "orders.&gt;", [], BODIES),
        ),
    ],
    ids=["forwarded despite exclusion", "stuck", "not forwarded", "not excluded"],
)
def test_exclusion_and_static_include_of_link_decide_where_messages_remain(
    sandbox: BrokerSandbox, release: str, excluded: str, listed: str, kept: list[str], forwarded: list[str]
) -> None:
    start_linked_brokers(sandbox, release, LISTS.format(excluded=excluded, listed=listed))
    stomp_send([(sandbox.address(1), STOMP)], "/queue/orders.x", BODIES)
    assert drain(sandbox, 2, "orders.x", forwarded) == forwarded
    assert drain(sandbox, 1, "orders.x", kept) == kept


def drain(sandbox: BrokerSandbox, number: int, queue: str, expected: list[str]) -> list[str]:
    """Receive the messages of a queue: wait for the expected ones, and WATCHED seconds for further ones."""
    bodies: list[str] = []
    with StompConnection((sandbox.address(number), STOMP), timeout=PATIENCE) as consumer:
        consumer.subscribe(f"/queue/{queue}")
        while (message := consumer.receive(PATIENCE if set(expected) - set(bodies) else WATCHED)) is not None:
            bodies.append(message.body)
            consumer.acknowledge(message)
    return bodies


REPLAY = (
    '<destinationPolicy><policyMap><policyEntries><policyEntry queue="&gt;"><networkBridgeFilterFactory>'
    '<conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true"/>'
    "</networkBridgeFilterFactory></policyEntry></policyEntries></policyMap></destinationPolicy>"
)


@pytest.mark.parametrize(("audit", "replayed"), [("true", []), *further(("false", BODIES))])
def test_audit_of_network_producers_discards_replayed_messages(
    sandbox: BrokerSandbox, audit: str, replayed: list[str]
) -> None:
    brokers = []
    for name, number, peer in (("north", 1, 2), ("south", 2, 1)):
        store = (
            f'<persistenceAdapter><kahaDB directory="{sandbox.lab_paths.directory}/{name}/store"/></persistenceAdapter>'
        )
        connector = link(f"static:(nio://{sandbox.address(peer)}:{OPENWIRE})", networkTTL="3")
        activemq_xml = document(name, sandbox.address(number), connector, REPLAY, store)
        activemq_xml = activemq_xml.replace('name="openwire"', f'name="openwire" auditNetworkProducers="{audit}"')
        brokers.append(sandbox.add_broker(name, "5.18.3", activemq_xml))
    start_brokers(*brokers)
    assert until(lambda: all(len(bridge_peers(broker)) == 1 for broker in brokers), PATIENCE)
    with StompConnection((sandbox.address(2), STOMP)) as consumer:
        consumer.subscribe("/queue/q", headers={"activemq.prefetchSize": "100"})
        stomp_send([(sandbox.address(1), STOMP)], "/queue/q", BODIES)
        crossed = [consumer.receive(PATIENCE) for _ in BODIES]  # without an acknowledgement
        assert [message and message.body for message in crossed] == BODIES
    assert sorted(set(drain(sandbox, 1, "q", replayed))) == replayed
    assert ("suppressing duplicate message send" in brokers[0].output) is (audit == "true")


ACCOUNTS = (
    "<plugins><simpleAuthenticationPlugin><users>"
    '<authenticationUser username="net" password="secret" groups="net"/>'
    "</users></simpleAuthenticationPlugin></plugins>"
)


@pytest.mark.parametrize("release", [*further("5.5.1"), "5.18.3"])
def test_link_without_account_is_rejected_by_its_local_broker(sandbox: BrokerSandbox, release: str) -> None:
    connector = link(f"static:(nio://{sandbox.address(2)}:{OPENWIRE})")
    south = sandbox.add_broker("south", release, document("south", sandbox.address(2)))
    north = sandbox.add_broker("north", release, document("north", sandbox.address(1), connector, ACCOUNTS))
    start_brokers(south, north)
    assert north.wait_for_output("shutdown due to a local error: java.lang.SecurityException", PATIENCE, times=2)


def test_link_with_account_of_its_local_broker_connects(sandbox: BrokerSandbox) -> None:
    connector = link(f"static:(nio://{sandbox.address(2)}:{OPENWIRE})", userName="net", password="secret")
    south = sandbox.add_broker("south", "5.18.3", document("south", sandbox.address(2)))
    north = sandbox.add_broker("north", "5.18.3", document("north", sandbox.address(1), connector, ACCOUNTS))
    start_brokers(south, north)
    assert until(lambda: bridge_peers(north) == ["south"], PATIENCE), north.output
