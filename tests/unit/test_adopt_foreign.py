"""Files that others wrote: what they say stays, and the list of the rest is complete."""

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


def places(adoption: AdoptedInventory) -> dict[str, str]:
    return {one.path: one.direction for one in adoption.differences}


def fleet_of(tmp_path: Path, adoption: AdoptedInventory, **changes: Any) -> Fleet:
    """The fleet of the adopted inventory with variables changed for all."""
    directory = write_inventory(tmp_path / "changed", adoption)
    more = "".join(f"activemq_{name}: {value}\n" for name, value in changes.items())
    path = directory / "group_vars" / "all.yml"
    kept = [
        line
        for line in path.read_text().splitlines()
        if line.partition(":")[0].removeprefix("activemq_") not in changes
    ]
    path.write_text("\n".join(kept) + "\n" + more)
    return load_fleet([str(directory)])


class TestOneFile:
    def test_what_we_always_render_is_listed_as_added(self, tmp_path: Path) -> None:
        adoption = adopt_and_compare(tmp_path, {ALONE: document("", brokerName="x")}, "5.18.3")

        assert places(adoption) == {
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

    def test_attributes_of_the_broker_stay(self, tmp_path: Path) -> None:
        adoption = adopt_and_compare(
            tmp_path, {ALONE: document("", useJmx="false", dataDirectory="${activemq.data}/x")}, "5.18.3"
        )

        assert adopted_variables(adoption)["broker_attributes"] == {
            "useJmx": False,
            "dataDirectory": "${activemq.data}/x",
        }

    def test_an_attribute_that_could_start_another_broker_is_listed(self, tmp_path: Path) -> None:
        adoption = adopt_and_compare(tmp_path, {ALONE: document("", vmConnectorURI="vm://x")}, "5.18.3")

        assert places(adoption)["beans/broker/@vmConnectorURI"] == "rendered lacks"

    @pytest.mark.parametrize(
        "store",
        [
            '<amqPersistenceAdapter directory="x"/>',
            '<kahaDB directory="${activemq.data}/kahadb" journalMaxFileLength="32mb"/>',
            '<kahaDB><locker><shared-file-locker lockAcquireSleepInterval="7"/></locker></kahaDB>',
            f'<jdbcPersistenceAdapter><dataSource><bean {SPRING} class="a.B"/></dataSource></jdbcPersistenceAdapter>',
        ],
    )
    def test_any_store_stays(self, store: str, tmp_path: Path) -> None:
        adoption = adopt_and_compare(
            tmp_path, {ALONE: document(f"<persistenceAdapter>{store}</persistenceAdapter>", brokerName="x")}, "5.5.1"
        )

        stores = {path: how for path, how in places(adoption).items() if "persistenceAdapter" in path}
        same = "beans/broker/persistenceAdapter/kahaDB/@directory"
        assert not [path for path, how in stores.items() if "adds" not in how and path != same]
        if "${activemq.data}" in store:
            assert stores[same] == "differs"

    @pytest.mark.parametrize(
        ("uri", "known"),
        [
            ("tcp://0.0.0.0:61616", True),
            ("nio://0.0.0.0:7001?wireFormat.tcpNoDelay=true&amp;transport.soTimeout=5", True),
            ("tcp://localhost:61616?x=%20", True),
            ("tcp://${host}:61616", True),
            ("vm://localhost", False),
            ("http://0.0.0.0:0", False),
        ],
    )
    def test_a_connector_is_a_variable_where_it_can_and_always_stays(
        self, uri: str, known: bool, tmp_path: Path
    ) -> None:
        adoption = adopt_and_compare(tmp_path, {ALONE: document(connectors_xml(uri), brokerName="x")}, "5.18.3")

        assert bool(adopted_variables(adoption).get("connectors")) is known
        assert not [path for path in places(adoption) if "transportConnector" in path]

    def test_plugins_keep_their_settings_and_the_order_is_listed(self, tmp_path: Path) -> None:
        plugins = (
            '<plugins><camelRoutesBrokerPlugin/><simpleAuthenticationPlugin anonymousAccessAllowed="true"/></plugins>'
        )
        adoption = adopt_and_compare(tmp_path, {ALONE: document(plugins, brokerName="x")}, "5.18.3")

        order = [one for one in adoption.differences if one.path == "beans/broker/plugins"]
        assert [one.original for one in order] == ["in this order: camelRoutesBrokerPlugin, simpleAuthenticationPlugin"]
        assert places(adoption)["beans/broker/plugins/simpleAuthenticationPlugin/users"] == "rendered adds"

    @pytest.mark.parametrize("writers", ["", "x,y"])
    def test_entries_of_an_acl_are_variables(self, tmp_path: Path, writers: str) -> None:
        entries = (
            '<authorizationEntry queue="a.>" read="x, y" write="x" admin="x"/>'
            f'<authorizationEntry topic="ActiveMQ.Advisory.>" read="x,y" write="{writers}" admin="x,y"/>'
            "<tempDestinationAuthorizationEntry/>"
        )
        users = '<authenticationUser username="u" password="secret1" groups="x,y"/>'
        plugins = (
            f"<plugins><simpleAuthenticationPlugin><users>{users}</users></simpleAuthenticationPlugin>"
            f"<authorizationPlugin><map><authorizationMap><authorizationEntries>{entries}</authorizationEntries>"
            "</authorizationMap></map></authorizationPlugin></plugins>"
        )
        adoption = adopt_and_compare(tmp_path, {ALONE: document(plugins, brokerName="x")}, "5.18.3")

        of_its_own = {"destination": "a.>", "kind": "queue", "read": ["x", "y"], "write": ["x"], "admin": ["x"]}
        both = ["x", "y"]
        everything = {"kind": "topic", "read": both, "write": both, "admin": both}
        kept = [{"destination": "ActiveMQ.Advisory.>", **everything}] if writers else []
        assert adopted_variables(adoption)["acl"] == [of_its_own, *kept]

    def test_policies_usage_store_and_plugins_are_variables(self, tmp_path: Path) -> None:
        dead = (
            '<policyEntry queue="a.>" memoryLimit="1mb" queuePrefetch="10"><deadLetterStrategy>'
            '<individualDeadLetterStrategy queuePrefix="DLQ."/></deadLetterStrategy></policyEntry>'
        )
        stock = (
            '<policyEntry topic=">"><pendingMessageLimitStrategy><constantPendingMessageLimitStrategy limit="1000"/>'
            "</pendingMessageLimitStrategy></policyEntry>"
        )
        broker = (
            "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
            '<virtualTopic name="news.>" prefix="for.*."/></virtualDestinations></virtualDestinationInterceptor>'
            f"</destinationInterceptors><destinationPolicy><policyMap><policyEntries>{dead}{stock}</policyEntries>"
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

    def test_beans_beside_the_broker_stay(self, tmp_path: Path) -> None:
        beans = f'<bean {SPRING} id="x" class="a.B"><property name="y" value="{{{{ z }}}}{{% q"/></bean>'
        adoption = adopt_and_compare(tmp_path, {ALONE: document("", beans, brokerName="x")}, "5.18.3")

        assert not [path for path in places(adoption) if "@id='x'" in path]

    @pytest.mark.parametrize("text", ["a  b", "\n  x=1\n  y=2\n", " one ", "<b/>tail<b/>", "a<!-- c -->b", "\tq"])
    def test_text_in_beans_stays_as_it_is(self, text: str, tmp_path: Path) -> None:
        beans = f'<bean {SPRING} id="x" class="a.B"><property name="y"><value>{text}</value></property></bean>'
        adoption = write_and_adopt(tmp_path / "files", {ALONE: document("", beans)}, "5.18.3")

        root = etree.fromstring(render_adopted_inventory(tmp_path, adoption)[f"hosts/{ALONE}/conf/activemq.xml"])
        [value] = root.iterfind(".//{*}bean[@id='x']/{*}property/{*}value")
        said = "".join(str(piece) for piece in value.itertext())
        assert said.strip() == text.replace("<!-- c -->", "").replace("<b/>", "").strip()

    def test_the_console_is_imported_as_ours_wherever_theirs_lies(self, tmp_path: Path) -> None:
        own = f'<import {SPRING} resource="file:${{activemq.base}}/conf/jetty.xml"/>'
        adoption = adopt_and_compare(tmp_path, {ALONE: document("", own, brokerName="x")}, "5.18.3")

        assert places(adoption)["beans/import/@resource"] == "differs"
        assert "console" not in adopted_variables(adoption)

    def test_a_file_without_the_console_has_none(self, tmp_path: Path) -> None:
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

    def test_no_password_is_written_or_shown(self, tmp_path: Path) -> None:
        adoption = adopt_and_compare(tmp_path, {ALONE: self.FILE}, "5.18.3")

        everything = str(adoption.files) + str(adoption.differences) + str(adoption.notes) + str(adoption.secrets)
        assert "hush" not in everything
        assert "hush3" in self.FILE.decode()

    def test_each_has_a_place(self, tmp_path: Path) -> None:
        adoption = adopt_and_compare(tmp_path, {ALONE: self.FILE}, "5.18.3")

        assert {"app", "n"} <= set(adoption.secrets)
        assert len(adoption.secrets) >= 6

    def test_a_password_that_differs_between_hosts_has_two_places(self, tmp_path: Path) -> None:
        users = '<authenticationUser username="app" password="{}" groups="g"/>'
        plugin = "<plugins><simpleAuthenticationPlugin><users>{}</users></simpleAuthenticationPlugin></plugins>"
        files = {f"o-mq{n}-a": document(plugin.format(users.format(f"hush{n}"))) for n in (1, 2)}

        assert set(adopt_and_compare(tmp_path, files, "5.18.3").secrets) == {"app", "app-2"}

    def test_a_password_from_their_properties_is_asked_of_ours(self, tmp_path: Path) -> None:
        users = '<authenticationUser username="app" password="${app.password}" groups=""/>'
        plugin = f"<plugins><simpleAuthenticationPlugin><users>{users}</users></simpleAuthenticationPlugin></plugins>"
        adoption = adopt_and_compare(tmp_path, {ALONE: document(plugin)}, "5.18.3")

        said = {one.original: one.rendered for one in adoption.differences}
        assert said["${app.password}"] == "${activemq.user.app.password}"
        assert "app" in adoption.secrets

    def test_a_placeholder_that_no_rendered_file_resolves_is_told(self, tmp_path: Path) -> None:
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
            path for path in places(adoption) if "networkConnector" in path and path.endswith(("@uri", "@name"))
        ]

    def test_links_without_a_login_are_given_one_where_brokers_ask_for_it(self, tmp_path: Path) -> None:
        users = '<authenticationUser username="app" password="secret1" groups="x"/>'
        login = f"<plugins><simpleAuthenticationPlugin><users>{users}</users></simpleAuthenticationPlugin></plugins>"
        up = bridge_xml("up", "masterslave:(tcp://o-mq2-a:61616,tcp://o-mq2-b:61616)")
        files = pair_files("o-mq1-a", "o-mq1-b", up + login, "one") | pair_files("o-mq2-a", "o-mq2-b", login, "two")
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        added = [one.rendered for one in adoption.differences if one.path.endswith("[@name='up']/@userName")]
        assert added == ["network", "network"]
        assert "o-mq1-a, o-mq1-b: the original links have no user name" in str(adoption.notes)

    def test_a_link_to_one_node_says_nothing_of_how_pairs_are_dialled(self, tmp_path: Path) -> None:
        files = pair_files("o-mq1-a", "o-mq1-b", bridge_xml("up", "static:(tcp://o-mq2-a:61616)"), "one")
        files |= pair_files("o-mq2-a", "o-mq2-b", "", "two")
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        assert adopted_variables(adoption)["links"] == [{"from": "o-mq1", "to": "o-mq2", "name": "up"}]
        assert "discovery" not in adopted_variables(adoption)

    def test_a_bridge_of_one_node_only_stays_as_it_is(self, tmp_path: Path) -> None:
        files = pair_files("o-mq1-a", "o-mq1-b", "", "one") | pair_files("o-mq2-a", "o-mq2-b", "", "two")
        files["o-mq1-a"] = pair_files("o-mq1-a", "", bridge_xml("up", "static:(tcp://o-mq2-a:61616)"), "one")["o-mq1-a"]
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        assert any("up: the two nodes of the pair have different bridges" in note for note in adoption.notes)
        assert "links" not in adopted_variables(adoption)

    def test_a_fleet_without_logins_stays_without(self, tmp_path: Path) -> None:
        up = bridge_xml("up", "masterslave:(tcp://o-mq2-a:61616,tcp://o-mq2-b:61616)")
        files = pair_files("o-mq1-a", "o-mq1-b", up, "one") | pair_files("o-mq2-a", "o-mq2-b", "", "two")
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        assert adopted_variables(adoption)["authentication"] == "none"
        assert not [path for path in places(adoption) if "userName" in path or "plugins" in path]
        # Nothing uses an account of the network, so that the operator needs no password for it.
        assert adoption.secrets == {}
        assert "network_username" not in adopted_variables(adoption)
        account = {"network_username": "network", "network_password": "secret1"}
        asked = fleet_of(tmp_path, adoption, authentication="simple", **account)
        assert not asked.blocking_findings
        assert {account.name for broker in asked.brokers for account in broker.accounts} == {
            "network",
            "activemq-probe",
        }
        assert all("userName" in activemq_xml_by_host(asked)[host].decode() for host in ("o-mq1-a", "o-mq1-b"))

    @pytest.mark.parametrize("names", ["", 'userName="net" password="x1"'])
    def test_jaas_stays_in_force_and_the_notes_say_whom_it_must_know(self, names: str, tmp_path: Path) -> None:
        jaas = '<plugins><jaasAuthenticationPlugin configuration="mine"/></plugins>'
        up = (
            '<networkConnectors><networkConnector name="up" '
            f'uri="masterslave:(tcp://o-mq2-a:61616,tcp://o-mq2-b:61616)" {names}/></networkConnectors>'
        )
        files = pair_files("o-mq1-a", "o-mq1-b", up + jaas, "one") | pair_files("o-mq2-a", "o-mq2-b", jaas, "two")
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        assert adopted_variables(adoption)["authentication"] == "custom"
        assert not [path for path in places(adoption) if "plugins" in path]
        assert any('adopt keeps <jaasAuthenticationPlugin configuration="mine">' in note for note in adoption.notes)
        assert any("bridges (net)" in note for note in adoption.notes) is bool(names)

    def test_a_bridge_to_brokers_of_others_is_a_link_by_address(self, tmp_path: Path) -> None:
        up = bridge_xml("up", "static:(tcp://elsewhere.example.com:61617)", dynamicOnly="true", networkTTL="2")
        adoption = adopt_and_compare(tmp_path, pair_files("o-mq1-a", "o-mq1-b", up, "one"), "5.18.3")

        entry = {"from": "o-mq1", "to": "elsewhere", "addresses": ["elsewhere.example.com:61617"], "name": "up"}
        assert adopted_variables(adoption)["links"] == [entry]
        assert adopted_variables(adoption)["network_attributes"] == {"dynamicOnly": True}
        assert adopted_variables(adoption)["network_options"] == {}
        assert "xml_fragments" not in adopted_variables(adoption)

    def test_a_bridge_to_both_nodes_of_a_pair_by_name_says_that_its_store_is_relative(self, tmp_path: Path) -> None:
        up = bridge_xml("up", "masterslave:(tcp://o-mq2-a:61616,tcp://o-mq2-b:61616)")
        relative = '<persistenceAdapter><kahaDB directory="./data/two"/></persistenceAdapter>'
        files = pair_files("o-mq1-a", "o-mq1-b", up, "one")
        files |= {host: document(relative + OPENWIRE, brokerName="two") for host in ("o-mq2-a", "o-mq2-b")}
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        assert any(
            "are the pair o-mq2, but no file shows that both share a store (its path ./data/two is relative)" in note
            for note in adoption.notes
        )
        assert adopted_variables(adoption)["links"][0]["addresses"] == ["o-mq2-a:61616", "o-mq2-b:61616"]

    def test_a_multicast_network_with_names_of_its_own_is_discovery(self, tmp_path: Path) -> None:
        found = (
            '<networkConnectors><networkConnector uri="multicast://default" dynamicOnly="true"/></networkConnectors>'
        )
        announced = (
            "<transportConnectors><transportConnector name='openwire' uri='tcp://0.0.0.0:61616' "
            "discoveryUri='multicast://default'/></transportConnectors>"
        )
        files = {host: document(found + announced, brokerName=host) for host in ("o-mq1-a", "o-mq2-a")}
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        variables = adopted_variables(adoption)
        names = ("discovery", "multicast", "multicast_group", "multicast_name", "network_attributes", "network_ttl")
        assert [variables[name] for name in names] == [
            "multicast", "239.255.2.3:6155", "default", "NC", {"dynamicOnly": True}, 1,
        ]  # fmt: skip
        assert "xml_fragments" not in str(adoption.files)

    def test_brokers_of_one_machine_that_dial_its_loopback_are_linked(self, tmp_path: Path) -> None:
        def one(port: int, other: str = "") -> bytes:
            uri = f"tcp://0.0.0.0:{port}"
            listening = f"<transportConnectors><transportConnector name='c' uri='{uri}'/></transportConnectors>"
            return document(listening + other, brokerName=f"b{port}")

        files = {"n-mq1-a": one(61616, bridge_xml("up", "static:(tcp://localhost:61617)")), "n-mq2-a": one(61617)}
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        assert adopted_variables(adoption)["links"] == [{"from": "n-mq1", "to": "n-mq2", "name": "up"}]
        assert adopted_variables(adoption)["address"] == "localhost"

    def test_connectors_without_a_name_are_given_one(self, tmp_path: Path) -> None:
        unnamed = "<transportConnectors><transportConnector uri='tcp://0.0.0.0:61616'/></transportConnectors>"
        adoption = adopt_and_compare(tmp_path, {ALONE: document(unnamed, brokerName="x")}, "5.18.3")

        assert adopted_variables(adoption)["connectors"][0]["name"] == "openwire"
        assert places(adoption)["beans/broker/transportConnectors/transportConnector/@name"] == "rendered adds"

    def test_what_a_connector_has_of_its_own_are_variables(self, tmp_path: Path) -> None:
        two = (
            "<sslContext><sslContext keyStore='file:/k' keyStorePassword='p1' trustStore='file:/t' "
            "trustStorePassword='p2'/></sslContext><transportConnectors>"
            "<transportConnector name='stomp+nio' uri='stomp+nio://0.0.0.0:61613' allowLinkStealing='true' "
            "maximumConsumersAllowedPerConnection='7'/>"
            "<transportConnector name='tls' uri='nio+ssl://10.0.0.1:61617?maximumConnections=9'/></transportConnectors>"
        )
        adoption = adopt_and_compare(tmp_path, {ALONE: document(two, brokerName="x")}, "5.18.3")

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

    def test_what_shipped_files_have_beside_the_broker_are_variables(self, tmp_path: Path) -> None:
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
        new = adopt_and_compare(tmp_path / "new", {ALONE: document(broker, beans, brokerName="x")}, "5.18.3")

        assert [variables[name] for name in ("log_query", "imports", "shutdown_hooks", "jmx")] == [
            True, ["camel.xml"], ["org.apache.activemq.hooks.SpringContextHook"], {"port": 1098},
        ]  # fmt: skip
        assert "xml_fragments" not in {*variables, *adopted_variables(new)}
        assert any("adopt left out the bean logQuery" in note for note in new.notes)

    @pytest.mark.parametrize("uri", ["k8s://default?x=y", "http://agent:8080/x", "failover:(tcp://o-mq2-a:1)"])
    def test_a_bridge_that_nobody_recognises_stays_as_it_is(self, uri: str, tmp_path: Path) -> None:
        files = pair_files("o-mq1-a", "o-mq1-b", bridge_xml("up", uri, userName="n", password="${p}"), "one")
        adoption = adopt_and_compare(tmp_path, files, "5.18.3")

        assert not [path for path in places(adoption) if "networkConnectors" in path]
        assert any("adopt keeps the XML of this bridge in activemq_xml_fragments" in note for note in adoption.notes)

    def test_a_pure_pair_keeps_how_its_slave_dials(self, tmp_path: Path) -> None:
        slave = '<services><masterConnector remoteURI="tcp://o-mq1-b:61616" userName="s" password="hush"/></services>'
        files = {
            "o-mq1-b": document(OPENWIRE, brokerName="m", waitForSlave="true"),
            "o-mq1-a": document(slave + connectors_xml("tcp://0.0.0.0:61616"), brokerName="s"),
        }
        adoption = adopt_and_compare(tmp_path, files, "5.5.1")

        assert adopted_variables(adoption)["ha"] == "pure"
        assert adopted_variables(adoption)["master_node"] == "b"
        assert "beans/broker/services/masterConnector/@remoteURI" not in places(adoption)

    def test_a_pair_with_one_database_shares_it(self, tmp_path: Path) -> None:
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
        assert places(adoption)["beans/bean[@id='pg']"] == "rendered lacks"


# What stands where something else is expected; NAMES are put where others were, or beside them.
NASTY = [
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
NASTY += ["10 mb", "vm://x", "@.secrets/x@", "tcp://0.0.0.0:99999", "tcp://o-mq2-a:61616", "nio://0.0.0.0:61618"]
NASTY += ["multicast://default", "static:(tcp://o-mq2-a:61616)", "o-mq2-to-o-mq1"]
NASTY += ["static:(failover:(tcp://o-mq2-a:61616,tcp://o-mq2-b:61616))"]
NAMES = ["name", "uri", "brokerName", "password", "userName", "username", "groups", "limit", "duplex", "networkTTL"]
NAMES += ["id", "directory", "queue", "read", "discoveryUri", "remoteURI", "consumerTTL", "value", "zzz"]
INSERTED = [
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
FEW = max(10, settings().max_examples // 10)  # for each of the three bases: each example builds 17 fleets
HOW = ["set", "drop", "double", "move", "rename", "text", "insert"]
STEP = st.tuples(st.sampled_from(HOW), *[st.integers(0, 10_000)] * 3)
RIGHTS = [{"destination": "a", "kind": "queue", "read": "staff"}]
BASES = {
    "pure": activemq_xml_by_host(fleet("o-mq1", "o-mq2", domain="", ha="pure", release="5.5.1")),
    "shared": activemq_xml_by_host(fleet("o-mq1", "o-mq2", domain="", acl=RIGHTS, pair_links="static")),
    "alone": activemq_xml_by_host(fleet("o-mq1", "o-mq2", domain="", ha="none", release="5.8.0", topology="ring")),
}


def mutated(content: bytes, steps: list[tuple[str, int, int, int]]) -> bytes:
    root = etree.fromstring(content)
    for how, where, what, which in steps:
        elements = [element for element in root.iter(etree.Element) if element is not root]
        if not elements:
            break
        element = elements[where % len(elements)]
        names = [*map(str, element.attrib), *NAMES]
        value = NASTY[which % len(NASTY)]
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
            element.append(etree.fromstring(INSERTED[what % len(INSERTED)]))
    return etree.tostring(root)


@some_situations(1)
@pytest.mark.parametrize("base", BASES)
@given(where=st.lists(st.integers(0, 3), min_size=1, max_size=3), steps=st.lists(STEP, min_size=1, max_size=6))
@settings(max_examples=FEW)
def test_whatever_a_file_holds_the_list_is_complete(
    base: str, where: list[int], steps: list[tuple[str, int, int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    files = dict(BASES[base])
    for number in where:
        host = sorted(files)[number]
        files[host] = mutated(files[host], steps)
    try:
        adoption = write_and_adopt(tmp_path_factory.mktemp("adopt"), files, "5.5.1" if base == "pure" else "5.18.3")
    except FleetError as error:
        # Nothing but the one broker that a file must have keeps it from being adopted.
        assert "<broker>" in str(error)
        return
    found = render_without_ansible(adoption)
    for host, original in files.items():
        assert_listed_exactly(original, found[host], [one for one in adoption.differences if one.host == host])


def test_the_three_brokers_of_the_page_adopting_come_through(tmp_path: Path) -> None:
    """``docs/adopting.md``: two brokers linked to each other, one that dials both, and nobody logs in."""
    stock = (
        '<persistenceAdapter><kahaDB directory="${activemq.data}/kahadb"/></persistenceAdapter>'
        "<transportConnectors><transportConnector name='openwire' uri='tcp://0.0.0.0:61616?maximumConnections=1000'/>"
        "</transportConnectors>"
    )

    def dialling(*hosts: str) -> str:
        links = "".join(
            f'<networkConnector name="to-{host}" uri="static:(tcp://{host}:61616)" networkTTL="2" dynamicOnly="true"/>'
            for host in hosts
        )
        return f"<networkConnectors>{links}</networkConnectors>"

    files = {
        "core-mq01-a": document(dialling("core-mq02-a") + stock, brokerName="core1"),
        "core-mq02-a": document(dialling("core-mq01-a") + stock, brokerName="core2"),
        "edge-mq01-a": document(dialling("core-mq01-a", "core-mq02-a") + stock, brokerName="edge1"),
    }
    adoption = adopt_and_compare(tmp_path, files, "5.15.16")

    assert "xml_fragments" not in str(adoption.files)
    assert len(adopted_variables(adoption)["links"]) == 4
    assert adopted_variables(adoption)["authentication"] == "none"
    assert any("the file has the store directory ${activemq.data}/kahadb" in note for note in adoption.notes)
    account = {"network_username": "network", "network_password": "secret1"}
    asked = fleet_of(tmp_path, adoption, authentication="simple", **account)
    assert not asked.blocking_findings
    assert all(b"userName" in content for content in activemq_xml_by_host(asked).values())
