"""What connectors tell clients and what limits mean, in addition to the examples of the rules."""

from __future__ import annotations

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


def connector(uri: str, more: str = "") -> str:
    return f'<transportConnector name="clients" uri="{uri}" {more}/>'


LINK = '<networkConnector name="{0}" uri="static:(tcp://{0}:61616{1})" userName="net" password="${{p}}"/>'


def test_a_connector_on_all_interfaces_publishes_a_name_that_may_do() -> None:
    assert severities("C002", connector("nio://0.0.0.0:61617", 'updateClusterClients="true"')) == ["info"]


def test_a_published_address_is_trusted() -> None:
    snippet = (
        '<transportConnector name="c" uri="nio://127.0.0.1:61617" updateClusterClients="true">'
        '<publishedAddressPolicy><publishedAddressPolicy publishedHostStrategy="FQDN"/></publishedAddressPolicy>'
        "</transportConnector>"
    )
    assert rule_findings("C002", snippet) == []


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1.2.3", "[::1]"])
def test_every_loopback_address_sends_clients_to_themselves(host: str) -> None:
    assert severities("C002", connector(f"nio://{host}:61617", 'updateClusterClients="true"')) == ["warning"]


def test_an_address_that_is_decided_elsewhere_is_not_judged() -> None:
    assert rule_findings("C002", connector("nio://${host}:61617", 'updateClusterClients="true"')) == []


def test_a_rebalancing_connector_whose_update_is_decided_elsewhere_is_not_judged() -> None:
    more = 'rebalanceClusterClients="true" updateClusterClients="${update}"'
    assert rule_findings("C001", connector("nio://mq:61617", more)) == []


def test_fewer_connections_than_links_is_a_hint() -> None:
    links = "".join(LINK.format(name, "") for name in ("south", "east", "west"))
    assert severities("C009", links + connector("nio://0.0.0.0:61617?maximumConnections=2")) == ["info"]


def test_the_place_of_a_limit_of_connections_is_the_option() -> None:
    uri = "nio://0.0.0.0:61617?a=1&amp;maximumConnections=0"
    (finding,) = rule_findings("C009", connector(uri))
    line = complete(connector(uri), Release.of("5.18.3")).decode().splitlines()[(finding.line or 0) - 1]
    assert line[(finding.column or 0) - 1 :].startswith("maximumConnections=0")


@pytest.mark.parametrize("option", ["wireFormat.maxInactivityDuration=0", "useInactivityMonitor=false"])
def test_a_link_without_a_monitor_is_told(option: str) -> None:
    assert severities("C011", LINK.format("south", f"?{option}")) == ["warning"]


def test_a_connector_without_a_monitor_is_a_hint_where_nothing_is_bridged() -> None:
    silent = connector("nio://0.0.0.0:61617?wireFormat.maxInactivityDuration=0")
    assert severities("C011", silent) == ["info"]
    assert severities("C011", silent + LINK.format("south", "")) == ["warning"]


def test_a_stomp_connector_may_have_no_openwire_monitor() -> None:
    assert rule_findings("C011", connector("stomp://0.0.0.0:61617?wireFormat.maxInactivityDuration=0")) == []


def test_limits_that_are_decided_elsewhere_are_not_added_up() -> None:
    snippet = '<policyEntry queue="a" memoryLimit="${limit}"/><memoryUsage limit="64 mb"/>'
    assert rule_findings("C006", snippet) == []


def test_a_memory_in_percent_of_the_heap_is_not_compared() -> None:
    assert (
        rule_findings("C006", '<policyEntry queue="a" memoryLimit="1 gb"/><memoryUsage percentOfJvmHeap="70"/>') == []
    )


def test_a_wildcard_is_no_destination_that_adds_up() -> None:
    snippet = (
        '<policyEntry queue="a.>" memoryLimit="40 mb"/><policyEntry topic=">" memoryLimit="40 mb"/>'
        '<memoryUsage limit="64 mb"/>'
    )
    assert rule_findings("C006", snippet) == []


def test_a_memory_above_the_heap_of_the_host_is_told_of_a_fleet() -> None:
    (broker, _) = fleet("orders-mq01", heap="256m", memory_limit="512 mb").brokers
    from activemq_fleet.lint.fleets import broker_file_findings

    data = XmlDocument(render_broker(broker)["conf/activemq.xml"])
    findings = broker_file_findings(broker, data, RuleSelection(select=("C006",)))
    assert [finding.message for finding in findings] == ["memoryUsage is 512 MB, more than the Java heap of 256 MB"]


@pytest.mark.parametrize("usage", ["storeUsage", "tempUsage"])
def test_a_limit_below_one_journal_file_is_told(usage: str) -> None:
    assert severities("C007", f'<{usage} limit="31 mb"/>') == ["warning"]


@pytest.mark.parametrize("limit", ["32 mb", "0", "${limit}"])
def test_a_limit_of_one_file_or_none_or_unknown_is_silent(limit: str) -> None:
    assert rule_findings("C007", f'<storeUsage limit="{limit}"/>') == []


def test_a_store_in_a_database_has_no_journal_files() -> None:
    assert rule_findings("C007", '<jdbcPersistenceAdapter dataSource="#ds"/><storeUsage limit="16 mb"/>') == []


def test_a_smaller_journal_file_makes_room() -> None:
    snippet = '<kahaDB directory="/d" journalMaxFileLength="4mb"/><storeUsage limit="16 mb"/>'
    assert rule_findings("C007", snippet) == []


def test_a_broker_that_keeps_nothing_has_no_store_to_fill() -> None:
    assert (
        rule_findings("C007", '<broker persistent="false"/><storeUsage limit="16 mb"/><tempUsage limit="1 mb"/>') == []
    )


def test_refusing_is_a_hint_where_only_bridges_could_be_meant() -> None:
    refusing = '<broker><systemUsage><systemUsage sendFailIfNoSpaceAfterTimeout="3000"/></systemUsage></broker>'
    assert rule_findings("C008", refusing) == []
    assert severities("C008", refusing + LINK.format("south", "")) == ["info"]


def test_numbers_of_thousands_of_digits_are_no_numbers() -> None:
    """Python refuses to read them, which must not end a check."""
    big = "9" * 5000
    assert rule_findings("C007", f'<storeUsage limit="{big} mb"/>') == []
    assert rule_findings("C009", connector(f"nio://0.0.0.0:{big}?maximumConnections={big}")) == []


def in_one_line(rule: str, snippet: str) -> list[Finding]:
    release = Release.of("5.18.3")
    content = complete(snippet, release).replace(b"\n", b" ")
    return [finding for finding in file_findings(content, release) if finding.rule == rule]


def test_a_huge_limit_is_printed_without_an_exponent() -> None:
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
def test_elements_that_share_a_line_are_reported_with_the_line_once(rule: str, snippet: str) -> None:
    (finding,) = in_one_line(rule, snippet)
    assert "the same in" not in finding.message


def test_two_policies_in_one_line_are_reported_without_its_number() -> None:
    (finding,) = in_one_line("C040", 2 * '<policyEntry queue=">" memoryLimit="64 mb"/>')
    assert finding.message.startswith("this policyEntry and another in the same line are both for queue >")
