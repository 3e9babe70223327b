"""Tests of the security rules about authentication, connectors and frames beyond their examples."""

from __future__ import annotations

import pytest

from activemq_fleet.lint import RuleSelection, file_findings
from activemq_fleet.lint.document import Document
from activemq_fleet.lint.files import document_findings
from activemq_fleet.releases import Release
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from tests.rule_examples import complete, rule_findings
from tests.unit.fleets import fleet


def severities(rule: str, snippet: str, release: str = "5.18.3") -> list[str]:
    return [finding.severity for finding in rule_findings(rule, snippet, release)]


def unauthenticated_broker(uri: str) -> str:
    """Return a broker without authentication that listens at a single URI."""
    return (
        f'<broker><plugins/><transportConnectors><transportConnector name="openwire" uri="{uri}"/>'
        "</transportConnectors></broker>"
    )


def test_unauthenticated_broker_on_loopback_is_info() -> None:
    assert severities("S003", unauthenticated_broker("tcp://localhost:61616")) == ["info"]
    assert severities("S003", unauthenticated_broker("tcp://0.0.0.0:61616")) == ["warning"]


def test_unauthenticated_port_of_two_connectors_is_reported_once() -> None:
    uris = ("tcp://10.0.0.1:61616", "tcp://10.0.0.2:61616")
    connectors = "".join(f'<transportConnector name="{uri[6:14]}" uri="{uri}"/>' for uri in uris)
    (finding,) = rule_findings(
        "S003", f"<broker><plugins/><transportConnectors>{connectors}</transportConnectors></broker>"
    )
    assert "any client that can reach port 61616 has full access" in finding.message


def test_broker_without_listening_connector_requires_no_authentication() -> None:
    assert rule_findings("S003", unauthenticated_broker("vm://inside")) == []
    assert rule_findings("S003", "<broker><plugins/><transportConnectors/></broker>") == []


def test_required_client_certificate_counts_as_authentication() -> None:
    assert rule_findings("S003", unauthenticated_broker("ssl://0.0.0.0:61617?needClientAuth=true")) == []
    assert severities("S003", unauthenticated_broker("tcp://0.0.0.0:61617?needClientAuth=true")) == ["warning"]


def test_custom_broker_plugin_counts_as_authentication() -> None:
    bean = '<bean class="com.example.Login"/>'
    assert rule_findings("S003", f"<broker><plugins>{bean}</plugins></broker>") == []


def test_rights_without_authentication_reject_every_client() -> None:
    (finding,) = rule_findings("S003", "<broker><plugins><authorizationPlugin/></plugins></broker>")
    assert "rejects every client" in finding.message


def test_anonymous_access_without_rights_is_reported() -> None:
    plugin = (
        '<simpleAuthenticationPlugin anonymousAccessAllowed="true"><users>'
        '<authenticationUser username="app" password="${p}" groups="g"/></users></simpleAuthenticationPlugin>'
    )
    (finding,) = rule_findings("S003", plugin)
    assert "anonymous" in finding.message
    assert rule_findings("S003", plugin + "<authorizationPlugin/>") == []


DEFAULT_CONNECTORS = {
    "openwire": "tcp:61616",
    "amqp": "amqp:5672",
    "stomp": "stomp:61613",
    "mqtt": "mqtt:1883",
    "ws": "ws:61614",
}


def broker_with_default_connectors(without: str = "", plugins: str = "<plugins/>") -> str:
    lines = [
        f'<transportConnector name="{name}" uri="{end.replace(":", "://0.0.0.0:")}"/>'
        for name, end in DEFAULT_CONNECTORS.items()
        if name != without
    ]
    return f"<broker>{plugins}<transportConnectors>{''.join(lines)}</transportConnectors></broker>"


def test_unused_default_connectors_share_finding() -> None:
    (finding,) = rule_findings("S008", broker_with_default_connectors())
    assert "(amqp on 5672, stomp on 61613, mqtt on 1883, ws on 61614)" in finding.message


def test_subset_of_default_connectors_is_not_reported() -> None:
    assert rule_findings("S008", broker_with_default_connectors(without="amqp")) == []


def test_default_connectors_with_authentication_are_not_reported() -> None:
    assert (
        rule_findings("S008", broker_with_default_connectors(plugins="<plugins><jaasAuthenticationPlugin/></plugins>"))
        == []
    )


def test_default_connectors_on_6_3_1_and_5_5_1_are_not_reported_as_unused() -> None:
    assert rule_findings("S008", broker_with_default_connectors(), "6.3.1") == []
    assert rule_findings("S008", broker_with_default_connectors(), "5.5.1") == []


