"""Mistakes that no broker complains about: each does what its rule says, and its fix does not."""

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
from tests.integration.planted import OPENWIRE, STOMP, Ground, Planted, document, link, until
from tests.situations import fact_of_activemq, further, in_every_situation
from tests.stomp_clients import stomp_drain, stomp_round_trip, stomp_send

pytestmark = fact_of_activemq

# Seconds: so long nothing comes of a mistake, where its fix needs a tenth of that on an idle machine …
WATCHED = 3.0
# … and so long a test waits for it on a busy one.
PATIENCE = 120.0
BODIES = ["1", "2", "3", "4", "5"]
NEXT_MASTER = 1000  # milliseconds between two looks of a waiting broker at the lock


def openwire(ground: Ground, number: int) -> str:
    return f"nio://{ground.address(number)}:{OPENWIRE}"


def stomp(ground: Ground, number: int) -> tuple[str, int]:
    return ground.address(number), STOMP


def boot(*brokers: Planted) -> None:
    """Start brokers side by side."""
    for broker in brokers:
        broker.launch()
    for broker in brokers:
        assert broker.settle().fate == "started", broker.output


def peers(broker: Planted) -> list[str]:
    """The brokers to which it has bridges, by the names it knows them by."""
    return [bridge.peer for bridge in broker.run_state.established_bridges]


def crosses(ground: Ground, source: int, target: int, queue: str, timeout: float = PATIENCE) -> bool:
    """Whether a message sent at one broker reaches a consumer at the other."""
    with StompConnection(stomp(ground, target)) as consumer:
        consumer.subscribe(f"/queue/{queue}")
        stomp_send([stomp(ground, source)], f"/queue/{queue}", ["hello"])
        return consumer.receive(timeout) is not None


def answers(ground: Ground, number: int) -> bool:
    with suppress(LabError, OSError):
        stomp_round_trip(stomp(ground, number), None, "anyone", timeout=5)
        return True
    return False


# -- P001 -------------------------------------------------------------------------------------

NEVER_REPORTS = [("5.5.1", "?maxReconnectAttempts=0"), *further(("5.5.1", ""), ("5.7.0", ""))]
REPORTS = [("5.5.1", "?maxReconnectAttempts=1"), *further(("5.7.0", "?maxReconnectAttempts=0"))]


def pure_pair(ground: Ground, release: str, uri: str) -> tuple[Planted, Planted]:
    """Master and slave, attached; ``{master}`` in the URI is the master."""
    master = ground.plant("master", release, document("master", ground.address(1), waitForSlave="true"))
    remote = uri.format(master=openwire(ground, 1))
    services = f'<services><masterConnector remoteURI="{remote}"/></services>'
    slave = ground.plant("slave", release, document("slave", ground.address(2), services))
    master.launch()
    assert master.wait_for_output("Listening for connections at: stomp"), master.output
    slave.launch()
    assert slave.wait_for_phase("attached"), slave.output
    assert master.wait_for_phase("started"), master.output
    return master, slave


@pytest.mark.parametrize(("release", "options"), NEVER_REPORTS)
def test_a_slave_behind_a_failover_uri_that_never_gives_up_never_takes_over(
    ground: Ground, release: str, options: str
) -> None:
    master, slave = pure_pair(ground, release, f"failover:({{master}}){options}")
    master.kill()
    assert slave.wait_for_output("attempting to automatically reconnect")  # it has seen the master die
    assert not until(lambda: slave.run_state.promoted, WATCHED)
    assert not answers(ground, 2)


@in_every_situation
@pytest.mark.parametrize(("release", "options"), REPORTS)
def test_a_slave_behind_a_failover_uri_that_gives_up_takes_over(ground: Ground, release: str, options: str) -> None:
    master, slave = pure_pair(ground, release, f"failover:({{master}}){options}")
    master.kill()
    assert until(lambda: slave.run_state.promoted, PATIENCE), slave.output
    assert until(lambda: answers(ground, 2), PATIENCE)


@in_every_situation
def test_a_slave_behind_a_plain_uri_takes_over(ground: Ground) -> None:
    master, slave = pure_pair(ground, "5.5.1", "{master}")
    master.kill()
    assert until(lambda: slave.run_state.promoted, PATIENCE), slave.output
    assert until(lambda: answers(ground, 2), PATIENCE)


