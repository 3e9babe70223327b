"""Errors that only a complete inventory shows, each with host, variable and remedy."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.errors import SettingsError
from activemq_fleet.findings import merged_finding_lines
from activemq_fleet.naming import DEFAULT_PATTERN
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from activemq_fleet.topology import build_fleet
from activemq_fleet.topology.machine_and_port_problems import conflicting_ports_and_findings_of_broker
from activemq_fleet.topology.name_problems import misspelled_broker_name_findings
from tests.unit.fleets import NETWORK, fleet, hosts, rules_of_findings

TLS = dict.fromkeys(("keystore", "truststore"), "/etc/x") | dict.fromkeys(
    ("keystore_password", "truststore_password"), "hush"
)


def error_of(rule: str, inventory: dict[str, dict[str, Any]], groups: dict[str, list[str]] | None = None) -> str:
    """Return the only finding of a rule, which is an error, as text."""
    findings = [finding for finding in build_fleet(inventory, groups or {}).findings if finding.rule == rule]
    assert len(findings) == 1, findings
    assert findings[0].severity == "error"
    return f"{findings[0].host}: {findings[0].message}; {findings[0].fix}"


def test_t001_broker_whose_name_does_not_match_naming_pattern_is_error() -> None:
    finding_line = error_of("T001", hosts("o-mq1") | {"db1": {}}, {"activemq_brokers": ["db1"]})

    assert finding_line.startswith("db1: the host is in activemq_brokers")
    assert "run `activemq-fleet names -i INVENTORY`, which proposes an activemq_naming_pattern" in finding_line


def test_t002_pair_without_its_other_node_is_error() -> None:
    finding_line = error_of("T002", hosts("o-mq1", nodes="b"))

    assert "o-mq1-b.example.com: pair o-mq1 has only one node: node a is not in the inventory" in finding_line
    assert "add o-mq1-a.example.com" in finding_line


@pytest.mark.parametrize("other", ["oders-mq01-b", "ordersmq01-b.example.com", "orders-mq01-c"])
def test_t002_fix_names_host_similar_to_missing_node(other: str) -> None:
    inventory = hosts("orders-mq01", nodes="a")
    built_fleet = build_fleet(inventory | {other: next(iter(inventory.values()))})

    fixes = [finding.fix for finding in built_fleet.findings if finding.host == "orders-mq01-a.example.com"]
    assert (
        f"add orders-mq01-b.example.com to the inventory ({other} has a similar name: "
        "if it is the missing node, rename it)" in fixes[0]
    )


@pytest.mark.parametrize("other", ["orders-mq02-x", "database01", "web-orders01-b"])
def test_t002_fix_names_no_host_with_other_number_or_purpose(other: str) -> None:
    assert "similar" not in error_of("T002", hosts("orders-mq01", nodes="a") | {other: {}})


@pytest.mark.parametrize(
    ("groups", "unread"),
    [
        ({}, ("mqhamburg2", "web1")),
        ({"web": ["web1"]}, ("mqhamburg2",)),
        ({"all": ["o-mq1-a.example.com", "mqhamburg2", "web1"], "activemq_agents": ["web1"]}, ("mqhamburg2",)),
        ({"site": ["o-mq1-a.example.com", "mqhamburg2"], "web": ["web1"]}, ("mqhamburg2",)),
        ({"site": ["o-mq1-a.example.com", "web1"], "web": ["web1"], "ungrouped": ["mqhamburg2"]}, ("mqhamburg2",)),
    ],
)
def test_host_outside_groups_without_brokers_is_unread(groups: dict[str, list[str]], unread: tuple[str, ...]) -> None:
    inventory: dict[str, dict[str, Any]] = {**hosts("o-mq1"), "mqhamburg2": {}, "web1": {}, "localhost": {}}
    variables = {
        name: inventory["o-mq1-a.example.com"] if name == "web1" else host_variables
        for name, host_variables in inventory.items()
    }

    assert build_fleet(variables, groups).unread == unread


CUSTOM = r"^(?P<group>[a-z]+)(?P<number>\d\d)(?P<node>[1-3])$"


def test_t002_names_no_missing_host_with_custom_naming_pattern() -> None:
    inventory = {"o011": dict(NETWORK, activemq_release="5.18.3", activemq_master_node="a")}
    message = build_fleet(inventory, {}, naming_pattern=CUSTOM).findings[0].message

    assert message == "pair o-mq01 has only one node: its other node is not in the inventory"


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ("12", "pair o-mq01 has no preferred master: its nodes are 1 and 2"),
        ("123", "pair o-mq01 must have 2 nodes, but has 3: 1 (o011), 2 (o012), 3 (o013)"),
    ],
)
def test_t002_pair_without_preferred_master_or_with_three_nodes_is_reported(nodes: str, message: str) -> None:
    inventory = {f"o01{node}": dict(NETWORK, activemq_release="5.18.3") for node in nodes}
    built_fleet = build_fleet(inventory, {}, naming_pattern=CUSTOM)

    assert rules_of_findings(built_fleet) == ["T002"]
    assert message in built_fleet.findings[0].message


def test_t003_two_hosts_with_same_identity_are_error() -> None:
    finding_line = error_of("T003", hosts("o-mq1") | hosts("o-mq1", nodes="a", domain="example.org"))

    assert (
        "o-mq1-a.example.org: the host is node a of pair o-mq1, but the host o-mq1-a.example.com is the same"
        in finding_line
    )


def test_t004_different_release_lines_in_pair_are_error() -> None:
    inventory = hosts("o-mq1")
    inventory["o-mq1-b.example.com"]["activemq_release"] = "5.17.6"

    finding_line = error_of("T004", inventory)
    assert "activemq_release is 5.17.6, but the other node o-mq1-a.example.com of the pair has 5.18.3" in finding_line


def test_single_brokers_named_as_pair_may_differ_in_release_and_settings() -> None:
    inventory = hosts(
        "o-mq1", ha="none", users=[{"name": "orders", "password": "long enough"}], destinations=["queue://a"]
    )
    inventory["o-mq1-b.example.com"] |= {
        "activemq_release": "5.17.6",
        "activemq_users": [],
        "activemq_destinations": ["queue://b"],
        "activemq_master_node": "b",
    }

    assert rules_of_findings(build_fleet(inventory)) == []


def test_t009_single_broker_named_as_node_of_pair_is_error() -> None:
    inventory = hosts("o-mq1")
    inventory["o-mq1-b.example.com"]["activemq_ha"] = "none"

    messages = [finding.message for finding in build_fleet(inventory).findings if finding.rule == "T009"]
    assert "activemq_ha differs from the value of o-mq1-a.example.com in pair o-mq1" in messages


@pytest.mark.parametrize("release", ["5.8.0", "6.3.1"])
def test_t005_pure_profile_on_release_without_it_is_reported(release: str) -> None:
    built_fleet = fleet("o-mq1", "o-mq2", ha="pure", release=release)

    assert rules_of_findings(built_fleet) == ["T005"] * 4
    assert "activemq_ha: shared-file" in built_fleet.findings[0].fix


def test_t006_two_brokers_on_same_address_and_port_are_reported() -> None:
    messages = "\n".join(f.message for f in fleet("o-mq1", address="mq.example.com", service="none").findings)

    assert (
        "the broker on o-mq1-a.example.com listens on the same address mq.example.com (activemq_address) and the same "
        "ports 61616 (openwire)"
    ) in messages


@pytest.mark.parametrize(
    ("variables", "ports"),
    [
        (
            {"console_port": 61616},
            "activemq_console_port, or the port of the connector openwire in activemq_connectors",
        ),
        ({"metrics": True, "metrics_port": 8161}, "activemq_metrics_port, or activemq_console_port"),
        ({"jmx": {"port": 8161}}, "the port of activemq_jmx, or activemq_console_port"),
    ],
)
def test_t006_fix_names_variables_of_both_listeners_of_broker(variables: dict[str, Any], ports: str) -> None:
    findings = [f for f in fleet("o-mq1", **variables).findings if f.rule == "T006"]

    assert [f.fix for f in findings] == [f"set another port for one of the two: {ports}"] * 2
    assert {f.why for f in findings} == {"the broker can open the port for only one of its two listeners, and stops"}


def test_t006_conflict_inside_of_broker_is_listed_with_its_port() -> None:
    fleet_with_conflict = fleet("o-mq1", console_port=61616)
    (reported, *_) = [finding for finding in fleet_with_conflict.findings if finding.rule == "T006"]

    conflicts = list(conflicting_ports_and_findings_of_broker(fleet_with_conflict.broker(reported.host)))

    assert conflicts == [(61616, reported)]


def test_t006_same_conflict_on_several_hosts_is_single_line() -> None:
    findings = [f for f in fleet("o-mq1", console_port=61616).findings if f.rule == "T006"]

    (line,) = merged_finding_lines(findings)
    assert line.startswith(
        "T006 o-mq1-a.example.com, o-mq1-b.example.com: the listeners console and openwire of this broker both use "
        "port 61616. Set another port"
    )


def test_t006_reason_of_two_brokers_on_same_port_names_second_broker() -> None:
    inventory = hosts("o-mq1", address="mq.example.com", console=False, metrics=True, metrics_port=9420)
    inventory["o-mq1-b.example.com"] |= {"activemq_port_offset": 10, "activemq_metrics_port": 9410}

    (finding,) = [finding for finding in build_fleet(inventory, {}).findings if finding.rule == "T006"]

    assert finding.why == "the broker that starts second cannot open the port, and stops"


def test_t006_names_variable_of_same_listener_of_two_brokers_once() -> None:
    inventory = hosts("o-mq1", address="mq.example.com", console=False, metrics=True, metrics_port=9420)
    inventory["o-mq1-b.example.com"] |= {"activemq_port_offset": 10, "activemq_metrics_port": 9410}

    fixes = [finding.fix for finding in build_fleet(inventory, {}).findings if finding.rule == "T006"]

    assert len(fixes) == 1
    assert fixes[0].endswith("Or change the port of one of the two listeners (activemq_metrics_port)")


def test_t006_ignores_case_of_address() -> None:
    inventory = hosts("o-mq1", address="mq.example.com", console=False, service="none")
    inventory["o-mq1-b.example.com"]["activemq_address"] = "MQ.example.com"

    assert set(rules_of_findings(build_fleet(inventory, {}))) == {"T006"}


@pytest.mark.parametrize(
    ("bind", "is_conflict"),
    [("127.0.0.1", False), ("10.0.0.5", True), ("localhost", False), ("0.0.0.0", True)],
)
def test_t006_compares_bind_addresses_of_listeners_of_broker(bind: str, is_conflict: bool) -> None:
    connectors = [
        {"name": name, "scheme": "nio", "port": 61616, "bind": address}
        for name, address in (("openwire", "10.0.0.5"), ("local", bind))
    ]
    built_fleet = fleet("o-mq1", connectors=connectors)

    assert rules_of_findings(built_fleet) == ["T006"] * (2 if is_conflict else 0)
    conflicts = list(conflicting_ports_and_findings_of_broker(built_fleet.brokers[0]))
    assert [finding for _, finding in conflicts] == [f for f in built_fleet.findings if f.host == "o-mq1-a.example.com"]


def test_t006_compares_name_localhost_as_loopback_address() -> None:
    connectors = [{"name": "openwire", "scheme": "nio", "port": 8161, "bind": "localhost"}]

    assert rules_of_findings(fleet("o-mq1", connectors=connectors)) == ["T006", "T006"]


def test_t006_two_brokers_with_one_address_and_port_but_different_binds_are_reported() -> None:
    """Peers and clients connect to activemq_address."""
    inventory = hosts("o-mq1", "o-mq2", address="mq.example.com", ha="none", nodes="a", console=False, topology="none")
    for number, variables in enumerate(inventory.values()):
        variables |= {"activemq_bind": f"10.0.0.{number}", "activemq_instance": f"broker{number}"}

    assert rules_of_findings(build_fleet(inventory)) == ["T006"]


@pytest.mark.parametrize(
    ("jmx", "rule", "message"),
    [
        ({"rmi_port": 61616}, "T006", "the listeners jmx_rmi and openwire of this broker both use port 61616"),
        ({"rmi_port": 65530}, "T011", "port 65540 of the listener jmx_rmi is above 65535"),
        ({"rmi_port": 1099}, "", ""),
    ],
)
def test_rmi_port_of_jmx_is_checked_as_other_ports(jmx: dict[str, int], rule: str, message: str) -> None:
    offset = {"port_offset": 10} if rule == "T011" else {}
    findings = fleet("o-mq1", jmx={"port": 1099} | jmx, **offset).findings

    assert {(finding.rule, finding.message) for finding in findings} == ({(rule, message)} if rule else set())


def test_t007_link_to_unknown_target_suggests_name() -> None:
    finding_line = error_of("T007", hosts("orders-mq1", links=[{"from": "orders", "to": "ordres-mq1"}]))

    assert "activemq_links[0].to is 'ordres-mq1'" in finding_line
    assert "to orders-mq1, or to another group or pair" in finding_line


@pytest.mark.parametrize(
    ("target", "message", "fix"),
    [
        ("o-mq9, o-mq9", "lists o-mq9 twice", "to o-mq9"),
        ("o-mq8,o-mq9", "must be the name of one group or pair", "for each of o-mq8, o-mq9"),
    ],
)
def test_t007_list_of_targets_is_reported_as_list(target: str, message: str, fix: str) -> None:
    finding_line = error_of("T007", hosts("orders-mq1", links=[{"from": "orders", "to": target}]))

    assert message in finding_line
    assert fix in finding_line


@pytest.mark.parametrize("target", ["o", "o-mq1"])
def test_t007_link_of_pair_to_itself_is_error(target: str) -> None:
    finding_line = error_of("T007", hosts("o-mq1", links=[{"from": "o-mq1", "to": target}]))

    assert "`from` and `to` of activemq_links[0] name the same pair or broker, o-mq1" in finding_line


def test_t007_accepts_links_among_pairs_of_group() -> None:
    built_fleet = build_fleet(hosts("o-mq1", "o-mq2", links=[{"from": "o", "to": "o"}], topology="none"), {})

    assert "T007" not in rules_of_findings(built_fleet)


def test_t008_links_without_credentials_are_reported() -> None:
    inventory = {name: {"activemq_release": "5.18.3"} for name in hosts("o-mq1", "o-mq2")}
    built_fleet = build_fleet(inventory, {})

    assert rules_of_findings(built_fleet) == ["T008"] * 4
    assert "activemq_network_username and activemq_network_password are not set" in built_fleet.findings[0].message


def test_t008_is_not_reported_for_incomplete_pairs() -> None:
    inventory = {name: {"activemq_release": "5.18.3"} for name in ("o-mq1-a.example.com", "o-mq2-b.example.com")}

    assert set(rules_of_findings(build_fleet(inventory, {}))) == {"T002"}


@pytest.mark.parametrize(
    "variables",
    [{"pair_links": "static"}, {"discovery": "multicast"}, {"discovery": "multicast", "ha": "none", "nodes": "a"}],
)
def test_t008_pair_links_and_multicast_without_password_are_reported(variables: dict[str, str]) -> None:
    inventory = hosts("o-mq1", **variables)
    for host_variables in inventory.values():
        del host_variables["activemq_network_password"]

    assert set(rules_of_findings(build_fleet(inventory, {}))) == {"T008"}


def test_single_pair_needs_no_network_credentials() -> None:
    inventory = {name: {"activemq_release": "5.18.3"} for name in hosts("o-mq1")}

    assert build_fleet(inventory, {}).blocking_findings == ()


def test_t016_broker_without_users_is_warning() -> None:
    inventory: dict[str, dict[str, Any]] = {name: {"activemq_release": "5.18.3"} for name in hosts("o-mq1")}
    built_fleet = build_fleet(inventory, {})

    assert {(finding.rule, finding.severity) for finding in built_fleet.findings} == {("T016", "warning")}
    for host_variables in inventory.values():
        host_variables["activemq_users"] = [{"name": "ann", "password": "s3cret-app"}]
    assert build_fleet(inventory, {}).findings == ()


@pytest.mark.parametrize(
    ("variable", "value"),
    [("activemq_store_directory", "/other"), ("activemq_network_password", "other"), ("activemq_topology", "hub")],
)
def test_t009_different_values_of_shared_variable_are_reported(variable: str, value: str) -> None:
    inventory = hosts("o-mq1", "o-mq2")
    for name in ("o-mq2-a.example.com", "o-mq2-b.example.com")[0 if variable != "activemq_store_directory" else 1 :]:
        inventory[name][variable] = value

    built_fleet = build_fleet(inventory, {})

    assert set(rules_of_findings(built_fleet)) == {"T009"}
    assert all(variable in finding.message for finding in built_fleet.findings)


def test_t009_different_network_password_of_second_node_is_error() -> None:
    inventory = hosts("o-mq1", "o-mq2", "o-mq3")
    inventory["o-mq2-b.example.com"]["activemq_network_password"] = "other"

    assert error_of("T009", inventory).startswith("o-mq2-b.example.com: activemq_network_password differs")


def test_t009_ignores_undecrypted_passwords() -> None:
    inventory = hosts("o-mq1", "o-mq2")
    for number, host_variables in enumerate(inventory.values()):
        host_variables["activemq_network_password"] = UndecryptedVaultValue(f"ciphertext {number}")

    assert build_fleet(inventory, {}).findings == ()


def test_t009_tls_on_single_node_of_pair_is_error() -> None:
    inventory = hosts("o-mq1")
    inventory["o-mq1-b.example.com"]["activemq_tls"] = TLS

    assert "activemq_tls differs" in error_of("T009", inventory)


@pytest.mark.parametrize(
    ("user", "variable"), [("net", "activemq_users[0].password"), ("agent", "activemq_agent_password")]
)
def test_t009_user_with_two_passwords_is_reported(user: str, variable: str) -> None:
    agent = {"a1": {"activemq_agent_username": "agent", "activemq_agent_password": "s3cret-agent"}}
    inventory = hosts("o-mq1", users=[{"name": user, "password": "other"}]) | agent
    built_fleet = build_fleet(inventory, {"activemq_agents": ["a1"]})

    assert set(rules_of_findings(built_fleet)) == {"T009"}
    assert all(finding.message.startswith(variable) for finding in built_fleet.findings)
    assert f"passwords of the user {user}" in built_fleet.findings[0].message


def test_t010_agent_that_no_pair_can_serve_is_error() -> None:
    agent = {"a1": {"activemq_agent_username": "agent", "activemq_agent_password": "pw"}}
    groups = {"activemq_agents": ["a1"]}

    assert "release 5.5.1 has no MQTT for agents" in error_of("T010", hosts("o-mq1", release="5.5.1") | agent, groups)
    agent["a1"]["activemq_agent_pair"] = "o-mq9"
    assert "activemq_agent_pair is 'o-mq9'" in error_of("T010", hosts("o-mq1") | agent, groups)


def test_t011_scheme_that_release_does_not_have_is_reported() -> None:
    connectors = [{"name": "m", "scheme": "mqtt", "port": 1883}, {"name": "o", "scheme": "tcp", "port": 61616}]
    built_fleet = fleet("o-mq1", release="5.5.1", connectors=connectors)

    assert rules_of_findings(built_fleet) == ["T011", "T011"]
    assert "activemq_connectors[0].scheme" in built_fleet.findings[0].message


def test_t011_misspelt_scheme_gets_suggestion() -> None:
    built_fleet = fleet("o-mq1", connectors=[{"name": "o", "scheme": "tpc", "port": 61616}])

    assert "write the scheme tcp, or another supported scheme" in [
        finding.fix for finding in built_fleet.findings if finding.rule == "T011"
    ]


def test_t011_ttl_of_link_is_reported_only_on_source_of_link() -> None:
    links = [{"from": "o-mq1", "to": "o-mq2", "ttl": {"consumer": 1, "message": -1}}]
    inventory = hosts("o-mq1", "o-mq2", "west-mq1", links=links, topology="none", ha="none")
    for host in inventory.keys() - {"o-mq1-a.example.com"}:
        inventory[host]["activemq_release"] = "5.8.0"

    assert error_of("T011", inventory).startswith("o-mq1-b.example.com: activemq_links[0].ttl is a mapping")


@pytest.mark.parametrize("ttl", [-1, {"consumer": 1, "message": -1}])
def test_t011_ttl_of_link_that_only_target_defines_is_reported_on_source(ttl: object) -> None:
    inventory = hosts("o-mq1", "o-mq2", topology="none", ha="none", nodes="a")
    inventory["o-mq1-a.example.com"]["activemq_release"] = "5.8.0"
    inventory["o-mq2-a.example.com"]["activemq_links"] = [{"from": "o-mq1", "to": "o-mq2", "ttl": ttl}]

    assert error_of("T011", inventory).startswith(
        "o-mq1-a.example.com: activemq_links[0].ttl of o-mq2-a.example.com is "
    )


def test_t011_attribute_of_link_that_only_target_defines_is_reported_on_source() -> None:
    inventory = hosts("o-mq1", "o-mq2", topology="none", ha="none", nodes="a")
    inventory["o-mq1-a.example.com"]["activemq_release"] = "5.8.0"
    entry = {"from": "o-mq1", "to": "o-mq2", "attributes": {"checkDuplicateMessagesOnDuplex": "true"}}
    inventory["o-mq2-a.example.com"]["activemq_links"] = [entry]

    assert error_of("T011", inventory).startswith(
        "o-mq1-a.example.com: activemq_links[0].attributes of o-mq2-a.example.com sets checkDuplicateMessagesOnDuplex, "
    )


def test_t011_pure_pair_with_tls_is_reported() -> None:
    built_fleet = fleet("o-mq1", release="5.5.1", ha="pure", tls=TLS)

    assert rules_of_findings(built_fleet) == ["T011", "T011"]
    assert "cannot encrypt the replication from master to slave" in built_fleet.findings[0].message


def test_t012_two_links_with_same_name_are_reported() -> None:
    built_fleet = fleet("o-mq1", "o-mq2", links=[{"from": "o-mq1", "to": "o-mq2"}])

    assert rules_of_findings(built_fleet) == ["T012", "T012"]


@pytest.mark.parametrize(
    ("name", "taken_by"),
    [("openwire", "the same name as a connector"), ("broker", "the same name as the <broker> element")],
)
def test_t012_link_with_name_of_other_bean_is_reported(name: str, taken_by: str) -> None:
    built_fleet = fleet("o-mq1", "o-mq2", topology="none", links=[{"from": "o-mq1", "to": "o-mq2", "name": name}])

    assert rules_of_findings(built_fleet) == ["T012", "T012"]
    assert taken_by in built_fleet.findings[0].message


def test_t014_link_to_pair_without_usable_connector_is_reported() -> None:
    connectors = [{"name": "s", "scheme": "stomp", "port": 61613}]

    assert set(rules_of_findings(fleet("o-mq1", "o-mq2", connectors=connectors))) == {"T014"}


def test_t015_agent_without_credentials_is_error() -> None:
    assert "activemq_agent_password" in error_of("T015", hosts("o-mq1") | {"a1": {}}, {"activemq_agents": ["a1"]})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("activemq_users", [{"name": "app", "password": "another", "groups": ["apps"]}]),
        ("activemq_acl", [{"destination": "orders.>", "kind": "queue", "read": ["apps"]}]),
    ],
)
def test_t009_different_users_or_permissions_in_pair_are_error(variable: str, value: object) -> None:
    inventory = hosts("o-mq1")
    inventory["o-mq1-b.example.com"][variable] = value

    assert error_of("T009", inventory).startswith(f"o-mq1-b.example.com: {variable} differs")


def test_t029_agents_with_same_account_are_reported() -> None:
    credentials = {"activemq_agent_username": "agent", "activemq_agent_password": "pw"}
    agents = {"a1": credentials, "a2": credentials, "a3": credentials | {"activemq_agent_username": "other"}}
    findings = build_fleet(hosts("o-mq1") | agents, {"activemq_agents": list(agents)}).findings

    assert [(finding.host, finding.message) for finding in findings if finding.rule == "T029"] == [
        ("a2", "activemq_agent_username is agent, and the agent on a1 has the same user name")
    ]


def test_t001_broker_with_unknown_group_and_pair_is_error() -> None:
    finding_line = error_of("T001", hosts("o-mq1") | {"hal1": {"activemq_node": "a"}})

    assert finding_line.startswith(
        "hal1: the group and pair of the broker are unknown, because the host name does not match "
    )
    assert finding_line.endswith("set activemq_group and activemq_pair of the host, or correct activemq_naming_pattern")


def test_t003_pair_with_name_of_host_is_error() -> None:
    finding_line = error_of(
        "T003", hosts("o-mq1", "o-mq2", topology="none", pair="o-mq1-a") | hosts("o-mq1", topology="none")
    )

    assert (
        "the host is in pair o-mq1-a, but the host o-mq1-a.example.com has the same name as this pair" in finding_line
    )


def test_t035_variable_takes_precedence_over_host_name_with_warning() -> None:
    inventory = hosts("o-mq1")
    inventory["o-mq1-a.example.com"]["activemq_node"] = "b"
    inventory["o-mq1-b.example.com"] |= {"activemq_node": "a", "activemq_pair": "o-mq1"}
    built_fleet = build_fleet(inventory, {})

    assert [broker.role for broker in built_fleet.brokers] == ["slave", "master"]
    findings = [finding for finding in built_fleet.findings if finding.rule == "T035"]
    assert [(finding.host, finding.severity, finding.message) for finding in findings] == [
        (
            "o-mq1-a.example.com",
            "warning",
            "the variable activemq_node is set to b, but the host name contains the node a. The variable takes "
            "precedence",
        ),
        (
            "o-mq1-b.example.com",
            "warning",
            "the variable activemq_node is set to a, but the host name contains the node b. The variable takes "
            "precedence",
        ),
    ]


def test_t035_second_name_of_pair_is_info_and_settings_report_all_problems() -> None:
    built_fleet = build_fleet(hosts("o-mq1", pair="old"), {})
    assert {(finding.rule, finding.severity) for finding in built_fleet.findings} == {("T035", "info")}
    assert {broker.broker_name for broker in built_fleet.brokers} == {"old"}

    with pytest.raises(SettingsError) as caught:
        build_fleet(hosts("o-mq1", node=1) | hosts("o-mq2", release=None), {})
    assert "activemq_node must be text, not a number" in str(caught.value)
    assert "activemq_release is not set" in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (DEFAULT_PATTERN, "rename it to GROUP-mqNUMBER-NODE, such as orders-mq01-a"),
        (
            r"^(?P<group>[^.]+)-mq(?P<number>[0-9]+)-(?P<node>primary|standby)$",
            "rename it to a name that activemq_naming_pattern matches",
        ),
    ],
)
def test_t017_fix_fits_naming_pattern(pattern: str, expected: str) -> None:
    (misspelt,) = misspelled_broker_name_findings(["orders-mq02-c"], pattern)
    assert expected in misspelt.fix
