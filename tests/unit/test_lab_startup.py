from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from activemq_fleet.errors import LabError
from activemq_fleet.lab.lab_brokers import BrokerSnapshot, LabBrokers
from activemq_fleet.lab.startup import FleetStartup, check_pure_start_order, require_equal_stores_of_pure_pair
from activemq_fleet.node.judge import BrokerState
from activemq_fleet.node.log.broker_run import BrokerRun
from activemq_fleet.node.process.proc import Process
from activemq_fleet.topology import Broker, Fleet
from tests.unit.lab_fleets import PAIR, fleet_of, variables

A, B = PAIR
OTHER = ("orders-mq02-a.example.com", "orders-mq02-b.example.com")


class Stage:
    """Stands in for the brokers: what was launched, and how each looks at every look."""

    def __init__(self, fleet: Fleet, *, broken: str | None = None) -> None:
        self.fleet = fleet
        self.launched: list[str] = []
        self.events: list[str] = []
        self.stories: dict[str, BrokerRun] = {}
        self.alive: set[str] = set()
        self.ending: set[str] = set()
        """The hosts whose brokers end when they are asked whether they load their configuration."""
        self._broken = broken

    def is_alive(self, broker: Broker) -> bool:
        return broker.host in self.alive

    def launch_process(self, broker: Broker) -> None:
        self.events.append(f"launch {broker.host}")
        if broker.host != self._broken:
            self.alive.add(broker.host)

    def observe_broker(self, broker: Broker, *, timeout: float = 0) -> BrokerSnapshot:
        state = self._state(broker)
        self.events.append(f"{broker.host} {state}")
        return BrokerSnapshot(state, BrokerRun(), java=Process(1, 1.0, "S", ("java",)))

    def is_loading(self, _process: Process) -> bool:
        is_loading = bool(self.alive & self.ending)
        self.alive -= self.ending
        return is_loading

    def _state(self, broker: Broker) -> BrokerState:
        if broker.host not in self.alive:
            return "stopped"
        if broker.role == "master":
            waits = broker.settings.ha == "pure" and broker.peer not in self.alive
            return "starting" if waits else "active"
        return "standby" if broker.settings.ha != "none" else "active"

    def listens_on_port(self, broker: Broker, port: int) -> bool:
        self.events.append(f"{broker.host} listens on {port}")
        return broker.host in self.alive

    def state_from_log(self, broker: Broker) -> BrokerRun:
        return self.stories.get(broker.host, BrokerRun())

    def failure_reason(self, broker: Broker) -> str:
        return "disk on fire (log: /x)"


def start(stage: Stage, timeout: float = 5) -> list[str]:
    said: list[str] = []
    FleetStartup(cast("LabBrokers", stage), timeout, said.append, stage.is_loading).start_all_brokers(
        list(stage.fleet.pairs_by_name.values())
    )
    return said


def fleet(*hosts: str, **values: Any) -> Fleet:
    return fleet_of(variables(*hosts, **values))


def before(stage: Stage, first: str, second: str) -> bool:
    return stage.events.index(first) < stage.events.index(second)


def test_a_standby_is_started_when_its_master_is_active() -> None:
    stage = Stage(fleet())
    start(stage)
    assert before(stage, f"{A} active", f"launch {B}")


def test_a_pure_slave_is_started_when_its_master_listens_for_it() -> None:
    stage = Stage(fleet(release="5.5.1", ha="pure"))
    start(stage)
    assert before(stage, f"{A} listens on 61618", f"launch {B}")


def test_a_pure_master_is_waited_for_once_its_slave_is_there() -> None:
    stage = Stage(fleet(release="5.5.1", ha="pure"))
    start(stage)
    assert before(stage, f"{B} standby", f"{A} active")


def test_single_brokers_are_all_active() -> None:
    stage = Stage(fleet(ha="none"))
    assert sorted(line.split(" (")[0] for line in start(stage)) == [f"{A} is active", f"{B} is active"]


def test_what_runs_is_not_started_again() -> None:
    stage = Stage(fleet())
    stage.alive.add(A)
    start(stage)
    assert [event for event in stage.events if event.startswith("launch")] == [f"launch {B}"]


def test_a_node_that_runs_comes_before_the_preferred_master() -> None:
    stage = Stage(fleet())
    stage.alive.add(B)
    start(stage)
    assert before(stage, f"{B} standby", f"launch {A}")


