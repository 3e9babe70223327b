"""URIs by release."""

from __future__ import annotations

import pytest

from activemq_fleet import uris
from activemq_fleet.errors import InputError
from activemq_fleet.releases import Release

PAIR = (("hub-mq01-a", 61616), ("hub-mq01-b", 61616))
PEERS = "tcp://hub-mq01-a:61616,tcp://hub-mq01-b:61616"


@pytest.mark.parametrize(
    ("release", "kind", "expected"),
    [
        (
            "5.5.1",
            None,
            f"static:(failover:({PEERS})?randomize=false&maxReconnectAttempts=1"
            "&startupMaxReconnectAttempts=2&initialReconnectDelay=500)?maxReconnectDelay=2000",
        ),
        ("5.6.0", None, f"masterslave:({PEERS})?maxReconnectDelay=2000"),
        ("6.3.1", None, f"masterslave:({PEERS})?maxReconnectDelay=2000"),
        (
            "5.18.3",
            "failover",
            f"static:(failover:({PEERS})?randomize=false&maxReconnectAttempts=0)?maxReconnectDelay=2000",
        ),
        ("5.18.3", "static", f"static:({PEERS})?maxReconnectDelay=2000"),
    ],
)
def test_a_bridge_to_a_pair_gives_up_so_that_it_is_rebuilt(release: str, kind: str | None, expected: str) -> None:
    assert uris.bridge_uri(PAIR, Release.of(release), kind) == expected


def test_a_bridge_to_one_broker_is_static_because_masterslave_needs_two() -> None:
    assert uris.bridge_uri(PAIR[:1], Release.of("6.3.1")) == "static:(tcp://hub-mq01-a:61616)?maxReconnectDelay=2000"


def test_masterslave_before_5_6_is_refused() -> None:
    with pytest.raises(InputError, match="set the argument kind to failover"):
        uris.bridge_uri(PAIR, Release.of("5.5.1"), "masterslave")


@pytest.mark.parametrize(("addresses", "kind"), [((), None), (PAIR, "vm")])
def test_a_bridge_to_nothing_or_of_no_kind_is_refused(addresses: tuple[()], kind: str | None) -> None:
    with pytest.raises(InputError):
        uris.bridge_uri(addresses, Release.of("5.18.3"), kind)


@pytest.mark.parametrize(
    ("scheme", "dialled"), [("nio", "tcp"), ("tcp", "tcp"), ("auto+nio", "tcp"), ("nio+ssl", "ssl"), ("ssl", "ssl")]
)
def test_a_listener_is_dialled_as_tcp_or_ssl(scheme: str, dialled: str) -> None:
    assert uris.uri_to_dial(("h", 1), scheme) == f"{dialled}://h:1"


def test_an_ipv6_address_gets_brackets() -> None:
    assert uris.listener_uri("nio", "::", 61616) == "nio://[::]:61616"


def test_multicast_names_the_interface_twice() -> None:
    uri = uris.multicast_discovery_uri("224.1.2.3:6255", "orders", "lo")

    assert uri == "multicast://224.1.2.3:6255?group=orders&networkInterface=lo&joinNetworkInterface=lo"


def test_clients_get_a_failover_list() -> None:
    assert uris.failover_uri(PAIR) == f"failover:({PEERS})?initialReconnectDelay=100&maxReconnectDelay=2000"
