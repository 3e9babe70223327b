"""The callback ``activemq.fleet.brief``: what is said, changed and failed, and nothing of what only looks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PLAY = """
- name: Look and say
  hosts: all
  gather_facts: false
  tasks:
    - name: Look
      ansible.builtin.command: "true"
      changed_when: false
    - name: Skip
      ansible.builtin.command: "true"
      when: false
    - name: Say one thing
      ansible.builtin.debug:
        msg: once for all
      run_once: true
    - name: Say lines
      ansible.builtin.debug:
        msg: [first, second]
      run_once: true
    - name: Say each
      ansible.builtin.debug:
        msg: "each {{ item }}"
      loop: [1, 2]
      run_once: true
    - name: See
      ansible.builtin.assert:
        that: true

- name: For nobody
  hosts: nobody
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
        msg: "it is stopped: java.net.BindException\\nsee the log"
      when: inventory_hostname == 'b'
"""
SAID = """\
Look and say
  once for all
  first
  second
  each 1
  each 2
Change and fail
  changed a: Touch
  changed b: Touch
  FAILED b: Fail: it is stopped: java.net.BindException
    see the log
a: 7 ok, 1 changed
b: 4 ok, 1 changed, 1 failed
"""


def test_each_thing_that_matters_has_one_line(tmp_path: Path) -> None:
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "hosts").write_text("a ansible_connection=local\nb ansible_connection=local\n[nobody]\n")
    program = Path(sys.executable).with_name("ansible-playbook")
    home = REPOSITORY / ".ansible"
    done = subprocess.run(
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
    assert done.returncode == 2, done.stderr
    assert done.stdout == SAID, done.stderr
