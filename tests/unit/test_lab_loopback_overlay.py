from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from activemq_fleet.lab.loopback_overlay import (
    LAB_USER,
    assign_loopback_addresses,
    fleet_for_clients,
    jvm_hosts_file_content,
    list_replaced_host_variables,
    loopback_variables,
    variables_with_overlay,
)
from activemq_fleet.render import render_broker
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from activemq_fleet.topology import build_fleet
from tests.unit.lab_fleets import BLOCK, PAIR, fleet_of, surroundings, variables

A, B = PAIR
TWO_PAIRS = (*PAIR, "orders-mq02-a.example.com", "orders-mq02-b.example.com")


def overlaid(
    hosts: dict[str, dict[str, Any]], *, whole: bool = False, **groups: list[str]
) -> dict[str, dict[str, Any]]:
    fleet = fleet_of(hosts, **groups)
    return loopback_variables(fleet, hosts, *surroundings(fleet, whole=whole))


def test_pair_and_node_show_in_the_address() -> None:
    chosen = assign_loopback_addresses(fleet_of(variables(*TWO_PAIRS)), BLOCK)
    assert list(chosen.values()) == ["127.77.1.1", "127.77.1.2", "127.77.2.1", "127.77.2.2"]


def test_brokers_of_one_machine_share_its_address() -> None:
    hosts = variables(address="mq.example.com")
    hosts[B]["activemq_port_offset"] = 10
    assert set(assign_loopback_addresses(fleet_of(hosts), BLOCK).values()) == {"127.77.1.1"}


def test_a_host_keeps_its_address_when_others_come() -> None:
    known = assign_loopback_addresses(fleet_of(variables(*PAIR)), BLOCK)
    more = assign_loopback_addresses(fleet_of(variables("archive-mq01-a.example.com", *PAIR, ha="none")), BLOCK, known)
    assert {host: more[host] for host in PAIR} == known
    assert len(set(more.values())) == 3


def test_addresses_of_another_block_are_not_kept() -> None:
    chosen = assign_loopback_addresses(fleet_of(variables(*PAIR)), BLOCK, {A: "127.16.9.9"})
    assert chosen[A] == "127.77.1.1"


def test_a_thousand_brokers_have_an_address_each() -> None:
    names = [f"g-mq{number:04}-{node}" for number in range(500) for node in "ab"]
    chosen = assign_loopback_addresses(fleet_of(variables(*names, topology="none")), BLOCK)
    assert len(set(chosen.values())) == 1000
    assert all(ipaddress.ip_address(text) in ipaddress.ip_network("127.77.0.0/16") for text in chosen.values())


def test_a_name_stays_a_name() -> None:
    assert "activemq_address" not in overlaid(variables(address="mq.example.com", connectors=[]))[A]


@pytest.mark.parametrize("literal", ["10.1.2.3", "localhost", "::1"])
def test_a_literal_address_becomes_the_labs(literal: str) -> None:
    hosts = variables(address=literal)
    hosts[B]["activemq_port_offset"] = 10
    assert overlaid(hosts)[A]["activemq_address"] == "127.77.1.1"


def test_brokers_bind_nothing_but_their_own_address() -> None:
    overlay = overlaid(variables())
    assert (overlay[A]["activemq_bind"], overlay[A]["activemq_console_bind"]) == ("127.77.1.1", "127.77.1.1")
    assert overlay[B]["activemq_bind"] == "127.77.1.2"


def test_both_nodes_of_a_pair_get_one_store_of_the_labs() -> None:
    overlay = overlaid(variables(store_directory="/mnt/share"))
    assert overlay[A]["activemq_store_directory"] == overlay[B]["activemq_store_directory"] == "/lab/stores/orders-mq01"


def test_pure_nodes_keep_stores_of_their_own() -> None:
    overlay = overlaid(variables(release="5.5.1", ha="pure", store_directory="/mnt/x"))
    assert overlay[A]["activemq_store_directory"] != overlay[B]["activemq_store_directory"]


