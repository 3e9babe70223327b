"""The errors that only the whole inventory shows, each with host, variable and remedy."""

from __future__ import annotations

from typing import Any

import pytest

from activemq_fleet.errors import SettingsError
from activemq_fleet.findings import merged_finding_lines
from activemq_fleet.naming import DEFAULT_PATTERN
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from activemq_fleet.topology import build_fleet
from activemq_fleet.topology.name_problems import broker_like_host_name_findings
from tests.unit.fleets import NETWORK, fleet, hosts, rules

TLS = dict.fromkeys(("keystore", "truststore"), "/etc/x") | dict.fromkeys(
    ("keystore_password", "truststore_password"), "hush"
)


def wrong(rule: str, inventory: dict[str, dict[str, Any]], groups: dict[str, list[str]] | None = None) -> str:
    """The one finding of a rule, as text."""
    found = [finding for finding in build_fleet(inventory, groups or {}).findings if finding.rule == rule]
    assert len(found) == 1, found
    assert found[0].severity == "error"
    return f"{found[0].host}: {found[0].message}; {found[0].fix}"


def test_t001_a_broker_whose_name_does_not_match() -> None:
    text = wrong("T001", hosts("o-mq1") | {"db1": {}}, {"activemq_brokers": ["db1"]})

    assert text.startswith("db1: the host is in activemq_brokers")


def test_t002_a_pair_without_its_other_node() -> None:
    text = wrong("T002", hosts("o-mq1", nodes="b"))

    assert "o-mq1-b.example.com: pair o-mq1 has only one node: node a is not in the inventory" in text
    assert "add o-mq1-a.example.com" in text


@pytest.mark.parametrize("other", ["oders-mq01-b", "ordersmq01-b.example.com", "orders-mq01-c"])
def test_t002_names_a_host_that_is_similar_to_the_missing_node(other: str) -> None:
    inventory = hosts("orders-mq01", nodes="a")
    built_fleet = build_fleet(inventory | {other: next(iter(inventory.values()))})

    fixes = [finding.fix for finding in built_fleet.findings if finding.host == "orders-mq01-a.example.com"]
    assert (
        f"add orders-mq01-b.example.com to the inventory ({other} has a similar name: "
        "if it is the missing node, rename it)" in fixes[0]
    )


@pytest.mark.parametrize("other", ["orders-mq02-x", "database01", "web-orders01-b"])
def test_t002_names_no_host_of_another_number_or_purpose(other: str) -> None:
    assert "similar" not in wrong("T002", hosts("orders-mq01", nodes="a") | {other: {}})


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
    variables = {name: inventory["o-mq1-a.example.com"] if name == "web1" else of for name, of in inventory.items()}

    assert build_fleet(variables, groups).unread == unread


CUSTOM = r"^(?P<group>[a-z]+)(?P<number>\d\d)(?P<node>[1-3])$"


def test_t002_says_no_name_where_it_cannot_know_it() -> None:
    inventory = {"o011": dict(NETWORK, activemq_release="5.18.3", activemq_master_node="a")}
    text = build_fleet(inventory, {}, naming_pattern=CUSTOM).findings[0].message

    assert text == "pair o-mq01 has only one node: its other node is not in the inventory"


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ("12", "pair o-mq01 has no preferred master: its nodes are 1 and 2"),
        ("123", "pair o-mq01 must have 2 nodes, but has 3: 1 (o011), 2 (o012), 3 (o013)"),
    ],
)
def test_t002_a_pair_that_is_none(nodes: str, said: str) -> None:
    inventory = {f"o01{node}": dict(NETWORK, activemq_release="5.18.3") for node in nodes}
    found = build_fleet(inventory, {}, naming_pattern=CUSTOM)

    assert rules(found) == ["T002"]
    assert said in found.findings[0].message


def test_t003_two_hosts_with_one_identity() -> None:
    text = wrong("T003", hosts("o-mq1") | hosts("o-mq1", nodes="a", domain="example.org"))

    assert "o-mq1-a.example.org: the host is node a of pair o-mq1, but the host o-mq1-a.example.com is the same" in text


def test_t004_a_pair_on_two_lines() -> None:
    both = hosts("o-mq1")
    both["o-mq1-b.example.com"]["activemq_release"] = "5.17.6"

    text = wrong("T004", both)
    assert "activemq_release is 5.17.6, but the other node o-mq1-a.example.com of the pair has 5.18.3" in text


@pytest.mark.parametrize("release", ["5.8.0", "6.3.1"])
def test_t005_pure_where_it_is_gone(release: str) -> None:
    found = fleet("o-mq1", "o-mq2", ha="pure", release=release)

    assert rules(found) == ["T005"] * 4
    assert "activemq_ha: shared-file" in found.findings[0].fix


