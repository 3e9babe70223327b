"""Fixtures of the hosts tier: real systemd hosts, or a skip that the summary shows in red.

``ACTIVEMQ_FLEET_HOSTS=required`` turns the skip into an error.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.brokers import SHARE, separate_share
from tests.hosts.machines import Rack, UnsupportedError, probe
from tests.hosts.machines.base import find_or_build
from tests.hosts.machines.rack import base_directory
from tests.hosts.playbooks import Controller

_REASON = pytest.StashKey[str]()


@pytest.fixture(scope="session")
def machines_supported(request: pytest.FixtureRequest) -> None:
    """Skip the tests if the kernel, the user or the system does not support machines."""
    reason = probe()
    if reason is None:
        try:
            find_or_build(base_directory())
        except UnsupportedError as error:
            reason = str(error)
    if reason is None:
        return
    if os.environ.get("ACTIVEMQ_FLEET_HOSTS") == "required":
        pytest.fail(f"ACTIVEMQ_FLEET_HOSTS requires systemd hosts, but this system does not support them: {reason}")
    request.config.stash[_REASON] = reason
    pytest.skip(f"this system does not support systemd hosts: {reason}")


@pytest.fixture(scope="module")
def rack(machines_supported: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    """Provide an empty rack, and stop it at the end; the next run stops the rack of a killed run."""
    with Rack(tmp_path_factory.mktemp("rack")) as rack:
        yield rack


@pytest.fixture(scope="session")
def repository() -> Path:
    return Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def installed_pair(
    machines_supported: None, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Controller]:
    """Provide a pair that the playbook ``site`` installed and started; its share is a separate file system of 512 MB.

    One process runs the files that use it (``SHARED_PAIR`` in ``tests/order.py``). Each test leaves both nodes running.
    """
    rack = Rack(tmp_path_factory.mktemp("rack"))
    with separate_share(rack, tmp_path_factory.mktemp("share"), "512m"):
        controller = Controller(repository, rack)
        controller.install_pair(share=SHARE)
        yield controller


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    reason = config.stash.get(_REASON, None)
    if reason is not None:
        terminalreporter.section("SYSTEMD HOSTS NOT TESTED", red=True, bold=True)
        terminalreporter.line(f"No test ran on systemd hosts: {reason}", red=True)
