"""Reading of inventories with the same result as Ansible, faster and with clear errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.plugins.loader import inventory_loader

from activemq_fleet.errors import InputError
from activemq_fleet.inventory import InventoryData, read_inventory
from activemq_fleet.settings.encrypted import UndecryptedVaultValue

Write = Callable[..., Path]
BIN = Path(sys.executable).parent


@pytest.fixture
def write_files(tmp_path: Path) -> Write:
    """Return a function that writes files, named by their paths, into one inventory directory."""

    def write_files(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / "inventory" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path / "inventory"

    return write_files


def read_variables(path: Path, *extra_vars: str, **more: Any) -> InventoryData:
    return read_inventory([str(path)], extra_vars=extra_vars, **more)


def input_error_text(path: Path | str, *extra_vars: str) -> str:
    with pytest.raises(InputError) as caught:
        read_inventory([str(path)], extra_vars=extra_vars)
    error_text = str(caught.value)
    assert "\n" not in error_text
    return error_text


PAIR = "all: {hosts: {a-mq01-a: , a-mq01-b: }}\n"

TRICKY = {
    "00-hosts.yml": """
all:
  vars: {activemq_x_order: all, activemq_x_merge: {a: 1}, activemq_x_all: "{{ activemq_x_order }}"}
  children:
    brokers:
      vars: {activemq_x_order: brokers, activemq_x_merge: {b: 2}}
      children:
        east: {hosts: {a-mq01-a.example.com: {activemq_x_host: in hosts}, a-mq01-b.example.com: }}
        west: {hosts: {a-mq02-a.example.com: , a-mq02-b.example.com: {activemq_x_order: host}}}
    zeta:
      vars: {activemq_x_prio: zeta, ansible_group_priority: 10}
      hosts: {a-mq01-a.example.com: }
    eta:
      vars: {activemq_x_prio: eta}
      hosts: {a-mq01-a.example.com: , a-mq01-b.example.com: }
""",
    "10-more.ini": "[west]\na-mq03-a.example.com activemq_x_ini='[1, 2]'\n[west:vars]\nactivemq_x_west=yes\n",
    "zz.activemq.yml": "plugin: activemq.fleet.topology\n",
    "group_vars/all/10.yml": "activemq_x_dir: first\nactivemq_x_merge: {c: 3}\n",
    "group_vars/all/20.yml": "activemq_x_dir: second\nactivemq_x_date: 2026-01-02\nactivemq_x_float: 1.5\n",
    "group_vars/activemq_masters.yml": "activemq_x_role: master\n",
    "group_vars/activemq_pair_a_mq02/main.yml": "activemq_x_role: pair\n",
    "group_vars/east": "activemq_x_order: east file\n",
    "host_vars/a-mq01-b.example.com.yml": "activemq_x_host: in host_vars\nactivemq_x_bool: true\n",
    "host_vars/a-mq02-a.example.com/one.json": '{"activemq_x_host": "json", "activemq_x_null": null}',
    "extra.yml.txt": "activemq_x_extra: from file\n",
}
TEMPLATED = {
    "group_vars/brokers.yml": """
