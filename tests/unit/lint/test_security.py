"""Logins, connectors and frames, in addition to the examples of the rules."""

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


def open_to(uri: str) -> str:
    """A broker without a login that listens there and nowhere else."""
    return (
        f'<broker><plugins/><transportConnectors><transportConnector name="openwire" uri="{uri}"/>'
        "</transportConnectors></broker>"
    )


def test_a_broker_that_only_its_own_machine_reaches_is_warned_of() -> None:
    assert severities("S003", open_to("tcp://localhost:61616")) == ["info"]
    assert severities("S003", open_to("tcp://0.0.0.0:61616")) == ["warning"]


def test_port_of_two_connectors_is_named_once() -> None:
    uris = ("tcp://10.0.0.1:61616", "tcp://10.0.0.2:61616")
    connectors = "".join(f'<transportConnector name="{uri[6:14]}" uri="{uri}"/>' for uri in uris)
    (finding,) = rule_findings(
        "S003", f"<broker><plugins/><transportConnectors>{connectors}</transportConnectors></broker>"
    )
    assert "any client that can reach port 61616 has full access" in finding.message


def test_a_broker_that_nobody_dials_needs_no_login() -> None:
    assert rule_findings("S003", open_to("vm://inside")) == []
    assert rule_findings("S003", "<broker><plugins/><transportConnectors/></broker>") == []


def test_a_certificate_is_a_login() -> None:
    assert rule_findings("S003", open_to("ssl://0.0.0.0:61617?needClientAuth=true")) == []
    assert severities("S003", open_to("tcp://0.0.0.0:61617?needClientAuth=true")) == ["warning"]


def test_a_plugin_of_somebody_else_is_trusted() -> None:
    bean = '<bean class="com.example.Login"/>'
    assert rule_findings("S003", f"<broker><plugins>{bean}</plugins></broker>") == []


def test_rights_without_a_login_refuse_everybody() -> None:
    (finding,) = rule_findings("S003", "<broker><plugins><authorizationPlugin/></plugins></broker>")
    assert "rejects every client" in finding.message


def test_anonymous_clients_may_do_all_where_nobody_has_rights() -> None:
    plugin = (
        '<simpleAuthenticationPlugin anonymousAccessAllowed="true"><users>'
        '<authenticationUser username="app" password="${p}" groups="g"/></users></simpleAuthenticationPlugin>'
    )
    (finding,) = rule_findings("S003", plugin)
    assert "anonymous" in finding.message
    assert rule_findings("S003", plugin + "<authorizationPlugin/>") == []


SHIPPED = {"openwire": "tcp:61616", "amqp": "amqp:5672", "stomp": "stomp:61613", "mqtt": "mqtt:1883", "ws": "ws:61614"}


def shipped(without: str = "", plugins: str = "<plugins/>") -> str:
    lines = [
        f'<transportConnector name="{name}" uri="{end.replace(":", "://0.0.0.0:")}"/>'
        for name, end in SHIPPED.items()
        if name != without
    ]
    return f"<broker>{plugins}<transportConnectors>{''.join(lines)}</transportConnectors></broker>"


def test_one_finding_names_every_connector_that_came_with_the_release() -> None:
    (finding,) = rule_findings("S008", shipped())
    assert "(amqp on 5672, stomp on 61613, mqtt on 1883, ws on 61614)" in finding.message


def test_one_connector_less_means_that_somebody_chose() -> None:
    assert rule_findings("S008", shipped(without="amqp")) == []


def test_a_login_means_that_somebody_chose() -> None:
    assert rule_findings("S008", shipped(plugins="<plugins><jaasAuthenticationPlugin/></plugins>")) == []


def test_releases_that_ship_openwire_only_have_nothing_unused() -> None:
    assert rule_findings("S008", shipped(), "6.3.1") == []
    assert rule_findings("S008", shipped(), "5.5.1") == []


def listening(uri: str) -> str:
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
def test_a_frame_without_a_limit_is_told_where_the_release_has_none_of_its_own(
    release: str, uri: str, severity: list[str]
) -> None:
    found = [f for f in rule_findings("S009", listening(uri), release) if "clients" in f.message]
    assert [finding.severity for finding in found] == severity


def test_an_option_in_the_wrong_case_is_named_at_its_place() -> None:
    (finding,) = rule_findings("S009", listening("nio://0.0.0.0:61617?wireformat.maxFrameSize=1"))
    assert "because the option is wireFormat.maxFrameSize" in finding.message
    text = complete(listening("nio://0.0.0.0:61617?wireformat.maxFrameSize=1"), Release.of("5.18.3")).decode()
    assert text.splitlines()[(finding.line or 0) - 1][(finding.column or 0) - 1 :].startswith("wireformat.")


@pytest.mark.parametrize(
    "login", ['password="rosebud"', 'password="${p}" remotePassword="rosebud"'], ids=["password", "remotePassword"]
)
def test_either_password_of_a_link_is_told(login: str) -> None:
    snippet = f'<networkConnector name="south" uri="static:(tcp://south:61616)" userName="net" {login}/>'
    assert len(rule_findings("S010", snippet)) == 1


@pytest.mark.parametrize("password", ["${p}", "#{p}", "ENC(abc)", ""])
def test_what_is_not_in_clear_text_is_not_told(password: str) -> None:
    link = f'<networkConnector name="south" uri="static:(tcp://south:61616)" userName="net" password="{password}"/>'
    assert rule_findings("S010", link) == []


def test_the_password_of_a_slave_is_told() -> None:
    snippet = '<masterConnector remoteURI="nio://a:61618" userName="net" password="rosebud"/>'
    assert "master" in rule_findings("S010", snippet, "5.5.1")[0].message


@pytest.mark.parametrize("release", ["5.5.1", "5.8.0", "5.11.4", "5.18.3", "6.3.1"])
@pytest.mark.parametrize("ha", ["pure", "shared-file", "none"])
def test_what_a_fleet_renders_is_safe(release: str, ha: str) -> None:
    if ha == "pure" and not Release.of(release).has_pure_master_slave:
        return
    connectors = [
        {"name": name, "scheme": end.split(":")[0], "port": int(end.split(":")[1])}
        for name, end in SHIPPED.items()
        if end.split(":")[0] in Release.of(release).schemes
    ]
    users = [{"name": "app", "password": "a good one"}]
    ours = fleet("orders-mq01", "orders-mq02", release=release, ha=ha, users=users, connectors=connectors)
    for broker in ours.brokers:
        files = render_broker(broker)
        other_files = {path.removeprefix("conf/"): data for path, data in files.items() if path.startswith("conf/")}
        found = file_findings(
            files["conf/activemq.xml"],
            broker.release,
            other_files=other_files,
            selection=RuleSelection(("S", "C"), ignore=("S015", "S016")),
        )
        assert [finding for finding in found if finding.severity != "info"] == []


def test_unbounded_frames_of_replication_port_are_only_reported() -> None:
    broker = fleet("o-mq1", release="5.7.0", ha="pure").broker("o-mq1-a")
    release = Release.of("5.7.0")
    document = Document(XmlDocument(render_broker(broker)["conf/activemq.xml"]), release, broker)

    findings = document_findings(document, "conf/activemq.xml", RuleSelection(select=("S009",)))
    assert [finding.severity for finding in findings] == ["info"]
