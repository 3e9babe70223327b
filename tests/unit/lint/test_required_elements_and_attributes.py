"""Tests of V064 to V066: required attributes, child elements and beans, and the files that cannot be judged."""

from __future__ import annotations

import pytest

from tests.rule_examples import in_broker, rule_findings


def virtual_destinations(inside: str) -> str:
    return in_broker(
        "<destinationInterceptors><virtualDestinationInterceptor><virtualDestinations>"
        f"{inside}</virtualDestinations></virtualDestinationInterceptor></destinationInterceptors>"
    )


@pytest.mark.parametrize(
    ("snippet", "release", "message"),
    [
        ('<networkConnector name="south"/>', "5.5.1", '<networkConnector name="south"> has no uri'),
        ('<networkConnector name="south" uri=" "/>', "6.3.1", 'uri of <networkConnector name="south"> is empty'),
        ('<policyEntry queue=""/>', "5.11.4", "queue of <policyEntry> is empty"),
        (in_broker("<persistenceAdapter/>"), "5.5.1", "<persistenceAdapter> has no store"),
        (in_broker("<destinations><topic/></destinations>"), "5.8.0", "<topic> has no physicalName"),
        (virtual_destinations('<compositeQueue name="a"/>'), "5.18.3", '<compositeQueue name="a"> has no forwardTo'),
    ],
)
def test_missing_or_empty_required_part_is_reported(snippet: str, release: str, message: str) -> None:
    assert [finding.message for finding in rule_findings("V064", snippet, release)] == [
        f"{message}: the broker does not start"
    ]


@pytest.mark.parametrize(
    "snippet",
    [
        '<networkConnector name="south" uri="${south.uri}"/>',
        '<networkConnector name="south" uri="@SOUTH_URI@"/>',
        '<networkConnector name="south" discoveryAgent="#agent"/>',
        '<networkConnector name="south"><bean class="a.B"/></networkConnector>',
        '<networkConnector name="south" uir="static:(tcp://south:61616)"/>',
        in_broker(
            "<destinationPolicy><policyMap><defaultEntry><policyEntry/></defaultEntry></policyMap></destinationPolicy>"
        ),
        '<policyEntry tempQueue="true"/>',
        virtual_destinations("<virtualTopic/>"),
    ],
)
def test_element_with_unknown_or_optional_part_is_not_reported(snippet: str) -> None:
    assert rule_findings("V064", snippet, "6.3.1") == []


@pytest.mark.parametrize(
    ("snippet", "release"),
    [
        ('<policyEntry queue=""/>', "5.8.0"),
        (virtual_destinations('<compositeQueue name="a"/>'), "5.8.0"),
    ],
)
def test_missing_part_is_not_reported_on_release_that_starts_without_it(snippet: str, release: str) -> None:
    assert rule_findings("V064", snippet, release) == []


STRING = '<bean id="clock" class="java.lang.String"{}><constructor-arg ref="{}"/></bean>'


@pytest.mark.parametrize(
    "snippet",
    [
        STRING.format("", "time") + '<import resource="beans.xml"/>',
        STRING.format(' lazy-init="true"', "time"),
        STRING.format("", "${time}"),
        STRING.format("", "environment"),
        STRING.format("", "openwire"),
        STRING.format("", "time") + '<bean class="com.example.BeanRegistrar"/>',
        STRING.format("", "time") + '<bean class="com.example.DataSources"/>',
        STRING.format("", "&amp;time") + '<bean id="time" class="java.util.Date"/>',
        '<networkConnector name="a" uri="static:(tcp://a:61616)" userName="b" password="#null"/>',
        '<networkConnector name="a" uri="static:(tcp://a:61616)" userName="b" password="##c"/>',
        '<networkConnector name="a" uri="static:(tcp://a:61616)" userName="b" password="#{c}"/>',
    ],
)
def test_reference_that_may_be_defined_is_not_reported(snippet: str) -> None:
    assert rule_findings("V065", snippet) == []


def test_finding_about_reference_does_not_contain_password() -> None:
    link = '<networkConnector name="a" uri="static:(tcp://a:61616)" userName="b" password="#rosebud"/>'
    (finding,) = rule_findings("V065", link)

    assert finding.message.startswith("password of <networkConnector> refers to a bean,")
    assert "write ##" in finding.fix


@pytest.mark.parametrize(("value", "count"), [("false", 1), ("true", 0), ("${scheduler}", 0)])
def test_redelivery_plugin_is_reported_only_without_scheduler(value: str, count: int) -> None:
    broker = f'<broker schedulerSupport="{value}"><plugins><redeliveryPlugin/></plugins></broker>'
    assert len(rule_findings("V066", broker)) == count


@pytest.mark.parametrize(("asynchronous", "count"), [("false", 1), ("true", 0), ("${later}", 0)])
def test_connector_without_uri_is_reported_only_if_broker_waits_for_it(asynchronous: str, count: int) -> None:
    broker = (
        f'<broker networkConnectorStartAsync="{asynchronous}"><networkConnectors><networkConnector name="a"/>'
        "</networkConnectors></broker>"
    )
    assert len(rule_findings("V064", broker)) == count


def test_composite_destination_needs_no_physical_name() -> None:
    assert rule_findings("V064", '<destinations><queue compositeDestinations="#list"/></destinations>') == []
