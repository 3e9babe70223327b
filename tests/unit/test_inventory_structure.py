"""A mistake in the structure of an inventory is one finding that names its cause, its file and line, and the fix."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.cli.main import main
from activemq_fleet.findings import join_problem_and_remedy

HOSTS = """\
all:
  children:
    orders:
      hosts:
        kiel1:
          activemq_pair: kiel
          activemq_node: a
        kiel2:
          activemq_pair: kiel
          activemq_node: b
        bonn1:
          activemq_pair: bonn
          activemq_node: a
        bonn2:
          activemq_pair: bonn
          activemq_node: b
"""
KIEL2 = "        kiel2:\n          activemq_pair: kiel\n          activemq_node: b\n"
FILES = {
    "hosts.yml": HOSTS,
    "group_vars/all.yml": (
        "activemq_release: 6.3.1\nactivemq_ha: shared-file\nactivemq_authentication: none\nactivemq_group: orders\n"
    ),
    "zz.activemq.yml": "plugin: activemq.fleet.topology\n",
}
Check = Callable[[Mapping[str, str]], tuple[int, list[dict[str, Any]]]]


@pytest.fixture
def check_inventory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Check:
    """Return a function that checks the inventory of the given files, in addition to ``FILES``.

    It returns the exit code and the findings about the topology; the inventory is the directory ``inventory``.
    """
    monkeypatch.chdir(tmp_path)

    def run_check(files: Mapping[str, str]) -> tuple[int, list[dict[str, Any]]]:
        for name, text in {**FILES, **files}.items():
            path = tmp_path / "inventory" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        options = ["--select", "T", "--ignore", "T016,T030,T029", "--format", "json"]
        exit_code = main(["check", "-i", "inventory", *options])
        return exit_code, json.loads(capsys.readouterr().out)["findings"]

    return run_check


def edited_inventory(old: str, new: str, text: str = HOSTS) -> dict[str, str]:
    assert old in text
    return {"hosts.yml": text.replace(old, new, 1)}


def test_inventory_without_mistakes_has_no_findings(check_inventory: Check) -> None:
    assert check_inventory({}) == (0, [])


FINDINGS: dict[str, tuple[dict[str, str], str, str, str, str]] = {
    "misspelled section": (
        edited_inventory("all:\n", "all:\n  var:\n    activemq_heap: 1g\n"),
        "T038 error",
        "hosts.yml:2",
        "Ansible ignores the key var of group all, because it is not hosts, children or vars",
        "rename the key var to vars",
    ),
    "repeated host": (
        {"hosts.yml": f"{HOSTS}        kiel1:\n          activemq_pair: bonn\n          activemq_node: b\n"},
        "T038 error",
        "hosts.yml:17",
        "the key kiel1 of hosts exists twice, here and in line 5: Ansible uses only the later key",
        "rename or remove one of the two hosts kiel1",
    ),
    "host in two groups of a file with two values": (
        {"hosts.yml": f"{HOSTS}    other:\n      hosts:\n        kiel1:\n          activemq_pair: bonn\n"},
        "T038 error",
        "hosts.yml:20",
        "activemq_pair of host kiel1 has different values in lines 6 and 20: Ansible uses only the last one",
        "keep one of the values of activemq_pair",
    ),
    "host indented as a group": (
        {"hosts.yml": f"{HOSTS.replace(KIEL2, '')}    kiel2:\n      activemq_pair: kiel\n      activemq_node: b\n"},
        "T038 error",
        "hosts.yml:14",
        "Ansible reads kiel2 as a group and ignores the variables directly below it: activemq_pair, activemq_node",
        "if kiel2 is a host, like kiel1, move it below `hosts:` of its group",
    ),
    "host without variables indented as a group": (
        {
            "hosts.yml": "all:\n  children:\n    orders:\n      hosts:\n        orders-mq01-a:\n    orders-mq01-b:\n",
            "group_vars/all.yml": "activemq_release: 6.3.1\nactivemq_ha: none\nactivemq_authentication: none\n",
        },
        "T038 warning",
        "hosts.yml:6",
        "orders-mq01-b is listed as a group below `children:`, but the group has no hosts",
        "if orders-mq01-b is a host, like orders-mq01-a, move it below `hosts:`. Otherwise give the group hosts, "
        "or remove it",
    ),
    "host indented below another host": (
        edited_inventory(KIEL2, KIEL2.replace("        ", "          ", 1).replace("\n          ", "\n            ")),
        "T038 error",
        "hosts.yml:8",
        "activemq_pair below kiel2 has no effect: kiel2 is indented as a variable of host kiel1",
        "if kiel2 is a host, indent it like the other hosts",
    ),
    "variable directly in a group": (
        edited_inventory("    orders:\n", "    orders:\n      activemq_heap: 1g\n"),
        "T038 error",
        "hosts.yml:4",
        "Ansible ignores variables of group orders that are not below `vars:`: activemq_heap",
        "move activemq_heap below `vars:` of group orders",
    ),
    "variable directly in all": (
        edited_inventory("all:\n", "all:\n  activemq_heap: 1g\n"),
        "T038 error",
        "hosts.yml:2",
        "Ansible ignores variables of group all that are not below `vars:`: activemq_heap",
        "move activemq_heap below `vars:` of group all",
    ),
    "variable where groups are listed": (
        {"hosts.yml": f"{HOSTS}activemq_heap: 1g\n"},
        "T038 error",
        "hosts.yml:17",
        "Ansible ignores activemq_heap at the top level of the file, because it is not a group",
        "move activemq_heap below `vars:` of a group, such as `all:`",
    ),
    "group directly in all": (
        {"hosts.yml": f"{HOSTS}  other:\n    hosts:\n      kiel1:\n"},
        "T038 error",
        "hosts.yml:17",
        "Ansible ignores the key other of group all, because it is not hosts, children or vars",
        "move the group other below `children:` of group all",
    ),
    "host directly in a group": (
        {"hosts.yml": f"{HOSTS}sites:\n  kiel1:\n"},
        "T038 error",
        "hosts.yml:18",
        "Ansible ignores the key kiel1 of group sites, because it is not hosts, children or vars",
        "if kiel1 is a host, move it below `hosts:` of group sites",
    ),
    "section indented too deep": (
        {"hosts.yml": f"{HOSTS}      vars:\n        vars:\n          activemq_heap: 1g\n"},
        "T038 error",
        "hosts.yml:18",
        "vars is indented as a variable of group orders",
        "indent `vars:` as far as the other sections of its group",
    ),
    "file of a misspelled group": (
        {"group_vars/oders.yml": "activemq_heap: 1g\n"},
        "T039 warning",
        "group_vars/oders.yml:1",
        "the inventory has no group oders, so Ansible ignores the variables in this file",
        "rename oders.yml to orders.yml",
    ),
    "directory of a misspelled group": (
        {"group_vars/oders/main.yml": "activemq_heap: 1g\n"},
        "T039 warning",
        "group_vars/oders/main.yml:1",
        "the inventory has no group oders, so Ansible ignores the variables in this file",
        "rename oders to orders",
    ),
    "file of a group that is not similar": (
        {"group_vars/warehouse.yml": "activemq_heap: 1g\n"},
        "T039 warning",
        "group_vars/warehouse.yml:1",
        "the inventory has no group warehouse",
        "give the file the name of an existing group, or remove the file",
    ),
    "file of a misspelled host": (
        {"host_vars/keil1.yml": "activemq_heap: 1g\n"},
        "T039 warning",
        "host_vars/keil1.yml:1",
        "the inventory has no host keil1",
        "rename keil1.yml to kiel1.yml",
    ),
    "file of a host among those of groups": (
        {"group_vars/kiel1.yml": "activemq_heap: 1g\n"},
        "T039 warning",
        "group_vars/kiel1.yml:1",
        "the inventory has no group kiel1",
        "move the file to host_vars, because kiel1 is a host",
    ),
    "file with a misspelled extension": (
        {"group_vars/orders.yamll": "activemq_heap: 1g\n"},
        "T039 warning",
        "group_vars/orders.yamll:1",
        "Ansible ignores these variables of orders, because it reads no file with the extension .yamll",
        "rename the file to orders.yml",
    ),
    "misspelled directory of variables": (
        {"host_var/kiel1.yml": "activemq_heap: 1g\n"},
        "T039 warning",
        "host_var/kiel1.yml:1",
        "Ansible does not read variables from the directory host_var",
        "rename the directory host_var to host_vars",
    ),
    "host in two groups with two pairs": (
        {
            "hosts.yml": HOSTS.replace("          activemq_pair: kiel\n", "", 1)
            + "    other:\n      hosts:\n        kiel1:\n    third:\n      hosts:\n        kiel1:\n",
            "group_vars/other.yml": "activemq_pair: kiel\n",
            "group_vars/third.yml": "activemq_pair: bonn\n",
        },
        "T040 error",
        "group_vars/third.yml:1",
        "the groups other and third of the host set activemq_pair to different values",
        "remove the host from one of the two groups",
    ),
    "misspelled group of agents": (
        {"hosts.yml": f"{HOSTS}    activemq_agent:\n      hosts:\n        web1:\n"},
        "T041 warning",
        "hosts.yml:17",
        "activemq.fleet ignores the group activemq_agent, although its name resembles activemq_agents",
        "rename the group activemq_agent to activemq_agents",
    ),
    "variables of a host below vars": (
        edited_inventory(KIEL2, "        kiel2:\n          vars:\n            activemq_pair: kiel\n"),
        "T038 error",
        "hosts.yml:9",
        "vars is indented as a variable of host kiel2",
        "remove `vars:`, and write the variables directly below host kiel2",
    ),
    "variable twice in group_vars": (
        {"group_vars/orders.yml": "activemq_heap: 1g\nactivemq_port_offset: 0\nactivemq_heap: 2g\n"},
        "T038 error",
        "group_vars/orders.yml:3",
        "the key activemq_heap exists twice, here and in line 1: Ansible uses only the later key",
        "remove one of the two keys activemq_heap",
    ),
    "file of a host with a domain": (
        {"host_vars/kiel1.example.com.yml": "activemq_heap: 1g\n"},
        "T039 warning",
        "host_vars/kiel1.example.com.yml:1",
        "the inventory has no host kiel1.example.com",
        "rename kiel1.example.com.yml to kiel1.yml",
    ),
    "group with the name of a host": (
        edited_inventory("    orders:\n", "    kiel1:\n"),
        "T038 warning",
        "hosts.yml:3",
        "a group and a host have the same name kiel1",
        "rename the group kiel1",
    ),
    "node in the wrong pair": (
        edited_inventory("kiel2:\n          activemq_pair: kiel", "kiel2:\n          activemq_pair: bonn"),
        "T003 error",
        "hosts.yml:9",
        "the host is node b of pair bonn (set by activemq_pair), but the host bonn2 is the same node",
        "set activemq_pair of kiel2 to kiel, which has one node",
    ),
    "machine of another host": (
        {
            "hosts.yml": HOSTS.replace("kiel1:\n", "kiel1:\n          ansible_host: 10.0.0.1\n").replace(
                "kiel2:\n", "kiel2:\n          ansible_host: 10.0.0.1\n"
            )
        },
        "T009 error",
        "hosts.yml:10",
        "Ansible connects to 10.0.0.1 (ansible_host) for this host and for kiel1, and both have the same",
        "correct ansible_host of one of the hosts",
    ),
    "name of another host as address": (
        {"hosts.yml": HOSTS.replace("kiel2:\n", "kiel2:\n          ansible_host: kiel1\n")},
        "T009 error",
        "hosts.yml:9",
        "Ansible connects to kiel1 (ansible_host) for this host and for kiel1, and both have the same",
        "correct ansible_host of one of the hosts",
    ),
    "misspelled pair": (
        edited_inventory("kiel2:\n          activemq_pair: kiel", "kiel2:\n          activemq_pair: keil"),
        "T002 error",
        "hosts.yml:6",
        "the pairs kiel and keil (activemq_pair of kiel2) have only one node each",
        "if the two hosts are a pair, set activemq_pair to keil or kiel on both",
    ),
    "node twice": (
        edited_inventory("activemq_node: b", "activemq_node: a"),
        "T003 error",
        "hosts.yml:10",
        "the host is node a of pair kiel (set by activemq_node), but the host kiel1 is the same node",
        "correct activemq_node of kiel2 or of kiel1, or remove one of the hosts",
    ),
    "node deleted": (
        edited_inventory(KIEL2, ""),
        "T002 error",
        "hosts.yml:6",
        "pair kiel has only one node: no other host has activemq_pair kiel",
        "set activemq_pair to kiel on the other node",
    ),
    "third node": (
        {"hosts.yml": f"{HOSTS}        kiel3:\n          activemq_pair: kiel\n          activemq_node: c\n"},
        "T002 error",
        "hosts.yml:18",
        "pair kiel (set by activemq_pair) must have 2 nodes, but has 3: a (kiel1), b (kiel2), c (kiel3)",
        "set another activemq_pair on the other hosts",
    ),
    "broker without a node": (
        edited_inventory("          activemq_node: b\n", ""),
        "T001 error",
        "hosts.yml:8",
        "the node of the broker is unknown",
        "set activemq_node of the host",
    ),
    "broker without a pair": (
        edited_inventory("kiel2:\n          activemq_pair: kiel\n", "kiel2:\n"),
        "T001 error",
        "hosts.yml:8",
        "the pair of the broker is unknown",
        "set activemq_pair of the host",
    ),
    "node of another group": (
        edited_inventory("activemq_node: b\n", "activemq_node: b\n          activemq_group: billing\n"),
        "T009 error",
        "hosts.yml:11",
        "activemq_group differs from the value of kiel1 in pair kiel",
        "set activemq_group to the same value for all brokers of pair kiel",
    ),
    "another release line": (
        edited_inventory("activemq_node: b\n", "activemq_node: b\n          activemq_release: 5.18.3\n"),
        "T004 error",
        "hosts.yml:11",
        "activemq_release is 5.18.3, but the other node kiel1 of the pair has 6.3.1",
        "set the same activemq_release on both nodes",
    ),
    "another store": (
        edited_inventory("activemq_node: b\n", "activemq_node: b\n          activemq_store_directory: /mnt/x\n"),
        "T009 error",
        "hosts.yml:11",
        "activemq_store_directory differs from the value of kiel1 in pair kiel",
        "set activemq_store_directory to the same value for all brokers of pair kiel",
    ),
    "address of another host": (
        edited_inventory(
            "activemq_node: b\n",
            "activemq_node: b\n          activemq_address: bonn1\n          activemq_instance: second\n",
        ),
        "T006 error",
        "hosts.yml:11",
        "the broker on bonn1 listens on the same address bonn1 (activemq_address) and the same ports 61616 ",
        "set another activemq_address for one of the brokers. If they run on one machine, set activemq_port_offset: 10",
    ),
}


@pytest.mark.parametrize(
    ("files", "rule", "position", "message", "fix"),
    FINDINGS.values(),
    ids=[name.replace(" ", "-") for name in FINDINGS],
)
def test_structural_mistake_of_inventory_is_one_finding_with_position_and_fix(
    files: dict[str, str], rule: str, position: str, message: str, fix: str, check_inventory: Check
) -> None:
    exit_code, findings = check_inventory(files)

    reported = [
        (f"{finding['rule']} {finding['severity']}", f"{finding['file']}:{finding['line']}") for finding in findings
    ]
    assert reported == [(rule, f"inventory/{position}")]
    assert message in findings[0]["message"]
    assert fix in findings[0]["fix"]
    assert exit_code == (1 if rule.endswith("error") else 0)


UNUSABLE: dict[str, tuple[dict[str, str], str, str]] = {
    "misspelled pair variable": (
        edited_inventory("activemq_pair: kiel", "activemq_piar: kiel"),
        "hosts.yml:6",
        "activemq_piar is not a variable of activemq.fleet: did you mean activemq_pair?",
    ),
    "misspelled prefix of the pair": (
        edited_inventory("activemq_pair: kiel", "activmq_pair: kiel"),
        "hosts.yml:6",
        "activmq_pair is not a variable of activemq.fleet: did you mean activemq_pair?",
    ),
    "misspelled prefix of the node": (
        edited_inventory("activemq_node: a", "activemqq_node: a"),
        "hosts.yml:7",
        "activemqq_node is not a variable of activemq.fleet: did you mean activemq_node?",
    ),
    "misspelled variables of a host without a role": (
        edited_inventory(
            "activemq_pair: kiel\n          activemq_node", "activemq_piar: kiel\n          activemq_noed"
        ),
        "hosts.yml:7",
        "activemq_noed is not a variable of activemq.fleet: did you mean activemq_node?",
    ),
    "list of hosts": (
        {"hosts.yml": "all:\n  children:\n    orders:\n      hosts:\n        - kiel1\n"},
        "hosts.yml:5",
        "`hosts:` of group orders is a list, but Ansible requires a mapping. Write `NAME:` in place of `- NAME`",
    ),
    "list of variables": (
        edited_inventory(
            "          activemq_pair: kiel\n          activemq_node: a", "          - activemq_pair: kiel"
        ),
        "hosts.yml:5",
        "the host kiel1 has a plain value, but Ansible expects the variables of the host there",
    ),
    "hosts without a group": (
        {"hosts.yml": "hosts:\n  kiel1:\n    activemq_pair: kiel\n    activemq_node: a\n"},
        "hosts.yml:1",
        "`hosts:` is at the top level of the file, where Ansible reads it as a group. Move `hosts:` below",
    ),
    "hosts below children without a group": (
        edited_inventory("    orders:\n      hosts:\n", "    hosts:\n      orders:\n"),
        "hosts.yml:3",
        "`hosts:` is directly below `children:` of group all",
    ),
    "node that is no text": (
        edited_inventory("activemq_node: b", "activemq_node: 2"),
        "hosts.yml:10",
        "activemq_node must be text, not a number",
    ),
    "misspelled children": (
        edited_inventory("  children:", "  chidren:"),
        "hosts.yml:2",
        "Ansible ignores the key chidren of group all, because it is not hosts, children or vars. "
        "Rename the key chidren to children",
    ),
    "misspelled hosts": (
        edited_inventory("      hosts:", "      host:"),
        "hosts.yml:4",
        "Ansible ignores the key host of group orders, because it is not hosts, children or vars. "
        "Rename the key host to hosts",
    ),
    "hosts below children": (
        edited_inventory("      hosts:", "      children:"),
        "hosts.yml:4",
        "the entries kiel1, kiel2, bonn1, bonn2 below `children:` of group orders directly contain variables, as hosts "
        "do, but Ansible reads these entries as groups. "
        "If kiel1, kiel2, bonn1, bonn2 are hosts, write `hosts:` in place of `children:`",
    ),
    "variables indented as hosts": (
        edited_inventory(
            "          activemq_pair: kiel\n          activemq", "        activemq_pair: kiel\n        activemq"
        ),
        "hosts.yml:6",
        "the variable activemq_pair is listed as a host of group orders. Indent activemq_pair below its host",
    ),
}


@pytest.mark.parametrize(
    ("files", "position", "message"), UNUSABLE.values(), ids=[name.replace(" ", "-") for name in UNUSABLE]
)
def test_structural_mistake_of_inventory_that_hides_hosts_is_input_error(
    files: dict[str, str], position: str, message: str, check_inventory: Check
) -> None:
    exit_code, findings = check_inventory(files)

    assert exit_code == 2
    assert {finding["rule"] for finding in findings} == {"T000"}
    assert f"inventory/{position}" in [f"{finding['file']}:{finding['line']}" for finding in findings]
    assert any(message in join_problem_and_remedy(finding["message"], finding["fix"]) for finding in findings)


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        (
            "[orders]\nkiel1 activemq_pair=kiel activemq_node=a\nkiel2 activemq_pair=kiel activemq_node=b\n"
            "[orders]\nactivemq_heap=1g\n",
            "hosts:5",
            "the variable activemq_heap is listed as a host",
        ),
        (
            "[orders]\nkiel1 activemq_pair=kiel activemq_node=a\nkiel2 activemq_piar=kiel activemq_node=b\n",
            "hosts:3",
            "activemq_piar is not a variable of activemq.fleet: did you mean activemq_pair?",
        ),
        (
            "[orders:chidren]\nx\n[x]\nkiel1\n",
            "hosts:1",
            "Section [orders:chidren] has unknown type: chidren: did you mean [orders:children]?",
        ),
        (
            "[orders]\nkiel1\n\n[oders:vars]\nactivemq_heap=1g\n",
            "hosts:4",
            "Section [oders:vars] not valid for undefined group 'oders': did you mean [orders:vars]?",
        ),
    ],
)
def test_structural_mistake_in_ini_inventory_has_position(
    text: str, position: str, message: str, check_inventory: Check, tmp_path: Path
) -> None:
    (tmp_path / "inventory").mkdir()
    exit_code, findings = check_inventory({"hosts": text, "hosts.yml": "# the hosts are in the file hosts\nall:\n"})

    assert exit_code in {1, 2}
    assert f"{findings[0]['file']}:{findings[0]['line']}" == f"inventory/{position}"
    assert message in findings[0]["message"]


@pytest.mark.parametrize(
    "files",
    [
        {"group_vars/elsewhere.yml": "color: blue\n"},
        {"group_vars/README.md": "activemq_heap is in all.yml\n", "group_vars/orders.yml.bak": "activemq_heap: 1g\n"},
        {"hosts.yml": f"{HOSTS}    activemq_agents:\n    websrv:\n    activemq_loadbalancers:\n"},
        {"hosts.yml": f"{HOSTS}activemq_agents:\n  hosts:\nlab: {{}}\n"},
        {"hosts.yml": f"{HOSTS}    copies:\n      hosts:\n        kiel1:\n        kiel2:\n"},
        {"hosts.yml": f"{HOSTS}      vars:\n        defaults: {{heap: 1g}}\n"},
        {
            "hosts.yml": HOSTS.replace(
                "1:\n", "1:\n          ansible_host: 127.0.0.1\n          ansible_port: 2201\n"
            ).replace("ansible_port: 2201", "ansible_port: 2202", 1)
        },
        {"group_vars/orders.yml": "activemq_heap: 1g\n", "group_vars/activemq_brokers.yml": "activemq_heap: 2g\n"},
        {"host_vars/kiel1.yml": "activemq_heap: 1g\n", "host_vars/kiel2/main.yml": "activemq_heap: 1g\n"},
    ],
)
def test_unusual_but_valid_structure_of_inventory_has_no_findings(
    files: dict[str, str], check_inventory: Check
) -> None:
    assert check_inventory(files) == (0, [])