def test_t006_two_brokers_on_one_port() -> None:
    text = "\n".join(f.message for f in fleet("o-mq1", address="mq.example.com", service="none").findings)

    assert (
        "the broker on o-mq1-a.example.com listens on the same address mq.example.com (activemq_address) and the same "
        "ports 61616 (openwire)"
    ) in text


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
def test_t006_names_variables_of_two_listeners_of_one_broker(variables: dict[str, Any], ports: str) -> None:
    findings = [f for f in fleet("o-mq1", **variables).findings if f.rule == "T006"]

    assert [f.fix for f in findings] == [f"set another port for one of the two: {ports}"] * 2
    assert {f.why for f in findings} == {"the broker can open the port for only one of its two listeners, and stops"}


def test_t006_of_one_broker_each_is_one_line_with_all_hosts() -> None:
    findings = [f for f in fleet("o-mq1", console_port=61616).findings if f.rule == "T006"]

    (line,) = merged_finding_lines(findings)
    assert line.startswith(
        "T006 o-mq1-a.example.com, o-mq1-b.example.com: the listeners console and openwire of this broker both use "
        "port 61616. Set another port"
    )


def test_t006_reason_of_two_brokers_on_one_port_names_second_broker() -> None:
    both = hosts("o-mq1", address="mq.example.com", console=False, metrics=True, metrics_port=9420)
    both["o-mq1-b.example.com"] |= {"activemq_port_offset": 10, "activemq_metrics_port": 9410}

    (finding,) = [finding for finding in build_fleet(both, {}).findings if finding.rule == "T006"]

    assert finding.why == "the broker that starts second cannot open the port, and stops"


def test_t006_names_variable_of_same_listener_of_two_brokers_once() -> None:
    both = hosts("o-mq1", address="mq.example.com", console=False, metrics=True, metrics_port=9420)
    both["o-mq1-b.example.com"] |= {"activemq_port_offset": 10, "activemq_metrics_port": 9410}

    fixes = [finding.fix for finding in build_fleet(both, {}).findings if finding.rule == "T006"]

    assert len(fixes) == 1
    assert fixes[0].endswith("Or change the port of one of the two listeners (activemq_metrics_port)")


def test_t006_takes_no_notice_of_the_case_of_an_address() -> None:
    both = hosts("o-mq1", address="mq.example.com", console=False, service="none")
    both["o-mq1-b.example.com"]["activemq_address"] = "MQ.example.com"

    assert set(rules(build_fleet(both, {}))) == {"T006"}


def test_t007_a_link_to_nobody_suggests_a_name() -> None:
    text = wrong("T007", hosts("orders-mq1", links=[{"from": "orders", "to": "ordres-mq1"}]))

    assert "activemq_links[0].to is 'ordres-mq1'" in text
    assert "to orders-mq1, or to another group or pair" in text


@pytest.mark.parametrize(
    ("target", "message", "fix"),
    [
        ("o-mq9, o-mq9", "lists o-mq9 twice", "to o-mq9"),
        ("o-mq8,o-mq9", "must be the name of one group or pair", "for each of o-mq8, o-mq9"),
    ],
)
def test_t007_list_of_targets_is_reported_as_such(target: str, message: str, fix: str) -> None:
    text = wrong("T007", hosts("orders-mq1", links=[{"from": "orders", "to": target}]))

    assert message in text
    assert fix in text


@pytest.mark.parametrize("target", ["o", "o-mq1"])
def test_t007_link_of_a_pair_to_itself_is_an_error(target: str) -> None:
    text = wrong("T007", hosts("o-mq1", links=[{"from": "o-mq1", "to": target}]))

    assert "`from` and `to` of activemq_links[0] name the same pair or broker, o-mq1" in text


def test_t007_accepts_links_among_the_pairs_of_one_group() -> None:
    found = build_fleet(hosts("o-mq1", "o-mq2", links=[{"from": "o", "to": "o"}], topology="none"), {})

    assert "T007" not in rules(found)


def test_t008_links_without_credentials() -> None:
    bare = {name: {"activemq_release": "5.18.3"} for name in hosts("o-mq1", "o-mq2")}
    found = build_fleet(bare, {})

    assert rules(found) == ["T008"] * 4
    assert "activemq_network_username and activemq_network_password are not set" in found.findings[0].message


def test_t008_waits_until_the_pair_is_complete() -> None:
    bare = {name: {"activemq_release": "5.18.3"} for name in ("o-mq1-a.example.com", "o-mq2-b.example.com")}

    assert set(rules(build_fleet(bare, {}))) == {"T002"}


