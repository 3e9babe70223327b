from __future__ import annotations

import ipaddress
from typing import Any

import pytest

from activemq_fleet.lab.loopback_overlay import (
    LAB_USER,
    assign_loopback_addresses,
    fleet_for_clients,
    jvm_hosts_file_content,
    loopback_variables,
    replaced_variables_with_both_values,
    variables_with_overlay,
)
from activemq_fleet.render import render_broker
from activemq_fleet.settings.encrypted import UndecryptedVaultValue
from activemq_fleet.topology import build_fleet
from tests.unit.lab_fleets import BLOCK, PAIR, fleet_of, lab_paths_and_state, variables

A, B = PAIR
TWO_PAIRS = (*PAIR, "orders-mq02-a.example.com", "orders-mq02-b.example.com")


def overlay_of(
    hosts: dict[str, dict[str, Any]], *, is_full_distribution: bool = False, **groups: list[str]
) -> dict[str, dict[str, Any]]:
    fleet = fleet_of(hosts, **groups)
    return loopback_variables(fleet, hosts, *lab_paths_and_state(fleet, is_full_distribution=is_full_distribution))


def test_loopback_address_contains_numbers_of_pair_and_node() -> None:
    addresses = assign_loopback_addresses(fleet_of(variables(*TWO_PAIRS)), BLOCK)
    assert list(addresses.values()) == ["127.77.1.1", "127.77.1.2", "127.77.2.1", "127.77.2.2"]


def test_brokers_of_same_machine_share_loopback_address() -> None:
    hosts = variables(address="mq.example.com")
    hosts[B]["activemq_port_offset"] = 10
    assert set(assign_loopback_addresses(fleet_of(hosts), BLOCK).values()) == {"127.77.1.1"}


def test_host_keeps_its_loopback_address_when_hosts_are_added() -> None:
    addresses_before = assign_loopback_addresses(fleet_of(variables(*PAIR)), BLOCK)
    larger_fleet = fleet_of(variables("archive-mq01-a.example.com", *PAIR, ha="none"))
    addresses_after = assign_loopback_addresses(larger_fleet, BLOCK, addresses_before)
    assert {host: addresses_after[host] for host in PAIR} == addresses_before
    assert len(set(addresses_after.values())) == 3


def test_brokers_moved_to_separate_machines_get_separate_loopback_addresses() -> None:
    addresses = assign_loopback_addresses(fleet_of(variables(*PAIR)), BLOCK, dict.fromkeys(PAIR, "127.77.1.1"))
    assert addresses == {A: "127.77.1.1", B: "127.77.1.2"}


def test_brokers_moved_to_one_machine_get_one_loopback_address() -> None:
    hosts = variables(address="mq.example.com")
    hosts[B]["activemq_port_offset"] = 10
    known = {A: "127.77.1.1", B: "127.77.1.2"}
    assert assign_loopback_addresses(fleet_of(hosts), BLOCK, known) == dict.fromkeys(PAIR, "127.77.1.1")


def test_loopback_addresses_of_other_block_are_not_kept() -> None:
    addresses = assign_loopback_addresses(fleet_of(variables(*PAIR)), BLOCK, {A: "127.16.9.9"})
    assert addresses[A] == "127.77.1.1"


def test_thousand_brokers_have_different_loopback_addresses() -> None:
    names = [f"g-mq{number:04}-{node}" for number in range(500) for node in "ab"]
    addresses = assign_loopback_addresses(fleet_of(variables(*names, topology="none")), BLOCK)
    assert len(set(addresses.values())) == 1000
    assert all(ipaddress.ip_address(text) in ipaddress.ip_network("127.77.0.0/16") for text in addresses.values())


def test_lab_does_not_replace_address_that_is_host_name() -> None:
    assert "activemq_address" not in overlay_of(variables(address="mq.example.com", connectors=[]))[A]


@pytest.mark.parametrize("literal", ["10.1.2.3", "localhost", "::1"])
def test_lab_replaces_literal_address_with_loopback_address(literal: str) -> None:
    hosts = variables(address=literal)
    hosts[B]["activemq_port_offset"] = 10
    assert overlay_of(hosts)[A]["activemq_address"] == "127.77.1.1"


