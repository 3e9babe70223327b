"""Builds the wheels and the Galaxy archive and proves that each is what a user needs.

The wheel goes into a scratch environment that sees the requirements but not this checkout. There
Ansible must find the collection with nothing but the wheel. Both must hold every file of the
collection, and neither a file that belongs to development only.
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
# What both archives carry of the collection, and the wheel beside it.
PARTS = ("extensions/molecule_kit", "meta", "playbooks", "plugins", "roles")
FOREIGN = ("tests/", "scripts/", "build/", ".venv/", ".ansible/", ".git/", "molecule/", "examples/", "agent/")
SANITY = ("tests/config.yml", "tests/sanity")
"""What ansible-test reads of tests/, also in the installed collection."""
PLUGIN = ("inventory", "activemq.fleet.topology")
PLAYBOOK = "activemq.fleet.site"


class Broken(Exception):
    """An archive that a user could not use."""


def main() -> int:
    """Check both archives, and print one line about the first broken one."""
    with tempfile.TemporaryDirectory(prefix="packages-") as scratch:
        try:
            check_galaxy(Path(scratch))
            check_agent(Path(scratch))
            check_wheel(Path(scratch))
        except (Broken, BuildError) as error:
            print(f"packages: error: {error}", file=sys.stderr)
            return 1
    return 0


def check_galaxy(scratch: Path) -> None:
    """Build the Galaxy archive; it holds the collection and neither library nor development, and can be installed."""
    archive = build_collection(scratch, source_date())
    with tarfile.open(archive) as opened:
        names = {name for name in opened.getnames() if not name.endswith("/")}
    wanted = {"tests/config.yml", "README.md", "LICENSE", "MANIFEST.json", "CHANGELOG.md", "changelogs/changelog.yaml"}
    _compare("the Galaxy archive", names, _collection_files() | wanted)
    others = {name for name in names if not name.startswith(SANITY)}
    _refuse("the Galaxy archive", others, (*FOREIGN, "src/", "templates/", "changelogs/fragments/"))
    # Galaxy's importer refuses these names of plugins and module_utils.
    _refuse("the Galaxy archive", {name for name in names if name.endswith("/__main__.py")}, ("plugins/",))
    place = ("--collections-path", str(scratch / "collections"))
    # The link to the checkout is on sys.path and would be verified in place of the installed collection.
    galaxy = ("env", "ANSIBLE_COLLECTIONS_SCAN_SYS_PATH=false", _ansible("galaxy"), "collection")
    _run(scratch, *galaxy, "install", "--offline", *place, str(archive))
    _run(scratch, *galaxy, "verify", "--offline", *place, "activemq.fleet")


def check_agent(scratch: Path) -> None:
    """Build the agent's wheel: its own files, its program, the library's version, and nothing of the library."""
    wheel = build_agent(scratch, source_date())
    info = f"activemq_agent-{__version__}.dist-info"
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        programs = opened.read(f"{info}/entry_points.txt").decode()
        opened.extractall(scratch / "agent")  # noqa: S202 -- built on the line above
    if "activemq-agent = activemq_agent.cli:main" not in programs:
        raise Broken("the agent's wheel has no program activemq-agent")
    files = {f"activemq_agent/{name}" for name in _files(ROOT / "agent" / "src" / "activemq_agent")}
    _compare("the agent's wheel", names, {*files, f"{info}/licenses/LICENSE"})
    _refuse("the agent's wheel", names, (*FOREIGN, "activemq_fleet/", "ansible_collections/"))
    # -S: without site-packages the checkout is not there either; the requirements are put back by name.
    paths = [str(scratch / "agent"), sysconfig.get_path("purelib")]
    code = f"import sys; sys.path += {paths!r}; from activemq_agent.cli import main; sys.exit(main(['--help']))"
    _run(scratch, sys.executable, "-S", "-c", code)


def check_wheel(scratch: Path) -> None:
    """Build the wheel and let Ansible use the collection out of it, and out of nothing else."""
    wheel = build_library(scratch, source_date())
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        place = scratch / "venv"
        site = _environment(place)
        opened.extractall(site)  # noqa: S202 -- built on the line above
    wanted = {f"{COLLECTION}/{name}" for name in _collection_files()}
    library = {f"activemq_fleet/{name}" for name in _files(ROOT / "src" / "activemq_fleet")}
    pictures = {name for name in library if name.startswith("activemq_fleet/docs/pictures/")}
    wanted |= library - pictures
    _compare("the wheel", names, wanted)
    _refuse("the wheel", names, (*FOREIGN, *pictures))
    _use(scratch, str(place / "bin" / "python"), site)


def _use(scratch: Path, python: str, site: Path) -> None:
    documented = _run(scratch, python, "-m", "ansible", "doc", "--json", "--type", *PLUGIN)
    filename = json.loads(documented)[PLUGIN[1]]["doc"]["filename"]
    if not Path(filename).is_relative_to(site):
        raise Broken(f"{PLUGIN[1]} was found in {filename}, not in the wheel")
    _run(scratch, python, "-m", "ansible", "playbook", "--inventory", "localhost,", "--list-tasks", PLAYBOOK)
    _run(scratch, python, "-m", "activemq_fleet", "--version")
    if "# Alerts" not in _run(scratch, python, "-m", "activemq_fleet", "help", "alerts"):
        raise Broken("`activemq-fleet help alerts` of the wheel does not print the page of alerts")
    if "shared" not in _run(scratch, python, "-m", "activemq_fleet", "rule", "L001"):
        raise Broken("`activemq-fleet rule L001` of the wheel does not explain the rule")


def _environment(place: Path) -> Path:
    """An environment with this one's requirements, without its editable install of the checkout.

    A path file named in another path file is not followed: so the requirements come along, and
    the checkout, which stands in such a file, does not.
    """
    venv.create(place, symlinks=True, with_pip=False)
    names = {"base": str(place), "platbase": str(place)}
    site = Path(sysconfig.get_path("purelib", "venv", vars=names))
    site.joinpath("requirements.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return site


def _collection_files() -> set[str]:
    return {f"{part}/{name}" for part in PARTS for name in _files(ROOT / part)}


def _files(directory: Path) -> Iterable[str]:
    # os.walk and not rglob, which does not go through the link to the templates.
    for parent, _, names in os.walk(directory, followlinks=True):
        for name in names:
            if not name.endswith(".pyc"):
                yield Path(parent, name).relative_to(directory).as_posix()


def _compare(what: str, names: set[str], wanted: set[str]) -> None:
    missing = sorted(wanted - names)
    if missing:
        raise Broken(f"{what} lacks {missing[0]} and {len(missing) - 1} more of {len(wanted)} files")


def _refuse(what: str, names: set[str], prefixes: tuple[str, ...]) -> None:
    foreign = sorted(name for name in names if name.startswith(prefixes) or name.endswith(".pyc"))
    if foreign:
        raise Broken(f"{what} carries {foreign[0]} and {len(foreign) - 1} more that do not belong there")


def _ansible(command: str) -> str:
    return str(Path(sys.executable).with_name(f"ansible-{command}"))


def _run(scratch: Path, *command: str) -> str:
    # In a place outside the checkout, and with no variable that could lead back into it.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHONPATH"))}
    environment["ANSIBLE_HOME"] = str(scratch / "home")
    # Ansible refuses a locale that is not UTF-8.
    environment["LC_ALL"] = "C.UTF-8"
    ended = subprocess.run(command, cwd=scratch, env=environment, check=False, capture_output=True, text=True)
    if ended.returncode:
        lines = [line for line in (ended.stdout + ended.stderr).splitlines() if line.strip()] or ["without a word"]
        # The builder puts a line of its own below the error that says what is wrong.
        error_line = next((line for line in reversed(lines) if re.match(r"(\w+Error|ERROR!?):", line)), lines[-1])
        raise Broken(f"{' '.join(command[1:4])} … ended with {ended.returncode}: {error_line}")
    return ended.stdout


if __name__ == "__main__":
    sys.exit(main())
