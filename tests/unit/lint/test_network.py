"""What the examples of the rules about a network do not show."""

from __future__ import annotations

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint import file_findings
from activemq_fleet.lint.network_demand import wildcard_covers
from activemq_fleet.releases import Release
from tests.rule_examples import complete

REPLAY = """<networkBridgeFilterFactory>
  <conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="{}" replayDelay="500"/>
</networkBridgeFilterFactory>"""
ACCOUNT = 'userName="app" password="${app.password}" decreaseNetworkConsumerPriority="true"'
LINK = f'<networkConnector name="south" uri="static:(tcp://a:61616)" {ACCOUNT}/>'


def of(rule: str, snippet: str, release: str = "5.18.3") -> list[Finding]:
    known = Release.of(release)
    return [finding for finding in file_findings(complete(snippet, known), known) if finding.rule == rule]


def line_of(snippet: str, text: str) -> int:
    lines = complete(snippet, Release.of("5.18.3")).decode().splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


def policies(*entries: str) -> str:
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
def test_a_wildcard_matches_names_and_narrower_wildcards(pattern: str, name: str, matches: bool) -> None:
    assert wildcard_covers(pattern, name) is matches


def test_a_file_that_says_nothing_of_replay_is_only_told() -> None:
    assert [finding.severity for finding in of("N019", LINK)] == ["info"]


def test_replay_that_is_switched_off_is_a_warning_at_its_attribute() -> None:
    snippet = policies(entry("&gt;", REPLAY.format("false")))
    (finding,) = of("N019", snippet)
    assert finding.severity == "warning"
    assert finding.line == line_of(snippet, "replayWhenNoConsumers")


def test_a_narrower_policy_without_replay_is_named_and_the_wider_one_is_not() -> None:
    snippet = policies(entry("orders.&gt;"), entry("&gt;", REPLAY.format("true")))
    (finding,) = of("N019", snippet)
    assert finding.severity == "warning"
    assert finding.line == line_of(snippet, 'queue="orders.')


def test_a_policy_for_topics_needs_no_replay() -> None:
    assert of("N019", policies('<policyEntry topic="&gt;"/>', entry("&gt;", REPLAY.format("true")))) == []


def test_before_5_6_there_is_no_replay_to_miss() -> None:
    assert of("N019", LINK, "5.5.1") == []


@pytest.mark.parametrize(("release", "fires"), [("5.6.0", True), ("5.8.0", True), ("5.9.0", False)])
def test_the_audit_of_a_queue_stops_replay_before_5_9(release: str, fires: bool) -> None:
    assert bool(of("N020", policies(entry("&gt;", REPLAY.format("true"))), release)) is fires


def test_an_audit_that_is_off_already_is_no_mistake() -> None:
    assert of("N020", policies(entry("&gt;", REPLAY.format("true"), enableAudit="false")), "5.8.0") == []


def test_the_place_of_a_character_that_is_replaced_is_its_own() -> None:
    (finding,) = of("N015", '<broker brokerName="north mq"/>')
    text = complete('<broker brokerName="north mq"/>', Release.of("5.18.3")).decode().splitlines()
    assert text[(finding.line or 0) - 1][(finding.column or 0) - 1 :].startswith(' mq"')
    assert "north_mq" in finding.message


def test_a_name_of_which_a_part_is_decided_elsewhere_is_judged_by_the_rest() -> None:
    assert of("N015", '<broker brokerName="${host}-mq"/>') == []
    assert len(of("N015", '<broker brokerName="${host}/mq"/>')) == 1


def test_a_broker_without_any_name_is_localhost_to_its_network() -> None:
    beans = '<beans><broker xmlns="http://activemq.apache.org/schema/core">{}</broker></beans>'
    links = "<networkConnectors><networkConnector name='s' uri='static:(tcp://a:1)'/></networkConnectors>"
    assert len(of("N014", beans.format(links))) == 1
    assert of("N014", beans.format("")) == []


@pytest.mark.parametrize(
    ("size", "release", "says"),
    [("0", "5.13.2", "forwards nothing"), ("0", "5.13.3", "does not start"), ("-1", "5.5.1", "does not start")],
)
def test_what_a_prefetch_of_nothing_does_depends_on_the_release(size: str, release: str, says: str) -> None:
    (finding,) = of("N030", LINK.replace("<networkConnector", f'<networkConnector prefetchSize="{size}"'), release)
    assert says in finding.message


def test_an_unknown_prefetch_is_no_mistake() -> None:
    assert of("N030", LINK.replace("<networkConnector", '<networkConnector prefetchSize="${prefetch}"')) == []


def test_one_static_uri_with_two_peers_starts_serially_too() -> None:
    assert len(of("N037", LINK.replace("tcp://a:61616", "tcp://a:61616,tcp://b:61616"))) == 1
    assert of("N037", LINK) == []


