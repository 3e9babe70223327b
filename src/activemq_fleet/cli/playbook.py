"""Run a playbook of the collection for a command of the command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from activemq_fleet import FleetError, InputError
from activemq_fleet._collection import directories_with_this_collection
from activemq_fleet.cli.options import InventoryOptions
from activemq_fleet.install_hint import install_hint
from activemq_fleet.node.text_lines import split_lines


class PlaybookError(FleetError):
    """An error for a playbook run that failed, or that ended without the expected result."""

    exit_code = 1


def run_playbook(
    name: str, inventory: InventoryOptions, variables: Mapping[str, str], more: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    """Run a playbook of the collection with ``ansible-playbook``, and return its exit code and captured output.

    ``name`` is the playbook's part of ``activemq.fleet.NAME``. ``more`` are further arguments for ansible-playbook.
    Raises InputError where there is no ansible-playbook.
    """
    command = [_ansible_playbook_path(), f"activemq.fleet.{name}", *more]
    command += inventory.command_line_words()
    command += [word for key, value in variables.items() for word in ("-e", f"{key}={value}")]
    paths = [*directories_with_this_collection(), *filter(None, [os.environ.get("ANSIBLE_COLLECTIONS_PATH")])]
    environment = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_RETRY_FILES_ENABLED": "0"}
    if paths:
        environment["ANSIBLE_COLLECTIONS_PATH"] = os.pathsep.join([*paths, "~/.ansible/collections"])
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, env=environment)


def _ansible_playbook_path() -> str:
    """Return the path of ansible-playbook: in the directory of the running Python, else in the PATH."""
    sibling = Path(sys.executable).with_name("ansible-playbook")
    program = str(sibling) if sibling.exists() else shutil.which("ansible-playbook")
    if program is None:
        raise InputError(
            f"ansible-playbook is neither on PATH nor in the directory of {sys.executable}. To install "
            f"ansible-core together with activemq-fleet, {install_hint()}"
        )
    return program


def playbook_failure_lines(done: subprocess.CompletedProcess[str], most: int = 4) -> tuple[str, ...]:
    """Return the lines of a playbook's output that explain its failure.

    The lines are Ansible's errors, else the last lines.
    """
    lines = [line.strip() for line in split_lines(done.stdout + "\n" + done.stderr) if line.strip()]
    error_lines = [line for line in lines if line.startswith(("fatal:", "ERROR", "[ERROR]", "failed:"))]
    nothing_printed = (
        f"ansible-playbook failed with exit code {done.returncode} and printed nothing. Run the command again with "
        "--ansible-options -vvv, and check the system log for a killed process"
    )
    return tuple((error_lines or lines or [nothing_printed])[-most:])
