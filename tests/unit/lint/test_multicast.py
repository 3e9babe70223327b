"""What the examples of the rules about multicast do not show."""

from __future__ import annotations

import re

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint import file_findings
from activemq_fleet.releases import Release
from tests.rule_examples import complete

MEETING = "multicast://224.1.2.3:6255?group=orders"


def link(uri: str = MEETING) -> str:
    return f'<networkConnector name="found" uri="{uri}" userName="app" password="${{app.password}}"/>'


def connector(uri: str = "tcp://0.0.0.0:61626", discovery: str = MEETING, inside: str = "") -> str:
    return f'<transportConnector name="at" uri="{uri}" discoveryUri="{discovery}">{inside}</transportConnector>'


def of(rule: str, snippet: str, release: str = "5.18.3") -> list[Finding]:
    known = Release.of(release)
    return [finding for finding in file_findings(complete(snippet, known), known) if finding.rule == rule]


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
def test_a_group_of_its_own_is_any_but_the_default(uri: str, fires: bool) -> None:
    assert bool(of("M002", link(uri))) is fires


def test_one_finding_names_each_place_in_the_default_group() -> None:
    (finding,) = of("M002", link("multicast://default") + connector(discovery="multicast://default"))
    assert re.search(r"; the same problem is in line \d+$", finding.message)


@pytest.mark.parametrize(
    ("discovery", "fires"),
    [
        (MEETING, False),
        (MEETING + "&amp;networkInterface=lo", False),
        ("multicast://224.1.2.3:6255?group=bills", True),
        ("multicast://224.1.2.4:6255?group=orders", True),
        ("${discovery}", False),
    ],
)
def test_a_link_looks_where_its_broker_is_announced(discovery: str, fires: bool) -> None:
    assert bool(of("M003", link() + connector(discovery=discovery))) is fires


def test_a_pure_slave_need_not_be_announced() -> None:
    slave = "<broker><services><masterConnector remoteURI='nio://a:1'/></services></broker>"
    assert of("M003", slave + link(), "5.5.1") == []


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
def test_what_a_connector_is_bound_to_is_what_it_announces(host: str, fires: bool) -> None:
    assert bool(of("M004", connector(f"tcp://{host}:61626"))) is fires


def test_another_address_may_be_published() -> None:
    policy = (
        "<publishedAddressPolicy><publishedAddressPolicy publishedHostStrategy='IPADDRESS'/></publishedAddressPolicy>"
    )
    assert of("M004", connector("tcp://localhost:61626", inside=policy)) == []


def test_without_multicast_a_loopback_connector_is_no_mistake() -> None:
    assert of("M004", '<transportConnector name="at" uri="tcp://localhost:61626"/>') == []


@pytest.mark.parametrize(("inside", "fires"), [("", True), ("<bean class='Mine'/>", False)])
def test_a_plugin_of_ones_own_may_ask_for_the_login(inside: str, fires: bool) -> None:
    findings = of("M007", f"<broker><plugins>{inside}</plugins></broker>" + link() + connector())
    assert len(findings) == fires
