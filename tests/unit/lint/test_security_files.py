"""The files beside activemq.xml: exact places, and what makes no use of them."""

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
LOADS = (
    '<bean class="org.springframework.beans.factory.config.PropertyPlaceholderConfigurer">'
    '<property name="locations"><value>file:${activemq.conf}/credentials.properties</value></property></bean>'
)
LOGIN = (
    "<simpleAuthenticationPlugin><users>"
    '<authenticationUser username="${activemq.username}" password="${activemq.password}" groups="admins"/>'
    "</users></simpleAuthenticationPlugin>"
)


def places(found: list[Finding]) -> list[tuple[str | None, int | None, int | None, str]]:
    return [(finding.file, finding.line, finding.column, finding.severity) for finding in found]


def test_the_place_of_an_account_is_its_line() -> None:
    realm = "# accounts\n\n  admin: admin, admin\napp: a good one, user\n"
    assert places(security_findings("S004", CONSOLE, jetty__realm_properties=realm)) == [
        ("conf/jetty-realm.properties", 3, 3, "error")
    ]


@pytest.mark.parametrize("file", ["/etc/activemq/activemq.xml", "conf/activemq.xml", "/activemq.xml", "activemq.xml"])
def test_a_file_beside_is_named_by_the_path_of_the_file_that_was_given(file: str) -> None:
    release = Release.of("5.18.3")
    other_files = {"jetty-realm.properties": b"admin: admin"}
    found = file_findings(
        complete(CONSOLE, release),
        release,
        file=file,
        other_files=other_files,
        selection=RuleSelection(select=("S004",)),
    )
    assert [finding.file for finding in found] == [file.replace("activemq.xml", "jetty-realm.properties")]


def test_windows_line_ends_hide_no_account() -> None:
    assert (
        len(security_findings("S004", CONSOLE, jetty__realm_properties="admin: admin, admin\r\nuser: user, user\r\n"))
        == 2
    )


@pytest.mark.parametrize("line", ["#admin: admin, admin", "admin: OBF:1u2a, admin", "admin: admin2, admin", "admin"])
def test_a_comment_a_hash_or_another_password_is_no_shipped_account(line: str) -> None:
    assert security_findings("S004", CONSOLE, jetty__realm_properties=line) == []


def test_accounts_of_a_console_that_is_off_are_no_accounts() -> None:
    assert security_findings("S004", "", jetty__realm_properties="admin: admin, admin") == []


def test_a_console_that_asks_somebody_else_makes_no_use_of_the_realm() -> None:
    other = BEANS.format('<bean class="com.example.Login"/>')
    assert security_findings("S004", CONSOLE, jetty_xml=other, jetty__realm_properties="admin: admin, admin") == []


def test_accounts_that_nobody_is_asked_for_are_a_hint() -> None:
    page = BEANS.format(
        '<bean class="org.eclipse.jetty.security.HashLoginService">'
        '<property name="config" value="${activemq.conf}/jetty-realm.properties"/></bean>'
        '<bean class="org.eclipse.jetty.http.security.Constraint"><property name="authenticate" value="false"/></bean>'
    )
    findings = security_findings(
        "S004", CONSOLE, "5.5.1", jetty_xml=page, jetty__realm_properties="admin: admin, admin"
    )
    assert [finding.severity for finding in findings] == ["info"]


def test_credentials_that_the_broker_takes_are_told_where_they_stand() -> None:
    text = "activemq.username=system\nactivemq.password=manager\n"
    assert places(security_findings("S004", LOADS + LOGIN, credentials_properties=text)) == [
        ("conf/credentials.properties", 2, 1, "error")
    ]


def test_encrypted_credentials_of_the_releases_are_known() -> None:
    text = "activemq.username=system\nactivemq.password=ENC(mYRkg+4Q4hua1kvpCCI2hg==)\n"
    loads = LOADS.replace("credentials.", "credentials-enc.")
    assert len(security_findings("S004", loads + LOGIN, credentials__enc_properties=text)) == 1


