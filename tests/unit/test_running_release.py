"""The end of ``site``: the release that a process has open is the inventory's, or it is said why not."""

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
from tests.unit.release_jars import jar

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
WANTED = "5.18.3"


@contextmanager
def broker(base: Path, *jars: Path) -> Iterator[int]:
    """A process that looks like a broker with these jars open."""
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


def compare(base: Path, look: dict[str, Any], install: str = "archive") -> tuple[int, str]:
    """Run the tasks for a host that was looked at before with this result."""
    play = base.parent / "play.yml"
    play.write_text(PLAY)
    ours = {"base": str(base), "release": WANTED, "needs_resync": False, "install": install, "instance": "activemq"}
    variables = {
        "__activemq_broker": ours,
        "__activemq_look": {"state": "active", "how": "it serves", "release_unseen": "", **look},
        "__activemq_planned": {"hosts": []},
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
    done = subprocess.run([program, play, *options], env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


@some_situations(1)
@pytest.mark.parametrize(
    ("install", "advice"), [("archive", "Run the playbook upgrade"), ("package", "Run the playbook restart")]
)
def test_another_release_than_the_inventory_says_is_an_error(tmp_path: Path, install: str, advice: str) -> None:
    code, said = compare(tmp_path / "base", {"pid": 7, "release": "5.18.6"}, install)
    assert code == 2
    assert f"orders-mq01-a: the broker runs release 5.18.6, but activemq_release is 5.18.3. {advice}" in said


def test_a_process_that_shows_no_release_is_an_error_that_says_why(tmp_path: Path) -> None:
    with broker(tmp_path / "base") as pid:
        code, said = compare(tmp_path / "base", {"pid": pid, "release": None})
    assert code == 2
    assert f"orders-mq01-a: the release that process {pid} of the broker runs is not known (" in said
    assert "open files of the process is a jar of the broker" in said


def test_a_process_that_had_no_jar_open_yet_is_looked_at_again(tmp_path: Path) -> None:
    (tmp_path / "activemq-broker.jar").write_bytes(jar(record=WANTED))  # as Debian's: the name says nothing
    with broker(tmp_path / "base", tmp_path / "activemq-broker.jar") as pid:
        code, said = compare(tmp_path / "base", {"pid": pid, "release": None})
    assert code == 0, said
    assert "did not compare the release" not in said


def test_that_nothing_was_compared_is_said(tmp_path: Path) -> None:
    code, said = compare(tmp_path / "base", {"pid": None, "release": None, "state": "stopped", "how": "no process"})
    assert code == 0
    assert "orders-mq01-a: the playbook did not compare the release of the broker with activemq_release" in said
    assert "because the broker is stopped (no process). Start the broker" in said
