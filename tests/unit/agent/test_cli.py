"""Output and exit codes of the command line with an agent's socket."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activemq_agent import cli
from activemq_agent.local_request_server import LocalRequestServer
from activemq_agent.store import Store, StoreLimits

from .logged import RecordedLog

STATUS: dict[str, Any] = {"agent": "a", "broker": None, "outbox": {"rows": 2, "oldest": 1.25}, "full": []}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "agent.conf"
    path.write_text("[agent]\nmb.urls = a:1883\nstate.directory = state\n")
    return path


@pytest.fixture
def store(tmp_path: Path, config: Path) -> Iterator[Store]:
    """Yield the store of an agent whose socket answers."""
    with Store.open(tmp_path / "state", agent="a", limits=StoreLimits(outbox_rows=2)) as opened_store:
        request_server = LocalRequestServer(
            tmp_path / "state/agent.sock", opened_store, lambda: STATUS, log=RecordedLog()
        )
        request_server.start()
        yield opened_store
        request_server.close()


def run(config: Path, *words: str) -> int:
    return cli.main(["--config", str(config), *words])


def test_publish_prints_id_of_event_in_outbox(config: Path, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(config, "publish", "a/b", "hello") == 0
    (event,) = store.outgoing_events(5)
    assert capsys.readouterr().out == f"{event.event_id}\n"
    assert event.payload == b"hello"


@pytest.mark.parametrize(("words", "code"), [(["run"], 2), (["--unknown"], 2), ([], 2)])
@pytest.mark.parametrize("stderr", ["closed pipe", "/dev/full"])
def test_error_of_agent_keeps_exit_code_if_stderr_cannot_be_written(
    stderr: str, words: list[str], code: int, tmp_path: Path
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with open("/dev/full", "w") as full_device:
        process = subprocess.run(
            [sys.executable, "-m", "activemq_agent", *words],
            check=False,
            env={**os.environ, "ACTIVEMQ_AGENT_CONFIG": str(tmp_path / "absent.conf")},
            stdout=subprocess.PIPE,
            stderr=full_device if stderr == "/dev/full" else writer,
        )
    os.close(writer)
    assert (process.returncode, process.stdout) == (code, b"")


def test_empty_path_of_configuration_is_wrong_usage_of_agent(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--config", "", "check"]) == 2
    assert "--config: the path is empty: write a path" in capsys.readouterr().err


@pytest.mark.parametrize("descriptors", [">&-", "2>&-", ">&- 2>&-"])
def test_error_of_agent_keeps_exit_code_if_descriptor_is_closed(descriptors: str) -> None:
    command = f'"{sys.executable}" -m activemq_agent --unknown {descriptors}'
    assert subprocess.run(["/bin/sh", "-c", command], check=False, capture_output=True).returncode == 2


@pytest.mark.parametrize("words", [("-",), ()])
def test_publish_reads_payload_from_standard_input(
    config: Path, store: Store, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xffbytes\n")))
    assert run(config, "publish", "a/b", *words) == 0
    assert store.outgoing_events(5)[0].payload == b"\xffbytes\n"


def test_publish_command_repeated_with_same_event_id_adds_single_event(
    config: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [run(config, "publish", "a/b", "x", "--id", "mine") for _ in range(2)] == [0, 0]
    assert capsys.readouterr().out == "mine\nmine\n"
    assert len(store.outgoing_events(5)) == 1


def test_publish_exits_1_if_outbox_is_full(config: Path, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert [run(config, "publish", "a/b", "x") for _ in range(3)] == [0, 0, 1]
    assert capsys.readouterr().err.startswith("activemq-agent: error: the event was rejected, because the agent's ")


def test_publish_without_running_agent_exits_1(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(config, "publish", "a/b", "x") == 1
    assert capsys.readouterr().err == (
        "activemq-agent: error: the agent is not running, because no process listens on its socket "
        f"{tmp_path}/state/agent.sock: start the agent's service unit (systemctl start activemq-agent)\n"
    )


def test_agent_status_command_prints_table(config: Path, store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(config, "status") == 0
    assert capsys.readouterr().out.splitlines() == [
        "agent          a",
        "broker         -",
        "outbox.rows    2",
        "outbox.oldest  1.250",
        "full           -",
    ]


def test_agent_status_command_prints_json_if_requested(
    config: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(config, "status", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out) == STATUS


def test_requeue_command_requires_either_event_ids_or_option_all(
    config: Path, store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(config, "requeue") == 2
    assert run(config, "requeue", "--all", "x") == 2
    assert run(config, "requeue", "--all") == 0
    assert capsys.readouterr().out == "the agent will send 0 events again\n"
    assert run(config, "requeue", "unknown-1") == 1
    assert "expired or unconfirmed event of the agent: unknown-1" in capsys.readouterr().err


def test_help_of_requeue_command_excludes_unconfirmed_events_from_option_all(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(config, "requeue", "--help") == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "send every expired event again, but no unconfirmed events" in text
    assert 'The ids of unconfirmed events are in the records "kind":"unconfirmed" of the event journal' in text


def test_agent_command_prints_each_configuration_error_as_one_line(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text("[agent]\nmb.urls = a:0\nmb.user = x\n")
    assert run(config, "run") == 2
    assert capsys.readouterr().err.splitlines() == [
        f"activemq-agent: error: {config}:2: mb.urls: the port in the address 'a:0' is not valid: write a number "
        "from 1 to 65535, such as 1883",
        (
            f"activemq-agent: error: {config}:3: the agent does not support the key 'mb.user' of "
            "agent.conf: if you mean the key mb.username, correct the spelling; otherwise remove this line of "
            "agent.conf"
        ),
    ]


@pytest.mark.parametrize("words", [["nonsense"], ["publish"], ["status", "--format", "x"], ["--what"]])
def test_wrong_usage_of_agent_command_exits_2_with_one_line(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("activemq-agent: error: ")
    assert line.endswith("--help)")


def test_internal_error_of_agent_command_prints_one_line_without_traceback(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_path: Path) -> None:
        raise RuntimeError("oh\nno")

    monkeypatch.setattr(cli, "_read_config", fail)
    assert run(config, "check") == 1
    assert capsys.readouterr().err == (
        "activemq-agent: error: internal error RuntimeError: oh no. This is a bug: run the command again with "
        "ACTIVEMQ_FLEET_DEBUG=1, and report the traceback\n"
    )


def test_agent_command_without_its_library_names_package_to_install(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_path: Path) -> None:
        raise ModuleNotFoundError("no", name="paho.mqtt")

    monkeypatch.setattr(cli, "_read_config", fail)
    assert run(config, "check") == 2
    assert "dist/activemq_agent-*.whl" in capsys.readouterr().err
