"""The sources from which the role installs the agent as root: never a package that another person registered."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

from activemq_fleet.settings.agent import AgentSettings, pins_one_version
from scripts.wheelhouse import WheelhouseError, refuse_native_code
from tests.situations import in_every_situation, some_situations

ROOT = Path(__file__).resolve().parents[2]
AGENT_PACKAGE = "activemq-agent"


def write_wheel(
    directory: Path, version: str, name: str = "activemq_agent", *, body: str = "", program: bool = False
) -> Path:
    """Write a wheel of one module, if requested with a command ``activemq-agent`` that prints the module's name."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/__init__.py", body or f"def main(): print({name!r})\n")
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        if program:
            archive.writestr(f"{info}/entry_points.txt", f"[console_scripts]\nactivemq-agent = {name}:main\n")
        archive.writestr(
            f"{info}/RECORD", f"{name}/__init__.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n"
        )
    return path


def write_wheels_of_requirements(directory: Path) -> None:
    """Write a wheel of each requirement of the agent in its pinned version, with other bytes than the real wheel."""
    for line in (ROOT / "requirements" / "agent.txt").read_text().splitlines():
        if line[:1].isalpha():
            name, version = line.split()[0].split("==")
            write_wheel(directory, version, name.replace("-", "_"))


class Host:
    """This machine as a host, on which a test runs the task file of the role that installs software."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "agent"
        (root / "inventory").mkdir(parents=True)
        (root / "inventory" / "hosts").write_text(
            f"here ansible_connection=local ansible_python_interpreter={sys.executable}\n"
        )

    def install(self, package: str | None = None, *, wheelhouse: Path | None = None) -> tuple[int, str]:
        """Run ``software.yml`` with an index in which a stranger registered a package with the name of the agent."""
        index = self.root / "index"
        write_wheel(index, "99.0", body="PLANTED = True\n")
        facts = {
            "home": str(self.home),
            "wheelhouse": str(wheelhouse) if wheelhouse else None,
            "package": package,
            "python": sys.executable,
            "is_requirement": pins_one_version(package or ""),
            "inventory_directory": str(self.root / "inventory"),
        }
        play = {
            "hosts": "here",
            "gather_facts": False,
            "vars": {"__activemq_site": {"agents": {"here": facts}}},
            "tasks": [{"ansible.builtin.include_role": {"name": "activemq.fleet.agent", "tasks_from": "software.yml"}}],
        }
        playbook = self.root / "play.yml"
        playbook.write_text(yaml.safe_dump([play]))
        environment = os.environ | {
            "ANSIBLE_HOME": str(self.root / "ansible"),
            "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".ansible/collections"),
            "ANSIBLE_NOCOLOR": "1",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(index),
        }
        program = Path(sys.executable).with_name("ansible-playbook")
        process = subprocess.run(
            [str(program), "-i", str(self.root / "inventory"), str(playbook)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        return process.returncode, process.stdout

    def installed(self) -> dict[str, str]:
        """Return the version of each package in the environment of the agent."""
        if not (self.home / "bin" / "python").exists():
            return {}
        listing = [str(self.home / "bin/python"), "-m", "pip", "list", "--format=json", "--disable-pip-version-check"]
        packages = json.loads(subprocess.run(listing, stdout=subprocess.PIPE, check=True).stdout)
        return {entry["name"].replace("_", "-"): entry["version"] for entry in packages}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@some_situations(1)
@pytest.mark.parametrize("package", [None, "activemq-agent", "activemq-agent>=0.1", "activemq-fleet[agent]>=0.1"])
def test_agent_role_installs_no_package_by_its_name_from_registry(host: Host, package: str | None) -> None:
    exit_code, output = host.install(package)
    assert exit_code != 0, output
    assert "activemq_agent_package is " in output
    assert host.installed() == {}


@in_every_situation
def test_agent_is_installed_from_wheels_next_to_inventory(host: Host) -> None:
    write_wheel(host.root / "inventory" / "wheels", "99.1")
    exit_code, output = host.install(None)
    assert exit_code == 0, output
    assert host.installed()[AGENT_PACKAGE] == "99.1"


@in_every_situation
def test_old_activemq_fleet_with_program_is_replaced_by_agent(host: Host) -> None:
    """Both packages contain bin/activemq-agent: a later removal of activemq-fleet would delete the agent's program."""
    old_wheel = write_wheel(host.root / "old", "0.1.0", "activemq_fleet", program=True)
    venv.create(host.home, with_pip=True, symlinks=True)
    python = str(host.home / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(old_wheel)], check=True)
    write_wheel(host.root / "inventory" / "wheels", "99.1", program=True)
    exit_code, output = host.install(None)
    assert exit_code == 0, output
    assert host.installed().items() >= {AGENT_PACKAGE: "99.1"}.items()
    assert "activemq-fleet" not in host.installed()
    assert subprocess.check_output([host.home / "bin" / "activemq-agent"], text=True) == "activemq_agent\n"


@in_every_situation
def test_requirements_of_wheel_are_installed_only_with_pinned_hashes(host: Host) -> None:
    """The index has every requirement with other bytes; the role installs neither them nor the agent."""
    write_wheels_of_requirements(host.root / "index")
    exit_code, output = host.install(str(write_wheel(host.root / "here", "1.0")))
    assert exit_code != 0
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in output, output
    assert not host.installed().keys() - {"pip", "setuptools"}


def test_agent_role_has_same_pinned_requirements_as_agent_package() -> None:
    assert (ROOT / "roles/agent/files/requirements.txt").read_bytes() == (ROOT / "requirements/agent.txt").read_bytes()


@in_every_situation
def test_wheel_in_wheelhouse_with_another_hash_is_not_installed(host: Host) -> None:
    agent = write_wheel(host.root / "wheelhouse", "1.0")
    write_wheels_of_requirements(host.root / "wheelhouse")
    exit_code, output = host.install(wheelhouse=host.root / "wheelhouse")
    assert exit_code != 0
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in output, output
    assert not host.installed().keys() - {"pip", "setuptools"}
    pins = (host.home / "requirements.txt").read_text().splitlines()
    assert f"activemq-agent==1.0 --hash=sha256:{hashlib.sha256(agent.read_bytes()).hexdigest()}" in pins


@some_situations(1)
@pytest.mark.parametrize("versions", [(), ("1.0", "2.0")])
def test_wheelhouse_without_exactly_one_wheel_of_agent_is_refused(host: Host, versions: tuple[str, ...]) -> None:
    for version in versions:
        write_wheel(host.root / "wheelhouse", version)
    exit_code, output = host.install(wheelhouse=host.root / "wheelhouse")
    assert exit_code != 0
    assert f"contains {len(versions)} wheels of activemq-agent" in " ".join(output.split()), output
    assert host.installed() == {}


def test_agent_wheelhouse_together_with_agent_package_is_refused() -> None:
    with pytest.raises(ValueError, match="activemq_agent_wheelhouse and activemq_agent_package are both set"):
        AgentSettings(agent_wheelhouse="wheels", agent_package="activemq-agent==1.0")


def test_requirement_with_native_code_is_refused_for_wheelhouse(tmp_path: Path) -> None:
    (tmp_path / "orjson-3.11-cp311-cp311-manylinux_2_17_x86_64.whl").touch()
    with pytest.raises(WheelhouseError, match=r"orjson-3.11-cp311-cp311-manylinux_2_17_x86_64.whl is not for every"):
        refuse_native_code(tmp_path)
