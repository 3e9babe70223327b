"""Each addition of a rendered file names the variables that undo it, and these variables undo it."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.adopt import AdoptedInventory, XmlDifference
from activemq_fleet.adopt.addition_advice import advice_on_addition
from activemq_fleet.adopt.compared_element import compared_element_from_lxml
from activemq_fleet.adopt.difference_groups import (
    differences_except_percentage_limits,
    group_equal_additions,
    group_omissions_and_changes,
    limits_rendered_as_percentages,
)
from activemq_fleet.adopt.secrets import with_masked_passwords
from activemq_fleet.adopt.xml_diff import document_differences
from activemq_fleet.render.activemq_xml import render_activemq_xml_bytes
from activemq_fleet.schema import XmlDocument
from activemq_fleet.topology import build_fleet
from tests.situations import some_situations
from tests.unit.adopt_files import document, write_and_adopt

CONNECTOR = '<transportConnectors><transportConnector name="openwire" uri="tcp://0.0.0.0:61616"/></transportConnectors>'
MQTT = CONNECTOR.replace("</", '<transportConnector name="mqtt" uri="mqtt://0.0.0.0:1883"/></', 1)
POLICIES = (
    "<destinationPolicy><policyMap><policyEntries><policyEntry queue='orders.&gt;' memoryLimit='1mb'/>"
    "<policyEntry topic='prices' gcInactiveDestinations='true'/></policyEntries></policyMap></destinationPolicy>"
)
LIMITS = "<systemUsage><systemUsage><storeUsage><storeUsage limit='20 gb'/></storeUsage></systemUsage></systemUsage>"
ACCOUNTS = (
    "<plugins><simpleAuthenticationPlugin><users><authenticationUser username='app' password='p' groups='staff'/>"
    "</users></simpleAuthenticationPlugin></plugins>"
)
SHARED = "<persistenceAdapter><kahaDB directory='/mnt/share/{}'/></persistenceAdapter>"


def links(*hosts: str) -> str:
    """Return the networkConnectors to hosts."""
    connectors = (f"<networkConnector name='to-{host}' uri='static:(tcp://{host}:61616)'/>" for host in hosts)
    return f"<networkConnectors>{''.join(connectors)}</networkConnectors>"


FLEETS = {
    "bare broker": {"o-mq01-a": document("")},
    "broker with policies": {"o-mq01-a": document(POLICIES + LIMITS + MQTT, brokerName="o-mq01-a")},
    "broker with accounts": {"o-mq01-a": document(ACCOUNTS + CONNECTOR, brokerName="o-mq01-a", useJmx="false")},
    "mesh of single brokers": {
        f"{group}-mq01-a": document(
            links(*(f"{other}-mq01-a" for other in "nse" if other != group)) + POLICIES + CONNECTOR,
            brokerName=f"{group}-mq01-a",
        )
        for group in "nse"
    },
    "two pairs and a hub": {
        **{
            f"{group}-mq01-{node}": document(
                links("hub-mq01-a") + SHARED.format(group) + CONNECTOR, brokerName=f"{group}-mq01"
            )
            for group in "ns"
            for node in "ab"
        },
        "hub-mq01-a": document(CONNECTOR, brokerName="hub"),
    },
}


def with_values(variables: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return variables to which changes are added as a user adds them: entries to a mapping or a list."""
    merged = copy.deepcopy(dict(variables))
    for name, value in changes.items():
        existing_value = merged.get(f"activemq_{name}")
        if isinstance(value, dict) and existing_value:
            merged[f"activemq_{name}"] = {**existing_value, **value}
        elif name == "destination_policies" and existing_value:
            for policy in value:
                matching_policies = [
                    entry
                    for entry in existing_value
                    if (entry["kind"], entry["destination"]) == (policy["kind"], policy["destination"])
                ]
                if matching_policies:
                    matching_policies[0].update(policy)
                else:
                    existing_value.append(policy)
        elif isinstance(value, list) and existing_value:
            merged[f"activemq_{name}"] = [*existing_value, *value]
        else:
            merged[f"activemq_{name}"] = copy.deepcopy(value)
    return merged


def differences_with(
    adoption: AdoptedInventory, host: str, original: bytes, changes: Mapping[str, Any]
) -> list[XmlDifference]:
    """Return the differences of a host after changes of its variables."""
    hosts = {
        name: with_values(variables, changes if name == host else {})
        for name, variables in adoption.fleet.variables.items()
    }
    broker = build_fleet(hosts, {}).broker(host)
    rendered = compared_element_from_lxml(XmlDocument(render_activemq_xml_bytes(broker)).root)
    return document_differences(
        host, compared_element_from_lxml(XmlDocument(original).root), rendered, with_masked_passwords
    )


