"""Errors about a variable that is not set: they name a file that sets it, and why Ansible does not read the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from activemq_fleet.cli.main import main

HOSTS = """\
activemq_brokers:
  hosts: {orders-mq01-a: , orders-mq01-b: }
"""
VARIABLES = """\
---
activemq_release: 5.18.3
activemq_ha: none
"""


@pytest.mark.parametrize(
    ("inventory", "file", "reason"),
    [
        ("hosts.yml", "groupvars/all.yml", "Ansible does not read variables from the directory groupvars: rename"),
        ("hosts.yml", "group_vars/brokr.yml", "the inventory has no group brokr, so Ansible ignores"),
        ("hosts.yml", "group_vars/activemq_broker.yml", "rename activemq_broker.yml to activemq_brokers.yml"),
        (
            "hosts.yml",
            "group_vars/all.yaml.bak",
            "Ansible reads no file with the extension .bak: change the extension to .yml",
        ),
        ("hosts.yml", "host_vars/orders-mq09-x.yml", "the inventory has no host orders-mq09-x, so Ansible ign"),
        ("hosts.yml", "vars/all.yml", "only from the directories group_vars and host_vars: move the file"),
        ("inventory/hosts.yml", "group_vars/all.yml", "only next to the inventory file or the playbook: move the dir"),
    ],
)
def test_error_about_missing_variable_names_unread_file_that_sets_it(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    inventory: str,
    file: str,
    reason: str,
) -> None:
    for name, text in ((inventory, HOSTS), (file, VARIABLES)):
        (tmp_path / "fleet" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "fleet" / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["check", "-i", f"fleet/{inventory}"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert (
        f"activemq_release is not set: set it to the release of the broker, such as '5.18.3'; fleet/{file}:2 " in line
    )
    assert reason in line


def test_error_about_missing_variable_names_no_file_that_does_not_set_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "groupvars").mkdir()
    (tmp_path / "hosts.yml").write_text(HOSTS)
    (tmp_path / "groupvars" / "all.yml").write_text("activemq_releases: 5.18.3\n# activemq_release: 5.18.3\n")
    monkeypatch.chdir(tmp_path)
    assert main(["check", "-i", "hosts.yml"]) == 2
    assert "sets it" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("inventory", "other_inventory", "file"),
    [
        ("hosts.yml", "i1/hosts.yml", "i1/group_vars/all.yml"),
        ("hosts.yml", "sites/east/hosts", "sites/east/host_vars/orders-mq01-a.yml"),
        ("hosts.yml", "i1/inventory.ini", "i1/vars/all.yml"),
        ("inventory/hosts.yml", "hosts.yml", "group_vars/all.yml"),
    ],
)
def test_error_about_missing_variable_names_no_file_of_another_inventory(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    inventory: str,
    other_inventory: str,
    file: str,
) -> None:
    for name, text in ((inventory, HOSTS), (other_inventory, ""), (file, VARIABLES)):
        (tmp_path / "fleet" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "fleet" / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["check", "-i", f"fleet/{inventory}"]) == 2
    error = capsys.readouterr().err
    assert "activemq_release is not set" in error
    assert "sets activemq_release" not in error


def test_error_names_unread_file_of_group_variables_named_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fleet" / "group_vars").mkdir(parents=True)
    (tmp_path / "fleet" / "hosts.yml").write_text(HOSTS)
    (tmp_path / "fleet" / "group_vars" / "hosts.yml").write_text(VARIABLES)
    monkeypatch.chdir(tmp_path)
    assert main(["check", "-i", "fleet/hosts.yml"]) == 2
    assert "fleet/group_vars/hosts.yml:2 sets activemq_release" in capsys.readouterr().err
