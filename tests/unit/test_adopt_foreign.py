"""Handwritten files: adopt keeps their settings, and its list of differences is complete."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree

from activemq_fleet.errors import FleetError
from tests.situations import some_situations
from tests.support.foreign_files import (
    ALONE,
    adopt_and_compare,
    adopted_variables,
    changed_fleet,
    connectors_xml,
    directions_by_path,
)
from tests.unit.adopt_files import (
    CORE,
    activemq_xml_by_host,
    assert_listed_exactly,
    document,
    render_adopted_inventory,
    render_without_ansible,
    write_and_adopt,
)
from tests.unit.fleets import fleet

SPRING = 'xmlns="http://www.springframework.org/schema/beans"'


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

    def test_adopt_keeps_entry_of_group_that_activemq_acl_cannot_name(self, tmp_path: Path) -> None:
        authorization_entries = (
            '<authorizationEntry queue="&gt;" read="apps" write="apps" admin="apps"/>'
            '<authorizationEntry queue="&gt;" read="mq admins" write="mq admins" admin="mq admins"/>'
            '<authorizationEntry queue="&gt;" read="apps"/>'
        )
        users = '<authenticationUser username="u" password="secret1" groups="apps"/>'
        plugins = (
            f"<plugins><simpleAuthenticationPlugin><users>{users}</users></simpleAuthenticationPlugin>"
            f"<authorizationPlugin><map><authorizationMap><authorizationEntries>{authorization_entries}</authorizationEntries>"
            "</authorizationMap></map></authorizationPlugin></plugins>"
        )
        adoption = adopt_and_compare(tmp_path, {ALONE: document(plugins, brokerName="x")}, "5.18.3")

        (fragment,) = adopted_variables(adoption)["xml_fragments"]
        assert str(fragment["xml"]).count("<authorizationEntry ") == 1
        assert 'read="mq admins" write="mq admins" admin="mq admins"' in str(fragment["xml"])
        lacking = [change.original or "" for change in adoption.differences if change.direction == "rendered lacks"]
        assert [original for original in lacking if "mq admins" in original] == []

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
