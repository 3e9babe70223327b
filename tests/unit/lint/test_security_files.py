"""Tests of rules about the files next to activemq.xml: positions, and configurations that do not use the files."""

from __future__ import annotations

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint import RuleSelection, file_findings, fleet_findings
from activemq_fleet.releases import Release
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from tests.rule_examples import complete
from tests.support.security_findings import security_findings
from tests.unit.fleets import fleet

CONSOLE = '<import resource="jetty.xml"/>'
BEANS = '<beans xmlns="http://www.springframework.org/schema/beans">{}</beans>'
PROPERTIES_LOADER = (
    '<bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer">'
    '<property name="locations"><value>file:${activemq.conf}/credentials.properties</value></property></bean>'
)
LOGIN = (
    "<simpleAuthenticationPlugin><users>"
    '<authenticationUser username="${activemq.username}" password="${activemq.password}" groups="admins"/>'
    "</users></simpleAuthenticationPlugin>"
)


def positions_of(findings: list[Finding]) -> list[tuple[str | None, int | None, int | None, str]]:
    return [(finding.file, finding.line, finding.column, finding.severity) for finding in findings]


def test_default_account_of_web_console_is_reported_at_its_line() -> None:
    realm = "# accounts\n\n  admin: admin, admin\napp: a good one, user\n"
    assert positions_of(security_findings("S004", CONSOLE, jetty__realm_properties=realm)) == [
        ("conf/jetty-realm.properties", 3, 3, "error")
    ]


@pytest.mark.parametrize("file", ["/etc/activemq/activemq.xml", "conf/activemq.xml", "/activemq.xml", "activemq.xml"])
def test_finding_in_other_file_has_path_relative_to_given_file(file: str) -> None:
    release = Release.of("5.18.3")
    other_files = {"jetty-realm.properties": b"admin: admin"}
    findings = file_findings(
        complete(CONSOLE, release),
        release,
        file=file,
        other_files=other_files,
        selection=RuleSelection(select=("S004",)),
    )
    assert [finding.file for finding in findings] == [file.replace("activemq.xml", "jetty-realm.properties")]


def test_default_console_accounts_are_reported_with_windows_line_ends() -> None:
    assert (
        len(security_findings("S004", CONSOLE, jetty__realm_properties="admin: admin, admin\r\nuser: user, user\r\n"))
        == 2
    )


@pytest.mark.parametrize("line", ["#admin: admin, admin", "admin: OBF:1u2a, admin", "admin: admin2, admin", "admin"])
def test_comment_hash_or_changed_password_is_no_default_console_account(line: str) -> None:
    assert security_findings("S004", CONSOLE, jetty__realm_properties=line) == []


def test_default_account_of_disabled_console_is_not_reported() -> None:
    assert security_findings("S004", "", jetty__realm_properties="admin: admin, admin") == []


def test_default_account_is_not_reported_with_custom_console_login() -> None:
    login_bean = BEANS.format('<bean class="com.example.Login"/>')
    assert security_findings("S004", CONSOLE, jetty_xml=login_bean, jetty__realm_properties="admin: admin, admin") == []


def test_default_account_of_console_without_authentication_is_info() -> None:
    page = BEANS.format(
        '<bean class="org.eclipse.jetty.security.HashLoginService">'
        '<property name="config" value="${activemq.conf}/jetty-realm.properties"/></bean>'
        '<bean class="org.eclipse.jetty.http.security.Constraint"><property name="authenticate" value="false"/></bean>'
    )
    findings = security_findings(
        "S004", CONSOLE, "5.5.1", jetty_xml=page, jetty__realm_properties="admin: admin, admin"
    )
    assert [finding.severity for finding in findings] == ["info"]


def test_default_credentials_of_broker_are_reported_at_their_line() -> None:
    credentials = "activemq.username=system\nactivemq.password=manager\n"
    assert positions_of(security_findings("S004", PROPERTIES_LOADER + LOGIN, credentials_properties=credentials)) == [
        ("conf/credentials.properties", 2, 1, "error")
    ]


