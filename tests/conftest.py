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

from activemq_fleet._collection import collections_path
from tests.golden_files import Golden

TESTS = Path(__file__).resolve().parent

# Before any test imports a plugin: ansible_collections would otherwise be imported as a plain package,
# and Ansible would know no collection in this process any more.
init_plugin_loader(collections_path())

# Seconds a try of a test may take before it counts as hung: generous, for a machine that others load.
TIMEOUTS = {"unit": 300, "pipeline": 900, "integration": 420, "hosts": 900}

# FUZZ_EXAMPLES=5000 makes every property test that many times as thorough as it needs to be for a commit.
# `make test` repeats the same examples, so that a red run is the commit's doing; pytest alone takes new ones each time.
settings.register_profile(
    "fleet",
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "100")),
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


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Leave a line about each test that failed and is tried again, for the table of scripts/run_tests.py."""
    place = os.environ.get("FLEET_SECOND_TRIES")
    # Both the process that runs a test and the one that gathers the reports come here.
    if place and str(report.outcome) == "rerun" and "PYTEST_XDIST_WORKER" not in os.environ:
        crash = getattr(report.longrepr, "reprcrash", None)
        why = str(crash.message if crash else report.longrepr).partition("\n")[0]
        with Path(place).open("a", encoding="utf-8") as stream:
            stream.write(f"{report.nodeid}: {why[:200]}\n")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        tier = tier_of(item)
        item.add_marker(tier)
        if item.get_closest_marker("once") is not None and config.getoption("reruns"):
            # A wait that ran out proves nothing either way. By its type: what an error quotes may hold the word.
            item.add_marker(pytest.mark.flaky(reruns=1, rerun_except=AssertionError))
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUTS[tier]))
    if config.getoption("--update-golden"):
        others = [item for item in items if "golden" not in getattr(item, "fixturenames", ())]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if "golden" in getattr(item, "fixturenames", ())]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A second try begins with everything anew: what a module shares is as the first try left it, for good or ill."""
    if getattr(item, "execution_count", 1) > 1 and isinstance(item, pytest.Function):
        for definitions in item._fixtureinfo.name2fixturedefs.values():
            for definition in definitions:
                if definition.scope == "module":
                    definition.finish(item._request)  # type: ignore[arg-type]


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