@some_situations(6)
@pytest.mark.parametrize("release", ["5.8.0", "5.15.16", "5.18.3", "6.1.4"])
@pytest.mark.parametrize("name", FLEETS)
def test_variables_advised_by_adopt_undo_each_addition_of_rendered_file(
    name: str, release: str, tmp_path: Path
) -> None:
    adoption = write_and_adopt(tmp_path, FLEETS[name], release)

    undone_count = 0
    for difference in adoption.differences:
        if difference.direction == "rendered adds":
            advice = advice_on_addition(difference, adoption.fleet.broker(difference.host))
            assert advice.variables or advice.reason, difference
            assert "no variable removes the addition" not in advice.reason, difference
            if advice.variables:
                original = FLEETS[name][difference.host]
                remaining = differences_with(adoption, difference.host, original, advice.variables)
                assert (difference.path, difference.rendered) not in [(d.path, d.rendered) for d in remaining]
                undone_count += 1
    assert undone_count


@pytest.mark.parametrize(
    ("release", "opens_jmx", "prefers_local"),
    [("5.8.0", True, True), ("5.15.16", False, True), ("6.1.4", False, False)],
)
def test_addition_has_no_effect_where_release_has_it_as_default(
    release: str, opens_jmx: bool, prefers_local: bool, tmp_path: Path
) -> None:
    adoption = write_and_adopt(tmp_path, FLEETS["mesh of single brokers"], release)

    effects = {group.advice.effect for group in group_equal_additions(adoption.differences, adoption.fleet)}
    assert ("JMX no longer listens on port 1099" in effects) is opens_jmx
    assert any("local consumers" in (effect or "") for effect in effects) is prefers_local
    reasons = [group.advice.reason for group in group_equal_additions(adoption.differences, adoption.fleet)]
    is_default = "the addition has no effect on this broker, because the value is the default of this release"
    assert (is_default in reasons) is not (opens_jmx and prefers_local)


def test_additions_of_adopt_have_no_effect_on_broker_without_jmx_and_links(tmp_path: Path) -> None:
    adoption = write_and_adopt(tmp_path, FLEETS["broker with accounts"], "5.8.0")

    effects = {group.advice.effect for group in group_equal_additions(adoption.differences, adoption.fleet)}
    assert "JMX no longer listens on port 1099" not in effects
    reasons = [group.advice.reason for group in group_equal_additions(adoption.differences, adoption.fleet)]
    assert 'the addition has no effect on this broker, because the broker has useJmx="false"' in reasons
    assert "the addition has no effect on this broker, because the broker has no links" in reasons


def test_equal_additions_of_adopt_to_several_connectors_form_one_group(tmp_path: Path) -> None:
    adoption = write_and_adopt(tmp_path, FLEETS["mesh of single brokers"], "5.15.16")

    groups = group_equal_additions(adoption.differences, adoption.fleet)
    [group] = [group for group in groups if "network_attributes" in group.advice.variables]
    path = "beans/broker/networkConnectors/networkConnector[@name='to-{}-mq01-a']/@decreaseNetworkConsumerPriority"
    assert {(p, hosts) for p, hosts in group.hosts.items()} == {
        (path.format("n"), ("e-mq01-a", "s-mq01-a")),
        (path.format("s"), ("e-mq01-a", "n-mq01-a")),
        (path.format("e"), ("n-mq01-a", "s-mq01-a")),
    }


def test_policies_that_undo_group_of_additions_name_each_destination(tmp_path: Path) -> None:
    policies = POLICIES.replace("</policyEntries>", "<policyEntry queue='mail' memoryLimit='1mb'/></policyEntries>")
    files = {
        host: document(links(peer) + policies + CONNECTOR, brokerName=host)
        for host, peer in (("n-mq01-a", "s-mq01-a"), ("s-mq01-a", "n-mq01-a"))
    }
    adoption = write_and_adopt(tmp_path, files, "5.18.3")

    groups = group_equal_additions(adoption.differences, adoption.fleet)
    [group] = [group for group in groups if any("'orders.>'" in path for path in group.hosts)]
    destinations = [policy["destination"] for policy in group.advice.variables["destination_policies"]]
    assert sorted(destinations) == ["mail", "orders.>"]


