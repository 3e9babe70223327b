"""Rules about broker lists of clients and about audits of a fleet, in addition to the examples of the rules."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.lint import RuleSelection, fleet_findings
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import build_fleet
from tests.unit.fleets import hosts

A, B = "orders-mq01-a.example.com", "orders-mq01-b.example.com"


def findings_of_rule(rule: str, *, pairs: tuple[str, ...] = ("orders-mq01",), **host_settings: Any) -> list[Finding]:
    """Return the findings of a rule for a fleet; ``host_settings`` are variables of the first host."""
    common = {name: host_settings.pop(name) for name in ("release", "ha", "agents") if name in host_settings}
    agents = common.pop("agents", {})
    inventory = hosts(*pairs, **common)
    inventory[A] |= {f"activemq_{name}": value for name, value in host_settings.items()}
    fleet = build_fleet(inventory | agents, {"activemq_agents": list(agents)} if agents else {})
    documents = {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in fleet.brokers}
    return list(fleet_findings(fleet, documents, RuleSelection(select=(rule,))))


def bean(uri: str) -> list[dict[str, str]]:
    return [{
        "parent": "beans",
        "xml": f'<bean xmlns="http://www.springframework.org/schema/beans" id="f" class="x.Y">\n'
        f'  <property name="brokerURL"\n            value="{uri}"/></bean>',
    }]  # fmt: skip


def extra(content: str) -> list[dict[str, str]]:
    return [{"path": "conf/clients.properties", "content": content}]


def test_finding_about_broker_list_in_extra_file_has_position() -> None:
    (finding,) = findings_of_rule("C004", extra_files=extra(f"# clients\nurl = failover:(nio://{A}:61616)\n"))
    assert (finding.host, finding.file, finding.line, finding.column) == (A, "conf/clients.properties", 2, 7)
    assert B in finding.message


def test_broker_list_in_java_options_is_checked() -> None:
    assert len(findings_of_rule("C004", java_options=[f"-Durl=failover:(nio://{B}:61616)?timeout=1"])) == 1


@pytest.mark.parametrize("text", ["failover:(nio://elsewhere:61616)", f"nio://{A}:61616", "failover:(nio://"])
def test_broker_list_of_other_brokers_or_invalid_list_has_no_finding(text: str) -> None:
    assert findings_of_rule("C004", extra_files=extra(text)) == []


def test_broker_list_with_single_broker_has_no_finding() -> None:
    assert findings_of_rule("C004", ha="none", extra_files=extra(f"failover:(nio://{A}:61616)")) == []


def test_broker_list_without_pure_slave_has_no_finding() -> None:
    assert findings_of_rule("C004", ha="pure", release="5.5.1", extra_files=extra(f"failover:(nio://{A}:61616)")) == []


def test_timeout_of_broker_list_after_escaped_ampersand_is_recognized() -> None:
    uri = f"failover:(nio://{A}:61616,nio://{B}:61616)?randomize=false&amp;timeout=3000"
    assert findings_of_rule("C005", extra_files=extra(f'<x url="{uri}"/>')) == []
    assert len(findings_of_rule("C005", extra_files=extra(uri.replace("&amp;timeout=3000", "")))) == 1


def test_rendered_files_for_clients_have_no_finding() -> None:
    assert findings_of_rule("C004") == findings_of_rule("C005") == findings_of_rule("C010") == []


AUDIT = {
    "parent": "broker/destinationPolicy/policyMap/policyEntries",
    "xml": '<policyEntry queue="a" maxProducersToAudit="2"/>',
}


def agents_of(count: int) -> dict[str, dict[str, Any]]:
    return {
        f"shop{n}": {
            "activemq_agent_group": "orders",
            "activemq_agent_pair": "orders-mq01",
            "activemq_agent_username": f"shop{n}",
            "activemq_agent_password": "a good one",
            "activemq_agent_topics": ["events/#"],
        }
        for n in range(count)
    }


def test_agents_and_links_count_as_producers_of_message_audit() -> None:
    pairs = ("orders-mq01", "orders-mq02")
    assert findings_of_rule("C010", pairs=pairs, xml_fragments=[AUDIT], agents=agents_of(1)) == []
    (finding,) = findings_of_rule("C010", pairs=pairs, xml_fragments=[AUDIT], agents=agents_of(2))
    assert "at least 3 producers" in finding.message
    assert finding.line
