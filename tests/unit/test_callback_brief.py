"""The callback ``activemq.fleet.brief``: it prints messages, changes and failures, and omits other tasks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PLAY = """
- name: Check and report
  hosts: all
  gather_facts: false
  tasks:
    - name: Check
      ansible.builtin.command: "true"
      changed_when: false
    - name: Skip
      ansible.builtin.command: "true"
      when: false
    - name: Show one message
      ansible.builtin.debug:
        msg: once for all
      run_once: true
    - name: Show lines
      ansible.builtin.debug:
        msg: [first, second]
      run_once: true
    - name: Show each item
      ansible.builtin.debug:
        msg: "each {{ item }}"
      loop: [1, 2]
      run_once: true
    - name: Assert
      ansible.builtin.assert:
        that: true

- name: Run without hosts
  hosts: empty
  gather_facts: false
  tasks: []

- name: Change and fail
  hosts: all
  gather_facts: false
  tasks:
    - name: Touch
      ansible.builtin.command: "true"
      changed_when: true
    - name: Hide
      ansible.builtin.fail:
        msg: s3cret
      no_log: true
      ignore_errors: true
    - name: Fail
      ansible.builtin.fail:
        msg: "the broker is stopped: java.net.BindException\\nsee the log"
      when: inventory_hostname == 'b'
"""
EXPECTED_OUTPUT = """\
Check and report
  once for all
  first
  second
  each 1
  each 2
Change and fail
  changed a: Touch
  changed b: Touch
  FAILED b: Fail: the broker is stopped: java.net.BindException
    see the log
a: 7 ok, 1 changed
b: 4 ok, 1 changed, 1 failed
"""


def test_callback_brief_prints_messages_changes_failures_and_summary(tmp_path: Path) -> None:
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "hosts").write_text("a ansible_connection=local\nb ansible_connection=local\n[empty]\n")
    program = Path(sys.executable).with_name("ansible-playbook")
    home = REPOSITORY / ".ansible"
    process = subprocess.run(
        [str(program), "-f", "1", "-i", str(tmp_path / "hosts"), str(tmp_path / "play.yml")],
        env=os.environ
        | {
            "ANSIBLE_STDOUT_CALLBACK": "activemq.fleet.brief",
            "ANSIBLE_COLLECTIONS_PATH": str(home / "collections"),
            "ANSIBLE_NOCOLOR": "true",
            "ANSIBLE_PYTHON_INTERPRETER": sys.executable,
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert process.returncode == 2, process.stderr
    assert process.stdout == EXPECTED_OUTPUT, process.stderr
