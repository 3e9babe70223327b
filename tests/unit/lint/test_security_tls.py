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
