"""Connectors without TLS, in addition to the examples of the rules."""

from __future__ import annotations

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint import RuleSelection, file_findings
from activemq_fleet.releases import Release
from tests.rule_examples import complete

RELEASE = Release.of("5.18.3")


def told(rule: str, snippet: str) -> list[Finding]:
    return list(file_findings(complete(snippet, RELEASE), RELEASE, selection=RuleSelection(select=(rule,))))


def in_broker(inside: str) -> str:
    return f"<broker>{inside}</broker>"


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
def test_a_login_without_tls_on_an_open_address_is_told(uri: str, number: int) -> None:
    found = told("S016", in_broker(f'<transportConnectors><transportConnector uri="{uri}"/></transportConnectors>'))
    assert len(found) == number
    assert {finding.severity for finding in found} <= {"info"}
