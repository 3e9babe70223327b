"""Where the role takes the agent from, which pip installs as root: never from whoever holds a name in an index."""

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
NAME = "activemq-agent"


def wheel(
    directory: Path, version: str, name: str = "activemq_agent", *, body: str = "", program: bool = False
) -> Path:
    """A wheel of one module; ``program``: with a command ``activemq-agent`` that prints the module's name."""
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


def wheels_of_requirements(directory: Path) -> None:
    """Make a wheel of each of the agent's requirements in its pinned version, with other bytes than the real one."""
    for line in (ROOT / "requirements" / "agent.txt").read_text().splitlines():
        if line[:1].isalpha():
            name, version = line.split()[0].split("==")
            wheel(directory, version, name.replace("-", "_"))


class Host:
    """This machine, on which the role's task file that installs software is run with a host's facts."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "agent"
        (root / "inventory").mkdir(parents=True)
        (root / "inventory" / "hosts").write_text(
            f"here ansible_connection=local ansible_python_interpreter={sys.executable}\n"
        )

    def install(self, package: str | None = None, *, wheelhouse: Path | None = None) -> tuple[int, str]:
        """Run ``software.yml``; the index has a package of the agent's name that somebody registered."""
        planted = self.root / "index"
        wheel(planted, "99.0", body="PLANTED = True\n")
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
            "PIP_FIND_LINKS": str(planted),
        }
        program = Path(sys.executable).with_name("ansible-playbook")
        done = subprocess.run(
            [str(program), "-i", str(self.root / "inventory"), str(playbook)],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout

    def installed(self) -> dict[str, str]:
        """What the agent's environment holds: name -> version."""
        if not (self.home / "bin" / "python").exists():
            return {}
        listing = [str(self.home / "bin/python"), "-m", "pip", "list", "--format=json", "--disable-pip-version-check"]
        found = json.loads(subprocess.run(listing, stdout=subprocess.PIPE, check=True).stdout)
        return {entry["name"].replace("_", "-"): entry["version"] for entry in found}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@some_situations(1)
@pytest.mark.parametrize("package", [None, "activemq-agent", "activemq-agent>=0.1", "activemq-fleet[agent]>=0.1"])
def test_a_package_that_somebody_registered_under_the_agents_name_is_not_installed(
    host: Host, package: str | None
) -> None:
    code, said = host.install(package)
    assert code != 0, said
    assert "activemq_agent_package is " in said
    assert host.installed() == {}


@in_every_situation
def test_a_directory_of_wheels_beside_the_inventory_is_all_that_is_asked(host: Host) -> None:
    wheel(host.root / "inventory" / "wheels", "99.1")
    code, said = host.install(None)
    assert code == 0, said
    assert host.installed()[NAME] == "99.1"


@in_every_situation
def test_an_activemq_fleet_that_brought_the_program_makes_room_for_the_agent(host: Host) -> None:
    """Both wrote bin/activemq-agent: left there, activemq-fleet would take it along whenever it is removed."""
    old = wheel(host.root / "old", "0.1.0", "activemq_fleet", program=True)
    venv.create(host.home, with_pip=True, symlinks=True)
    python = str(host.home / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", str(old)], check=True)
    wheel(host.root / "inventory" / "wheels", "99.1", program=True)
    code, said = host.install(None)
    assert code == 0, said
    assert host.installed().items() >= {NAME: "99.1"}.items()
    assert "activemq-fleet" not in host.installed()
    assert subprocess.check_output([host.home / "bin" / "activemq-agent"], text=True) == "activemq_agent\n"


@in_every_situation
def test_what_a_wheel_alone_needs_is_installed_by_hash_only(host: Host) -> None:
    """The index has every name, with other bytes; the environment gets none of them, nor the agent."""
    wheels_of_requirements(host.root / "index")
    code, said = host.install(str(wheel(host.root / "here", "1.0")))
    assert code != 0
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in said, said
    assert not host.installed().keys() - {"pip", "setuptools"}


def test_the_role_has_the_hashes_that_this_project_is_tested_with() -> None:
    assert (ROOT / "roles/agent/files/requirements.txt").read_bytes() == (ROOT / "requirements/agent.txt").read_bytes()


@in_every_situation
def test_a_wheel_of_the_wheelhouse_that_is_not_the_known_one_is_not_installed(host: Host) -> None:
    agent = wheel(host.root / "wheelhouse", "1.0")
    wheels_of_requirements(host.root / "wheelhouse")
    code, said = host.install(wheelhouse=host.root / "wheelhouse")
    assert code != 0
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in said, said
    assert not host.installed().keys() - {"pip", "setuptools"}
    pins = (host.home / "requirements.txt").read_text().splitlines()
    assert f"activemq-agent==1.0 --hash=sha256:{hashlib.sha256(agent.read_bytes()).hexdigest()}" in pins


@some_situations(1)
@pytest.mark.parametrize("versions", [(), ("1.0", "2.0")])
def test_a_wheelhouse_that_does_not_hold_one_agent_is_refused(host: Host, versions: tuple[str, ...]) -> None:
    for version in versions:
        wheel(host.root / "wheelhouse", version)
    code, said = host.install(wheelhouse=host.root / "wheelhouse")
    assert code != 0
    assert f"contains {len(versions)} wheels of activemq-agent" in " ".join(said.split()), said
    assert host.installed() == {}


def test_wheelhouse_and_package_are_not_set_together() -> None:
    with pytest.raises(ValueError, match="activemq_agent_wheelhouse and activemq_agent_package are both set"):
        AgentSettings(agent_wheelhouse="wheels", agent_package="activemq-agent==1.0")


def test_a_requirement_with_native_code_is_refused_for_the_wheelhouse(tmp_path: Path) -> None:
    (tmp_path / "orjson-3.11-cp311-cp311-manylinux_2_17_x86_64.whl").touch()
    with pytest.raises(WheelhouseError, match=r"orjson-3.11-cp311-cp311-manylinux_2_17_x86_64.whl is not for every"):
        refuse_native_code(tmp_path)