@pytest.mark.parametrize(
    "variables",
    [{"pair_links": "static"}, {"discovery": "multicast"}, {"discovery": "multicast", "ha": "none", "nodes": "a"}],
)
def test_t008_a_link_inside_a_pair_or_to_whoever_comes_needs_credentials(variables: dict[str, str]) -> None:
    inventory = hosts("o-mq1", **variables)
    for own in inventory.values():
        del own["activemq_network_password"]

    assert set(rules(build_fleet(inventory, {}))) == {"T008"}


def test_a_single_pair_needs_no_network_credentials() -> None:
    inventory = {name: {"activemq_release": "5.18.3"} for name in hosts("o-mq1")}

    assert build_fleet(inventory, {}).blocking_findings == ()


def test_t016_a_broker_that_nobody_can_log_in_to_is_a_warning() -> None:
    inventory: dict[str, dict[str, Any]] = {name: {"activemq_release": "5.18.3"} for name in hosts("o-mq1")}
    found = build_fleet(inventory, {})

    assert {(finding.rule, finding.severity) for finding in found.findings} == {("T016", "warning")}
    for own in inventory.values():
        own["activemq_users"] = [{"name": "ann", "password": "pw"}]
    assert build_fleet(inventory, {}).findings == ()


@pytest.mark.parametrize(
    ("variable", "value"),
    [("activemq_store_directory", "/other"), ("activemq_network_password", "other"), ("activemq_topology", "hub")],
)
def test_t009_what_must_be_equal_and_is_not(variable: str, value: str) -> None:
    inventory = hosts("o-mq1", "o-mq2")
    for name in ("o-mq2-a.example.com", "o-mq2-b.example.com")[0 if variable != "activemq_store_directory" else 1 :]:
        inventory[name][variable] = value

    found = build_fleet(inventory, {})

    assert set(rules(found)) == {"T009"}
    assert all(variable in finding.message for finding in found.findings)


def test_t009_the_second_node_of_a_pair_has_another_network_password() -> None:
    inventory = hosts("o-mq1", "o-mq2", "o-mq3")
    inventory["o-mq2-b.example.com"]["activemq_network_password"] = "other"

    assert wrong("T009", inventory).startswith("o-mq2-b.example.com: activemq_network_password differs")


def test_t009_does_not_guess_at_passwords_that_are_closed() -> None:
    inventory = hosts("o-mq1", "o-mq2")
    for number, own in enumerate(inventory.values()):
        own["activemq_network_password"] = UndecryptedVaultValue(f"ciphertext {number}")

    assert build_fleet(inventory, {}).findings == ()


def test_t009_only_one_node_of_a_pair_has_tls() -> None:
    inventory = hosts("o-mq1")
    inventory["o-mq1-b.example.com"]["activemq_tls"] = TLS

    assert "activemq_tls differs" in wrong("T009", inventory)


@pytest.mark.parametrize(
    ("user", "variable"), [("net", "activemq_users[0].password"), ("agent", "activemq_agent_password")]
)
def test_t009_one_name_with_two_passwords(user: str, variable: str) -> None:
    agent = {"a1": {"activemq_agent_username": "agent", "activemq_agent_password": "pw"}}
    inventory = hosts("o-mq1", users=[{"name": user, "password": "other"}]) | agent
    found = build_fleet(inventory, {"activemq_agents": ["a1"]})

    assert set(rules(found)) == {"T009"}
    assert all(finding.message.startswith(variable) for finding in found.findings)
    assert f"passwords of the user {user}" in found.findings[0].message


def test_t010_an_agent_that_no_pair_can_serve() -> None:
    agent = {"a1": {"activemq_agent_username": "agent", "activemq_agent_password": "pw"}}
    groups = {"activemq_agents": ["a1"]}

    assert "release 5.5.1 has no MQTT for agents" in wrong("T010", hosts("o-mq1", release="5.5.1") | agent, groups)
    agent["a1"]["activemq_agent_pair"] = "o-mq9"
    assert "activemq_agent_pair is 'o-mq9'" in wrong("T010", hosts("o-mq1") | agent, groups)


def test_t011_a_scheme_that_the_release_does_not_have() -> None:
    mqtt = [{"name": "m", "scheme": "mqtt", "port": 1883}, {"name": "o", "scheme": "tcp", "port": 61616}]
    found = fleet("o-mq1", release="5.5.1", connectors=mqtt)

    assert rules(found) == ["T011", "T011"]
    assert "activemq_connectors[0].scheme" in found.findings[0].message


