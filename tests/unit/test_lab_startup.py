from __future__ import annotations

from collections.abc import Callable
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
OTHER_PAIR = ("orders-mq02-a.example.com", "orders-mq02-b.example.com")


class FakeBrokers:
    """Fake brokers, which record each launch and each observation."""

    def __init__(self, fleet: Fleet, *, broken: str | None = None) -> None:
        self.fleet = fleet
        self.events: list[str] = []
        self.runs: dict[str, BrokerRun] = {}
        self.alive: set[str] = set()
        self.stopping: set[str] = set()
        """The hosts whose brokers stop when the startup checks whether they load their configuration."""
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
        is_loading = bool(self.alive & self.stopping)
        self.alive -= self.stopping
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
        return self.runs.get(broker.host, BrokerRun())

    def failure_reason(self, broker: Broker) -> str:
        return "disk on fire (log: /x)"


def start_brokers(brokers: FakeBrokers, timeout: float = 5) -> list[str]:
    messages: list[str] = []
    FleetStartup(cast("LabBrokers", brokers), timeout, messages.append, brokers.is_loading).start_all_brokers(
        list(brokers.fleet.pairs_by_name.values())
    )
    return messages


def fleet(*hosts: str, **settings: Any) -> Fleet:
    return fleet_of(variables(*hosts, **settings))


def event_precedes(brokers: FakeBrokers, first: str, second: str) -> bool:
    return brokers.events.index(first) < brokers.events.index(second)


def test_lab_starts_standby_after_its_master_is_active() -> None:
    brokers = FakeBrokers(fleet())
    start_brokers(brokers)
    assert event_precedes(brokers, f"{A} active", f"launch {B}")


def test_lab_starts_pure_slave_after_its_master_listens_on_its_port() -> None:
    brokers = FakeBrokers(fleet(release="5.5.1", ha="pure"))
    start_brokers(brokers)
    assert event_precedes(brokers, f"{A} listens on 61618", f"launch {B}")


def test_lab_startup_waits_for_pure_master_after_its_slave_is_standby() -> None:
    brokers = FakeBrokers(fleet(release="5.5.1", ha="pure"))
    start_brokers(brokers)
    assert event_precedes(brokers, f"{B} standby", f"{A} active")


def test_lab_startup_reports_all_single_brokers_as_active() -> None:
    brokers = FakeBrokers(fleet(ha="none"))
    assert sorted(line.split(" (")[0] for line in start_brokers(brokers)) == [f"{A} is active", f"{B} is active"]


def test_lab_does_not_start_running_broker_again() -> None:
    brokers = FakeBrokers(fleet())
    brokers.alive.add(A)
    start_brokers(brokers)
    assert [event for event in brokers.events if event.startswith("launch")] == [f"launch {B}"]


def test_lab_observes_running_node_before_it_starts_preferred_master() -> None:
    brokers = FakeBrokers(fleet())
    brokers.alive.add(B)
    start_brokers(brokers)
    assert event_precedes(brokers, f"{B} standby", f"launch {A}")


def test_lab_error_about_stopped_broker_has_its_last_error_and_log() -> None:
    with pytest.raises(
        LabError, match=rf"{B}: the broker stopped while it was starting\. Its last error is: disk on fire \(log: /x\)"
    ):
        start_brokers(FakeBrokers(fleet(), broken=B))


@pytest.mark.parametrize("stopping", [A, B])
def test_lab_up_fails_if_broker_stops_while_it_loads_its_configuration(stopping: str) -> None:
    brokers = FakeBrokers(fleet(ha="none"))
    brokers.stopping.add(stopping)
    with pytest.raises(LabError, match=rf"{stopping}: the broker stopped .*: disk on fire .*and run the command"):
        start_brokers(brokers)


def test_lab_error_about_broker_that_is_not_ready_in_time_has_its_state() -> None:
    brokers = FakeBrokers(fleet())
    brokers._state = lambda broker: "hung"  # type: ignore[method-assign]
    with pytest.raises(
        LabError,
        match=rf"{A}: the broker is not active or standby after 0\.2 s\. .* is hung, and its last error is: disk",
    ):
        start_brokers(brokers, timeout=0.2)


def test_lab_reports_failure_of_pair_without_wait_for_other_pairs() -> None:
    brokers = FakeBrokers(fleet(*PAIR, *OTHER_PAIR), broken=A)
    with pytest.raises(LabError, match=f"{A}: the broker stopped"):
        start_brokers(brokers, timeout=60)