def test_credentials_that_nothing_loads_are_no_accounts() -> None:
    text = "activemq.username=system\nactivemq.password=manager\n"
    assert security_findings("S004", LOGIN, credentials_properties=text) == []


def test_the_shipped_account_of_a_link_is_told_in_activemq_xml() -> None:
    link = (
        '<networkConnector name="south" uri="static:(tcp://south:61616)"\n   userName="system"\n   password="manager"/>'
    )
    (finding,) = security_findings("S004", link)
    assert "networkConnector south" in finding.message
    assert finding.file == "conf/activemq.xml"


def test_users_count_where_jaas_is_asked() -> None:
    users = {"users_properties": "admin=admin\n"}
    assert security_findings("S004", CONSOLE, "5.18.3", **users) == []
    assert (
        len(security_findings("S004", '<jaasAuthenticationPlugin configuration="activemq"/>', "5.18.3", **users)) == 1
    )
    assert len(security_findings("S004", CONSOLE, "6.1.8", **users)) == 1


def test_users_that_login_config_does_not_name_do_not_count() -> None:
    files = {"users_properties": "admin=admin\n", "login_config": "activemq { com.example.Login required; };"}
    assert security_findings("S004", CONSOLE, "6.1.8", **files) == []


def test_the_account_of_jmx_is_an_error_where_it_is_in_use() -> None:
    used = '<bean class="x.Y"><property name="file" value="${activemq.conf}/jmx.password"/></bean>'
    assert [f.severity for f in security_findings("S004", "", jmx_password="admin activemq")] == ["info"]
    assert [f.severity for f in security_findings("S004", used, jmx_password="admin activemq")] == ["error"]


def test_a_console_whose_file_is_not_there_is_said_not_to_be_looked_at() -> None:
    (finding,) = security_findings("S006", CONSOLE)
    assert finding.severity == "info"
    assert "were not checked" in finding.message


def test_a_console_file_that_is_not_xml_is_passed_over() -> None:
    for rule in ("S005", "S006", "S012"):
        assert security_findings(rule, CONSOLE, "5.11.4", jetty_xml="<beans>") == []
    assert security_findings("S007", CONSOLE, jetty_xml="<beans/>", jolokia__access_xml="<restrict>") == []


@pytest.mark.parametrize(
    ("host", "count"), [("0.0.0.0", 1), ("::", 1), ("127.0.0.1", 0), ("10.1.2.3", 0), ("${console.host}", 0)]
)
def test_the_host_of_a_connector_itself_decides(host: str, count: int) -> None:
    page = BEANS.format(
        f'<bean class="org.eclipse.jetty.server.ServerConnector"><property name="host"><value>{host}</value>'
        "</property></bean>"
    )
    assert len(security_findings("S006", CONSOLE, jetty_xml=page)) == count


def test_two_connectors_that_follow_jetty_port_are_told_once() -> None:
    follows = (
        '<bean class="org.eclipse.jetty.server.ServerConnector">'
        '<property name="host" value="#{systemProperties[\'jetty.host\']}"/></bean>'
    )
    page = BEANS.format('<bean class="org.apache.activemq.web.WebConsolePort"/>' + follows * 2)
    assert len(security_findings("S006", CONSOLE, jetty_xml=page)) == 1


def test_a_handler_that_lets_in_named_addresses_is_trusted() -> None:
    page = BEANS.format(
        '<bean class="org.eclipse.jetty.server.ServerConnector"/>'
        '<bean class="org.eclipse.jetty.server.handler.InetAccessHandler"/>'
    )
    assert security_findings("S006", CONSOLE, jetty_xml=page) == []


def test_a_console_in_activemq_xml_itself_is_looked_at() -> None:
    (finding,) = security_findings("S006", '<bean class="org.eclipse.jetty.server.nio.SelectChannelConnector"/>')
    assert finding.file == "conf/activemq.xml"