def test_the_console_goes_where_there_are_only_jars() -> None:
    assert overlaid(variables())[A]["activemq_console"] is False
    assert "activemq_console" not in overlaid(variables(), whole=True)[A]


def test_multicast_stays_on_the_loopback_interface_on_a_port_of_the_labs_own() -> None:
    overlay = overlaid(variables(release="5.5.1", ha="pure"))[A]
    assert overlay["activemq_multicast"] == "224.1.2.3:20077"
    assert overlay["activemq_multicast_interface"] == "lo"


def test_a_fleet_without_multicast_is_left_without() -> None:
    assert not [name for name in overlaid(variables())[A] if "multicast" in name]


def test_java_options_that_fit_one_machine_only_are_left_out() -> None:
    options = ["-Dmine=1", "-javaagent:/opt/x.jar", "-Xlog:gc", "-Dcom.sun.management.jmxremote.port=1099"]
    overlay = overlaid(variables(java_options=options))[A]["activemq_java_options"]
    assert "-Dmine=1" in overlay
    assert not set(options[1:]) & set(overlay)


def test_a_process_bears_the_mark_of_its_lab() -> None:
    assert "-Dactivemq.fleet.lab=/lab" in overlaid(variables())[A]["activemq_java_options"]


def test_ids_of_accounts_are_not_asked_for() -> None:
    assert overlaid(variables(uid=1234))[A]["activemq_uid"] is None


def test_what_is_encrypted_gets_one_secret_for_all() -> None:
    hosts = variables()
    for host, ciphertext in ((A, "one"), (B, "one")):
        hosts[host]["activemq_network_password"] = UndecryptedVaultValue(ciphertext)
    overlay = overlaid(hosts)
    assert overlay[A]["activemq_network_password"] == overlay[B]["activemq_network_password"]
    assert len(overlay[A]["activemq_network_password"]) == 32


def test_a_secret_inside_a_list_is_replaced_in_its_place() -> None:
    users = [
        {"name": "app", "password": UndecryptedVaultValue("x"), "groups": ["g"]},
        {"name": "ops", "password": "open"},
    ]
    first, second = overlaid(variables(users=users))[A]["activemq_users"]
    assert (first["name"], first["groups"], second) == ("app", ["g"], users[1])
    assert isinstance(first["password"], str)


def test_a_secret_that_is_open_stays() -> None:
    assert "activemq_network_password" not in overlaid(variables())[A]


def test_where_acls_keep_others_out_the_lab_has_a_user_of_its_own() -> None:
    acl = [{"destination": "orders.>", "kind": "queue", "read": ["g"]}]
    overlay = overlaid(variables(acl=acl, users=[{"name": "app", "password": "p4ssw0rt", "groups": ["g"]}]))[A]
    assert [user["name"] for user in overlay["activemq_users"]] == ["app", LAB_USER]
    assert overlay["activemq_acl"][0] == acl[0]
    assert {entry["kind"] for entry in overlay["activemq_acl"][1:]} == {"queue", "topic"}


def test_without_acls_no_user_is_added() -> None:
    assert "activemq_users" not in overlaid(variables())[A]


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("jdbc:postgresql://db/x?socketTimeout=30&sslmode=verify-full&ssl=true", "?socketTimeout=30"),
        ("jdbc:oracle:thin:@db:1521/x", ""),
    ],
)
def test_a_database_of_the_labs_takes_the_place_of_the_fleets(url: str, options: str) -> None:
    jdbc = {"url": url, "driver": "org.postgresql.Driver", "username": "u", "password": "p4ssw0rt"}
    hosts = variables(ha="shared-jdbc", jdbc=jdbc)
    overlay = overlaid(hosts)

    assert overlay[A]["activemq_jdbc"] == overlay[B]["activemq_jdbc"]
    assert overlay[A]["activemq_jdbc"]["url"] == f"jdbc:postgresql://127.77.0.1:15432/orders-mq01{options}"
    assert "p4ssw0rt" not in str(overlay)
    [shown, _] = [
        substitution
        for substitution in list_replaced_host_variables(hosts, overlay)
        if substitution.variable == "activemq_jdbc"
    ]
    assert "password: ********" in shown.after


