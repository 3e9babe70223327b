"""The inventory plugin: groups and identities of hosts from their names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from activemq_fleet import __version__
from activemq_fleet.inventory import load_fleet
from tests.situations import some_situations

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    directory = tmp_path / "inventory"
    directory.mkdir()
    return directory


def write_inventory(
    inventory: Path, *hosts: str, plugin: str = "", variables: str = "", name: str = "zz.activemq.yml"
) -> None:
    lines = "".join(f"    {host}:\n" for host in hosts)
    (inventory / "hosts.yml").write_text(f"all:\n  hosts:\n{lines}")
    (inventory / name).write_text(f"plugin: activemq.fleet.topology\n{plugin}")
    if variables:
        (inventory / "group_vars").mkdir()
        (inventory / "group_vars" / "all.yml").write_text(variables)


def list_inventory(inventory: Path, *options: str) -> tuple[dict[str, Any], str]:
    """Return what ansible-inventory prints to stdout and to stderr."""
    completed = subprocess.run(
        [str(Path(sys.executable).with_name("ansible-inventory")), "-i", str(inventory), "--list", *options],
        env=os.environ | {
            "ANSIBLE_HOME": str(inventory.parent / "ansible"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".ansible/collections"),
            "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",
            "ANSIBLE_NOCOLOR": "1",
            "COLUMNS": "1000",
        },
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    return json.loads(completed.stdout) if completed.returncode == 0 else {}, completed.stderr


def hosts_by_group(listing: dict[str, Any]) -> dict[str, list[str]]:
    return {group: listing[group]["hosts"] for group in listing if group.startswith("activemq_")}


def test_inventory_plugin_gives_matching_hosts_groups_and_identity(inventory: Path) -> None:
    write_inventory(inventory, "Orders.eu-mq01-a.example.com", "orders-mq02-a.example.com", "orders-mq02-b", "web01")
    listing, stderr = list_inventory(inventory)
    assert hosts_by_group(listing) == {
        "activemq_brokers": ["orders-mq02-a.example.com", "orders-mq02-b"],
        "activemq_masters": ["orders-mq02-a.example.com"],
        "activemq_slaves": ["orders-mq02-b"],
        "activemq_group_orders": ["orders-mq02-a.example.com", "orders-mq02-b"],
        "activemq_pair_orders_mq02": ["orders-mq02-a.example.com", "orders-mq02-b"],
    }
    identity = listing["_meta"]["hostvars"]["orders-mq02-b"]["activemq_identity"]
    assert {key: value["__ansible_unsafe"] for key, value in identity.items()} == {
        "group": "orders",
        "number": "02",
        "node": "b",
        "pair": "orders-mq02",
        "role": "slave",
        "domain": "",
    }
    assert "Orders.eu-mq01-a.example.com resembles the name of a broker, but does not match" in stderr
    assert "web01" not in listing["_meta"]["hostvars"]


def test_host_with_name_of_group_is_in_its_own_groups_only(inventory: Path) -> None:
    write_inventory(
        inventory, plugin="naming_pattern: ^(?P<pair>(?P<group>[a-z]+)[0-9])$\n", variables="activemq_node: a"
    )
    (inventory / "hosts.yml").write_text("orders1:\n  hosts:\n    orders1:\n    orders2:\n")
    listing = list_inventory(inventory)[0]
    assert hosts_by_group(listing)["activemq_pair_orders1"] == ["orders1"]
    assert hosts_by_group(listing)["activemq_pair_orders2"] == ["orders2"]
    pairs = {
        host: variables["activemq_identity"]["pair"]["__ansible_unsafe"]
        for host, variables in listing["_meta"]["hostvars"].items()
    }
    assert pairs == {"orders1": "orders1", "orders2": "orders2"}


def test_inventory_group_names_have_only_lowercase_letters_digits_underscores(inventory: Path) -> None:
    write_inventory(inventory, "Web-Shop-mq01-a")
    assert {"activemq_group_web_shop", "activemq_pair_web_shop_mq01"} <= hosts_by_group(
        list_inventory(inventory)[0]
    ).keys()


def test_inventory_plugin_rejects_groups_with_same_inventory_group_name(inventory: Path) -> None:
    write_inventory(inventory, "web-shop-mq01-a", "web_shop-mq01-a")
    assert "the groups 'web-shop' and 'web_shop' would have the same inventory group" in list_inventory(inventory)[1]


def test_inventory_without_matching_host_causes_warning(inventory: Path) -> None:
    write_inventory(inventory, "web01")
    assert (
        "no host name matches activemq_naming_pattern, so the inventory has no brokers" in list_inventory(inventory)[1]
    )


def test_plugin_file_sorted_before_hosts_causes_message_with_remedy(inventory: Path) -> None:
    write_inventory(inventory, "orders-mq01-a", name="aa.activemq.yml")
    assert (
        "give this file a name that follows the names of the files with the hosts, such as zz.activemq.yml"
        in list_inventory(inventory)[1]
    )


@some_situations(1)
@pytest.mark.parametrize("misspelled", ["active_mq_pair", "activemqpair", "actvemq_pair"])
def test_misspelled_pair_variable_causes_warning_with_line_and_correct_name(inventory: Path, misspelled: str) -> None:
    write_inventory(inventory, "kiel1", "orders-mq01-a")
    (inventory / "host_vars").mkdir()
    file = inventory / "host_vars" / "kiel1.yml"
    file.write_text(f"activemq_group: kiel\n{misspelled}: kiel\n")
    warning = f"kiel1: {misspelled} is not a variable of activemq.fleet: did you mean activemq_pair? ({file}:2)"
    assert warning in list_inventory(inventory)[1]


NUMBERED = r"^(?P<group>\w+)-mq(?P<number>\d+)-(?P<node>[12])$"


@some_situations(1)
@pytest.mark.parametrize("source", ["file", "variables", "extra"])
def test_pattern_and_master_node_come_from_plugin_file_or_variables(inventory: Path, source: str) -> None:
    plugin_options = f"naming_pattern: '{NUMBERED}'\nmaster_node: '2'\n" if source == "file" else ""
    variables = {"activemq_naming_pattern": NUMBERED, "activemq_master_node": "2"}
    group_variables = json.dumps(variables) if source == "variables" else ""
    write_inventory(inventory, "orders-mq01-1", "orders-mq01-2", plugin=plugin_options, variables=group_variables)
    listing, _ = list_inventory(inventory, *(["-e", json.dumps(variables)] if source == "extra" else []))
    assert hosts_by_group(listing)["activemq_masters"] == ["orders-mq01-2"]
    if source == "file":
        # The renderer must use the same pattern.
        assert listing["_meta"]["hostvars"]["orders-mq01-1"]["activemq_naming_pattern"] == NUMBERED


def test_master_node_option_that_contradicts_variable_is_error(inventory: Path) -> None:
    write_inventory(inventory, "orders-mq01-a", plugin="master_node: b\n", variables="activemq_master_node: a\n")
    stderr = " ".join(list_inventory(inventory)[1].split())
    assert "the option master_node in the file of the inventory plugin (*.activemq.yml) is b" in stderr
    assert "the variable activemq_master_node, which has the same meaning, is a: remove one of them" in stderr


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("'('", "is not a valid regular expression"), ("'^.+$'", "contains none of the named capture groups")],
)
def test_invalid_naming_pattern_is_error(inventory: Path, pattern: str, message: str) -> None:
    write_inventory(inventory, "orders-mq01-a", plugin=f"naming_pattern: {pattern}\n")
    assert message in list_inventory(inventory)[1]


def test_invalid_yaml_of_variables_is_reported_with_its_file_only(inventory: Path) -> None:
    write_inventory(
        inventory, "orders-mq01-a", variables="activemq_release: 5.18.3\nactivemq_users:\n  - name: x\n   password: y\n"
    )
    listing, stderr = list_inventory(inventory)
    assert listing == {}
    assert f"({inventory}/group_vars/all.yml:4)" in stderr
    assert "zz.activemq.yml" not in stderr
    assert len(stderr.splitlines()) == 2


def test_documented_example_of_naming_pattern_works(inventory: Path) -> None:
    documentation = (ROOT / "plugins/inventory/topology.py").read_text()
    example = documentation.partition("# Nodes called 1 and 2")[2].partition("\n\n")[0].splitlines()[2:]
    write_inventory(
        inventory, "orders-mq01-1", "orders-mq01-2", plugin="".join(f"{line.removeprefix('# ')}\n" for line in example)
    )
    (inventory / "group_vars").mkdir()
    (inventory / "group_vars/all.yml").write_text("activemq_release: 6.3.1\n")
    hosts = hosts_by_group(list_inventory(inventory)[0])

    assert hosts["activemq_masters"] == ["orders-mq01-1"]
    assert hosts["activemq_pair_orders_mq01"] == ["orders-mq01-1", "orders-mq01-2"]
    assert [broker.role for broker in load_fleet([str(inventory)]).brokers] == ["master", "slave"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hosts.ini", "[zz]\norders-mq01-a\n[abc]\norders-mq01-b\n"),
        ("hosts.yml", "zz:\n  hosts:\n    orders-mq01-a:\nabc:\n  hosts:\n    orders-mq01-b:\n"),
        ("hosts.ini", "orders-mq01-a\norders-mq01-b\n"),
    ],
    ids=["ini", "yaml", "without groups"],
)
def test_variables_of_all_apply_to_hosts_whose_groups_are_not_listed_below_all(
    name: str, text: str, inventory: Path
) -> None:
    (inventory / name).write_text(text)
    (inventory / "zz.activemq.yml").write_text("plugin: activemq.fleet.topology\n")
    (inventory / "group_vars").mkdir()
    (inventory / "group_vars/all.yml").write_text("activemq_release: 6.3.1\nactivemq_master_node: b\n")
    assert hosts_by_group(list_inventory(inventory)[0])["activemq_masters"] == ["orders-mq01-b"]
    (pair,) = load_fleet([str(inventory)]).pairs_by_name.values()
    assert pair.preferred_master.host == "orders-mq01-b"


def test_odd_even_parity_pairs_consecutive_numbers(inventory: Path) -> None:
    plugin_options = "naming_pattern: '^(?P<group>[a-z]+)(?P<number>[0-9]+)$'\nnaming_parity: odd-even\n"
    write_inventory(inventory, "amq001", "amq002", "amq003", "amq004", plugin=plugin_options)
    hosts = hosts_by_group(list_inventory(inventory)[0])

    assert hosts["activemq_masters"] == ["amq001", "amq003"]
    assert hosts["activemq_pair_amq001_002"] == ["amq001", "amq002"]


def test_identity_missing_in_host_name_comes_from_host_and_group_variables(inventory: Path) -> None:
    (inventory / "hosts.ini").write_text(
        "[fra]\nhal1 activemq_node=a\nhal2\n[fra:vars]\nactivemq_pair=fra-1\n[ber]\norders-mq01-a\norders-mq01-b\n"
    )
    (inventory / "zz.activemq.yml").write_text("plugin: activemq.fleet.topology\n")
    for name, text in (
        ("host_vars/hal2.yml", "activemq_node: b\n"),
        ("group_vars/fra.yml", "activemq_group: fra\n"),
        ("group_vars/all.yml", "activemq_release: 6.3.1\n"),
        ("group_vars/ber.yml", "activemq_pair: berlin\nactivemq_master_node: b\n"),
    ):
        (inventory / name).parent.mkdir(exist_ok=True)
        (inventory / name).write_text(text)
    listing, _ = list_inventory(inventory)

    assert hosts_by_group(listing)["activemq_pair_fra_1"] == ["hal1", "hal2"]
    assert hosts_by_group(listing)["activemq_pair_berlin"] == ["orders-mq01-a", "orders-mq01-b"]
    assert hosts_by_group(listing)["activemq_masters"] == ["hal1", "orders-mq01-b"]
    pairs = load_fleet([str(inventory)]).pairs_by_name
    assert {name: pair.preferred_master.host for name, pair in pairs.items()} == {
        "fra-1": "hal1",
        "berlin": "orders-mq01-b",
    }


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ("activemq_node: '{{ x }}'\n", "orders-mq01-a: activemq_node is the template '{{ x }}', but Ansible"),
        ("activemq_pair: [a]\n", "orders-mq01-a: activemq_pair must be text"),
    ],
)
def test_template_or_list_as_part_of_identity_is_error(inventory: Path, variables: str, message: str) -> None:
    write_inventory(inventory, "orders-mq01-a")
    (inventory / "host_vars").mkdir()
    (inventory / "host_vars/orders-mq01-a.yml").write_text(variables)
    assert message in list_inventory(inventory)[1]


def test_broker_with_unknown_group_and_pair_causes_warning(inventory: Path) -> None:
    write_inventory(inventory, "orders-mq01-a", "hal1")
    (inventory / "host_vars").mkdir()
    (inventory / "host_vars/hal1.yml").write_text("activemq_node: b\n")
    listing, stderr = list_inventory(inventory)

    assert hosts_by_group(listing)["activemq_brokers"] == ["orders-mq01-a"]
    assert (
        "the group and pair of the broker are unknown, because the host name does not match activemq_naming_pattern"
        in stderr
    )


_WITHOUT_LIBRARY = "import sys; sys.path.append({packages!r}); from ansible.cli.inventory import main; main()"


def run_on_another_python(inventory: Path, library: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run ansible-inventory with Ansible, and without the library or with another version of it."""
    # -S keeps the checkout out of the search path, because Python does not read its .pth file.
    command = [sys.executable, "-S", "-c", _WITHOUT_LIBRARY.format(packages=str(Path(yaml.__file__).parents[1]))]
    environment = os.environ | {
        "ANSIBLE_HOME": str(inventory.parent / "ansible"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".ansible/collections"),
        "ANSIBLE_NOCOLOR": "1",
        "COLUMNS": "1000",
        "PYTHONPATH": str(library or ""),
    }
    environment.pop("ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED", None)
    return subprocess.run(
        [*command, "-i", str(inventory), "--graph"], env=environment, capture_output=True, text=True, check=False
    )


