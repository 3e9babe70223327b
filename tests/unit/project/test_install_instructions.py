"""Instructions to install the project, executed with an index in which a stranger registered its names."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from activemq_fleet import __version__
from activemq_fleet.install_hint import install_hint

ROOT = Path(__file__).resolve().parents[3]
STRANGER_CODE = "print('STRANGER CODE RUNS')"
PROJECT_NAMES = ("activemq-fleet", "activemq-agent")
WHEEL_SOURCES = {"activemq_fleet": ROOT, "activemq_agent": ROOT / "agent"}
_WORD = r"""(?:'[^'\n]*'|[^\s`"'#()]+)"""
_COMMAND = re.compile(rf"\bpip (?:install|wheel)(?: +{_WORD})+")


def wheel_content(name: str, version: str, code: str = "") -> bytes:
    """Return a wheel of one module."""
    content, plain = io.BytesIO(), name.replace("-", "_")
    about = f"{plain}-{version}.dist-info"
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(f"{plain}/__init__.py", code)
        extras = "".join(f"Provides-Extra: {extra}\n" for extra in ("lab", "agent", "pipeline", "connect"))
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{extras}")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    return content.getvalue()


class Index(BaseHTTPRequestHandler):
    """An index with every name; the packages with the names of the project contain the code of a stranger."""

    requested_paths: list[str]

    def do_GET(self) -> None:
        self.requested_paths.append(self.path)
        name = self.path.strip("/").split("/")[0]
        versions = ("0.1.0", "1.0", "99.0") if name in PROJECT_NAMES else ("9999",)
        if self.path.endswith(".whl"):
            content = wheel_content(
                name, self.path.rsplit("/", 1)[1].split("-")[1], STRANGER_CODE if name in PROJECT_NAMES else ""
            )
        else:
            files = [f"{name.replace('-', '_')}-{version}-py3-none-any.whl" for version in versions]
            content = "".join(f"<a href='/{name}/{file}'>{file}</a>" for file in files).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/octet-stream" if self.path.endswith(".whl") else "text/html")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def serve_index() -> Iterator[tuple[str, list[str]]]:
    """Serve the stranger's index on loopback; yield its address and the requested paths."""
    handler = type("Handler", (Index,), {"requested_paths": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/", handler.requested_paths  # type: ignore[attr-defined]
        finally:
            server.shutdown()


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with dist/, as `make package` leaves a checkout."""
    directory = tmp_path_factory.mktemp("checkout")
    for source in WHEEL_SOURCES.values():
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(directory / "dist")]
        subprocess.run([*command, str(source)], check=True, capture_output=True)
    return directory


def pip_commands() -> list[str]:
    """Return every pip command with a name of the project that README, docs and the program contain."""
    texts = [path.read_text("utf-8") for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))]
    sources = [path for name in ("src", "agent/src", "plugins") for path in sorted((ROOT / name).rglob("*.py"))]
    sources_of_messages = [path.read_text("utf-8") for path in sources if path.name != "install_hint.py"]
    try:
        from activemq_fleet.install_hint import install_hint
    except ImportError:
        pass
    else:
        texts += [install_hint(extra) for extra in ("", "lab", "agent", "pipeline")]
    commands = [match[0] for text in (*texts, *sources_of_messages) for match in _COMMAND.finditer(text)]
    return sorted({command for command in commands if re.search("activemq[-_](fleet|agent)", command)})


def run_command(command: str, checkout: Path, address: str, target: Path) -> subprocess.CompletedProcess[str]:
    """Run a command unchanged, with an index that is configured by variables of the environment."""
    settings = {
        "PIP_INDEX_URL": address, "PIP_TARGET": str(target), "PIP_CONFIG_FILE": os.devnull, "PIP_NO_CACHE_DIR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1",
    }  # fmt: skip
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHON"))}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=checkout,
        env=environment | settings,
        capture_output=True,
        text=True,
        check=False,
    )


def test_pip_command_with_bare_name_installs_code_of_stranger(checkout: Path, tmp_path: Path) -> None:
    """The attack succeeds with a bare name, so that the next test can detect it."""
    with serve_index() as (address, _):
        assert run_command("pip install 'activemq-fleet[lab]'", checkout, address, tmp_path / "bare").returncode == 0
    assert "STRANGER" in (tmp_path / "bare/activemq_fleet/__init__.py").read_text()


def test_no_instruction_of_project_installs_code_of_stranger(checkout: Path, tmp_path: Path) -> None:
    commands = pip_commands()
    assert len(commands) >= 4
    for number, command in enumerate(commands):
        target = tmp_path / f"{number}"
        with serve_index() as (address, requested_paths):
            process = run_command(command, checkout, address, target)
        packages_of_stranger = [
            path for path in requested_paths if path.endswith(".whl") and path.strip("/").startswith(PROJECT_NAMES)
        ]
        assert packages_of_stranger == [], command
        modules = [path.read_text() for path in target.glob("activemq_*/__init__.py")]
        assert not [text for text in modules if "STRANGER" in text], command
        if "--no-index" not in command:
            assert process.returncode == 0, f"{command}\n{process.stderr}"
            assert requested_paths, f"{command} requested nothing from the index, so the attack had no target"


@pytest.mark.parametrize("extra", ["", "lab", "agent", "pipeline"])
def test_install_hint_names_wheels_of_release_and_how_to_build_them(extra: str) -> None:
    hint = install_hint(extra)

    assert hint.startswith("install the wheels of a release (`make package` builds them in a checkout): pip install ")
    assert f"activemq_fleet-{__version__}-py3-none-any.whl" in hint


@pytest.mark.parametrize("path", sorted((ROOT / "examples/ci-lint").glob("*.yml")), ids=lambda path: path.name)
def test_ci_example_installs_only_files_with_hashes(path: Path) -> None:
    installs = [line.strip() for line in path.read_text("utf-8").splitlines() if "pip install" in line]

    assert installs
    assert [line for line in installs if "cd dist && pip install --require-hashes --requirement" not in line] == []
