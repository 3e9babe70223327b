"""Installation of a broker on a host: the Debian package, and refusals before the first change."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from activemq_fleet.lint import host_findings
from activemq_fleet.node.state.evidence import MachineFacts
from tests.hosts.brokers import broker_report, wait_until
from tests.hosts.debian import SOURCE, repository_of
from tests.hosts.machines import Machine, MachinesError, Rack, UnsupportedError
from tests.situations import in_every_situation
from tests.support.facts_of_brokers import facts_of_broker

HOST, ADDRESS = "shop-mq01-a.example.com", "10.77.0.41"
RELEASE = "5.17.2"
"""The release in Debian 12."""
PASSWORD = "made-up-probe-password"
BASE = "/var/lib/activemq/activemq"
Site = Callable[..., tuple[int, str]]
Program = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def machine(rack: Rack) -> Machine:
    """Start a machine whose only source of packages is a copy of Debian packages."""
    try:
        packages = repository_of("activemq", "libmqtt-client-java")
    except UnsupportedError as error:
        if os.environ.get("ACTIVEMQ_FLEET_HOSTS") == "required":
            pytest.fail(str(error))
        pytest.skip(str(error))
    rack.up({HOST: ADDRESS}, shares=["/srv/debian"], owner=os.getpid())
    for file in packages.iterdir():
        shutil.copy(file, rack.shared("/srv/debian"))
    machine = rack[HOST]
    machine.run("tee", "/etc/apt/sources.list", stdin=SOURCE.format(directory="/srv/debian"))
    return machine


@pytest.fixture(scope="module")
def program(rack: Rack, machine: Machine, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Program:
    """Return a function that runs an Ansible program with an inventory of one broker from the Debian package."""
    variables = {
        "ansible_host": ADDRESS,
        "ansible_user": "root",
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_ssh_executable": str(rack.state / "ssh"),
        "ansible_scp_executable": str(rack.state / "scp"),
        "ansible_sftp_executable": str(rack.state / "sftp"),
        "activemq_ha": "none",
        "activemq_release": RELEASE,
        "activemq_install": "package",
        "activemq_heap": "256m",
        "activemq_uid": 977,
        "activemq_gid": 977,
        "activemq_users": [{"name": "probe", "password": PASSWORD, "groups": ["probes"]}],
    }
    inventory = tmp_path_factory.mktemp("inventory") / "hosts.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": {HOST: variables}}}))
    home = repository / ".ansible"
    environment = os.environ | {
        "ANSIBLE_HOME": str(home),
        "ANSIBLE_COLLECTIONS_PATH": str(home / "collections"),
        "ANSIBLE_PIPELINING": "true",
        "ANSIBLE_NOCOLOR": "true",
        "ANSIBLE_TIMEOUT": "20",
    }

    def run(name: str, *words: str) -> subprocess.CompletedProcess[str]:
        completed = subprocess.run(
            [str(Path(sys.executable).with_name(name)), f"--inventory={inventory}", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        print(completed.stdout)
        return completed

    return run


@pytest.fixture
def site(program: Program) -> Site:
    """Return a function that runs the playbook ``site``; keywords are variables without ``activemq_``."""

    def run(**changed: str) -> tuple[int, str]:
        extra = json.dumps({f"activemq_{name}": value for name, value in changed.items()})
        completed = program("ansible-playbook", "activemq.fleet.site", f"--extra-vars={extra}")
        return completed.returncode, completed.stdout

    return run


def test_machine_info_returns_facts_for_rules_about_hosts(program: Program, machine: Machine) -> None:
    machine.run("mkdir", "--parents", "/opt/java8/bin", "/srv/small")
    machine.run("tee", "/opt/java8/bin/java", stdin="#!/bin/sh\necho 'java version \"1.8.0_392\"' >&2\n")
    machine.run("chmod", "755", "/opt/java8/bin/java")
    machine.run("touch", "/etc/default/activemq")
    machine.run("mount", "-t", "tmpfs", "-o", "size=8m,nosuid", "tmpfs", "/srv/small")
    options = f"-Dactivemq.base={BASE} -Djava.nio.channels.FileLock.broken=true start"
    # A broker that is not installed, which root starts manually.
    program_text = f"import time; log = open('{BASE}/data/by-hand.log', 'w'); time.sleep(9999)"
    script = f'mkdir -p {BASE}/data; systemd-run --unit=by-hand python3 -c "{program_text}" {options}'
    machine.run("sh", "-c", script)
    wait_until(lambda: machine.run("pgrep", "--full", f"activemq.base={BASE}"), "the process of the broker runs")
    module_arguments = {
        "java": "/opt/java8/bin/java",
        "directory": "/srv/small/store",
        "home": "/opt/activemq",
        "base": BASE,
    }
    try:
        completed = program(
            "ansible", HOST, "--module-name=activemq.fleet.machine_info", f"--args={json.dumps(module_arguments)}"
        )
    finally:
        machine.run("sh", "-c", "systemctl stop by-hand; umount /srv/small; rm -r /etc/default/activemq /opt/java8")
    facts = json.loads(completed.stdout[completed.stdout.index("{") :])
    assert facts["store_filesystem"] == "tmpfs"
    assert "nosuid" in facts["store_mount_options"]
    assert isinstance(facts["clock_synchronised"], bool)
    assert len(facts["interfaces"]) > 1
    # The machine is a container.
    assert facts["cloud"] is None
    assert facts["boot"] is None
    subject = facts_of_broker(HOST, "5.18.3", ha="shared-file", store_limit=1 << 30, multicast=True)
    findings = host_findings(subject, MachineFacts.from_machine_info_result(facts))
    assert sorted(finding.rule for finding in findings) == ["L006", "L025", "S013", "V012", "V017", "V070"]


def test_site_refuses_archive_with_wrong_checksum_without_changes(site: Site, machine: Machine, tmp_path: Path) -> None:
    archive = tmp_path / "apache-activemq-5.18.3-bin.tar.gz"
    archive.write_bytes(b"not what the vendor published")
    exit_code, output = site(install="archive", release="5.18.3", archive=str(archive), archive_sha512="0" * 128)
    assert exit_code == 2
    assert f"the SHA-512 of {archive} is " in output
    assert machine.run("sh", "-c", "ls -d /opt/activemq* | grep -v archive$ || true") == ""


@in_every_situation
def test_site_refuses_release_that_packages_of_debian_lack(site: Site, machine: Machine) -> None:
    exit_code, output = site(release="5.17.6")
    assert exit_code == 2
    assert "activemq=5.17.6" in output
    with pytest.raises(MachinesError):
        machine.run("dpkg", "--status", "activemq")


@in_every_situation
def test_broker_of_debian_package_serves_mqtt_and_second_run_changes_nothing(
    site: Site, rack: Rack, machine: Machine, repository: Path
) -> None:
    assert site()[0] == 0
    login = ["--username", "probe", "--password", PASSWORD]
    client = [sys.executable, "-m", "tests.hosts.exchange", *login, "watch", ADDRESS]
    client_run = subprocess.run(rack.lan.inside(*client), cwd=repository, capture_output=True, text=True, check=False)
    assert client_run.returncode == 0, f"{client_run.stderr}\n{broker_report(machine)}"
    command = machine.run("pgrep", "--full", "--list-full", "--uid", "activemq", "activemq.console.Main")
    assert "/usr/share/activemq/bin/activemq.jar" in command
    assert "INFO" in machine.run("head", "-1", "/var/lib/activemq/activemq/data/activemq.log")
    assert machine.run("getent", "passwd", "activemq").endswith("/usr/sbin/nologin\n")
    # The service of the package has no instance to start.
    assert machine.run("sh", "-c", "ls /etc/activemq/instances-enabled") == ""
    exit_code, output = site()
    assert exit_code == 0
    assert output.count("changed=0") == 1