base: /srv
activemq_x_path: "{{ base }}/{{ inventory_hostname_short }}"
activemq_x_here: "{{ inventory_dir | basename }} {{ group_names | join(',') }} {{ groups.activemq_masters | length }}"
activemq_x_peer: "{{ hostvars[groups[activemq_x_mine][-1]].activemq_x_path }}"
activemq_x_mine: "activemq_pair_{{ activemq_identity.pair | replace('-', '_') }}"
activemq_x_nested: [{name: "{{ activemq_x_order }}", "plain": 1}, "{{ 1 + 1 }}", !unsafe "{{ not_me }}"]
activemq_x_native: "{{ {'a': [1, true, none]} }}"
activemq_x_lines: "one\\n{{ base }}\\n"
activemq_x_default: "{{ undefined_variable | default('fallback') }}"
activemq_x_override: "#jinja2: variable_start_string:'[%', variable_end_string:'%]'\\n[% base %] {{ literal }}"
""",
}
EXTRA = ("activemq_x_kv=1 base=/extra", '{"activemq_x_json": {"deep": [1]}}')


def activemq_variables(variables: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in variables.items() if name.startswith("activemq_")}


def run(*command: str, cwd: Path) -> str:
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_LOCALHOST_WARNING": "0"}
    completed = subprocess.run(
        [BIN / command[0], *command[1:]], cwd=cwd, env=environment, capture_output=True, text=True, check=True
    )
    return completed.stdout


@pytest.mark.parametrize("name", ["all", "ungrouped"])
def test_host_with_name_of_group_of_every_inventory_is_input_error(name: str, write_files: Write) -> None:
    path = write_files({"hosts.yml": f"brokers:\n  hosts:\n    {name}:\n    orders-mq01-a:\n"})
    assert f"hosts.yml: a host is named {name}, but every Ansible inventory has a group" in input_error_text(path)


def test_precedence_of_read_variables_is_that_of_ansible_inventory(write_files: Write, tmp_path: Path) -> None:
    path = write_files(TRICKY)
    extra = [*EXTRA, f"@{path}/extra.yml.txt"]
    output = run("ansible-inventory", "-i", str(path), "--list", *(f"-e{e}" for e in extra), cwd=tmp_path)
    listed = json.loads(output, object_hook=lambda mapping: mapping.get("__ansible_unsafe", mapping))
    expected = {host: activemq_variables(variables) for host, variables in listed["_meta"]["hostvars"].items()}
    inventory = read_variables(path, *extra)
    for host in inventory.hosts:  # The only template, which ansible-inventory does not evaluate.
        expected[host]["activemq_x_all"] = expected[host]["activemq_x_order"]
        expected[host]["activemq_x_date"] = inventory.hosts[host]["activemq_x_date"]
    assert inventory.hosts == expected
    assert inventory.groups["activemq_pair_a_mq01"] == ["a-mq01-a.example.com", "a-mq01-b.example.com"]
    assert sorted(inventory.groups["brokers"]) == sorted(inventory.hosts)


PLAY = """
- hosts: all
  connection: local
  gather_facts: false
  vars: {ansible_python_interpreter: "{{ ansible_playbook_python }}"}
  tasks:
    - ansible.builtin.copy:
        dest: "{{ playbook_dir }}/found-{{ inventory_hostname }}"
        content: "{{ dict(names | zip(query('ansible.builtin.vars', *names))) | to_json }}"
      vars:
        names: "{{ query('ansible.builtin.varnames', '^activemq_') }}"
