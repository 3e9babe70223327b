from __future__ import annotations

import dataclasses
import importlib.util
import json
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_fleet.cli.lab_options import stop_signals_as_interrupt
from activemq_fleet.cli.main import main
from activemq_fleet.errors import LabError
from activemq_fleet.install_hint import install_hint
from activemq_fleet.lab.lab import Lab
from activemq_fleet.lab.loopback_overlay import ReplacedHostVariable
from activemq_fleet.lab.status import HostStatus

STATUS = (
    HostStatus("orders-mq01-a", "127.77.1.1", {"openwire": 61616}, "master", "active", 4711, 12, ()),
    HostStatus("orders-mq01-b", "127.77.1.2", {"openwire": 61616}, "slave", "stopped", None, None, ()),
)
CHANGES = (ReplacedHostVariable("orders-mq01-a", "activemq_bind", None, "127.77.1.1"),)


class Calls(list[Any]):
    """Calls of methods of the lab, with their arguments."""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    calls = Calls()

    def record_calls_of(name: str, status: object) -> None:
        def method(self: Lab, *arguments: object, **keywords: object) -> object:
            calls.append((name, *arguments, keywords) if keywords else (name, *arguments))
            return status

        monkeypatch.setattr(Lab, name, method)

    for name, status in (("up", STATUS), ("status", STATUS), ("down", 2), ("prepare", CHANGES)):
        record_calls_of(name, status)
    for name in ("start", "stop", "kill", "pause", "resume"):
        record_calls_of(name, None)
    return calls


def run_lab_command(*arguments: str, directory: Path) -> int:
    return main(["lab", *arguments, "-i", "hosts.yml", "--dir", str(directory)])


@pytest.mark.parametrize("command", ["start", "stop", "kill", "pause", "resume"])
def test_lab_command_for_host_calls_method_of_lab(command: str, calls: Calls, tmp_path: Path) -> None:
    assert run_lab_command(command, "orders-mq01-a", directory=tmp_path) == 0
    assert calls == [(command, "orders-mq01-a")]


@pytest.mark.parametrize("arguments", [("down",), ("status",), ("kill", "orders-mq01-a"), ("resume", "orders-mq01-a")])
def test_command_for_existing_lab_requires_only_dir(
    arguments: tuple[str, ...], calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", *arguments, "--dir", str(tmp_path)]) == 0
    assert calls == [arguments]
    assert main(["lab", *arguments]) == 2
    assert "no lab is selected: set -i INVENTORY, or set --dir to the directory of a lab" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("status",), ("start", "orders-mq01-a"), ("freeze", "orders-mq01-a")])
@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("none", None, "contains no lab"),
        ("with space", None, "cannot be used"),
        ("damaged", "no JSON", "is damaged, or another version of activemq-fleet wrote it"),
        ("file/lab", None, "contains no lab"),
    ],
)
def test_lab_command_exits_with_2_for_directory_that_is_no_lab(
    words: tuple[str, ...],
    name: str,
    content: str | None,
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "file").touch()
    if content is not None:
        (tmp_path / name).mkdir()
        (tmp_path / name / "lab.json").write_text(content)
    assert main(["lab", *words, "--dir", str(tmp_path / name)]) == 2
    assert message in capsys.readouterr().err
    assert content is not None or not (tmp_path / name).exists(), "the command created a directory"


