"""Ill pairs, seeded one after the other: ``restart`` and ``upgrade`` refuse each, and touch nothing.

``STATES=all``, as in ``make test-full``, seeds all sixteen for both playbooks, otherwise it is one for each.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from activemq_fleet.artifacts import jars_for
from activemq_fleet.releases import Release
from tests.hosts.brokers import BASE, SHARE, UNIT, own_share, wait_for_pair, wait_until
from tests.hosts.machines import Machine, Rack
from tests.hosts.playbooks import Controller, ended
from tests.hosts.unhealthy import QUICK, STATES, WHOLE, Found, Pair
from tests.situations import in_every_situation

OLD, NEW = "5.18.3", "6.3.1"
PLAYED = (("restart", OLD), ("upgrade", NEW))
WANTED = (
    [(state, PLAYED) for state in STATES]
    if os.environ.get("STATES") == "all"
    else [(state, (played,)) for state, played in zip(QUICK, PLAYED, strict=True)]
)
# What is ill for good is ill after some seconds, too.
SOON = ("-e", "__activemq_settle_timeout=3")
# All that a run could change: processes and their jobs, configurations, releases.
TRACES = f"""systemctl show {UNIT} -p MainPID -p Job -p NRestarts
pgrep -u activemq java; systemctl list-units -q 'activemq*'
readlink {BASE}/current {BASE}/aside; ls {BASE}/versions /opt; ls -l /opt/activemq; true"""


def to(release: str) -> tuple[str, ...]:
    """What makes the inventory say this release."""
    said = {"activemq_release": release, "activemq_archive": str(jars_for(Release.of(release)))}
    return "--extra-vars", json.dumps(said)


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


def traces(machines: tuple[Machine, ...], found: Found) -> dict[str, str]:
    return {machine.name: machine.run("bash", "-c", TRACES) for machine in machines if machine not in found.unseen}


def settled(machines: tuple[Machine, ...], found: Found) -> dict[str, str]:
    """The traces, as soon as they stay: a unit that stops has another state a moment later."""
    looks: list[dict[str, str]] = [{}]

    def stay() -> bool:
        looks.append(traces(machines, found))
        return looks[-1] == looks[-2]

    wait_until(stay, f"nothing changes any more, as in {looks}", *machines)
    return looks[-1]


@pytest.mark.parametrize(("state", "played"), WANTED, ids=[state for state, _ in WANTED])
def test_an_ill_pair_is_neither_restarted_nor_upgraded(
    controller: Controller, share: Path, state: str, played: Sequence[tuple[str, str]]
) -> None:
    machines = controller.rack.machines
    active, standby = wait_for_pair(machines)
    with STATES[state](Pair(active, standby, share)) as found:
        before = settled(machines, found)
        for playbook, release in played:
            told = ended(controller.play(playbook, *to(release), *SOON), 2, 4)  # 4: a host that was not reached
            assert [says for says in found.says if says not in told] == []
            assert not re.search(r"changed=[1-9]", told)
            assert traces(machines, found) == before


@in_every_situation
def test_the_same_pair_is_restarted_when_it_is_well(controller: Controller) -> None:
    """What was refused was refused because of the state, and nothing of it is left."""
    wait_for_pair(controller.rack.machines)
    told = ended(controller.play("restart", *to(OLD)))
    assert re.findall(r"changed=1 ", told) == ["changed=1 "] * 2
