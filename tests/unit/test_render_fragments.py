"""XML fragments of users, merged into the rendered document."""

from __future__ import annotations

import difflib
from typing import Any

import pytest
from lxml import etree

from activemq_fleet.errors import SettingsError
from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from tests.unit.fleets import fleet

CORE = {"c": "http://activemq.apache.org/schema/core", "b": "http://www.springframework.org/schema/beans"}
SPRING = 'xmlns="http://www.springframework.org/schema/beans"'


def merge_fragment(xml: str, parent: str = "broker", **variables: Any) -> etree._Element:
    xml_fragments = [{"parent": parent, "xml": xml}]
    broker = fleet("o-mq1", "o-mq2", xml_fragments=xml_fragments, **variables).broker("o-mq1-a")
    return etree.fromstring(render_activemq_xml_bytes(broker))


def attributes_of(root: etree._Element, path: str) -> list[dict[str, str]]:
    elements: list[etree._Element] = root.xpath(path, namespaces=CORE)  # type: ignore[assignment]
    return [{str(name): str(value) for name, value in element.attrib.items()} for element in elements]


def test_fragment_tunes_store_and_keeps_rendered_attributes() -> None:
    root = merge_fragment(
        "<persistenceAdapter><kahaDB journalMaxFileLength='64mb' lockKeepAlivePeriod='3000'/></persistenceAdapter>"
    )

    assert attributes_of(root, "//c:kahaDB") == [
        {
            "directory": "/srv/activemq/o-mq1",
            "lockKeepAlivePeriod": "3000",
            "stopOnError": "true",
            "journalMaxFileLength": "64mb",
        }
    ]
    assert len(attributes_of(root, "//c:kahaDB/c:locker/c:shared-file-locker")) == 1


def test_parent_path_and_nested_fragment_give_same_document() -> None:
    document_of_path = merge_fragment("<kahaDB indexCacheSize='1'/>", parent="broker/persistenceAdapter")
    document_of_nested_fragment = merge_fragment(
        "<persistenceAdapter><kahaDB indexCacheSize='1'/></persistenceAdapter>"
    )

    assert etree.tostring(document_of_path) == etree.tostring(document_of_nested_fragment)


def test_fragment_tunes_network_connector_of_same_name() -> None:
    fragment = '<networkConnectors><networkConnector name="o-mq1-to-o-mq2" prefetchSize="1"/></networkConnectors>'

    assert [link["prefetchSize"] for link in attributes_of(merge_fragment(fragment), "//c:networkConnector")] == ["1"]


def test_fragment_with_different_name_adds_network_connector() -> None:
    fragment = '<networkConnector name="elsewhere" uri="static:(tcp://x:1)"/>'
    root = merge_fragment(fragment, parent="broker/networkConnectors")

    assert [link["name"] for link in attributes_of(root, "//c:networkConnector")] == ["o-mq1-to-o-mq2", "elsewhere"]


def test_policy_for_all_queues_is_merged_with_rendered_policy() -> None:
    policy_entries = '<policyEntry queue=">" memoryLimit="1mb"/><policyEntry topic=">"/>'
    fragment = (
        f"<destinationPolicy><policyMap><policyEntries>{policy_entries}</policyEntries></policyMap></destinationPolicy>"
    )
    root = merge_fragment(fragment)

    assert attributes_of(root, "//c:policyEntry") == [
        {"queue": ">", "memoryLimit": "1mb"},
        {"topic": ">", "topicPrefetch": "100"},
    ]
    assert len(attributes_of(root, "//c:policyEntry/c:networkBridgeFilterFactory")) == 1


def test_fragment_adds_permissions_and_replaces_none() -> None:
    acl = [{"destination": "a", "kind": "queue", "read": "staff"}]
    fragment = '<authorizationEntry queue="a" read="others"/>'
    root = merge_fragment(
        fragment, "broker/plugins/authorizationPlugin/map/authorizationMap/authorizationEntries", acl=acl
    )

    assert [entry["read"] for entry in attributes_of(root, "//c:authorizationEntry[@queue='a']")] == ["staff", "others"]


