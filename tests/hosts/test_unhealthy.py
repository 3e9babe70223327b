"""Ill pairs, seeded one after the other: ``restart`` and ``upgrade`` refuse each, and touch nothing.

``STATES=all``, as in ``make test-full``, seeds all seventeen for both playbooks; the tests of each playbook seed one.
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
from tests.hosts.brokers import SHARE, own_share, wait_for_pair
from tests.hosts.machines import Rack
from tests.hosts.playbooks import Controller, ended
from tests.hosts.unhealthy import STATES, WHOLE, Pair, refuse
from tests.situations import in_every_situation

OLD, NEW = "5.18.3", "6.3.1"
PLAYED = (("restart", OLD), ("upgrade", NEW))


def to(release: str) -> tuple[str, ...]:
    """What makes the inventory say this release."""
    variables = {"activemq_release": release, "activemq_archive": str(fetch_jar_directory(Release.of(release)))}
    return "--extra-vars", json.dumps(variables)


@pytest.fixture(scope="module")
def share(rack: Rack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The pair's share: a file system of its own, that can be made smaller."""
    with own_share(rack, tmp_path_factory.mktemp("share"), WHOLE) as share:
        yield share


@pytest.fixture(scope="module")
def controller(rack: Rack, repository: Path, share: Path) -> Controller:
    """A pair of the old release, installed and started by the playbook ``site``."""
    controller = Controller(repository, rack)
    controller.start_pair(share=SHARE)
    ended(controller.play("site", *to(OLD)))
    return controller


@pytest.mark.skipif(os.environ.get("STATES") != "all", reason="the tests of both playbooks seed one each: STATES=all")
@pytest.mark.parametrize("state", STATES)
def test_an_ill_pair_is_neither_restarted_nor_upgraded(controller: Controller, share: Path, state: str) -> None:
    active, standby = wait_for_pair(controller.rack.machines)
    refuse(controller, STATES[state], Pair(active, standby, share), [(name, *to(release)) for name, release in PLAYED])


@in_every_situation
def test_the_same_pair_is_restarted_when_it_is_well(controller: Controller) -> None:
    """What was refused was refused because of the state, and nothing of it is left."""
    wait_for_pair(controller.rack.machines)
    told = ended(controller.play("restart", *to(OLD)))
    assert re.findall(r"changed=1 ", told) == ["changed=1 "] * 2
