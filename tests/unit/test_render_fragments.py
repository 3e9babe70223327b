"""The user's own XML, merged into the document that is rendered."""

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


def merged(xml: str, parent: str = "broker", **variables: Any) -> etree._Element:
    fragments = [{"parent": parent, "xml": xml}]
    broker = fleet("o-mq1", "o-mq2", xml_fragments=fragments, **variables).broker("o-mq1-a")
    return etree.fromstring(render_activemq_xml_bytes(broker))


def found(root: etree._Element, path: str) -> list[dict[str, str]]:
    elements: list[etree._Element] = root.xpath(path, namespaces=CORE)  # type: ignore[assignment]
    return [{str(name): str(value) for name, value in element.attrib.items()} for element in elements]


def test_the_store_is_tuned_and_keeps_what_was_decided() -> None:
    root = merged(
        "<persistenceAdapter><kahaDB journalMaxFileLength='64mb' lockKeepAlivePeriod='3000'/></persistenceAdapter>"
    )

    assert found(root, "//c:kahaDB") == [
        {
            "directory": "/srv/activemq/o-mq1",
            "lockKeepAlivePeriod": "3000",
            "stopOnError": "true",
            "journalMaxFileLength": "64mb",
        }
    ]
    assert len(found(root, "//c:kahaDB/c:locker/c:shared-file-locker")) == 1


def test_the_path_of_a_parent_reaches_the_same_place() -> None:
    below = merged("<kahaDB indexCacheSize='1'/>", parent="broker/persistenceAdapter")
    whole = merged("<persistenceAdapter><kahaDB indexCacheSize='1'/></persistenceAdapter>")

    assert etree.tostring(below) == etree.tostring(whole)


def test_a_link_is_tuned_by_its_name() -> None:
    own = '<networkConnectors><networkConnector name="o-mq1-to-o-mq2" prefetchSize="1"/></networkConnectors>'

    assert [link["prefetchSize"] for link in found(merged(own), "//c:networkConnector")] == ["1"]


def test_a_link_with_another_name_is_another_link() -> None:
    own = '<networkConnector name="elsewhere" uri="static:(tcp://x:1)"/>'
    root = merged(own, parent="broker/networkConnectors")

    assert [link["name"] for link in found(root, "//c:networkConnector")] == ["o-mq1-to-o-mq2", "elsewhere"]


def test_a_policy_for_all_queues_joins_the_one_that_lets_messages_go_back() -> None:
    entries = '<policyEntry queue=">" memoryLimit="1mb"/><policyEntry topic=">"/>'
    own = f"<destinationPolicy><policyMap><policyEntries>{entries}</policyEntries></policyMap></destinationPolicy>"
    root = merged(own)

    assert found(root, "//c:policyEntry") == [
        {"queue": ">", "memoryLimit": "1mb"},
        {"topic": ">", "topicPrefetch": "100"},
    ]
    assert len(found(root, "//c:policyEntry/c:networkBridgeFilterFactory")) == 1


def test_permissions_are_added_and_never_replaced() -> None:
    acl = [{"destination": "a", "kind": "queue", "read": "staff"}]
    own = '<authorizationEntry queue="a" read="others"/>'
    root = merged(own, "broker/plugins/authorizationPlugin/map/authorizationMap/authorizationEntries", acl=acl)

    assert [entry["read"] for entry in found(root, "//c:authorizationEntry[@queue='a']")] == ["staff", "others"]


def test_properties_of_a_nested_bean_are_in_order_too() -> None:
    own = "<pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy><deadLetterStrategy/>"
    root = merged(own, "broker/destinationPolicy/policyMap/policyEntries/policyEntry", release="5.5.1")
    entry = root.find(".//c:policyEntry", CORE)
    assert entry is not None

    assert [etree.QName(child).localname for child in entry] == ["deadLetterStrategy", "pendingQueuePolicy"]


def test_beans_of_spring_and_comments_stay_as_they_are() -> None:
    own = f'<plugins><!-- ours --><bean {SPRING} class="a.B"><property name="x" value="${{y}}"/></bean></plugins>'
    root = merged(own)
    plugins = root.find(".//c:plugins", CORE)
    assert plugins is not None

    assert b"<!-- ours -->" in etree.tostring(plugins)
    assert found(root, "//c:plugins/b:bean/b:property") == [{"name": "x", "value": "${y}"}]


def test_what_was_merged_reads_like_the_rest() -> None:
    lines = etree.tostring(merged("<destinations><queue physicalName='a'/></destinations>")).decode().splitlines()

    assert "    <destinations>" in lines
    assert '      <queue physicalName="a"/>' in lines


