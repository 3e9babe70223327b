"""Handwritten files: adopt keeps their settings, and its list of differences is complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from activemq_fleet.adopt import AdoptedInventory
from activemq_fleet.errors import FleetError
from activemq_fleet.inventory import load_fleet
from activemq_fleet.topology import Fleet
from tests.situations import some_situations
from tests.support.foreign_files import (
    ALONE,
    OPENWIRE,
    adopt_and_compare,
    adopted_variables,
    bridge_xml,
    connectors_xml,
    pair_files,
)
from tests.unit.adopt_files import (
    CORE,
    activemq_xml_by_host,
    assert_listed_exactly,
    document,
    render_adopted_inventory,
    render_without_ansible,
    write_and_adopt,
    write_inventory,
)
from tests.unit.fleets import fleet

SPRING = 'xmlns="http://www.springframework.org/schema/beans"'


def directions_by_path(adoption: AdoptedInventory) -> dict[str, str]:
    """Return the direction of each difference, by its path."""
    return {difference.path: difference.direction for difference in adoption.differences}


def changed_fleet(tmp_path: Path, adoption: AdoptedInventory, **changes: Any) -> Fleet:
    """Return the fleet of the adopted inventory with variables changed for all hosts."""
    directory = write_inventory(tmp_path / "changed", adoption)
    added_lines = "".join(f"activemq_{name}: {value}\n" for name, value in changes.items())
    path = directory / "group_vars" / "all.yml"
    kept_lines = [
        line
        for line in path.read_text().splitlines()
        if line.partition(":")[0].removeprefix("activemq_") not in changes
    ]
    path.write_text("\n".join(kept_lines) + "\n" + added_lines)
    return load_fleet([str(directory)])


class TestOneFile:
    def test_adopt_lists_elements_that_every_rendered_file_has_as_added(self, tmp_path: Path) -> None:
        adoption = adopt_and_compare(tmp_path, {ALONE: document("", brokerName="x")}, "5.18.3")

        assert directions_by_path(adoption) == {
            "beans/@xsi:schemaLocation": "rendered adds",
            "beans/bean[@class='org.springframework.beans.factory.config.PropertyPlaceholderConfigurer']": (
                "rendered adds"
            ),
            "beans/broker/@dataDirectory": "rendered adds",
            "beans/broker/@diskUsageCheckRegrowThreshold": "rendered adds",
            "beans/broker/@id": "rendered adds",
            "beans/broker/@networkConnectorStartAsync": "rendered adds",
            "beans/broker/@schedulePeriodForDiskUsageCheck": "rendered adds",
            "beans/broker/destinationPolicy": "rendered adds",
            "beans/broker/ioExceptionHandler": "rendered adds",
            "beans/broker/managementContext": "rendered adds",
            "beans/broker/persistenceAdapter": "rendered adds",
            "beans/broker/systemUsage": "rendered adds",
        }

    def test_adopt_keeps_attributes_of_broker_element(self, tmp_path: Path) -> None:
        adoption = adopt_and_compare(
            tmp_path, {ALONE: document("", useJmx="false", dataDirectory="${activemq.data}/x")}, "5.18.3"
        )

        assert adopted_variables(adoption)["broker_attributes"] == {
            "useJmx": False,
            "dataDirectory": "${activemq.data}/x",
        }

    def test_attribute_that_could_start_another_broker_is_listed_as_missing(self, tmp_path: Path) -> None:
        adoption = adopt_and_compare(tmp_path, {ALONE: document("", vmConnectorURI="vm://x")}, "5.18.3")

        assert directions_by_path(adoption)["beans/broker/@vmConnectorURI"] == "rendered lacks"

    @pytest.mark.parametrize(
        "store",
        [
            '<amqPersistenceAdapter directory="x"/>',
            '<kahaDB directory="${activemq.data}/kahadb" journalMaxFileLength="32mb"/>',
            '<kahaDB><locker><shared-file-locker lockAcquireSleepInterval="7"/></locker></kahaDB>',
            f'<jdbcPersistenceAdapter><dataSource><bean {SPRING} class="a.B"/></dataSource></jdbcPersistenceAdapter>',
        ],
    )
    def test_adopt_keeps_message_store_of_any_kind(self, store: str, tmp_path: Path) -> None:
        adoption = adopt_and_compare(
            tmp_path, {ALONE: document(f"<persistenceAdapter>{store}</persistenceAdapter>", brokerName="x")}, "5.5.1"
        )

        directions = {path: how for path, how in directions_by_path(adoption).items() if "persistenceAdapter" in path}
        directory_path = "beans/broker/persistenceAdapter/kahaDB/@directory"
        assert not [path for path, how in directions.items() if "adds" not in how and path != directory_path]
        if "${activemq.data}" in store:
            assert directions[directory_path] == "differs"

    @pytest.mark.parametrize(
        ("uri", "is_supported"),
        [
            ("tcp://0.0.0.0:61616", True),
            ("nio://0.0.0.0:7001?wireFormat.tcpNoDelay=true&amp;transport.soTimeout=5", True),
            ("tcp://localhost:61616?x=%20", True),
            ("tcp://${host}:61616", True),
            ("vm://localhost", False),
            ("http://0.0.0.0:0", False),
        ],
    )
    def test_adopted_connector_becomes_variable_if_supported_and_is_always_kept(
        self, uri: str, is_supported: bool, tmp_path: Path
    ) -> None:
        adoption = adopt_and_compare(tmp_path, {ALONE: document(connectors_xml(uri), brokerName="x")}, "5.18.3")

        assert bool(adopted_variables(adoption).get("connectors")) is is_supported
        assert not [path for path in directions_by_path(adoption) if "transportConnector" in path]

    def test_adopt_keeps_settings_of_plugins_and_lists_different_order(self, tmp_path: Path) -> None:
        plugins = (
            '<plugins><camelRoutesBrokerPlugin/><simpleAuthenticationPlugin anonymousAccessAllowed="true"/></plugins>'
        )
        adoption = adopt_and_compare(tmp_path, {ALONE: document(plugins, brokerName="x")}, "5.18.3")

        order = [difference for difference in adoption.differences if difference.path == "beans/broker/plugins"]
        assert [difference.original for difference in order] == [
            "in this order: camelRoutesBrokerPlugin, simpleAuthenticationPlugin"
        ]
        assert directions_by_path(adoption)["beans/broker/plugins/simpleAuthenticationPlugin/users"] == "rendered adds"

    @pytest.mark.parametrize("writers", ["", "x,y"])
    def test_authorization_entries_of_adopted_file_become_activemq_acl(self, tmp_path: Path, writers: str) -> None:
        authorization_entries = (
            '<authorizationEntry queue="a.>" read="x, y" write="x" admin="x"/>'
            f'<authorizationEntry topic="ActiveMQ.Advisory.>" read="x,y" write="{writers}" admin="x,y"/>'
            "<tempDestinationAuthorizationEntry/>"
        )
        users = '<authenticationUser username="u" password="secret1" groups="x,y"/>'
        plugins = (
            f"<plugins><simpleAuthenticationPlugin><users>{users}</users></simpleAuthenticationPlugin>"
            f"<authorizationPlugin><map><authorizationMap><authorizationEntries>{authorization_entries}</authorizationEntries>"
            "</authorizationMap></map></authorizationPlugin></plugins>"
        )
        adoption = adopt_and_compare(tmp_path, {ALONE: document(plugins, brokerName="x")}, "5.18.3")

        queue_entry = {"destination": "a.>", "kind": "queue", "read": ["x", "y"], "write": ["x"], "admin": ["x"]}
        groups = ["x", "y"]
        rights = {"kind": "topic", "read": groups, "write": groups, "admin": groups}
        advisory_entries = [{"destination": "ActiveMQ.Advisory.>", **rights}] if writers else []
        assert adopted_variables(adoption)["acl"] == [queue_entry, *advisory_entries]

    def test_policies_usage_store_and_plugins_become_variables(self, tmp_path: Path) -> None:
        dead_letter_policy = (
            '<policyEntry queue="a.>" memoryLimit="1mb" queuePrefetch="10"><deadLetterStrategy>'
            '<individualDeadLetterStrategy queuePrefix="DLQ."/></deadLetterStrategy></policyEntry>'
        )
        topic_policy = (
            '<policyEntry topic=">"><pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="1000"/>'
            "</pendingMessageLimitStrategy></policyEntry>"
        )
        broker = (
            "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
            '<virtualTopic name="news.>" prefix="for.*."/></virtualDestinations></virtualDestinationInterceptor>'
            "</destinationInterceptors><destinationPolicy><policyMap><policyEntries>"
            f"{dead_letter_policy}{topic_policy}</policyEntries>"
            '</policyMap></destinationPolicy><destinations><queue physicalName="q"/><topic physicalName="t"/>'
            '</destinations><persistenceAdapter><kahaDB directory="${activemq.data}/kahadb" '
            'journalMaxFileLength="32mb"/></persistenceAdapter><plugins><statisticsBrokerPlugin/>'
            '<timeStampingBrokerPlugin ttlCeiling="86400000"/></plugins><systemUsage><systemUsage><memoryUsage>'
            '<memoryUsage percentOfJvmHeap="70"/></memoryUsage><storeUsage><storeUsage limit="100 gb"/></storeUsage>'
            '<tempUsage><tempUsage limit="50 gb"/></tempUsage></systemUsage></systemUsage>'
        )
        adoption = adopt_and_compare(tmp_path, {ALONE: document(broker, brokerName="x")}, "5.18.3")

        variables = adopted_variables(adoption)
        assert "xml_fragments" not in variables
        assert variables["destination_policies"] == [
            {
                "destination": "a.>",
                "kind": "queue",
                "memory_limit": "1mb",
                "queue_prefetch": 10,
                "dead_letter_strategy": {"type": "individual", "queue_prefix": "DLQ."},
            },
            {
                "destination": ">",
                "kind": "topic",
                "pending_message_limit_strategy": {"type": "constant", "limit": 1000},
            },
        ]
        assert variables["usage"] == {"memory": "70 %", "store": "100 gb", "temp": "50 gb"}
        assert variables["virtual_destinations"] == [{"type": "virtual_topic", "name": "news.>", "prefix": "for.*."}]
        assert variables["broker_attributes"] == {"useVirtualTopics": False}
        assert variables["destinations"] == ["q", "topic://t"]
        assert variables["kahadb"] == {"journal_max_file_length": "32mb"}
        assert variables["plugins"] == {"statistics": True, "timestamp": {"ttl_ceiling": 86400000}}

    def test_adopt_keeps_beans_outside_broker_element(self, tmp_path: Path) -> None:
        beans = f'<bean {SPRING} id="x" class="a.B"><property name="y" value="{{{{ z }}}}{{% q"/></bean>'
        adoption = adopt_and_compare(tmp_path, {ALONE: document("", beans, brokerName="x")}, "5.18.3")

        assert not [path for path in directions_by_path(adoption) if "@id='x'" in path]

    @pytest.mark.parametrize("text", ["a  b", "\n  x=1\n  y=2\n", " one ", "<b/>tail<b/>", "a<!-- c -->b", "\tq"])
    def test_adopt_keeps_text_in_beans_unchanged(self, text: str, tmp_path: Path) -> None:
        beans = f'<bean {SPRING} id="x" class="a.B"><property name="y"><value>{text}</value></property></bean>'
        adoption = write_and_adopt(tmp_path / "files", {ALONE: document("", beans)}, "5.18.3")

        root = etree.fromstring(render_adopted_inventory(tmp_path, adoption)[f"hosts/{ALONE}/conf/activemq.xml"])
        [value_element] = root.iterfind(".//{*}bean[@id='x']/{*}property/{*}value")
        rendered_text = "".join(str(piece) for piece in value_element.itertext())
        assert rendered_text.strip() == text.replace("<!-- c -->", "").replace("<b/>", "").strip()

    def test_import_of_console_is_replaced_by_rendered_console(self, tmp_path: Path) -> None:
        console_import = f'<import {SPRING} resource="file:${{activemq.base}}/conf/jetty.xml"/>'
        adoption = adopt_and_compare(tmp_path, {ALONE: document("", console_import, brokerName="x")}, "5.18.3")

        assert directions_by_path(adoption)["beans/import/@resource"] == "differs"
        assert "console" not in adopted_variables(adoption)

    def test_adopted_file_without_console_sets_activemq_console_to_false(self, tmp_path: Path) -> None:
        assert adopted_variables(adopt_and_compare(tmp_path, {ALONE: document("")}, "5.18.3"))["console"] is False


class TestSecrets:
    FILE = document(
        '<networkConnectors><networkConnector uri="static:(tcp://u:hush1@far:1)" userName="n" password="hush2"/>'
        '</networkConnectors><plugins><simpleAuthenticationPlugin><users><authenticationUser username="app" '
        'password="hush3" groups="g"/><authenticationUser username="no good" password="hush4" groups="g"/></users>'
        f'</simpleAuthenticationPlugin><bean {SPRING} class="a.B"><property name="password"><value>hush5</value>'
        '</property><property name="userPasswords"><map><entry key="password" value="hush6"/></map></property></bean>'
        '</plugins><transportConnectors><transportConnector name="t" uri="ssl://0.0.0.0:1?transport.keyStorePassword='
        'hush7"/></transportConnectors>',
        vmConnectorURI="tcp://a:1?jms.password=hush8",
    )

    def test_no_password_is_in_files_differences_or_notes_of_adopt(self, tmp_path: Path) -> None:
        adoption = adopt_and_compare(tmp_path, {ALONE: self.FILE}, "5.18.3")

        adopted_text = str(adoption.files) + str(adoption.differences) + str(adoption.notes) + str(adoption.secrets)
        assert "hush" not in adopted_text
        assert "hush3" in self.FILE.decode()

    def test_each_password_of_adopted_files_becomes_secret(self, tmp_path: Path) -> None:
        adoption = adopt_and_compare(tmp_path, {ALONE: self.FILE}, "5.18.3")

        assert {"app", "n"} <= set(adoption.secrets)
        assert len(adoption.secrets) >= 6

    def test_password_that_differs_between_hosts_has_two_secrets(self, tmp_path: Path) -> None:
        users = '<authenticationUser username="app" password="{}" groups="g"/>'
        plugin = "<plugins><simpleAuthenticationPlugin><users>{}</users></simpleAuthenticationPlugin></plugins>"
        files = {f"o-mq{n}-a": document(plugin.format(users.format(f"hush{n}"))) for n in (1, 2)}

        assert set(adopt_and_compare(tmp_path, files, "5.18.3").secrets) == {"app", "app-2"}

    def test_password_from_properties_file_becomes_secret(self, tmp_path: Path) -> None:
        users = '<authenticationUser username="app" password="${app.password}" groups=""/>'
        plugin = f"<plugins><simpleAuthenticationPlugin><users>{users}</users></simpleAuthenticationPlugin></plugins>"
        adoption = adopt_and_compare(tmp_path, {ALONE: document(plugin)}, "5.18.3")

        rendered_values = {difference.original: difference.rendered for difference in adoption.differences}
        assert rendered_values["${app.password}"] == "${activemq.user.app.password}"
        assert "app" in adoption.secrets

    def test_placeholder_that_no_rendered_file_defines_has_note(self, tmp_path: Path) -> None:
        adoption = adopt_and_compare(tmp_path, {ALONE: document(connectors_xml("tcp://${my.host}:61616"))}, "5.18.3")

        assert any("no rendered file defines the placeholder ${my.host}" in note for note in adoption.notes)
        assert not any("${activemq.conf}" in note for note in adoption.notes)


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

    def test_slave_of_pure_pair_keeps_uri_of_master(self, tmp_path: Path) -> None:
        slave = '<services><masterConnector remoteURI="tcp://o-mq1-b:61616" userName="s" password="hush"/></services>'
        files = {
            "o-mq1-b": document(OPENWIRE, brokerName="m", waitForSlave="true"),
            "o-mq1-a": document(slave + connectors_xml("tcp://0.0.0.0:61616"), brokerName="s"),
        }
        adoption = adopt_and_compare(tmp_path, files, "5.5.1")

        assert adopted_variables(adoption)["ha"] == "pure"
        assert adopted_variables(adoption)["master_node"] == "b"
        assert "beans/broker/services/masterConnector/@remoteURI" not in directions_by_path(adoption)

    def test_pair_with_one_database_becomes_shared_jdbc(self, tmp_path: Path) -> None:
        bean = (
            f'<bean {SPRING} id="pg" class="org.apache.commons.dbcp2.BasicDataSource">'
            '<property name="driverClassName" value="org.postgresql.Driver"/><property name="url" '
            'value="jdbc:postgresql://db/a"/><property name="username" value="u"/>'
            '<property name="password" value="hush"/></bean>'
        )
        store = '<persistenceAdapter><jdbcPersistenceAdapter dataSource="#pg"/></persistenceAdapter>'
        files = {host: document(store, bean, brokerName="x") for host in ("o-mq1-a", "o-mq1-b")}
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        assert adopted_variables(adoption)["ha"] == "shared-jdbc"
        assert "hush" not in str(adoption)
        assert directions_by_path(adoption)["beans/bean[@id='pg']"] == "rendered lacks"


# Values that replace expected values. NAMES replace the names of attributes and elements, or are added.
UNEXPECTED_VALUES = [
    "",
    "1",
    "true",
    "x",
    "${x}",
    "{{ y }}",
    "{% z",
    "{# w",
    "a, b",
    "ü\u2028",
    "a\nb",
    '"',
    "<&>",
    "***",
    "-1",
    "007",
]
UNEXPECTED_VALUES += [
    "10 mb",
    "vm://x",
    "@.secrets/x@",
    "tcp://0.0.0.0:99999",
    "tcp://o-mq2-a:61616",
    "nio://0.0.0.0:61618",
]
UNEXPECTED_VALUES += ["multicast://default", "static:(tcp://o-mq2-a:61616)", "o-mq2-to-o-mq1"]
UNEXPECTED_VALUES += ["static:(failover:(tcp://o-mq2-a:61616,tcp://o-mq2-b:61616))"]
NAMES = ["name", "uri", "brokerName", "password", "userName", "username", "groups", "limit", "duplex", "networkTTL"]
NAMES += ["id", "directory", "queue", "read", "discoveryUri", "remoteURI", "consumerTTL", "value", "zzz"]
INSERTED_ELEMENTS = [
    "<services><masterConnector remoteURI='tcp://o-mq1-a:61616'/></services>",
    "<locker><database-locker/></locker>",
    "<kahaDB/>",
    "<queue physicalName='q'/>",
    "<authorizationEntry queue='a' read='b'/>",
    "<plugins/>",
    "<broker/>",
    "<policyEntry tempQueue='true'/>",
    "<memoryUsage limit='1 mb'/>",
]
# The examples for each of the three bases: each example builds 17 fleets.
EXAMPLE_COUNT = max(10, settings().max_examples // 10)
MUTATIONS = ["set", "drop", "double", "move", "rename", "text", "insert"]
STEP = st.tuples(st.sampled_from(MUTATIONS), *[st.integers(0, 10_000)] * 3)
RIGHTS = [{"destination": "a", "kind": "queue", "read": "staff"}]
BASE_FILES = {
    "pure": activemq_xml_by_host(fleet("o-mq1", "o-mq2", domain="", ha="pure", release="5.5.1")),
    "shared": activemq_xml_by_host(fleet("o-mq1", "o-mq2", domain="", acl=RIGHTS, pair_links="static")),
    "alone": activemq_xml_by_host(fleet("o-mq1", "o-mq2", domain="", ha="none", release="5.8.0", topology="ring")),
}


def mutate_document(content: bytes, steps: list[tuple[str, int, int, int]]) -> bytes:
    """Return a document after changes of its elements, attributes and texts."""
    root = etree.fromstring(content)
    for how, where, what, which in steps:
        elements = [element for element in root.iter(etree.Element) if element is not root]
        if not elements:
            break
        element = elements[where % len(elements)]
        names = [*map(str, element.attrib), *NAMES]
        value = UNEXPECTED_VALUES[which % len(UNEXPECTED_VALUES)]
        parent = element.getparent()
        assert parent is not None
        if how == "set":
            element.set(names[what % len(names)], value)
        elif how == "drop":
            if what % 2 and element.attrib:
                del element.attrib[list(element.attrib)[which % len(element.attrib)]]
            else:
                parent.remove(element)
        elif how == "double":
            parent.append(etree.fromstring(etree.tostring(element, with_tail=False)))
        elif how == "move":
            parent.insert(what % len(parent), element)
        elif how == "rename":
            element.tag = (
                f"{{{CORE}}}{NAMES[what % len(NAMES)]}" if what % 3 else f"{{urn:x}}{NAMES[what % len(NAMES)]}"
            )
        elif how == "text":
            element.text = value
        else:
            element.append(etree.fromstring(INSERTED_ELEMENTS[what % len(INSERTED_ELEMENTS)]))
    return etree.tostring(root)


@some_situations(1)
@pytest.mark.parametrize("base", BASE_FILES)
@given(where=st.lists(st.integers(0, 3), min_size=1, max_size=3), steps=st.lists(STEP, min_size=1, max_size=6))
@settings(max_examples=EXAMPLE_COUNT)
def test_list_of_adopt_differences_is_complete_for_any_activemq_xml(
    base: str, where: list[int], steps: list[tuple[str, int, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    files = dict(BASE_FILES[base])
    for number in where:
        host = sorted(files)[number]
        files[host] = mutate_document(files[host], steps)
    try:
        adoption = write_and_adopt(tmp_path_factory.mktemp("adopt"), files, "5.5.1" if base == "pure" else "5.18.3")
    except FleetError as error:
        # Only a file without exactly one broker cannot be adopted.
        assert "<broker>" in str(error)
        return
    rendered_files = render_without_ansible(adoption)
    for host, original in files.items():
        differences = [difference for difference in adoption.differences if difference.host == host]
        assert_listed_exactly(original, rendered_files[host], differences)


def test_example_files_of_page_adopting_are_adopted_without_xml_fragments(tmp_path: Path) -> None:
    """``docs/adopting.md``: two linked brokers, and a third with bridges to both, without authentication."""
    store_and_connector = (
        '<persistenceAdapter><kahaDB directory="${activemq.data}/kahadb"/></persistenceAdapter>'
        "<transportConnectors><transportConnector name='openwire' uri='tcp://0.0.0.0:61616?maximumConnections=1000'/>"
        "</transportConnectors>"
    )

    def bridges_to(*hosts: str) -> str:
        links = "".join(
            f'<networkConnector name="to-{host}" uri="static:(tcp://{host}:61616)" networkTTL="2" dynamicOnly="true"/>'
            for host in hosts
        )
        return f"<networkConnectors>{links}</networkConnectors>"

    files = {
        "core-mq01-a": document(bridges_to("core-mq02-a") + store_and_connector, brokerName="core1"),
        "core-mq02-a": document(bridges_to("core-mq01-a") + store_and_connector, brokerName="core2"),
        "edge-mq01-a": document(bridges_to("core-mq01-a", "core-mq02-a") + store_and_connector, brokerName="edge1"),
    }
    adoption = adopt_and_compare(tmp_path, files, "5.15.16")

    assert "xml_fragments" not in str(adoption.files)
    assert len(adopted_variables(adoption)["links"]) == 4
    assert adopted_variables(adoption)["authentication"] == "none"
    assert any("the file has the store directory ${activemq.data}/kahadb" in note for note in adoption.notes)
    account = {"network_username": "network", "network_password": "secret1"}
    fleet_with_authentication = changed_fleet(tmp_path, adoption, authentication="simple", **account)
    assert not fleet_with_authentication.blocking_findings
    assert all(b"userName" in content for content in activemq_xml_by_host(fleet_with_authentication).values())
