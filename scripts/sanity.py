"""Run ansible-test sanity with each supported ansible-core, antsibull-docs, and the steps of an execution environment.

    python -m scripts.sanity [--core LINE ...] [--test NAME ...]

build/sanity contains the home directory of ansible-test, and one environment per line of ansible-core and per tool. The
collection is installed from its archive in a temporary directory, because ansible-test tests no file that git ignores.
ansible-test runs with every Python of controllers and hosts that this machine has, and prints a warning for the others.
The last lines are a table of the results. Without --test they are also written to build/versions/, from which
`python -m scripts.versions_page --record` makes docs/versions.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from scripts.ansible_cores import CORES
from scripts.build_packages import BuildError, build_collection, build_library, run_program, source_date
from scripts.versions_page import RESULTS

ROOT = Path(__file__).resolve().parents[1]
SANITY = ROOT / "build" / "sanity"
HOME = SANITY / "home"
TOOL_PYTHONS = ("3.13", "3.12", "3.11")
"""The Python versions that run antsibull-docs and ansible-builder, the preferred one first."""
HOST_PYTHONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
# ansible-test downloads get-pip.py from the server of its project. ensurepip has the same effect without that server.
_BOOTSTRAP = """\
import subprocess
import sys

subprocess.run([sys.executable, "-m", "ensurepip"], check=True, stdout=subprocess.DEVNULL)
packages = [argument for argument in sys.argv[1:] if not argument.startswith("--no-")]
sys.exit(subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", *packages]).returncode)
"""
_DEFINITION = re.compile(r'^```yaml title="execution-environment\.yml"\n(.*?)^```', re.MULTILINE | re.DOTALL)
_PIP_VERSION = re.compile(r"pip='([\d.]+)'")


class SanityError(Exception):
    """A step before ansible-test failed."""


@dataclass(frozen=True, slots=True)
class SanityResult:
    """The outcome of ansible-test with one line of ansible-core, or of another tool."""

    core: str
    """The line of ansible-core, or the name of the tool."""
    python: str
    passed: bool
    problem: str = ""
    version: str = ""
    """The installed version of ansible-core or of the tool."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ansible-test with each line of ansible-core; exit 1 unless all of them pass."""
    parser = argparse.ArgumentParser(prog="sanity", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--core", action="append", choices=CORES, help="release line of ansible-core (default: all)")
    parser.add_argument(
        "--test", action="append", default=[], metavar="NAME", help="test of ansible-test (default: all)"
    )
    options = parser.parse_args(arguments)
    pythons = find_pythons(HOST_PYTHONS)
    with tempfile.TemporaryDirectory(prefix="sanity-") as scratch:
        try:
            collection = install_collection(Path(scratch))
        except (SanityError, BuildError) as error:
            print(f"sanity: error: {error}", file=sys.stderr)
            return 1
        results = []
        for core in options.core or CORES:
            results.append(run_core(core, collection, pythons, options.test))
            if not options.test:
                # Write each result immediately, so that an interrupted run keeps the results of the earlier lines.
                write_records(results[-1:], pythons, RESULTS)
        if not options.test:
            tool_results = [lint_documentation(collection, pythons), prepare_execution_environment(collection, pythons)]
            write_records(tool_results, pythons, RESULTS)
            results += tool_results
    print(f"\n{'ansible-core':<14} {'Python':<8} result")
    for result in results:
        outcome = "passed" if result.passed else f"failed {result.problem}".rstrip()
        print(f"{result.core:<14} {result.python:<8} {outcome}")
    return 0 if all(result.passed for result in results) else 1


def write_records(results: Iterable[SanityResult], pythons: Iterable[str], directory: Path) -> None:
    """Write a file for each result that has an interpreter; ``pythons`` are those with which ansible-test ran."""
    directory.mkdir(parents=True, exist_ok=True)
    for result in results:
        if result.python == "-":
            continue
        record = {"kind": "sanity tool", "core": "", "tool": result.core}
        if result.core in CORES:
            tested = ", ".join(pythons)
            record = {"kind": "sanity", "core": result.core, "tool": "ansible-test", "tested": tested}
        record |= {
            "version": result.version,
            "python": result.python,
            "result": "passed" if result.passed else "failed",
        }
        (directory / f"sanity-{result.core}.json").write_text(json.dumps(record, sort_keys=True) + "\n")


def find_pythons(versions: Iterable[str]) -> dict[str, str]:
    """Return the interpreter of each version that works: a shim of pyenv exists for versions that it cannot start."""
    interpreters: dict[str, str] = {}
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    for version in versions:
        name = f"python{version}"
        candidates = [shutil.which(name), *(str(path) for path in sorted(pyenv.glob(f"{version}.*/bin/{name}")))]
        for candidate in filter(None, candidates):
            if (path := _started_interpreter(candidate)) is not None:
                interpreters[version] = path
                break
    return interpreters


def install_collection(place: Path) -> Path:
    """Build the archive and install it in ``place``, as users of Galaxy do; return the collection's directory."""
    archive = build_collection(place, source_date())
    galaxy = str(Path(sys.executable).with_name("ansible-galaxy"))
    # The checkout is on sys.path, and without --force ansible-galaxy installs nothing next to it.
    command = [galaxy, "collection", "install", "--offline", "--force", "--collections-path", str(place), str(archive)]
    run_program(command)
    return place / "ansible_collections" / "activemq" / "fleet"


def run_core(core: str, collection: Path, pythons: Mapping[str, str], tests: Sequence[str]) -> SanityResult:
    """Run ansible-test of one line of ansible-core on the collection, with its output passed through."""
    controller = next((version for version in CORES[core] if version in pythons), None)
    if controller is None:
        return SanityResult(core, "-", False, f"because Python {' or '.join(CORES[core])} is missing: install one")
    try:
        environment = _environment(
            f"ansible-core-{core}", "ansible-test", pythons[controller], [f"ansible-core=={core}.*"]
        )
        version = installed_version(environment, "ansible-core")
        _store_pip_bootstrap(environment)
    except (SanityError, BuildError) as error:
        return SanityResult(core, controller, False, f"because {error}")
    print(f"==> ansible-core {version} on Python {controller}", flush=True)
    command = [str(environment / "bin" / "ansible-test"), "sanity", "--requirements"]
    command += [word for test in tests for word in ("--test", test)]
    started = 0
    with subprocess.Popen(
        command,
        cwd=collection,
        env=_test_environment(environment / "bin", _linked_pythons(pythons)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            started += "Running sanity test" in line
    if process.returncode:
        return SanityResult(core, controller, False, version=version)
    # ansible-test also succeeds if it finds no file to test.
    return SanityResult(core, controller, started > 0, "" if started else "because ansible-test ran no test", version)


def lint_documentation(collection: Path, pythons: Mapping[str, str]) -> SanityResult:
    """Run antsibull-docs on the documentation of the collection's plugins and roles."""

    def lint(programs: Path, _python: str) -> None:
        variables = _test_environment(programs, _linked_pythons(pythons))
        command = [str(programs / "antsibull-docs"), "lint-collection-docs", "--plugin-docs", str(collection)]
        run_program(command, variables)

    return _run_tool("antsibull-docs", ("antsibull-docs", "ansible-core"), pythons, lint)


def prepare_execution_environment(collection: Path, pythons: Mapping[str, str]) -> SanityResult:
    """Run the steps of docs/install.md that build an execution environment, as far as they need no base image.

    ansible-builder creates the context and reads the packages of the collection. A new virtual environment represents
    the image: pip installs the resulting requirements, and ansible-doc reads the collection with the library.
    """

    def prepare(programs: Path, python: str) -> None:
        with tempfile.TemporaryDirectory(prefix="execution-environment-") as scratch:
            _install_requirements(programs / "ansible-builder", collection, Path(scratch), python)

    return _run_tool("ansible-builder", ("ansible-builder",), pythons, prepare)


def _run_tool(
    name: str, packages: Sequence[str], pythons: Mapping[str, str], use: Callable[[Path, str], None]
) -> SanityResult:
    """Call ``use`` with the programs of an environment that has a tool, and its Python; return the outcome."""
    python = next((version for version in TOOL_PYTHONS if version in pythons), None)
    if python is None:
        return SanityResult(name, "-", False, "because Python 3.11 to 3.13 is missing: install one")
    try:
        environment = _environment(name, name, pythons[python], packages)
        version = installed_version(environment, name)
    except (SanityError, BuildError) as error:
        return SanityResult(name, python, False, f"because {error}")
    try:
        use(environment / "bin", pythons[python])
    except (SanityError, BuildError) as error:
        return SanityResult(name, python, False, f"because {error}", version)
    return SanityResult(name, python, True, version=version)


def _install_requirements(builder: Path, collection: Path, place: Path, python: str) -> None:
    definition = place / "execution-environment.yml"
    definition.write_text(read_definition(), encoding="utf-8")
    (place / "dist").mkdir()
    build_collection(place / "dist", source_date())
    build_library(place / "dist", source_date())
    context = place / "context"
    run_program([str(builder), "create", "--file", str(definition), "--context", str(context)])
    packages, requirements = place / "bindep.txt", place / "requirements.txt"
    run_program(
        [
            str(builder),
            "introspect",
            str(collection.parents[2]),
            f"--user-pip={context / '_build' / 'requirements.txt'}",
            f"--write-bindep={packages}",
            f"--write-pip={requirements}",
        ],
    )
    if "openssh-clients" not in (packages.read_text("utf-8") if packages.exists() else ""):
        raise SanityError("ansible-builder does not list openssh-clients, a package of meta/ee-bindep.txt")
    # The image has the wheel in the directory of the COPY step.
    text = requirements.read_text("utf-8").replace("/opt/activemq-fleet/", f"{context / '_build' / 'dist'}/")
    requirements.write_text(text, encoding="utf-8")
    image = place / "image"
    run_program([python, "-m", "venv", str(image)])
    core = yaml.safe_load(definition.read_text("utf-8"))["dependencies"]["ansible_core"]["package_pip"]
    run_program([str(image / "bin" / "pip"), "install", "--quiet", core, "--requirement", str(requirements)])
    variables = _test_environment(image / "bin", place) | {"ANSIBLE_COLLECTIONS_PATH": str(collection.parents[2])}
    run_program([str(image / "bin" / "ansible-doc"), "--type", "inventory", "activemq.fleet.topology"], variables)
    run_program([str(image / "bin" / "activemq-fleet"), "--version"], variables)


def read_definition() -> str:
    """Return the definition of an execution environment from docs/install.md."""
    match = _DEFINITION.search((ROOT / "docs" / "install.md").read_text("utf-8"))
    if match is None:
        raise SanityError('docs/install.md has no block with title="execution-environment.yml"')
    return match[1]


def _environment(name: str, program: str, python: str, packages: Sequence[str]) -> Path:
    """Return an environment in build/sanity with packages, one of which has ``program``; create it if necessary."""
    place = SANITY / name
    if not (place / "bin" / program).exists():
        run_program([python, "-m", "venv", "--clear", str(place)])
        run_program([str(place / "bin" / "pip"), "install", "--quiet", *packages])
    return place


def installed_version(environment: Path, package: str) -> str:
    """Return the version of a package in a virtual environment. Raises SanityError if the package is not installed."""
    name = package.replace("-", "_")
    metadata = next(environment.glob(f"lib/python3*/site-packages/{name}-*.dist-info"), None)
    if metadata is None:
        raise SanityError(f"{environment} does not contain {package}: delete it, and run `make sanity` again")
    return metadata.name.removesuffix(".dist-info").partition("-")[2]


def _store_pip_bootstrap(environment: Path) -> None:
    (source,) = environment.glob("lib/python3*/site-packages/ansible_test/_internal/python_requirements.py")
    match = _PIP_VERSION.search(source.read_text("utf-8"))
    if match is None:
        raise SanityError(f"{source} names no version of pip: update _PIP_VERSION")
    cache = HOME / ".ansible" / "test" / "cache" / f"get_pip_{match[1].replace('.', '_')}.py"
    cache.parent.mkdir(parents=True, exist_ok=True)
    cache.write_text(_BOOTSTRAP, encoding="utf-8")


def _linked_pythons(pythons: Mapping[str, str]) -> Path:
    """Return a directory that contains only links to the interpreters."""
    directory = SANITY / "pythons"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for version, path in pythons.items():
        (directory / f"python{version}").symlink_to(path)
    return directory


def _test_environment(programs: Path, pythons: Path) -> dict[str, str]:
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("ANSIBLE_", "PYTHON"))}
    path = os.pathsep.join([str(programs), str(pythons), os.defpath, "/usr/bin"])
    return variables | {"HOME": str(HOME), "PATH": path, "LC_ALL": "C.UTF-8"}


def _started_interpreter(candidate: str) -> str | None:
    try:
        process = subprocess.run(
            [candidate, "-c", "import ensurepip, sys; print(sys.executable)"],
            check=False,
            capture_output=True,
            text=True,
        )
    except OSError:
        return None
    return process.stdout.strip() if process.returncode == 0 else None


if __name__ == "__main__":
    sys.exit(main())
