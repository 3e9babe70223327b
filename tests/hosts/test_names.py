"""``site``, ``switchover`` and the store marker with the naming conventions that no other test uses.

The test of a convention takes a minute, so it runs with ``CONVENTIONS=all``, as in ``make test-full``. All other test
files use the convention ``LETTERS``.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conventions import CONVENTIONS, EVERY_CONVENTION, LETTERS, Convention
from tests.hosts.brokers import BASE, SHARE, state, wait_for_pair, wait_for_places
from tests.hosts.machines import Rack
from tests.hosts.playbooks import Controller, checked_output

OTHER_CONVENTIONS = [convention for convention in CONVENTIONS if convention is not LETTERS]
CONFIGURATION = f"{BASE}/current/conf/activemq.xml"

pytestmark = pytest.mark.skipif(not EVERY_CONVENTION, reason="each convention takes a minute: set CONVENTIONS=all")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("convention", OTHER_CONVENTIONS, ids=lambda convention: convention.name)
def test_pair_is_deployed_and_switched_over_and_site_refuses_new_pair_name(
    machines_supported: None, repository: Path, tmp_path: Path, convention: Convention
) -> None:
    pair, (master, slave) = next(iter(convention.pairs.items()))
    with Rack(tmp_path / "rack") as rack:
        controller = Controller.of_convention(repository, rack, convention, tmp_path)
        controller.install_pair(share=SHARE)
        wait_for_pair(rack.machines)
        assert f'brokerName="{pair}"' in rack[master].run("cat", CONFIGURATION)
        assert (rack.shared(SHARE) / pair / ".activemq-fleet-pair").read_text().splitlines()[0] == pair
        target = slave if state(rack[master]) == "active" else master
        checked_output(
            controller.run_playbook("switchover", "-e", f"activemq_target={pair}", "-e", f"activemq_to={target}")
        )
        wait_for_places(rack[target], rack[master if target == slave else slave])

        renamed = json.dumps({"activemq_pair": f"{pair}-renamed"})
        output = checked_output(controller.run_playbook("site", "-e", renamed), 2)
        assert all(
            f"L034 {host}: the deployed broker belongs to the pair {pair}, but" in output for host in (master, slave)
        )
