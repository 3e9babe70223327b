"""Tests of rule V024: the names of placeholders that files, the start script and the JVM define."""

from __future__ import annotations

import re
from typing import Any

import pytest

from activemq_fleet.lint import fleet_findings
from activemq_fleet.lint.fleets import broker_activemq_xml_findings
from activemq_fleet.releases import Release
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from tests.rule_examples import complete
from tests.support.rule_findings import rule_findings
from tests.unit.fleets import fleet

CLASS = 'class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer"'
LINK = '<networkConnector name="south" uri="static:(tcp://{}:61616)"/>'
OWN_PROPERTIES = '<property name="properties"><value>app.password=x</value></property>'


def configurer(inside: str = "") -> str:
    return f"<bean {CLASS}>{OWN_PROPERTIES}{inside}</bean>"


def unset_placeholders(snippet: str, release: str = "5.18.3", **other_files: str) -> list[str]:
    return [
        name
        for finding in rule_findings("V024", snippet, release, **other_files)
        for name in re.findall(r"\$\{([^}]*)\}", finding.message)
    ]


def links_to_placeholders(*placeholders: str) -> str:
    return "".join(LINK.format(f"${{{name}}}") for name in placeholders)


@pytest.mark.parametrize(
    ("location", "is_read"),
    [
        ('<property name="location" value="mine.properties"/>', True),
        ('<property name="location" value="file:${activemq.conf}/mine.properties"/>', True),
        ('<property name="location" value="file:${activemq.base}/conf/mine.properties"/>', True),
        ('<property name="location" value="classpath:mine.properties"/>', True),
        ('<property name="location" value="file:/etc/activemq/mine.properties"/>', True),
        ('<property name="locations"><list><value>mine.properties</value></list></property>', True),
        ('<property name="locations" value="a.properties, mine.properties"/>', True),
        ('<property name="location" value="sub/mine.properties"/>', False),
        ('<property name="location" value="other.properties"/>', False),
        ("", False),
    ],
)  # fmt: skip
def test_properties_file_is_read_only_if_configurer_references_it(location: str, is_read: bool) -> None:
    snippet = configurer(location) + links_to_placeholders("far.host")
    assert unset_placeholders(snippet, mine__properties="far.host = a\n") == ([] if is_read else ["far.host"])


def test_properties_file_of_property_placeholder_element_is_read() -> None:
    element = (
        '<c:property-placeholder xmlns:c="http://www.springframework.org/schema/context" location="mine.properties"/>'
    )
    snippet = f"{element}{configurer()}{links_to_placeholders('far.host')}"
    assert unset_placeholders(snippet, mine__properties="far.host=a") == []


def test_properties_bean_that_configurer_references_is_read() -> None:
    snippet = (
        f"<bean {CLASS}>{OWN_PROPERTIES}"
        '<property name="propertiesArray"><list><ref bean="mine"/></list></property></bean>'
        '<bean id="mine" class="org.springframework.beans.factory.config.PropertiesFactoryBean">'
        '<property name="location" value="mine.properties"/></bean>'
    )
    assert unset_placeholders(snippet + links_to_placeholders("far.host"), mine__properties="far.host=a") == []


@pytest.mark.parametrize(
    ("name", "accepted_from"),
    [
        ("activemq.base", "5.5.1"),
        ("activemq.home", "5.5.1"),
        ("activemq.classpath", "5.5.1"),
        ("activemq.conf", "5.6.0"),
        ("activemq.data", "5.6.0"),
        ("user.home", "5.5.1"),
        ("java.io.tmpdir", "5.5.1"),
        ("HOSTNAME", "5.5.1"),
        ("activemq.host", None),
        ("user.password", None),
        ("java.naming.url", None),
        ("hostname", None),
    ],
)
def test_placeholders_that_start_script_or_jvm_sets_are_accepted(name: str, accepted_from: str | None) -> None:
    snippet = f'<broker brokerName="${{{name}}}"/>{configurer()}'
    accepting_releases = [
        release for release in ("5.5.1", "5.6.0", "5.18.3", "6.3.1") if name not in unset_placeholders(snippet, release)
    ]
    assert (accepting_releases[0] if accepting_releases else None) == accepted_from


def test_spring_configurer_without_system_properties_ignores_values_of_start_script() -> None:
    never = '<property name="systemPropertiesModeName" value="SYSTEM_PROPERTIES_MODE_NEVER"/>'
    location = '<property name="location" value="file:${activemq.conf}/mine.properties"/>'
    snippet = f'<broker brokerName="${{user.name}}"/>{configurer(never + location)}'
    assert unset_placeholders(snippet) == ["user.name", "activemq.data"]


def test_placeholder_in_element_text_is_reported() -> None:
    bean = '<bean id="x" class="a.B"><property name="name"><value>${far.host}</value></property></bean>'
    (finding,) = rule_findings("V024", configurer() + bean)
    assert "${far.host}" in finding.message
    assert finding.line


def test_placeholder_with_default_in_element_text_is_accepted() -> None:
    bean = '<bean id="x" class="a.B"><property name="name"><value>${far.host:localhost}</value></property></bean>'
    assert unset_placeholders(configurer() + bean) == []


def fleet_messages(**variables: Any) -> set[str]:
    fragment = {"parent": "broker/networkConnectors", "xml": LINK.format("${far.host}")}
    built_fleet = fleet("orders-mq01", xml_fragments=[fragment], **variables)
    documents = {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in built_fleet.brokers}
    findings = [
        f for broker in built_fleet.brokers for f in broker_activemq_xml_findings(broker, documents[broker.host])
    ]
    findings += fleet_findings(built_fleet, documents)
    return {finding.message for finding in findings if finding.rule == "V024"}


def test_java_option_of_inventory_sets_placeholder_of_fragment() -> None:
    assert fleet_messages() == {"no properties file next to this file sets the placeholder ${far.host}"}
    assert fleet_messages(java_options=["-Dfar.host=a"]) == set()


def test_start_script_sets_conf_directory_from_5_6_on() -> None:
    assert [Release.of(text).start_script_sets_conf for text in ("5.5.1", "5.6.0")] == [False, True]


def fixes(rule: str, snippet: str) -> list[str]:
    """Return the remedies of a rule for a snippet in a document without other placeholders."""
    document = complete(snippet.replace("${", "@{"), Release.of("5.18.3"))
    document = re.sub(rb"\$\{[^}]*\}", b"x", document).replace(b"@{", b"${")
    return [finding.fix for finding in rule_findings(rule, document)]


@pytest.mark.parametrize(
    ("snippet", "fix"),
    [
        ("${far.host:a}", "which uses the defaults in the placeholders, or replace each placeholder with its value"),
        ("${activemq.data}", "which uses system properties, or replace each placeholder with its value"),
        ("${HOSTNAME}", "which uses environment variables, or replace each placeholder with its value"),
        (
            "${far.host}",
            "and define far.host in a properties file that it reads, or replace each placeholder with its value",
        ),
    ],
)
def test_fix_without_configurer_depends_on_source_of_value(snippet: str, fix: str) -> None:
    expected = f"add a PropertyPlaceholderConfigurer, {fix}"
    size = f'<policyEntry queue=">" memoryLimit="{snippet}"/>'
    assert fixes("V024", f'<broker brokerName="{snippet}"/>') == [expected]
    assert fixes("V051", size) == [expected]


def test_fix_of_several_placeholders_names_only_those_without_value() -> None:
    xml = '<broker brokerName="${my.name}" dataDirectory="${activemq.data}"/>'
    [fix] = fixes("V024", xml)
    assert "and define my.name in a properties file" in fix
