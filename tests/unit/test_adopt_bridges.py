"""Bridges and connectors of handwritten files: forms that become links, and forms that adopt keeps as XML."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from activemq_fleet.adopt import adopt_documents, read_adopted_documents
from activemq_fleet.errors import InputError
from activemq_fleet.naming import Naming
from tests.support.foreign_files import (
    ALONE,
    OPENWIRE,
    adopt_and_compare,
    adopted_variables,
    bridge_xml,
    connectors_xml,
    pair_files,
)
from tests.unit.adopt_files import document, write_files


@pytest.mark.parametrize(
    ("attributes", "ttl"),
    [
        ({"networkTTL": "-1"}, -1),
        ({"messageTTL": "9999", "consumerTTL": "1"}, {"consumer": 1, "message": 9999}),
        ({"messageTTL": "3"}, {"consumer": 1, "message": 3}),
        ({"networkTTL": "3", "messageTTL": "-1"}, 3),
        ({"networkTTL": "5", "messageTTL": "2", "consumerTTL": "1"}, 5),
    ],
)
def test_unlimited_or_separate_ttl_of_bridge_becomes_activemq_network_ttl(
    tmp_path: Path, attributes: dict[str, str], ttl: int | dict[str, int]
) -> None:
    up = bridge_xml("up", "static:(tcp://elsewhere.example.com:61617)", **attributes)
    adoption = adopt_and_compare(tmp_path, pair_files("o-mq1-a", "o-mq1-b", up, "one"), "5.18.3")

    assert adopted_variables(adoption)["network_ttl"] == ttl
    assert "xml_fragments" not in adopted_variables(adoption)


@pytest.mark.parametrize("ttl", ["0", "-2", "${ttl}", "many"])
def test_bridge_with_invalid_ttl_is_kept_as_xml(tmp_path: Path, ttl: str) -> None:
    up = bridge_xml("up", "static:(tcp://elsewhere.example.com:61617)", networkTTL=ttl)
    adoption = adopt_and_compare(tmp_path, pair_files("o-mq1-a", "o-mq1-b", up, "one"), "5.18.3")

    assert any("neither a number from 1 on nor -1. adopt keeps" in note for note in adoption.notes)


@pytest.mark.parametrize("uri", ["static:tcp://x:61616", "static://(tcp://x:61616)", "static:( nio://x:61616 )"])
def test_uri_with_unusual_syntax_becomes_link(tmp_path: Path, uri: str) -> None:
    adoption = adopt_and_compare(tmp_path, {ALONE: document(bridge_xml("up", uri) + OPENWIRE)}, "5.18.3")

    assert adopted_variables(adoption)["links"][0]["addresses"] == ["x:61616"]
    assert "xml_fragments" not in adopted_variables(adoption)


def bridges_to_same_pair(uris: Sequence[str]) -> dict[str, bytes]:
    """Return the files of the pairs o-mq1, o-mq2 and so on with a bridge for each URI, and of their target o-mq9."""
    files = pair_files("o-mq9-a", "o-mq9-b", "", "nine")
    for number, uri in enumerate(uris, 1):
        files |= pair_files(f"o-mq{number}-a", f"o-mq{number}-b", bridge_xml("up", uri), str(number))
    return files


TO_A_AND_B, TO_B_AND_A = "(tcp://o-mq9-a:61616,tcp://o-mq9-b:61616)", "(tcp://o-mq9-b:61616,tcp://o-mq9-a:61616)"


def test_static_bridge_with_nodes_in_reversed_order_becomes_link(tmp_path: Path) -> None:
    uris = [f"static:{TO_A_AND_B}", f"static:{TO_A_AND_B}", f"static:{TO_B_AND_A}"]
    adoption = adopt_and_compare(tmp_path, bridges_to_same_pair(uris), "5.18.3")

    assert [entry["to"] for entry in adopted_variables(adoption)["links"]] == ["o-mq9"] * 3
    assert "activemq_xml_fragments" not in str(adoption.files)


def test_masterslave_bridge_with_nodes_in_reversed_order_is_kept_as_xml(tmp_path: Path) -> None:
    uris = [f"masterslave:{TO_A_AND_B}", f"masterslave:{TO_A_AND_B}", f"masterslave:{TO_B_AND_A}"]
    adoption = adopt_and_compare(tmp_path, bridges_to_same_pair(uris), "5.18.3")

    assert f"masterslave:{TO_B_AND_A}" in adoption.files["group_vars/activemq_pair_o_mq3.yml"].decode()


def test_first_address_of_bridge_is_preferred_master_whose_address_is_given(tmp_path: Path) -> None:
    uri = "masterslave:(tcp://10.0.0.2:61616,tcp://10.0.0.1:61616)"
    write_files(tmp_path, bridges_to_same_pair([uri]))
    documents = read_adopted_documents([str(tmp_path)], ["5.18.3"], Naming())
    adoption = adopt_documents(documents, Naming(), addresses={"o-mq9-a": "10.0.0.1", "o-mq9-b": "10.0.0.2"})

    assert adoption.fleet.broker("o-mq9-b").role == "master"
    assert "activemq_xml_fragments" not in str(adoption.files)


def test_defaults_of_placeholders_are_used_in_every_attribute_of_bridge(tmp_path: Path) -> None:
    up = bridge_xml(
        "${link:up}", "static:(tcp://${1a.host:x}:${port:61617})", networkTTL="${ttl:2}", duplex="${two:true}"
    )
    adoption = adopt_and_compare(tmp_path, {ALONE: document(up + OPENWIRE)}, "5.18.3")

    link = {"from": "o-mq1", "to": "x", "duplex": True, "name": "up", "addresses": ["x:61617"]}
    assert adopted_variables(adoption)["links"] == [link]
    assert adopted_variables(adoption)["network_ttl"] == 2


@pytest.mark.parametrize("word", ["yes", "on", "1", "TRUE"])
def test_booleans_of_adopted_file_are_parsed_as_spring_parses_them(tmp_path: Path, word: str) -> None:
    jmx = f'<managementContext><managementContext createConnector="{word}" connectorPort="1098"/></managementContext>'
    up = bridge_xml("up", "static:(tcp://x:61616)", duplex=word)
    adoption = adopt_and_compare(tmp_path, {ALONE: document(up + OPENWIRE + jmx, schedulerSupport=word)}, "5.18.3")

    assert adopted_variables(adoption)["links"][0]["duplex"] is True
    assert adopted_variables(adoption)["scheduler"] is True
    assert adopted_variables(adoption)["jmx"]["port"] == 1098
    assert "xml_fragments" not in adopted_variables(adoption)


def test_each_bridge_kept_as_xml_has_separate_reason(tmp_path: Path) -> None:
    twice = bridge_xml("up", "static:(tcp://x:61616)").replace("</networkConnectors>", "")
    twice += bridge_xml("up", "static:(tcp://y:61616)").replace("<networkConnectors>", "")
    temporary = '<networkConnector name="t" uri="static:(tcp://z:61616)"><excludedDestinations>'
    temporary += '<tempQueue physicalName="&gt;"/></excludedDestinations></networkConnector></networkConnectors>'
    bridges = twice.replace("</networkConnectors>", temporary)
    adoption = adopt_and_compare(tmp_path, {ALONE: document(bridges + OPENWIRE)}, "5.18.3")

    kept_bridges = [note for note in adoption.notes if "adopt keeps the XML of this bridge" in note]
    assert [note.partition(" adopt keeps")[0] for note in kept_bridges] == [
        "o-mq1-a: bridge up: another bridge of the same broker has the same name.",
        "o-mq1-a: bridge t: the bridge lists a destination that is not a queue or topic with physicalName as its only "
        "attribute.",
    ]


def test_connector_with_placeholder_address_is_kept_next_to_other_connectors(tmp_path: Path) -> None:
    listeners = connectors_xml("tcp://10.0.0.1:61616", "tcp://10.0.0.1:61617", "tcp://${HOSTNAME}:61618")
    adoption = adopt_and_compare(tmp_path, {ALONE: document(listeners)}, "5.18.3")

    assert adopted_variables(adoption)["bind"] == "10.0.0.1"
    assert "${HOSTNAME}" in str(adopted_variables(adoption)["xml_fragments"])


def test_adopted_connector_uses_defaults_of_its_placeholders(tmp_path: Path) -> None:
    listeners = connectors_xml("tcp://${bind:0.0.0.0}:${port:61616}?maximumConnections=${most:1000}")
    adoption = adopt_and_compare(tmp_path, {ALONE: document(listeners)}, "5.18.3")

    connector = {"name": "c0", "scheme": "tcp", "port": 61616, "options": {"maximumConnections": 1000}}
    assert adopted_variables(adoption)["connectors"] == [connector]
    assert "xml_fragments" not in adopted_variables(adoption)
    assert any(
        difference.path.endswith("/@uri") and "${port" in (difference.original or "")
        for difference in adoption.differences
    )


def test_adopt_notes_nodes_that_may_share_store(tmp_path: Path) -> None:
    store = '<persistenceAdapter><kahaDB directory="/var/activemq/kahadb"/></persistenceAdapter>'
    files = {f"o-mq1-{node}": document(store + OPENWIRE, brokerName=f"broker-{node}") for node in "ab"}
    adoption = adopt_and_compare(tmp_path, files, "5.18.3")

    assert adopted_variables(adoption)["ha"] == "none"
    expected_text = "both nodes of pair o-mq1 share the store /var/activemq/kahadb"
    assert any(expected_text in note and "adopt again with --shared-store o-mq1" in note for note in adoption.notes)


@pytest.mark.parametrize(
    ("attributes", "ha"),
    [
        ({"brokerName": "orders"}, "shared-file"),
        ({"brokerName": "localhost"}, "none"),
        ({}, "none"),
        ({"brokerName": "${HOSTNAME}"}, "none"),
    ],
)
def test_only_distinctive_equal_broker_name_shows_shared_store(
    tmp_path: Path, attributes: dict[str, str], ha: str
) -> None:
    store = '<persistenceAdapter><kahaDB directory="/var/activemq/kahadb"/></persistenceAdapter>'
    files = {f"o-mq1-{node}": document(store + OPENWIRE, **attributes) for node in "ab"}
    adoption = adopt_and_compare(tmp_path, files, "5.18.3")

    assert {broker.settings.ha for broker in adoption.fleet.brokers} == {ha}
    assert any("adopt again with --shared-store o-mq1" in note for note in adoption.notes) is (ha == "none")


def test_nodes_share_store_if_option_shared_store_names_pair(tmp_path: Path) -> None:
    store = '<persistenceAdapter><kahaDB directory="/var/activemq/kahadb"/></persistenceAdapter>'
    files = {f"o-mq1-{node}": document(store + OPENWIRE, brokerName=node) for node in "ab"}
    files |= {"o-mq2-a": document(store + OPENWIRE, brokerName="two")}
    write_files(tmp_path, files)
    documents = read_adopted_documents([str(tmp_path)], ["5.18.3"], Naming())

    adoption = adopt_documents(documents, Naming(), shared=["o-mq1"])
    command = "`echo o-mq1 > /var/activemq/kahadb/.activemq-fleet-pair`"
    assert any(
        note.endswith(f"run on one of them, with the account that owns the store: {command}") for note in adoption.notes
    )
    assert [broker.settings.ha for broker in adoption.fleet.brokers] == ["shared-file", "shared-file", "none"]
    for name in ("o-mq2", "o-mq3"):
        with pytest.raises(InputError, match=f"--shared-store {name}: the given files contain no pair {name} of"):
            adopt_documents(documents, Naming(), shared=[name])


@pytest.mark.parametrize(
    ("path", "is_reported"),
    [("file:${activemq.conf}/broker.ks", True), ("broker.ks", True), ("file:/etc/broker.ks", False)],
)
def test_adopt_reports_key_stores_inside_installation_directory(
    tmp_path: Path, path: str, *, is_reported: bool
) -> None:
    context = f'<sslContext><sslContext keyStore="{path}" keyStorePassword="x"/></sslContext>'
    adoption = adopt_and_compare(tmp_path, {ALONE: document(context + OPENWIRE)}, "5.18.3")

    assert any(f"sslContext of activemq.xml uses {path} in" in note for note in adoption.notes) is is_reported


@pytest.mark.parametrize(
    ("hosts", "domain"),
    [
        (("gear-mq01-a", "gear-mq02-a"), ".example.com"),
        (("gear-mq01-a.example.com", "gear-mq02-a.example.com"), ""),
    ],
)
def test_bridges_to_hosts_with_or_without_domain_become_links(
    tmp_path: Path, hosts: tuple[str, str], domain: str
) -> None:
    files = {
        host: document(
            bridge_xml(f"to-{peer}", f"static:(tcp://{peer.partition('.')[0]}{domain}:61616)", duplex="true") + OPENWIRE
        )
        for host, peer in (hosts, hosts[::-1])
    }
    adoption = adopt_and_compare(tmp_path, files, "5.18.3")

    links = adopted_variables(adoption)["links"]
    assert [(link["from"], link["to"]) for link in links] == [("gear-mq01", "gear-mq02"), ("gear-mq02", "gear-mq01")]
    assert not any("addresses" in link for link in links)