def test_lab_brokers_bind_their_loopback_address_only() -> None:
    overlay = overlay_of(variables())
    assert (overlay[A]["activemq_bind"], overlay[A]["activemq_console_bind"]) == ("127.77.1.1", "127.77.1.1")
    assert overlay[B]["activemq_bind"] == "127.77.1.2"


def test_both_nodes_of_pair_get_same_store_of_lab() -> None:
    overlay = overlay_of(variables(store_directory="/mnt/share"))
    assert overlay[A]["activemq_store_directory"] == overlay[B]["activemq_store_directory"] == "/lab/stores/orders-mq01"


def test_pure_nodes_of_lab_have_separate_stores() -> None:
    overlay = overlay_of(variables(release="5.5.1", ha="pure", store_directory="/mnt/x"))
    assert overlay[A]["activemq_store_directory"] != overlay[B]["activemq_store_directory"]


def test_lab_disables_console_if_only_jars_are_installed() -> None:
    assert overlay_of(variables())[A]["activemq_console"] is False
    assert "activemq_console" not in overlay_of(variables(), is_full_distribution=True)[A]


def test_multicast_of_lab_uses_loopback_interface_and_port_of_lab() -> None:
    overlay = overlay_of(variables(release="5.5.1", ha="pure"))[A]
    assert overlay["activemq_multicast"] == "224.1.2.3:20077"
    assert overlay["activemq_multicast_interface"] == "lo"


def test_lab_of_fleet_without_multicast_gets_no_multicast() -> None:
    assert not [name for name in overlay_of(variables())[A] if "multicast" in name]


def test_lab_omits_java_options_for_other_machines() -> None:
    options = ["-Dmine=1", "-javaagent:/opt/x.jar", "-Xlog:gc", "-Dcom.sun.management.jmxremote.port=1099"]
    overlay = overlay_of(variables(java_options=options))[A]["activemq_java_options"]
    assert "-Dmine=1" in overlay
    assert not set(options[1:]) & set(overlay)


def test_java_options_contain_mark_of_lab() -> None:
    assert "-Dactivemq.fleet.lab=/lab" in overlay_of(variables())[A]["activemq_java_options"]


def test_lab_does_not_set_account_ids() -> None:
    assert overlay_of(variables(uid=1234))[A]["activemq_uid"] is None


def test_lab_replaces_encrypted_secret_with_same_secret_on_all_hosts() -> None:
    hosts = variables()
    for host, ciphertext in ((A, "one"), (B, "one")):
        hosts[host]["activemq_network_password"] = UndecryptedVaultValue(ciphertext)
    overlay = overlay_of(hosts)
    assert overlay[A]["activemq_network_password"] == overlay[B]["activemq_network_password"]
    assert len(overlay[A]["activemq_network_password"]) == 32


def test_lab_replaces_encrypted_secret_of_list_in_its_position() -> None:
    users = [
        {"name": "app", "password": UndecryptedVaultValue("x"), "groups": ["g"]},
        {"name": "ops", "password": "open"},
    ]
    first_user, second_user = overlay_of(variables(users=users))[A]["activemq_users"]
    assert (first_user["name"], first_user["groups"], second_user) == ("app", ["g"], users[1])
    assert isinstance(first_user["password"], str)


def test_lab_replaces_all_encrypted_passwords_of_user_with_one_secret() -> None:
    def encrypted(ciphertext: str) -> UndecryptedVaultValue:
        return UndecryptedVaultValue(ciphertext)

    users = [{"name": name, "password": encrypted(name), "groups": ["g"]} for name in ("net", "app")]
    hosts = variables(users=users, network_password=encrypted("other"))
    hosts |= variables("app1", agent_pair="orders-mq01", agent_username="app", agent_password=encrypted("agent"))
    overlay = overlay_of(hosts, activemq_agents=["app1"])
    secrets = {user["name"]: user["password"] for user in overlay[A]["activemq_users"]}
    assert len(set(secrets.values())) == 2
    assert overlay[A]["activemq_network_password"] == secrets["net"]
    assert overlay["app1"]["activemq_agent_password"] == secrets["app"]
    findings = fleet_of(variables_with_overlay(hosts, overlay), activemq_agents=["app1"]).blocking_findings
    assert not [finding for finding in findings if finding.rule == "T009"]


