"""The maximum number of steps of a playbook: its decision refuses to wait longer before this number is reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from activemq_fleet.node.timeouts import READY
from activemq_fleet.operations import RefusalError
from activemq_fleet.operations.operation_decisions import OperationStep
from activemq_fleet.operations.pair_preconditions import ObservedNode
from activemq_fleet.operations.restart_and_switchover import RollingProgress
from activemq_fleet.operations.resync import next_resync_step
from activemq_fleet.operations.resync_source_choice import ResyncRefusedError
from activemq_fleet.operations.site import next_site_step
from tests.unit.pure_pairs import master_store, pair_node, slave_store

PLAYBOOKS = Path(__file__).resolve().parents[2] / "playbooks"
HOSTS = ["x-mq01-a", "x-mq01-b"]


def maximum_steps(playbook: str, decision: str, *, ready: float = READY, pair_count: int = 1) -> int:
    """Return the maximum number of steps of the play of a playbook that runs an operation on pairs."""
    plays = yaml.safe_load((PLAYBOOKS / playbook).read_text())
    (limit,) = (
        play["vars"]["__activemq_max_steps"]
        for play in plays
        if play.get("vars", {}).get("__activemq_decision") == decision
    )
    variables = {"__activemq_target": {"hosts": HOSTS * pair_count}, "__activemq_ready_timeout": ready}
    return int(Templar(DataLoader(), variables=variables).template(trust_as_template(limit)))


def number_of_waits(decide: Callable[[float], OperationStep]) -> int:
    """Return how often an operation waits before its decision, by the seconds waited, is a refusal."""
    waited, number = 0.0, 0
    while True:
        try:
            step = decide(waited)
        except (RefusalError, ResyncRefusedError):
            return number
        assert step.act == "wait"
        waited, number = waited + step.seconds, number + 1


@pytest.mark.parametrize("ready", [READY, 2 * READY])
def test_site_refuses_to_wait_before_it_reaches_maximum_number_of_steps(ready: float) -> None:
    nodes = [ObservedNode(host=host, pair="x-mq01", ha="shared-file", state="starting") for host in HOSTS]
    progress = RollingProgress(act="site", chosen=HOSTS, acted=HOSTS, settle=ready)

    def decide(waited: float) -> OperationStep:
        return next_site_step(nodes, replace(progress, waited=waited))

    acts, refusal = len(HOSTS), 1
    assert acts * number_of_waits(decide) + acts + refusal <= maximum_steps("site.yml", "site", ready=ready)


@pytest.mark.parametrize("pair_count", [1, 10])
def test_resync_refuses_to_wait_before_it_reaches_maximum_number_of_steps(pair_count: int) -> None:
    pair = pair_node(master_store("| 1"), "starting"), pair_node(slave_store("| 1"), "standby")

    def decide(waited: float) -> OperationStep:
        return next_resync_step({"x-mq01": pair}, waited=waited)

    acts, refusal = 8, 1
    steps_of_all_pairs = pair_count * (number_of_waits(decide) + acts)
    limit = maximum_steps("plays/resync.yml", "resync", pair_count=pair_count)
    # Ansible computes the loop over all steps for each host before the first one: 100 steps per host take minutes.
    assert steps_of_all_pairs + refusal <= limit <= 30 * len(HOSTS) * pair_count + 30