"""


def test_templated_variables_have_same_values_as_in_play(write_files: Write, tmp_path: Path) -> None:
    path = write_files({**TRICKY, **TEMPLATED})
    (tmp_path / "play.yml").write_text(PLAY)
    run("ansible-playbook", "-i", str(path), "play.yml", *(f"-e{e}" for e in EXTRA), cwd=tmp_path)
    expected = {file.name[6:]: json.loads(file.read_text()) for file in tmp_path.glob("found-*")}
    hosts = json.loads(json.dumps(read_variables(path, *EXTRA).hosts, default=str))
    assert hosts == expected
    assert hosts["a-mq01-a.example.com"]["activemq_x_peer"] == "/extra/a-mq01-b"


def test_inventory_values_are_of_plain_types(write_files: Write) -> None:
    def types(value: object) -> set[type]:
        if isinstance(value, dict):
            return {dict}.union(*(types(part) for item in value.items() for part in item))
        return {list}.union(*map(types, value)) if isinstance(value, list) else {type(value)}

    hosts = read_variables(write_files({**TRICKY, **TEMPLATED})).hosts
    modules = {
        value_type.__module__
        for variables in hosts.values()
        for value in variables.values()
        for value_type in types(value)
    }
    assert modules == {"builtins", "datetime"}


def test_only_activemq_variables_are_read_from_inventory(write_files: Write) -> None:
    path = write_files(
        {"hosts.yml": "all: {hosts: {a-mq01-a: {activemq_heap: 1g, other: '{{ undefined }}', ansible_x: 1}}}"}
    )
    assert read_variables(path).hosts == {"a-mq01-a": {"activemq_heap": "1g"}}


def test_list_of_hosts_is_read_as_inventory() -> None:
    inventory = read_inventory(["a-mq01-a,a-mq01-b"], extra_vars=["activemq_release=6.3.1"])
    assert inventory.hosts == {"a-mq01-a": {"activemq_release": "6.3.1"}, "a-mq01-b": {"activemq_release": "6.3.1"}}


def test_several_inventory_sources_are_combined(write_files: Write) -> None:
    path = write_files({"one.yml": PAIR, "two.ini": "b-mq01-a\n"})
    assert list(read_inventory([f"{path}/one.yml", f"{path}/two.ini"]).hosts) == ["a-mq01-a", "a-mq01-b", "b-mq01-a"]


def test_second_read_of_inventory_returns_changed_variables(write_files: Write) -> None:
    path = write_files({"hosts.yml": PAIR})
    assert read_variables(path, "activemq_x_extra=1").hosts["a-mq01-a"] == {"activemq_x_extra": "1"}
    write_files({"group_vars/all.yml": "activemq_x_new: 1\n", "host_vars/a-mq01-a.yml": "activemq_x_own: 2\n"})
    assert read_variables(path).hosts["a-mq01-a"] == {"activemq_x_new": 1, "activemq_x_own": 2}


def test_plain_inventory_value_is_same_object_for_all_hosts(write_files: Write) -> None:
    path = write_files({"hosts.yml": PAIR, "group_vars/all.yml": "activemq_x_list: [{a: 1}]\n"})
    first_values, second_values = read_variables(path).hosts.values()
    assert first_values["activemq_x_list"] is second_values["activemq_x_list"]


@pytest.mark.parametrize("present", [True, False], ids=["with the collection", "without the collection"])
def test_file_of_inventory_plugin_sets_groups_and_naming_pattern(
    write_files: Write, monkeypatch: pytest.MonkeyPatch, present: bool
) -> None:
    if not present:
        monkeypatch.setattr(inventory_loader, "has_plugin", lambda name: False)
    path = write_files({
        "hosts.yml": "all: {hosts: {a-mq01-1.x: , a-mq01-2.x: , web1: }}",
        "group_vars/activemq_masters.yml": "activemq_x_is: '{{ activemq_identity.pair }}'\n",
        "zz.activemq.yml": "plugin: activemq.fleet.topology\nmaster_node: '2'\n"
        "naming_pattern: '^(?P<group>[^.]+)-mq(?P<number>[0-9]+)-(?P<node>[12])'\n",
    })  # fmt: skip
    inventory = read_variables(path)
    assert inventory.groups["activemq_masters"] == ["a-mq01-2.x"]
    assert inventory.groups["activemq_brokers"] == ["a-mq01-1.x", "a-mq01-2.x"]
    assert inventory.hosts["a-mq01-2.x"]["activemq_x_is"] == "a-mq01"
    assert inventory.hosts["web1"]["activemq_naming_pattern"] == "^(?P<group>[^.]+)-mq(?P<number>[0-9]+)-(?P<node>[12])"
    assert inventory.hosts["a-mq01-1.x"]["activemq_identity"] == {
        "group": "a", "number": "01", "node": "1", "pair": "a-mq01", "role": "slave", "domain": "x",
    }  # fmt: skip


def test_invalid_pattern_in_plugin_file_is_error_with_and_without_collection(
    write_files: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_files({"hosts.yml": PAIR, "zz.activemq.yml": "plugin: activemq.fleet.topology\nnaming_pattern: '('\n"})
    assert "zz.activemq.yml cannot be read as an inventory: activemq_naming_pattern is not" in input_error_text(path)
    monkeypatch.setattr(inventory_loader, "has_plugin", lambda name: False)
    assert "activemq_naming_pattern is not a valid regular expression" in input_error_text(path)


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an inventory with two ciphertexts of different plaintexts; their password is ``right``."""
    directory = tmp_path_factory.mktemp("vault")
    (directory / "right").write_text("right\n")
    options = ["encrypt_string", "--vault-password-file", str(directory / "right")]
    encrypted_password, encrypted_template = (
        run("ansible-vault", *options, "--name", name, value, cwd=directory)
        for name, value in (("vault_password", "s3cret"), ("activemq_direct", "{{ not_a_template }}"))
    )
    return {
        "hosts.yml": PAIR,
        "group_vars/all.yml": f"{encrypted_password}\n{encrypted_template}\n"
        "activemq_indirect: '{{ vault_password }}'\n"
        "activemq_filtered: '{{ vault_password | upper }}'\n"
        "activemq_around: 'a{{ vault_password }}b'\n"
        "activemq_users: [{name: x, password: '{{ vault_password }}'}]\n"
        "activemq_asked: \"{% if vault_password == 's3cret' %}yes{% endif %}\"\n"
        "activemq_open: '{{ 1 + 1 }}'\n",
    }


