"""Files that we rendered: their adoption renders them again, byte for byte."""

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
# A fleet takes longer than most examples of other tests.
FEW = max(10, settings().max_examples // 3)
TREES = ("hosts/", "clients/")


def example(name: str, tmp_path: Path) -> Fleet:
    shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns(".secrets"))
    return load_fleet([str(tmp_path / name)])


def again(found: Fleet, tmp_path: Path) -> AdoptedInventory:
    return write_and_adopt(tmp_path / "files", activemq_xml_by_host(found))


def variables(adoption: AdoptedInventory, path: str = "group_vars/all.yml") -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(adoption.files[path])
    return {name.removeprefix("activemq_"): value for name, value in read.items()}


def test_several_stores_of_a_pair_come_back_as_the_variable(tmp_path: Path) -> None:
    kahadb = {
        "by_destination": [
            {"destination": "orders.>", "kind": "queue", "journal_max_file_length": "64 mb", "usage": "1 gb"},
            {"cleanup_interval": 100},
        ],
        "transaction_journal": {"journal_max_file_length": "1 mb"},
    }
    adoption = again(fleet("orders-mq01", ha="shared-file", kahadb=kahadb), tmp_path)
    assert adoption.differences == ()
    assert variables(adoption)["kahadb"] == kahadb
    assert "xml_fragments" not in variables(adoption)


@pytest.mark.parametrize("name", ["ha-network-5.5", "bridged-pairs", "single-machine"])
def test_an_example_gives_back_the_same_tree(name: str, tmp_path: Path) -> None:
    original = example(name, tmp_path)
    expected = {path: content for path, content in render_fleet(original).items() if path.startswith(TREES)}

    adoption = again(original, tmp_path)

    found = render_adopted_inventory(tmp_path, adoption)
    assert {path: content for path, content in found.items() if path.startswith(TREES)} == expected
    assert adoption.differences == ()


@pytest.mark.parametrize("name", ["ha-network-5.5", "bridged-pairs", "single-machine", "shared-store"])
def test_an_example_gives_back_everything_from_its_whole_tree(name: str, tmp_path: Path) -> None:
    original = example(name, tmp_path)
    expected = {path: content for path, content in render_fleet(original).items() if path.startswith(TREES)}

    adoption = adopt_rendered_fleet(tmp_path / "rendered", original)

    found = render_adopted_inventory(tmp_path, adoption)
    assert {path: content for path, content in found.items() if path.startswith(TREES)} == expected
    assert adoption.differences == ()


def test_every_setting_of_an_agent_comes_back(tmp_path: Path) -> None:
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
    found = render_adopted_inventory(tmp_path, adoption)
    assert {path: content for path, content in found.items() if path.startswith(TREES)} == expected


def test_accounts_of_agents_are_told_and_render_the_same_documents(tmp_path: Path) -> None:
    original = example("shared-store", tmp_path)

    adoption = again(original, tmp_path)

    assert activemq_xml_by_host(adoption.fleet) == activemq_xml_by_host(original)
    assert any("ledger01, shop01: adopt put these accounts of agents" in note for note in adoption.notes)


@some_situations(6)
@pytest.mark.parametrize("release", ["5.5.1", "5.8.0", "5.18.3", "6.3.1"])
@pytest.mark.parametrize("shape", ["mesh", "hub", "ring", "chain", "none"])
def test_the_shape_of_each_group_is_seen(shape: str, release: str, tmp_path: Path) -> None:
    pairs = ("orders-mq01", "orders-mq02", "orders-mq03", "orders-mq04", "till-mq01", "till-mq02", "till-mq03")
    original = fleet(*pairs, topology=shape, release=release)

    adoption = again(original, tmp_path)

    assert activemq_xml_by_host(adoption.fleet) == activemq_xml_by_host(original)
    assert "links" not in variables(adoption)
    assert variables(adoption).get("topology", "mesh") == shape
    assert "xml_fragments" not in str(adoption.files)


def test_groups_of_different_shapes_are_told_apart(tmp_path: Path) -> None:
    inventory = hosts("a-mq1", "a-mq2", "a-mq3", topology="hub") | hosts("b-mq1", "b-mq2", "b-mq3", topology="ring")
    original = fleet_of_inventory(inventory)

    adoption = again(original, tmp_path)

    assert activemq_xml_by_host(adoption.fleet) == activemq_xml_by_host(original)
    assert variables(adoption, "group_vars/activemq_group_a.yml") == {"topology": "hub"}
    assert variables(adoption, "group_vars/activemq_group_b.yml") == {"topology": "ring"}


