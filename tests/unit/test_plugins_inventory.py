"""The inventory plugin: groups and identities from host names."""

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


def lay(inventory: Path, *hosts: str, plugin: str = "", variables: str = "", name: str = "zz.activemq.yml") -> None:
    lines = "".join(f"    {host}:\n" for host in hosts)
    (inventory / "hosts.yml").write_text(f"all:\n  hosts:\n{lines}")
    (inventory / name).write_text(f"plugin: activemq.fleet.topology\n{plugin}")
    if variables:
        (inventory / "group_vars").mkdir()
        (inventory / "group_vars" / "all.yml").write_text(variables)


def listed(inventory: Path, *options: str) -> tuple[dict[str, Any], str]:
    """What ansible-inventory prints, and what it warns about."""
    done = subprocess.run(
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
    return json.loads(done.stdout) if done.returncode == 0 else {}, done.stderr


def members(found: dict[str, Any]) -> dict[str, list[str]]:
    return {group: found[group]["hosts"] for group in found if group.startswith("activemq_")}


def test_matching_hosts_get_their_groups_and_their_identity(inventory: Path) -> None:
    lay(inventory, "Orders.eu-mq01-a.example.com", "orders-mq02-a.example.com", "orders-mq02-b", "web01")
    found, said = listed(inventory)
    assert members(found) == {
        "activemq_brokers": ["orders-mq02-a.example.com", "orders-mq02-b"],
        "activemq_masters": ["orders-mq02-a.example.com"],
        "activemq_slaves": ["orders-mq02-b"],
        "activemq_group_orders": ["orders-mq02-a.example.com", "orders-mq02-b"],
        "activemq_pair_orders_mq02": ["orders-mq02-a.example.com", "orders-mq02-b"],
    }
    identity = found["_meta"]["hostvars"]["orders-mq02-b"]["activemq_identity"]
    assert {key: value["__ansible_unsafe"] for key, value in identity.items()} == {
        "group": "orders",
        "number": "02",
        "node": "b",
        "pair": "orders-mq02",
        "role": "slave",
        "domain": "",
    }
    assert "Orders.eu-mq01-a.example.com resembles the name of a broker, but does not match" in said
    assert "web01" not in found["_meta"]["hostvars"]


def test_names_of_groups_hold_small_letters_digits_and_underscores_only(inventory: Path) -> None:
    lay(inventory, "Web-Shop-mq01-a")
    assert {"activemq_group_web_shop", "activemq_pair_web_shop_mq01"} <= members(listed(inventory)[0]).keys()


def test_two_groups_that_would_become_one_are_an_error(inventory: Path) -> None:
    lay(inventory, "web-shop-mq01-a", "web_shop-mq01-a")
    assert "the groups 'web-shop' and 'web_shop' would have the same inventory group" in listed(inventory)[1]


def test_no_match_at_all_is_a_loud_warning(inventory: Path) -> None:
    lay(inventory, "web01")
    assert "no host name matches activemq_naming_pattern, so the inventory has no brokers" in listed(inventory)[1]


def test_a_file_that_comes_before_the_hosts_is_told_why_it_finds_nothing(inventory: Path) -> None:
    lay(inventory, "orders-mq01-a", name="aa.activemq.yml")
    assert (
        "give this file a name that follows the names of the files with the hosts, such as zz.activemq.yml"
        in listed(inventory)[1]
    )


@some_situations(1)
@pytest.mark.parametrize("misspelt", ["active_mq_pair", "activemqpair", "actvemq_pair"])
def test_misspelt_pair_is_a_warning_with_its_line_and_the_variable_meant(inventory: Path, misspelt: str) -> None:
    lay(inventory, "kiel1", "orders-mq01-a")
    (inventory / "host_vars").mkdir()
    file = inventory / "host_vars" / "kiel1.yml"
    file.write_text(f"activemq_group: kiel\n{misspelt}: kiel\n")
    warning = f"kiel1: {misspelt} is not a variable of activemq.fleet: did you mean activemq_pair? ({file}:2)"
    assert warning in listed(inventory)[1]


NUMBERED = r"^(?P<group>\w+)-mq(?P<number>\d+)-(?P<node>[12])$"


@some_situations(1)
@pytest.mark.parametrize("place", ["file", "variables", "extra"])
def test_pattern_and_letter_come_from_the_file_or_from_variables_of_all(inventory: Path, place: str) -> None:
    own = f"naming_pattern: '{NUMBERED}'\nmaster_node: '2'\n" if place == "file" else ""
    named = {"activemq_naming_pattern": NUMBERED, "activemq_master_node": "2"}
    lay(inventory, "orders-mq01-1", "orders-mq01-2", plugin=own, variables=json.dumps(named) * (place == "variables"))
    found, _ = listed(inventory, *(["-e", json.dumps(named)] if place == "extra" else []))
    assert members(found)["activemq_masters"] == ["orders-mq01-2"]
    if place == "file":
        # So that the renderer goes by the same pattern.
        assert found["_meta"]["hostvars"]["orders-mq01-1"]["activemq_naming_pattern"] == NUMBERED


def test_a_pattern_that_is_said_twice_and_differs_is_an_error(inventory: Path) -> None:
    lay(inventory, "orders-mq01-a", plugin="master_node: b\n", variables="activemq_master_node: a\n")
    printed = " ".join(listed(inventory)[1].split())
    assert "the option master_node in the file of the inventory plugin (*.activemq.yml) is b" in printed
    assert "the variable activemq_master_node, which has the same meaning, is a: remove one of them" in printed


@pytest.mark.parametrize(
    ("pattern", "message"),
    [("'('", "is not a valid regular expression"), ("'^.+$'", "contains none of the named capture groups")],
)
def test_a_pattern_that_cannot_be_used_is_an_error(inventory: Path, pattern: str, message: str) -> None:
    lay(inventory, "orders-mq01-a", plugin=f"naming_pattern: {pattern}\n")
    assert message in listed(inventory)[1]


def test_variables_that_cannot_be_read_are_blamed_on_their_own_file_and_on_no_other(inventory: Path) -> None:
    lay(
        inventory, "orders-mq01-a", variables="activemq_release: 5.18.3\nactivemq_users:\n  - name: x\n   password: y\n"
    )
    found, said = listed(inventory)
    assert found == {}
    assert f"({inventory}/group_vars/all.yml:4)" in said
    assert "zz.activemq.yml" not in said
    assert len(said.splitlines()) == 2


def test_the_documented_example_works(inventory: Path) -> None:
    documentation = (ROOT / "plugins/inventory/topology.py").read_text()
    example = documentation.partition("# Nodes called 1 and 2")[2].partition("\n\n")[0].splitlines()[2:]
    lay(inventory, "orders-mq01-1", "orders-mq01-2", plugin="".join(f"{line.removeprefix('# ')}\n" for line in example))
    (inventory / "group_vars").mkdir()
    (inventory / "group_vars/all.yml").write_text("activemq_release: 6.3.1\n")
    found = members(listed(inventory)[0])

    assert found["activemq_masters"] == ["orders-mq01-1"]
    assert found["activemq_pair_orders_mq01"] == ["orders-mq01-1", "orders-mq01-2"]
    assert [broker.role for broker in load_fleet([str(inventory)]).brokers] == ["master", "slave"]


def test_odd_and_even_numbers_are_nodes(inventory: Path) -> None:
    own = "naming_pattern: '^(?P<group>[a-z]+)(?P<number>[0-9]+)$'\nnaming_parity: odd-even\n"
    lay(inventory, "amq001", "amq002", "amq003", "amq004", plugin=own)
    found = members(listed(inventory)[0])

    assert found["activemq_masters"] == ["amq001", "amq003"]
    assert found["activemq_pair_amq001_002"] == ["amq001", "amq002"]


def test_host_vars_group_vars_and_the_hosts_own_variables_say_what_a_name_does_not(inventory: Path) -> None:
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
    found, _ = listed(inventory)

    assert members(found)["activemq_pair_fra_1"] == ["hal1", "hal2"]
    assert members(found)["activemq_pair_berlin"] == ["orders-mq01-a", "orders-mq01-b"]
    assert members(found)["activemq_masters"] == ["hal1", "orders-mq01-b"]
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
def test_a_template_or_a_list_that_states_a_part_is_an_error(inventory: Path, variables: str, message: str) -> None:
    lay(inventory, "orders-mq01-a")
    (inventory / "host_vars").mkdir()
    (inventory / "host_vars/orders-mq01-a.yml").write_text(variables)
    assert message in listed(inventory)[1]


def test_a_broker_of_which_a_part_is_nowhere_stated_is_a_warning_with_its_name(inventory: Path) -> None:
    lay(inventory, "orders-mq01-a", "hal1")
    (inventory / "host_vars").mkdir()
    (inventory / "host_vars/hal1.yml").write_text("activemq_node: b\n")
    found, said = listed(inventory)

    assert members(found)["activemq_brokers"] == ["orders-mq01-a"]
    assert (
        "the group and pair of the broker are unknown, because the host name does not match activemq_naming_pattern"
        in said
    )


_WITHOUT_LIBRARY = "import sys; sys.path.append({packages!r}); from ansible.cli.inventory import main; main()"


def run_on_another_python(inventory: Path, library: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run ansible-inventory where Ansible is installed, and no library or another one."""
    # -S: the checkout is in no directory of the search path, because its .pth file is not read.
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


def test_inventory_without_the_library_is_one_error_and_no_warning(inventory: Path) -> None:
    lay(inventory, "orders-mq01-a", "orders-mq01-b")
    done = run_on_another_python(inventory)
    assert done.returncode == 4
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith(
        f"[ERROR]: {inventory}/zz.activemq.yml: the collection activemq.fleet requires the Python library"
    )
    assert "install the wheel of a release (`make package` builds it in a checkout)" in line
    assert "pip install dist/activemq_fleet-*.whl" in line


def test_inventory_with_an_older_library_is_one_error_with_both_versions(inventory: Path, tmp_path: Path) -> None:
    lay(inventory, "orders-mq01-a", "orders-mq01-b")
    package = tmp_path / "old" / "activemq_fleet"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "0.0.9"\n')
    done = run_on_another_python(inventory, package.parent)
    assert done.returncode == 4
    assert done.stdout == ""
    (line,) = done.stderr.strip().splitlines()
    assert f"the collection activemq.fleet has version {__version__} (" in line
    assert f"the library activemq-fleet has version 0.0.9 ({package})" in line
    assert "install the wheel of a release (`make package` builds it in a checkout)" in line