class TestVault:
    def test_vault_value_is_decrypted_with_its_password(
        self, write_files: Write, tmp_path: Path, encrypted: dict[str, str]
    ) -> None:
        (tmp_path / "pw").write_text("right\n")
        decrypted_variables = read_variables(write_files(encrypted), vault_password_files=[str(tmp_path / "pw")]).hosts[
            "a-mq01-a"
        ]
        assert decrypted_variables == {
            "activemq_direct": "{{ not_a_template }}",
            "activemq_indirect": "s3cret",
            "activemq_filtered": "S3CRET",
            "activemq_around": "as3cretb",
            "activemq_users": [{"name": "x", "password": "s3cret"}],
            "activemq_asked": "yes",
            "activemq_open": 2,
        }

    def test_vault_value_is_decrypted_with_vault_id(
        self, write_files: Write, tmp_path: Path, encrypted: dict[str, str]
    ) -> None:
        (tmp_path / "pw").write_text("right\n")
        decrypted_variables = read_variables(write_files(encrypted), vault_ids=[f"prod@{tmp_path}/pw"]).hosts[
            "a-mq01-a"
        ]
        assert decrypted_variables["activemq_indirect"] == "s3cret"

    @pytest.mark.parametrize("password", [None, "wrong"])
    def test_vault_value_without_correct_password_remains_encrypted(
        self, write_files: Write, tmp_path: Path, encrypted: dict[str, str], password: str | None
    ) -> None:
        (tmp_path / "pw").write_text(f"{password}\n")
        files = [str(tmp_path / "pw")] if password else []
        first_values, second_values = read_variables(write_files(encrypted), vault_password_files=files).hosts.values()
        users = first_values.pop("activemq_users")
        assert isinstance(users, list)
        assert isinstance(users[0]["password"], UndecryptedVaultValue)
        assert first_values.pop("activemq_open") == 2
        assert {type(value) for value in first_values.values()} == {UndecryptedVaultValue}
        assert first_values == {name: value for name, value in second_values.items() if name in first_values}
        assert first_values["activemq_direct"] != first_values["activemq_indirect"]
        assert "$ANSIBLE_VAULT" not in repr(first_values)

    def test_error_about_encrypted_file_without_password_names_file(self, write_files: Write, tmp_path: Path) -> None:
        path = write_files({"hosts.yml": PAIR, "group_vars/all.yml": "activemq_x: 1\n"})
        (tmp_path / "pw").write_text("right\n")
        run("ansible-vault", "encrypt", "--vault-password-file", "pw", "inventory/group_vars/all.yml", cwd=tmp_path)
        assert "no vault secrets found" in (error_text := input_error_text(path))
        assert "group_vars/all.yml" in error_text

    def test_missing_vault_password_file_is_refused(self, write_files: Write) -> None:
        path = write_files({"hosts.yml": PAIR})
        with pytest.raises(InputError, match="nowhere was not found: correct its path"):
            read_variables(path, vault_password_files=["/nowhere"])