def test_a_fleet_says_with_its_own_variable_where_the_console_listens() -> None:
    """Documents that are the same are looked at once, so what is not in them must be told apart."""
    for bind, expected in (("127.0.0.1", 0), ("0.0.0.0", 2)):
        ours = fleet("orders-mq01", console_bind=bind)
        documents = {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in ours.brokers}
        assert len(fleet_findings(ours, documents, RuleSelection(select=("S006",)))) == expected


def test_files_of_the_users_own_are_looked_at_in_a_fleet() -> None:
    """The document is the same with and without them."""
    for content, expected in (("<restrict><commands/></restrict>", 0), ("<restrict/>", 2)):
        ours = fleet("orders-mq01", extra_files=[{"path": "conf/jolokia-access.xml", "content": content}])
        documents = {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in ours.brokers}
        findings = fleet_findings(ours, documents, RuleSelection(select=("S007",)))
        assert [finding.file for finding in findings] == ["conf/jolokia-access.xml"] * expected


def test_a_list_of_paths_is_one_path_from_jetty_11_on() -> None:
    page = BEANS.format(
        '<bean class="org.eclipse.jetty.security.ConstraintMapping"><property name="pathSpec" value="*.jsp,/api/*"/>'
        '</bean><bean class="org.eclipse.jetty.webapp.WebAppContext"><property name="contextPath" value="/api"/></bean>'
    )
    assert security_findings("S005", CONSOLE, "5.18.3", jetty_xml=page) == []
    assert len(security_findings("S005", CONSOLE, "6.0.1", jetty_xml=page)) == 1


def test_another_security_handler_is_trusted() -> None:
    page = BEANS.format(
        '<bean class="com.example.SecurityFilter"/>'
        '<bean class="org.eclipse.jetty.webapp.WebAppContext"><property name="contextPath" value="/api"/></bean>'
    )
    assert security_findings("S005", CONSOLE, jetty_xml=page) == []


def policy(commands: str, section: str) -> str:
    return f"<restrict><commands><command>{commands}</command></commands>{section}</restrict>"


def operation(name: str, mbean: str = "org.apache.activemq:type=Broker,brokerName=*") -> str:
    return f"<mbean><name>{mbean}</name><operation>{name}</operation></mbean>"


@pytest.mark.parametrize(
    ("text", "open_doors"),
    [
        (policy("read", f"<allow>{operation('*')}</allow>"), True),
        (policy("read", f"<allow>{operation('*')}</allow><deny>{operation('add*')}</deny>"), True),
        (policy("exec", f"<allow>{operation('*')}</allow><deny>{operation('add*')}</deny>"), False),
        (policy("exec", f"<deny>{operation('*', 'org.apache.activemq:*')}</deny>"), False),
        (policy("exec", f"<deny>{operation('*', 'java.lang:*')}</deny>"), True),
        (policy("exec", f"<deny>{operation('add*', 'org.apache.activemq:type=Broker,service=x')}</deny>"), True),
        (policy("read", f"<allow>{operation('browse')}</allow>"), False),
        (policy("read", ""), False),
        ("<restrict/>", True),
        ("<other/>", False),
    ],
)
def test_a_policy_is_read_as_jolokia_reads_it(text: str, open_doors: bool) -> None:
    """Measured on 5.18.3: without exec in <commands> a <deny> was not asked, with it it was."""
    assert bool(security_findings("S007", CONSOLE, jetty_xml="<beans/>", jolokia__access_xml=text)) is open_doors


def test_a_policy_that_is_missing_refuses_everything() -> None:
    assert security_findings("S007", CONSOLE, jetty_xml="<beans/>") == []


def test_a_policy_beside_a_broker_without_console_opens_nothing() -> None:
    assert security_findings("S007", "", jolokia__access_xml="<restrict/>") == []