@pytest.mark.parametrize("encrypted", ["activemq_network_password", "activemq_users", "activemq_agent_password"])
def test_lab_uses_readable_password_of_user_for_encrypted_one(encrypted: str) -> None:
    hosts = variables(users=[{"name": "net", "password": "s3cret-net", "groups": ["g"]}])
    hosts |= variables("app1", agent_pair="orders-mq01", agent_username="net", agent_password="s3cret-net")
    ciphertext = UndecryptedVaultValue("x")
    for host in hosts:
        if encrypted in hosts[host]:
            is_list = encrypted == "activemq_users"
            hosts[host][encrypted] = [{"name": "net", "password": ciphertext}] if is_list else ciphertext

    overlaid = variables_with_overlay(hosts, overlay_of(hosts, activemq_agents=["app1"]))

    passwords = [overlaid[A]["activemq_network_password"], overlaid[A]["activemq_users"][0]["password"]]
    assert [*passwords, overlaid["app1"]["activemq_agent_password"]] == ["s3cret-net"] * 3


def test_lab_does_not_replace_secret_that_is_not_encrypted() -> None:
    assert "activemq_network_password" not in overlay_of(variables())[A]


def test_lab_has_separate_user_if_fleet_has_acls() -> None:
    acl = [{"destination": "orders.>", "kind": "queue", "read": ["g"]}]
    overlay = overlay_of(variables(acl=acl, users=[{"name": "app", "password": "p4ssw0rt", "groups": ["g"]}]))[A]
    assert [user["name"] for user in overlay["activemq_users"]] == ["app", LAB_USER]
    assert overlay["activemq_acl"][0] == acl[0]
    assert {entry["kind"] for entry in overlay["activemq_acl"][1:]} == {"queue", "topic"}


def test_lab_adds_no_user_to_fleet_without_acls() -> None:
    assert "activemq_users" not in overlay_of(variables())[A]


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("jdbc:postgresql://db/x?socketTimeout=30&sslmode=verify-full&ssl=true", "?socketTimeout=30"),
        ("jdbc:oracle:thin:@db:1521/x", ""),
    ],
)
def test_database_is_replaced_with_database_of_lab(url: str, options: str) -> None:
    jdbc = {"url": url, "driver": "org.postgresql.Driver", "username": "u", "password": "p4ssw0rt"}
    hosts = variables(ha="shared-jdbc", jdbc=jdbc)
    overlay = overlay_of(hosts)

    assert overlay[A]["activemq_jdbc"] == overlay[B]["activemq_jdbc"]
    assert overlay[A]["activemq_jdbc"]["url"] == f"jdbc:postgresql://127.77.0.1:15432/orders-mq01{options}"
    assert "p4ssw0rt" not in str(overlay)
    [replacement, _] = [
        replacement
        for replacement in replaced_variables_with_both_values(hosts, overlay)
        if replacement.variable == "activemq_jdbc"
    ]
    assert "password: ********" in replacement.after


def test_agents_get_directories_of_lab() -> None:
    agent = "gate01.example.com"
    hosts = variables() | {agent: {"activemq_agent_username": "agent", "activemq_agent_password": "s3cret-agent"}}
    overlay = overlay_of(hosts, activemq_agents=[agent])[agent]
    assert {name for name in overlay if str(overlay[name]).startswith("/lab/hosts/gate01.example.com/")} == {
        "activemq_agent_home",
        "activemq_agent_state",
        "activemq_agent_config",
    }


