"""The last check of ``site``: the running release is that of the inventory, or the playbook reports the reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.situations import some_situations
from tests.unit.release_jars import jar_content

ROOT = Path(__file__).resolve().parents[2]
PLAY = """
- name: Compare
  hosts: all
  gather_facts: false
  tasks:
    - name: Compare
      ansible.builtin.include_role:
        name: activemq.fleet.broker
        tasks_from: check_running_release
"""
PLANNED_RELEASE = "5.18.3"


@contextmanager
def broker_process(base: Path, *jars: Path) -> Iterator[int]:
    """Run a process that resembles a broker with these jars open; yield its process id."""
    (base / "data").mkdir(parents=True)
    (base / "data/activemq.log").touch()
    script = "import sys; files = [open(path) for path in sys.argv[2:-1]]; print(flush=True); sys.stdin.read()"
    files = [str(path) for path in (base / "data/activemq.log", *jars)]
    command = [sys.executable, "-c", script, f"-Dactivemq.base={base}", *files, "start"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        yield child.pid
        child.kill()


def compare_release(base: Path, observation: dict[str, Any], install: str = "archive") -> tuple[int, str]:
    """Run the tasks for a host of which an earlier task made this observation; return the exit code and the output."""
    play = base.parent / "play.yml"
    play.write_text(PLAY)
    broker_settings = {
        "base": str(base),
        "release": PLANNED_RELEASE,
        "needs_resync": False,
        "install": install,
        "instance": "activemq",
    }
    variables = {
        "__activemq_broker": broker_settings,
        "__activemq_broker_state": {"state": "active", "how": "it serves", "release_unseen": "", **observation},
        "__activemq_planned_starts": {"hosts": []},
        "__activemq_settle_timeout": 1,
    }
    environment = os.environ | {
        "ANSIBLE_HOME": str(base.parent / "ansible"),
        "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".ansible/collections"),
        "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        "ANSIBLE_NOCOLOR": "1",
    }
    program = Path(sys.executable).with_name("ansible-playbook")
    options = ["-i", "orders-mq01-a,", "-c", "local", "-e", json.dumps(variables)]
    completed = subprocess.run([program, play, *options], env=environment, capture_output=True, text=True, check=False)
    return completed.returncode, completed.stdout


@some_situations(1)
@pytest.mark.parametrize(
    ("install", "advice"), [("archive", "Run the playbook upgrade"), ("package", "Run the playbook restart")]
)
def test_running_release_that_differs_from_inventory_is_error(tmp_path: Path, install: str, advice: str) -> None:
    exit_code, output = compare_release(tmp_path / "base", {"pid": 7, "release": "5.18.6"}, install)
    assert exit_code == 2
    assert f"orders-mq01-a: the broker runs release 5.18.6, but activemq_release is 5.18.3. {advice}" in output


def test_broker_process_without_known_release_is_error_with_reason(tmp_path: Path) -> None:
    with broker_process(tmp_path / "base") as pid:
        exit_code, output = compare_release(tmp_path / "base", {"pid": pid, "release": None})
    assert exit_code == 2
    assert f"orders-mq01-a: the release that process {pid} of the broker runs is not known (" in output
    assert "open files of the process is a jar of the broker" in output


def test_broker_process_without_open_jar_is_checked_again(tmp_path: Path) -> None:
    # As in the package of Debian, the file name does not contain the release.
    (tmp_path / "activemq-broker.jar").write_bytes(jar_content(record=PLANNED_RELEASE))
    with broker_process(tmp_path / "base", tmp_path / "activemq-broker.jar") as pid:
        exit_code, output = compare_release(tmp_path / "base", {"pid": pid, "release": None})
    assert exit_code == 0, output
    assert "did not compare the release" not in output


def test_output_reports_that_release_of_stopped_broker_was_not_compared(tmp_path: Path) -> None:
    exit_code, output = compare_release(
        tmp_path / "base", {"pid": None, "release": None, "state": "stopped", "how": "no process"}
    )
    assert exit_code == 0
    assert "orders-mq01-a: the playbook did not compare the release of the broker with activemq_release" in output
    assert "because the broker is stopped (no process). Start the broker" in output
