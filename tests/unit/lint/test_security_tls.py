"""Tests of the rules about connectors without TLS beyond their examples."""

from __future__ import annotations

import pytest

from activemq_fleet.releases import Release
from tests.rule_examples import in_broker, rule_findings

RELEASE = Release.of("5.18.3")


@pytest.mark.parametrize(
    ("uri", "number"),
    [
        ("tcp://0.0.0.0:1", 1),
        ("mqtt+nio://10.0.0.1:1", 1),
        ("ws://0.0.0.0:1", 1),
        ("nio+ssl://0.0.0.0:1", 0),
        ("wss://0.0.0.0:1", 0),
        ("tcp://127.0.0.1:1", 0),
        ("vm://a", 0),
    ],
)
def test_connector_without_tls_on_public_address_is_info(uri: str, number: int) -> None:
    findings = rule_findings(
        "S016", in_broker(f'<transportConnectors><transportConnector uri="{uri}"/></transportConnectors>')
    )
    assert len(findings) == number
    assert {finding.severity for finding in findings} <= {"info"}


def ssl_context(protocol: str) -> str:
    return (
        f'<sslContext><sslContext keyStore="file:a.ks" keyStorePassword="${{p}}" protocol="{protocol}"/></sslContext>'
    )


@pytest.mark.parametrize(
    ("protocol", "severities"),
    [
        ("SSL", []),
        ("TLS", []),
        ("TLSv1.2", []),
        ("SSLv3", ["warning"]),
        ("TLSv1", ["warning"]),
        ("TLSv1.1", ["warning"]),
    ],
)
def test_obsolete_protocol_of_ssl_context_limits_links(protocol: str, severities: list[str]) -> None:
    link = '<networkConnectors><networkConnector name="s" uri="static:(ssl://s:61617)"/></networkConnectors>'
    findings = rule_findings("S020", in_broker(ssl_context(protocol) + link))
    assert [finding.severity for finding in findings] == severities
    assert all(f"limits links over ssl: to {protocol} and older" in finding.message for finding in findings)


def test_obsolete_protocol_of_ssl_context_without_tls_link_is_info() -> None:
    link = '<networkConnectors><networkConnector name="s" uri="static:(tcp://s:61616)"/></networkConnectors>'
    (finding,) = rule_findings("S020", in_broker(ssl_context("TLSv1") + link))
    assert finding.severity == "info"
