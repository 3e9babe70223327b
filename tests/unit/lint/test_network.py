"""Tests of the rules about networks of brokers beyond their examples."""

from __future__ import annotations

import pytest

from activemq_fleet.lint.network_subscriptions import wildcard_covers
from activemq_fleet.releases import Release
from tests.rule_examples import complete
from tests.support.rule_findings import rule_findings

REPLAY = """<networkBridgeFilterFactory>
  <conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="{}" replayDelay="500"/>
</networkBridgeFilterFactory>"""
ACCOUNT = 'userName="app" password="${app.password}" decreaseNetworkConsumerPriority="true"'
LINK = f'<networkConnector name="south" uri="static:(tcp://a:61616)" {ACCOUNT}/>'


def line_of(snippet: str, text: str) -> int:
    lines = complete(snippet, Release.of("5.18.3")).decode().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


def link_with_policies(*entries: str) -> str:
    return LINK + "".join(entries)


def entry(queue: str, inside: str = "", **attributes: str) -> str:
    texts = " ".join(f'{name}="{value}"' for name, value in attributes.items())
    return f'<policyEntry queue="{queue}" {texts}>{inside}</policyEntry>'


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        (">", "orders.new", True),
        ("orders.>", "orders.new.eu", True),
        ("orders.>", "orders.>", True),
        ("orders.*", "orders.new", True),
        ("orders.*", "orders.new.eu", False),
        ("orders.new", "orders.>", False),
        ("orders", "orders.new", False),
        ("orders.new", "orders", False),
    ],
)
def test_destination_wildcard_covers_names_and_narrower_wildcards(pattern: str, name: str, matches: bool) -> None:
    assert wildcard_covers(pattern, name) is matches


def test_linked_broker_without_message_replay_is_info() -> None:
    assert [finding.severity for finding in rule_findings("N019", LINK)] == ["info"]


def test_disabled_message_replay_is_warning_at_its_attribute() -> None:
    snippet = link_with_policies(entry("&gt;", REPLAY.format("false")))
    (finding,) = rule_findings("N019", snippet)
    assert finding.severity == "warning"
    assert finding.line == line_of(snippet, "replayWhenNoConsumers")


def test_only_narrower_queue_policy_without_message_replay_is_reported() -> None:
    snippet = link_with_policies(entry("orders.&gt;"), entry("&gt;", REPLAY.format("true")))
    (finding,) = rule_findings("N019", snippet)
    assert finding.severity == "warning"
    assert finding.line == line_of(snippet, 'queue="orders.')


def test_topic_policy_requires_no_replay() -> None:
    assert (
        rule_findings("N019", link_with_policies('<policyEntry topic="&gt;"/>', entry("&gt;", REPLAY.format("true"))))
        == []
    )


def test_missing_replay_is_not_reported_before_5_6() -> None:
    assert rule_findings("N019", LINK, "5.5.1") == []


@pytest.mark.parametrize(("release", "fires"), [("5.6.0", True), ("5.8.0", True), ("5.9.0", False)])
def test_queue_audit_that_stops_replay_is_reported_before_5_9(release: str, fires: bool) -> None:
    assert bool(rule_findings("N020", link_with_policies(entry("&gt;", REPLAY.format("true"))), release)) is fires


def test_disabled_queue_audit_with_message_replay_is_not_reported() -> None:
    assert (
        rule_findings("N020", link_with_policies(entry("&gt;", REPLAY.format("true"), enableAudit="false")), "5.8.0")
        == []
    )


def test_replaced_character_of_broker_name_is_reported_at_its_position() -> None:
    (finding,) = rule_findings("N015", '<broker brokerName="north mq"/>')
    lines = complete('<broker brokerName="north mq"/>', Release.of("5.18.3")).decode().splitlines()
    assert lines[(finding.line or 0) - 1][(finding.column or 0) - 1 :].startswith(' mq"')
    assert "north_mq" in finding.message


