"""Data of the library about releases, compared with the schemas and jars that Maven delivers."""

from __future__ import annotations

import re
import zipfile
from functools import cache

import pytest

from activemq_fleet.artifacts import fetch_jar_directory, load_schema
from activemq_fleet.releases import Release
from activemq_fleet.releases._data import load_element_and_attribute_spans
from activemq_fleet.schema import CompiledActivemqXsd, XmlDocument
from tests.xsds import broker

RELEASES = ("5.5.1", "5.6.0", "5.8.0", "5.9.1", "5.11.4", "5.17.6", "6.3.1")

LOCKER = '<locker><shared-file-locker lockAcquireSleepInterval="1000"/></locker>'
LEASE = (
    '<jdbcPersistenceAdapter dataSource="#ds" lockKeepAlivePeriod="5000">'
    '<locker><lease-database-locker leaseHolderId="a" lockAcquireSleepInterval="10000"/></locker>'
    "</jdbcPersistenceAdapter>"
)
REPLAY = (
    '<destinationPolicy><policyMap><policyEntries><policyEntry queue="&gt;"><networkBridgeFilterFactory>'
    '<conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true"/>'
    "</networkBridgeFilterFactory></policyEntry></policyEntries></policyMap></destinationPolicy>"
)
MULTI_KAHADB = (
    '<persistenceAdapter><mKahaDB directory="d"><filteredPersistenceAdapters>'
    '<filteredKahaDB perDestination="true"><persistenceAdapter><kahaDB/></persistenceAdapter></filteredKahaDB>'
    "</filteredPersistenceAdapters></mKahaDB></persistenceAdapter>"
)
ALPHABETICAL = (
    '<destinationPolicy><policyMap/></destinationPolicy><networkConnectors><networkConnector uri="static:(tcp://b:1)"/>'
    '</networkConnectors><persistenceAdapter><kahaDB directory="d"/></persistenceAdapter><plugins/>'
    '<systemUsage/><transportConnectors><transportConnector name="o" uri="nio://0.0.0.0:61616"/></transportConnectors>'
)
HOOK = (
    '<shutdownHooks><bean xmlns="http://www.springframework.org/schema/beans" '
    'class="org.apache.activemq.hooks.SpringContextHook"/></shutdownHooks>'
)


def store(children: str) -> bytes:
    return broker(f"<persistenceAdapter>{children}</persistenceAdapter>")


def connector(attributes: str) -> bytes:
    return broker(f'<networkConnectors><networkConnector uri="static:(tcp://b:1)" {attributes}/></networkConnectors>')


# Documents by the feature that they contain, and the releases that accept them. All releases from 5.3 to 6.3 were
# compared when the table was made.
TABLE = {
    "children in alphabetical order": (broker(ALPHABETICAL), RELEASES),
    "transportConnectors first": (
        broker("<transportConnectors/><persistenceAdapter><kahaDB/></persistenceAdapter>"),
        RELEASES[1:],
    ),
    "the same child twice": (broker("<plugins/><plugins/>"), RELEASES[1:]),
    "attributes of a pure master": (
        broker(attributes=' waitForSlave="true" shutdownOnSlaveFailure="false"'),
        RELEASES,
    ),
    "masterConnector": (
        broker('<services><masterConnector remoteURI="nio://a:61618" userName="u" password="p"/></services>'),
        ("5.5.1", "5.6.0"),
    ),
    "masterConnectorURI": (broker(attributes=' masterConnectorURI="nio://a:61618"'), ("5.5.1", "5.6.0")),
    "databaseLockedWaitDelay on kahaDB": (store('<kahaDB databaseLockedWaitDelay="1000"/>'), RELEASES),
    "locker and keep-alive on kahaDB": (
        store(f'<kahaDB lockKeepAlivePeriod="2000">{LOCKER}</kahaDB>'),
        RELEASES[2:],
    ),
    "lease locker": (store(LEASE), RELEASES[2:]),
    "databaseLocker": (
        store(
            '<jdbcPersistenceAdapter dataSource="#ds"><databaseLocker>'
            "<database-locker/></databaseLocker></jdbcPersistenceAdapter>"
        ),
        RELEASES,
    ),
    "replicatedLevelDB": (store('<replicatedLevelDB directory="d" replicas="3"/>'), ("5.9.1", "5.11.4")),
    "conditionalNetworkBridgeFilterFactory": (broker(REPLAY), RELEASES[1:]),
    "staticBridge": (connector('staticBridge="true"'), RELEASES[1:]),
    "mKahaDB": (broker(MULTI_KAHADB), RELEASES[1:]),
    "consumerTTL and messageTTL": (connector('consumerTTL="1" messageTTL="-1"'), RELEASES[3:]),
    "restartAllowed": (broker(attributes=' restartAllowed="false"'), RELEASES[3:]),
    "useVirtualDestSubs": (connector('useVirtualDestSubs="true"'), RELEASES[5:]),
    "syncDurableSubs": (connector('syncDurableSubs="true"'), RELEASES[5:]),
    "networkConnectorStartAsync": (broker(attributes=' networkConnectorStartAsync="true"'), RELEASES),
    "stopOnError": (store('<kahaDB stopOnError="true"/>'), RELEASES[5:]),
    "ignoreNoSpaceErrors": (
        broker('<ioExceptionHandler><defaultIOExceptionHandler ignoreNoSpaceErrors="false"/></ioExceptionHandler>'),
        RELEASES,
    ),
    "a bean of Spring in shutdownHooks": (broker(HOOK), RELEASES),
}


