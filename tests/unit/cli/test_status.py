"""``status``: usage errors, failures of its playbook, and its table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from activemq_fleet.cli import playbook
from activemq_fleet.cli import status as status_command
from activemq_fleet.cli.main import main
from activemq_fleet.lab import processes
from activemq_fleet.lab.lab_paths import lab_paths_for
from activemq_fleet.lab.loopback_overlay import MARK
from activemq_fleet.status import FleetStatus, fleet_status
from activemq_fleet.status.text import BROKER_COLUMNS
from tests.support.broker_evidence import NOW, broker_evidence
from tests.unit.fleets import fleet


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "hosts.yml"
    path.write_text("all: {hosts: {a-mq01-a: , a-mq01-b: }, vars: {activemq_release: 5.18.3}}\n")
    return path


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["absent"], 2, "the name is absent, which is not a host, pair or group of the inventory. Set, for example, "),
        (["--dir", "none"], 2, "contains no lab: start one"),
        (["--dir", "none such"], 2, "cannot be used: "),
        (["--ansible-options", "'"], 2, "cannot be split into words (No closing quotation)"),
    ],
)
def test_wrong_usage_of_status_is_single_line(
    inventory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, message: str
) -> None:
    words = [str(tmp_path / word) if word.startswith("none") else word for word in arguments]
    assert main(["status", "-i", str(inventory), *words]) == code
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_status_with_directory_option_requires_no_inventory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--dir", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"activemq-fleet: error: the directory {tmp_path}")
    assert main(["status", "--lab"]) == 2
    assert "no fleet is selected: set -i INVENTORY, or set --dir to the directory of a lab" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "--format nagios requires exactly one host: name it, as in `status HOST --format nagios`"),
        (
            "absent",
            "the name is absent, which is not a host, pair or group of the inventory. Set, for example, one of a, "
            "a-mq01, a-mq01-a, a-mq01-b",
        ),
    ],
)
def test_wrong_usage_of_status_in_nagios_format_is_unknown(
    inventory: Path, capsys: pytest.CaptureFixture[str], name: str, message: str
) -> None:
    assert main(["status", "-i", str(inventory), name, "--format", "nagios"]) == 3
    assert capsys.readouterr().out == f"ACTIVEMQ UNKNOWN - {message}\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--timeout", "0"], "Invalid value for '--timeout': 0.0 is not in the range 1<=x<=600."),
        (["--absent"], "No such option '--absent'."),
        (["--lab", "--forks", "3"], "--lab and --forks cannot be used together: "),
    ],
)
def test_rejected_options_of_status_in_nagios_format_are_unknown(
    inventory: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    for form in (["--format", "nagios"], ["--format=nagios"]):
        assert main(["status", "-i", str(inventory), "a-mq01-a", *form, *words]) == 3
        assert capsys.readouterr().out.startswith(f"ACTIVEMQ UNKNOWN - {message}")


def test_file_error_of_status_in_nagios_format_is_unknown(
    inventory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_file_error(*_arguments: object) -> None:
        raise OSError(28, "No space left on device", "/srv/x")

    monkeypatch.setattr(status_command, "_make_gatherer", raise_file_error)
    assert main(["status", "-i", str(inventory), "a-mq01-a", "--format", "nagios"]) == 3
    assert capsys.readouterr().out == "ACTIVEMQ UNKNOWN - [Errno 28] No space left on device: '/srv/x'\n"


def test_status_with_options_that_ansible_rejects_is_wrong_usage(
    inventory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    process = subprocess.CompletedProcess([], 2, "", "usage: …\nansible-playbook: error: unrecognized arguments: --x\n")
    monkeypatch.setattr(playbook, "run_playbook", lambda *_, **__: process)
    assert main(["status", "-i", str(inventory)]) == 2
    assert capsys.readouterr().err.endswith(
        "rejects --ansible-options (unrecognized arguments: --x): correct this option\n"
    )


def test_status_prints_error_of_failed_playbook(
    inventory: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    process = subprocess.CompletedProcess([], 4, "PLAY\n[ERROR]: no such user\n", "")
    monkeypatch.setattr(playbook, "run_playbook", lambda *_, **__: process)
    assert main(["status", "-i", str(inventory)]) == 1
    assert "[ERROR]: no such user" in capsys.readouterr().err


@pytest.fixture
def unreachable_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the playbook ``status`` by one that reaches no host."""

    def refuse(_name: str, _inventory: object, variables: dict[str, str], _more: object) -> object:
        unreachable = {host: {"unreachable": "ssh: connection refused"} for host in ("a-mq01-a", "a-mq01-b")}
        Path(variables["activemq_status_evidence"]).write_text(json.dumps(unreachable))
        return subprocess.CompletedProcess([], 0, "", "")

    monkeypatch.setattr(playbook, "run_playbook", refuse)