def test_a_broker_that_ends_is_told_with_its_log() -> None:
    with pytest.raises(
        LabError, match=rf"{B}: the broker stopped while it was starting\. Its last error is: disk on fire \(log: /x\)"
    ):
        start(Stage(fleet(), broken=B))


@pytest.mark.parametrize("ending", [A, B])
def test_up_refuses_broker_that_ends_while_it_loads_its_configuration(ending: str) -> None:
    stage = Stage(fleet(ha="none"))
    stage.ending.add(ending)
    with pytest.raises(LabError, match=rf"{ending}: the broker stopped .*: disk on fire .*and run the command"):
        start(stage)


def test_a_broker_that_is_not_ready_in_time_is_told_with_its_state() -> None:
    stage = Stage(fleet())
    stage._state = lambda broker: "hung"  # type: ignore[method-assign]
    with pytest.raises(
        LabError,
        match=rf"{A}: the broker is not active or standby after 0\.2 s\. .* is hung, and its last error is: disk",
    ):
        start(stage, timeout=0.2)


def test_when_one_pair_fails_the_others_do_not_hold_it_up() -> None:
    stage = Stage(fleet(*PAIR, *OTHER), broken=A)
    with pytest.raises(LabError, match=f"{A}: the broker stopped"):
        start(stage, timeout=60)


def test_a_pure_master_started_alone_is_waited_for_until_it_listens() -> None:
    stage = Stage(fleet(release="5.5.1", ha="pure"))
    FleetStartup(cast("LabBrokers", stage), 5, lambda _line: None).start_broker(stage.fleet.broker(A))
    assert stage.events[-1] == f"{A} listens on 61618"


def pure(*alive: str, **stories: str) -> Stage:
    stage = Stage(fleet(release="5.5.1", ha="pure"))
    stage.alive.update(alive)
    for host, what in stories.items():
        story = BrokerRun()
        setattr(story, what, True)
        stage.stories[{"a": A, "b": B}[host]] = story
    return stage


def refused(check: Callable[[], None]) -> str:
    try:
        check()
    except LabError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "stage",
    [pure(A), pure(B), pure(b="promoted"), pure(a="lost_slave")],
    ids=["slave gone", "master gone", "slave was promoted", "master lost its slave"],
)
def test_a_pure_pair_with_different_stores_is_not_started(stage: Stage) -> None:
    (pair,) = stage.fleet.pairs_by_name.values()
    assert "--fresh" in refused(lambda: require_equal_stores_of_pure_pair(cast("LabBrokers", stage), pair))


@pytest.mark.parametrize("stage", [pure(), pure(A, B)], ids=["both stopped together", "both run"])
def test_a_pure_pair_with_equal_stores_is_started(stage: Stage) -> None:
    (pair,) = stage.fleet.pairs_by_name.values()
    assert refused(lambda: require_equal_stores_of_pure_pair(cast("LabBrokers", stage), pair)) == ""


def test_a_pure_slave_is_not_started_without_its_master() -> None:
    stage = pure()
    assert ": start orders-mq01-a.example.com first" in refused(
        lambda: check_pure_start_order(cast("LabBrokers", stage), stage.fleet.broker(B))
    )


def test_a_pure_master_is_not_started_beside_its_slave() -> None:
    stage = pure(B)
    assert ": stop orders-mq01-b.example.com, and" in refused(
        lambda: check_pure_start_order(cast("LabBrokers", stage), stage.fleet.broker(A))
    )


def test_a_pure_node_is_started_where_its_peer_is_as_it_must_be() -> None:
    alone, master = pure(), pure(A)
    assert refused(lambda: check_pure_start_order(cast("LabBrokers", alone), alone.fleet.broker(A))) == ""
    assert refused(lambda: check_pure_start_order(cast("LabBrokers", master), master.fleet.broker(B))) == ""


def test_nodes_that_share_a_store_start_as_they_like(tmp_path: Path) -> None:
    stage = Stage(fleet())
    stage.alive.add(A)
    (pair,) = stage.fleet.pairs_by_name.values()
    assert refused(lambda: require_equal_stores_of_pure_pair(cast("LabBrokers", stage), pair)) == ""
    assert refused(lambda: check_pure_start_order(cast("LabBrokers", stage), stage.fleet.broker(B))) == ""
