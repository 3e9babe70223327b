"""Rendered files: an adopted inventory renders them again, byte for byte."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st
from lxml import etree

from activemq_fleet.adopt import AdoptedInventory
from activemq_fleet.inventory import load_fleet
from activemq_fleet.render import render_fleet
from activemq_fleet.topology import Fleet
from tests.situations import some_situations
from tests.unit.adopt_files import (
    activemq_xml_by_host,
    adopt_rendered_fleet,
    fleet_of_inventory,
    render_adopted_inventory,
    render_without_ansible,
    write_and_adopt,
    xml_facts,
)
from tests.unit.fleets import NETWORK, fleet, hosts

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
# An example with a fleet takes longer than most examples of other tests.
EXAMPLE_COUNT = max(10, settings().max_examples // 3)
TREES = ("hosts/", "clients/")


def load_example(name: str, tmp_path: Path) -> Fleet:
    """Return the fleet of a copy of an example."""
    shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns(".secrets"))
    return load_fleet([str(tmp_path / name)])


def adopt_activemq_xml(fleet: Fleet, tmp_path: Path) -> AdoptedInventory:
    """Adopt only the activemq.xml of each host of a fleet."""
    return write_and_adopt(tmp_path / "files", activemq_xml_by_host(fleet))


def variables(adoption: AdoptedInventory, path: str = "group_vars/all.yml") -> dict[str, Any]:
    """Return the variables of a file of the adopted inventory, without their prefix."""
    variables_of_file: dict[str, Any] = yaml.safe_load(adoption.files[path])
    return {name.removeprefix("activemq_"): value for name, value in variables_of_file.items()}


def test_several_stores_of_pair_become_variable_kahadb(tmp_path: Path) -> None:
    kahadb = {
        "by_destination": [
            {"destination": "orders.>", "kind": "queue", "journal_max_file_length": "64 mb", "usage": "1 gb"},
            {"cleanup_interval": 100},
        ],
        "transaction_journal": {"journal_max_file_length": "1 mb"},
    }
    adoption = adopt_activemq_xml(fleet("orders-mq01", ha="shared-file", kahadb=kahadb), tmp_path)
    assert adoption.differences == ()
    assert variables(adoption)["kahadb"] == kahadb
    assert "xml_fragments" not in variables(adoption)


@pytest.mark.parametrize("name", ["ha-network-5.5", "bridged-pairs", "single-machine"])
def test_adopted_activemq_xml_of_example_renders_same_files(name: str, tmp_path: Path) -> None:
    original = load_example(name, tmp_path)
    expected = {path: content for path, content in render_fleet(original).items() if path.startswith(TREES)}

    adoption = adopt_activemq_xml(original, tmp_path)

    rendered_files = render_adopted_inventory(tmp_path, adoption)
    assert {path: content for path, content in rendered_files.items() if path.startswith(TREES)} == expected
    assert adoption.differences == ()


@pytest.mark.parametrize("name", ["ha-network-5.5", "bridged-pairs", "single-machine", "shared-store"])
def test_all_adopted_files_of_example_render_same_files(name: str, tmp_path: Path) -> None:
    original = load_example(name, tmp_path)
    expected = {path: content for path, content in render_fleet(original).items() if path.startswith(TREES)}

    adoption = adopt_rendered_fleet(tmp_path / "rendered", original)

    rendered_files = render_adopted_inventory(tmp_path, adoption)
    assert {path: content for path, content in rendered_files.items() if path.startswith(TREES)} == expected
    assert adoption.differences == ()


def test_every_setting_of_agent_is_adopted(tmp_path: Path) -> None:
    inventory = hosts("o-mq1", "o-mq2")
    settings = {
        "username": "shop", "password": "a secret", "topics": ["a/#", "b"], "publisher_timeout": 60, "client_id": "me",
        "pair": "o-mq1", "state": "/data/agent", "config": "/opt/etc", "user": "shop", "home": "/opt/shop",
    }  # fmt: skip
    inventory["shop"] = {f"activemq_agent_{name}": value for name, value in settings.items()}
    inventory["till"] = inventory["shop"] | {"activemq_agent_pair": "o-mq2", "activemq_agent_client_id": "till"}
    original = fleet_of_inventory(inventory, {"activemq_agents": ["shop", "till"]})

    adoption = adopt_rendered_fleet(tmp_path / "rendered", original)

    expected = {path: content for path, content in render_fleet(original).items() if path.startswith(TREES)}
    rendered_files = render_adopted_inventory(tmp_path, adoption)
    assert {path: content for path, content in rendered_files.items() if path.startswith(TREES)} == expected


def test_accounts_of_agents_have_note_and_render_same_documents(tmp_path: Path) -> None:
    original = load_example("shared-store", tmp_path)

    adoption = adopt_activemq_xml(original, tmp_path)

    assert activemq_xml_by_host(adoption.fleet) == activemq_xml_by_host(original)
    assert any("ledger01, shop01: adopt put these accounts of agents" in note for note in adoption.notes)


@some_situations(6)
@pytest.mark.parametrize("release", ["5.5.1", "5.8.0", "5.18.3", "6.3.1"])
@pytest.mark.parametrize("topology", ["mesh", "hub", "ring", "chain", "none"])
def test_adopt_detects_topology_of_groups(topology: str, release: str, tmp_path: Path) -> None:
    pairs = ("orders-mq01", "orders-mq02", "orders-mq03", "orders-mq04", "till-mq01", "till-mq02", "till-mq03")
    original = fleet(*pairs, topology=topology, release=release)

    adoption = adopt_activemq_xml(original, tmp_path)

    assert activemq_xml_by_host(adoption.fleet) == activemq_xml_by_host(original)
    assert "links" not in variables(adoption)
    assert variables(adoption).get("topology", "mesh") == topology
    assert "xml_fragments" not in str(adoption.files)


def test_groups_with_different_topologies_have_separate_variables(tmp_path: Path) -> None:
    inventory = hosts("a-mq1", "a-mq2", "a-mq3", topology="hub") | hosts("b-mq1", "b-mq2", "b-mq3", topology="ring")
    original = fleet_of_inventory(inventory)

    adoption = adopt_activemq_xml(original, tmp_path)

    assert activemq_xml_by_host(adoption.fleet) == activemq_xml_by_host(original)
    assert variables(adoption, "group_vars/activemq_group_a.yml") == {"topology": "hub"}
    assert variables(adoption, "group_vars/activemq_group_b.yml") == {"topology": "ring"}


@pytest.mark.parametrize("release", ["5.5.1", "5.6.0", "5.18.3"])
def test_brokers_without_openwire_connector_have_no_links(release: str, tmp_path: Path) -> None:
    stomp = [{"name": "stomp-1", "scheme": "stomp", "port": 7005}]
    original = fleet("o-mq1", "o-mq2", release=release, topology="none", ha="none", connectors=stomp)

    adoption = adopt_activemq_xml(original, tmp_path)

    assert activemq_xml_by_host(adoption.fleet) == activemq_xml_by_host(original)
    assert adoption.differences == ()


def test_group_without_openwire_has_no_topology_if_only_one_pair_has_replay(tmp_path: Path) -> None:
    links = [{"from": "a-mq2", "to": "b-mq1"}]
    stomp = [{"name": "stomp-1", "scheme": "stomp", "port": 7005}]
    without_openwire = hosts("a-mq1", "a-mq2", "a-mq3", topology="none", connectors=stomp, links=links)
    original = fleet_of_inventory(without_openwire | hosts("b-mq1", links=links))

    adoption = write_and_adopt(tmp_path, activemq_xml_by_host(original))

    assert adoption.differences == ()
    assert not adoption.fleet.blocking_findings


LINKS = [
    [{"from": "shop", "to": "hub", "duplex": True}],
    [{"from": "shop-mq1", "to": "hub-mq1"}, {"from": "hub", "to": "shop-mq2", "ttl": 7}],
    [{"from": "shop-mq1", "to": "hub", "name": "uplink", "include": ["a.>", "topic://b"], "exclude": ["c"]}],
    [
        {"from": "shop", "to": "hub-mq1", "ttl": 2},
        {"from": "hub-mq1", "to": "hub-mq2", "duplex": True, "name": "second"},
    ],
]


@some_situations(5)
@pytest.mark.parametrize("links", LINKS)
@pytest.mark.parametrize("release", ["5.5.1", "5.18.3"])
@pytest.mark.parametrize("topology", ["mesh", "none"])
def test_links_between_groups_and_pairs_are_adopted(
    links: list[Any], release: str, topology: str, tmp_path: Path
) -> None:
    pairs = ("shop-mq1", "shop-mq2", "hub-mq1", "hub-mq2")
    original = fleet(*pairs, links=links, release=release, topology=topology)

    adoption = adopt_activemq_xml(original, tmp_path)

    assert activemq_xml_by_host(adoption.fleet) == activemq_xml_by_host(original)
    assert adoption.differences == ()
    assert "xml_fragments" not in str(adoption.files)


SETTINGS: list[dict[str, Any]] = [
    {"ha": "none"},
    {"ha": "none", "links": [{"from": "o-mq1", "to": "o-mq1"}], "topology": "none"},
    {"ha": "pure", "release": "5.5.1", "master_node": "b", "replication_port": 7000, "bind": "10.0.0.1"},
    {"ha": "pure", "release": "5.7.0", "discovery": "failover", "topology": "ring"},
    {"ha": "pure", "release": "5.5.1", "environment": "test", "multicast": "224.9.9.9:7000", "network_ttl": 5},
    {"discovery": "multicast", "multicast_interface": "eth1"},
    {"discovery": "failover"},
    {"discovery": "static", "pair_links": "static"},
    {"lock_acquire_interval": 500, "lock_keepalive_interval": 900, "store_directory": "/mnt/nfs/o"},
    {"fence": "guard"},
    {"fence": "guard", "release": "5.8.0"},
    {"fence": "guard", "lock_acquire_interval": 60, "lock_keepalive_interval": 200},
    {"network_ttl": 9},
    {"broker_name": "theirs", "memory_limit": "64 mb", "store_limit": "1 gb", "temp_limit": "1 gb"},
    {"console": False, "release": "6.3.1"},
    {"connectors": [{"name": "openwire", "scheme": "tcp", "port": 7001, "options": {"wireFormat.tcpNoDelay": True}}]},
    {"connectors": []},
    {"port_offset": 100},
    {
        "users": [{"name": "app", "password": "x1", "groups": ["staff"]}],
        "acl": [{"destination": "a.>", "kind": "queue", "read": ["staff"], "write": ["staff"]}],
    },
    {
        "tls": {
            "keystore": "/etc/k",
            "keystore_password": "k",
            "truststore": "/etc/t",
            "truststore_password": "t",
            "client_auth": True,
        }
    },
    {
        "ha": "shared-jdbc",
        "jdbc": {"url": "jdbc:postgresql://db/a", "driver": "org.postgresql.Driver", "username": "u", "password": "p"},
    },
]


@some_situations(6)
@pytest.mark.parametrize("values", SETTINGS, ids=lambda values: "-".join(values))
def test_every_setting_in_activemq_xml_is_adopted(values: dict[str, Any], tmp_path: Path) -> None:
    original = fleet("o-mq1", "o-mq2", "p-mq1", **values)

    adoption = adopt_activemq_xml(original, tmp_path)

    assert activemq_xml_by_host(adoption.fleet) == activemq_xml_by_host(original)
    assert adoption.differences == ()
    assert "xml_fragments" not in str(adoption.files)


def test_short_lock_interval_of_guarded_broker_becomes_variable(tmp_path: Path) -> None:
    adoption = adopt_activemq_xml(fleet("o-mq1", fence="guard", lock_acquire_interval=60), tmp_path)

    assert variables(adoption)["lock_acquire_interval"] == 60
    assert "xml_fragments" not in variables(adoption)


def test_adopted_second_node_of_machine_has_instance_and_port_offset(tmp_path: Path) -> None:
    inventory = hosts("o-mq1", address="one.example.com", pair_links="static")
    inventory["o-mq1-a.example.com"]["activemq_instance"] = "a"
    inventory["o-mq1-b.example.com"] |= {"activemq_port_offset": 10, "activemq_instance": "b"}
    original = fleet_of_inventory(inventory)

    adoption = adopt_activemq_xml(original, tmp_path)

    assert activemq_xml_by_host(adoption.fleet) == activemq_xml_by_host(original)
    assert variables(adoption)["address"] == "one.example.com"
    assert yaml.safe_load(adoption.files["hosts.yml"])["all"]["hosts"] == {
        "o-mq1-a.example.com": {"activemq_instance": "activemq-a"},
        "o-mq1-b.example.com": {"activemq_instance": "activemq-b", "activemq_port_offset": 10},
    }
    assert not adoption.fleet.blocking_findings


def test_store_directories_with_names_of_pairs_become_one_template(tmp_path: Path) -> None:
    inventory = hosts("o-mq1", store_directory="/mnt/o-mq1/x") | hosts("o-mq2", store_directory="/mnt/o-mq2/x")
    original = fleet_of_inventory(inventory)

    adoption = adopt_activemq_xml(original, tmp_path)

    assert variables(adoption)["store_directory"] == "/mnt/{{ activemq_identity.pair }}/x"
    rendered_files = render_adopted_inventory(tmp_path, adoption)
    assert {host: rendered_files[f"hosts/{host}/conf/activemq.xml"] for host in inventory} == activemq_xml_by_host(
        original
    )


def test_addresses_of_links_are_adopted_as_addresses_of_hosts(tmp_path: Path) -> None:
    inventory = hosts("o-mq1", "o-mq2")
    for number, host in enumerate(inventory, 1):
        inventory[host]["activemq_address"] = f"10.0.0.{number}"
    original = fleet_of_inventory(inventory)

    adoption = adopt_activemq_xml(original, tmp_path)

    assert activemq_xml_by_host(adoption.fleet) == activemq_xml_by_host(original)


def test_account_with_same_password_on_all_adopted_hosts_has_one_secret(tmp_path: Path) -> None:
    inventory = {name: NETWORK | {"activemq_release": "5.18.3"} for name in ("o-mq1-a", "o-mq1-b")}
    adoption = adopt_activemq_xml(fleet_of_inventory(inventory), tmp_path)

    assert set(adoption.secrets) == {"net"}


def test_fragments_and_broker_attributes_are_adopted(tmp_path: Path) -> None:
    fragments = [
        {"xml": '<plugins><destinationPathSeparatorPlugin id="{{ s"/></plugins>'},
        {"parent": "beans", "xml": '<bean xmlns="http://www.springframework.org/schema/beans" id="x" class="a.B"/>'},
    ]
    original = fleet(
        "o-mq1", xml_fragments=fragments, broker_attributes={"useJmx": False, "offlineDurableSubscriberTimeout": 5}
    )

    adoption = adopt_activemq_xml(original, tmp_path)

    rendered_files = render_adopted_inventory(tmp_path, adoption)
    assert activemq_xml_by_host(adoption.fleet) == activemq_xml_by_host(original)
    assert (
        rendered_files["hosts/o-mq1-a.example.com/conf/activemq.xml"]
        == activemq_xml_by_host(original)["o-mq1-a.example.com"]
    )


HOST_SETTINGS: list[dict[str, Any]] = [
    {"heap": "2g", "java_options": ["-Da=b", "-Xlog:gc"], "java_home": "/opt/java"},
    {"base": "/data/mq", "instance": "second", "home": "/usr/share/activemq", "user": "mq", "ha": "none"},
    {"console_port": 9000, "console_bind": "10.1.1.1", "port_offset": 7},
    {"release": "5.5.1", "heap": "1g", "instance": "x", "console_port": 9000, "ha": "pure"},
    {"release": "6.3.1", "heap": "1g", "console_port": 9000},
    {"heap": "2g", "memory_limit": "64 mb"},
]


@pytest.mark.parametrize("values", HOST_SETTINGS, ids=lambda values: "-".join(values))
def test_settings_in_other_files_of_host_are_adopted(values: dict[str, Any], tmp_path: Path) -> None:
    original = fleet("o-mq1", "o-mq2", **values)

    adoption = adopt_rendered_fleet(tmp_path / "rendered", original)

    paths = [path for path in render_fleet(original) if path.startswith(TREES)]
    rendered_files = render_adopted_inventory(tmp_path, adoption)
    assert {path: rendered_files[path] for path in paths} == {path: render_fleet(original)[path] for path in paths}


def test_heap_of_handwritten_start_script_is_adopted(tmp_path: Path) -> None:
    files = tmp_path / "files"
    original = fleet("o-mq1", heap="1g")
    write_and_adopt(files, activemq_xml_by_host(original))
    for host in activemq_xml_by_host(original):
        script = files / "hosts" / host / "bin" / "env"
        script.parent.mkdir()
        script.write_text('# ACTIVEMQ_OPTS_MEMORY="-Xmx9g"\nACTIVEMQ_OPTS_MEMORY="-Xms64M -Xmx1g"\n')

    assert variables(write_and_adopt(files, activemq_xml_by_host(original)))["heap"] == "1g"
    assert "memory_limit" not in variables(write_and_adopt(files, activemq_xml_by_host(original)))


def or_none(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Return a strategy that draws None or a value."""
    return st.none() | values


