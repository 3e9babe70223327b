"""Unhealthy pairs, one after the other: ``restart`` and ``upgrade`` refuse each of them and change nothing.

``STATES=all``, as in ``make test-full``, creates all seventeen states for both playbooks; the tests of each playbook
create one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from activemq_fleet.artifacts import fetch_jar_directory
from activemq_fleet.releases import Release
from tests.hosts.brokers import SHARE, separate_share, wait_for_pair
from tests.hosts.machines import Rack
from tests.hosts.playbooks import Controller, checked_output
from tests.hosts.unhealthy import FULL_SIZE, STATES, Pair, assert_refused
from tests.situations import in_every_situation

OLD, NEW = "5.18.3", "6.3.1"
PLAYBOOKS = (("restart", OLD), ("upgrade", NEW))


def release_arguments(release: str) -> tuple[str, ...]:
    """Return the arguments that set a release and its jars."""
    variables = {"activemq_release": release, "activemq_archive": str(fetch_jar_directory(Release.of(release)))}
    return "--extra-vars", json.dumps(variables)


@pytest.fixture(scope="module")
def share(rack: Rack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Provide the share of the pair on a separate file system, whose size can be changed."""
    with separate_share(rack, tmp_path_factory.mktemp("share"), FULL_SIZE) as share:
        yield share


@pytest.fixture(scope="module")
def controller(rack: Rack, repository: Path, share: Path) -> Controller:
    """Return a controller of a pair of the old release, which the playbook ``site`` has installed and started."""
    controller = Controller(repository, rack)
    controller.start_pair(share=SHARE)
    checked_output(controller.run_playbook("site", *release_arguments(OLD)))
    return controller


@pytest.mark.skipif(
    os.environ.get("STATES") != "all", reason="the tests of both playbooks create one state each: set STATES=all"
)
@pytest.mark.parametrize("state", STATES)
def test_restart_and_upgrade_refuse_unhealthy_pair(controller: Controller, share: Path, state: str) -> None:
    active, standby = wait_for_pair(controller.rack.machines)
    assert_refused(
        controller,
        STATES[state],
        Pair(active, standby, share),
        [(name, *release_arguments(release)) for name, release in PLAYBOOKS],
    )


@in_every_situation
def test_restart_accepts_same_pair_when_it_is_healthy(controller: Controller) -> None:
    """The playbooks refused the pair because of its states, of which no trace is left."""
    wait_for_pair(controller.rack.machines)
    output = checked_output(controller.run_playbook("restart", *release_arguments(OLD)))
    assert re.findall(r"changed=1 ", output) == ["changed=1 "] * 2