@pytest.mark.parametrize("release", ["5.5.1", "5.18.3", "6.3.1"])
def test_fleet_with_lab_overlay_renders_loopback_addresses(release: str) -> None:
    hosts = variables(*TWO_PAIRS, release=release)
    fleet = build_fleet(variables_with_overlay(hosts, overlay_of(hosts)), {})
    assert not fleet.blocking_findings
    assert all(b"127.77." in render_broker(broker)["conf/activemq.xml"] for broker in fleet.brokers)


def test_lab_overlay_keeps_names_addresses_connectors_links_and_accounts() -> None:
    hosts = variables(*TWO_PAIRS)
    fleet_before, fleet_after = fleet_of(hosts), fleet_of(variables_with_overlay(hosts, overlay_of(hosts)))
    for original, overlaid in zip(fleet_before.brokers, fleet_after.brokers, strict=True):
        assert overlaid.broker_name == original.broker_name
        assert overlaid.address == original.address
        assert overlaid.connectors == original.connectors
        assert overlaid.links == original.links
        assert overlaid.accounts == original.accounts


def test_name_that_peers_connect_to_is_first_name_in_hosts_file() -> None:
    hosts = variables(address="mq.example.com")
    hosts[B]["activemq_port_offset"] = 10
    fleet = fleet_of(hosts)
    line = next(
        line
        for line in jvm_hosts_file_content(fleet, assign_loopback_addresses(fleet, BLOCK)).splitlines()
        if "127.77" in line
    )
    assert line.split() == ["127.77.1.1", "mq.example.com", A, "orders-mq01-a", B, "orders-mq01-b"]


def test_hosts_file_of_lab_resolves_localhost() -> None:
    fleet = fleet_of(variables())
    assert "127.0.0.1 localhost" in jvm_hosts_file_content(fleet, assign_loopback_addresses(fleet, BLOCK))


def test_clients_of_lab_get_loopback_addresses() -> None:
    agent = "gate01.example.com"
    hosts = variables() | {agent: {"activemq_agent_username": "agent", "activemq_agent_password": "s3cret-agent"}}
    fleet = fleet_of(hosts, activemq_agents=[agent])
    client_fleet = fleet_for_clients(fleet, assign_loopback_addresses(fleet, BLOCK))
    assert client_fleet.agents[0].urls == (("127.77.1.1", 1883), ("127.77.1.2", 1883))
    assert [broker.address for broker in client_fleet.brokers] == ["127.77.1.1", "127.77.1.2"]


def test_list_of_replaced_lab_variables_shows_no_secret() -> None:
    hosts = variables(
        acl=[{"destination": "x", "kind": "queue"}],
        users=[{"name": "app", "password": "p4ssw0rt-app", "groups": ["g"]}],
    )
    hosts[A]["activemq_network_password"] = hosts[B]["activemq_network_password"] = UndecryptedVaultValue("x")
    replacements = str(replaced_variables_with_both_values(hosts, overlay_of(hosts)))
    assert "p4ssw0rt-app" not in replacements
    assert "activemq_network_password" in replacements


def test_list_of_replaced_lab_variables_masks_secrets_of_java_options() -> None:
    options = ["-Djavax.net.ssl.keyStorePassword=Kx8-w4vq", "-Dbilling.token=Zt5-m2rs", "-Dregion=eu"]
    hosts = variables(java_options=options)

    (before, *_) = [
        replacement.before
        for replacement in replaced_variables_with_both_values(hosts, overlay_of(hosts))
        if replacement.variable == "activemq_java_options"
    ]

    assert before is not None
    assert "Kx8-w4vq" not in before
    assert "Zt5-m2rs" not in before
    assert "-Djavax.net.ssl.keyStorePassword=@secret@" in before
    assert "-Dregion=eu" in before


def test_list_of_replaced_lab_variables_omits_unchanged_variable() -> None:
    hosts = variables(bind="127.77.1.1")
    changed = {
        (replacement.host, replacement.variable)
        for replacement in replaced_variables_with_both_values(hosts, overlay_of(hosts))
    }
    assert (A, "activemq_bind") not in changed
    assert (B, "activemq_bind") in changed