def test_a_slave_behind_a_plain_uri_that_finds_no_master_becomes_a_second_one(ground: Ground) -> None:
    services = f'<services><masterConnector remoteURI="{openwire(ground, 1)}"/></services>'
    slave = ground.plant("slave", "5.5.1", document("slave", ground.address(2), services))
    boot(slave)
    assert until(lambda: answers(ground, 2), PATIENCE)


def test_two_slaves_of_one_master_both_take_over_and_serve_the_same_messages(ground: Ground) -> None:
    """P005."""
    master, first = pure_pair(ground, "5.5.1", "{master}")
    services = f'<services><masterConnector remoteURI="{openwire(ground, 1)}"/></services>'
    second = ground.plant("second", "5.5.1", document("second", ground.address(3), services))
    second.launch()
    # The slave logs first that it is attached. The master copies to it what it receives after this line.
    assert master.wait_for_output("Slave Broker second is attached", PATIENCE), master.output
    stomp_send([stomp(ground, 1)], "/queue/q", BODIES)
    master.kill()
    assert until(lambda: first.run_state.promoted and second.run_state.promoted, PATIENCE)
    for number in (2, 3):
        assert stomp_drain([stomp(ground, number)], "/queue/q", expected=len(BODIES), timeout=PATIENCE) == BODIES


@pytest.mark.parametrize("release", ["5.5.1", *further("5.7.0")])
def test_a_bridge_to_a_promoted_slave_hangs_the_clients_of_the_broker_that_dials(ground: Ground, release: str) -> None:
    """It still calls itself a slave, so the dialling broker begins to copy to it over its own bridge.

    This is why a pure slave of ours has no connectors, and dials others itself.
    """
    master, slave = pure_pair(ground, release, "{master}")
    north = ground.plant(
        "north", release, document("north", ground.address(3), link(f"static:({openwire(ground, 2)})"))
    )
    boot(north)
    assert until(lambda: answers(ground, 3), PATIENCE), north.output
    master.kill()
    assert until(lambda: slave.run_state.promoted, PATIENCE), slave.output
    assert north.wait_for_output("Slave Broker slave is attached", PATIENCE)
    with pytest.raises(StompTimeout), StompConnection(stomp(ground, 3), timeout=WATCHED) as client:
        client.subscribe("/queue/q")
    assert until(lambda: answers(ground, 2), PATIENCE), slave.output


# -- N002, N003 -------------------------------------------------------------------------------

# The delay says only how soon a patient transport tries again, not whether.
FAILOVER = "static:(failover:({a},{b})?randomize=false&amp;maxReconnectDelay=500%s)"
KEPT = [("5.18.3", FAILOVER % ""), *further(("5.5.1", FAILOVER % "&amp;maxReconnectAttempts=0"))]
REBUILT = [
    *further(("5.18.3", FAILOVER % "&amp;maxReconnectAttempts=0")),
    ("5.18.3", "masterslave:({a},{b})"),
    ("5.5.1", FAILOVER % "&amp;maxReconnectAttempts=1"),
]


def moved(ground: Ground, release: str, uri: str) -> Planted:
    """A broker whose duplex link led to ``a`` (address 1), which is dead, and ``b`` (2) has come in its place."""
    a, b = (ground.plant(name, release, document(name, ground.address(at))) for at, name in ((1, "a"), (2, "b")))
    there = uri.format(a=openwire(ground, 1), b=openwire(ground, 2))
    north = ground.plant("north", release, document("north", ground.address(3), link(there, duplex="true")))
    boot(a)
    boot(north)
    assert until(lambda: peers(north) == ["a"], PATIENCE), north.output
    assert crosses(ground, 1, 3, "before")
    a.kill()
    boot(b)  # after it, as a standby does: the first attempts find nobody
    return north


@pytest.mark.parametrize(("release", "uri"), KEPT, ids=["N002-5.18.3", "N003-5.5.1"])
def test_a_transport_that_reconnects_under_its_bridge_leaves_half_a_duplex_link(
    ground: Ground, release: str, uri: str
) -> None:
    north = moved(ground, release, uri)
    assert north.wait_for_output("Successfully reconnected"), north.output
    assert crosses(ground, 3, 2, "there")
    assert not crosses(ground, 2, 3, "back", WATCHED)
    assert north.output.count("Establishing network connection") == 1


@in_every_situation
@pytest.mark.parametrize(("release", "uri"), REBUILT, ids=["N002-5.18.3", "masterslave-5.18.3", "N003-5.5.1"])
def test_a_bridge_whose_transport_gives_up_is_rebuilt_whole(ground: Ground, release: str, uri: str) -> None:
    north = moved(ground, release, uri)
    assert until(lambda: peers(north) == ["b"], PATIENCE), north.output
    assert crosses(ground, 3, 2, "there")
    assert crosses(ground, 2, 3, "back")


