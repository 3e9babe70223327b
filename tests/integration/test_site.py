"""Tests of the playbook ``site`` on hosts that are directories: it makes exactly the changes that check mode shows."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.situations import in_every_situation

REPOSITORY = Path(__file__).resolve().parents[2]
INVENTORY = """\
all:
  hosts:
    orders-mq01-a.example.com:
    orders-mq01-b.example.com:
    orders-mq02-a.example.com:
    orders-mq02-b.example.com:
  vars:
    ansible_connection: local
    ansible_python_interpreter: {python}
    activemq_base: {base}/{{{{ inventory_hostname }}}}
    activemq_install: none
    activemq_service: none
    activemq_release: 6.3.1
    activemq_heap: {heap}
    activemq_network_username: network
    activemq_network_password: {password}
"""
_LINE = re.compile(r"[-+](?![-+]{2} )")
Site = Callable[..., str]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """Return a function that runs the playbook and returns its output; keywords change the inventory first."""
    variables = {"heap": "512m", "password": "first-secret", "base": str(tmp_path / "hosts"), "python": sys.executable}

    def run(*options: str, playbook: str = "activemq.fleet.site", fails: bool = False, **changed: str) -> str:
        variables.update(changed)
        (tmp_path / "inventory").mkdir(exist_ok=True)
        (tmp_path / "inventory" / "hosts.yml").write_text(INVENTORY.format(**variables))
        command = [Path(sys.executable).with_name("ansible-playbook"), playbook, "-i", tmp_path / "inventory", *options]
        environment = os.environ | {"ANSIBLE_HOME": str(REPOSITORY / ".ansible"), "ANSIBLE_NOCOLOR": "true"}
        playbook_run = subprocess.run(
            [str(word) for word in command], env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert (playbook_run.returncode != 0) == fails, playbook_run.stdout + playbook_run.stderr
        return playbook_run.stdout + playbook_run.stderr

    return run


def active_files(directory: Path) -> dict[str, str]:
    """Return the active files of every host: sha256 by path, through the link ``current``."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for current in sorted(directory.glob("*/activemq/current"))
        for path in sorted(current.rglob("*"))
        if path.is_file()
    }


def diff_lines(output: str) -> list[str]:
    """Return the lines of a diff that begin with one + or -, of all hosts."""
    return sorted(line for line in output.splitlines() if _LINE.match(line))


def changed_hosts(output: str) -> int:
    return len([line for line in output.splitlines() if re.search(r": ok=\d+ +changed=[1-9]", line)])


def test_check_mode_of_site_shows_exactly_lines_that_next_run_changes(site: Site, tmp_path: Path) -> None:
    site()
    files_before = active_files(tmp_path / "hosts")

    predicted = site("--check", "--diff", heap="1g", password="second-secret")
    checked = active_files(tmp_path / "hosts")
    changed = site("--diff")

    assert checked == files_before
    assert active_files(tmp_path / "hosts") != files_before
    assert diff_lines(predicted) == diff_lines(changed)
    assert any('memoryUsage limit="409 mb"' in line for line in diff_lines(changed))


def test_changed_secret_is_reported_and_no_secret_is_printed(site: Site) -> None:
    site()

    output = site("--check", "--diff", "-vvv", password="second-secret")

    assert changed_hosts(output) == 4
    assert "credentials.properties" in output
    assert "first-secret" not in output
    assert "second-secret" not in output


@in_every_situation
def test_second_run_of_site_changes_nothing(site: Site) -> None:
    site()

    assert changed_hosts(site()) == 0


@in_every_situation
def test_run_of_site_with_limit_installs_same_files_as_run_without_limit(site: Site, tmp_path: Path) -> None:
    host = "orders-mq02-b.example.com"
    site()
    files_without_limit = {path: sha for path, sha in active_files(tmp_path / "hosts").items() if path.startswith(host)}
    shutil.rmtree(tmp_path / "hosts")

    site("--limit", host)

    assert active_files(tmp_path / "hosts") == files_without_limit
    assert len(files_without_limit) > 5


def test_error_of_one_host_prevents_changes_on_all_hosts(site: Site, tmp_path: Path) -> None:
    site()
    files_before = active_files(tmp_path / "hosts")
    host_vars = tmp_path / "inventory" / "host_vars"
    host_vars.mkdir()
    (host_vars / "orders-mq02-b.example.com.yml").write_text("activemq_store_directory: /other\n")

    output = site(fails=True, heap="1g")

    assert "T009" in output
    assert "activemq_store_directory" in output
    assert "Traceback" not in output
    assert active_files(tmp_path / "hosts") == files_before


def test_check_playbook_changes_no_host(site: Site, tmp_path: Path) -> None:
    assert "4 brokers" in site(playbook="activemq.fleet.check")
    assert not (tmp_path / "hosts").exists()


def test_installed_files_equal_files_that_render_writes(site: Site, tmp_path: Path) -> None:
    site()
    rendered_directory = tmp_path / "rendered"
    command = [
        Path(sys.executable).with_name("activemq-fleet"),
        "render",
        "-i",
        tmp_path / "inventory",
        "-o",
        rendered_directory,
    ]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    files: dict[str, str] = json.loads((rendered_directory / "fleet.json").read_text())["files"]
    rendered = {
        path.removeprefix("hosts/").replace(".com/", ".com/activemq/current/", 1): sha
        for path, sha in files.items()
        if path.startswith("hosts/") and b"@" not in (rendered_directory / path).read_bytes()
    }

    assert len(rendered) >= 4 * 5
    assert rendered.items() <= active_files(tmp_path / "hosts").items()