def test_two_beans_of_spring_are_two() -> None:
    own = f'<bean {SPRING} id="a" class="A"/><bean {SPRING} id="b" class="B"/>'

    assert [bean.get("id") for bean in found(merged(own, "beans"), "/b:beans/b:bean[@id]")] == ["a", "b"]


def test_another_kind_of_store_takes_the_place_of_ours() -> None:
    root = merged("<persistenceAdapter><memoryPersistenceAdapter/></persistenceAdapter>")

    assert [etree.QName(store).localname for store in root.findall(".//c:persistenceAdapter/*", CORE)] == [
        "memoryPersistenceAdapter"
    ]


def test_another_kind_of_locker_takes_the_place_of_ours_and_the_store_stays() -> None:
    root = merged("<persistenceAdapter><kahaDB><locker><database-locker/></locker></kahaDB></persistenceAdapter>")

    assert [etree.QName(locker).localname for locker in root.findall(".//c:kahaDB/c:locker/*", CORE)] == [
        "database-locker"
    ]


def test_a_slave_dials_its_one_master_as_told() -> None:
    fragments = [{"xml": "<services><masterConnector remoteURI='tcp://10.0.0.1:61616'/></services>"}]
    found_fleet = fleet("o-mq1", "o-mq2", xml_fragments=fragments, release="5.5.1", ha="pure")
    root = etree.fromstring(render_activemq_xml_bytes(found_fleet.broker("o-mq1-b")))

    assert [connector["remoteURI"] for connector in found(root, "//c:masterConnector")] == ["tcp://10.0.0.1:61616"]


@pytest.mark.parametrize(
    ("xml", "parent", "said"),
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
def test_what_would_be_lost_or_doubled_is_refused(xml: str, parent: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        merged(xml, parent)

    assert str(caught.value).startswith("o-mq1-a.example.com: in activemq_xml_fragments[0]")
    assert said in str(caught.value)


def test_two_links_without_a_name_are_two() -> None:
    uris = ["static:(tcp://north:61616)", "static:(tcp://south:61616)"]
    root = merged("".join(f'<networkConnector uri="{uri}"/>' for uri in uris), "broker/networkConnectors")

    assert [link["uri"] for link in found(root, "//c:networkConnector[not(@name)]")] == uris


def test_policies_of_temporary_destinations_are_two() -> None:
    entries = ['<policyEntry tempQueue="true"/>', '<policyEntry tempTopic="true"/>']
    root = merged("".join(entries), "broker/destinationPolicy/policyMap/policyEntries")

    assert [entry for entry in found(root, "//c:policyEntry") if "queue" not in entry and "topic" not in entry] == [
        {"tempQueue": "true"},
        {"tempTopic": "true"},
    ]


def test_a_bean_beside_the_broker_is_springs_without_saying_so() -> None:
    root = merged('<bean id="mine" class="x.Mine"><property name="a" value="b"/></bean>', "beans")

    assert len(found(root, "/b:beans/b:bean[@id='mine']/b:property")) == 1


def changed_lines(*fragments: tuple[str, str], **variables: Any) -> tuple[list[str], list[str]]:
    """Return the lines of activemq.xml that fragments (parent and XML) remove and add, without empty lines."""
    texts = [{"parent": parent, "xml": xml} for parent, xml in fragments]
    before, after = (
        render_activemq_xml_bytes(fleet("o-mq1", "o-mq2", xml_fragments=given, **variables).broker("o-mq1-a"))
        .decode()
        .splitlines()
        for given in ([], texts)
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


def test_changed_attributes_keep_the_layout_of_their_element() -> None:
    link = "<networkConnector name='o-mq1-to-o-mq2' duplex='true' prefetchSize='1'/>"
    removed, added = changed_lines(("broker/networkConnectors", link))
    indent = " " * 24
    assert removed[0] == f'{indent}duplex="false"'
    assert added[0] == f'{indent}duplex="true"'
    assert added[-1] == f'{indent}prefetchSize="1"/>'
    assert len(removed) == len(added) - 1 == 2


def test_two_fragments_change_what_each_of_them_changes() -> None:
    queue, bean = "<destinations><queue physicalName='a'/></destinations>", "<bean id='a' class='A'/>"
    removed, added = changed_lines(("broker", queue), ("beans", bean))
    assert removed == []
    assert sorted(added) == sorted(changed_lines(("broker", queue))[1] + changed_lines(("beans", bean))[1])