def test_jmx_and_a_login_for_guests_do_without_accounts() -> None:
    bare = '<networkConnector name="south" uri="static:(tcp://a:61616)"/>'
    guests = '<simpleAuthenticationPlugin anonymousAccessAllowed="true"/>'
    assert len(of("N036", bare)) == 1
    assert of("N036", bare + guests) == []


def test_of_a_jaas_login_nobody_knows_whether_guests_may_in() -> None:
    plugins = "<broker><plugins><jaasAuthenticationPlugin/></plugins></broker>"
    (finding,) = of("N036", plugins + '<networkConnector name="south" uri="static:(tcp://a:61616)"/>')
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
def test_a_bridge_must_be_allowed_to_hear_of_consumers(kind: str, name: str, read: str, fires: bool) -> None:
    assert bool(of("N027", LINK + ACL.format(kind, name, read))) is fires


def test_one_way_links_without_advisories_are_a_warning() -> None:
    snippet = '<broker advisorySupport="false"/>' + LINK
    assert [finding.severity for finding in of("N027", snippet)] == ["warning"]


LISTS = """<networkConnector name="south" uri="static:(tcp://a:61616)">
<excludedDestinations><{} physicalName="{}"/></excludedDestinations>
<staticallyIncludedDestinations><{} physicalName="{}"/></staticallyIncludedDestinations>
</networkConnector>"""


@pytest.mark.parametrize(
    ("excluded", "listed", "release", "says"),
    [
        ("orders", "orders", "5.18.3", "not forwarded at all"),
        ("orders.a", "orders.&gt;", "5.18.3", "does not forward"),
        ("orders", "orders", "5.13.5", "still forwards"),
        ("orders.&gt;", "orders.a", "5.5.1", "still forwards"),
    ],
)
def test_what_becomes_of_an_excluded_static_include(excluded: str, listed: str, release: str, says: str) -> None:
    (finding,) = of("N029", LISTS.format("queue", excluded, "queue", listed), release)
    assert says in finding.message


def test_a_topic_is_not_excluded_by_a_queue_of_its_name() -> None:
    assert of("N029", LISTS.format("queue", "orders", "topic", "orders")) == []


def test_one_way_demand_of_virtual_destinations_is_only_told() -> None:
    one_way = LINK.replace("<networkConnector", '<networkConnector useVirtualDestSubs="true"')
    assert [finding.severity for finding in of("N031", one_way)] == ["info"]
    assert [finding.severity for finding in of("N031", '<broker useVirtualDestSubs="true"/>' + LINK)] == ["info"]


@pytest.mark.parametrize(
    ("release", "fires"), [("5.13.5", False), ("5.19.6", True), ("5.19.7", False), ("6.2.5", True), ("6.2.6", False)]
)
def test_durable_subscriptions_are_disclosed_until_the_fix_of_each_line(release: str, fires: bool) -> None:
    snippet = LINK.replace("<networkConnector", '<networkConnector syncDurableSubs="true"')
    assert bool(of("N032", snippet, release)) is fires


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
def test_vm_uris_are_found_where_they_start_a_broker_of_their_own(uri: str, fires: bool) -> None:
    bean = f'<bean id="f" class="F"><property name="brokerURL" value="{uri}"/></bean>'
    assert bool(of("N039", bean)) is fires


def test_a_vm_uri_in_a_text_is_found_too() -> None:
    bean = '<bean id="f" class="F"><property name="brokerURL"><value>vm://other</value></property></bean>'
    assert len(of("N039", bean)) == 1


@pytest.mark.parametrize(
    ("audit", "replay", "severities"),
    [("true", True, ["error"]), ("true", False, []), ("false", True, []), ("false", False, ["warning"])],
)
def test_an_audit_of_bridges_and_replay_exclude_each_other(audit: str, replay: bool, severities: list[str]) -> None:
    connector = f'<transportConnector name="more" uri="tcp://0.0.0.0:1" auditNetworkProducers="{audit}"/>'
    policy = entry("&gt;", REPLAY.format("true")) if replay else ""
    assert [finding.severity for finding in of("N034", connector + policy)] == severities


def test_selectors_are_lost_on_links_and_in_replay() -> None:
    topics = """<broker><destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>
    <virtualTopic name="orders.>" selectorAware="true"/>
    </virtualDestinations></virtualDestinationInterceptor></destinationInterceptors></broker>"""
    replay = entry("&gt;", REPLAY.format("true"))
    assert len(of("N025", topics + LINK + replay)) == 2
    assert len(of("N025", topics + LINK + replay, "5.15.16")) == 1


def test_a_listener_of_vm_is_no_client_and_makes_its_name_known() -> None:
    listener = '<transportConnector name="inside" uri="vm://other"/>'
    bean = '<bean id="f" class="F"><property name="brokerURL" value="vm://other"/></bean>'
    assert of("N039", listener + bean) == []
