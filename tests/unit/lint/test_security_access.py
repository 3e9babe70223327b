"""Tests of the rules about plain-text secrets, rights, JMX and frames beyond their examples."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.releases import Release
from activemq_fleet.topology import build_fleet
from tests.rule_examples import in_broker, rule_findings
from tests.support.rule_findings import fleet_rule_findings
from tests.unit.fleets import hosts

RELEASE = Release.of("5.18.3")


def fleet_findings_of(rule: str, **variables: Any) -> list[Finding]:
    return fleet_rule_findings(rule, build_fleet(hosts("orders-mq01", **variables), {}))


BEAN = '<bean id="b" class="x.Y">{}</bean>'
USERS = "<simpleAuthenticationPlugin><users>{}</users></simpleAuthenticationPlugin>"


@pytest.mark.parametrize(
    "snippet",
    [
        in_broker('<sslContext><sslContext keyStorePassword="rosebud"/></sslContext>'),
        in_broker('<sslContext><sslContext trustStorePassword="rosebud"/></sslContext>'),
        in_broker('<sslContext><sslContext keyStoreKeyPassword="rosebud"/></sslContext>'),
        USERS.format('<authenticationUser username="app" password="rosebud" groups="apps"/>'),
        '<networkConnector name="s" uri="static:(tcp://s:1)" password="rosebud"/>',
        '<networkConnector name="s" uri="static:(tcp://s:1)" remotePassword="rosebud"/>',
        '<networkConnector name="s" uri="static:(ssl://s:1?socket.keyStorePassword=rosebud)"/>',
        '<networkConnector name="s" uri="static:(tcp://user:rosebud@s:1)"/>',
        '<ldapNetworkConnector name="s" uri="ldap://s" password="rosebud"/>',
        in_broker('<jmsBridgeConnectors><jmsQueueConnector outboundPassword="rosebud"/></jmsBridgeConnectors>'),
        in_broker('<plugins><bean class="x.LdapMap" connectionPassword="rosebud"/></plugins>'),
        BEAN.format('<property name="password" value="rosebud"/>'),
        BEAN.format('<property name="password"><value>rosebud</value></property>'),
        BEAN.format('<property name="connectionPassword" value="rosebud"/>'),
        BEAN.format('<property name="url" value="jdbc:mysql://db/x?user=u&amp;password=rosebud"/>'),
        BEAN.format('<property name="p"><map><entry key="ldap.password" value="rosebud"/></map></property>'),
        BEAN.format('<property name="p"><props><prop key="db.password">rosebud</prop></props></property>'),
    ],
)
def test_plain_text_secret_is_reported_without_its_value(snippet: str) -> None:
    findings = rule_findings("S010", snippet)
    assert len(findings) == 1
    assert findings[0].line
    assert "rosebud" not in findings[0].message


@pytest.mark.parametrize("value", ["${db.password}", "#{env['x']}", "ENC(abc=)", ""])
def test_bean_password_that_is_not_plain_text_is_not_reported(value: str) -> None:
    assert rule_findings("S010", BEAN.format(f'<property name="password" value="{value}"/>')) == []


def test_password_in_java_options_is_reported_without_its_value() -> None:
    findings = fleet_findings_of(
        "S014", java_options=["-Djavax.net.ssl.trustStorePassword=rosebud", "-Durl=tcp://u:rosebud@h:1"]
    )
    assert len(findings) == 4
    assert {finding.severity for finding in findings} == {"warning"}
    assert not any("rosebud" in finding.message for finding in findings)


def test_java_options_without_password_are_not_reported() -> None:
    assert fleet_findings_of("S014", java_options=["-Dx.password.file=/etc/x", "-Xmx1g", "-Dpasswords=2"]) == []


def test_missing_rights_are_warning_for_file_and_info_for_fleet() -> None:
    (finding,) = rule_findings("S015", USERS.format('<authenticationUser username="a" password="${a}" groups="b"/>'))
    assert finding.severity == "warning"
    assert {finding.severity for finding in fleet_findings_of("S015")} == {"info"}
    acl = [{"kind": "queue", "destination": "orders.>", "read": ["apps"], "write": ["apps"], "admin": ["admins"]}]
    assert fleet_findings_of("S015", acl=acl) == []


def test_custom_broker_plugin_counts_as_authorization() -> None:
    plugins = '<plugins><jaasAuthenticationPlugin configuration="a"/><bean class="x.Rights"/></plugins>'
    assert rule_findings("S015", in_broker(plugins)) == []


def test_total_frame_size_is_compared_with_heap_of_java_option() -> None:
    options = {"wireFormat.maxFrameSize": "10485760", "maximumConnections": "1000"}
    connectors = [{"name": "openwire", "scheme": "nio", "port": 61616, "options": options}]

    assert fleet_findings_of("S018", connectors=connectors, java_options=["-Xmx16g"]) == []


def test_jmx_with_password_file_is_not_reported() -> None:
    entry = '<entry xmlns="http://www.springframework.org/schema/beans" key="jmx.remote.x.password.file" value="x"/>'
    context = '<managementContext><managementContext createConnector="true">{}</managementContext></managementContext>'
    assert (
        rule_findings("S017", in_broker(context.format(f"<property name='environment'><map>{entry}</map></property>")))
        == []
    )
    assert len(rule_findings("S017", in_broker(context.format("")))) == 1


@pytest.mark.parametrize(
    ("heap", "options", "severity"),
    [
        ("512m", {}, None),
        ("512m", {"transport.soTimeout": "1000"}, None),
        ("512m", {"wireFormat.maxFrameSize": "10485760", "maximumConnections": "2000"}, "info"),
        ("512m", {"wireFormat.maxFrameSize": "268435456"}, "warning"),
        ("512m", {"wireFormat.maxFrameSize": "1048576", "maximumConnections": "100"}, None),
        ("16g", {"wireFormat.maxFrameSize": "10485760", "maximumConnections": "1000"}, None),
    ],
)
def test_total_frame_size_is_compared_with_heap(heap: str, options: dict[str, str], severity: str | None) -> None:
    connectors = [{"name": "openwire", "scheme": "nio", "port": 61616, "options": options}] if options else None
    findings = fleet_findings_of("S018", heap=heap, **({"connectors": connectors} if connectors else {}))
    assert {finding.severity for finding in findings} == ({severity} if severity else set())
    assert all("frames of up to" in finding.message and "has room for" in finding.message for finding in findings)
