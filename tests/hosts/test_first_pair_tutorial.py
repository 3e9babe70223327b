"""``docs/first-pair.md`` as it is written, with the playbooks of the checkout."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.hosts.first_pair_page import HOSTS, SHARE, check_first_pair
from tests.hosts.machines import Rack
from tests.hosts.playbooks import environment
from tests.hosts.reader_shell import ReaderShell


@pytest.mark.timeout(3000)
def test_first_pair_tutorial_works_as_written(repository: Path, rack: Rack, tmp_path: Path) -> None:
    rack.up(HOSTS, shares=[SHARE], owner=os.getpid())
    check_first_pair(rack, ReaderShell(environment(repository, rack), rack, HOSTS, tmp_path))
