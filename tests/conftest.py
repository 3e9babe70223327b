"""What all tiers share: limits by tier, no network in unit tests, hypothesis, golden files.

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

# Before any test imports a plugin: ansible_collections would otherwise be imported as a plain package,
# and Ansible would know no collection in this process any more.
init_plugin_loader(directories_with_this_collection())

# Seconds a try of a test may take before it counts as hung: generous, for a machine that others load.
TIMEOUTS = {"unit": 300, "pipeline": 900, "integration": 420, "hosts": 900}

# FUZZ_EXAMPLES=5000 makes every property test that many times as thorough as it needs to be for a commit.
# `make test` repeats the same examples, so that a red run is the commit's doing; pytest alone takes new ones each time.
settings.register_profile(
    "fleet",
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "50")),
    deadline=None,
    derandomize=bool(os.environ.get("FLEET_REPEATABLE")) and "FUZZ_EXAMPLES" not in os.environ,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("fleet")


# What a shell starts in the background ignores interrupts, and hands that on to the programs that the tests start
# and interrupt.
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
    items.sort(key=lambda item: LONGEST.index(place_of(item)) if place_of(item) in LONGEST else len(LONGEST))
    if config.getoption("--update-golden"):
        others = [item for item in items if "golden" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if "golden" in getattr(item, "fixturenames", ())]
    yield
    skip_further_situations(items)  # after -k and -m, so that what they select runs


class ScheduleByFile(LoadFileScheduling):
    """Runs the tests of a file in one process, and those of all files that share a pair (``SHARED_PAIR``)."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0].removeprefix("tests/")
        return "shared pair" if file in SHARED_PAIR else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ScheduleByFile | None:
    return ScheduleByFile(config, log) if config.getoption("dist") == "loadfile" else None


def place_of(item: pytest.Item) -> str:
    """The file of a test, as tests/order.py names it."""
    return item.path.relative_to(TESTS).as_posix()


def tier_of(item: pytest.Item) -> str:
    """The tier of a test: the directory below tests/ that it lies in."""
    tier = item.path.relative_to(TESTS).parts[0]
    if tier not in TIMEOUTS:
        raise pytest.UsageError(f"{item.path}: tests lie in tests/{{{','.join(TIMEOUTS)}}}")
    return tier


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Compares what is generated with files under tests/golden; see tests/golden_files.py."""
    return Golden(TESTS / "golden", update=bool(request.config.getoption("--update-golden")))


@pytest.fixture(autouse=True)
def _no_network(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail a unit test that dials anything but this machine, instead of letting it pass only at home."""
    if tier_of(request.node) != "unit":
        return
    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, _loopback_only(getattr(socket.socket, name)))


def _loopback_only(dial: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(self: socket.socket, address: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
            pytest.fail(f"a unit test dialled {address[0]}: unit tests have no network")
        return dial(self, address)

    return guarded


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=False, capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)
