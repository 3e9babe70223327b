"""The pair of the documentation pages, on systemd hosts.

The pages install releases from archives, and the tests install them from jars.
"""

from __future__ import annotations

import json
from pathlib import Path

from activemq_fleet.artifacts import fetch_jar_directory
from activemq_fleet.releases import Release
from tests.hosts.machines import Rack
from tests.hosts.playbooks import environment
from tests.hosts.reader_shell import ReaderShell

HOSTS = {"orders-mq01-a.example.com": "10.77.0.31", "orders-mq01-b.example.com": "10.77.0.32"}
_USER = {"name": "app", "groups": ["apps"], "password": "made-up-password"}


def variables_of(release: str) -> dict[str, object]:
    """Return the variables that set a release and the jars to install."""
    return {"activemq_release": release, "activemq_archive": str(fetch_jar_directory(Release.of(release)))}


def inventory_of(release: str) -> str:
    """Return an inventory of the pair, as the pages describe it, for the hosts of the test."""
    variables = {
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        "activemq_address": "{{ ansible_host }}",
        "activemq_install": "jars",
        "activemq_console": False,
        "activemq_fence": "guard",
        "activemq_heap": "256m",
        "activemq_java_options": ["-XX:TieredStopAtLevel=1"],
        "activemq_uid": 977,
        "activemq_gid": 977,
        "activemq_users": [_USER],
        "activemq_drill_rate": 40,
        "vault_power_token": "made-up-token",
        **variables_of(release),
    }
    hosts = {host: {"ansible_host": address} for host, address in HOSTS.items()}
    return json.dumps({"all": {"hosts": hosts, "vars": variables}})


def prepare_reader(repository: Path, rack: Rack, directory: Path, release: str) -> ReaderShell:
    """Return a shell in ``directory`` with an inventory of running hosts without brokers."""
    shell = ReaderShell(environment(repository, rack), rack, HOSTS, directory)
    (directory / "inventory").mkdir()
    (directory / "inventory/hosts.yml").write_text(inventory_of(release))
    (directory / "inventory/zz.activemq.yml").write_text("plugin: activemq.fleet.topology\n")
    return shell