def test_nested_elements_of_xml_fragment_have_order_of_schema() -> None:
    fragment = "<pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy><deadLetterStrategy/>"
    root = merge_fragment(fragment, "broker/destinationPolicy/policyMap/policyEntries/policyEntry", release="5.5.1")
    policy_entry = root.find(".//c:policyEntry", CORE)
    assert policy_entry is not None

    assert [etree.QName(child).localname for child in policy_entry] == ["deadLetterStrategy", "pendingQueuePolicy"]


def test_xml_fragment_keeps_spring_beans_and_comments_unchanged() -> None:
    fragment = f'<plugins><!-- ours --><bean {SPRING} class="a.B"><property name="x" value="${{y}}"/></bean></plugins>'
    root = merge_fragment(fragment)
    plugins = root.find(".//c:plugins", CORE)
    assert plugins is not None

    assert b"<!-- ours -->" in etree.tostring(plugins)
    assert attributes_of(root, "//c:plugins/b:bean/b:property") == [{"name": "x", "value": "${y}"}]


def test_merged_elements_of_xml_fragment_have_layout_of_document() -> None:
    lines = (
        etree.tostring(merge_fragment("<destinations><queue physicalName='a'/></destinations>")).decode().splitlines()
    )

    assert "    <destinations>" in lines
    assert '      <queue physicalName="a"/>' in lines


def test_xml_fragment_does_not_merge_two_spring_beans() -> None:
    fragment = f'<bean {SPRING} id="a" class="A"/><bean {SPRING} id="b" class="B"/>'
    root = merge_fragment(fragment, "beans")

    assert [bean.get("id") for bean in attributes_of(root, "/b:beans/b:bean[@id]")] == ["a", "b"]


def test_fragment_replaces_store_of_different_kind() -> None:
    root = merge_fragment("<persistenceAdapter><memoryPersistenceAdapter/></persistenceAdapter>")

    assert [etree.QName(store).localname for store in root.findall(".//c:persistenceAdapter/*", CORE)] == [
        "memoryPersistenceAdapter"
    ]


def test_fragment_replaces_locker_of_different_kind() -> None:
    root = merge_fragment(
        "<persistenceAdapter><kahaDB><locker><database-locker/></locker></kahaDB></persistenceAdapter>"
    )

    assert [etree.QName(locker).localname for locker in root.findall(".//c:kahaDB/c:locker/*", CORE)] == [
        "database-locker"
    ]


def test_fragment_sets_master_uri_of_slave() -> None:
    fragments = [{"xml": "<services><masterConnector remoteURI='tcp://10.0.0.1:61616'/></services>"}]
    pure_fleet = fleet("o-mq1", "o-mq2", xml_fragments=fragments, release="5.5.1", ha="pure")
    root = etree.fromstring(render_activemq_xml_bytes(pure_fleet.broker("o-mq1-b")))

    assert [connector["remoteURI"] for connector in attributes_of(root, "//c:masterConnector")] == [
        "tcp://10.0.0.1:61616"
    ]


