"""Only the inventory and extra variables configure a fleet, not facts, a fact cache, or results of tasks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml
from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.template import trust_as_template
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

from activemq_fleet.errors import SettingsError
from activemq_fleet.inventory import inventory_data_of_play, raise_for_variables_set_at_runtime
from tests.support.played_sites import KIOSK, A, B, LocalSite, make_local_site
from tests.unit.hostile_hosts import HostilePython

ATTACKER = "kiosk01"
PLAIN = "app01"
RESTRICTED = {
    "acl": [{"destination": "orders.>", "kind": "queue", "read": ["apps"], "write": ["apps"], "admin": ["apps"]}],
    "users": [{"name": "till", "password": "canary-till", "groups": ["apps"]}],
    "network_username": "network",
    "network_password": "canary-network",
}


@pytest.fixture
def site(tmp_path: Path) -> LocalSite:
    return make_local_site(tmp_path)


def single_line(text: str) -> str:
    return re.sub(r"\s+", " ", text.replace("\\n", " "))


class FactAttack(NamedTuple):
    """The outcome of a play that gathers facts from a hostile host, compiles, and runs the agent's role."""

    edits: int
    exit_status: int
    printed: str
    evaluated: Path
    copied: Path


@pytest.fixture(scope="module")
def fact_attack(tmp_path_factory: pytest.TempPathFactory) -> FactAttack:
    site = make_local_site(tmp_path_factory.mktemp("facts"))
    private, evaluated, copied = site.root / "controller", site.root / "evaluated", site.root / "on-the-host"
    private.mkdir()
    (private / "id_ed25519").write_text("CONTROLLER-PRIVATE-KEY")
    template = f"{{{{ lookup('ansible.builtin.pipe', 'touch {evaluated}') }}}}/x"
    facts = {
        "activemq_agent_topics": ["#"],
        "activemq_agent_publish_prefixes": ["+", "+/+"],
        "activemq_x_note": template,
        "activemq_agent_handlers": str(copied),
        "activemq_agent_handlers_source": str(private),
    }
    python = HostilePython.with_facts(site.root / "hostile", facts)
    hostile = {**KIOSK, "activemq_agent_topics": ["events/#"], "ansible_python_interpreter": str(python.path)}
    site.write_inventory(A, B, agents={ATTACKER: hostile}, **RESTRICTED)
    setup = {
        "ansible.builtin.setup": {"gather_subset": ["!all", "!min"]},
        "when": f"inventory_hostname == '{ATTACKER}'",
    }
    compiled = {"activemq.fleet.compile": {"archives": True}, "run_once": True, "register": "__activemq_site"}
    role = {"ansible.builtin.include_role": {"name": "activemq.fleet.agent", "tasks_from": "handlers"}}
    plays = [
        {"hosts": "all", "gather_facts": False, "tasks": [setup, compiled]},
        {"hosts": "activemq_agents", "gather_facts": False, "tasks": [role]},
    ]
    (site.root / "play.yml").write_text(yaml.safe_dump(plays))
    process = site.start(str(site.root / "play.yml"))
    printed, _ = process.communicate(timeout=500)
    return FactAttack(python.edits_made(), process.returncode, single_line(printed), evaluated, copied)


def test_compile_refuses_gathered_facts_with_names_of_variables(fact_attack: FactAttack) -> None:
    """In attack p13, a fact of a host grants more access to the broker of another host."""
    assert fact_attack.edits == 1, fact_attack.printed
    assert fact_attack.exit_status == 2, fact_attack.printed
    assert f"{ATTACKER}: activemq_agent_topics is a fact of the host" in fact_attack.printed


def test_agent_role_copies_no_directory_named_by_fact(fact_attack: FactAttack) -> None:
    """In attack p13b, a host receives the files of a directory of the controller."""
    assert fact_attack.edits == 1, fact_attack.printed
    assert not fact_attack.copied.exists()
    assert f"{ATTACKER}: activemq_agent_handlers_source is a fact of the host" in fact_attack.printed


def test_templates_in_facts_are_not_evaluated(fact_attack: FactAttack) -> None:
    """Attack p13c uses a fact that contains a template."""
    assert fact_attack.edits == 1, fact_attack.printed
    assert not fact_attack.evaluated.exists()


@pytest.mark.parametrize("set_variable", ["set_fact", "register", "include_vars"])
def test_variables_that_tasks_set_are_refused(tmp_path: Path, set_variable: str) -> None:
    manager, hostvars = hosts_of(tmp_path, {"activemq_waivers": []})
    if set_variable == "include_vars":
        manager.set_host_variable(PLAIN, "activemq_waivers", [])
    else:
        manager.set_nonpersistent_facts(PLAIN, {"activemq_waivers": []})

    with pytest.raises(SettingsError, match=f"{PLAIN}: a task sets activemq_waivers with set_fact"):
        raise_for_variables_set_at_runtime(hostvars)


