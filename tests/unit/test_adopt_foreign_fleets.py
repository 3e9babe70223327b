"""Handwritten files of several hosts: adopt finds their pairs and links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.foreign_files import (
    ALONE,
    OPENWIRE,
    adopt_and_compare,
    adopted_variables,
    bridge_xml,
    changed_fleet,
    connectors_xml,
    directions_by_path,
    pair_files,
)
from tests.unit.adopt_files import (
    activemq_xml_by_host,
    document,
)

SPRING = 'xmlns="http://www.springframework.org/schema/beans"'


class TestFleets:
    def test_bridges_by_host_name_become_links(self, tmp_path: Path) -> None:
        files = pair_files(
            "o-mq1-a",
            "o-mq1-b",
            bridge_xml("up", "static:(failover:(tcp://o-mq2-a:61616,tcp://o-mq2-b:61616))", duplex="true"),
            "one",
        )
        files |= pair_files("o-mq2-a", "o-mq2-b", "", "two")
        adoption = adopt_and_compare(tmp_path, files, "5.8.0")

        assert adopted_variables(adoption)["links"] == [{"from": "o-mq1", "to": "o-mq2", "duplex": True, "name": "up"}]
        assert not [
            path
            for path in directions_by_path(adoption)
            if "networkConnector" in path and path.endswith(("@uri", "@name"))
        ]

    def test_links_without_account_get_account_if_brokers_require_authentication(self, tmp_path: Path) -> None:
        users = '<authenticationUser username="app" password="secret1" groups="x"/>'
        login = f"<plugins><simpleAuthenticationPlugin><users>{users}</users></simpleAuthenticationPlugin></plugins>"
        up = bridge_xml("up", "masterslave:(tcp://o-mq2-a:61616,tcp://o-mq2-b:61616)")
        files = pair_files("o-mq1-a", "o-mq1-b", up + login, "one") | pair_files("o-mq2-a", "o-mq2-b", login, "two")
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        added_names = [
            difference.rendered
            for difference in adoption.differences
            if difference.path.endswith("[@name='up']/@userName")
        ]
        assert added_names == ["network", "network"]
        assert "o-mq1-a, o-mq1-b: the original links have no user name" in str(adoption.notes)

    def test_bridge_to_one_node_of_pair_does_not_set_activemq_discovery(self, tmp_path: Path) -> None:
        files = pair_files("o-mq1-a", "o-mq1-b", bridge_xml("up", "static:(tcp://o-mq2-a:61616)"), "one")
        files |= pair_files("o-mq2-a", "o-mq2-b", "", "two")
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        assert adopted_variables(adoption)["links"] == [{"from": "o-mq1", "to": "o-mq2", "name": "up"}]
        assert "discovery" not in adopted_variables(adoption)

    def test_bridge_that_only_one_node_of_pair_has_is_kept_as_xml(self, tmp_path: Path) -> None:
        files = pair_files("o-mq1-a", "o-mq1-b", "", "one") | pair_files("o-mq2-a", "o-mq2-b", "", "two")
        files["o-mq1-a"] = pair_files("o-mq1-a", "", bridge_xml("up", "static:(tcp://o-mq2-a:61616)"), "one")["o-mq1-a"]
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        assert any("up: the two nodes of the pair have different bridges" in note for note in adoption.notes)
        assert "links" not in adopted_variables(adoption)

    def test_fleet_without_authentication_is_adopted_without_authentication(self, tmp_path: Path) -> None:
        up = bridge_xml("up", "masterslave:(tcp://o-mq2-a:61616,tcp://o-mq2-b:61616)")
        files = pair_files("o-mq1-a", "o-mq1-b", up, "one") | pair_files("o-mq2-a", "o-mq2-b", "", "two")
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        assert adopted_variables(adoption)["authentication"] == "none"
        assert not [path for path in directions_by_path(adoption) if "userName" in path or "plugins" in path]
        # Nothing uses an account of the network, so the operator needs no password for it.
        assert adoption.secrets == {}
        assert "network_username" not in adopted_variables(adoption)
        account = {"network_username": "network", "network_password": "secret1"}
        fleet_with_authentication = changed_fleet(tmp_path, adoption, authentication="simple", **account)
        assert not fleet_with_authentication.blocking_findings
        assert {account.name for broker in fleet_with_authentication.brokers for account in broker.accounts} == {
            "network",
            "activemq-probe",
        }
        assert all(
            "userName" in activemq_xml_by_host(fleet_with_authentication)[host].decode()
            for host in ("o-mq1-a", "o-mq1-b")
        )

    @pytest.mark.parametrize("names", ["", 'userName="net" password="x1"'])
    def test_jaas_plugin_is_kept_and_note_names_accounts_of_bridges(self, names: str, tmp_path: Path) -> None:
        jaas = '<plugins><jaasAuthenticationPlugin configuration="mine"/></plugins>'
        up = (
            '<networkConnectors><networkConnector name="up" '
            f'uri="masterslave:(tcp://o-mq2-a:61616,tcp://o-mq2-b:61616)" {names}/></networkConnectors>'
        )
        files = pair_files("o-mq1-a", "o-mq1-b", up + jaas, "one") | pair_files("o-mq2-a", "o-mq2-b", jaas, "two")
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        assert adopted_variables(adoption)["authentication"] == "custom"
        assert not [path for path in directions_by_path(adoption) if "plugins" in path]
        assert any('adopt keeps <jaasAuthenticationPlugin configuration="mine">' in note for note in adoption.notes)
        assert any("bridges (net)" in note for note in adoption.notes) is bool(names)

    def test_bridge_to_broker_outside_fleet_becomes_link_by_address(self, tmp_path: Path) -> None:
        up = bridge_xml("up", "static:(tcp://elsewhere.example.com:61617)", dynamicOnly="true", networkTTL="2")
        adoption = adopt_and_compare(tmp_path, pair_files("o-mq1-a", "o-mq1-b", up, "one"), "5.18.3")

        link_entry = {"from": "o-mq1", "to": "elsewhere", "addresses": ["elsewhere.example.com:61617"], "name": "up"}
        assert adopted_variables(adoption)["links"] == [link_entry]
        assert adopted_variables(adoption)["network_attributes"] == {"dynamicOnly": True}
        assert adopted_variables(adoption)["network_options"] == {}
        assert "xml_fragments" not in adopted_variables(adoption)

    def test_note_about_bridge_to_both_nodes_names_relative_path_of_store(self, tmp_path: Path) -> None:
        up = bridge_xml("up", "masterslave:(tcp://o-mq2-a:61616,tcp://o-mq2-b:61616)")
        store = '<persistenceAdapter><kahaDB directory="./data/two"/></persistenceAdapter>'
        files = pair_files("o-mq1-a", "o-mq1-b", up, "one")
        files |= {host: document(store + OPENWIRE, brokerName="two") for host in ("o-mq2-a", "o-mq2-b")}
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        assert any(
            "are the pair o-mq2, but no file shows that both share a store (its path ./data/two is relative)" in note
            for note in adoption.notes
        )
        assert adopted_variables(adoption)["links"][0]["addresses"] == ["o-mq2-a:61616", "o-mq2-b:61616"]

    def test_multicast_network_becomes_variables_of_multicast_discovery(self, tmp_path: Path) -> None:
        bridges = (
            '<networkConnectors><networkConnector uri="multicast://default" dynamicOnly="true"/></networkConnectors>'
        )
        connectors = (
            "<transportConnectors><transportConnector name='openwire' uri='tcp://0.0.0.0:61616' "
            "discoveryUri='multicast://default'/></transportConnectors>"
        )
        files = {host: document(bridges + connectors, brokerName=host) for host in ("o-mq1-a", "o-mq2-a")}
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        variables = adopted_variables(adoption)
        names = ("discovery", "multicast", "multicast_group", "multicast_name", "network_attributes", "network_ttl")
        assert [variables[name] for name in names] == [
            "multicast", "239.255.2.3:6155", "default", "NC", {"dynamicOnly": True}, 1,
        ]  # fmt: skip
        assert "xml_fragments" not in str(adoption.files)

    def test_brokers_of_one_machine_with_bridge_over_loopback_are_linked(self, tmp_path: Path) -> None:
        def broker_document(port: int, bridges: str = "") -> bytes:
            uri = f"tcp://0.0.0.0:{port}"
            connectors = f"<transportConnectors><transportConnector name='c' uri='{uri}'/></transportConnectors>"
            return document(connectors + bridges, brokerName=f"b{port}")

        files = {
            "n-mq1-a": broker_document(61616, bridge_xml("up", "static:(tcp://localhost:61617)")),
            "n-mq2-a": broker_document(61617),
        }
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        assert adopted_variables(adoption)["links"] == [{"from": "n-mq1", "to": "n-mq2", "name": "up"}]
        assert adopted_variables(adoption)["address"] == "localhost"

    def test_adopted_connector_without_name_gets_name(self, tmp_path: Path) -> None:
        unnamed = "<transportConnectors><transportConnector uri='tcp://0.0.0.0:61616'/></transportConnectors>"
        adoption = adopt_and_compare(tmp_path, {ALONE: document(unnamed, brokerName="x")}, "5.18.3")

        assert adopted_variables(adoption)["connectors"][0]["name"] == "openwire"
        assert (
            directions_by_path(adoption)["beans/broker/transportConnectors/transportConnector/@name"] == "rendered adds"
        )

    def test_options_and_attributes_of_connectors_become_variables(self, tmp_path: Path) -> None:
        connectors = (
            "<sslContext><sslContext keyStore='file:/k' keyStorePassword='p1' trustStore='file:/t' "
            "trustStorePassword='p2'/></sslContext><transportConnectors>"
            "<transportConnector name='stomp+nio' uri='stomp+nio://0.0.0.0:61613' allowLinkStealing='true' "
            "maximumConsumersAllowedPerConnection='7'/>"
            "<transportConnector name='tls' uri='nio+ssl://10.0.0.1:61617?maximumConnections=9'/></transportConnectors>"
        )
        adoption = adopt_and_compare(tmp_path, {ALONE: document(connectors, brokerName="x")}, "5.18.3")

        assert adopted_variables(adoption)["connectors"] == [
            {
                "name": "stomp+nio",
                "scheme": "stomp+nio",
                "port": 61613,
                "options": {},
                "tls": False,
                "attributes": {"allowLinkStealing": True, "maximumConsumersAllowedPerConnection": 7},
            },
            {
                "name": "tls",
                "scheme": "nio+ssl",
                "port": 61617,
                "options": {"maximumConnections": 9},
                "bind": "10.0.0.1",
            },
        ]
        assert adopted_variables(adoption)["tls"]["keystore"] == "/k"
        assert "xml_fragments" not in adopted_variables(adoption)

    def test_beans_of_activemq_xml_from_distribution_become_variables(self, tmp_path: Path) -> None:
        hook = f'<bean {SPRING} class="org.apache.activemq.hooks.SpringContextHook"/>'
        beans = (
            f'<bean {SPRING} id="logQuery" class="io.fabric8.insight.log.log4j.Log4jLogQuery" lazy-init="false" '
            f'scope="singleton" init-method="start" destroy-method="stop"/><import {SPRING} resource="camel.xml"/>'
        )
        jmx = '<managementContext><managementContext createConnector="true" connectorPort="1098"/></managementContext>'
        broker = f"{jmx}<shutdownHooks>{hook}</shutdownHooks>"
        variables = adopted_variables(
            adopt_and_compare(tmp_path / "old", {ALONE: document(broker, beans, brokerName="x")}, "5.15.6")
        )
        new_adoption = adopt_and_compare(tmp_path / "new", {ALONE: document(broker, beans, brokerName="x")}, "5.18.3")

        assert [variables[name] for name in ("log_query", "imports", "shutdown_hooks", "jmx")] == [
            True, ["camel.xml"], ["org.apache.activemq.hooks.SpringContextHook"], {"port": 1098},
        ]  # fmt: skip
        assert "xml_fragments" not in {*variables, *adopted_variables(new_adoption)}
        assert any("adopt left out the bean logQuery" in note for note in new_adoption.notes)

    @pytest.mark.parametrize("uri", ["k8s://default?x=y", "http://agent:8080/x", "failover:(tcp://o-mq2-a:1)"])
    def test_bridge_with_unsupported_uri_is_kept_as_xml(self, uri: str, tmp_path: Path) -> None:
        files = pair_files("o-mq1-a", "o-mq1-b", bridge_xml("up", uri, userName="n", password="${p}"), "one")
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        assert not [path for path in directions_by_path(adoption) if "networkConnectors" in path]
        assert any("adopt keeps the XML of this bridge in activemq_xml_fragments" in note for note in adoption.notes)

    @pytest.mark.parametrize("uri", ["tcp://o-mq1-b:61616", "failover:(nio://o-mq1-b:61616)", "tcp://10.0.0.7:61616"])
    def test_slave_at_client_port_of_pure_master_gets_replication_port(self, uri: str, tmp_path: Path) -> None:
        adoption = adopt_and_compare(tmp_path, pure_pair_files(uri), "5.5.1")

        master = "10.0.0.7" if "10.0.0.7" in uri else "o-mq1-b"
        assert adopted_variables(adoption)["ha"] == "pure"
        assert adopted_variables(adoption)["master_node"] == "b"
        slave = activemq_xml_by_host(adoption.fleet)["o-mq1-a"].decode()
        assert re.findall("<masterConnector [^>]*>", slave) == [
            f'<masterConnector remoteURI="nio://{master}:61618" userName="s"/>'
        ]
        assert 'uri="nio://0.0.0.0:61618"' in activemq_xml_by_host(adoption.fleet)["o-mq1-b"].decode()
        assert any(
            "o-mq1-a: the original slave connects to its master at port 61616" in note for note in adoption.notes
        )

    def test_only_openwire_connector_of_pure_master_stays_connector_of_clients(self, tmp_path: Path) -> None:
        files = {
            host: content.replace(b"openwire", b"main")
            for host, content in pure_pair_files("tcp://o-mq1-b:61616").items()
        }
        adoption = adopt_and_compare(tmp_path, files, "5.5.1")

        master = activemq_xml_by_host(adoption.fleet)["o-mq1-b"].decode()
        assert re.findall('<transportConnector name="([a-z]+)" uri="[a-z]+:[^"]*:([0-9]+)', master) == [
            ("main", "61616"),
            ("replication", "61618"),
        ]
        assert "replication_port" not in adopted_variables(adoption)

    @pytest.mark.parametrize("uri", ["ssl://o-mq1-b:61616", "failover:(tcp://o-mq1-b:61616,tcp://o-mq1-c:61616)"])
    def test_slave_keeps_uri_of_master_that_replication_connector_cannot_replace(
        self, uri: str, tmp_path: Path
    ) -> None:
        adoption = adopt_and_compare(tmp_path, pure_pair_files(uri), "5.5.1")

        assert adopted_variables(adoption)["ha"] == "pure"
        assert "beans/broker/services/masterConnector/@remoteURI" not in directions_by_path(adoption)

    def test_pair_with_one_database_becomes_shared_jdbc(self, tmp_path: Path) -> None:
        adoption = adopt_and_compare(tmp_path, jdbc_pair_files('<jdbcPersistenceAdapter dataSource="#pg"/>'), "5.18.3")

        assert adopted_variables(adoption)["ha"] == "shared-jdbc"
        assert "hush" not in str(adoption)
        assert directions_by_path(adoption)["beans/bean[@id='pg']"] == "rendered lacks"
        assert "adopt left out" not in str(adoption.notes)

    @pytest.mark.parametrize("import_element", ["", f'<import {SPRING} resource="jetty.xml"/>'])
    @pytest.mark.parametrize("release", ["5.8.0", "5.18.3", "6.3.1"])
    def test_jdbc_store_keeps_table_prefix_with_rendered_data_source(
        self, import_element: str, release: str, tmp_path: Path
    ) -> None:
        store = (
            '<jdbcPersistenceAdapter dataSource="#pg" createTablesOnStartup="false">'
            '<statements><statements tablePrefix="PROD_"/></statements></jdbcPersistenceAdapter>'
        )
        adoption = adopt_and_compare(tmp_path, jdbc_pair_files(store, import_element), release)

        for content in activemq_xml_by_host(adoption.fleet).values():
            rendered = content.decode()
            assert 'dataSource="#store"' in rendered
            assert 'createTablesOnStartup="false"' in rendered
            assert 'tablePrefix="PROD_"' in rendered
            assert "pg" not in re.findall(r'(?:#|ref="|bean=")(\w+)', rendered)

    def test_other_references_to_replaced_data_source_are_renamed(self, tmp_path: Path) -> None:
        store = (
            '<jdbcPersistenceAdapter dataSource="#pg">'
            '<locker><transact-database-locker dataSource="#pg"/></locker></jdbcPersistenceAdapter>'
        )
        user = f'<bean {SPRING} id="audit" class="java.util.ArrayList"><constructor-arg><list><ref bean="pg"/></list>'
        adoption = adopt_and_compare(tmp_path, jdbc_pair_files(store, f"{user}</constructor-arg></bean>"), "5.18.3")

        rendered = activemq_xml_by_host(adoption.fleet)["o-mq1-a"].decode()
        assert '<transact-database-locker dataSource="#store"/>' in rendered
        assert '<ref bean="store"/>' in rendered

    @pytest.mark.parametrize(
        ("locker", "rendered_locker", "is_noted"),
        [
            ("", "<database-locker/>", True),
            (
                '<locker><database-locker lockAcquireSleepInterval="900"/></locker>',
                '<database-locker lockAcquireSleepInterval="900"/>',
                False,
            ),
            (
                '<locker><lease-database-locker lockAcquireSleepInterval="9000"/></locker>',
                '<lease-database-locker lockAcquireSleepInterval="9000"',
                False,
            ),
        ],
    )
    def test_jdbc_pair_keeps_lock_of_original(
        self, locker: str, rendered_locker: str, is_noted: bool, tmp_path: Path
    ) -> None:
        store = f'<jdbcPersistenceAdapter dataSource="#pg">{locker}</jdbcPersistenceAdapter>'
        adoption = adopt_and_compare(tmp_path, jdbc_pair_files(store), "5.18.3")

        rendered = activemq_xml_by_host(adoption.fleet)["o-mq1-a"].decode()
        assert rendered.count("database-locker") == 1
        assert rendered_locker in rendered
        assert any("o-mq1-a, o-mq1-b: adopt keeps the lock" in note for note in adoption.notes) is is_noted


def pure_pair_files(master_uri: str) -> dict[str, bytes]:
    """Return the activemq.xml of the slave o-mq1-a and of its master, whose only connector is openwire at 61616."""
    slave = f'<services><masterConnector remoteURI="{master_uri}" userName="s" password="hush"/></services>'
    return {
        "o-mq1-b": document(OPENWIRE, brokerName="m", waitForSlave="true"),
        "o-mq1-a": document(slave + connectors_xml("tcp://0.0.0.0:61616"), brokerName="s"),
    }


def jdbc_pair_files(store: str, beans: str = "") -> dict[str, bytes]:
    """Return the activemq.xml of both nodes of a pair with a JDBC store, whose data source is the bean ``pg``."""
    bean = (
        f'<bean {SPRING} id="pg" class="org.apache.commons.dbcp2.BasicDataSource">'
        '<property name="driverClassName" value="org.postgresql.Driver"/><property name="url" '
        'value="jdbc:postgresql://db/a"/><property name="username" value="u"/>'
        '<property name="password" value="hush"/></bean>'
    )
    xml = document(f"<persistenceAdapter>{store}</persistenceAdapter>", bean + beans, brokerName="x")
    return dict.fromkeys(("o-mq1-a", "o-mq1-b"), xml)
