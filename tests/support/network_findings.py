"""Findings of the network rules on fleets of pairs."""

from __future__ import annotations

from typing import Any

from activemq_fleet.findings import Finding
from activemq_fleet.lint import fleet_findings
from activemq_fleet.render import render_broker
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import build_fleet
from tests.unit.fleets import hosts

USERS = [{"name": "app", "password": "another", "groups": ["apps"]}]


NETWORK_FAMILIES = frozenset("NM")


def network_findings(
    *pairs: str, variables_by_host: dict[str, dict[str, Any]] | None = None, **variables: Any
) -> list[Finding]:
    """Return the findings of the network rules on a fleet of pairs.

    ``variables_by_host``: variables of single hosts, by their first label.
    """
    inventory = hosts(*pairs, users=USERS, **variables)
    for name, host_variables in (variables_by_host or {}).items():
        inventory[f"{name}.example.com"] |= {f"activemq_{key}": value for key, value in host_variables.items()}
    fleet = build_fleet(inventory, {})
    documents = {broker.host: XmlDocument(render_broker(broker)["conf/activemq.xml"]) for broker in fleet.brokers}
    return [finding for finding in fleet_findings(fleet, documents) if finding.rule[0] in NETWORK_FAMILIES]


def findings_of_rule(rule: str, *pairs: str, **variables: Any) -> list[Finding]:
    return [finding for finding in network_findings(*pairs, **variables) if finding.rule == rule]


def link_fragment(name: str, host: str, **attributes: str) -> list[dict[str, str]]:
    """Return an XML fragment with one additional network connector."""
    texts = " ".join(f'{key}="{value}"' for key, value in attributes.items())
    account = 'userName="net" password="${activemq.network.password}" decreaseNetworkConsumerPriority="true"'
    xml = f'<networkConnector name="{name}" uri="static:(tcp://{host}.example.com:61616)" {account} {texts}/>'
    return [{"parent": "broker/networkConnectors", "xml": xml}]
