"""``site``, ``switchover`` and the marker of the store with the conventions of names that no other test has.

It takes a minute each, so it runs with ``CONVENTIONS=all``, as in ``make test-full``. The pairs of all other files have
letters.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conventions import CONVENTIONS, EVERY_CONVENTION, LETTERS, Convention
from tests.hosts.brokers import BASE, SHARE, state, wait_for_pair, wait_for_places
from tests.hosts.machines import Rack
from tests.hosts.playbooks import Controller, ended

OTHERS = [convention for convention in CONVENTIONS if convention is not LETTERS]
TITLE = f"{BASE}/current/conf/activemq.xml"

pytestmark = pytest.mark.skipif(not EVERY_CONVENTION, reason="a minute for each convention: CONVENTIONS=all")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("convention", OTHERS, ids=lambda one: one.name)
def test_a_pair_is_deployed_switched_over_and_keeps_its_name(
    machines_supported: None, repository: Path, tmp_path: Path, convention: Convention
) -> None:
    pair, (master, slave) = next(iter(convention.pairs.items()))
    with Rack(tmp_path / "rack") as rack:
        controller = Controller.of_convention(repository, rack, convention, tmp_path)
        controller.install_pair(share=SHARE)
        wait_for_pair(rack.machines)
        assert f'brokerName="{pair}"' in rack[master].run("cat", TITLE)
        assert (rack.shared(SHARE) / pair / ".activemq-fleet-pair").read_text().splitlines()[0] == pair
        wanted = slave if state(rack[master]) == "active" else master
        ended(controller.play("switchover", "-e", f"activemq_target={pair}", "-e", f"activemq_to={wanted}"))
        wait_for_places(rack[wanted], rack[master if wanted == slave else slave])

        renamed = json.dumps({"activemq_pair": f"{pair}-renamed"})
        said = ended(controller.play("site", "-e", renamed), 2)
        assert all(
            f"L034 {host}: the deployed broker belongs to the pair {pair}, but" in said for host in (master, slave)
        )
