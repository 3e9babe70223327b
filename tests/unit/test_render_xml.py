"""The rendered activemq.xml of a broker."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from activemq_fleet.errors import SettingsError
from activemq_fleet.render import file_mode_of, render_agent, render_broker, render_hosts
from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.render.engine import escape_properties_key, escape_properties_value, escape_xml
from activemq_fleet.render.policies_usage_and_plugins import default_memory_limit_text
from activemq_fleet.render.rendered_header import ActivemqXmlHeader, read_activemq_xml_header
from activemq_fleet.topology import build_fleet
from tests.unit.fleets import fleet, hosts

CORE = {"c": "http://activemq.apache.org/schema/core"}


def parsed_activemq_xml(host: str, *pairs: str, **variables: Any) -> etree._Element:
    return etree.fromstring(render_activemq_xml_bytes(fleet(*pairs, **variables).broker(host)))


def attributes_of_element(root: etree._Element, path: str) -> dict[str, str]:
    """Return the attributes of the only element at ``path``."""
    elements = root.findall("." + path, CORE)
    assert len(elements) == 1, path
    return {str(name): str(value) for name, value in elements[0].items()}


def child_names(root: etree._Element, path: str) -> list[str]:
    """Return the names of the elements below the element at ``path``, without comments."""
    element = root.find(path, CORE)
    assert element is not None, path
    return [etree.QName(child).localname for child in element if isinstance(child.tag, str)]


def test_pure_master_waits_for_slave_and_links_by_multicast() -> None:
    root = parsed_activemq_xml("c-mq01-a", "c-mq01", "c-mq02", release="5.5.1", ha="pure")
    broker = attributes_of_element(root, "//c:broker")

    assert broker["waitForSlave"] == "true"
    assert broker["shutdownOnSlaveFailure"] == "false"
    assert broker["networkConnectorStartAsync"] == "true"
    assert broker["brokerName"] == "c-mq01-a"
    assert attributes_of_element(root, "//c:networkConnector") == {
        "name": "c-mq01-a-c",
        "uri": "multicast://224.1.2.3:6255?group=c",
        "duplex": "true",
        "networkTTL": "3",
        "decreaseNetworkConsumerPriority": "true",
        "userName": "net",
        "password": "${activemq.network.password}",
    }
    listening = [c.get("uri", "").partition("?")[0] for c in root.iterfind(".//c:transportConnector", CORE)]
    assert listening == ["nio://0.0.0.0:61616", "nio://0.0.0.0:61618", "stomp+nio://0.0.0.0:61613"]


def test_pure_slave_has_no_connectors_and_connects_to_master_without_failover() -> None:
    root = parsed_activemq_xml("c-mq01-b", "c-mq01", "c-mq02", release="5.5.1", ha="pure")

    assert root.find(".//c:transportConnectors", CORE) is None
    assert attributes_of_element(root, "//c:masterConnector")["remoteURI"] == "nio://c-mq01-a.example.com:61618"
    assert attributes_of_element(root, "//c:networkConnector")["duplex"] == "false"
    assert "waitForSlave" not in attributes_of_element(root, "//c:broker")


def test_uri_of_host_without_domain_is_plain_host_name() -> None:
    root = parsed_activemq_xml("c-mq01-b", "c-mq01", release="5.5.1", ha="pure", domain="")

    assert attributes_of_element(root, "//c:masterConnector")["remoteURI"] == "nio://c-mq01-a:61618"


@pytest.mark.parametrize(
    ("host", "settings", "is_preferred_master"),
    [
        ("c-mq01-a", {"release": "5.5.1", "ha": "pure"}, True),
        ("c-mq01-b", {"release": "5.18.3", "ha": "shared-file"}, False),
        ("c-mq01-b", {"release": "6.3.1", "ha": "none"}, False),
    ],
)
def test_header_of_rendered_activemq_xml_can_be_read(
    host: str, settings: dict[str, str], is_preferred_master: bool
) -> None:
    activemq_xml = render_activemq_xml_bytes(fleet("c-mq01", **settings).broker(host))

    assert read_activemq_xml_header(activemq_xml) == ActivemqXmlHeader(settings["release"], is_preferred_master)


@pytest.mark.parametrize("hyphens", ["--", "---", "----"])
def test_hyphens_of_host_name_do_not_end_xml_comment(hyphens: str) -> None:
    assert (
        attributes_of_element(parsed_activemq_xml(f"a{hyphens}b-mq1-a", f"a{hyphens}b-mq1"), "//c:broker")["brokerName"]
        == f"a{hyphens}b-mq1"
    )


def test_nodes_of_shared_pair_have_same_name_store_and_lock() -> None:
    a, b = (parsed_activemq_xml(host, "o-mq1", "o-mq2") for host in ("o-mq1-a", "o-mq1-b"))

    assert attributes_of_element(a, "//c:kahaDB") == attributes_of_element(b, "//c:kahaDB")
    assert attributes_of_element(a, "//c:kahaDB")["directory"] == "/srv/activemq/o-mq1"
    assert attributes_of_element(a, "//c:kahaDB")["lockKeepAlivePeriod"] == "2000"
    assert attributes_of_element(a, "//c:shared-file-locker") == {"lockAcquireSleepInterval": "1000"}
    assert (
        attributes_of_element(a, "//c:broker")["brokerName"]
        == attributes_of_element(b, "//c:broker")["brokerName"]
        == "o-mq1"
    )


def test_lock_interval_is_attribute_of_store_before_5_7() -> None:
    root = parsed_activemq_xml("o-mq1-a", "o-mq1", release="5.5.1")

    assert attributes_of_element(root, "//c:kahaDB") == {
        "directory": "/srv/activemq/o-mq1",
        "databaseLockedWaitDelay": "1000",
    }
    assert root.find(".//c:locker", CORE) is None


JDBC = {
    "url": "jdbc:postgresql://db/x?a=1&b=2",
    "driver": "org.postgresql.Driver",
    "username": "u",
    "password": "p",
}


@pytest.mark.parametrize(
    ("release", "interval", "lease", "keep_alive"),
    [("6.3.1", 3000, "3000", "1500"), ("5.7.0", None, "5000", "2500"), ("5.7.0", 3000, "5000", "2500")],
)
def test_lease_is_renewed_after_half_of_its_length(
    release: str, interval: int | None, lease: str, keep_alive: str
) -> None:
    root = parsed_activemq_xml(
        "o-mq1-b", "o-mq1", release=release, ha="shared-jdbc", jdbc=JDBC, lock_acquire_interval=interval
    )

    assert attributes_of_element(root, "//c:jdbcPersistenceAdapter")["lockKeepAlivePeriod"] == keep_alive
    assert attributes_of_element(root, "//c:lease-database-locker")["lockAcquireSleepInterval"] == lease


def test_default_lease_is_twice_its_keep_alive_and_held_by_host() -> None:
    root = parsed_activemq_xml("o-mq1-b", "o-mq1", ha="shared-jdbc", jdbc=JDBC)

    assert attributes_of_element(root, "//c:jdbcPersistenceAdapter")["lockKeepAlivePeriod"] == "5000"
    assert attributes_of_element(root, "//c:lease-database-locker") == {
        "lockAcquireSleepInterval": "10000",
        "leaseHolderId": "o-mq1-b",
        "maxAllowableDiffFromDBTime": "1000",
    }
    assert attributes_of_element(root, "//c:leaseLockerIOExceptionHandler") == {"ignoreNoSpaceErrors": "false"}


@pytest.mark.parametrize(("release", "corrected"), [("5.8.0", False), ("5.9.0", True)])
def test_clock_is_corrected_by_database_only_from_release_5_9(release: str, corrected: bool) -> None:
    root = parsed_activemq_xml("o-mq1-b", "o-mq1", release=release, ha="shared-jdbc", jdbc=JDBC)

    assert ("maxAllowableDiffFromDBTime" in attributes_of_element(root, "//c:lease-database-locker")) == corrected


@pytest.mark.parametrize(
    ("url", "element"),
    [
        ("jdbc:postgresql://db/x", "postgresql-jdbc-adapter"),
        ("jdbc:mariadb://db/x", "mysql-jdbc-adapter"),
        ("jdbc:oracle:thin:@db:1521/x", None),
    ],
)
def test_jdbc_adapter_is_named_where_releases_do_not_recognize_driver(url: str, element: str | None) -> None:
    root = parsed_activemq_xml("o-mq1-b", "o-mq1", ha="shared-jdbc", jdbc=JDBC | {"url": url})

    adapter = root.find(".//c:jdbcPersistenceAdapter/c:adapter/*", CORE)
    assert (adapter.tag.rpartition("}")[2] if adapter is not None else None) == element


@pytest.mark.parametrize(("release", "audit"), [("5.5.1", None), ("5.8.0", "false"), ("5.9.0", "unset")])
def test_replay_without_consumers_is_enabled_where_release_supports_it(release: str, audit: str | None) -> None:
    root = parsed_activemq_xml("o-mq1-a", "o-mq1", "o-mq2", release=release)
    policy_entry = root.find(".//c:policyEntry[@queue]", CORE)

    assert (policy_entry is None) == (audit is None)
    if policy_entry is not None:
        assert policy_entry.get("enableAudit", "unset") == audit
        assert (
            attributes_of_element(root, "//c:conditionalNetworkBridgeFilterFactory")["replayWhenNoConsumers"] == "true"
        )


@pytest.mark.parametrize("release", ["5.5.1", "5.7.0", "5.18.3", "6.3.1"])
def test_children_of_broker_element_are_sorted_and_unique(release: str) -> None:
    fragment = [{"parent": "broker", "xml": "<destinations><queue physicalName='q'/></destinations>"}]
    root = parsed_activemq_xml("o-mq1-a", "o-mq1", "o-mq2", release=release, xml_fragments=fragment)
    names = child_names(root, "c:broker")

    assert names == sorted(set(names))
    assert "destinations" in names


def test_fragment_is_merged_into_existing_element() -> None:
    fragment = [{"parent": "broker", "xml": "<plugins><statisticsBrokerPlugin/></plugins>"}]
    root = parsed_activemq_xml("o-mq1-a", "o-mq1", xml_fragments=fragment)

    assert child_names(root, ".//c:plugins") == ["simpleAuthenticationPlugin", "statisticsBrokerPlugin"]


@pytest.mark.parametrize(
    ("fragment", "message"),
    [
        ({"xml": "<plugins>"}, "in activemq_xml_fragments[0], the value of xml is not well-formed"),
        ({"xml": "text"}, "must consist of XML elements, without text"),
        ({"xml": "<x>&boom;</x>"}, "in activemq_xml_fragments[0], the value of xml"),
        ({"parent": "brokers", "xml": "<x/>"}, "parent must begin with broker, not 'brokers'"),
    ],
)
def test_invalid_fragment_is_refused_with_host_and_reason(fragment: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parsed_activemq_xml("o-mq1-a", "o-mq1", xml_fragments=[fragment])

    assert "o-mq1-a.example.com" in str(caught.value)
    assert message in str(caught.value)


def test_secrets_are_only_in_revealed_files_of_mode_0640() -> None:
    users = [{"name": "ann", "password": "hush-ann", "groups": "admins"}]
    agent = {"a1": {"activemq_agent_username": "agent", "activemq_agent_password": "hush-agent"}}
    built_fleet = build_fleet(
        hosts("o-mq1", "o-mq2", network_password="hush-net", users=users) | agent, {"activemq_agents": ["a1"]}
    )

    for tree in render_hosts(built_fleet).values():
        assert not [path for path, content in tree.items() if b"hush" in content]
    for tree in (render_broker(built_fleet.brokers[0], reveal=True), render_agent(built_fleet.agents[0], reveal=True)):
        assert {file_mode_of(path) for path, content in tree.items() if b"hush" in content} == {0o640}


@pytest.mark.parametrize(
    "paths",
    [["conf/activemq.xml"], ["conf"], ["conf/activemq.xml/x"], ["conf/a", "conf/a"], ["a", "a/b"], ["a/b", "a"]],
)
def test_extra_file_at_occupied_path_is_refused(paths: list[str]) -> None:
    extra = [{"path": path, "content": "x"} for path in paths]

    with pytest.raises(SettingsError, match=rf"activemq_extra_files\[{len(paths) - 1}\]"):
        render_broker(fleet("o-mq1", extra_files=extra).broker("o-mq1-a"))


@pytest.mark.parametrize(("heap", "limit"), [("512m", "204 mb"), ("4g", "1638 mb"), ("1m", "1 mb")])
def test_default_memory_limit_is_40_percent_of_heap_and_at_least_1_mb(heap: str, limit: str) -> None:
    assert default_memory_limit_text(heap) == limit


@pytest.mark.parametrize(
    ("option", "limit"), [("-Xmx8g", "3276 mb"), ("-XX:MaxHeapSize=268435456", "102 mb"), ("-Xms8g", "204 mb")]
)
def test_default_memory_limit_follows_heap_in_java_options(option: str, limit: str) -> None:
    root = parsed_activemq_xml("o-mq1-a", "o-mq1", java_options=[option])

    assert attributes_of_element(root, "//c:memoryUsage/c:memoryUsage") == {"limit": limit}


XML_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Cn"), include_characters="\t\n\r"))


@given(XML_TEXT)
def test_escaped_xml_text_is_read_back_unchanged(text: str) -> None:
    assert etree.fromstring(f'<a b="{escape_xml(text)}"/>').get("b") == text


def read_properties(text: str) -> dict[str, str]:
    """Read java.util.Properties lines; support only the escapes that the writer uses."""
    characters: list[list[str]] = [[], []]
    side, position = 0, 0
    while position < len(text):
        char = text[position]
        if char == "\\":
            following = text[position + 1]
            if following == "u":
                characters[side].append(chr(int(text[position + 2 : position + 6], 16)))
                position += 6
                continue
            characters[side].append({"n": "\n", "r": "\r", "t": "\t", "f": "\f"}.get(following, following))
            position += 2
            continue
        if char == "=" and side == 0:
            side = 1
        else:
            characters[side].append(char)
        position += 1
    key, value = ("".join(part).encode("utf-16", "surrogatepass").decode("utf-16") for part in characters)
    return {key: value}


@given(st.text(min_size=1), st.text())
def test_escaped_property_is_read_back_unchanged(key: str, value: str) -> None:
    line = f"{escape_properties_key(key)}={escape_properties_value(value)}"

    assert line.isascii()
    assert "\n" not in line
    assert read_properties(line) == {key: value}
