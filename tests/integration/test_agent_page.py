"""The commands of ``docs/agent.md`` work with a pair of real brokers."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

from activemq_fleet.lab.lab import Lab
from tests.integration.conftest import LabOf
from tests.situations import in_every_situation
from tests.support.command_blocks import read_page, replace_values, run_page
from tests.support.documentation_pages import REPOSITORY, write_inventory

HOSTS = ("orders-mq01-a.example.com", "orders-mq01-b.example.com")


@pytest.fixture
def lab(lab_of: LabOf, tmp_path: Path) -> Lab:
    """Start the pair of the how-to pages and return its lab."""
    write_inventory(tmp_path)
    lab = lab_of(tmp_path / "inventory")
    lab.up()
    return lab


@in_every_situation
@pytest.mark.timeout(1200)
def test_commands_of_agent_page_publish_event(lab: Lab, tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="agent-") as directory:  # the path of a socket has at most 107 bytes
        shutil.copy(tmp_path / "inventory/.secrets/app", Path(directory) / "password")
        values = {}
        for host in HOSTS:
            ((address, port),) = lab.addresses(host, "mqtt")
            values[f"{host}:1883"] = f"{address}:{port}"

        run_page(replace_values(read_page(REPOSITORY / "docs/agent.md"), values), Path(directory))