def test_t011_misspelt_scheme_gets_a_suggestion() -> None:
    misspelt = fleet("o-mq1", connectors=[{"name": "o", "scheme": "tpc", "port": 61616}])

    assert "write the scheme tcp, or another supported scheme" in [
        finding.fix for finding in misspelt.findings if finding.rule == "T011"
    ]


def test_t011_a_pure_pair_cannot_copy_over_tls() -> None:
    found = fleet("o-mq1", release="5.5.1", ha="pure", tls=TLS)

    assert rules(found) == ["T011", "T011"]
    assert "cannot encrypt the replication from master to slave" in found.findings[0].message


def test_t012_two_links_with_one_name() -> None:
    found = fleet("o-mq1", "o-mq2", links=[{"from": "o-mq1", "to": "o-mq2"}])

    assert rules(found) == ["T012", "T012"]


@pytest.mark.parametrize(
    ("name", "taken_by"),
    [("openwire", "the same name as a connector"), ("broker", "the same name as the <broker> element")],
)
def test_t012_a_link_with_the_name_of_another_bean(name: str, taken_by: str) -> None:
    found = fleet("o-mq1", "o-mq2", topology="none", links=[{"from": "o-mq1", "to": "o-mq2", "name": name}])

    assert rules(found) == ["T012", "T012"]
    assert taken_by in found.findings[0].message


def test_t014_a_link_with_nothing_to_dial() -> None:
    stomp = [{"name": "s", "scheme": "stomp", "port": 61613}]

    assert set(rules(fleet("o-mq1", "o-mq2", connectors=stomp))) == {"T014"}


def test_t015_an_agent_without_credentials() -> None:
    assert "activemq_agent_password" in wrong("T015", hosts("o-mq1") | {"a1": {}}, {"activemq_agents": ["a1"]})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("activemq_users", [{"name": "app", "password": "another", "groups": ["apps"]}]),
        ("activemq_acl", [{"destination": "orders.>", "kind": "queue", "read": ["apps"]}]),
    ],
)
def test_t009_who_may_do_what_differs_between_the_nodes_of_a_pair(variable: str, value: object) -> None:
    inventory = hosts("o-mq1")
    inventory["o-mq1-b.example.com"][variable] = value

    assert wrong("T009", inventory).startswith(f"o-mq1-b.example.com: {variable} differs")


def test_agents_that_share_an_account_are_told() -> None:
    one = {"activemq_agent_username": "agent", "activemq_agent_password": "pw"}
    agents = {"a1": one, "a2": one, "a3": one | {"activemq_agent_username": "other"}}
    found = build_fleet(hosts("o-mq1") | agents, {"activemq_agents": list(agents)}).findings

    assert [(finding.host, finding.message) for finding in found if finding.rule == "T029"] == [
        ("a2", "activemq_agent_username is agent, and the agent on a1 has the same user name")
    ]


def test_t001_a_broker_of_which_a_part_is_nowhere_stated() -> None:
    text = wrong("T001", hosts("o-mq1") | {"hal1": {"activemq_node": "a"}})

    assert text.startswith("hal1: the group and pair of the broker are unknown, because the host name does not match ")
    assert text.endswith("set activemq_group and activemq_pair of the host, or correct activemq_naming_pattern")


def test_t003_a_pair_that_is_called_like_a_host() -> None:
    text = wrong("T003", hosts("o-mq1", "o-mq2", topology="none", pair="o-mq1-a") | hosts("o-mq1", topology="none"))

    assert "the host is in pair o-mq1-a, but the host o-mq1-a.example.com has the same name as this pair" in text


def test_t035_what_is_set_wins_and_a_difference_is_told() -> None:
    inventory = hosts("o-mq1")
    inventory["o-mq1-a.example.com"]["activemq_node"] = "b"
    inventory["o-mq1-b.example.com"] |= {"activemq_node": "a", "activemq_pair": "o-mq1"}
    found = build_fleet(inventory, {})

    assert [broker.role for broker in found.brokers] == ["slave", "master"]
    told = [finding for finding in found.findings if finding.rule == "T035"]
    assert [(one.host, one.severity, one.message) for one in told] == [
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
    found = build_fleet(hosts("o-mq1", pair="old"), {})
    assert {(one.rule, one.severity) for one in found.findings} == {("T035", "info")}
    assert {broker.broker_name for broker in found.brokers} == {"old"}

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
def test_t017_remedy_fits_the_naming_pattern(pattern: str, expected: str) -> None:
    (misspelt,) = broker_like_host_name_findings(["orders-mq02-c"], pattern)
    assert expected in misspelt.fix