def test_encrypted_default_credentials_are_reported() -> None:
    credentials = "activemq.username=system\nactivemq.password=ENC(mYRkg+4Q4hua1kvpCCI2hg==)\n"
    loader = PROPERTIES_LOADER.replace("credentials.", "credentials-enc.")
    assert len(security_findings("S004", loader + LOGIN, credentials__enc_properties=credentials)) == 1


def test_unused_default_credentials_are_not_reported() -> None:
    credentials = "activemq.username=system\nactivemq.password=manager\n"
    assert security_findings("S004", LOGIN, credentials_properties=credentials) == []


def test_default_account_of_link_is_reported_in_activemq_xml() -> None:
    link = (
        '<networkConnector name="south" uri="static:(tcp://south:61616)"\n   userName="system"\n   password="manager"/>'
    )
    (finding,) = security_findings("S004", link)
    assert "networkConnector south" in finding.message
    assert finding.file == "conf/activemq.xml"


def test_default_users_are_reported_only_with_jaas() -> None:
    users = {"users_properties": "admin=admin\n"}
    assert security_findings("S004", CONSOLE, "5.18.3", **users) == []
    assert (
        len(security_findings("S004", '<jaasAuthenticationPlugin configuration="activemq"/>', "5.18.3", **users)) == 1
    )
    assert len(security_findings("S004", CONSOLE, "6.1.8", **users)) == 1


def test_default_users_are_not_reported_with_different_login_module() -> None:
    files = {"users_properties": "admin=admin\n", "login_config": "activemq { com.example.Login required; };"}
    assert security_findings("S004", CONSOLE, "6.1.8", **files) == []


def test_default_jmx_account_is_error_if_used() -> None:
    bean = '<bean class="x.Y"><property name="file" value="${activemq.conf}/jmx.password"/></bean>'
    assert [f.severity for f in security_findings("S004", "", jmx_password="admin activemq")] == ["info"]
    assert [f.severity for f in security_findings("S004", bean, jmx_password="admin activemq")] == ["error"]


def test_missing_console_file_is_reported_as_not_checked() -> None:
    (finding,) = security_findings("S006", CONSOLE)
    assert finding.severity == "info"
    assert "were not checked" in finding.message


def test_console_file_that_is_not_xml_has_no_findings() -> None:
    for rule in ("S005", "S006", "S012"):
        assert security_findings(rule, CONSOLE, "5.11.4", jetty_xml="<beans>") == []
    assert security_findings("S007", CONSOLE, jetty_xml="<beans/>", jolokia__access_xml="<restrict>") == []


@pytest.mark.parametrize(
    ("host", "count"), [("0.0.0.0", 1), ("::", 1), ("127.0.0.1", 0), ("10.1.2.3", 0), ("${console.host}", 0)]
)
def test_web_console_is_reported_only_if_its_host_is_public(host: str, count: int) -> None:
    page = BEANS.format(
        f'<bean class="org.eclipse.jetty.server.ServerConnector"><property name="host"><value>{host}</value>'
        "</property></bean>"
    )
    assert len(security_findings("S006", CONSOLE, jetty_xml=page)) == count


def test_two_console_connectors_with_jetty_host_are_reported_once() -> None:
    connector = (
        '<bean class="org.eclipse.jetty.server.ServerConnector">'
        '<property name="host" value="#{systemProperties[\'jetty.host\']}"/></bean>'
    )
    page = BEANS.format('<bean class="org.apache.activemq.web.WebConsolePort"/>' + connector * 2)
    assert len(security_findings("S006", CONSOLE, jetty_xml=page)) == 1


def test_console_with_address_filter_is_not_reported() -> None:
    page = BEANS.format(
        '<bean class="org.eclipse.jetty.server.ServerConnector"/>'
        '<bean class="org.eclipse.jetty.server.handler.InetAccessHandler"/>'
    )
    assert security_findings("S006", CONSOLE, jetty_xml=page) == []


def test_console_connector_in_activemq_xml_is_reported() -> None:
    (finding,) = security_findings("S006", '<bean class="org.eclipse.jetty.server.nio.SelectChannelConnector"/>')
    assert finding.file == "conf/activemq.xml"


