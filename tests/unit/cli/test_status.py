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
        (["--format", "nagios"], 2, "--format nagios is about one HOST: name it"),
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


def test_what_ansible_says_when_the_playbook_fails_is_told(
    inventory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    done = subprocess.CompletedProcess([], 4, "PLAY\n[ERROR]: no such user\n", "")
    monkeypatch.setattr(playbook, "run_playbook", lambda *_, **__: done)
    assert main(["status", "-i", str(inventory)]) == 1
    assert "[ERROR]: no such user" in capsys.readouterr().err