# The variables of one group, so that the groups of a fleet differ.
GROUP = st.fixed_dictionaries(
    {
        "ha": st.sampled_from(["shared-file", "shared-file", "none", "pure"]),
        "topology": or_none(st.sampled_from(["mesh", "hub", "ring", "chain", "none"])),
        "discovery": or_none(st.sampled_from(["failover", "static", "multicast"])),
        "master_node": or_none(st.just("b")),
        "network_ttl": or_none(st.integers(1, 9)),
        "pair_links": or_none(st.just("static")),
        "broker_name": st.none(),
        "memory_limit": or_none(st.just("64 mb")),
        "bind": or_none(st.sampled_from(["10.0.0.1", "::"])),
        "port_offset": or_none(st.sampled_from([0, 10])),
        "console": or_none(st.booleans()),
        "environment": or_none(st.just("test")),
        "users": or_none(st.just([{"name": "app", "password": "x1", "groups": ["staff", "admins"]}])),
        "acl": or_none(st.just([{"destination": "a.>", "kind": "topic", "read": ["staff"], "admin": ["admins"]}])),
        "connectors": or_none(
            st.lists(
                st.sampled_from(["tcp", "nio", "stomp"]).map(
                    lambda scheme: {"name": f"{scheme}-1", "scheme": scheme, "port": 7000 + len(scheme)}
                ),
                unique_by=lambda connector: str(connector["name"]),
                min_size=1,
            )
        ),
    }
)
ENDS = st.sampled_from(["g0", "g1", "g0-mq1", "g1-mq1", "g1-mq2"])
LINK = st.fixed_dictionaries(
    {"from": ENDS, "to": ENDS},
    optional={"duplex": st.booleans(), "name": st.sampled_from(["x", "y"]), "ttl": st.integers(1, 5)},
)


