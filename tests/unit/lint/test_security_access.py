"""Secrets in clear text, rights, JMX and frames, in addition to the examples of the rules."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint import RuleSelection, fleet_findings
from activemq_fleet.releases import Release
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import build_fleet
from tests.rule_examples import in_broker, rule_findings
from tests.unit.fleets import hosts

RELEASE = Release.of("5.18.3")


def of_fleet(rule: str, **variables: Any) -> list[Finding]:
    fleet = build_fleet(hosts("orders-mq01", **variables), {})
    documents = {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in fleet.brokers}
    return list(fleet_findings(fleet, documents, RuleSelection(select=(rule,))))


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
def test_a_secret_of_any_kind_in_the_file_is_told_and_not_shown(snippet: str) -> None:
    found = rule_findings("S010", snippet)
    assert len(found) == 1
    assert found[0].line
    assert "rosebud" not in found[0].message


@pytest.mark.parametrize("value", ["${db.password}", "#{env['x']}", "ENC(abc=)", ""])
def test_what_is_not_in_clear_text_is_not_told_of_beans_either(value: str) -> None:
    assert rule_findings("S010", BEAN.format(f'<property name="password" value="{value}"/>')) == []


def test_a_password_in_java_options_is_told_and_not_shown() -> None:
    found = of_fleet("S014", java_options=["-Djavax.net.ssl.trustStorePassword=rosebud", "-Durl=tcp://u:rosebud@h:1"])
    assert len(found) == 4
    assert {finding.severity for finding in found} == {"warning"}
    assert not any("rosebud" in finding.message for finding in found)


def test_java_options_that_name_a_file_hold_no_password() -> None:
    assert of_fleet("S014", java_options=["-Dx.password.file=/etc/x", "-Xmx1g", "-Dpasswords=2"]) == []


def test_a_login_without_rights_is_an_info_of_a_fleet_and_a_warning_of_a_file() -> None:
    (finding,) = rule_findings("S015", USERS.format('<authenticationUser username="a" password="${a}" groups="b"/>'))
    assert finding.severity == "warning"
    assert {finding.severity for finding in of_fleet("S015")} == {"info"}
    acl = [{"kind": "queue", "destination": "orders.>", "read": ["apps"], "write": ["apps"], "admin": ["admins"]}]
    assert of_fleet("S015", acl=acl) == []


def test_a_plugin_of_ones_own_may_decide_rights() -> None:
    plugins = '<plugins><jaasAuthenticationPlugin configuration="a"/><bean class="x.Rights"/></plugins>'
    assert rule_findings("S015", in_broker(plugins)) == []


def test_jmx_with_a_password_file_asks_for_a_login() -> None:
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
def test_frames_of_all_connections_are_held_against_the_heap(
    heap: str, options: dict[str, str], severity: str | None
) -> None:
    connectors = [{"name": "openwire", "scheme": "nio", "port": 61616, "options": options}] if options else None
    found = of_fleet("S018", heap=heap, **({"connectors": connectors} if connectors else {}))
    assert {finding.severity for finding in found} == ({severity} if severity else set())
    assert all("frames of up to" in finding.message and "has room for" in finding.message for finding in found)
