"""``docs/first-pair.md`` as it is written, on two systemd hosts with a shared directory.

The page names a release whose archive the tests cannot download, so that the commands run with another one.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from activemq_fleet.releases import Release
from tests.hosts.machines import Rack
from tests.hosts.reader_shell import ReaderShell
from tests.hosts.software import archive_of
from tests.support.command_blocks import Command, read_page

PAGE = "docs/first-pair.md"
RELEASE_OF_PAGE = "6.3.1"
RELEASE = "5.18.3"
HOSTS = {"orders-mq01-a.example.com": "10.77.0.61", "orders-mq01-b.example.com": "10.77.0.62"}
REMOVAL = ("systemctl ", "rm ")
STORE = "/srv/activemq/orders-mq01"


def inventory_of_the_page(text: str, archive: Path) -> str:
    """Return the inventory with what the page asks its reader to replace, and the user of the machines."""
    checksum = hashlib.sha512(archive.read_bytes()).hexdigest()
    path = f"/srv/software/apache-activemq-{RELEASE}-bin.tar.gz"
    replaced = text.replace(RELEASE_OF_PAGE, RELEASE).replace("CHECKSUM", checksum).replace(path, str(archive))
    return replaced.replace("ansible_become: true", "ansible_user: root\n    activemq_heap: 256m")


@pytest.mark.timeout(3000)
def test_first_pair_tutorial_works_as_written(repository: Path, rack: Rack, tmp_path: Path) -> None:
    page = read_page(repository / PAGE)
    rack.up(HOSTS, shares=["/srv/activemq"], owner=os.getpid())
    shell = ReaderShell(repository, rack, HOSTS, tmp_path)
    printed = {}

    for step in page.steps:
        if not isinstance(step, Command):
            name, text = step
            (tmp_path / name).write_text(inventory_of_the_page(text, archive_of(Release.of(RELEASE))))
        elif step.line.startswith(REMOVAL):
            for host in HOSTS:
                rack[host].run("bash", "-ec", step.line.replace(RELEASE_OF_PAGE, RELEASE))
        else:
            printed[step.line.strip()] = shell(step.line)

    site = printed["ansible-playbook -i hosts.yml activemq.fleet.site"]
    status = printed["activemq-fleet status -i hosts.yml"]
    assert f"{RELEASE} active" in site
    assert f"{RELEASE} standby" in site
    assert "orders-mq01-a" in status
    assert page.excluded == ()
    for host in HOSTS:
        assert "activemq" not in rack[host].run("ls", "/opt", "/etc/systemd/system")
        assert "activemq" not in rack[host].run("ls", "/var/lib").split()
        assert "db-1.log" in rack[host].run("find", STORE)
