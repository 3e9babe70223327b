"""The playbook ``site`` on hosts that are directories: what it says it will do, it does, no more."""

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
    """Runs the playbook and returns what it printed; keywords change the inventory first."""
    values = {"heap": "512m", "password": "first-secret", "base": str(tmp_path / "hosts"), "python": sys.executable}

    def run(*options: str, playbook: str = "activemq.fleet.site", fails: bool = False, **changed: str) -> str:
        values.update(changed)
        (tmp_path / "inventory").mkdir(exist_ok=True)
        (tmp_path / "inventory" / "hosts.yml").write_text(INVENTORY.format(**values))
        command = [Path(sys.executable).with_name("ansible-playbook"), playbook, "-i", tmp_path / "inventory", *options]
        environment = os.environ | {"ANSIBLE_HOME": str(REPOSITORY / ".ansible"), "ANSIBLE_NOCOLOR": "true"}
        done = subprocess.run(
            [str(word) for word in command], env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def tree(directory: Path) -> dict[str, str]:
    """What is in force on every host: sha256 by path, through the link ``current``."""
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for current in sorted(directory.glob("*/activemq/current"))
        for path in sorted(current.rglob("*"))
        if path.is_file()
    }


def diff_lines(printed: str) -> list[str]:
    """The lines of a diff that begin with one + or -, of all hosts."""
    return sorted(line for line in printed.splitlines() if _LINE.match(line))


def changed_hosts(printed: str) -> int:
    return len([line for line in printed.splitlines() if re.search(r": ok=\d+ +changed=[1-9]", line)])


def test_check_mode_shows_exactly_the_lines_that_the_run_then_changes(site: Site, tmp_path: Path) -> None:
    site()
    before = tree(tmp_path / "hosts")

    foretold = site("--check", "--diff", heap="1g", password="second-secret")
    untouched = tree(tmp_path / "hosts")
    done = site("--diff")

    assert untouched == before
    assert tree(tmp_path / "hosts") != before
    assert diff_lines(foretold) == diff_lines(done)
    assert any('memoryUsage limit="409 mb"' in line for line in diff_lines(done))


def test_no_secret_is_printed_and_a_changed_one_shows_as_such(site: Site) -> None:
    site()

    printed = site("--check", "--diff", "-vvv", password="second-secret")

    assert changed_hosts(printed) == 4
    assert "credentials.properties" in printed
    assert "first-secret" not in printed
    assert "second-secret" not in printed


@in_every_situation
def test_a_second_run_changes_nothing(site: Site) -> None:
    site()

    assert changed_hosts(site()) == 0


@in_every_situation
def test_a_limit_changes_nothing_in_a_file(site: Site, tmp_path: Path) -> None:
    host = "orders-mq02-b.example.com"
    site()
    whole = {path: sha for path, sha in tree(tmp_path / "hosts").items() if path.startswith(host)}
    shutil.rmtree(tmp_path / "hosts")

    site("--limit", host)

    assert tree(tmp_path / "hosts") == whole
    assert len(whole) > 5


def test_an_error_of_one_host_changes_no_host(site: Site, tmp_path: Path) -> None:
    site()
    before = tree(tmp_path / "hosts")
    host_vars = tmp_path / "inventory" / "host_vars"
    host_vars.mkdir()
    (host_vars / "orders-mq02-b.example.com.yml").write_text("activemq_store_directory: /other\n")

    printed = site(fails=True, heap="1g")

    assert "T009" in printed
    assert "activemq_store_directory" in printed
    assert "Traceback" not in printed
    assert tree(tmp_path / "hosts") == before


def test_the_playbook_check_touches_no_host(site: Site, tmp_path: Path) -> None:
    assert "4 brokers" in site(playbook="activemq.fleet.check")
    assert not (tmp_path / "hosts").exists()


def test_what_is_installed_is_what_render_writes(site: Site, tmp_path: Path) -> None:
    site()
    out = tmp_path / "rendered"
    command = [Path(sys.executable).with_name("activemq-fleet"), "render", "-i", tmp_path / "inventory", "-o", out]
    subprocess.run([str(word) for word in command], check=True, capture_output=True)
    files: dict[str, str] = json.loads((out / "fleet.json").read_text())["files"]
    rendered = {
        path.removeprefix("hosts/").replace(".com/", ".com/activemq/current/", 1): sha
        for path, sha in files.items()
        if path.startswith("hosts/") and b"@" not in (out / path).read_bytes()
    }

    assert len(rendered) >= 4 * 5
    assert rendered.items() <= tree(tmp_path / "hosts").items()
