"""Build the wheels and the Galaxy archive, and check that users can install and use each of them.

The wheel is unpacked into a temporary environment with the requirements, but without this checkout. Ansible must find
the collection there. The wheel and the archive must contain every file of the collection, and no file that only
developers need.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable
from pathlib import Path

from activemq_fleet import __version__
from scripts.build_packages import BuildError, build_agent, build_collection, build_library, source_date

ROOT = Path(__file__).resolve().parents[1]
COLLECTION = "ansible_collections/activemq/fleet"
# The parts of the collection that the archive and the wheel contain.
PARTS = ("extensions/molecule_kit", "meta", "playbooks", "plugins", "roles")
FOREIGN = ("tests/", "scripts/", "build/", ".venv/", ".ansible/", ".git/", "molecule/", "examples/", "agent/")
SANITY = ("tests/config.yml", "tests/sanity")
"""The files of tests/ that ansible-test reads, also in the installed collection."""
PLUGIN = ("inventory", "activemq.fleet.topology")
PLAYBOOK = "activemq.fleet.site"


class BrokenPackageError(Exception):
    """An error for an archive that users could not install or use."""


def main() -> int:
    """Check the wheels and the archive, and print one line for the first problem."""
    with tempfile.TemporaryDirectory(prefix="packages-") as scratch:
        try:
            check_galaxy(Path(scratch))
            check_agent(Path(scratch))
            check_wheel(Path(scratch))
        except (BrokenPackageError, BuildError) as error:
            print(f"packages: error: {error}", file=sys.stderr)
            return 1
    return 0


def check_galaxy(scratch: Path) -> None:
    """Build the Galaxy archive, check its files, and install and verify it."""
    archive = build_collection(scratch, source_date())
    with tarfile.open(archive) as opened:
        names = {name for name in opened.getnames() if not name.endswith("/")}
    pages = {"README.md", "LICENSE", "CHANGELOG.md"}
    metadata = {"MANIFEST.json", "changelogs/changelog.yaml", "tests/config.yml"}
    _compare("the Galaxy archive", names, _collection_files() | pages | metadata)
    without_sanity = {name for name in names if not name.startswith(SANITY)}
    _refuse("the Galaxy archive", without_sanity, (*FOREIGN, "src/", "templates/", "changelogs/fragments/"))
    # Galaxy's importer rejects these names of plugins and module_utils.
    _refuse("the Galaxy archive", {name for name in names if name.endswith("/__main__.py")}, ("plugins/",))
    path_option = ("--collections-path", str(scratch / "collections"))
    # The link to the checkout is on sys.path and would be verified in place of the installed collection.
    galaxy = ("env", "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH=false", _ansible("galaxy"), "collection")
    _run(scratch, *galaxy, "install", "--offline", *path_option, str(archive))
    _run(scratch, *galaxy, "verify", "--offline", *path_option, "activemq.fleet")


def check_agent(scratch: Path) -> None:
    """Build the agent's wheel, and check its files, its program and its version, and that the program starts."""
    wheel = build_agent(scratch, source_date())
    info = f"activemq_agent-{__version__}.dist-info"
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        programs = opened.read(f"{info}/entry_points.txt").decode()
        opened.extractall(scratch / "agent")  # noqa: S202 -- built on the line above
    if "activemq-agent = activemq_agent.cli:main" not in programs:
        raise BrokenPackageError("the agent's wheel has no program activemq-agent")
    files = {f"activemq_agent/{name}" for name in _files(ROOT / "agent" / "src" / "activemq_agent")}
    _compare("the agent's wheel", names, {*files, f"{info}/licenses/LICENSE"})
    _refuse("the agent's wheel", names, (*FOREIGN, "activemq_fleet/", "ansible_collections/"))
    # -S disables site-packages and thereby the checkout; the code adds the path of the requirements again.
    paths = [str(scratch / "agent"), sysconfig.get_path("purelib")]
    code = f"import sys; sys.path += {paths!r}; from activemq_agent.cli import main; sys.exit(main(['--help']))"
    _run(scratch, sys.executable, "-S", "-c", code)