def test_agents_get_directories_of_the_labs() -> None:
    agent = "gate01.example.com"
    hosts = variables() | {agent: {"activemq_agent_username": "agent", "activemq_agent_password": "s3cret-agent"}}
    overlay = overlaid(hosts, activemq_agents=[agent])[agent]
    assert {name for name in overlay if str(overlay[name]).startswith("/lab/hosts/gate01.example.com/")} == {
        "activemq_agent_home",
        "activemq_agent_state",
        "activemq_agent_config",
    }


@pytest.mark.parametrize("release", ["5.5.1", "5.18.3", "6.3.1"])
def test_the_overlay_makes_a_fleet_that_renders(release: str) -> None:
    hosts = variables(*TWO_PAIRS, release=release)
    fleet = build_fleet(variables_with_overlay(hosts, overlaid(hosts)), {})
    assert not fleet.blocking_findings
    assert all(b"127.77." in render_broker(broker)["conf/activemq.xml"] for broker in fleet.brokers)


def test_the_overlay_changes_nothing_but_surroundings() -> None:
    hosts = variables(*TWO_PAIRS)
    before, after = fleet_of(hosts), fleet_of(variables_with_overlay(hosts, overlaid(hosts)))
    for was, now in zip(before.brokers, after.brokers, strict=True):
        assert (was.broker_name, was.address, was.connectors, was.links, was.accounts) == (
            now.broker_name,
            now.address,
            now.connectors,
            now.links,
            now.accounts,
        )


def test_the_name_that_peers_dial_comes_first_in_the_names_file() -> None:
    hosts = variables(address="mq.example.com")
    hosts[B]["activemq_port_offset"] = 10
    fleet = fleet_of(hosts)
    line = next(
        line
        for line in jvm_hosts_file_content(fleet, assign_loopback_addresses(fleet, BLOCK)).splitlines()
        if "127.77" in line
    )
    assert line.split() == ["127.77.1.1", "mq.example.com", A, "orders-mq01-a", B, "orders-mq01-b"]


def test_the_names_file_resolves_localhost_too() -> None:
    fleet = fleet_of(variables())
    assert "127.0.0.1 localhost" in jvm_hosts_file_content(fleet, assign_loopback_addresses(fleet, BLOCK))


def test_clients_are_given_addresses() -> None:
    agent = "gate01.example.com"
    hosts = variables() | {agent: {"activemq_agent_username": "agent", "activemq_agent_password": "s3cret-agent"}}
    fleet = fleet_of(hosts, activemq_agents=[agent])
    seen = fleet_for_clients(fleet, assign_loopback_addresses(fleet, BLOCK))
    assert seen.agents[0].urls == (("127.77.1.1", 1883), ("127.77.1.2", 1883))
    assert [broker.address for broker in seen.brokers] == ["127.77.1.1", "127.77.1.2"]


def test_the_difference_shows_no_secret() -> None:
    hosts = variables(
        acl=[{"destination": "x", "kind": "queue"}],
        users=[{"name": "app", "password": "p4ssw0rt-app", "groups": ["g"]}],
    )
    hosts[A]["activemq_network_password"] = hosts[B]["activemq_network_password"] = UndecryptedVaultValue("x")
    shown = str(list_replaced_host_variables(hosts, overlaid(hosts)))
    assert "p4ssw0rt-app" not in shown
    assert "activemq_network_password" in shown


def test_the_difference_holds_only_what_differs() -> None:
    hosts = variables(bind="127.77.1.1")
    changed = {(item.host, item.variable) for item in list_replaced_host_variables(hosts, overlaid(hosts))}
    assert (A, "activemq_bind") not in changed
    assert (B, "activemq_bind") in changed
