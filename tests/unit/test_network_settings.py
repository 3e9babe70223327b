"""Connectors, links, JMX and logins beyond the defaults: what is rendered, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from lxml import etree

from activemq_fleet.errors import SettingsError
from activemq_fleet.render import render_broker
from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.topology import Broker
from tests.unit.fleets import fleet, rules

CORE = "{http://activemq.apache.org/schema/core}"
TLS = {"keystore": "/k", "keystore_password": "p1", "truststore": "/t", "truststore_password": "p2"}


def first(**variables: Any) -> Broker:
    return fleet("o-mq1", **variables).brokers[0]


def elements(broker: Broker, name: str) -> list[etree._Element]:
    return list(etree.fromstring(render_activemq_xml_bytes(broker)).iter(f"{CORE}{name}"))


class TestConnectors:
    def test_each_has_what_it_is_given(self) -> None:
        limits = {"maximumConsumersAllowedPerConnection": 7, "allowLinkStealing": True}
        said = [
            {"name": "a", "scheme": "auto+nio", "port": 61616, "bind": "10.0.0.1", "options": {}},
            {"name": "amqp+nio", "scheme": "amqp+nio", "port": 5672, "options": {}, "attributes": limits},
            {"name": "amqp", "scheme": "amqp", "port": 5673, "options": {"maximumConnections": 5}},
        ]
        found = elements(first(connectors=said), "transportConnector")

        assert [dict(one.attrib) for one in found] == [
            {"name": "a", "uri": "auto+nio://10.0.0.1:61616"},
            {
                "name": "amqp+nio",
                "uri": "amqp+nio://0.0.0.0:5672",
                "maximumConsumersAllowedPerConnection": "7",
                "allowLinkStealing": "true",
            },
            {"name": "amqp", "uri": "amqp://0.0.0.0:5673?maximumConnections=5"},
        ]

    def test_one_stays_plain_beside_those_with_tls(self) -> None:
        said = [
            {"name": "ws", "scheme": "ws", "port": 61614, "options": {}},
            {"name": "plain", "scheme": "nio", "port": 61616, "options": {}, "tls": False},
        ]
        found = elements(first(connectors=said, tls=TLS), "transportConnector")

        assert [one.get("uri") for one in found] == ["wss://0.0.0.0:61614", "nio://0.0.0.0:61616"]

    @pytest.mark.parametrize(
        ("said", "where"),
        [
            (
                {"attributes": {"noSuch": True}},
                "in activemq_connectors[0].attributes, the attribute 'noSuch' of a transportConnector is unknown",
            ),
            ({"attributes": {"allowLinkStealing": "perhaps"}}, "which is not a boolean"),
            ({"attributes": {"maximumProducersAllowedPerConnection": "all"}}, "which is not a whole number"),
            ({"attributes": {"discoveryUri": "vm://x"}}, "which is not a URI of multicast discovery"),
            ({"attributes": ["x"]}, "the value is not a mapping"),
            ({"attributes": {"updateClusterFilter": "${x}"}}, "activemq_connectors[0].attributes"),
            ({"name": "a b!"}, "activemq_connectors[0].name"),
        ],
    )
    def test_bad_values_name_host_and_variable(self, said: dict[str, Any], where: str) -> None:
        connector = {"name": "a", "scheme": "nio", "port": 61616} | said
        with pytest.raises(SettingsError) as raised:
            fleet("o-mq1", connectors=[connector])
        assert where in str(raised.value)
        assert "o-mq1-a.example.com" in str(raised.value)

    def test_an_attribute_that_the_release_lacks_is_t011(self) -> None:
        said = [{"name": "a", "scheme": "nio", "port": 1, "attributes": {"displayStackTrace": False}}]
        found = fleet("o-mq1", connectors=said, release="5.8.0")

        assert "T011" in rules(found)
        assert any("activemq_connectors[0].attributes sets displayStackTrace" in f.message for f in found.findings)


class TestLinks:
    def test_a_link_to_brokers_of_others_dials_their_addresses(self) -> None:
        entry = {
            "from": "o",
            "to": "partner",
            "addresses": ["ssl://one.example.org:61617", "ssl://two.example.org:61617"],
            "static_include": ["orders.>"],
            "attributes": {"dynamicOnly": True, "decreaseNetworkConsumerPriority": False},
            "options": {"initialReconnectDelay": 500},
        }
        broker = first(links=[entry])
        [found] = elements(broker, "networkConnector")

        assert found.get("name") == "o-mq1-to-partner"
        uri = "masterslave:(ssl://one.example.org:61617,ssl://two.example.org:61617)?initialReconnectDelay=500"
        assert found.get("uri") == uri
        assert (found.get("dynamicOnly"), found.get("decreaseNetworkConsumerPriority")) == ("true", "false")
        assert [child.get("physicalName") for child in found.iter(f"{CORE}queue")] == ["orders.>"]
        assert found[0].tag == f"{CORE}staticallyIncludedDestinations"
        assert broker.links[0].to_dict()["target"] == "partner"

    def test_its_name_is_none_of_the_inventory(self) -> None:
        entry = {"from": "o-mq1", "to": "o-mq2", "addresses": ["x:1"]}
        found = fleet("o-mq1", "o-mq2", links=[entry])

        assert [f.message for f in found.findings if f.rule == "T007"] == [
            "activemq_links[0] has addresses, but its `to` is 'o-mq2', a group or pair of the inventory"
        ]

    def test_attributes_and_options_of_all_links(self) -> None:
        found = fleet("o-mq1", "o-mq2", network_attributes={"prefetchSize": 1}, network_options={}, pair_links="static")
        links = elements(found.brokers[0], "networkConnector")

        assert {link.get("prefetchSize") for link in links} == {"1"}
        assert not any("?" in str(link.get("uri")) for link in links)

    def test_an_attribute_that_the_release_lacks_is_t011(self) -> None:
        assert "T011" in rules(fleet("o-mq1", "o-mq2", network_attributes={"staticBridge": True}, release="5.5.1"))

    def test_multicast_of_another_name(self) -> None:
        broker = first(discovery="multicast", multicast_group="default", multicast_name="NC")
        [found] = elements(broker, "networkConnector")

        assert (found.get("name"), found.get("uri")) == ("NC", "multicast://224.1.2.3:6255?group=default")


class TestAuthentication:
    def test_with_none_nobody_is_asked_and_no_bridge_logs_in(self) -> None:
        found = fleet("o-mq1", "o-mq2", authentication="none")
        broker = found.brokers[0]

        assert not elements(broker, "plugins")
        assert all(link.get("userName") is None for link in elements(broker, "networkConnector"))
        assert b"network.password" not in render_broker(broker)["conf/credentials.properties"]
        assert not broker.accounts

    def test_with_custom_bridges_log_in_and_no_plugin_is_added(self) -> None:
        broker = fleet("o-mq1", "o-mq2", authentication="custom").brokers[0]

        assert not elements(broker, "simpleAuthenticationPlugin")
        assert {link.get("userName") for link in elements(broker, "networkConnector")} == {"net"}

    def test_a_network_is_of_one_mind(self) -> None:
        from activemq_fleet.topology import build_fleet
        from tests.unit.fleets import hosts

        mixed = hosts("o-mq1") | hosts("o-mq2", authentication="none")
        found = build_fleet(mixed, {})
        assert any(f.rule == "T009" and "activemq_authentication" in f.message for f in found.findings)


class TestManagement:
    def test_without_it_no_port_is_opened(self) -> None:
        assert [dict(one.attrib) for one in elements(first(), "managementContext")[1:]] == [
            {"createConnector": "false"}
        ]

    def test_port_path_and_accounts(self) -> None:
        users = [
            {"name": "look", "password": "a-secret", "access": "readonly"},
            {"name": "op", "password": "other", "access": "readwrite"},
        ]
        broker = first(jmx={"port": 1100, "rmi_port": 1101, "path": "/x", "users": users}, port_offset=10)
        files = render_broker(broker, reveal=True)

        [context] = elements(broker, "managementContext")[1:]
        assert {str(name): str(value) for name, value in context.attrib.items()} == {
            "createConnector": "true", "connectorPort": "1110", "rmiServerPort": "1111", "connectorPath": "/x",
        }  # fmt: skip
        assert b"look a-secret\nop other\n" in files["conf/jmx.password"]
        assert b"look readonly\nop readwrite\n" in files["conf/jmx.access"]
        assert b"a-secret" not in render_broker(broker)["conf/jmx.password"]
        assert broker.ports["jmx"] == 1110
        assert b"-Djava.rmi.server.hostname=o-mq1-a.example.com" in b"".join(files.values())

    def test_a_password_that_the_file_cannot_hold_is_refused(self) -> None:
        broker = first(jmx={"users": [{"name": "look", "password": "two words"}]})
        with pytest.raises(SettingsError, match=r"o-mq1-a\.example\.com: activemq_jmx\.users\[0\]\.password"):
            render_broker(broker)

    def test_tls_takes_the_stores_of_activemq_tls(self) -> None:
        text = render_activemq_xml_bytes(first(jmx={"tls": True}, tls=TLS)).decode()
        assert 'class="org.apache.activemq.spring.SpringSslContext"' in text
        with pytest.raises(SettingsError, match=r"activemq_jmx\.tls is true, but activemq_tls .* is not set"):
            first(jmx={"tls": True})

    def test_accounts_that_the_release_cannot_ask_for_are_t011(self) -> None:
        said = {"users": [{"name": "a", "password": "x"}]}
        assert "T011" in rules(fleet("o-mq1", jmx=said, release="5.3.2"))

    @pytest.mark.parametrize(
        ("release", "refused"), [("5.8.0", False), ("5.15.11", False), ("5.15.12", True), ("6.3.1", True)]
    )
    def test_tls_is_refused_where_the_connector_would_not_encrypt(self, release: str, refused: bool) -> None:
        found = fleet("o-mq1", nodes="a", ha="none", jmx={"tls": True}, tls=TLS, release=release)
        assert ("cannot encrypt the JMX port" in str(found.findings)) == refused


class TestBeansBesideTheBroker:
    def test_imports_hooks_and_log_query(self) -> None:
        text = render_activemq_xml_bytes(
            first(imports=["camel.xml"], shutdown_hooks=["a.b.Hook"], log_query=True, release="5.15.16")
        ).decode()

        assert '<import resource="camel.xml"/>' in text
        assert 'class="a.b.Hook"' in text
        assert 'class="io.fabric8.insight.log.log4j.Log4jLogQuery"' in text

    def test_log_query_without_its_class_is_t011(self) -> None:
        assert "T011" in rules(fleet("o-mq1", log_query=True, release="5.18.3"))

    @pytest.mark.parametrize("name", ["../x.xml", "jetty.xml", "${x}.xml", "http://x/y.xml", "camel"])
    def test_imports_are_files_beside_activemq_xml(self, name: str) -> None:
        with pytest.raises(SettingsError, match="activemq_imports"):
            first(imports=[name])
