"""The matrix of versions: each ansible-core with its Python versions, and the code of managed hosts on 3.9 to 3.13.

`make versions` runs it. A session whose interpreter is missing is reported as skipped. Each session writes its result
to build/versions/, from which `python -m scripts.versions_page --record` makes docs/versions.md.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).resolve().parent))

from scripts.ansible_cores import CORES

ROOT = Path(__file__).resolve().parent
RESULTS = ROOT / "build" / "versions"
UNSUPPORTED_CORES = ("2.16", "2.17", "2.18")
HOSTS = ("3.9", "3.10", "3.11", "3.12", "3.13")
PLUGIN_TESTS = ("ansible_release", "inventory", "plugins_inventory", "plugins_filters")
# Tests of node code that run without tests/conftest.py, which imports Ansible, and with any Python of hosts.
NODE_TESTS = (
    *("bridge_breaks", "certificates", "configure_archive", "configure_diff", "configure_validate"),
    *("fence_generation", "fence_shared_store", "fence_store_writers", "foreign_data", "install_attacks", "jmx"),
    *("kahadb_index", "kahadb_store_repair", "kahadb_moved_acks", "packed_programs", "plugins_broker_watch"),
    *("plugins_fitness", "plugins_jars", "plugins_machine_info", "plugins_process", "plugins_watchdog_module"),
    *("stomp_client", "store_depths", "store_marker_attacks"),
)
EXAMPLE = "examples/bridged-pairs"
PAIR = "examples/two-machines"

nox.options.default_venv_backend = "venv"
nox.options.envdir = "build/sessions"
nox.options.error_on_missing_interpreters = False
# Interpreters of pyenv are found without shims.
os.environ["PATH"] = os.pathsep.join(
    [os.environ["PATH"], *map(str, sorted(Path.home().glob(".pyenv/versions/*/bin"), reverse=True))]
)


@nox.session
@nox.parametrize(
    "python,core",
    [nox.param(python, core, id=f"{core}-py{python}") for core, pythons in CORES.items() for python in pythons],
)
def controller(session: nox.Session, core: str) -> None:
    """Use the collection with an ansible-core: plugins, documentation, playbooks, the check of an example."""
    record = begin_with_library(session, "controller", core)
    session.install(
        "--constraint", str(constraints(session)), "pytest", "pytest-timeout", "hypothesis", "psutil", "packaging"
    )
    variables = {"ANSIBLE_HOME": str(ROOT / ".ansible"), "PYTHONPATH": "src:agent/src"}
    session.run("python", "-m", "pytest", "-q", *paths_of(PLUGIN_TESTS), env=variables)
    session.run("python", "-m", "scripts.check_ansible_doc", env=variables, silent=True)
    playbooks = sorted(f"activemq.fleet.{path.stem}" for path in ROOT.glob("playbooks/*.yml"))
    session.run("ansible-playbook", "--syntax-check", "-i", EXAMPLE, *playbooks, env=variables, silent=True)
    session.run("ansible-playbook", "-i", EXAMPLE, "activemq.fleet.check", env=variables, silent=True)
    session.run("activemq-fleet", "check", "-i", EXAMPLE, env=variables, silent=True)
    finish(session, record)


@nox.session
@nox.parametrize("python,core", [nox.param("3.11", core, id=core) for core in UNSUPPORTED_CORES])
def refused(session: nox.Session, core: str) -> None:
    """Check that command line, playbook and inventory plugin report an error that names the required ansible-core."""
    record = begin(session, "refused", core)
    install_library(session, "2.19")
    session.install("--upgrade", f"ansible-core~={core}.0", silent=True)
    record["ansible_core"] = installed(session, "ansible-core")
    variables = {"ANSIBLE_HOME": str(ROOT / ".ansible"), "COLUMNS": "1000"}
    for command, codes in (
        (("activemq-fleet", "check", "-i", EXAMPLE), [2]),
        # After an error of the inventory plugin, the commands return their exit code for an unreadable source.
        (("ansible-playbook", "-i", EXAMPLE, "activemq.fleet.check"), [4]),
        (("ansible-inventory", "-i", EXAMPLE, "--graph"), [4]),
    ):
        output = str(session.run(*command, env=variables, success_codes=codes, silent=True))
        if (
            not re.search(r"ansible-core\s+2\.19\s+or\s+later", output)
            or "Traceback" in output
            or "_internal" in output
        ):
            session.error(f"{' '.join(command)} did not report the required version of ansible-core: {output[-1000:]}")
    finish(session, record)


@nox.session
@nox.parametrize("python,core", [nox.param(pythons[0], core, id=core) for core, pythons in CORES.items()])
def modules(session: nox.Session, core: str) -> None:
    """Run a module on this machine with each Python of hosts, with an ansible-core."""
    record = begin_with_library(session, "modules", core)
    empty = session.create_tmp()
    hosts = []
    for version in HOSTS:
        interpreter = shutil.which(f"python{version}")
        if interpreter is None:
            session.warn(f"Python {version} is missing: no module was run with it")
            continue
        session.run(
            *("ansible", "localhost", "-m", "activemq.fleet.store_info", "-a", f"base={empty} directory={empty}"),
            *("-e", f"ansible_python_interpreter={interpreter}"),
            env={"ANSIBLE_HOME": str(ROOT / ".ansible")},
            silent=True,
        )
        hosts.append(version)
    finish(session, record | {"hosts": ", ".join(hosts)})


@nox.session
@nox.parametrize("python,core", [nox.param(pythons[0], core, id=core) for core, pythons in CORES.items()])
def site(session: nox.Session, core: str) -> None:
    """Install a pair of a lab with the playbook `site`, start the pair, and check that a second run changes nothing."""
    record = begin_with_library(session, "site", core)
    lab = Path(session.create_tmp()) / "lab"
    options = ("--inventory", PAIR, "--dir", str(lab))
    session.run("activemq-fleet", "lab", "prepare", *options, silent=True)
    try:
        if 0 in count_changes(session, lab):
            session.error("the playbook site installed nothing on a host of a new lab")
        session.run("activemq-fleet", "lab", "up", *options, silent=True)
        if any(count_changes(session, lab)):
            session.error("the second run of the playbook site changed a host")
    finally:
        session.run("activemq-fleet", "lab", "down", *options, silent=True)
    finish(session, record)


@nox.session(python=list(HOSTS))
def node(session: nox.Session) -> None:
    """Import all code of managed hosts with the standard library alone, and run its tests."""
    record = begin(session, "node", "")
    # With these options, only the standard library can be imported.
    session.run("python", "-I", "-S", "scripts/import_node_code.py")
    session.install("pytest", "pytest-timeout", "hypothesis")
    session.run("python", "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", *paths_of(NODE_TESTS))
    finish(session, record)


def count_changes(session: nox.Session, lab: Path) -> list[int]:
    """Run `site` on the hosts of a lab, and return the number of changed tasks of each host."""
    output = session.run(
        *("ansible-playbook", "-i", PAIR, "-i", str(lab / "inventory.yml"), "activemq.fleet.site"),
        env={"ANSIBLE_HOME": str(ROOT / ".ansible"), "ANSIBLE_NOCOLOR": "true"},
        silent=True,
    )
    changes = [int(number) for number in re.findall(r" changed=(\d+) ", str(output))]
    if len(changes) != 2:
        session.error(f"the playbook site did not report both hosts of the pair: {str(output)[-1000:]}")
    return changes


def install_library(session: nox.Session, core: str) -> None:
    """Install the checkout with an ansible-core, and the pinned versions of all other packages."""
    session.install("hatchling", "--constraint", str(constraints(session)), silent=True)
    session.install(
        *("--constraint", str(constraints(session)), "--no-build-isolation"),
        *("--editable", ".[lab]", "--editable", "agent", f"ansible-core~={core}.0"),
    )


def constraints(session: nox.Session) -> Path:
    """Return a file of the versions in requirements/dev.txt without hashes and without ansible-core."""
    pins = re.findall(r"^[A-Za-z0-9._-]+==[^\s\\]+", (ROOT / "requirements" / "dev.txt").read_text(), re.MULTILINE)
    path = Path(session.create_tmp()) / "constraints.txt"
    path.write_text("".join(f"{pin}\n" for pin in pins if not pin.startswith("ansible-core==")))
    return path


def paths_of(names: tuple[str, ...]) -> list[str]:
    """Return the test files of these names."""
    return [f"tests/unit/test_{name}.py" for name in names]


def installed(session: nox.Session, package: str) -> str:
    """Return the version of an installed package."""
    code = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
    return str(session.run("python", "-c", code, silent=True)).strip()


def begin(session: nox.Session, kind: str, core: str) -> dict[str, str]:
    """Record that a session did not pass yet, and return the record."""
    code = "import platform; print(platform.python_version())"
    python = str(session.run("python", "-c", code, silent=True)).strip()
    record = {"kind": kind, "core": core, "python": python, "result": "failed"}
    write(session, record)
    return record


def begin_with_library(session: nox.Session, kind: str, core: str) -> dict[str, str]:
    """Begin a session, install the checkout with an ansible-core, and return the record with its complete version."""
    record = begin(session, kind, core)
    install_library(session, core)
    return record | {"ansible_core": installed(session, "ansible-core")}


def finish(session: nox.Session, record: dict[str, str]) -> None:
    """Record that a session passed."""
    write(session, record | {"result": "passed"})


def write(session: nox.Session, record: dict[str, str]) -> None:
    """Write the record of a session."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^A-Za-z0-9.]+", "-", str(session.name)).strip("-")
    (RESULTS / f"{name}.json").write_text(json.dumps(record, sort_keys=True) + "\n")