def test_host_cannot_choose_path_that_status_writes(site: LocalSite) -> None:
    """In this attack, a fact that a module of the playbook returns names a file of the controller."""
    controller_file = site.root / "overwritten.json"
    python = HostilePython.with_results(
        site.root / "hostile", "broker", {"ansible_facts": {"activemq_status_to": str(controller_file)}}
    )
    site.write_inventory(A, B)
    inventory = yaml.safe_load((site.root / "hosts.yml").read_text())
    inventory["all"]["hosts"][A] = {"ansible_python_interpreter": str(python.path)}
    (site.root / "hosts.yml").write_text(yaml.safe_dump(inventory))

    _, printed = site.play("status")

    assert python.edits_made() == 1, printed
    assert not controller_file.exists(), printed
    assert f"{A}" in printed
    assert "activemq_status_to is a fact of the host" in single_line(printed)


@pytest.mark.parametrize("value", [-3, 0, "abc", 1.5])
def test_status_refuses_invalid_timeout_before_it_queries_hosts(site: LocalSite, value: object) -> None:
    site.write_inventory(A, B)
    status, output = site.play("status", "-e", json.dumps({"activemq_status_timeout": value}))
    assert status == 2
    assert f"{A}: activemq_status_timeout is '{value}'. Set it to a whole number of 1 or more" in single_line(output)
    assert "PLAY [Gather]" not in output


def test_status_refuses_invalid_timeout_of_second_host(site: LocalSite) -> None:
    site.write_inventory(A, B, status_timeout=f"{{{{ 30.0 if inventory_hostname == '{A}' else 0 }}}}")
    status, output = site.play("status")
    assert status == 2
    assert f"{B}: activemq_status_timeout is '0'. Set it to a whole number of 1 or more" in single_line(output)
    assert "PLAY [Gather]" not in output


def test_check_refuses_cached_facts_with_names_of_variables(site: LocalSite) -> None:
    site.write_inventory(A, B)
    cache = site.root / "facts"
    cache.mkdir()
    facts = json.dumps({"activemq_waivers": [{"rule": "S001", "reason": "x"}]})
    (cache / f"s1_{A}").write_text(json.dumps({"__payload__": facts}))
    environment = os.environ | {
        "ANSIBLE_CACHE_PLUGIN": "jsonfile",
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(cache),
        "ACTIVEMQ_FLEET_CACHE": str(site.root / "cache"),
    }

    completed = subprocess.run(
        [sys.executable, "-m", "activemq_fleet", "check", "-i", str(site.root / "hosts.yml")],
        env=environment,
        cwd=site.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )

    assert completed.returncode == 2, completed.stdout
    assert f"{A}: activemq_waivers is a fact of the host" in single_line(completed.stdout)
    assert "--flush-cache" in completed.stdout


def hosts_of(tmp_path: Path, variables: Mapping[str, object]) -> tuple[VariableManager, HostVars]:
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump({"all": {"hosts": {A: {}, PLAIN: {}}, "vars": dict(variables)}}))
    loader = DataLoader()
    inventory = InventoryManager(loader=loader, sources=[str(tmp_path / "hosts.yml")])
    manager = VariableManager(loader=loader, inventory=inventory)
    return manager, HostVars(inventory, manager, loader)


def test_variable_of_template_has_precedence_over_fact(tmp_path: Path) -> None:
    variables = {
        "site_release": "5.18.3",
        "activemq_release": "{{ site_release }}",
        "activemq_x_of_other": f"{{{{ hostvars['{PLAIN}'].site_release }}}}",
    }
    manager, hostvars = hosts_of(tmp_path, variables)
    for host in (A, PLAIN):
        manager.set_host_facts(host, {"site_release": "5.5.1"})

    settings = inventory_data_of_play(hostvars, hostvars._loader).hosts[A]

    assert hostvars.raw_get(A)["site_release"] == "5.5.1"
    assert (settings["activemq_release"], settings["activemq_x_of_other"]) == ("5.18.3", "5.18.3")


def test_template_may_refer_to_facts_and_results(tmp_path: Path) -> None:
    variables = {
        "activemq_heap": "{{ ansible_facts.memory }}m",
        "activemq_x_result": "{{ measured.stdout }}",
        "activemq_x_other": f"{{{{ hostvars['{PLAIN}'].ansible_facts.memory }}}}",
    }
    manager, hostvars = hosts_of(tmp_path, variables)
    for host in (A, PLAIN):
        manager.set_host_facts(host, {"memory": 512})
        manager.set_nonpersistent_facts(host, {"measured": {"stdout": "x"}, "__activemq_site": {}})

    settings = inventory_data_of_play(hostvars, hostvars._loader).hosts[A]

    assert settings == {"activemq_heap": "512m", "activemq_x_result": "x", "activemq_x_other": 512}


@pytest.mark.parametrize("name", ["activemq_waivers", "activemq_unheard_of", "__activemq_site"])
def test_fact_with_name_of_project_variable_is_refused(tmp_path: Path, name: str) -> None:
    manager, hostvars = hosts_of(tmp_path, {})
    manager.set_host_facts(PLAIN, {name: trust_as_template("{{ 1 }}")})

    with pytest.raises(SettingsError, match=f"{PLAIN}: {name} is a fact of the host"):
        raise_for_variables_set_at_runtime(hostvars)
