"""Rules about connectors of clients and about limits, in addition to the examples of the rules."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint import RuleSelection, file_findings
from activemq_fleet.releases import Release
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from tests.rule_examples import complete, rule_findings
from tests.unit.fleets import fleet


def severities(rule: str, snippet: str, release: str = "5.18.3") -> list[str]:
    return [finding.severity for finding in rule_findings(rule, snippet, release)]


def connector(uri: str, attributes: str = "") -> str:
    return f'<transportConnector name="clients" uri="{uri}" {attributes}/>'


LINK = '<networkConnector name="{0}" uri="static:(tcp://{0}:61616{1})" userName="net" password="${{p}}"/>'


def test_connector_on_all_interfaces_that_updates_clients_is_info() -> None:
    assert severities("C002", connector("nio://0.0.0.0:61617", 'updateClusterClients="true"')) == ["info"]


def test_loopback_connector_with_published_address_policy_has_no_finding() -> None:
    snippet = (
        '<transportConnector name="c" uri="nio://127.0.0.1:61617" updateClusterClients="true">'
        '<publishedAddressPolicy><publishedAddressPolicy publishedHostStrategy="FQDN"/></publishedAddressPolicy>'
        "</transportConnector>"
    )
    assert rule_findings("C002", snippet) == []


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]"])
def test_published_loopback_address_is_warning(host: str) -> None:
    assert severities("C002", connector(f"nio://{host}:61617", 'updateClusterClients="true"')) == ["warning"]


def test_connector_address_with_placeholder_has_no_finding() -> None:
    assert rule_findings("C002", connector("nio://${host}:61617", 'updateClusterClients="true"')) == []


def test_rebalancing_connector_with_placeholder_for_update_has_no_finding() -> None:
    attributes = 'rebalanceClusterClients="true" updateClusterClients="${update}"'
    assert rule_findings("C001", connector("nio://mq:61617", attributes)) == []


def test_fewer_connections_than_links_is_info() -> None:
    links = "".join(LINK.format(name, "") for name in ("south", "east", "west"))
    assert severities("C009", links + connector("nio://0.0.0.0:61617?maximumConnections=2")) == ["info"]


def test_connection_limit_has_position_of_its_option() -> None:
    uri = "nio://0.0.0.0:61617?a=1&amp;maximumConnections=0"
    (finding,) = rule_findings("C009", connector(uri))
    line = complete(connector(uri), Release.of("5.18.3")).decode().splitlines()[(finding.line or 0) - 1]
    assert line[(finding.column or 0) - 1 :].startswith("maximumConnections=0")


@pytest.mark.parametrize("option", ["wireFormat.maxInactivityDuration=0", "useInactivityMonitor=false"])
def test_link_without_inactivity_monitor_is_warning(option: str) -> None:
    assert severities("C011", LINK.format("south", f"?{option}")) == ["warning"]


def test_connector_without_inactivity_monitor_is_info_without_links() -> None:
    unmonitored = connector("nio://0.0.0.0:61617?wireFormat.maxInactivityDuration=0")
    assert severities("C011", unmonitored) == ["info"]
    assert severities("C011", unmonitored + LINK.format("south", "")) == ["warning"]


def test_stomp_connector_without_inactivity_monitor_has_no_finding() -> None:
    assert rule_findings("C011", connector("stomp://0.0.0.0:61617?wireFormat.maxInactivityDuration=0")) == []


def test_memory_limits_with_placeholders_are_not_summed() -> None:
    snippet = '<policyEntry queue="a" memoryLimit="${limit}"/><memoryUsage limit="64 mb"/>'
    assert rule_findings("C006", snippet) == []


def test_memory_limit_in_percent_of_heap_is_not_compared() -> None:
    assert (
        rule_findings("C006", '<policyEntry queue="a" memoryLimit="1 gb"/><memoryUsage percentOfJvmHeap="70"/>') == []
    )


def test_memory_limits_of_wildcard_destinations_are_not_summed() -> None:
    snippet = (
        '<policyEntry queue="a.>" memoryLimit="40 mb"/><policyEntry topic=">" memoryLimit="40 mb"/>'
        '<memoryUsage limit="64 mb"/>'
    )
    assert rule_findings("C006", snippet) == []


@pytest.mark.parametrize(
    ("variables", "variable"),
    [
        ({"heap": "256m"}, "activemq_heap"),
        ({"heap": "1g", "java_options": ["-Xmx2g", "-Xmx256m"]}, "activemq_java_options"),
    ],
)
def test_memory_limit_above_heap_of_host_is_reported_for_fleet(variables: dict[str, Any], variable: str) -> None:
    (broker, _) = fleet("orders-mq01", memory_limit="512 mb", **variables).brokers
    from activemq_fleet.lint.fleets import broker_activemq_xml_findings

    document = XmlDocument(render_broker(broker)["conf/activemq.xml"])
    findings = broker_activemq_xml_findings(broker, document, RuleSelection(select=("C006",)))
    assert [finding.message for finding in findings] == ["memoryUsage is 512 MB, more than the Java heap of 256 MB"]
    assert findings[0].fix == f"lower memoryUsage below 70 % of the heap, or raise the heap ({variable})"


def test_memory_limit_below_heap_of_java_option_is_not_reported() -> None:
    (broker, _) = fleet("orders-mq01", java_options=["-Xmx8g"], memory_limit="4 gb").brokers
    from activemq_fleet.lint.fleets import broker_activemq_xml_findings

    document = XmlDocument(render_broker(broker)["conf/activemq.xml"])
    assert broker_activemq_xml_findings(broker, document, RuleSelection(select=("C006",))) == ()


@pytest.mark.parametrize("usage", ["storeUsage", "tempUsage"])
def test_usage_limit_below_size_of_store_journal_file_is_warning(usage: str) -> None:
    assert severities("C007", f'<{usage} limit="31 mb"/>') == ["warning"]


@pytest.mark.parametrize("limit", ["32 mb", "0", "${limit}"])
def test_store_limit_of_journal_file_size_or_zero_or_placeholder_has_no_finding(limit: str) -> None:
    assert rule_findings("C007", f'<storeUsage limit="{limit}"/>') == []


def test_small_usage_limit_of_database_store_has_no_finding() -> None:
    assert rule_findings("C007", '<jdbcPersistenceAdapter dataSource="#ds"/><storeUsage limit="16 mb"/>') == []


def test_store_limit_above_configured_journal_file_size_has_no_finding() -> None:
    snippet = '<kahaDB directory="/d" journalMaxFileLength="4mb"/><storeUsage limit="16 mb"/>'
    assert rule_findings("C007", snippet) == []


def test_small_usage_limits_of_non_persistent_broker_have_no_finding() -> None:
    assert (
        rule_findings("C007", '<broker persistent="false"/><storeUsage limit="16 mb"/><tempUsage limit="1 mb"/>') == []
    )


def test_send_fail_if_no_space_after_timeout_is_info_with_links() -> None:
    limit = '<broker><systemUsage><systemUsage sendFailIfNoSpaceAfterTimeout="3000"/></systemUsage></broker>'
    assert rule_findings("C008", limit) == []
    assert severities("C008", limit + LINK.format("south", "")) == ["info"]


def test_limits_and_ports_of_thousands_of_digits_have_no_finding() -> None:
    """Python cannot parse such numbers; the check ignores them."""
    big = "9" * 5000
    assert rule_findings("C007", f'<storeUsage limit="{big} mb"/>') == []
    assert rule_findings("C009", connector(f"nio://0.0.0.0:{big}?maximumConnections={big}")) == []


def findings_of_single_line(rule: str, snippet: str) -> list[Finding]:
    release = Release.of("5.18.3")
    content = complete(snippet, release).replace(b"\n", b" ")
    return [finding for finding in file_findings(content, release) if finding.rule == rule]


def test_huge_limit_is_printed_without_exponent() -> None:
    (finding,) = rule_findings("C013", '<memoryUsage limit="8388608 gb"/>')
    assert finding.message.startswith("memoryUsage is 8589934592 MB, ")


@pytest.mark.parametrize(
    ("rule", "snippet"),
    [
        ("C014", 2 * '<policyEntry queue=">" producerFlowControl="false"/>'),
        (
            "C042",
            '<broker dataDirectory="a"><persistenceAdapter><kahaDB directory="b"/></persistenceAdapter></broker>',
        ),
    ],
)
def test_elements_on_same_line_are_reported_without_repeated_line(rule: str, snippet: str) -> None:
    (finding,) = findings_of_single_line(rule, snippet)
    assert "the same in" not in finding.message


def test_policies_on_same_line_are_reported_without_line_number() -> None:
    (finding,) = findings_of_single_line("C040", 2 * '<policyEntry queue=">" memoryLimit="64 mb"/>')
    assert finding.message.startswith("this policyEntry and another in the same line are both for queue >")


@pytest.mark.parametrize(
    ("entry", "severity", "applied", "ignored"),
    [
        ('<policyEntry topic="b" queue="a"/>', "warning", "topic b", "queue a"),
        ('<policyEntry topic="" queue="a"/>', "warning", "topic ''", "queue a"),
        ('<policyEntry queue="a" tempQueue="true"/>', "warning", "all temporary queues (tempQueue)", "queue a"),
        ('<policyEntry queue="a" tempTopic="false"/>', "warning", "all temporary topics (tempTopic)", "queue a"),
        ('<policyEntry topic="a" tempTopic="true"/>', "warning", "topic a", "all temporary topics (tempTopic)"),
        ('<authorizationEntry queue="&gt;" topic="x.&gt;" read="apps"/>', "error", "topic x.>", "queue >"),
        ('<filteredKahaDB queue="a" topic="b"/>', "warning", "topic b", "queue a"),
        ('<filteredDestination queue="a" topic="b"/>', "warning", "topic b", "queue a"),
        (
            '<policyEntry topic="b" queue="a"><destination><queue physicalName="c"/></destination></policyEntry>',
            "warning",
            "the nested destination",
            "queue a and topic b",
        ),
    ],
)
def test_entry_with_two_destinations_names_ignored_one(entry: str, severity: str, applied: str, ignored: str) -> None:
    (finding,) = rule_findings("C044", entry)
    assert finding.severity == severity
    assert f"applies only to {applied}, and the broker ignores {ignored}," in finding.message


@pytest.mark.parametrize(
    ("attributes", "fix"),
    [
        ('queue="a" tempTopic="false"', "remove tempTopic, because the broker ignores the value false"),
        (
            'queue="false" tempQueue="true"',
            "write separate policyEntry elements for all temporary queues (tempQueue) and queue false",
        ),
    ],
)
def test_temporary_destination_with_value_false_is_to_be_removed(attributes: str, fix: str) -> None:
    (finding,) = rule_findings("C044", f"<policyEntry {attributes}/>")
    assert finding.fix == fix


@pytest.mark.parametrize(
    "entry",
    [
        '<policyEntry topic="&gt;"/>',
        '<policyEntry><destination><queue physicalName="c"/></destination></policyEntry>',
        "<policyEntry/>",
        '<filteredKahaDB perDestination="true"/>',
    ],
)
def test_entry_with_at_most_one_destination_has_no_finding(entry: str) -> None:
    assert rule_findings("C044", entry) == []


def test_policy_of_ignored_queue_is_no_second_policy() -> None:
    entries = '<policyEntry queue="a" topic="b"/><policyEntry queue="a"/>'
    assert rule_findings("C040", entries) == []
    assert len(rule_findings("C040", entries + '<policyEntry topic="b"/>')) == 1


def test_queue_cursor_in_policy_of_topic_is_no_memory_cursor() -> None:
    policy = (
        '<policyEntry queue="a" {}producerFlowControl="false">'
        "<pendingQueuePolicy><vmQueueCursor/></pendingQueuePolicy></policyEntry>"
    )
    assert len(rule_findings("C043", policy.format(""))) == 1
    assert rule_findings("C043", policy.format('topic="b" ')) == []


def test_replay_in_policy_of_topic_does_not_count_for_queues() -> None:
    policy = (
        '<policyEntry queue="&gt;" {}enableAudit="false"><networkBridgeFilterFactory>'
        '<conditionalNetworkBridgeFilterFactory replayWhenNoConsumers="true"/>'
        "</networkBridgeFilterFactory></policyEntry>"
    )
    link = LINK.format("south", "")
    assert rule_findings("N019", policy.format("") + link) == []
    assert len(rule_findings("N019", policy.format('topic="b" ') + link)) == 1


def test_memory_limit_of_policy_with_two_destinations_counts_once() -> None:
    policy = '<policyEntry queue="a" topic="b" memoryLimit="{} mb"/><memoryUsage limit="256 mb"/>'
    assert rule_findings("C006", policy.format(200)) == []
    (finding,) = rule_findings("C006", policy.format(300))
    assert finding.message.startswith("topic b may use 300 MB")


@pytest.mark.parametrize(
    ("uri", "release", "option", "peers"),
    [
        ("static:(failover:(tcp://a:1,tcp://b:1)?nested.{})", "6.3.1", "nested.{}", "a or b"),
        ("static:(failover:(tcp://a:1,tcp://b:1)?nested.{})", "5.8.0", None, ""),
        ("static:(failover:(tcp://a:1,tcp://b:1)?{})", "6.3.1", None, ""),
        ("static:(tcp://a:1,tcp://b:1)?discovered.{}", "6.3.1", "discovered.{}", "a or b"),
        ("static:(tcp://a:1,tcp://b:1)?{}", "6.3.1", None, ""),
        ("masterslave:(tcp://a:1,tcp://b:1)?discovered.nested.{}", "6.3.1", "discovered.nested.{}", "a or b"),
        ("masterslave:(tcp://a:1,tcp://b:1)?discovered.{}", "6.3.1", None, ""),
        ("multicast://default?discovered.{}", "6.3.1", "discovered.{}", "a broker that it discovers"),
        ("multicast://default?{}", "6.3.1", None, ""),
    ],
)
@pytest.mark.parametrize("setting", ["wireFormat.maxInactivityDuration=0", "useInactivityMonitor=false"])
def test_option_with_prefix_disables_monitor_of_link(
    uri: str, release: str, option: str | None, peers: str, setting: str
) -> None:
    snippet = f'<networkConnector name="south" uri="{uri.format(setting)}"/>'
    findings = rule_findings("C011", snippet, release)
    assert [finding.message for finding in findings] == (
        [f"{option.format(setting)} disables keep-alive: link south does not detect a lost connection to {peers}"]
        if option
        else []
    )


def test_last_value_of_repeated_uri_option_applies() -> None:
    uri = "nio://0.0.0.0:61617?maximumConnections={}&amp;maximumConnections={}"
    assert severities("C009", connector(uri.format(0, 1000))) == []
    assert severities("C009", connector(uri.format(1000, 0))) == ["warning"]