@pytest.mark.parametrize("release", ["5.5.1", "5.6.0", "5.18.3"])
def test_brokers_that_no_bridge_can_dial_stay_apart(release: str, tmp_path: Path) -> None:
    stomp = [{"name": "stomp-1", "scheme": "stomp", "port": 7005}]
    original = fleet("o-mq1", "o-mq2", release=release, topology="none", ha="none", connectors=stomp)

    adoption = again(original, tmp_path)

    assert activemq_xml_by_host(adoption.fleet) == activemq_xml_by_host(original)
    assert adoption.differences == ()


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
def test_links_between_groups_and_pairs(links: list[Any], release: str, topology: str, tmp_path: Path) -> None:
    pairs = ("shop-mq1", "shop-mq2", "hub-mq1", "hub-mq2")
    original = fleet(*pairs, links=links, release=release, topology=topology)

    adoption = again(original, tmp_path)

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
@pytest.mark.parametrize("said", SETTINGS, ids=lambda said: "-".join(said))
def test_every_setting_that_the_file_shows_comes_back(said: dict[str, Any], tmp_path: Path) -> None:
    original = fleet("o-mq1", "o-mq2", "p-mq1", **said)

    adoption = again(original, tmp_path)

    assert activemq_xml_by_host(adoption.fleet) == activemq_xml_by_host(original)
    assert adoption.differences == ()
    assert "xml_fragments" not in str(adoption.files)


def test_the_second_node_of_a_machine_has_its_offset(tmp_path: Path) -> None:
    inventory = hosts("o-mq1", address="one.example.com", pair_links="static")
    inventory["o-mq1-a.example.com"]["activemq_instance"] = "a"
    inventory["o-mq1-b.example.com"] |= {"activemq_port_offset": 10, "activemq_instance": "b"}
    original = fleet_of_inventory(inventory)

    adoption = again(original, tmp_path)

    assert activemq_xml_by_host(adoption.fleet) == activemq_xml_by_host(original)
    assert variables(adoption)["address"] == "one.example.com"
    assert yaml.safe_load(adoption.files["hosts.yml"])["all"]["hosts"] == {
        "o-mq1-a.example.com": {"activemq_instance": "activemq-a"},
        "o-mq1-b.example.com": {"activemq_instance": "activemq-b", "activemq_port_offset": 10},
    }
    assert not adoption.fleet.blocking_findings


def test_directories_that_are_called_as_their_pairs_are_said_once(tmp_path: Path) -> None:
    inventory = hosts("o-mq1", store_directory="/mnt/o-mq1/x") | hosts("o-mq2", store_directory="/mnt/o-mq2/x")
    original = fleet_of_inventory(inventory)

    adoption = again(original, tmp_path)

    assert variables(adoption)["store_directory"] == "/mnt/{{ activemq_identity.pair }}/x"
    found = render_adopted_inventory(tmp_path, adoption)
    assert {host: found[f"hosts/{host}/conf/activemq.xml"] for host in inventory} == activemq_xml_by_host(original)


def test_hosts_that_are_dialled_by_other_names_have_those_addresses(tmp_path: Path) -> None:
    inventory = hosts("o-mq1", "o-mq2")
    for number, host in enumerate(inventory, 1):
        inventory[host]["activemq_address"] = f"10.0.0.{number}"
    original = fleet_of_inventory(inventory)

    adoption = again(original, tmp_path)

    assert activemq_xml_by_host(adoption.fleet) == activemq_xml_by_host(original)


def test_a_user_has_one_secret_for_each_password_that_is_in_force(tmp_path: Path) -> None:
    inventory = {name: NETWORK | {"activemq_release": "5.18.3"} for name in ("o-mq1-a", "o-mq1-b")}
    adoption = again(fleet_of_inventory(inventory), tmp_path)

    assert set(adoption.secrets) == {"net"}


def test_fragments_and_attributes_of_ours_come_back(tmp_path: Path) -> None:
    fragments = [
        {"xml": '<plugins><destinationPathSeparatorPlugin id="{{ s"/></plugins>'},
        {"parent": "beans", "xml": '<bean xmlns="http://www.springframework.org/schema/beans" id="x" class="a.B"/>'},
    ]
    original = fleet(
        "o-mq1", xml_fragments=fragments, broker_attributes={"useJmx": False, "offlineDurableSubscriberTimeout": 5}
    )

    adoption = again(original, tmp_path)

    found = render_adopted_inventory(tmp_path, adoption)
    assert activemq_xml_by_host(adoption.fleet) == activemq_xml_by_host(original)
    assert found["hosts/o-mq1-a.example.com/conf/activemq.xml"] == activemq_xml_by_host(original)["o-mq1-a.example.com"]