def test_lab_down_reports_directory_without_lab(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "other").mkdir(mode=0o755)
    for name in ("none", "other"):
        assert main(["lab", "down", "--dir", str(tmp_path / name)]) == 0
        captured = capsys.readouterr()
        assert captured.out == "no broker was running\n"
        assert f"the directory {tmp_path / name} contains no lab" in captured.err
    assert (tmp_path / "other").stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.rglob("*")] == ["other"], (
        "`lab down` changed a directory that contains no lab"
    )


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize("arguments", [("up", "--format", "json"), ("down",)])
def test_lab_up_and_down_print_command_that_removes_directory(
    arguments: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "lab"
    directory.mkdir()
    (directory / "lab.json").touch()
    assert run_lab_command(*arguments, directory=directory) == 0
    assert f"rm -r {directory}" in capsys.readouterr().err


@pytest.mark.usefixtures("calls")
def test_command_lines_of_lab_repeat_options_and_quote_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "lab"
    directory.mkdir()
    (directory / "lab.json").touch()
    options = ["-i", "my hosts.yml", "-e", "activemq_heap=1g", "--vault-password-file", "the key", "--dir", directory]
    assert main(["lab", "up", "--timeout", "7", *map(str, options)]) == 0

    notices = capsys.readouterr().err
    down = shlex.split(notices.partition("after `activemq-fleet ")[2].partition("`")[0])
    assert down == ["lab", "down", *map(str, options)]
    assert shlex.split(notices.partition("remove them with: ")[2]) == ["rm", "-r", str(directory)]

    assert main(["lab", "down", "--dir", str(directory)]) == 0
    removal = capsys.readouterr().err.partition("remove them with: ")[2]
    assert shlex.split(removal) == ["rm", "-r", str(directory)]


def test_lab_up_without_inventory_is_refused(calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lab", "up", "--dir", str(tmp_path)]) == 2
    assert "Missing option '-i'" in capsys.readouterr().err
    assert calls == []


def test_lab_status_as_json_is_list_of_hosts(calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_lab_command("status", "--format", "json", directory=tmp_path) == 0
    assert json.loads(capsys.readouterr().out) == [host.to_dict() for host in STATUS]


def test_lab_status_as_text_has_line_for_each_host(
    calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_lab_command("status", directory=tmp_path)
    _, first_line, second_line = capsys.readouterr().out.splitlines()
    assert first_line.split() == ["orders-mq01-a", "master", "active", "127.77.1.1", "4711", "12", "s", "-"]
    assert second_line.split() == ["orders-mq01-b", "slave", "stopped", "127.77.1.2", "-", "-", "-"]


def test_lab_status_as_text_shows_no_role_of_single_broker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    single = dataclasses.replace(STATUS[0], has_peer=False)
    monkeypatch.setattr(Lab, "status", lambda _lab: (single,))
    run_lab_command("status", directory=tmp_path)

    _, line = capsys.readouterr().out.splitlines()
    assert line.split()[:3] == ["orders-mq01-a", "single", "active"]


def test_lab_up_passes_command_line_options_to_lab(calls: Calls, tmp_path: Path) -> None:
    assert run_lab_command("up", "--fresh", "--timeout", "7", directory=tmp_path) == 0
    assert calls == [("up", {"timeout": 7.0, "fresh": True, "prometheus": False})]


def test_end_of_command_lab_up_does_not_stop_brokers(calls: Calls, tmp_path: Path) -> None:
    run_lab_command("up", directory=tmp_path)
    assert "down" not in [call[0] for call in calls]


@pytest.fixture
def hangup_not_ignored() -> Iterator[None]:
    """Let SIGHUP have its default action, also if the tests run under nohup."""
    handler = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, handler)


@pytest.mark.usefixtures("hangup_not_ignored")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interruption_of_foreground_lab_up_stops_lab(
    number: signal.Signals, calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt_wait(_event: object) -> None:
        signal.raise_signal(number)

    monkeypatch.setattr("threading.Event.wait", interrupt_wait)
    assert run_lab_command("up", "--foreground", directory=tmp_path) == 130
    assert [call[0] for call in calls] == ["up", "down"]


@pytest.mark.usefixtures("hangup_not_ignored")
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGHUP])
def test_second_stop_signal_does_not_interrupt_cleanup_of_lab_command(second: signal.Signals) -> None:
    """A terminal that is closed can send SIGHUP twice."""
    completed_steps = []

    def run_command() -> None:
        with stop_signals_as_interrupt():
            try:
                signal.raise_signal(signal.SIGHUP)
            finally:
                signal.raise_signal(second)
                completed_steps.append("cleanup")

    with pytest.raises(KeyboardInterrupt):
        run_command()
    assert completed_steps == ["cleanup"]


def test_lab_command_ignores_end_of_terminal_under_nohup() -> None:
    handler = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_signals_as_interrupt():
            signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, handler)


def test_lab_prepare_shows_replaced_variables(calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_lab_command("prepare", "--show-difference", directory=tmp_path)
    assert "activemq_bind  (default)" in capsys.readouterr().out


def test_lab_prepare_prints_path_of_inventory_for_ansible(
    calls: Calls, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_lab_command("prepare", directory=tmp_path)
    assert capsys.readouterr().out == f"{tmp_path}/inventory.yml\n"


def test_error_of_lab_is_one_line_with_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(self: Lab, host: str) -> None:
        raise LabError(f"{host} does not run")

    monkeypatch.setattr(Lab, "kill", fail)
    assert run_lab_command("kill", "orders-mq01-a", directory=tmp_path) == 1
    assert capsys.readouterr().err == "activemq-fleet: error: orders-mq01-a does not run\n"


@pytest.mark.parametrize("command", ["up", "prepare", "drill"])
@pytest.mark.parametrize(
    ("inventory", "code"), [("none.yml", 2), ("unknown_release.yml", 2), ("different_stores.yml", 1)]
)
def test_error_about_inventory_is_one_line_and_creates_no_lab_directory(
    command: str, inventory: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hosts = "all: {hosts: {a-mq01-a: , a-mq01-b: }, vars: {activemq_release: %s}}\n"
    (tmp_path / "unknown_release.yml").write_text(hosts % "9.9.9")
    other_store = "a-mq01-b: {activemq_store_directory: /srv/other}"
    (tmp_path / "different_stores.yml").write_text((hosts % "6.3.1").replace("a-mq01-b: ", other_store))
    arguments = ["-i", str(tmp_path / inventory), "--dir", str(tmp_path / "lab")]
    assert main(["lab", command, *arguments]) == code
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "lab").exists()


def test_error_of_lab_about_missing_packages_has_install_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "psutil" else find(name))
    assert run_lab_command("status", directory=tmp_path) == 2
    assert capsys.readouterr().err == (
        "activemq-fleet: error: Python packages that the lab requires are not installed (psutil): "
        f"{install_hint('lab')}\n"
    )
