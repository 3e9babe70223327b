"""Tests of mistakes that no broker reports: each has the effect that its rule describes, and its fix has not."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab.stomp import StompConnection, StompTimeout
from activemq_fleet.releases import Release
from tests.integration.database import Database
from tests.integration.single_brokers import OPENWIRE, STOMP, BrokerSandbox, SandboxBroker, document, link, until
from tests.situations import fact_of_activemq, further, in_every_situation
from tests.stomp_clients import stomp_drain, stomp_round_trip, stomp_send

pytestmark = fact_of_activemq

# Seconds after which a missing effect proves a mistake. On an idle machine, its fix needs a tenth of them.
WATCHED = 3.0
# Seconds for which a test waits for the effect of a fix on a busy machine.
PATIENCE = 120.0
BODIES = ["1", "2", "3", "4", "5"]
NEXT_MASTER = 1000  # milliseconds between two checks of the lock by a waiting broker


def openwire_uri(sandbox: BrokerSandbox, number: int) -> str:
    return f"nio://{sandbox.address(number)}:{OPENWIRE}"


def stomp_address(sandbox: BrokerSandbox, number: int) -> tuple[str, int]:
    return sandbox.address(number), STOMP


def start_brokers(*brokers: SandboxBroker) -> None:
    """Start brokers in parallel."""
    for broker in brokers:
        broker.launch()
    for broker in brokers:
        assert broker.settle().fate == "started", broker.output


def peers_of(broker: SandboxBroker) -> list[str]:
    """Return the brokers to which a broker has bridges, by the names that its log has."""
    return [bridge.peer for bridge in broker.run_state.currently_established_bridges]


def message_crosses(sandbox: BrokerSandbox, source: int, target: int, queue: str, timeout: float = PATIENCE) -> bool:
    """Return whether a message that is sent at one broker reaches a consumer at the other broker."""
    with StompConnection(stomp_address(sandbox, target)) as consumer:
        consumer.subscribe(f"/queue/{queue}")
        stomp_send([stomp_address(sandbox, source)], f"/queue/{queue}", ["hello"])
        return consumer.receive(timeout) is not None


def completes_round_trip(sandbox: BrokerSandbox, number: int) -> bool:
    with suppress(LabError, OSError):
        stomp_round_trip(stomp_address(sandbox, number), None, "anyone", timeout=5)
        return True
    return False


# -- P001 -------------------------------------------------------------------------------------

NEVER_REPORTS = [("5.5.1", "?maxReconnectAttempts=0"), *further(("5.5.1", ""), ("5.7.0", ""))]
REPORTS = [("5.5.1", "?maxReconnectAttempts=1"), *further(("5.7.0", "?maxReconnectAttempts=0"))]


def start_pure_pair(sandbox: BrokerSandbox, release: str, uri: str) -> tuple[SandboxBroker, SandboxBroker]:
    """Start a master and an attached slave; ``{master}`` in the URI is the master."""
    master = sandbox.add_broker("master", release, document("master", sandbox.address(1), waitForSlave="true"))
    remote = uri.format(master=openwire_uri(sandbox, 1))
    services = f'<services><masterConnector remoteURI="{remote}"/></services>'
    slave = sandbox.add_broker("slave", release, document("slave", sandbox.address(2), services))
    master.launch()
    assert master.wait_for_output("Listening for connections at: stomp"), master.output
    slave.launch()
    assert slave.wait_for_phase("attached"), slave.output
    assert master.wait_for_phase("started"), master.output
    return master, slave


@pytest.mark.parametrize(("release", "options"), NEVER_REPORTS)
def test_slave_with_failover_uri_without_attempt_limit_never_takes_over(
    sandbox: BrokerSandbox, release: str, options: str
) -> None:
    master, slave = start_pure_pair(sandbox, release, f"failover:({{master}}){options}")
    master.kill()
    assert slave.wait_for_output("attempting to automatically reconnect")  # the slave detected the death of the master
    assert not until(lambda: slave.run_state.promoted, WATCHED)
    assert not completes_round_trip(sandbox, 2)


@in_every_situation
@pytest.mark.parametrize(("release", "options"), REPORTS)
def test_slave_with_failover_uri_with_attempt_limit_takes_over(
    sandbox: BrokerSandbox, release: str, options: str
) -> None:
    master, slave = start_pure_pair(sandbox, release, f"failover:({{master}}){options}")
    master.kill()
    assert until(lambda: slave.run_state.promoted, PATIENCE), slave.output
    assert until(lambda: completes_round_trip(sandbox, 2), PATIENCE)


@in_every_situation
def test_slave_with_plain_uri_takes_over(sandbox: BrokerSandbox) -> None:
    master, slave = start_pure_pair(sandbox, "5.5.1", "{master}")
    master.kill()
    assert until(lambda: slave.run_state.promoted, PATIENCE), slave.output
    assert until(lambda: completes_round_trip(sandbox, 2), PATIENCE)


def test_slave_with_plain_uri_becomes_active_without_master(sandbox: BrokerSandbox) -> None:
    services = f'<services><masterConnector remoteURI="{openwire_uri(sandbox, 1)}"/></services>'
    slave = sandbox.add_broker("slave", "5.5.1", document("slave", sandbox.address(2), services))
    start_brokers(slave)
    assert until(lambda: completes_round_trip(sandbox, 2), PATIENCE)


def test_two_slaves_of_one_master_both_take_over_and_deliver_same_messages(sandbox: BrokerSandbox) -> None:
    """Rule P005."""
    master, first_slave = start_pure_pair(sandbox, "5.5.1", "{master}")
    services = f'<services><masterConnector remoteURI="{openwire_uri(sandbox, 1)}"/></services>'
    second_slave = sandbox.add_broker("second", "5.5.1", document("second", sandbox.address(3), services))
    second_slave.launch()
    # The slave logs first that it is attached. The master copies messages to it that arrive after this line.
    assert master.wait_for_output("Slave Broker second is attached", PATIENCE), master.output
    stomp_send([stomp_address(sandbox, 1)], "/queue/q", BODIES)
    master.kill()
    assert until(lambda: first_slave.run_state.promoted and second_slave.run_state.promoted, PATIENCE)
    for number in (2, 3):
        assert (
            stomp_drain([stomp_address(sandbox, number)], "/queue/q", expected=len(BODIES), timeout=PATIENCE) == BODIES
        )


@pytest.mark.parametrize("release", ["5.5.1", *further("5.7.0")])
def test_bridge_to_promoted_slave_blocks_clients_of_connecting_broker(sandbox: BrokerSandbox, release: str) -> None:
    """The promoted slave still identifies as a slave, so that the connecting broker copies to it over its own bridge.

    Therefore, a rendered pure slave has no connectors, and connects to other brokers itself.
    """
    master, slave = start_pure_pair(sandbox, release, "{master}")
    north = sandbox.add_broker(
        "north", release, document("north", sandbox.address(3), link(f"static:({openwire_uri(sandbox, 2)})"))
    )
    start_brokers(north)
    assert until(lambda: completes_round_trip(sandbox, 3), PATIENCE), north.output
    master.kill()
    assert until(lambda: slave.run_state.promoted, PATIENCE), slave.output
    assert north.wait_for_output("Slave Broker slave is attached", PATIENCE)
    with pytest.raises(StompTimeout), StompConnection(stomp_address(sandbox, 3), timeout=WATCHED) as client:
        client.subscribe("/queue/q")
    assert until(lambda: completes_round_trip(sandbox, 2), PATIENCE), slave.output


# -- N002, N003 -------------------------------------------------------------------------------

# The delay only affects how soon a transport that does not give up tries again.
FAILOVER = "static:(failover:({a},{b})?randomize=false&amp;maxReconnectDelay=500%s)"
KEPT = [("5.18.3", FAILOVER % ""), *further(("5.5.1", FAILOVER % "&amp;maxReconnectAttempts=0"))]
REBUILT = [
    *further(("5.18.3", FAILOVER % "&amp;maxReconnectAttempts=0")),
    ("5.18.3", "masterslave:({a},{b})"),
    ("5.5.1", FAILOVER % "&amp;maxReconnectAttempts=1"),
]


def start_link_and_replace_target(sandbox: BrokerSandbox, release: str, uri: str) -> SandboxBroker:
    """Return a broker whose duplex link led to ``a`` (address 1), which was killed, and ``b`` (2) replaced it."""
    a, b = (sandbox.add_broker(name, release, document(name, sandbox.address(at))) for at, name in ((1, "a"), (2, "b")))
    target_uri = uri.format(a=openwire_uri(sandbox, 1), b=openwire_uri(sandbox, 2))
    north = sandbox.add_broker("north", release, document("north", sandbox.address(3), link(target_uri, duplex="true")))
    start_brokers(a)
    start_brokers(north)
    assert until(lambda: peers_of(north) == ["a"], PATIENCE), north.output
    assert message_crosses(sandbox, 1, 3, "before")
    a.kill()
    start_brokers(b)  # after the kill, as a standby starts: the first attempts find no listener
    return north


@pytest.mark.parametrize(("release", "uri"), KEPT, ids=["N002-5.18.3", "N003-5.5.1"])
def test_transport_that_reconnects_below_bridge_leaves_half_of_duplex_link(
    sandbox: BrokerSandbox, release: str, uri: str
) -> None:
    north = start_link_and_replace_target(sandbox, release, uri)
    assert north.wait_for_output("Successfully reconnected"), north.output
    assert message_crosses(sandbox, 3, 2, "there")
    assert not message_crosses(sandbox, 2, 3, "back", WATCHED)
    assert north.output.count("Establishing network connection") == 1


@in_every_situation
@pytest.mark.parametrize(("release", "uri"), REBUILT, ids=["N002-5.18.3", "masterslave-5.18.3", "N003-5.5.1"])
def test_bridge_is_rebuilt_completely_after_its_transport_gives_up(
    sandbox: BrokerSandbox, release: str, uri: str
) -> None:
    north = start_link_and_replace_target(sandbox, release, uri)
    assert until(lambda: peers_of(north) == ["b"], PATIENCE), north.output
    assert message_crosses(sandbox, 3, 2, "there")
    assert message_crosses(sandbox, 2, 3, "back")


# -- N010 -------------------------------------------------------------------------------------


def start_linked_brokers(
    sandbox: BrokerSandbox, release: str, north: str, south: str | None
) -> tuple[SandboxBroker, SandboxBroker]:
    """Start two brokers; each has a duplex link of that name to the other, the second one only with a name."""
    links = [link(f"static:({openwire_uri(sandbox, 1)})", name=south, duplex="true")] if south else []
    second = sandbox.add_broker("south", release, document("south", sandbox.address(2), *links))
    link_to_south = link(f"static:({openwire_uri(sandbox, 2)})", name=north, duplex="true")
    first = sandbox.add_broker("north", release, document("north", sandbox.address(1), link_to_south))
    start_brokers(second, first)
    return first, second


def count_duplicate_connections(*brokers: SandboxBroker) -> int:
    """Return how often brokers logged that a broker is already connected."""
    return sum(broker.output.count("already connected from") for broker in brokers)


# On 5.5.1, the result is random: two bridges, one, or none.
@pytest.mark.parametrize("release", ["5.18.3", *further("6.3.1")])
def test_duplex_links_with_same_name_on_both_ends_disconnect_each_other(sandbox: BrokerSandbox, release: str) -> None:
    brokers = start_linked_brokers(sandbox, release, "link", "link")
    assert until(lambda: count_duplicate_connections(*brokers) >= 6, PATIENCE), [broker.output for broker in brokers]


@in_every_situation
@pytest.mark.parametrize("release", ["5.18.3", "5.5.1"])
def test_duplex_links_with_different_names_on_both_ends_form_two_bridges(sandbox: BrokerSandbox, release: str) -> None:
    north, south = start_linked_brokers(sandbox, release, "to-south", "to-north")
    assert until(lambda: peers_of(north) == ["south"] * 2 and peers_of(south) == ["north"] * 2, PATIENCE), north.output
    assert not count_duplicate_connections(north, south)


@in_every_situation
def test_duplex_link_on_one_end_forms_one_bridge_in_both_directions(sandbox: BrokerSandbox) -> None:
    north, south = start_linked_brokers(sandbox, "5.18.3", "link", None)
    assert until(lambda: peers_of(north) == ["south"] and peers_of(south) == ["north"], PATIENCE)
    assert message_crosses(sandbox, 1, 2, "there")
    assert message_crosses(sandbox, 2, 1, "back")
    time.sleep(WATCHED)
    assert peers_of(north) == ["south"]
    assert peers_of(south) == ["north"]
    assert count_duplicate_connections(north, south) == 0


# -- N019, N020 -------------------------------------------------------------------------------

STUCK = [("5.18.3", None), *further(("5.8.0", {}))]
REPLAYED = [("5.18.3", {}), *further(("6.3.1", {})), ("5.8.0", {"enableAudit": "false"})]


def replay_policy(**attributes: str) -> str:
    """Return a destination policy whose bridges replay messages without a consumer."""
    texts = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return (
        f'<destinationPolicy><policyMap><policyEntries><policyEntry queue="&gt;"{texts}><networkBridgeFilterFactory>'
        '<conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true"/>'
        "</networkBridgeFilterFactory></policyEntry></policyEntries></policyMap></destinationPolicy>"
    )


def bodies_replayed_to_source(
    sandbox: BrokerSandbox, release: str, policy: Mapping[str, str] | None, timeout: float
) -> list[str]:
    """Return the bodies that a consumer receives after it moved to the source broker, within ``timeout`` seconds."""
    policies = [] if policy is None else [replay_policy(**policy)]
    south = sandbox.add_broker("south", release, document("south", sandbox.address(2), *policies))
    link_to_south = link(f"static:({openwire_uri(sandbox, 2)})", duplex="true")
    north = sandbox.add_broker("north", release, document("north", sandbox.address(1), link_to_south, *policies))
    start_brokers(south, north)
    assert until(lambda: peers_of(south) == ["north"], PATIENCE)
    with StompConnection(stomp_address(sandbox, 2)) as consumer:
        consumer.subscribe("/queue/q", headers={"activemq.prefetchSize": "100"})
        stomp_send([stomp_address(sandbox, 1)], "/queue/q", BODIES)
        crossed = [consumer.receive(PATIENCE) for _ in BODIES]  # without an acknowledgement
        assert [message and message.body for message in crossed] == BODIES
    return sorted(set(stomp_drain([stomp_address(sandbox, 1)], "/queue/q", expected=len(BODIES), timeout=timeout)))


@pytest.mark.parametrize(("release", "policy"), STUCK, ids=["N019-5.18.3", "N020-5.8.0"])
def test_messages_do_not_follow_consumer_to_their_source_broker(
    sandbox: BrokerSandbox, release: str, policy: Mapping[str, str] | None
) -> None:
    assert bodies_replayed_to_source(sandbox, release, policy, WATCHED) == []


@in_every_situation
@pytest.mark.parametrize(("release", "policy"), REPLAYED, ids=["N019-5.18.3", "N019-6.3.1", "N020-5.8.0"])
def test_replayed_messages_follow_consumer_to_their_source_broker(
    sandbox: BrokerSandbox, release: str, policy: Mapping[str, str]
) -> None:
    assert bodies_replayed_to_source(sandbox, release, policy, PATIENCE) == BODIES


# -- L003, L009 -------------------------------------------------------------------------------


def start_master_and_waiting_broker(
    sandbox: BrokerSandbox, release: str, store: str, *, beans: str = "", jars: Sequence[Path] = ()
) -> tuple[SandboxBroker, SandboxBroker]:
    """Start a master, and a broker that waits for the store of the master."""
    a, b = (
        sandbox.add_broker(name, release, document(name, sandbox.address(at), store, beans=beans), jars=jars)
        for at, name in ((1, "a"), (2, "b"))
    )
    start_brokers(a)
    b.launch()
    assert b.wait_for_phase("waiting"), b.output
    return a, b


def shared_store(sandbox: BrokerSandbox, keep_alive: int, release: str = "") -> str:
    """Return a KahaDB that both brokers use; ``keep_alive`` in milliseconds, 0 is the default: never check the lock."""
    if release and not Release.of(release).supports("kahaDB", "lockKeepAlivePeriod"):
        wait = f'databaseLockedWaitDelay="{NEXT_MASTER}"'
        return f'<persistenceAdapter><kahaDB directory="{sandbox.lab_paths.stores}" {wait}/></persistenceAdapter>'
    attributes = f' lockKeepAlivePeriod="{keep_alive}"' if keep_alive else ""
    return (
        f'<persistenceAdapter><kahaDB directory="{sandbox.lab_paths.stores}"{attributes}>'
        f'<locker><shared-file-locker lockAcquireSleepInterval="{NEXT_MASTER}"/></locker></kahaDB></persistenceAdapter>'
    )


def masters(sandbox: BrokerSandbox) -> list[int]:
    """Return the numbers of the brokers that serve clients."""
    return [number for number in (1, 2) if completes_round_trip(sandbox, number)]


def has_two_masters_permanently(sandbox: BrokerSandbox, timeout: float) -> bool:
    """Return whether both brokers become masters, and stay masters."""
    if not until(lambda: masters(sandbox) == [1, 2], timeout):
        return False
    time.sleep(WATCHED)
    return masters(sandbox) == [1, 2]


@pytest.mark.parametrize(
    ("release", "keep_alive"),
    [("5.18.3", 0), *further(("5.8.0", 1000), ("5.5.1", 0))],
    ids=["L003-5.18.3", "L004-5.8.0", "L004-5.5.1"],
)
def test_master_that_does_not_check_lock_file_stays_master_next_to_new_one(
    sandbox: BrokerSandbox, release: str, keep_alive: int
) -> None:
    start_master_and_waiting_broker(sandbox, release, shared_store(sandbox, keep_alive, release))
    (sandbox.lab_paths.stores / "lock").unlink()
    assert has_two_masters_permanently(sandbox, PATIENCE)


@in_every_situation
@pytest.mark.parametrize("release", ["5.11.4", "6.3.1"])
def test_master_that_checks_lock_file_steps_down(sandbox: BrokerSandbox, release: str) -> None:
    a, _ = start_master_and_waiting_broker(sandbox, release, shared_store(sandbox, keep_alive=500))
    (sandbox.lab_paths.stores / "lock").unlink()
    assert a.wait_for_output("no longer able to keep the exclusive lock")
    assert until(lambda: len(masters(sandbox)) == 1, PATIENCE)
    assert not has_two_masters_permanently(sandbox, WATCHED)


LEASE = (
    '<persistenceAdapter><jdbcPersistenceAdapter dataSource="#store"{}><locker><lease-database-locker{}/></locker>'
    "</jdbcPersistenceAdapter></persistenceAdapter>"
)


def test_lease_shorter_than_renewal_period_permits_second_master(sandbox: BrokerSandbox) -> None:
    """By default, the lease of 10 s is renewed every 30 s. Here, both periods are longer, for a busy machine."""
    database = Database(sandbox, 9)
    lease = LEASE.format(' lockKeepAlivePeriod="120000"', ' lockAcquireSleepInterval="2000"')
    start_master_and_waiting_broker(sandbox, "5.18.3", lease, beans=database.bean("store"), jars=[database.driver])
    assert has_two_masters_permanently(sandbox, PATIENCE)


@in_every_situation
def test_lease_renewed_in_time_permits_only_one_master(sandbox: BrokerSandbox) -> None:
    database = Database(sandbox, 9)
    lease = LEASE.format(' lockKeepAlivePeriod="700"', ' lockAcquireSleepInterval="2000"')
    a, _ = start_master_and_waiting_broker(
        sandbox, "5.18.3", lease, beans=database.bean("store"), jars=[database.driver]
    )
    assert not has_two_masters_permanently(sandbox, 6)  # the length of three leases
    a.kill()
    assert until(lambda: masters(sandbox) == [2], PATIENCE)