class TestRefusals:
    def test_error_about_undefined_variable_names_host_variable_and_line(self, write_files: Write) -> None:
        path = write_files({"hosts.yml": PAIR, "group_vars/all.yml": "x: 1\nactivemq_address: '{{ unset }}'\n"})
        problem = "the template in activemq_address has no value, because 'unset' is undefined ("
        assert input_error_text(path).startswith(f"a-mq01-a, a-mq01-b: {problem}")
        assert input_error_text(path).endswith(
            "group_vars/all.yml:2). Correct the template, or define the variables that the template uses"
        )

    @pytest.mark.parametrize(
        ("template", "reason"),
        [
            ("{{ 1 / 0 }}", "division by zero"),
            ("{{ x | nosuchfilter }}", "nosuchfilter"),
            ("{{ }", "activemq_x_t"),
            ("{{ lookup('file', '/nowhere') }}", "/nowhere"),
            ("{{ activemq_x_t }}", "the value refers to itself, or has too many levels"),
            ("{{ omit }}", "Omit"),
        ],
    )
    def test_error_about_failed_template_names_host_variable_and_cause(
        self, write_files: Write, template: str, reason: str
    ) -> None:
        path = write_files({"hosts.yml": json.dumps({"all": {"hosts": {"a-mq01-a": {"activemq_x_t": template}}}})})
        error_text = input_error_text(path)
        assert error_text.startswith("a-mq01-a: the template in activemq_x_t has no value, because ")
        assert reason in error_text

    def test_variable_with_identity_of_broker_is_omitted_on_other_hosts(self, write_files: Write) -> None:
        path = write_files({
            "hosts.yml": "all: {hosts: {a-mq01-a: , web1: }}",
            "group_vars/all.yml": "activemq_store_directory: '/srv/{{ activemq_identity.pair }}'\nactivemq_heap: 1g\n",
            "zz.activemq.yml": "plugin: activemq.fleet.topology\n",
        })  # fmt: skip
        assert read_variables(path).hosts["web1"] == {"activemq_heap": "1g"}

    def test_undefined_variable_of_agent_is_error(self, write_files: Write) -> None:
        path = write_files({"hosts.yml": "all: {hosts: {a-mq01-a: , app1: {activemq_agent_password: '{{ unset }}'}}}"})
        problem = "the template in activemq_agent_password has no value, because 'unset' is undefined"
        assert input_error_text(path).startswith(f"app1: {problem}")

    @pytest.mark.parametrize(
        ("files", "reason"),
        [
            (
                {"hosts.yml": "all:\n  hosts: {a: [\n"},
                r"hosts.yml cannot be read as an inventory: YAML .*hosts.yml:2\)",
            ),
            ({"hosts.yml": "---\n"}, "hosts.yml cannot be read as an inventory: Parsed empty YAML file"),
            ({"hosts.yml": "a: 1\n"}, "Ansible ignores a at the top level of the file, because it is not a group"),
            ({"hosts": '[a\nb="\n'}, "hosts cannot be read as an inventory: "),
            ({"hosts.yml": PAIR, "x.yml": "plugin: no.such.plugin\n"}, "x.yml .*unknown plugin 'no.such.plugin'"),
            ({"hosts.yml": "all: {children: {a: }}\n"}, "the inventory has no hosts"),
            ({"README.md": "hello\n"}, "the inventory has no hosts"),
            ({"hosts.yml": PAIR, "group_vars/all.yml": "a: [\n"}, r"YAML parsing failed.*group_vars/all.yml:1\)"),
            (
                {
                    "hosts.yml": PAIR,
                    "zz.activemq.yml": "plugin: activemq.fleet.topology\n",
                    "group_vars/all.yml": "a: [\n",
                },
                r"^YAML parsing failed: [^/]*\(/[^ ]*group_vars/all.yml:1\)$",
            ),
            ({"hosts.yml": PAIR, "group_vars/all.yml": "[1]\n"}, "group_vars/all.yml"),
        ],
    )
    def test_inventory_that_cannot_be_read_is_error(
        self, write_files: Write, files: dict[str, str], reason: str
    ) -> None:
        path = write_files(files)
        with pytest.raises(InputError, match=reason):
            read_variables(path)

    @pytest.mark.parametrize("content", [b"\xff\xfe\x00a: 1", b"a\0b: 1\n"])
    @pytest.mark.parametrize("name", ["hosts.yml", "hosts"])
    def test_error_about_file_that_is_not_text_requires_utf_8(
        self, write_files: Write, name: str, content: bytes
    ) -> None:
        path = write_files({name: ""}) / name
        path.write_bytes(content)
        assert input_error_text(path) == (
            f"{path} cannot be read as an inventory: the file is not text in UTF-8. Set -i to an inventory in YAML or "
            "INI"
        )

    def test_inventory_whose_first_bytes_end_within_character_is_read(self, write_files: Write) -> None:
        assert list(read_variables(write_files({"hosts.yml": f"# {'é' * 9000}\n{PAIR}"})).hosts) == list(
            read_variables(write_files({"a.yml": PAIR})).hosts
        )

    def test_error_about_executable_without_json_output_names_chmod(self, write_files: Write) -> None:
        script = write_files({"hosts.sh": "#!/bin/sh\necho hello\n"}) / "hosts.sh"
        script.chmod(0o755)
        assert "Ansible runs it as a script: correct its output" in input_error_text(script)
        assert "run chmod -x" in input_error_text(script)

    def test_error_about_list_as_inventory_has_no_class_names(self, write_files: Write) -> None:
        error_text = input_error_text(write_files({"hosts.yml": "- a-mq01-a\n- a-mq01-b\n"}))
        assert "the file contains a list, but an inventory is a mapping of groups" in error_text
        assert "class" not in error_text

    def test_error_about_missing_inventory_file_suggests_comma_for_host(self, tmp_path: Path) -> None:
        problem = f"{tmp_path}/nowhere: this inventory file or directory does not exist: correct the path"
        assert (
            input_error_text(tmp_path / "nowhere") == f"{problem}. To name a single host, write a comma after its name"
        )

    def test_read_without_inventory_is_error(self) -> None:
        with pytest.raises(InputError, match="no inventory is selected"):
            read_inventory([])

    @pytest.mark.parametrize("extra", ['{"a":', "[1]", "@/nowhere", "word", 'a="', "/path"])
    def test_invalid_extra_variables_are_error(self, write_files: Write, extra: str) -> None:
        error_text = input_error_text(write_files({"hosts.yml": PAIR}), extra)
        assert error_text.startswith(("the extra variables (-e) cannot be read (", "the text "))
        assert "Correct the value of -e" in error_text or "write NAME=VALUE" in error_text

    def test_inventory_read_returns_warnings_and_prints_nothing(
        self, write_files: Write, capfd: pytest.CaptureFixture[str]
    ) -> None:
        hosts = "all: {children: {a-b: {hosts: {a-mq01-a: , a-mq01-x: }, vars: {environment: 1}}}}"
        path = write_files({"hosts.yml": hosts, "zz.activemq.yml": "plugin: activemq.fleet.topology\n"})
        warnings = read_variables(path).warnings
        assert any("Invalid characters were found in group names" in text for text in warnings)
        assert not any("a-mq01-x" in text for text in warnings)  # The fleet reports this host.
        assert all("\n" not in text for text in warnings)
        assert capfd.readouterr() == ("", "")

    @pytest.mark.parametrize(
        ("environment", "reason"),
        [
            (
                {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
                "Ansible requires the locale encoding to be UTF-8",
            ),
            ({"ANSIBLE_FORKS": "abc"}, "Config 'DEFAULT_FORKS'"),
        ],
        ids=["locale", "configuration"],
    )
    def test_error_names_cause_if_ansible_cannot_start(
        self, write_files: Write, environment: dict[str, str], reason: str
    ) -> None:
        completed = count_hosts_in_new_process(write_files({"hosts.yml": PAIR}), environment)
        assert "Traceback" not in completed.stderr
        assert f"Ansible cannot start ({reason}" in completed.stdout

    def test_inventory_read_prints_nothing_if_environment_sets_verbosity_and_debug(self, write_files: Write) -> None:
        environment = {"ANSIBLE_VERBOSITY": "4", "ANSIBLE_DEBUG": "1"}
        completed = count_hosts_in_new_process(write_files({"hosts.yml": PAIR}), environment)
        assert (completed.stdout, completed.stderr) == ("2\n", "")

    def test_file_of_inventory_plugin_is_read_if_environment_enables_only_others(self, write_files: Write) -> None:
        path = write_files({"hosts.yml": PAIR, "zz.activemq.yml": "plugin: activemq.fleet.topology\n"})
        assert count_hosts_in_new_process(path, {"ANSIBLE_INVENTORY_ENABLED": "yaml"}).stdout == "2\n"


def count_hosts_in_new_process(path: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a process that prints the number of hosts of the inventory, or the error."""
    program = """
import sys
from activemq_fleet.errors import InputError
from activemq_fleet.inventory import read_inventory
try:
    print(len(read_inventory(sys.argv[1:]).hosts))
except InputError as error:
    print(error)
"""
    return subprocess.run(
        [sys.executable, "-c", program, str(path)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )


def test_variables_whose_names_are_not_text_are_ignored(write_files: Write) -> None:
    inventory = write_files({"hosts.yml": "all: {hosts: {o-mq1-a: }}\n", "group_vars/all.yml": "?\n"})

    assert read_variables(inventory).hosts == {"o-mq1-a": {}}


def test_template_in_naming_variable_is_error(write_files: Write) -> None:
    path = write_files({"hosts.yml": "all: {hosts: {orders-mq01-a: {activemq_pair: '{{ inventory_hostname }}'}}}\n"})
    assert "orders-mq01-a: activemq_pair is a template, but Ansible groups" in input_error_text(path)


@pytest.mark.parametrize("variables_file", ["hosts.yml", "group_vars/all.yml"])
@pytest.mark.parametrize("variable", ["activemq_kahadb", "other"])
def test_value_that_contains_itself_is_one_error_with_its_line(
    variables_file: str, variable: str, write_files: Write
) -> None:
    files = {"hosts.yml": "all:\n  hosts:\n    mq1-a:\n  vars:\n", "group_vars/all.yml": "---\n"}
    files[variables_file] += f"    {variable}: &users\n      key: *users\n"
    path = write_files(files)
    line = files[variables_file].count("\n")
    assert input_error_text(path) == (
        f"{path / variables_file}:{line}: the value of the anchor &users contains itself: remove the alias *users"
    )


def test_value_with_too_many_levels_is_one_error_with_its_line(write_files: Write) -> None:
    path = write_files({"hosts.yml": f"all:\n  hosts:\n    mq1-a:\n  vars:\n    other: {'[' * 500}{']' * 500}\n"})
    assert input_error_text(path) == (
        f"{path}/hosts.yml:5: the value has more than 100 levels of lists and mappings: remove levels"
    )


def test_hosts_of_group_come_level_by_level_in_order_of_files(tmp_path: Path) -> None:
    """The order determines the priorities of load balancers; Ansible's order of deeper levels differs by process."""
    names = [f"lb{number}" for number in range(1, 9)]
    children: dict[str, Any] = {
        f"site{number}": {"children": {f"rack{number}": {"hosts": {name: {}}}}} for number, name in enumerate(names)
    }
    groups = {"activemq_loadbalancers": {"hosts": {"lb9": {}}, "children": children}}
    (tmp_path / "hosts.yml").write_text(json.dumps(groups))

    assert read_inventory([str(tmp_path / "hosts.yml")]).groups["activemq_loadbalancers"] == ["lb9", *names]