def test_broker_name_with_placeholder_is_checked_without_placeholder() -> None:
    assert rule_findings("N015", '<broker brokerName="${host}-mq"/>') == []
    assert len(rule_findings("N015", '<broker brokerName="${host}/mq"/>')) == 1


def test_unnamed_broker_with_link_is_reported() -> None:
    beans = '<beans><broker xmlns="http://activemq.apache.org/schema/core">{}</broker></beans>'
    links = "<networkConnectors><networkConnector name='s' uri='static:(tcp://a:1)'/></networkConnectors>"
    assert len(rule_findings("N014", beans.format(links))) == 1
    assert rule_findings("N014", beans.format("")) == []


@pytest.mark.parametrize(
    ("size", "release", "text"),
    [("0", "5.13.2", "forwards nothing"), ("0", "5.13.3", "does not start"), ("-1", "5.5.1", "does not start")],
)
def test_message_about_invalid_prefetch_size_of_link_depends_on_release(size: str, release: str, text: str) -> None:
    (finding,) = rule_findings(
        "N030", LINK.replace("<networkConnector", f'<networkConnector prefetchSize="{size}"'), release
    )
    assert text in finding.message


def test_prefetch_size_of_link_with_placeholder_is_not_reported() -> None:
    assert (
        rule_findings("N030", LINK.replace("<networkConnector", '<networkConnector prefetchSize="${prefetch}"')) == []
    )


def test_static_uri_with_two_peers_is_reported() -> None:
    assert len(rule_findings("N037", LINK.replace("tcp://a:61616", "tcp://a:61616,tcp://b:61616"))) == 1
    assert rule_findings("N037", LINK) == []


def test_link_without_account_is_not_reported_with_guest_access() -> None:
    bare = '<networkConnector name="south" uri="static:(tcp://a:61616)"/>'
    guests = '<simpleAuthenticationPlugin anonymousAccessAllowed="true"/>'
    assert len(rule_findings("N036", bare)) == 1
    assert rule_findings("N036", bare + guests) == []


def test_link_without_account_is_warning_with_jaas_login() -> None:
    plugins = "<broker><plugins><jaasAuthenticationPlugin/></plugins></broker>"
    (finding,) = rule_findings("N036", plugins + '<networkConnector name="south" uri="static:(tcp://a:61616)"/>')
    assert finding.severity == "warning"


ACL = """<authorizationPlugin><map><authorizationMap><authorizationEntries>
  <authorizationEntry {}="{}" read="{}" write="apps" admin="apps"/>
</authorizationEntries></authorizationMap></map></authorizationPlugin>"""


@pytest.mark.parametrize(
    ("kind", "name", "read", "fires"),
    [
        ("topic", "ActiveMQ.Advisory.&gt;", "apps", False),
        ("topic", "&gt;", "apps", False),
        ("topic", "ActiveMQ.Advisory.&gt;", "admins", True),
        ("topic", "ActiveMQ.Advisory.&gt;", "*", False),
        ("topic", "ActiveMQ.Advisory.Connection", "apps", True),
    ],
)
def test_bridge_without_rights_to_consumer_advisories_is_reported(kind: str, name: str, read: str, fires: bool) -> None:
    assert bool(rule_findings("N027", LINK + ACL.format(kind, name, read))) is fires


def test_one_way_link_without_advisories_is_warning() -> None:
    snippet = '<broker advisorySupport="false"/>' + LINK
    assert [finding.severity for finding in rule_findings("N027", snippet)] == ["warning"]


LISTS = """<networkConnector name="south" uri="static:(tcp://a:61616)">
<excludedDestinations><{} physicalName="{}"/></excludedDestinations>
<staticallyIncludedDestinations><{} physicalName="{}"/></staticallyIncludedDestinations>
</networkConnector>"""


