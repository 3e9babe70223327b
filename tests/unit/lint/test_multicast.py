"""Tests of the rules about multicast beyond their examples."""

from __future__ import annotations

import re

import pytest

from tests.support.rule_findings import rule_findings

DISCOVERY_URI = "multicast://224.1.2.3:6255?group=orders"


def link(uri: str = DISCOVERY_URI) -> str:
    return f'<networkConnector name="found" uri="{uri}" userName="app" password="${{app.password}}"/>'


def connector(uri: str = "tcp://0.0.0.0:61626", discovery: str = DISCOVERY_URI, inside: str = "") -> str:
    return f'<transportConnector name="at" uri="{uri}" discoveryUri="{discovery}">{inside}</transportConnector>'


@pytest.mark.parametrize(
    ("uri", "fires"),
    [
        ("multicast://default", True),
        ("multicast://224.1.2.3:6255", True),
        ("multicast://default?group=default", True),
        ("multicast://default?group=orders", False),
        ("multicast://default?group=${group}", False),
        ("${discovery}", False),
    ],
)
def test_link_in_default_multicast_group_is_reported(uri: str, fires: bool) -> None:
    assert bool(rule_findings("M002", link(uri))) is fires


def test_link_and_connector_in_default_multicast_group_share_finding() -> None:
    (finding,) = rule_findings("M002", link("multicast://default") + connector(discovery="multicast://default"))
    assert re.search(r"; the same problem is in line \d+$", finding.message)


@pytest.mark.parametrize(
    ("discovery", "fires"),
    [
        (DISCOVERY_URI, False),
        (DISCOVERY_URI + "&amp;networkInterface=lo", False),
        ("multicast://224.1.2.3:6255?group=bills", True),
        ("multicast://224.1.2.4:6255?group=orders", True),
        ("${discovery}", False),
    ],
)
def test_link_to_different_group_than_announcement_is_reported(discovery: str, fires: bool) -> None:
    assert bool(rule_findings("M003", link() + connector(discovery=discovery))) is fires


@pytest.mark.parametrize(
    ("uri", "discovery", "fires"),
    [
        ("multicast://default?group=x", "multicast://239.255.2.3:6155?group=x", False),
        ("multicast://239.255.2.3?group=x", "multicast://default/?group=x", False),
        ("multicast://default", "multicast://239.255.2.3:6155?group=default", False),
        ("multicast://224.1.2.3?group=x", "multicast://224.1.2.3:6155?group=x", False),
        ("multicast://default:7000?group=x", "multicast://default?group=x", True),
    ],
)
def test_link_is_reported_only_if_announcement_has_other_meaning(uri: str, discovery: str, fires: bool) -> None:
    assert bool(rule_findings("M003", link(uri) + connector(discovery=discovery))) is fires


def test_link_at_default_multicast_address_is_reported_as_such() -> None:
    (finding,) = rule_findings("M003", link("multicast://239.255.2.3?group=x") + connector())
    assert "multicast group x at the default address" in finding.message


def test_pure_slave_requires_no_announcement() -> None:
    slave = "<broker><services><masterConnector remoteURI='nio://a:1'/></services></broker>"
    assert rule_findings("M003", slave + link(), "5.5.1") == []


@pytest.mark.parametrize(
    ("host", "fires"),
    [
        ("127.0.0.1", True),
        ("127.4.5.6", True),
        ("localhost", True),
        ("[::1]", True),
        ("mq1.localdomain", True),
        ("0.0.0.0", False),
        ("mq1.example.com", False),
        ("10.0.0.1", False),
        ("${bind}", False),
    ],
)
def test_announced_loopback_address_is_reported(host: str, fires: bool) -> None:
    assert bool(rule_findings("M004", connector(f"tcp://{host}:61626"))) is fires


def test_loopback_connector_with_published_address_is_not_reported() -> None:
    policy = (
        "<publishedAddressPolicy><publishedAddressPolicy publishedHostStrategy='IPADDRESS'/></publishedAddressPolicy>"
    )
    assert rule_findings("M004", connector("tcp://localhost:61626", inside=policy)) == []


def test_loopback_connector_without_multicast_is_not_reported() -> None:
    assert rule_findings("M004", '<transportConnector name="at" uri="tcp://localhost:61626"/>') == []


@pytest.mark.parametrize(("inside", "fires"), [("", True), ("<bean class='Mine'/>", False)])
def test_unauthenticated_multicast_is_not_reported_with_custom_plugin(inside: str, fires: bool) -> None:
    findings = rule_findings("M007", f"<broker><plugins>{inside}</plugins></broker>" + link() + connector())
    assert len(findings) == fires
