"""Programs that are installed on hosts as a single file contain all modules that they import."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from activemq_fleet.node.fence import guard_installation
from activemq_fleet.node.install.program_archive import guard_and_watchdog_interpreter
from activemq_fleet.node.watchdog import watchdog_installation

NODE = Path(__file__).resolve().parents[2] / "plugins/module_utils/node"
PYTHON = getattr(sys, "_base_executable", sys.executable)
"""The interpreter outside virtual environments, which cannot import this project from another directory."""


@pytest.mark.parametrize(
    "program", [guard_installation.guard_program_content, watchdog_installation.watchdog_program_content]
)
def test_packed_program_starts_without_installed_packages(program: Callable[[str], bytes], tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_bytes(program(PYTHON))
    path.chmod(0o700)
    completed = subprocess.run(
        [str(path), "--help"], capture_output=True, text=True, timeout=60, check=False, cwd=tmp_path
    )
    assert (completed.returncode, completed.stderr) == (0, "")
    assert "--" in completed.stdout


def test_program_has_system_interpreter_where_it_is_same(tmp_path: Path) -> None:
    for version in ("python3.11", "python3.12"):
        (tmp_path / version).touch()
    (tmp_path / "python3").symlink_to("python3.11")
    (tmp_path / "venv-python").symlink_to("python3.11")
    system = str(tmp_path / "python3")
    chosen = {
        name: guard_and_watchdog_interpreter(str(tmp_path / name), system) for name in ("python3.11", "venv-python")
    }
    assert chosen == {"python3.11": system, "venv-python": system}
    other = str(tmp_path / "python3.12")
    assert guard_and_watchdog_interpreter(other, system) == other
    assert guard_and_watchdog_interpreter(other, str(tmp_path / "missing")) == other


@pytest.mark.parametrize("module", ["guard", "watchdog", "machine_info", "rollback"])
def test_modules_that_install_or_compare_programs_choose_their_interpreter(module: str) -> None:
    source = (NODE.parents[1] / "modules" / f"{module}.py").read_text()
    assert "guard_and_watchdog_interpreter()" in source
    assert "sys.executable" not in source


def test_packed_program_contains_module_that_main_module_newly_imports(tmp_path: Path) -> None:
    shutil.copytree(NODE, tmp_path / "node", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "node/process/added_module.py").write_text(
        "from ..errors import NodeError\n\nERROR = NodeError('added')\n"
    )
    with (tmp_path / "node/fence/guard_cli.py").open("a") as source:
        source.write(
            "\nfrom ..process import added_module\n\n\ndef main() -> None:\n    print(repr(added_module.ERROR))\n"
        )
    path = tmp_path / "program"
    path.write_bytes(_packed_guard_program(tmp_path))
    path.chmod(0o700)
    shutil.rmtree(tmp_path / "node")
    completed = subprocess.run([str(path)], capture_output=True, text=True, timeout=60, check=False)
    assert completed.stderr == ""
    assert completed.stdout == "NodeError('added')\n"


def test_packed_guard_is_same_for_copy_of_package_node(tmp_path: Path) -> None:
    shutil.copytree(NODE, tmp_path / "node", ignore=shutil.ignore_patterns("__pycache__"))
    assert _packed_guard_program(tmp_path) == guard_installation.guard_program_content(PYTHON)


def test_install_replaces_guard_of_earlier_version_and_repairs_its_mode_once(tmp_path: Path) -> None:
    path = tmp_path / "activemq-guard"
    with zipfile.ZipFile(path, "w") as earlier:
        package = "ansible_collections.activemq.fleet.plugins.module_utils.fence"
        earlier.writestr("__main__.py", f"from {package}.guard import main\n\nmain()\n")
    guard_program_content = guard_installation.guard_program_content(PYTHON)
    assert guard_installation.install_executable(str(path), guard_program_content)
    assert path.read_bytes() == guard_program_content
    assert not guard_installation.install_executable(str(path), guard_program_content)
    path.chmod(0o600)
    assert guard_installation.install_executable(str(path), guard_program_content)
    assert path.stat().st_mode & 0o7777 == 0o755


def _packed_guard_program(directory: Path) -> bytes:
    program = (
        f"import sys; sys.path.insert(0, {str(directory)!r})\n"
        "from node.fence.guard_installation import guard_program_content\n"
        f"sys.stdout.buffer.write(guard_program_content({PYTHON!r}))"
    )
    return subprocess.run([PYTHON, "-I", "-c", program], capture_output=True, timeout=60, check=True).stdout