@cache
def schema(release: str) -> CompiledActivemqXsd:
    return load_schema(Release.of(release))


@pytest.mark.parametrize("feature", TABLE)
def test_only_schemas_of_expected_releases_accept_document_without_problems(feature: str) -> None:
    document, expected = TABLE[feature]
    assert tuple(release for release in RELEASES if schema(release).is_valid(XmlDocument(document))) == expected
    for release in RELEASES:
        problems = schema(release).find_problems(XmlDocument(document))
        assert (problems == ()) == (release in expected)
        assert all(problem.line in (2, 3) and problem.element.startswith("beans/broker") for problem in problems)


@pytest.mark.parametrize("text", RELEASES)
def test_release_table_of_elements_and_attributes_matches_schema_of_release(text: str) -> None:
    release, spans = Release.of(text), load_element_and_attribute_spans()
    assert schema(text).model.global_element_declarations.keys() == {
        name for name in spans.elements if release.supports(name)
    }
    for element, attributes in spans.attributes.items():
        if release.supports(element):
            supported = {name for name in attributes if release.supports(element, name)}
            assert supported == set(schema(text).model.attribute_types(element)), element


@pytest.mark.parametrize("text", RELEASES)
def test_schema_checks_order_of_children_only_before_5_6(text: str) -> None:
    reversed_order = broker("<transportConnectors/><plugins/>")
    assert schema(text).is_valid(XmlDocument(reversed_order)) == Release.of(text).is_within_span("5.6.0")
    children = schema(text).model.child_names("broker")
    assert list(children) == sorted(children)


SERVICE = re.compile(r"META-INF/services/org/apache/activemq/transport/(?:(discoveryagent)/)?([^/]+)")
# Schemes that only clients use, or clients as well. The http: discovery belongs to a web server.
NOT_FOR_CONNECTORS = {"amqp+ws", "amqp+wss", "discovery", "failover", "fanout", "kdbr", "mock", "multicast", "peer"}


@pytest.mark.parametrize("text", ["5.5.1", "5.17.6", "6.3.1"])
def test_jars_of_release_contain_exactly_documented_schemes(text: str) -> None:
    release = Release.of(text)
    transports: set[str] = set()
    discoveries: set[str] = set()
    for path in fetch_jar_directory(release).glob("*.jar"):
        with zipfile.ZipFile(path) as jar:
            for match in filter(None, map(SERVICE.fullmatch, jar.namelist())):
                (discoveries if match[1] else transports).add(match[2])
    assert transports - NOT_FOR_CONNECTORS == release.jar_schemes
    assert discoveries == release.discovery_schemes - {"http"}