def check_wheel(scratch: Path) -> None:
    """Build the wheel of the library, check its files, and use the collection of the wheel with Ansible."""
    wheel = build_library(scratch, source_date())
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        environment = scratch / "venv"
        site = _create_environment(environment)
        opened.extractall(site)  # noqa: S202 -- built on the line above
    required_files = {f"{COLLECTION}/{name}" for name in _collection_files()}
    library = {f"activemq_fleet/{name}" for name in _files(ROOT / "src" / "activemq_fleet")}
    pictures = {name for name in library if name.startswith("activemq_fleet/docs/pictures/")}
    required_files |= library - pictures
    _compare("the wheel", names, required_files)
    _refuse("the wheel", names, (*FOREIGN, *pictures))
    _use_wheel(scratch, str(environment / "bin" / "python"), site)


def _use_wheel(scratch: Path, python: str, site: Path) -> None:
    documented = _run(scratch, python, "-m", "ansible", "doc", "--json", "--type", *PLUGIN)
    filename = json.loads(documented)[PLUGIN[1]]["doc"]["filename"]
    if not Path(filename).is_relative_to(site):
        raise BrokenPackageError(f"ansible-doc reads {PLUGIN[1]} from {filename}, not from the wheel")
    _run(scratch, python, "-m", "ansible", "playbook", "--inventory", "localhost,", "--list-tasks", PLAYBOOK)
    _run(scratch, python, "-m", "activemq_fleet", "--version")
    if "# Alerts" not in _run(scratch, python, "-m", "activemq_fleet", "help", "alerts"):
        raise BrokenPackageError("`activemq-fleet help alerts` of the wheel does not print the page of alerts")
    if "shared" not in _run(scratch, python, "-m", "activemq_fleet", "rule", "L001"):
        raise BrokenPackageError("`activemq-fleet rule L001` of the wheel does not explain the rule")


def _create_environment(directory: Path) -> Path:
    """Create an environment with the requirements of the current one, and return its site-packages directory.

    The environment does not contain the checkout: Python reads the .pth files of its site-packages directory only, and
    the checkout is listed in a .pth file of the directory that is added here.
    """
    venv.create(directory, symlinks=True, with_pip=False)
    names = {"base": str(directory), "platbase": str(directory)}
    site = Path(sysconfig.get_path("purelib", "venv", vars=names))
    site.joinpath("requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return site


def _collection_files() -> set[str]:
    return {f"{part}/{name}" for part in PARTS for name in _files(ROOT / part)}


def _files(directory: Path) -> Iterable[str]:
    # os.walk instead of rglob, which does not follow the link to the templates.
    for parent, _, names in os.walk(directory, followlinks=True):
        for name in names:
            if not name.endswith(".pyc"):
                yield Path(parent, name).relative_to(directory).as_posix()


def _compare(package: str, names: set[str], required_files: set[str]) -> None:
    missing = sorted(required_files - names)
    if missing:
        raise BrokenPackageError(
            f"{package} lacks {missing[0]} and {len(missing) - 1} more of {len(required_files)} files"
        )


def _refuse(package: str, names: set[str], prefixes: tuple[str, ...]) -> None:
    foreign = sorted(name for name in names if name.startswith(prefixes) or name.endswith(".pyc"))
    if foreign:
        raise BrokenPackageError(f"{package} must not contain {foreign[0]} and {len(foreign) - 1} more files")


def _ansible(command: str) -> str:
    return str(Path(sys.executable).with_name(f"ansible-{command}"))


def _run(scratch: Path, *command: str) -> str:
    # Run it outside the checkout, without variables that could lead to the checkout.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHONPATH"))}
    environment["ANSIBLE_HOME"] = str(scratch / "home")
    # Ansible requires a UTF-8 locale.
    environment["LC_ALL"] = "C.UTF-8"
    process = subprocess.run(command, cwd=scratch, env=environment, check=False, capture_output=True, text=True)
    if process.returncode:
        output = process.stdout + process.stderr
        lines = [line for line in output.splitlines() if line.strip()] or ["no output"]
        # The builder prints another line below the error message.
        error_line = next((line for line in reversed(lines) if re.match(r"(\w+Error|ERROR!?):", line)), lines[-1])
        raise BrokenPackageError(f"{' '.join(command[1:4])} … exited with {process.returncode}: {error_line}")
    return process.stdout


if __name__ == "__main__":
    sys.exit(main())