@pytest.mark.usefixtures("unreachable_hosts")
@pytest.mark.parametrize("is_running", [True, False])
def test_status_of_unreachable_hosts_names_running_lab(
    inventory: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    is_running: bool,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    lab_paths = lab_paths_for([str(inventory)])
    lab_paths.make_private_lab_directory()
    command = [sys.executable, "-c", "import time; time.sleep(60)", f"{MARK}{lab_paths.directory}"]
    processes.launch_broker(lab_paths, "a-mq01-a", command, {}, lab_paths.activemq_base_directory("a-mq01-a"), "v1")
    if not is_running:
        processes.terminate_processes(processes.lab_processes(lab_paths), grace=0)
    try:
        assert main(["status", "-i", str(inventory)]) == 1
    finally:
        processes.terminate_processes(processes.lab_processes(lab_paths), grace=0)
    hint = f"a lab of this inventory runs on this machine: `activemq-fleet lab status -i {inventory}` shows the state"
    assert (hint in capsys.readouterr().err) == is_running


@pytest.mark.usefixtures("unreachable_hosts")
def test_status_of_hosts_does_not_depend_on_directory_of_lab(
    inventory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "name, with space"))

    assert main(["status", "-i", str(inventory)]) == 1
    assert "directory of the lab" not in capsys.readouterr().err
    assert main(["status", "-i", str(inventory), "a-mq01-a", "--format", "nagios"]) == 3
    assert capsys.readouterr().out.count("\n") == 1


def forty_pairs(**evidence: Any) -> FleetStatus:
    planned_fleet = fleet(*(f"orders-mq{number:02}" for number in range(1, 41)), topology="none")
    return fleet_status(
        planned_fleet,
        {
            broker.host: {"broker": broker_evidence(planned_fleet, broker.host, **evidence)}
            for broker in planned_fleet.brokers
        },
        now=NOW,
        seconds=2.0,
    )


def lines_of(status: FleetStatus, *, wide: bool) -> list[str]:
    return click.unstyle("\n".join(status_command._text_lines(status, wide=wide))).splitlines()


def test_table_of_status_fits_eighty_columns_with_short_names() -> None:
    lines = lines_of(forty_pairs(), wide=False)
    table = lines[: lines.index("")]
    assert table[0].split() == ["host", "role", "state", "for", "store", "messages", "durable", "dlq"]
    assert len(table) == 81
    assert max(map(len, table)) <= 80
    assert table[1].startswith("orders-mq01-a  ")
    assert "host names omit .example.com; --wide shows all columns and full names" in lines


def test_wide_status_has_every_column_and_full_names() -> None:
    lines = lines_of(forty_pairs(), wide=True)
    assert lines[0].split() == list(BROKER_COLUMNS)
    assert lines[1].startswith("orders-mq01-a.example.com  ")


def test_findings_of_status_are_wrapped_on_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status_command, "stdout_terminal_width", lambda: 80)
    lines = lines_of(forty_pairs(state="hung", usage={}), wide=False)
    assert "error hung orders-mq01-a" in lines
    assert max(map(len, lines)) <= 80
