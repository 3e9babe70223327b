"""Run the commands of ``docs/first-pair.md`` on two systemd hosts with a shared directory.

The tests cannot download the archive of the release on the page, so that the commands run with another release.
"""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

from activemq_fleet.releases import Release
from tests.hosts.machines import Rack
from tests.hosts.reader_shell import ReaderShell
from tests.hosts.software import archive_of
from tests.support.command_blocks import Command, read_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "first-pair.md"
RELEASE_OF_PAGE = "6.3.1"
RELEASE = "5.18.3"
HOSTS = {"orders-mq01-a.example.com": "10.77.0.61", "orders-mq01-b.example.com": "10.77.0.62"}
SHARE = "/srv/activemq"
REMOVAL = ("systemctl ", "rm ", "userdel ")
STORE = f"{SHARE}/orders-mq01"


def inventory_of_page() -> str:
    """Return the inventory of the page with the values and the user of the machines."""
    (inventory_text,) = [step[1] for step in read_page(PAGE).steps if not isinstance(step, Command)]
    archive = archive_of(Release.of(RELEASE))
    checksum = hashlib.sha512(archive.read_bytes()).hexdigest()
    path = f"/srv/software/apache-activemq-{RELEASE}-bin.tar.gz"
    replaced = (
        inventory_text.replace(RELEASE_OF_PAGE, RELEASE).replace("CHECKSUM", checksum).replace(path, str(archive))
    )
    # Without Java's second compiler, the start of a broker takes half the CPU time.
    variables = ("ansible_user: root", "activemq_heap: 256m", 'activemq_java_options: ["-XX:TieredStopAtLevel=1"]')
    return replaced.replace("ansible_become: true", "\n    ".join(variables))


def reader_command(rack: Rack, script: str) -> str:
    """Return the command for a script of the page.

    A script that connects to a broker runs in the network of the machines, whose names only ``ssh`` resolves.
    """
    if "/dev/tcp/" not in script:
        return script
    for host, address in HOSTS.items():
        script = script.replace(f"/dev/tcp/{host}", f"/dev/tcp/{address}")
    return shlex.join(rack.lan.inside("bash", "-ec", script))


def check_first_pair(rack: Rack, shell: ReaderShell) -> None:
    """Run each step of the page, and check that the pair serves and that its removal leaves only the store."""
    page = read_page(PAGE)
    outputs = {}

    for step in page.steps:
        if not isinstance(step, Command):
            (shell.directory / step[0]).write_text(inventory_of_page())
        elif step.line.startswith(REMOVAL):
            for host in HOSTS:
                rack[host].run("bash", "-ec", step.line.replace(RELEASE_OF_PAGE, RELEASE))
        else:
            outputs[step.line.strip()] = shell(reader_command(rack, step.line))

    site = outputs["ansible-playbook -i hosts.yml activemq.fleet.site"]
    status = outputs["activemq-fleet status -i hosts.yml"]
    assert f"{RELEASE} active" in site
    assert f"{RELEASE} standby" in site
    assert "orders-mq01-a" in status
    (conversation,) = [output for script, output in outputs.items() if "/dev/tcp/" in script]
    assert "my first message" in conversation
    assert page.excluded == ()
    for host in HOSTS:
        paths = rack[host].run("ls", "/opt", "/etc/systemd/system", "/usr/local/sbin", "/var/lib", "/etc/passwd")
        assert "activemq" not in paths + rack[host].run("cat", "/etc/passwd", "/etc/group")
        assert rack[host].run("systemctl", "is-system-running").strip() == "running"
        assert "db-1.log" in rack[host].run("find", STORE)
