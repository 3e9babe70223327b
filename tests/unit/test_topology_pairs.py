"""Differences between the nodes of a pair that clients notice after a failover, and links without credentials."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.findings import Finding
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from activemq_fleet.topology import build_fleet
from tests.unit.fleets import hosts

A, B = "o-mq1-a.example.com", "o-mq1-b.example.com"
TLS = dict.fromkeys(("keystore", "truststore"), "/etc/x") | dict.fromkeys(
    ("keystore_password", "truststore_password"), "hush"
)


def findings_of(rule: str, inventory: dict[str, dict[str, Any]]) -> list[Finding]:
    """Return the findings of a rule about an inventory."""
    return [finding for finding in build_fleet(inventory, {}).findings if finding.rule == rule]


def user(password: object, *groups: str, name: str = "app") -> dict[str, object]:
    """Return an entry of activemq_users."""
    return {"name": name, "password": password, "groups": list(groups)}


def connectors(*schemes: str, **variables: object) -> list[dict[str, object]]:
    """Return entries of activemq_connectors, one for each scheme."""
    return [
        {"name": f"c{number}", "scheme": scheme, "port": 7000 + number, **variables}
        for number, scheme in enumerate(schemes)
    ]


def pair_with(variable: str, first: object, second: object, **variables: Any) -> dict[str, dict[str, Any]]:
    """Return the inventory of a pair whose nodes have different values of a variable."""
    inventory = hosts("o-mq1", **variables)
    inventory[A][f"activemq_{variable}"] = first
    inventory[B][f"activemq_{variable}"] = second
    return inventory


@pytest.mark.parametrize(("ha", "severities"), [("shared-file", ["warning"]), ("none", [])])
def test_t009_metrics_of_only_one_node_of_pair_are_warning(ha: str, severities: list[str]) -> None:
    findings = findings_of("T009", pair_with("metrics", True, False, ha=ha))
    assert [finding.severity for finding in findings] == severities
    assert all(finding.host == B and A in finding.message for finding in findings)


def test_different_passwords_of_account_in_pair_are_error_without_password() -> None:
    users = [user("other", "g", name="other"), user("hidden2", "g")]
    (finding,) = findings_of("T009", pair_with("users", [user("hidden1", "g"), users[0]], users))

    assert (finding.host, finding.severity) == (B, "error")
    assert finding.message == (
        f"activemq_users[1].password of the account app differs from the password of the same account on {A} in "
        "pair o-mq1"
    )
    assert "hidden" not in f"{finding}"


def test_different_groups_of_account_in_pair_are_error() -> None:
    (finding,) = findings_of("T009", pair_with("users", [user("pw", "g")], [user("pw", "h")]))

    assert finding.message.startswith("activemq_users differs from the value of")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("pw", "pw"),
        ("pw", UndecryptedVaultValue("ciphertext")),
        (UndecryptedVaultValue("ciphertext 1"), UndecryptedVaultValue("ciphertext 2")),
    ],
)
def test_passwords_in_pair_that_may_be_equal_are_accepted(first: object, second: object) -> None:
    assert findings_of("T009", pair_with("users", [user(first)], [user(second)])) == []


@pytest.mark.parametrize("variables", [{"ha": "none"}, {"authentication": "none"}])
def test_different_passwords_without_failover_or_authentication_are_accepted(variables: dict[str, str]) -> None:
    assert findings_of("T009", pair_with("users", [user("one")], [user("two")], **variables)) == []


@pytest.mark.parametrize(
    ("schemes", "missing"),
    [
        (("nio",), "mqtt, stomp"),
        (("tcp", "stomp"), "mqtt"),
        (("tcp", "stomp", "mqtt+ssl"), "mqtt without TLS"),
    ],
)
def test_protocol_missing_on_one_node_of_pair_is_warning(schemes: tuple[str, ...], missing: str) -> None:
    inventory = pair_with("connectors", connectors("tcp", "stomp+nio", "mqtt+nio"), connectors(*schemes))
    findings = [finding for finding in findings_of("T009", inventory) if finding.host == B]

    assert [(finding.severity, finding.message) for finding in findings] == [
        (
            "warning",
            f"activemq_connectors has no connector for {missing}, but the other node {A} of the pair o-mq1 has one",
        )
    ]


def test_protocol_missing_on_first_node_of_pair_is_warning_about_first_node() -> None:
    (finding,) = findings_of("T009", pair_with("connectors", connectors("tcp"), connectors("tcp", "amqp")))

    assert finding.host == A


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (connectors("tcp", "stomp"), list(reversed(connectors("stomp+nio", "nio")))),
        (connectors("auto"), connectors("tcp", "stomp", "mqtt", "amqp")),
        (connectors("tcp"), connectors("tcp") + connectors("stomp", bind="127.0.0.1", name="local", port=9000)),
        (connectors("tcp"), [*connectors("tcp"), {"name": "typo", "scheme": "stmop", "port": 9000}]),
    ],
)
def test_pair_with_same_protocols_for_remote_clients_is_accepted(first: object, second: object) -> None:
    assert findings_of("T009", pair_with("connectors", first, second)) == []


@pytest.mark.parametrize("variables", [{"ha": "none"}, {"ha": "pure", "release": "5.5.1"}])
def test_different_protocols_without_failover_of_clients_are_accepted(variables: dict[str, str]) -> None:
    inventory = pair_with("connectors", connectors("tcp", "stomp"), connectors("tcp"), **variables)

    assert findings_of("T009", inventory) == []


def test_connector_in_xml_fragment_is_not_reported_as_missing() -> None:
    inventory = pair_with("connectors", connectors("tcp", "stomp"), connectors("tcp"))
    xml = '<transportConnector name="stomp" uri="stomp://0.0.0.0:61613"/>'
    inventory[B]["activemq_xml_fragments"] = [{"parent": "broker/transportConnectors", "xml": xml}]

    assert findings_of("T009", inventory) == []


def test_activemq_tls_on_one_node_of_pair_has_no_second_finding_about_connectors() -> None:
    inventory = pair_with("connectors", connectors("tcp", "stomp"), connectors("tcp", "stomp"))
    inventory[B]["activemq_tls"] = TLS

    assert [finding.message.split()[0] for finding in findings_of("T009", inventory)] == ["activemq_tls"]


LINK = [{"from": "o-mq1", "to": "o-mq2"}]


@pytest.mark.parametrize(
    ("variables", "definition"),
    [
        ({}, "activemq_topology: mesh (the default) defines"),
        ({"topology": "hub"}, "activemq_topology: hub defines"),
        ({"topology": "none", "links": LINK}, "activemq_links defines"),
        ({"topology": "chain", "links": LINK}, "activemq_links and activemq_topology: chain define"),
        ({"discovery": "multicast"}, "activemq_discovery: multicast defines"),
        ({"topology": "none", "pair_links": "static", "links": LINK}, "activemq_links and activemq_pair_links: static"),
    ],
)
def test_t008_names_variables_that_define_links(variables: dict[str, Any], definition: str) -> None:
    inventory = hosts("o-mq1", "o-mq2", **variables)
    for settings in inventory.values():
        del settings["activemq_network_password"]
    findings = findings_of("T008", inventory)

    assert len(findings) == 4
    for finding in findings:
        assert finding.message.startswith(definition)
        assert finding.message.endswith(" links of the broker, but activemq_network_password is not set")
        by_topology = definition.startswith("activemq_topology")
        assert ("set activemq_topology: none instead" in finding.fix) == by_topology