@pytest.mark.parametrize(
    ("xml", "parent", "message"),
    [
        (
            "<broker useJmx='false'/>",
            "beans",
            "contains <broker>, which activemq.xml has already: set parent to broker",
        ),
        ("<plugins/> and more", "broker", "must consist of XML elements, without text"),
        ("more <plugins/>", "broker", "must consist of XML elements, without text"),
    ],
)
def test_fragment_with_text_or_second_broker_is_refused(xml: str, parent: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        merge_fragment(xml, parent)

    assert str(caught.value).startswith("o-mq1-a.example.com: in activemq_xml_fragments[0]")
    assert message in str(caught.value)


def test_network_connectors_without_name_are_not_merged() -> None:
    uris = ["static:(tcp://north:61616)", "static:(tcp://south:61616)"]
    root = merge_fragment("".join(f'<networkConnector uri="{uri}"/>' for uri in uris), "broker/networkConnectors")

    assert [link["uri"] for link in attributes_of(root, "//c:networkConnector[not(@name)]")] == uris


def test_policies_of_temporary_queues_and_topics_are_not_merged() -> None:
    policy_entries = ['<policyEntry tempQueue="true"/>', '<policyEntry tempTopic="true"/>']
    root = merge_fragment("".join(policy_entries), "broker/destinationPolicy/policyMap/policyEntries")

    assert [
        entry for entry in attributes_of(root, "//c:policyEntry") if "queue" not in entry and "topic" not in entry
    ] == [
        {"tempQueue": "true"},
        {"tempTopic": "true"},
    ]


def test_bean_of_xml_fragment_next_to_broker_gets_spring_namespace() -> None:
    root = merge_fragment('<bean id="mine" class="x.Mine"><property name="a" value="b"/></bean>', "beans")

    assert len(attributes_of(root, "/b:beans/b:bean[@id='mine']/b:property")) == 1


def changed_lines(*fragments: tuple[str, str], **variables: Any) -> tuple[list[str], list[str]]:
    """Return the lines of activemq.xml that fragments (parent and XML) remove and add, without empty lines."""
    fragments_with_parent = [{"parent": parent, "xml": xml} for parent, xml in fragments]
    before, after = (
        render_activemq_xml_bytes(fleet("o-mq1", "o-mq2", xml_fragments=xml_fragments, **variables).broker("o-mq1-a"))
        .decode()
        .splitlines()
        for xml_fragments in ([], fragments_with_parent)
    )
    lines = list(difflib.ndiff(before, after))
    removed, added = ([line[2:] for line in lines if line.startswith(mark) and line[2:]] for mark in "-+")
    return removed, added


@pytest.mark.parametrize(
    ("parent", "xml", "added"),
    [
        (
            "broker",
            "<destinations><queue physicalName='a'/></destinations>",
            ["    <destinations>", '      <queue physicalName="a"/>', "    </destinations>"],
        ),
        (
            "broker/networkConnectors",
            "<networkConnector name='n' uri='static:(tcp://x:1)'/>",
            ['      <networkConnector name="n" uri="static:(tcp://x:1)"/>'],
        ),
        (
            "broker",
            "<plugins><!-- ours --><statisticsBrokerPlugin/></plugins>",
            ["      <!-- ours -->", "      <statisticsBrokerPlugin/>"],
        ),
        ("beans", "<bean id='a' class='A'/>", ['  <bean id="a" class="A"/>']),
        (
            "broker/destinationPolicy/policyMap/policyEntries/policyEntry",
            "<deadLetterStrategy><discarding/></deadLetterStrategy>",
            ["            <deadLetterStrategy>", "              <discarding/>", "            </deadLetterStrategy>"],
        ),
    ],
)
def test_fragment_adds_its_lines_and_changes_no_other(parent: str, xml: str, added: list[str]) -> None:
    assert changed_lines((parent, xml)) == ([], added)


@pytest.mark.parametrize("release", ["5.5.1", "5.8.0", "6.3.1"])
@pytest.mark.parametrize(
    "variables",
    [
        {"acl": [{"destination": "a.>", "kind": "queue", "read": "staff"}], "runtime_configuration": True},
        {"ha": "none", "topology": "none", "console": False},
        {"tls": {"keystore": "/k", "keystore_password": "p4ssw0rd", "truststore": "/t", "truststore_password": "p4ss"}},
        {"shutdown_hooks": ["a.B"], "imports": ["other.xml"], "destinations": ["queue://a.b"]},
    ],
)
def test_fragment_keeps_each_line_of_any_fleet(release: str, variables: dict[str, Any]) -> None:
    removed, added = changed_lines(("beans", "<bean id='a' class='A'/>"), release=release, **variables)
    assert (removed, added) == ([], ['  <bean id="a" class="A"/>'])


def test_attributes_that_xml_fragment_changes_keep_layout_of_their_element() -> None:
    link = "<networkConnector name='o-mq1-to-o-mq2' duplex='true' prefetchSize='1'/>"
    removed, added = changed_lines(("broker/networkConnectors", link))
    indent = " " * 24
    assert removed[0] == f'{indent}duplex="false"'
    assert added[0] == f'{indent}duplex="true"'
    assert added[-1] == f'{indent}prefetchSize="1"/>'
    assert len(removed) == len(added) - 1 == 2


def test_two_xml_fragments_make_changes_of_both() -> None:
    queue, bean = "<destinations><queue physicalName='a'/></destinations>", "<bean id='a' class='A'/>"
    removed, added = changed_lines(("broker", queue), ("beans", bean))
    assert removed == []
    assert sorted(added) == sorted(changed_lines(("broker", queue))[1] + changed_lines(("beans", bean))[1])
