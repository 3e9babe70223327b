"""The fence on two systemd hosts: a command of ``docs/fencing.md`` confirms that a node is dead.

``tests/integration/test_fencing.py`` executes the commands of the page about old generations.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.hosts.brokers import SHARE, journal_of, state, wait_for_pair, wait_for_places, wait_until
from tests.hosts.machines import Rack
from tests.hosts.page_pair import HOSTS, prepare_reader
from tests.situations import in_every_situation
from tests.support.command_blocks import Command, Page, read_page, replace_values, run_page, select_commands

PAGE = "docs/fencing.md"
SWITCH_OFF = "/usr/local/sbin/switch-off"
INSTALL_FAILING_SWITCH = f"printf '#!/bin/sh\\nexit 1\\n' > {SWITCH_OFF} && chmod 755 {SWITCH_OFF}"


@in_every_situation
@pytest.mark.timeout(3000)
def test_standby_serves_after_confirmed_death_of_lost_node(repository: Path, rack: Rack, tmp_path: Path) -> None:
    page = read_page(repository / PAGE)
    rack.up(HOSTS, shares=[SHARE], owner=os.getpid())
    for machine in rack.machines:
        machine.run("bash", "-ec", INSTALL_FAILING_SWITCH)
    shell = prepare_reader(repository, rack, tmp_path, "6.3.1")
    files = tuple(step for step in page.steps if not isinstance(step, Command))
    check_commands = select_commands(page, "activemq-fleet check")
    run_page(Page((*files, *check_commands.steps), ()), tmp_path, shell.variables)
    shell("ansible-playbook -i inventory activemq.fleet.site")
    active, standby = wait_for_pair(rack.machines)

    active.power_off()
    wait_until(
        lambda: claims_to_confirm(journal_of(standby)), "the guard prints the command that confirms the death", standby
    )
    assert state(standby) == "standby"
    claim = claims_to_confirm(journal_of(standby))[-1]
    confirm = replace_values(select_commands(page, "runuser "), {"--confirm 7": f"--confirm {claim}"})
    for command in confirm.steps:
        assert isinstance(command, Command)
        standby.run("bash", "-ec", command.line)

    wait_until(lambda: state(standby) == "active", "the standby serves", standby)
    active.power_on()
    active.wait_until_ready()
    wait_for_places(standby, active)


def claims_to_confirm(journal: str) -> list[str]:
    """Return the numbers of the claims in the commands that a guard printed for the operator."""
    return re.findall(r"/usr/local/sbin/activemq-guard --store \S+ --confirm (\d+)", journal)