# -- N010 -------------------------------------------------------------------------------------


def both_ends(ground: Ground, release: str, north: str, south: str | None) -> tuple[Planted, Planted]:
    """Two brokers; each has a duplex link of that name to the other, the second only if it is named."""
    links = [link(f"static:({openwire(ground, 1)})", name=south, duplex="true")] if south else []
    second = ground.plant("south", release, document("south", ground.address(2), *links))
    over = link(f"static:({openwire(ground, 2)})", name=north, duplex="true")
    first = ground.plant("north", release, document("north", ground.address(1), over))
    boot(second, first)
    return first, second


def complaints(*brokers: Planted) -> int:
    return sum(broker.output.count("already connected from") for broker in brokers)


# On 5.5.1 chance decides what is left: two bridges, one, or none.
@pytest.mark.parametrize("release", ["5.18.3", *further("6.3.1")])
def test_duplex_links_of_one_name_on_both_ends_throw_each_other_out(ground: Ground, release: str) -> None:
    brokers = both_ends(ground, release, "link", "link")
    assert until(lambda: complaints(*brokers) >= 6, PATIENCE), [broker.output for broker in brokers]


@in_every_situation
@pytest.mark.parametrize("release", ["5.18.3", "5.5.1"])
def test_duplex_links_of_two_names_on_both_ends_are_two_bridges(ground: Ground, release: str) -> None:
    north, south = both_ends(ground, release, "to-south", "to-north")
    assert until(lambda: peers(north) == ["south"] * 2 and peers(south) == ["north"] * 2, PATIENCE), north.output
    assert not complaints(north, south)


@in_every_situation
def test_a_duplex_link_on_one_end_is_one_bridge_both_ways(ground: Ground) -> None:
    north, south = both_ends(ground, "5.18.3", "link", None)
    assert until(lambda: peers(north) == ["south"] and peers(south) == ["north"], PATIENCE)
    assert crosses(ground, 1, 2, "there")
    assert crosses(ground, 2, 1, "back")
    time.sleep(WATCHED)
    assert (peers(north), peers(south), complaints(north, south)) == (["south"], ["north"], 0)


# -- N019, N020 -------------------------------------------------------------------------------

STUCK = [("5.18.3", None), *further(("5.8.0", {}))]
REPLAYED = [("5.18.3", {}), *further(("6.3.1", {})), ("5.8.0", {"enableAudit": "false"})]


def replaying(**attributes: str) -> str:
    texts = "".join(f' {key}="{value}"' for key, value in attributes.items())
    return (
        f'<destinationPolicy><policyMap><policyEntries><policyEntry queue="&gt;"{texts}><networkBridgeFilterFactory>'
        '<conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true"/>'
        "</networkBridgeFilterFactory></policyEntry></policyEntries></policyMap></destinationPolicy>"
    )


def came_back(ground: Ground, release: str, policy: Mapping[str, str] | None, timeout: float) -> list[str]:
    """What a consumer gets that moves back to where the messages came from, within ``timeout`` seconds."""
    policies = [] if policy is None else [replaying(**policy)]
    south = ground.plant("south", release, document("south", ground.address(2), *policies))
    over = link(f"static:({openwire(ground, 2)})", duplex="true")
    north = ground.plant("north", release, document("north", ground.address(1), over, *policies))
    boot(south, north)
    assert until(lambda: peers(south) == ["north"], PATIENCE)
    with StompConnection(stomp(ground, 2)) as consumer:
        consumer.subscribe("/queue/q", headers={"activemq.prefetchSize": "100"})
        stomp_send([stomp(ground, 1)], "/queue/q", BODIES)
        crossed = [consumer.receive(PATIENCE) for _ in BODIES]  # and none is acknowledged
        assert [message and message.body for message in crossed] == BODIES
    return sorted(set(stomp_drain([stomp(ground, 1)], "/queue/q", expected=len(BODIES), timeout=timeout)))


@pytest.mark.parametrize(("release", "policy"), STUCK, ids=["N019-5.18.3", "N020-5.8.0"])
def test_messages_do_not_follow_a_consumer_back_to_where_they_came_from(
    ground: Ground, release: str, policy: Mapping[str, str] | None
) -> None:
    assert came_back(ground, release, policy, WATCHED) == []