def test_changed_passwords_of_several_accounts_form_one_group_of_differences(tmp_path: Path) -> None:
    second_account = "<authenticationUser username='web' password='q' groups='staff'/></users>"
    files = {"o-mq01-a": document(ACCOUNTS.replace("</users>", second_account) + CONNECTOR, brokerName="o-mq01-a")}
    adoption = write_and_adopt(tmp_path, files, "5.18.3")

    [group] = [
        group
        for group in group_omissions_and_changes(adoption.differences)
        if any("@password" in p for p in group.hosts)
    ]
    assert len(group.hosts) == 2
    assert group.rendered == ("${activemq.user.app.password}", "${activemq.user.web.password}")


def test_store_limit_rendered_as_percentage_is_one_difference_instead_of_three(tmp_path: Path) -> None:
    adoption = write_and_adopt(tmp_path, {"o-mq01-a": document(LIMITS, brokerName="o-mq01-a")}, "5.18.3")

    [replacement] = limits_rendered_as_percentages(adoption.differences)
    assert str(replacement) == (
        "beans/broker/systemUsage/systemUsage/storeUsage/storeUsage/@limit: "
        "limit 20 gb becomes percentLimit 100 of total 20 gb (`activemq-fleet rule C012` explains the reason)"
    )
    other_differences = differences_except_percentage_limits(adoption.differences, [replacement])
    assert len(adoption.differences) - len(other_differences) == 3
    assert not [difference for difference in other_differences if "storeUsage" in difference.path]


PURGED = (
    "<destinationPolicy><policyMap><policyEntries><policyEntry queue='orders' gcInactiveDestinations='true'/>"
    "</policyEntries></policyMap></destinationPolicy>"
)


@pytest.mark.parametrize(
    ("attributes", "period"),
    [
        ({}, "0"),
        ({"schedulePeriodForDestinationPurge": "0"}, "0"),
        ({"schedulePeriodForDestinationPurge": "30000"}, "30000"),
        ({"schedulePeriodForDestinationPurge": "60000"}, "60000"),
    ],
)
def test_adopted_broker_removes_inactive_destinations_only_if_original_does(
    attributes: Mapping[str, str], period: str, tmp_path: Path
) -> None:
    files = {"o-mq01-a": document(PURGED + CONNECTOR, brokerName="o-mq01-a", **attributes)}
    adoption = write_and_adopt(tmp_path, files, "5.18.3")

    rendered = render_activemq_xml_bytes(adoption.fleet.broker("o-mq01-a")).decode()
    assert re.findall('schedulePeriodForDestinationPurge="(.*?)"', rendered) == [period]
    effects = [group.advice.effect for group in group_equal_additions(adoption.differences, adoption.fleet)]
    assert not [effect for effect in effects if effect and "removes" in effect]


RIGHTS = (
    "<plugins><simpleAuthenticationPlugin><users><authenticationUser username='app' password='p' groups='staff'/>"
    "<authenticationUser username='net' password='n' groups='staff'/></users></simpleAuthenticationPlugin>"
    "<authorizationPlugin><map><authorizationMap><authorizationEntries>"
    "<authorizationEntry queue='>' read='staff' write='staff' admin='staff'/>"
    "</authorizationEntries></authorizationMap></map></authorizationPlugin></plugins>"
)
LINK_WITH_LOGIN = (
    "<networkConnectors><networkConnector name='n' uri='static:(tcp://{}-mq01-a:61616)' userName='net' password='n'/>"
    "</networkConnectors>"
)


def test_effect_of_each_account_and_permission_added_by_adopt_is_described(tmp_path: Path) -> None:
    files = {
        f"{group}-mq01-a": document(
            LINK_WITH_LOGIN.format(peer) + RIGHTS + CONNECTOR, brokerName=f"{group}-mq01-a", useJmx="false"
        )
        for group, peer in (("n", "s"), ("s", "n"))
    }
    adoption = write_and_adopt(tmp_path, files, "5.18.3")

    advice = {
        path.rpartition("/")[2]: group.advice
        for group in group_equal_additions(adoption.differences, adoption.fleet)
        for path in group.hosts
    }
    beginnings = {
        "authenticationUser[@username='activemq-probe']": "the broker accepts the account activemq-probe",
        "authorizationEntry[@topic='ActiveMQ.Advisory.>']": "all accounts may create and read the advisory topics",
        "authorizationEntry[@topic='>']": "the account of the bridges (activemq_network_username) may read",
        "authorizationEntry[@topic='activemq.fleet.probe.*']": "the account activemq-probe gets these rights",
        "authorizationEntry[@topic='ActiveMQ.Advisory.Connection']": "the account activemq-probe gets these rights",
    }
    for path, beginning in beginnings.items():
        assert (advice[path].effect or "").startswith(beginning), path
        assert "activemq_" in advice[path].reason, path
