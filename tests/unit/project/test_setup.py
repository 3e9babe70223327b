"""scripts/setup.sh stops its child processes when it is stopped, and continues in the next run."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.situations import some_situations
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[3]
FILES = (
    *("scripts/setup.sh", "requirements/demo.txt", "requirements/dev.txt", "requirements/installer.txt"),
    *("pyproject.toml", "agent/pyproject.toml", "hatch_build.py"),
)
INSTALLER, REQUIREMENTS = "requirements/installer.txt", "requirements/demo.txt"
COMPILER, FETCH = "compileall", "scripts.prefetch"
# The program records its arguments and installs nothing. If they contain the text of the file `block`, it writes its
# process id and that of a child, and waits for the child. If they contain the text of the file `fail`, it fails as soon
# as another process is blocked.
PROGRAM = """#!/bin/sh
echo "$*" >>calls
if [ -e block ]; then
    case "$*" in *"$(cat block)"*) sleep 600 & echo "$$ $!" >pids; wait;; esac
fi
if [ -e fail ]; then
    case "$*" in *"$(cat fail)"*)
        while [ -e block ] && [ ! -e pids ]; do sleep 0.01; done
        echo "fetch: error: no network"
        exit 1
    esac
fi
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout with a virtual environment whose Python installs nothing, and with a Maven that is not used."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    monkeypatch.setenv("PATH", str(programs), prepend=os.pathsep)
    for name in ("python", "pip", "uv", "mvn"):
        (programs / name).write_text(PROGRAM)
        (programs / name).chmod(0o755)
    return tmp_path


def is_running(process: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def start_setup(checkout: Path) -> subprocess.Popen[str]:
    """Start scripts/setup.sh --demo in a separate session."""
    return subprocess.Popen(
        [checkout / "scripts" / "setup.sh", "--demo"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


@some_situations(2)
@pytest.mark.parametrize(
    ("stop", "blocked"),
    [
        (signal.SIGTERM, INSTALLER),
        (signal.SIGTERM, REQUIREMENTS),
        (signal.SIGINT, REQUIREMENTS),
        (signal.SIGTERM, FETCH),
        (signal.SIGINT, FETCH),
        (signal.SIGINT, COMPILER),
    ],
)
def test_stopped_setup_leaves_no_child_and_continues_in_next_run(
    checkout: Path, stop: signal.Signals, blocked: str
) -> None:
    (checkout / "block").write_text(blocked)
    setup = start_setup(checkout)
    pids = checkout / "pids"
    wait_until(lambda: pids.is_file() and pids.read_text().endswith("\n"), "the installation has begun")
    processes = [int(word) for word in pids.read_text().split()]
    assert all(map(is_running, processes))

    os.kill(setup.pid, stop)
    output, _ = setup.communicate()

    assert setup.returncode == -stop
    assert output.endswith("setup: stopped; the next run continues\n")
    assert not any(map(is_running, processes))
    assert not (checkout / ".venv" / "fleet-stamp").exists()

    (checkout / "block").unlink()
    second_setup = start_setup(checkout)
    output, _ = second_setup.communicate()
    assert second_setup.returncode == 0, output
    assert "waiting for it" not in output
    assert (checkout / ".venv" / "fleet-stamp").is_file()
    assert (checkout / "calls").read_text().count(blocked) == 2


def test_failed_fetch_of_jars_stops_installation_with_error_message(checkout: Path) -> None:
    (checkout / "block").write_text(REQUIREMENTS)
    (checkout / "fail").write_text(FETCH)
    setup = start_setup(checkout)
    output, _ = setup.communicate()
    assert setup.returncode == 1
    assert output.endswith(
        "failed\nfetch: error: no network\n"
        "setup: error: the jars of the brokers were not downloaded, as the output above shows. Correct the cause, and "
        "run scripts/setup.sh again: it continues\n"
    )
    assert not any(is_running(int(word)) for word in (checkout / "pids").read_text().split())
    assert not (checkout / ".venv" / "fleet-stamp").exists()

    (checkout / "block").unlink()
    (checkout / "fail").unlink()
    second_setup = start_setup(checkout)
    output, _ = second_setup.communicate()
    assert second_setup.returncode == 0, output


def test_failed_installation_with_uv_is_repeated_with_pip(checkout: Path) -> None:
    (checkout / ".venv" / "bin" / "uv").write_text("#!/bin/sh\nexit 1\n")
    setup = start_setup(checkout)
    output, _ = setup.communicate()
    assert setup.returncode == 0, output
    assert "uv cannot install the pinned requirements, so pip installs them" in output
    assert "install the pinned requirements with pip" in output


def test_finished_setup_installs_nothing_again(checkout: Path) -> None:
    for _ in range(2):
        setup = start_setup(checkout)
        output, _ = setup.communicate()
        assert setup.returncode == 0, output
    assert (checkout / "calls").read_text().count(REQUIREMENTS) == 1


def test_virtual_environment_without_pip_is_created_again(checkout: Path) -> None:
    (checkout / ".venv" / "bin" / "pip").unlink()
    python = checkout / "python3.11"
    python.write_text(
        '#!/bin/sh\nmkdir -p .venv/bin\ncase "$*" in *"venv --clear"*) cp .venv/bin/python .venv/bin/pip;; esac\n'
    )
    python.chmod(0o755)
    setup = subprocess.run(
        [checkout / "scripts" / "setup.sh", "--demo"],
        env={**os.environ, "PYTHON": str(python)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert setup.returncode == 0, setup.stderr
    assert "create the virtual environment" in setup.stdout


def test_setup_compiles_imported_modules_despite_pythondontwritebytecode(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    library = checkout / ".venv" / "lib" / "python3" / "site-packages"
    compiled = {
        checkout / "src" / "activemq_fleet" / "errors.py",
        checkout / "agent" / "src" / "activemq_agent" / "errors.py",
        checkout / "plugins" / "module_utils" / "node" / "errors.py",
        library / "pyspark" / "sql" / "pandas" / "types.py",
    }
    omitted = {library / "pandas" / "core.py", library / "pyspark" / "pandas" / "frame.py", library / "tests" / "a.py"}
    for file in compiled | omitted:
        file.parent.mkdir(parents=True)
        file.write_text("")
    python = checkout / ".venv" / "bin" / "python"
    python.write_text(f'#!/bin/sh\ncase "$*" in *{COMPILER}*) exec {sys.executable} "$@";; esac\n')
    setup = start_setup(checkout)
    output, _ = setup.communicate()
    assert setup.returncode == 0, output
    assert {file.parent.parent / f"{file.stem.partition('.')[0]}.py" for file in checkout.rglob("*.pyc")} == compiled