HOSTS: list[dict[str, Any]] = [
    {"heap": "2g", "java_options": ["-Da=b", "-Xlog:gc"], "java_home": "/opt/java"},
    {"base": "/data/mq", "instance": "second", "home": "/usr/share/activemq", "user": "mq", "ha": "none"},
    {"console_port": 9000, "console_bind": "10.1.1.1", "port_offset": 7},
    {"release": "5.5.1", "heap": "1g", "instance": "x", "console_port": 9000, "ha": "pure"},
    {"release": "6.3.1", "heap": "1g", "console_port": 9000},
    {"heap": "2g", "memory_limit": "64 mb"},
]


@pytest.mark.parametrize("said", HOSTS, ids=lambda said: "-".join(said))
def test_files_beside_say_how_a_broker_runs(said: dict[str, Any], tmp_path: Path) -> None:
    original = fleet("o-mq1", "o-mq2", **said)

    adoption = adopt_rendered_fleet(tmp_path / "rendered", original)

    trees = [path for path in render_fleet(original) if path.startswith(TREES)]
    found = render_adopted_inventory(tmp_path, adoption)
    assert {path: found[path] for path in trees} == {path: render_fleet(original)[path] for path in trees}


def test_the_heap_of_anyones_start_script_is_read(tmp_path: Path) -> None:
    files = tmp_path / "files"
    original = fleet("o-mq1", heap="1g")
    write_and_adopt(files, activemq_xml_by_host(original))
    for host in activemq_xml_by_host(original):
        script = files / "hosts" / host / "bin" / "env"
        script.parent.mkdir()
        script.write_text('# ACTIVEMQ_OPTS_MEMORY="-Xmx9g"\nACTIVEMQ_OPTS_MEMORY="-Xms64M -Xmx1g"\n')

    assert variables(write_and_adopt(files, activemq_xml_by_host(original)))["heap"] == "1g"
    assert "memory_limit" not in variables(write_and_adopt(files, activemq_xml_by_host(original)))


def maybe(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | values


# Of one group each, so that groups differ.
GROUP = st.fixed_dictionaries(
    {
        "ha": st.sampled_from(["shared-file", "shared-file", "none", "pure"]),
        "topology": maybe(st.sampled_from(["mesh", "hub", "ring", "chain", "none"])),
        "discovery": maybe(st.sampled_from(["failover", "static", "multicast"])),
        "master_node": maybe(st.just("b")),
        "network_ttl": maybe(st.integers(1, 9)),
        "pair_links": maybe(st.just("static")),
        "broker_name": st.none(),
        "memory_limit": maybe(st.just("64 mb")),
        "bind": maybe(st.sampled_from(["10.0.0.1", "::"])),
        "port_offset": maybe(st.sampled_from([0, 10])),
        "console": maybe(st.booleans()),
        "environment": maybe(st.just("test")),
        "users": maybe(st.just([{"name": "app", "password": "x1", "groups": ["staff", "admins"]}])),
        "acl": maybe(st.just([{"destination": "a.>", "kind": "topic", "read": ["staff"], "admin": ["admins"]}])),
        "connectors": maybe(
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


@settings(max_examples=FEW)
@given(
    release=st.sampled_from(["5.5.1", "5.6.0", "5.8.0", "5.18.3", "6.3.1"]),
    groups=st.lists(st.tuples(st.integers(1, 3), GROUP), min_size=1, max_size=2),
    links=st.lists(LINK, max_size=2),
)
def test_any_fleet_without_errors_comes_back(
    release: str, groups: list[tuple[int, dict[str, Any]]], links: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    inventory: dict[str, dict[str, Any]] = {}
    for place, (number, drawn) in enumerate(groups):
        said = {name: value for name, value in drawn.items() if value is not None}
        said = said | {"ha": "shared-file"} if said["ha"] == "pure" and release > "5.7" else said
        pairs = [f"g{place}-mq{pair}" for pair in range(1, number + 1)]
        inventory |= hosts(*pairs, release=release, links=links, **said)
    original = fleet_of_inventory(inventory)
    assume(not original.blocking_findings)

    adoption = write_and_adopt(tmp_path_factory.mktemp("adopt"), activemq_xml_by_host(original))

    assert adoption.differences == ()
    assert not adoption.fleet.blocking_findings
    note(b"\n".join(adoption.files.values()).decode())
    found = render_without_ansible(adoption)
    for host, content in activemq_xml_by_host(original).items():
        assert xml_facts(etree.fromstring(found[host])) == xml_facts(etree.fromstring(content))
    # A broker on its own has no role that its file could tell.
    paired = {broker.host: broker.role for broker in original.brokers if broker.settings.ha != "none"}
    assert {host: adoption.fleet.broker(host).role for host in paired} == paired
