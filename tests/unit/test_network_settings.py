"""Connectors, links, JMX and authentication with other than default settings: rendering and errors."""

from __future__ import annotations

from typing import Any

import pytest
from lxml import etree

from activemq_fleet.errors import SettingsError
from activemq_fleet.render import render_broker
from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.topology import Broker
from tests.unit.fleets import fleet, rules_of_findings

CORE = "{http://activemq.apache.org/schema/core}"
TLS = {"keystore": "/k", "keystore_password": "p1", "truststore": "/t", "truststore_password": "p2"}


def first_broker(**variables: Any) -> Broker:
    return fleet("o-mq1", **variables).brokers[0]


def rendered_elements(broker: Broker, name: str) -> list[etree._Element]:
    return list(etree.fromstring(render_activemq_xml_bytes(broker)).iter(f"{CORE}{name}"))


class TestConnectors:
    def test_rendered_connectors_have_settings_of_inventory(self) -> None:
        limits = {"maximumConsumersAllowedPerConnection": 7, "allowLinkStealing": True}
        connectors = [
            {"name": "a", "scheme": "auto+nio", "port": 61616, "bind": "10.0.0.1", "options": {}},
            {"name": "amqp+nio", "scheme": "amqp+nio", "port": 5672, "options": {}, "attributes": limits},
            {"name": "amqp", "scheme": "amqp", "port": 5673, "options": {"maximumConnections": 5}},
        ]
        connector_elements = rendered_elements(first_broker(connectors=connectors), "transportConnector")

        assert [dict(connector.attrib) for connector in connector_elements] == [
            {"name": "a", "uri": "auto+nio://10.0.0.1:61616"},
            {
                "name": "amqp+nio",
                "uri": "amqp+nio://0.0.0.0:5672",
                "maximumConsumersAllowedPerConnection": "7",
                "allowLinkStealing": "true",
            },
            {"name": "amqp", "uri": "amqp://0.0.0.0:5673?maximumConnections=5"},
        ]

    def test_connector_with_tls_false_is_plain_among_connectors_with_tls(self) -> None:
        connectors = [
            {"name": "ws", "scheme": "ws", "port": 61614, "options": {}},
            {"name": "plain", "scheme": "nio", "port": 61616, "options": {}, "tls": False},
        ]
        connector_elements = rendered_elements(first_broker(connectors=connectors, tls=TLS), "transportConnector")

        assert [connector.get("uri") for connector in connector_elements] == [
            "wss://0.0.0.0:61614",
            "nio://0.0.0.0:61616",
        ]

    @pytest.mark.parametrize(
        ("settings", "message"),
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
    def test_invalid_connector_attribute_is_error_that_names_host_and_variable(
        self, settings: dict[str, Any], message: str
    ) -> None:
        connector = {"name": "a", "scheme": "nio", "port": 61616} | settings
        with pytest.raises(SettingsError) as raised:
            fleet("o-mq1", connectors=[connector])
        assert message in str(raised.value)
        assert "o-mq1-a.example.com" in str(raised.value)

    def test_connector_attribute_that_release_lacks_is_t011(self) -> None:
        connectors = [{"name": "a", "scheme": "nio", "port": 1, "attributes": {"displayStackTrace": False}}]
        planned = fleet("o-mq1", connectors=connectors, release="5.8.0")

        assert "T011" in rules_of_findings(planned)
        assert any(
            "activemq_connectors[0].attributes sets displayStackTrace" in finding.message
            for finding in planned.findings
        )


class TestLinks:
    def test_link_with_addresses_connects_to_them(self) -> None:
        link_entry = {
            "from": "o",
            "to": "partner",
            "addresses": ["ssl://one.example.org:61617", "ssl://two.example.org:61617"],
            "static_include": ["orders.>"],
            "attributes": {"dynamicOnly": True, "decreaseNetworkConsumerPriority": False},
            "options": {"initialReconnectDelay": 500},
        }
        broker = first_broker(links=[link_entry])
        [connector] = rendered_elements(broker, "networkConnector")

        assert connector.get("name") == "o-mq1-to-partner"
        uri = "masterslave:(ssl://one.example.org:61617,ssl://two.example.org:61617)?initialReconnectDelay=500"
        assert connector.get("uri") == uri
        assert (connector.get("dynamicOnly"), connector.get("decreaseNetworkConsumerPriority")) == ("true", "false")
        assert [child.get("physicalName") for child in connector.iter(f"{CORE}queue")] == ["orders.>"]
        assert connector[0].tag == f"{CORE}staticallyIncludedDestinations"
        assert broker.links[0].to_dict()["target"] == "partner"

    def test_link_with_addresses_to_name_of_inventory_is_t007(self) -> None:
        link_entry = {"from": "o-mq1", "to": "o-mq2", "addresses": ["x:1"]}
        planned = fleet("o-mq1", "o-mq2", links=[link_entry])

        assert [finding.message for finding in planned.findings if finding.rule == "T007"] == [
            "activemq_links[0] has addresses, but its `to` is 'o-mq2', a group or pair of the inventory"
        ]

    def test_network_attributes_and_options_apply_to_all_links(self) -> None:
        planned = fleet(
            "o-mq1", "o-mq2", network_attributes={"prefetchSize": 1}, network_options={}, pair_links="static"
        )
        links = rendered_elements(planned.brokers[0], "networkConnector")

        assert {link.get("prefetchSize") for link in links} == {"1"}
        assert not any("?" in str(link.get("uri")) for link in links)

    def test_link_attribute_that_release_lacks_is_t011(self) -> None:
        assert "T011" in rules_of_findings(
            fleet("o-mq1", "o-mq2", network_attributes={"staticBridge": True}, release="5.5.1")
        )

    def test_activemq_multicast_name_is_name_of_network_connector(self) -> None:
        broker = first_broker(discovery="multicast", multicast_group="default", multicast_name="NC")
        [connector] = rendered_elements(broker, "networkConnector")

        assert (connector.get("name"), connector.get("uri")) == ("NC", "multicast://224.1.2.3:6255?group=default")


class TestAuthentication:
    def test_authentication_none_renders_no_plugin_and_no_credentials(self) -> None:
        planned = fleet("o-mq1", "o-mq2", authentication="none")
        broker = planned.brokers[0]

        assert not rendered_elements(broker, "plugins")
        assert all(link.get("userName") is None for link in rendered_elements(broker, "networkConnector"))
        assert b"network.password" not in render_broker(broker)["conf/credentials.properties"]
        assert not broker.accounts

    def test_authentication_custom_renders_credentials_of_bridges_and_no_plugin(self) -> None:
        broker = fleet("o-mq1", "o-mq2", authentication="custom").brokers[0]

        assert not rendered_elements(broker, "simpleAuthenticationPlugin")
        assert {link.get("userName") for link in rendered_elements(broker, "networkConnector")} == {"net"}

    def test_different_authentication_in_network_is_t009(self) -> None:
        from activemq_fleet.topology import build_fleet
        from tests.unit.fleets import hosts

        mixed = hosts("o-mq1") | hosts("o-mq2", authentication="none")
        planned = build_fleet(mixed, {})
        assert any(
            finding.rule == "T009" and "activemq_authentication" in finding.message for finding in planned.findings
        )


class TestManagement:
    def test_broker_without_jmx_opens_no_jmx_port(self) -> None:
        assert [dict(context.attrib) for context in rendered_elements(first_broker(), "managementContext")[1:]] == [
            {"createConnector": "false"}
        ]

    def test_jmx_settings_render_port_path_and_accounts(self) -> None:
        users = [
            {"name": "look", "password": "a-secret", "access": "readonly"},
            {"name": "op", "password": "other", "access": "readwrite"},
        ]
        broker = first_broker(jmx={"port": 1100, "rmi_port": 1101, "path": "/x", "users": users}, port_offset=10)
        files = render_broker(broker, reveal=True)

        [context] = rendered_elements(broker, "managementContext")[1:]
        assert {str(name): str(value) for name, value in context.attrib.items()} == {
            "createConnector": "true", "connectorPort": "1110", "rmiServerPort": "1111", "connectorPath": "/x",
        }  # fmt: skip
        assert b"look a-secret\nop other\n" in files["conf/jmx.password"]
        assert b"look readonly\nop readwrite\n" in files["conf/jmx.access"]
        assert b"a-secret" not in render_broker(broker)["conf/jmx.password"]
        assert broker.ports["jmx"] == 1110
        assert b"-Djava.rmi.server.hostname=o-mq1-a.example.com" in b"".join(files.values())

    def test_jmx_password_with_space_is_rejected(self) -> None:
        broker = first_broker(jmx={"users": [{"name": "look", "password": "two words"}]})
        with pytest.raises(SettingsError, match=r"o-mq1-a\.example\.com: activemq_jmx\.users\[0\]\.password"):
            render_broker(broker)

    def test_jmx_tls_uses_stores_of_activemq_tls(self) -> None:
        activemq_xml = render_activemq_xml_bytes(first_broker(jmx={"tls": True}, tls=TLS)).decode()
        assert 'class="org.apache.activemq.spring.SpringSslContext"' in activemq_xml
        with pytest.raises(SettingsError, match=r"activemq_jmx\.tls is true, but activemq_tls .* is not set"):
            first_broker(jmx={"tls": True})

    def test_jmx_accounts_of_release_without_jmx_authentication_are_t011(self) -> None:
        jmx = {"users": [{"name": "a", "password": "x"}]}
        assert "T011" in rules_of_findings(fleet("o-mq1", jmx=jmx, release="5.3.2"))

    @pytest.mark.parametrize(
        ("release", "refused"), [("5.8.0", False), ("5.15.11", False), ("5.15.12", True), ("6.3.1", True)]
    )
    def test_jmx_tls_is_rejected_on_releases_that_cannot_encrypt(self, release: str, refused: bool) -> None:
        planned = fleet("o-mq1", nodes="a", ha="none", jmx={"tls": True}, tls=TLS, release=release)
        assert ("cannot encrypt the JMX port" in str(planned.findings)) == refused


class TestBeansNextToBroker:
    def test_imports_hooks_and_log_query_are_rendered(self) -> None:
        activemq_xml = render_activemq_xml_bytes(
            first_broker(imports=["camel.xml"], shutdown_hooks=["a.b.Hook"], log_query=True, release="5.15.16")
        ).decode()

        assert '<import resource="camel.xml"/>' in activemq_xml
        assert 'class="a.b.Hook"' in activemq_xml
        assert 'class="io.fabric8.insight.log.log4j.Log4jLogQuery"' in activemq_xml

    def test_log_query_on_release_without_its_class_is_t011(self) -> None:
        assert "T011" in rules_of_findings(fleet("o-mq1", log_query=True, release="5.18.3"))

    @pytest.mark.parametrize("name", ["../x.xml", "jetty.xml", "${x}.xml", "http://x/y.xml", "camel"])
    def test_imports_outside_directory_of_activemq_xml_are_rejected(self, name: str) -> None:
        with pytest.raises(SettingsError, match="activemq_imports"):
            first_broker(imports=[name])
