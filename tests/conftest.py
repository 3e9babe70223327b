"""Configuration of all tiers: time limits, no network in unit tests, hypothesis, golden files.

A test belongs to the tier of its directory: tests/unit, tests/pipeline, tests/integration, tests/hosts.
"""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.plugins.loader import init_plugin_loader
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadfile import LoadFileScheduling  # type: ignore[import-untyped] # xdist brings no types

from activemq_fleet._collection import directories_with_this_collection
from tests.golden_files import Golden
from tests.order import LONGEST, SHARED_PAIR
from tests.situations import skip_further_situations

TESTS = Path(__file__).resolve().parent

# This call precedes the import of any plugin. Otherwise Python imports ansible_collections as a plain package, and
# Ansible finds no collection in this process.
init_plugin_loader(directories_with_this_collection())

# Seconds after which a test counts as hung: long, because other processes may load the machine.
TIMEOUTS = {"unit": 300, "pipeline": 900, "integration": 420, "hosts": 900}

# FUZZ_EXAMPLES=5000 runs 5000 examples of every property test; 50 suffice for a commit. `make test` repeats the same
# examples, so that a failure is due to the commit. pytest alone draws new examples each time.
settings.register_profile(
    "fleet",
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "50")),
    deadline=None,
    derandomize=bool(os.environ.get("FLEET_REPEATABLE")) and "FUZZ_EXAMPLES" not in os.environ,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fleet")


# A background process of a shell ignores interrupts, and so do its child processes. Tests interrupt theirs.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the golden files instead of comparing with them (make golden)",
    )


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    for item in items:
        tier = tier_of(item)
        item.add_marker(tier)
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUTS[tier]))
    items.sort(key=lambda item: LONGEST.index(file_of(item)) if file_of(item) in LONGEST else len(LONGEST))
    if config.getoption("--update-golden"):
        others = [item for item in items if "golden" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if "golden" in getattr(item, "fixturenames", ())]
    yield
    skip_further_situations(items)  # after -k and -m, so that the selected tests run


class ScheduleByFile(LoadFileScheduling):
    """A scheduler that runs the tests of a file in one process, and those of all files in ``SHARED_PAIR``."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0].removeprefix("tests/")
        return "shared pair" if file in SHARED_PAIR else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ScheduleByFile | None:
    return ScheduleByFile(config, log) if config.getoption("dist") == "loadfile" else None


def file_of(item: pytest.Item) -> str:
    """Return the file of a test, relative to tests/, as in tests/order.py."""
    return item.path.relative_to(TESTS).as_posix()


def tier_of(item: pytest.Item | pytest.Module) -> str:
    """Return the tier of a test: its directory below tests/."""
    tier = item.path.relative_to(TESTS).parts[0]
    if tier not in TIMEOUTS:
        raise pytest.UsageError(f"{item.path} belongs to no tier: move it to tests/{{{','.join(TIMEOUTS)}}}")
    return tier


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Provide the comparison of generated files with tests/golden; see tests/golden_files.py."""
    return Golden(TESTS / "golden", update=bool(request.config.getoption("--update-golden")))


@pytest.fixture(autouse=True, scope="module")
def _no_network(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a unit test that connects to another machine, so that no unit test depends on a network."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        if tier_of(request.node) == "unit":
            for name in ("connect", "connect_ex"):
                monkeypatch.setattr(socket.socket, name, _loopback_only(getattr(socket.socket, name)))
        yield


def _loopback_only(connect: Callable[..., Any]) -> Callable[..., Any]:
    def connect_to_loopback(self: socket.socket, address: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
            pytest.fail(f"a unit test connects to {address[0]}: replace the server, since unit tests have no network")
        return connect(self, address)

    return connect_to_loopback


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Provide a file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=False, capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"the test cannot mount a file system, which requires root: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)