def test_inventory_without_library_causes_single_error_and_no_warning(inventory: Path) -> None:
    write_inventory(inventory, "orders-mq01-a", "orders-mq01-b")
    completed = run_on_another_python(inventory)
    assert completed.returncode == 4
    assert completed.stdout == ""
    (line,) = completed.stderr.strip().splitlines()
    assert line.startswith(
        f"[ERROR]: {inventory}/zz.activemq.yml: the collection activemq.fleet requires the Python library"
    )
    assert "install the wheel of a release (`make package` builds it in a checkout)" in line
    assert "pip install dist/activemq_fleet-*.whl" in line


def test_inventory_with_older_library_causes_single_error_with_both_versions(inventory: Path, tmp_path: Path) -> None:
    write_inventory(inventory, "orders-mq01-a", "orders-mq01-b")
    package = tmp_path / "old" / "activemq_fleet"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "0.0.9"\n')
    completed = run_on_another_python(inventory, package.parent)
    assert completed.returncode == 4
    assert completed.stdout == ""
    (line,) = completed.stderr.strip().splitlines()
    assert f"the collection activemq.fleet has version {__version__} (" in line
    assert f"the library activemq-fleet has version 0.0.9 ({package})" in line
    assert "install the wheel of a release (`make package` builds it in a checkout)" in line
