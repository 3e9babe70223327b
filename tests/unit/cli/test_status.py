"""status: what it refuses, and how it says that a playbook failed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from activemq_fleet.cli import playbook
from activemq_fleet.cli.main import main


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.yml"
    path.write_text("all: {hosts: {a-mq01-a: , a-mq01-b: }, vars: {activemq_release: 5.18.3}}\n")
    return path


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["nobody"], 2, "nobody is no host, pair or group"),
        (["--dir", "none"], 1, "there is no lab in"),
        (["--ansible-options", "'"], 2, "--ansible-options: No closing quotation"),
    ],
)
def test_wrong_usage_is_one_line(
    inventory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, said: str
) -> None:
    named = [str(tmp_path / word) if word == "none" else word for word in arguments]
    assert main(["status", "-i", str(inventory), *named]) == code
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_a_lab_is_named_by_its_directory_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--dir", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"activemq-fleet: error: there is no lab in {tmp_path}")
    assert main(["status", "--lab"]) == 2
    assert "say which fleet: -i INVENTORY, or --dir with a lab's directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "said"),
    [("", "--format nagios is about one HOST: name it"), ("nobody", "nobody is no host, pair or group")],
)
def test_for_nagios_wrong_usage_is_unknown_and_not_critical(
    inventory: Path, capsys: pytest.CaptureFixture[str], name: str, said: str
) -> None:
    assert main(["status", "-i", str(inventory), name, "--format", "nagios"]) == 3
    assert capsys.readouterr().out == f"ACTIVEMQ UNKNOWN - {said}\n"


def test_options_that_ansible_does_not_know_are_wrong_usage(
    inventory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.CompletedProcess([], 2, "", "usage: …\nansible-playbook: error: unrecognized arguments: --x\n")
    monkeypatch.setattr(playbook, "run_playbook", lambda *_, **__: done)
    assert main(["status", "-i", str(inventory)]) == 2
    assert capsys.readouterr().err.endswith("error: --ansible-options: unrecognized arguments: --x\n")


def test_what_ansible_says_when_the_playbook_fails_is_told(
    inventory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.CompletedProcess([], 4, "PLAY\n[ERROR]: no such user\n", "")
    monkeypatch.setattr(playbook, "run_playbook", lambda *_, **__: done)
    assert main(["status", "-i", str(inventory)]) == 1
    assert "[ERROR]: no such user" in capsys.readouterr().err
