"""URIs of bridges, listeners and clients, by release."""

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
def test_bridge_uri_to_pair_has_form_of_release_and_kind(release: str, kind: str | None, expected: str) -> None:
    assert uris.bridge_uri(PAIR, Release.of(release), kind) == expected


def test_bridge_uri_to_single_broker_is_static() -> None:
    assert uris.bridge_uri(PAIR[:1], Release.of("6.3.1")) == "static:(tcp://hub-mq01-a:61616)?maxReconnectDelay=2000"


def test_bridge_uri_masterslave_before_5_6_is_refused() -> None:
    with pytest.raises(InputError, match="set the argument kind to failover"):
        uris.bridge_uri(PAIR, Release.of("5.5.1"), "masterslave")


@pytest.mark.parametrize(("addresses", "kind"), [((), None), (PAIR, "vm")])
def test_bridge_uri_without_addresses_or_with_unknown_kind_is_refused(addresses: tuple[()], kind: str | None) -> None:
    with pytest.raises(InputError):
        uris.bridge_uri(addresses, Release.of("5.18.3"), kind)


@pytest.mark.parametrize(
    ("scheme", "connection_scheme"),
    [("nio", "tcp"), ("tcp", "tcp"), ("auto+nio", "tcp"), ("nio+ssl", "ssl"), ("ssl", "ssl")],
)
def test_connection_uri_of_listener_is_tcp_or_ssl(scheme: str, connection_scheme: str) -> None:
    assert uris.connection_uri(("h", 1), scheme) == f"{connection_scheme}://h:1"


def test_ipv6_address_in_uri_has_brackets() -> None:
    assert uris.listener_uri("nio", "::", 61616) == "nio://[::]:61616"


def test_multicast_uri_names_interface_in_two_options() -> None:
    uri = uris.multicast_discovery_uri("224.1.2.3:6255", "orders", "lo")

    assert uri == "multicast://224.1.2.3:6255?group=orders&networkInterface=lo&joinNetworkInterface=lo"


def test_failover_uri_lists_both_brokers_of_pair() -> None:
    assert uris.failover_uri(PAIR) == f"failover:({PEERS})?initialReconnectDelay=100&maxReconnectDelay=2000"