def connector(uri: str) -> str:
    return f'<transportConnector name="clients" uri="{uri}"/>'


@pytest.mark.parametrize(
    ("release", "uri", "severity"),
    [
        ("5.5.1", "nio://0.0.0.0:61617", ["info"]),
        ("5.6.0", "nio://0.0.0.0:61617", []),
        ("5.7.0", "nio://0.0.0.0:61617", ["warning"]),
        ("5.18.3", "nio://127.0.0.1:61617", ["info"]),
        ("5.18.3", "auto+nio://0.0.0.0:61617?wireFormat.default.maxFrameSize=1048576", []),
        ("5.18.3", "mqtt+nio://0.0.0.0:1883", ["warning"]),
        ("5.11.4", "mqtt+nio://0.0.0.0:1883", []),
        ("5.18.3", "amqp://0.0.0.0:5672", ["warning"]),
        ("5.8.0", "amqp://0.0.0.0:5672", []),
        ("5.18.3", "stomp://0.0.0.0:61613", []),
        ("5.18.3", "vm://broker", []),
        ("5.18.3", "nio://0.0.0.0:61617?${options}", []),
    ],
)
def test_missing_frame_limit_is_reported_if_release_has_no_default(release: str, uri: str, severity: list[str]) -> None:
    findings = [f for f in rule_findings("S009", connector(uri), release) if "clients" in f.message]
    assert [finding.severity for finding in findings] == severity


def test_frame_limit_in_wrong_case_is_reported_at_its_position() -> None:
    (finding,) = rule_findings("S009", connector("nio://0.0.0.0:61617?wireformat.maxFrameSize=1"))
    assert "because the option is wireFormat.maxFrameSize" in finding.message
    text = complete(connector("nio://0.0.0.0:61617?wireformat.maxFrameSize=1"), Release.of("5.18.3")).decode()
    assert text.splitlines()[(finding.line or 0) - 1][(finding.column or 0) - 1 :].startswith("wireformat.")


@pytest.mark.parametrize(
    "login", ['password="rosebud"', 'password="${p}" remotePassword="rosebud"'], ids=["password", "remotePassword"]
)
def test_plain_text_password_of_link_is_reported(login: str) -> None:
    snippet = f'<networkConnector name="south" uri="static:(tcp://south:61616)" userName="net" {login}/>'
    assert len(rule_findings("S010", snippet)) == 1


@pytest.mark.parametrize("password", ["${p}", "#{p}", "ENC(abc)", ""])
def test_password_of_link_that_is_not_plain_text_is_not_reported(password: str) -> None:
    link = f'<networkConnector name="south" uri="static:(tcp://south:61616)" userName="net" password="{password}"/>'
    assert rule_findings("S010", link) == []


def test_plain_text_password_of_slave_is_reported() -> None:
    snippet = '<masterConnector remoteURI="nio://a:61618" userName="net" password="rosebud"/>'
    assert "master" in rule_findings("S010", snippet, "5.5.1")[0].message


@pytest.mark.parametrize("release", ["5.5.1", "5.8.0", "5.11.4", "5.18.3", "6.3.1"])
@pytest.mark.parametrize("ha", ["pure", "shared-file", "none"])
def test_rendered_fleet_has_only_info_security_findings(release: str, ha: str) -> None:
    if ha == "pure" and not Release.of(release).has_pure_master_slave:
        return
    connectors = [
        {"name": name, "scheme": end.split(":")[0], "port": int(end.split(":")[1])}
        for name, end in DEFAULT_CONNECTORS.items()
        if end.split(":")[0] in Release.of(release).schemes
    ]
    users = [{"name": "app", "password": "a good one"}]
    rendered_fleet = fleet("orders-mq01", "orders-mq02", release=release, ha=ha, users=users, connectors=connectors)
    for broker in rendered_fleet.brokers:
        files = render_broker(broker)
        other_files = {path.removeprefix("conf/"): data for path, data in files.items() if path.startswith("conf/")}
        findings = file_findings(
            files["conf/activemq.xml"],
            broker.release,
            other_files=other_files,
            selection=RuleSelection(("S", "C"), ignore=("S015", "S016")),
        )
        assert [finding for finding in findings if finding.severity != "info"] == []


def test_unlimited_frames_of_replication_port_are_info() -> None:
    broker = fleet("o-mq1", release="5.7.0", ha="pure").broker("o-mq1-a")
    release = Release.of("5.7.0")
    document = Document(XmlDocument(render_broker(broker)["conf/activemq.xml"]), release, broker)

    findings = document_findings(document, "conf/activemq.xml", RuleSelection(select=("S009",)))
    assert [finding.severity for finding in findings] == ["info"]