def test_console_address_of_fleet_is_read_from_variable() -> None:
    """The linter caches findings of identical documents. The console address is not in the document."""
    for bind, expected in (("127.0.0.1", 0), ("0.0.0.0", 2)):
        rendered_fleet = fleet("orders-mq01", console_bind=bind)
        documents = {
            broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in rendered_fleet.brokers
        }
        assert len(fleet_findings(rendered_fleet, documents, RuleSelection(select=("S006",)))) == expected


def test_linter_checks_extra_files_of_fleet() -> None:
    """The document activemq.xml is the same with and without extra files."""
    for content, expected in (("<restrict><commands/></restrict>", 0), ("<restrict/>", 2)):
        rendered_fleet = fleet("orders-mq01", extra_files=[{"path": "conf/jolokia-access.xml", "content": content}])
        documents = {
            broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in rendered_fleet.brokers
        }
        findings = fleet_findings(rendered_fleet, documents, RuleSelection(select=("S007",)))
        assert [finding.file for finding in findings] == ["conf/jolokia-access.xml"] * expected


def test_list_of_protected_console_paths_is_reported_from_jetty_11_on() -> None:
    page = BEANS.format(
        '<bean class="org.eclipse.jetty.security.ConstraintMapping"><property name="pathSpec" value="*.jsp,/api/*"/>'
        '</bean><bean class="org.eclipse.jetty.webapp.WebAppContext"><property name="contextPath" value="/api"/></bean>'
    )
    assert security_findings("S005", CONSOLE, "5.18.3", jetty_xml=page) == []
    assert len(security_findings("S005", CONSOLE, "6.0.1", jetty_xml=page)) == 1


def test_custom_security_handler_of_web_console_is_accepted() -> None:
    page = BEANS.format(
        '<bean class="com.example.SecurityFilter"/>'
        '<bean class="org.eclipse.jetty.webapp.WebAppContext"><property name="contextPath" value="/api"/></bean>'
    )
    assert security_findings("S005", CONSOLE, jetty_xml=page) == []


def jolokia_policy(commands: str, section: str) -> str:
    return f"<restrict><commands><command>{commands}</command></commands>{section}</restrict>"


def jolokia_operation(name: str, mbean: str = "org.apache.activemq:type=Broker,brokerName=*") -> str:
    return f"<mbean><name>{mbean}</name><operation>{name}</operation></mbean>"


@pytest.mark.parametrize(
    ("text", "is_reported"),
    [
        (jolokia_policy("read", f"<allow>{jolokia_operation('*')}</allow>"), True),
        (
            jolokia_policy("read", f"<allow>{jolokia_operation('*')}</allow><deny>{jolokia_operation('add*')}</deny>"),
            True,
        ),
        (
            jolokia_policy("exec", f"<allow>{jolokia_operation('*')}</allow><deny>{jolokia_operation('add*')}</deny>"),
            False,
        ),
        (jolokia_policy("exec", f"<deny>{jolokia_operation('*', 'org.apache.activemq:*')}</deny>"), False),
        (jolokia_policy("exec", f"<deny>{jolokia_operation('*', 'java.lang:*')}</deny>"), True),
        (
            jolokia_policy(
                "exec", f"<deny>{jolokia_operation('add*', 'org.apache.activemq:type=Broker,service=x')}</deny>"
            ),
            True,
        ),
        (jolokia_policy("read", f"<allow>{jolokia_operation('browse')}</allow>"), False),
        (jolokia_policy("read", ""), False),
        ("<restrict/>", True),
        ("<other/>", False),
    ],
)
def test_jolokia_policy_that_permits_add_operations_is_reported(text: str, is_reported: bool) -> None:
    """Measured on 5.18.3: Jolokia applies <deny> only if <commands> contains exec."""
    assert bool(security_findings("S007", CONSOLE, jetty_xml="<beans/>", jolokia__access_xml=text)) is is_reported


def test_missing_jolokia_policy_is_not_reported() -> None:
    assert security_findings("S007", CONSOLE, jetty_xml="<beans/>") == []


def test_jolokia_policy_of_broker_without_web_console_is_not_reported() -> None:
    assert security_findings("S007", "", jolokia__access_xml="<restrict/>") == []