@pytest.mark.parametrize(
    ("excluded", "listed", "release", "text"),
    [
        ("orders", "orders", "5.18.3", "not forwarded at all"),
        ("orders.a", "orders.&gt;", "5.18.3", "does not forward"),
        ("orders", "orders", "5.13.5", "still forwards"),
        ("orders.&gt;", "orders.a", "5.5.1", "still forwards"),
    ],
)
def test_message_about_excluded_static_include_depends_on_release(
    excluded: str, listed: str, release: str, text: str
) -> None:
    (finding,) = rule_findings("N029", LISTS.format("queue", excluded, "queue", listed), release)
    assert text in finding.message


def test_excluded_queue_does_not_exclude_topic_of_same_name() -> None:
    assert rule_findings("N029", LISTS.format("queue", "orders", "topic", "orders")) == []


def test_virtual_destination_demand_of_one_way_link_is_info() -> None:
    one_way = LINK.replace("<networkConnector", '<networkConnector useVirtualDestSubs="true"')
    assert [finding.severity for finding in rule_findings("N031", one_way)] == ["info"]
    assert [finding.severity for finding in rule_findings("N031", '<broker useVirtualDestSubs="true"/>' + LINK)] == [
        "info"
    ]


@pytest.mark.parametrize(
    ("release", "fires"), [("5.13.5", False), ("5.19.6", True), ("5.19.7", False), ("6.2.5", True), ("6.2.6", False)]
)
def test_disclosed_durable_subscriptions_are_reported_before_fix(release: str, fires: bool) -> None:
    snippet = LINK.replace("<networkConnector", '<networkConnector syncDurableSubs="true"')
    assert bool(rule_findings("N032", snippet, release)) is fires


@pytest.mark.parametrize(
    ("uri", "fires"),
    [
        ("vm://localhost", True),
        ("vm://localhost?create=false", False),
        ("vm://north", False),
        ("vm://${name}", False),
        ("failover:(vm://other?broker.persistent=false)", True),
        ("vm:(broker:(tcp://localhost:6000)?persistent=false)", False),
        ("https://example.com/vm", False),
    ],
)
def test_vm_uri_that_starts_another_broker_is_reported(uri: str, fires: bool) -> None:
    bean = f'<bean id="f" class="F"><property name="brokerURL" value="{uri}"/></bean>'
    assert bool(rule_findings("N039", bean)) is fires


def test_vm_uri_in_element_text_is_reported() -> None:
    bean = '<bean id="f" class="F"><property name="brokerURL"><value>vm://other</value></property></bean>'
    assert len(rule_findings("N039", bean)) == 1


@pytest.mark.parametrize(
    ("audit", "replay", "severities"),
    [("true", True, ["error"]), ("true", False, []), ("false", True, []), ("false", False, ["warning"])],
)
def test_conflict_of_producer_audit_and_message_replay_is_reported(
    audit: str, replay: bool, severities: list[str]
) -> None:
    connector = f'<transportConnector name="more" uri="tcp://0.0.0.0:1" auditNetworkProducers="{audit}"/>'
    policy = entry("&gt;", REPLAY.format("true")) if replay else ""
    assert [finding.severity for finding in rule_findings("N034", connector + policy)] == severities


def test_selector_aware_topic_is_reported_for_link_and_replay() -> None:
    topics = """<broker><destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>
    <virtualTopic name="orders.>" selectorAware="true"/>
    </virtualDestinations></virtualDestinationInterceptor></destinationInterceptors></broker>"""
    replay = entry("&gt;", REPLAY.format("true"))
    assert len(rule_findings("N025", topics + LINK + replay)) == 2
    assert len(rule_findings("N025", topics + LINK + replay, "5.15.16")) == 1


def test_vm_uri_with_listener_of_same_name_is_not_reported() -> None:
    listener = '<transportConnector name="inside" uri="vm://other"/>'
    bean = '<bean id="f" class="F"><property name="brokerURL" value="vm://other"/></bean>'
    assert rule_findings("N039", listener + bean) == []
