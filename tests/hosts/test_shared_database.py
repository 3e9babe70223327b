"""A pair of systemd hosts that shares a PostgreSQL database: ``site``, a drill of one kill, and a restart, switchovers
and upgrades under load.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from activemq_fleet.artifacts import fetch_jar_directory, postgresql_driver_jar_path
from activemq_fleet.errors import LabError
from activemq_fleet.lab.database import postgresql_program_path
from activemq_fleet.releases import Release
from tests.conventions import LETTERS
from tests.hosts.brokers import process, wait_for_pair, wait_for_places
from tests.hosts.database import ACCOUNT, PASSWORD, URL, database
from tests.hosts.machines import Rack
from tests.hosts.playbooks import RELEASE, Controller, checked_output
from tests.situations import in_every_situation
from tests.support.host_drills import run_drill, short_temporary_directory  # noqa: F401 -- scratch is a fixture

DRIVER = "/srv/activemq/postgresql.jar"
OLDER = "5.18.3"

pytestmark = [in_every_situation, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def controller(rack: Rack, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controller]:
    """Provide a pair with a lease in a database, installed and started by the playbook ``site``."""
    try:
        postgresql_program_path("initdb")
    except LabError as error:
        pytest.skip(str(error))
    jdbc = {"url": URL, "driver": "org.postgresql.Driver", "jar": DRIVER, "username": ACCOUNT, "password": PASSWORD}
    convention = replace(LETTERS, variables={"activemq_ha": "shared-jdbc", "activemq_jdbc": jdbc})
    directory = tmp_path_factory.mktemp("shared")
    controller = Controller.of_convention(repository, rack, convention, directory)
    controller.start_pair(share=str(Path(DRIVER).parent))
    shutil.copy(postgresql_driver_jar_path(), rack.shared(str(Path(DRIVER).parent)) / Path(DRIVER).name)
    with database(rack, directory):
        checked_output(controller.run_playbook("site"))
        yield controller


def test_pair_with_shared_database_survives_kill_and_restart_without_loss(
    controller: Controller, tmp_path: Path
) -> None:
    active, standby = wait_for_pair(controller.rack.machines)

    _, drill_result = run_drill(controller, tmp_path / "drill.html")

    (fault,) = drill_result.faults_under_sufficient_load
    print(fault, drill_result.accounts)
    assert drill_result.verdict == "clean"
    assert (fault.host, fault.successor) == (active.name, standby.name)

    active, standby = wait_for_pair(controller.rack.machines)
    processes_before = {machine.name: process(machine) for machine in (active, standby)}
    with controller.streaming(900) as load_result:
        output = checked_output(controller.run_playbook("restart", "-e", "activemq_target=orders"))
    print(load_result)
    position_of_standby = output.index(f"restarts {standby.name}, which is standby")
    assert position_of_standby < output.index(f"restarts the active broker {active.name}")
    assert [machine.name for machine in (active, standby) if process(machine) == processes_before[machine.name]] == []
    assert load_result["missing"] == []
    assert load_result["sent"] > 0


def test_switchover_of_pair_with_shared_database_loses_no_message(controller: Controller) -> None:
    active, standby = wait_for_pair(controller.rack.machines)
    with controller.streaming(900) as load_result:
        controller.switch_to(standby)
        wait_for_places(standby, active)
        controller.switch_to(active)
        wait_for_places(active, standby)
    print(load_result)
    assert load_result["missing"] == []
    assert load_result["sent"] > 0


def test_change_of_database_pair_to_older_release_and_back_loses_no_message(controller: Controller) -> None:
    """The playbook ``upgrade`` works in both directions while both releases can read the rows of the database."""
    wait_for_pair(controller.rack.machines)
    with controller.streaming(900) as load_result:
        for release in (OLDER, RELEASE):
            variables = {"activemq_release": release, "activemq_archive": str(fetch_jar_directory(Release.of(release)))}
            checked_output(controller.run_playbook("upgrade", "--extra-vars", json.dumps(variables)))
            wait_for_pair(controller.rack.machines)
    print(load_result)
    assert load_result["missing"] == []
    assert load_result["sent"] > 0
