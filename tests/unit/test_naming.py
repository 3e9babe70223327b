"""Naming conventions: the identity of a broker from its host name, and proposed patterns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from activemq_fleet.errors import InputError, SettingsError
from activemq_fleet.naming import Identity, Naming, UnparsableBrokerNameError
from activemq_fleet.naming_proposal import propose_naming, propose_single_broker_naming
from tests.conventions import CONVENTIONS, PARITY, PUBLIC, Convention

PAGE = Path(__file__).resolve().parents[2] / "docs" / "names.md"
GROUP_AND_NUMBER = r"^(?P<group>[a-z]+)(?P<number>[0-9]+)$"


def test_full_host_name_gives_group_number_node_pair_role_and_domain() -> None:
    identity = Naming().identify_broker("orders-mq01-a.example.com")

    assert identity == Identity(
        "orders-mq01-a.example.com", "orders", "01", "a", "orders-mq01", "master", "example.com"
    )
    assert identity.short_host_name == "orders-mq01-a"


@pytest.mark.parametrize(
    ("name", "group", "pair", "role"),
    [
        ("clustername-mq01-b", "clustername", "clustername-mq01", "slave"),
        ("a-b-c-mq7-a.x", "a-b-c", "a-b-c-mq7", "master"),
        ("x-mq1-a-mq2-b.d", "x-mq1-a", "x-mq1-a-mq2", "slave"),
    ],
)
def test_only_first_label_of_host_name_is_parsed(name: str, group: str, pair: str, role: str) -> None:
    identity = Naming().identify_broker(name)

    assert identity is not None
    assert (identity.group, identity.pair, identity.role) == (group, pair, role)


@pytest.mark.parametrize("name", ["orders-mq01-c", "orders-mq-a", "mq01-a", "-mq01-a", "db1", "", "a.b-mq01-a"])
def test_host_names_without_convention_have_no_identity(name: str) -> None:
    assert Naming().identify_broker(name) is None


def test_master_node_variable_changes_letter_of_master() -> None:
    identity = Naming(master_node="b").identify_broker("orders-mq01-b")

    assert identity is not None
    assert identity.role == "master"


def test_only_nearly_matching_host_name_is_reported_as_misspelled() -> None:
    assert Naming().looks_like_misspelled_broker("orders-mq01-c.example.com")
    assert not Naming().looks_like_misspelled_broker("orders-db01-a.example.com")
    assert not Naming().looks_like_misspelled_broker("orders-mq01-a")


def test_custom_naming_pattern_determines_identity() -> None:
    naming = Naming(r"^amq-(?P<group>[a-z]+)(?P<number>\d+)(?P<node>[12])$", master_node="1")

    identity = naming.identify_broker("amq-pay031")

    assert identity is not None
    assert (identity.group, identity.number, identity.role, identity.pair) == ("pay", "03", "master", "pay-mq03")


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("(", "is not a valid regular expression"),
        ("(?P<x>x)", "contains none of the named capture groups"),
    ],
)
def test_unusable_naming_pattern_is_error_that_names_variable(pattern: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        Naming(pattern).identify_broker("x")

    assert message in str(caught.value)
    assert "activemq_naming_pattern" in str(caught.value)


def identity_of_host(name: str, pattern: str | None = None, **variables: str) -> Identity:
    host_variables = {f"activemq_{key}": value for key, value in variables.items()}
    identity = Naming.naming_of_host(name, host_variables, pattern).identify_broker(name)
    assert identity is not None
    return identity


@pytest.mark.parametrize(
    ("parity", "name", "pair", "node", "role"),
    [
        ("odd-even", "mq1", "mq1-2", "odd", "master"),
        ("odd-even", "mq2", "mq1-2", "even", "slave"),
        ("odd-even", "mq9", "mq09-10", "odd", "master"),
        ("odd-even", "mq10", "mq09-10", "even", "slave"),
        ("odd-even", "mq0099", "mq0099-0100", "odd", "master"),
        ("even-odd", "mq00", "mq00-01", "even", "master"),
        ("even-odd", "mq01", "mq00-01", "odd", "slave"),
    ],
)
def test_naming_parity_pairs_two_numbers_and_names_pair_after_both(
    parity: str, name: str, pair: str, node: str, role: str
) -> None:
    identity = identity_of_host(name, GROUP_AND_NUMBER, naming_parity=parity)

    assert (identity.pair, identity.node, identity.role) == (pair, node, role)


def test_even_number_can_be_preferred_master() -> None:
    assert identity_of_host("mq2", GROUP_AND_NUMBER, naming_parity="odd-even", master_node="even").role == "master"


@pytest.mark.parametrize(
    ("name", "pattern", "pair"),
    [
        ("orders-mq01-primary", r"(?P<group>.+)-mq(?P<number>\d+)-(?P<node>\w+)$", "orders-mq01"),
        ("orders01a", r"^(?P<group>[a-z]+)(?P<number>\d+)(?P<node>[ab])", "orders-mq01"),
        ("orders01a", r"^(?P<pair>(?P<group>[a-z]+)(?P<number>\d+))(?P<node>[ab])", "orders01"),
        ("orders_a", r"^(?P<group>[a-z]+)_(?P<node>[ab])", "orders"),
        ("a-orders", r"^(?P<node>[ab])-(?P<group>[a-z]+)", "orders"),
        ("pay-a-card", r"^(?P<group>[a-z]+)-(?P<node>[ab])-card", "pay-card"),
    ],
)
def test_pair_name_follows_rules_of_names_page(name: str, pattern: str, pair: str) -> None:
    assert identity_of_host(name, pattern).pair == pair


def test_host_variables_override_name_and_disagreements_are_kept() -> None:
    identity = identity_of_host("orders-mq01-a", pair="old", node="b")

    assert (identity.group, identity.pair, identity.node, identity.role) == ("orders", "old", "b", "slave")
    assert identity.disagreements == {"pair": "orders-mq01", "node": "a"}
    assert identity.origins == {"group": "name", "pair": "activemq_pair", "node": "activemq_node"}


def test_host_variables_identify_broker_with_arbitrary_name() -> None:
    identity = identity_of_host("hal9000", group="orders", pair="orders-mq01", node="a")

    assert (identity.group, identity.number, identity.pair, identity.role) == ("orders", "01", "orders-mq01", "master")


def test_group_variable_alone_identifies_no_broker() -> None:
    assert Naming.naming_of_host("web1", {"activemq_group": "orders"}).identify_broker("web1") is None


@pytest.mark.parametrize(
    ("name", "pattern", "variables", "message"),
    [
        (
            "hal9000",
            None,
            {"node": "a"},
            "the group and pair of the broker are unknown, because the host name does not match",
        ),
        (
            "mq01",
            r"^(?P<group>mq)(?P<number>\d+)",
            {},
            "the pair and node of the broker are unknown, because activemq_naming_pattern does not contain "
            "(?P<node>…). Set activemq_pair and activemq_node of the host, or add (?P<node>…) to "
            "activemq_naming_pattern. If odd and even numbers distinguish the nodes, set "
            "activemq_naming_parity to odd-even or even-odd",
        ),
        (
            "mq01",
            r"^(?P<group>mq)(?P<number>\d+)",
            {"node": "a"},
            "the pair of the broker is unknown, because the host name does not contain it. Set activemq_pair of the "
            "host",
        ),
        (
            "mq01-a",
            r"^mq(?P<number>\d+)-(?P<node>[ab])",
            {},
            "the group of the broker is unknown, because activemq_naming_pattern does not contain "
            "(?P<group>…). Set activemq_group of the host, or add (?P<group>…) to activemq_naming_pattern",
        ),
        (
            "mq0",
            GROUP_AND_NUMBER,
            {"naming_parity": "odd-even"},
            "the host name has the number 0, but with activemq_naming_parity: odd-even the numbers start at 1",
        ),
        (
            "mqx",
            "^(?P<group>mq)(?P<number>x)",
            {"naming_parity": "odd-even"},
            "of activemq_naming_pattern matches the text 'x' of the host name",
        ),
    ],
)
def test_missing_part_of_identity_is_error_that_names_host(
    name: str, pattern: str | None, variables: dict[str, str], message: str
) -> None:
    with pytest.raises(UnparsableBrokerNameError) as caught:
        identity_of_host(name, pattern, **variables)

    assert str(caught.value).startswith(f"{name}: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"activemq_node": 1}, "web1: activemq_node must be text, not a number: write the value in quotes"),
        ({"activemq_pair": "{{ x }}"}, "web1: activemq_pair is the template '{{ x }}', but Ansible groups"),
        (
            {"activemq_group": "../etc"},
            "web1: activemq_group is '../etc', but may contain only letters, digits, - and _: write a value such as",
        ),
        ({"activemq_node": ""}, "web1: activemq_node is empty: set it to a name of letters and digits, or remove it"),
        ({"activemq_naming_parity": "odd"}, "web1: activemq_naming_parity is 'odd': set it to odd-even or even-odd"),
    ],
)
def test_invalid_naming_variable_is_rejected(variables: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Naming.naming_of_host("web1", variables)

    assert message in str(caught.value)


def test_naming_parity_with_node_in_pattern_is_error() -> None:
    with pytest.raises(InputError, match=r"without .*: correct the pattern, or remove activemq_naming_parity"):
        Naming(parity="odd-even").identify_broker("orders-mq01-a")


def test_variables_on_names_page_identify_its_names_as_pairs() -> None:
    block = PAGE.read_text().split("```yaml\n")[1].split("```")[0]
    conventions = re.findall(r"# (\S+), (\S+)\n((?:\w+: .*\n)+)", block)
    assert len(conventions) == len(CONVENTIONS) - 2
    for master, slave, variables_yaml in conventions:
        variables = yaml.safe_load(variables_yaml)
        identities = [Naming.naming_of_host(name, variables).identify_broker(name) for name in (master, slave)]
        assert [identity.role for identity in identities if identity] == ["master", "slave"]
        assert len({identity.pair for identity in identities if identity}) == 1


@pytest.mark.parametrize(
    "convention",
    [convention for convention in CONVENTIONS if convention is not PUBLIC],
    ids=lambda convention: convention.name,
)
def test_naming_proposal_identifies_all_names_of_convention_as_its_pairs(convention: Convention) -> None:
    proposal = propose_naming(reversed(convention.hosts))

    assert proposal is not None
    pairs_by_host = {host: pair for pair, hosts in convention.pairs.items() for host in hosts}
    assert {identity.name: identity.pair for identity in proposal.identities} == pairs_by_host
    masters = {identity.name for identity in proposal.identities if identity.role == "master"}
    assert masters == {master for master, _ in convention.pairs.values()}


def test_naming_proposal_finds_node_inside_name_and_ignores_other_hosts() -> None:
    proposal = propose_naming([*PUBLIC.hosts, "web1", "db-master"])

    assert proposal is not None
    assert {identity.name for identity in proposal.identities} == set(PUBLIC.hosts)
    assert {identity.pair for identity in proposal.identities} == set(PUBLIC.pairs)


@pytest.mark.parametrize(
    ("names", "pairs"),
    [
        ("s001amq-p01 s001amq-p02 s002amq-p01 s002amq-p02", ["s001amq-p01-02", "s002amq-p01-02"]),
        ("p-mq-eu1-n1 p-mq-eu1-n2 p-mq-us1-n1 p-mq-us1-n2", ["p-mq-eu1-n1-2", "p-mq-us1-n1-2"]),
        (
            "mq-orders-prd-1 mq-orders-prd-2 mq-billing-prd-1 mq-billing-prd-2",
            ["mq-billing-prd-1-2", "mq-orders-prd-1-2"],
        ),
        ("nl-ams-amq-001 nl-ams-amq-002 nl-rtm-amq-001 nl-rtm-amq-002", ["nl-ams-amq-001-002", "nl-rtm-amq-001-002"]),
    ],
)
def test_naming_proposal_prefers_numbers_over_places_and_purposes_as_nodes(names: str, pairs: list[str]) -> None:
    proposal = propose_naming(names.split())
    assert proposal is not None
    assert sorted({identity.pair for identity in proposal.identities}) == pairs
    assert proposal.rival is not None


@pytest.mark.parametrize(
    ("names", "pair"),
    [
        ("prod_mq_01_a prod_mq_01_b", "prod_mq_01"),
        ("fra1-amq-east01 fra1-amq-west01", "fra1-mq01"),
        ("payments-activemq-blue payments-activemq-green", "payments-activemq"),
        ("DEFRAMQ01A DEFRAMQ01B", "DEFRAMQ01"),
        ("mqprd01p.corp.local mqprd01s.corp.local", "mqprd01"),
        ("broker-0.mq.svc.cluster.local broker-1.mq.svc.cluster.local", "broker-0-1"),
        ("amqbrk10 amqbrk11", "amqbrk10-11"),
        ("store0042-mq-a store0042-mq-b", "store0042-mq"),
        ("amq-live amq-dr", "amq"),
        ("amqmaster01 amqslave01", "amq-mq01"),
        ("master-orders slave-orders", "orders"),
        ("primary-mq-07 standby-mq-07", "mq-07"),
        ("web01 web02 db01 db02 amq01a amq01b", "amq01"),
    ],
)
def test_naming_proposal_of_obvious_pair_has_no_rival(names: str, pair: str) -> None:
    proposal = propose_naming(names.split())
    assert proposal is not None
    assert {identity.pair for identity in proposal.identities} == {pair}
    assert proposal.rival is None


@pytest.mark.parametrize("names", ["web1 db cache.example.com", "mq01 mq01-dr mq02 mq02-dr", "mq1 mq1_s mq2 mq2_s"])
def test_no_naming_is_proposed_for_host_names_without_pairs(names: str) -> None:
    assert propose_naming(names.split()) is None


@pytest.mark.parametrize(
    ("names", "group"),
    [("broker1 broker2 broker3", "broker"), ("activemq-0 activemq-1", "activemq"), ("p-amq-01.a.com p-amq-02", "p")],
)
def test_single_broker_naming_is_proposed_for_brokers_without_pair(names: str, group: str) -> None:
    hosts = names.split()
    proposal = propose_single_broker_naming(hosts, propose_naming(hosts))

    assert proposal is not None
    assert [identity.pair for identity in proposal.identities] == [host.partition(".")[0] for host in hosts]
    assert {identity.group for identity in proposal.identities} == {group}
    assert proposal.variables()["activemq_node"] == "a"


def test_single_broker_naming_is_not_proposed_for_obvious_pairs() -> None:
    hosts = ["amq-1-primary", "amq-1-secondary"]
    assert propose_single_broker_naming(hosts, propose_naming(hosts)) is None


def test_naming_proposal_sets_only_variables_that_differ_from_defaults() -> None:
    proposal, default = propose_naming(PARITY.hosts), propose_naming(["orders-mq01-a", "orders-mq01-b"])

    assert proposal
    assert default
    assert proposal.variables().keys() == {"activemq_naming_pattern", "activemq_naming_parity"}
    assert default.variables() == {}