@in_every_situation
@pytest.mark.parametrize(("release", "policy"), REPLAYED, ids=["N019-5.18.3", "N019-6.3.1", "N020-5.8.0"])
def test_replayed_messages_follow_a_consumer_back(ground: Ground, release: str, policy: Mapping[str, str]) -> None:
    assert came_back(ground, release, policy, PATIENCE) == BODIES


# -- L003, L009 -------------------------------------------------------------------------------


def standing(
    ground: Ground, release: str, store: str, *, beans: str = "", jars: Sequence[Path] = ()
) -> tuple[Planted, Planted]:
    """A master, and a broker that waits for its store."""
    a, b = (
        ground.plant(name, release, document(name, ground.address(at), store, beans=beans), jars=jars)
        for at, name in ((1, "a"), (2, "b"))
    )
    boot(a)
    b.launch()
    assert b.wait_for_phase("waiting"), b.output
    return a, b


def shared(ground: Ground, keep_alive: int, release: str = "") -> str:
    """A KahaDB that both brokers have; ``keep_alive`` in milliseconds, 0 is the default: never look."""
    if release and not Release.of(release).supports("kahaDB", "lockKeepAlivePeriod"):
        wait = f'databaseLockedWaitDelay="{NEXT_MASTER}"'
        return f'<persistenceAdapter><kahaDB directory="{ground.layout.stores}" {wait}/></persistenceAdapter>'
    attributes = f' lockKeepAlivePeriod="{keep_alive}"' if keep_alive else ""
    return (
        f'<persistenceAdapter><kahaDB directory="{ground.layout.stores}"{attributes}>'
        f'<locker><shared-file-locker lockAcquireSleepInterval="{NEXT_MASTER}"/></locker></kahaDB></persistenceAdapter>'
    )


def masters(ground: Ground) -> list[int]:
    """The brokers that serve clients."""
    return [number for number in (1, 2) if answers(ground, number)]


def has_two_masters_for_good(ground: Ground, timeout: float) -> bool:
    """Whether both come to serve, and go on so."""
    if not until(lambda: masters(ground) == [1, 2], timeout):
        return False
    time.sleep(WATCHED)
    return masters(ground) == [1, 2]


@pytest.mark.parametrize(
    ("release", "keep_alive"),
    [("5.18.3", 0), *further(("5.8.0", 1000), ("5.5.1", 0))],
    ids=["L003-5.18.3", "L004-5.8.0", "L004-5.5.1"],
)
def test_a_master_that_does_not_look_at_its_lock_file_goes_on_beside_the_next(
    ground: Ground, release: str, keep_alive: int
) -> None:
    standing(ground, release, shared(ground, keep_alive, release))
    (ground.layout.stores / "lock").unlink()
    assert has_two_masters_for_good(ground, PATIENCE)


@in_every_situation
@pytest.mark.parametrize("release", ["5.11.4", "6.3.1"])
def test_a_master_that_looks_at_its_lock_file_steps_down(ground: Ground, release: str) -> None:
    a, _ = standing(ground, release, shared(ground, keep_alive=500))
    (ground.layout.stores / "lock").unlink()
    assert a.wait_for_output("no longer able to keep the exclusive lock")
    assert until(lambda: len(masters(ground)) == 1, PATIENCE)
    assert not has_two_masters_for_good(ground, WATCHED)


LEASE = (
    '<persistenceAdapter><jdbcPersistenceAdapter dataSource="#store"{}><locker><lease-database-locker{}/></locker>'
    "</jdbcPersistenceAdapter></persistenceAdapter>"
)


def test_a_lease_shorter_than_its_renewal_lets_a_second_master_in(ground: Ground) -> None:
    """As by default, where it is renewed every 30 s and given for 10, with more time between for a busy machine."""
    database = Database(ground, 9)
    lease = LEASE.format(' lockKeepAlivePeriod="120000"', ' lockAcquireSleepInterval="2000"')
    standing(ground, "5.18.3", lease, beans=database.bean("store"), jars=[database.driver])
    assert has_two_masters_for_good(ground, PATIENCE)


@in_every_situation
def test_a_lease_that_is_renewed_in_time_has_one_master(ground: Ground) -> None:
    database = Database(ground, 9)
    lease = LEASE.format(' lockKeepAlivePeriod="700"', ' lockAcquireSleepInterval="2000"')
    a, _ = standing(ground, "5.18.3", lease, beans=database.bean("store"), jars=[database.driver])
    assert not has_two_masters_for_good(ground, 6)  # three leases long
    a.kill()
    assert until(lambda: masters(ground) == [2], PATIENCE)