@settings(max_examples=EXAMPLE_COUNT)
@given(
    release=st.sampled_from(["5.5.1", "5.6.0", "5.8.0", "5.18.3", "6.3.1"]),
    groups=st.lists(st.tuples(st.integers(1, 3), GROUP), min_size=1, max_size=2),
    links=st.lists(LINK, max_size=2),
)
def test_any_adopted_fleet_without_errors_renders_equivalent_activemq_xml(
    release: str, groups: list[tuple[int, dict[str, Any]]], links: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    inventory: dict[str, dict[str, Any]] = {}
    for group_number, (number, drawn) in enumerate(groups):
        setting_values = {name: value for name, value in drawn.items() if value is not None}
        setting_values = (
            setting_values | {"ha": "shared-file"}
            if setting_values["ha"] == "pure" and release > "5.7"
            else setting_values
        )
        pairs = [f"g{group_number}-mq{pair}" for pair in range(1, number + 1)]
        inventory |= hosts(*pairs, release=release, links=links, **setting_values)
    original = fleet_of_inventory(inventory)
    assume(not original.blocking_findings)

    adoption = write_and_adopt(tmp_path_factory.mktemp("adopt"), activemq_xml_by_host(original))

    assert adoption.differences == ()
    assert not adoption.fleet.blocking_findings
    note(b"\n".join(adoption.files.values()).decode())
    rendered_files = render_without_ansible(adoption)
    for host, activemq_xml in activemq_xml_by_host(original).items():
        assert xml_facts(etree.fromstring(rendered_files[host])) == xml_facts(etree.fromstring(activemq_xml))
    # The file of a broker without a pair does not contain its role.
    paired = {broker.host: broker.role for broker in original.brokers if broker.settings.ha != "none"}
    assert {host: adoption.fleet.broker(host).role for host in paired} == paired