def test_lab_start_of_pure_master_alone_waits_until_it_listens() -> None:
    brokers = FakeBrokers(fleet(release="5.5.1", ha="pure"))
    FleetStartup(cast("LabBrokers", brokers), 5, lambda _line: None).start_broker(brokers.fleet.broker(A))
    assert brokers.events[-1] == f"{A} listens on 61618"


def fake_pure_pair(*alive: str, **log_events: str) -> FakeBrokers:
    brokers = FakeBrokers(fleet(release="5.5.1", ha="pure"))
    brokers.alive.update(alive)
    for node, event in log_events.items():
        broker_run = BrokerRun()
        setattr(broker_run, event, True)
        brokers.runs[{"a": A, "b": B}[node]] = broker_run
    return brokers


def error_text(check: Callable[[], None]) -> str:
    try:
        check()
    except LabError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "brokers",
    [fake_pure_pair(A), fake_pure_pair(B), fake_pure_pair(b="promoted"), fake_pure_pair(a="lost_slave")],
    ids=["slave stopped", "master stopped", "slave was promoted", "master lost its slave"],
)
def test_lab_refuses_pure_pair_with_different_stores(brokers: FakeBrokers) -> None:
    (pair,) = brokers.fleet.pairs_by_name.values()
    error = error_text(lambda: require_equal_stores_of_pure_pair(cast("LabBrokers", brokers), pair))
    assert "--fresh" in error
    assert "resync" not in error, "the playbook resync requires systemd"


@pytest.mark.parametrize("brokers", [fake_pure_pair(), fake_pure_pair(A, B)], ids=["both stopped together", "both run"])
def test_lab_accepts_pure_pair_with_equal_stores(brokers: FakeBrokers) -> None:
    (pair,) = brokers.fleet.pairs_by_name.values()
    assert error_text(lambda: require_equal_stores_of_pure_pair(cast("LabBrokers", brokers), pair)) == ""


def pure_start_messages(brokers: FakeBrokers, host: str) -> tuple[str, list[str]]:
    """Return the error of the check before a start, which is empty if there is none, and the warnings."""
    warnings: list[str] = []
    fleet = brokers.fleet
    error = error_text(lambda: check_pure_start_order(cast("LabBrokers", brokers), fleet.broker(host), warnings.append))
    return error, warnings


def test_lab_refuses_start_of_pure_slave_without_its_master() -> None:
    assert f": start {A} first" in pure_start_messages(fake_pure_pair(), B)[0]


def test_lab_refuses_start_of_pure_master_with_running_slave() -> None:
    assert f": stop {B}, and" in pure_start_messages(fake_pure_pair(B), A)[0]


@pytest.mark.parametrize(
    ("brokers", "host"),
    [
        (fake_pure_pair(B, b="promoted"), A),
        (fake_pure_pair(B, a="lost_slave"), A),
        (fake_pure_pair(A, a="lost_slave"), B),
    ],
    ids=["slave was promoted", "master lost its slave", "master serves alone"],
)
def test_lab_refuses_start_of_pure_node_with_older_store(brokers: FakeBrokers, host: str) -> None:
    error, _ = pure_start_messages(brokers, host)
    assert error.startswith(f"{host}: ")
    assert "`lab up --fresh`" in error
    assert "start first" not in error


@pytest.mark.parametrize(
    ("brokers", "host"),
    [
        (fake_pure_pair(b="promoted"), A),
        (fake_pure_pair(a="lost_slave"), A),
        (fake_pure_pair(A, b="promoted"), B),
    ],
    ids=["slave was promoted", "master lost its slave", "promoted slave joins its master"],
)
def test_lab_warns_before_start_of_pure_node_if_stores_may_differ(brokers: FakeBrokers, host: str) -> None:
    error, (warning,) = pure_start_messages(brokers, host)
    assert error == ""
    assert warning.startswith(f"warning: {host}: the stores of the pair orders-mq01 may differ")


@pytest.mark.parametrize(("brokers", "host"), [(fake_pure_pair(), A), (fake_pure_pair(A), B)], ids=["master", "slave"])
def test_lab_accepts_start_of_pure_node_with_required_state_of_peer(brokers: FakeBrokers, host: str) -> None:
    assert pure_start_messages(brokers, host) == ("", [])


def test_lab_accepts_start_of_nodes_with_shared_store() -> None:
    brokers = FakeBrokers(fleet())
    brokers.alive.add(A)
    (pair,) = brokers.fleet.pairs_by_name.values()
    assert error_text(lambda: require_equal_stores_of_pure_pair(cast("LabBrokers", brokers), pair)) == ""
    assert pure_start_messages(brokers, B) == ("", [])
