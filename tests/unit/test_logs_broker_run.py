from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import pytest

from activemq_fleet.lab.log_tail import last_error_with_root_cause
from activemq_fleet.logs.kinds import log_message_kind, log_message_kind_ids
from activemq_fleet.node.log.broker_run import BrokerRun, PhaseName
from activemq_fleet.node.log.kinds import parse_log_event
from activemq_fleet.node.log.log_records import parse_log
from tests.log_reading import logger_of

OLD_START = [
    "Using Persistence Adapter: KahaDBPersistenceAdapter[/s]",
    "ActiveMQ 5.5.1 JMS Message Broker (a) is starting",
]
OLD_STARTED = "ActiveMQ JMS Message Broker (a, ID:vm-1-2-0:1) started"
STARTED = "Apache ActiveMQ 6.3.1 (a, ID:vm-1-2-0:1) started"
WAITS = "Database /s/lock is locked by another server. This broker is now in slave mode waiting a lock to be acquired"
WAITS_IN_OLD_RELEASE = (
    "Database /s/lock is locked... waiting 1 seconds for the database to be unlocked. Reason: java.io.IOException: x"
)
CONNECTS_TO_MASTER = "Starting a slave connection between vm://a#0 and nio://m.example.com:61618"
ATTACHED = "Slave connection between vm://a#0 and tcp://m.example.com/127.0.0.1:61618 has been established."


def log_text(messages: Iterable[str], level: str = "INFO") -> str:
    return "".join(
        f"2026-03-01 10:00:{second:02},000 | {level:5} | {message} | {logger_of(message)} | main\n"
        for second, message in enumerate(messages)
    )


def broker_run_of(*messages: str) -> BrokerRun:
    return BrokerRun().apply_records(parse_log(log_text(messages)))


def bridge_established(number: int, remote: str = "tcp://b.example.com/127.0.0.2:61616(b)", peer: str = "") -> str:
    return f"Network connection between vm://a#{number} and {remote}{peer} has been established."


@pytest.mark.parametrize(
    ("messages", "phase"),
    [
        ([], "starting"),
        (OLD_START, "starting"),
        ([*OLD_START, OLD_STARTED], "started"),
        ([STARTED], "started"),
        ([WAITS], "waiting"),
        ([WAITS_IN_OLD_RELEASE, WAITS_IN_OLD_RELEASE], "waiting"),
        (["Attempting to acquire the exclusive lock to become the Master broker"], "waiting"),
        (["a attempting to acquire exclusive lease to become the master"], "waiting"),
        ([WAITS, "KahaDB is version 7"], "starting"),
        ([WAITS, "Opening MessageDatabase", STARTED], "started"),
        ([*OLD_START, CONNECTS_TO_MASTER, ATTACHED], "attached"),
        ([STARTED, "Apache ActiveMQ 6.3.1 (a, ID:vm-1-2-0:1) is shutting down"], "stopping"),
        ([STARTED, "Apache ActiveMQ 6.3.1 (a, ID:vm-1-2-0:1) is shutdown"], "stopped"),
        (["Failed to start Apache ActiveMQ (a, null)"], "failed"),
    ],
)
def test_phase_of_broker_run_is_that_of_last_phase_record(messages: list[str], phase: PhaseName) -> None:
    assert broker_run_of(*messages).phase == phase


def test_truncated_log_record_shows_no_phase_of_broker_run() -> None:
    log = log_text([WAITS]) + f"2026-03-01 10:00:09,000 | INFO  | {STARTED}\n" + log_text(["whatever follows"])
    assert BrokerRun().apply_records(parse_log(log)).phase == "waiting"


def test_phase_of_broker_run_without_phase_record_is_unknown() -> None:
    assert broker_run_of("whatever").logged_phase.name == "unknown"
    assert broker_run_of(WAITS).logged_phase.message == WAITS


def test_repeated_wait_for_lock_keeps_its_start_time() -> None:
    broker_run = broker_run_of(WAITS_IN_OLD_RELEASE, WAITS_IN_OLD_RELEASE)
    assert broker_run.since == datetime(2026, 3, 1, 10, 0, 0)
    assert broker_run.logged_phase.time == datetime(2026, 3, 1, 10, 0, 1)


def test_attached_pure_slave_that_logs_started_is_attached() -> None:
    assert broker_run_of(*OLD_START, CONNECTS_TO_MASTER, ATTACHED, OLD_STARTED).phase == "attached"


def test_pure_slave_is_promoted_when_master_fails() -> None:
    broker_run = broker_run_of(
        *OLD_START, CONNECTS_TO_MASTER, ATTACHED, OLD_STARTED, "Master Failed - starting all connectors"
    )
    assert (broker_run.phase, broker_run.promoted) == ("started", True)


def test_pure_slave_without_reachable_master_is_started() -> None:
    broker_run = broker_run_of(
        *OLD_START, CONNECTS_TO_MASTER, "Failed to start network bridge: java.net.ConnectException", OLD_STARTED
    )
    assert broker_run.phase == "started"


def test_pure_master_without_slave_is_started_with_lost_slave() -> None:
    broker_run = broker_run_of(*OLD_START, OLD_STARTED, "Slave Failed")
    assert (broker_run.phase, broker_run.lost_slave) == ("started", True)


def test_master_that_lost_its_lock_waits_without_bridges() -> None:
    broker_run = broker_run_of(
        STARTED,
        bridge_established(0),
        "a, no longer able to keep the exclusive lock so giving up being a master",
        "Apache ActiveMQ 6.3.1 (a, ID:vm-1-2-0:1) is shutdown",
        "Using Persistence Adapter: KahaDBPersistenceAdapter[/s]",
        WAITS,
    )
    assert (broker_run.phase, broker_run.currently_established_bridges) == ("waiting", ())


def test_established_bridge_has_peer_host_and_port() -> None:
    (bridge,) = broker_run_of(bridge_established(0)).currently_established_bridges
    assert (bridge.peer, bridge.remote_host, bridge.remote_port, bridge.responder) == (
        "b",
        "b.example.com",
        61616,
        False,
    )


def test_bridge_over_failover_transport_has_configured_host_and_port() -> None:
    (bridge,) = broker_run_of(bridge_established(0, "tcp://b.example.com:61616", " (b)")).currently_established_bridges
    assert (bridge.remote_host, bridge.remote_port) == ("b.example.com", 61616)


@pytest.mark.parametrize("remote", ["tcp:///127.0.0.1:47178@61616 (b)", "tcp:///127.0.0.1:45562(b)"])
def test_bridge_over_socket_of_peer_is_responder(remote: str) -> None:
    (bridge,) = broker_run_of(bridge_established(0, remote)).currently_established_bridges
    assert (bridge.responder, bridge.remote_host) == (True, "127.0.0.1")


def test_stopped_bridge_is_not_established() -> None:
    assert broker_run_of(bridge_established(0), "a bridge to b stopped").currently_established_bridges == ()


def test_remote_error_and_stop_remove_only_their_bridge() -> None:
    broker_run = broker_run_of(
        bridge_established(0),
        bridge_established(2, "tcp:///127.0.0.1:40000(b)"),
        "Network connection between vm://a#2 and tcp:///127.0.0.1:40000 shutdown due to a remote error: EOF",
        "a bridge to b stopped",
    )
    assert [bridge.local for bridge in broker_run.currently_established_bridges] == ["vm://a#0"]


def test_stop_of_unknown_bridge_removes_no_bridge() -> None:
    assert len(broker_run_of(bridge_established(0), "a bridge to Unknown stopped").currently_established_bridges) == 1


def test_bridge_established_twice_counts_once() -> None:
    assert len(broker_run_of(bridge_established(0), bridge_established(0)).currently_established_bridges) == 1


def test_duplex_end_without_id_of_peer_is_one_way_link() -> None:
    assert broker_run_of("Started responder end of duplex bridge to-hub@null").one_way_duplex_link_names == ("to-hub",)


def test_duplex_link_restarted_with_id_is_not_one_way() -> None:
    broker_run = broker_run_of(
        "Started responder end of duplex bridge to-hub@null",
        "Started responder end of duplex bridge to-hub@ID:vm-44383-1795246193219-0:1",
    )
    assert broker_run.one_way_duplex_link_names == ()


def test_last_error_of_broker_run_contains_root_cause() -> None:
    log = log_text(["Failed to start Apache ActiveMQ (a, null)"], "ERROR") + (
        "java.io.IOException: Transport Connector could not be registered\n"
        "\tat x.Y.z(Y.java:1)\n"
        "Caused by: java.net.BindException: Address already in use\n"
    )
    assert last_error_with_root_cause(parse_log(log)) == (
        "Failed to start Apache ActiveMQ (a, null): java.net.BindException: Address already in use"
    )


def test_last_error_of_broker_run_is_innermost_of_nested_exceptions() -> None:
    log = log_text(
        ["Failed to load: URL [x], reason: bean; nested exception is java.io.IOException: no space"], "ERROR"
    )
    assert last_error_with_root_cause(parse_log(log)) == "java.io.IOException: no space"


def test_last_error_of_broker_run_is_warning_only_without_error() -> None:
    assert last_error_with_root_cause(parse_log(log_text(["odd"], "WARN"))) == "odd"
    assert last_error_with_root_cause(parse_log(log_text(["wrong"], "ERROR") + log_text(["odd"], "WARN"))) == "wrong"
    assert last_error_with_root_cause(parse_log(log_text(["fine"]))) == ""


def test_each_log_message_kind_has_unique_regex_that_compiles() -> None:
    assert len({log_message_kind(id_).regex.pattern for id_ in log_message_kind_ids()}) == len(log_message_kind_ids())


def test_log_event_has_fields_of_its_message() -> None:
    (record,) = parse_log(log_text([STARTED]))
    event = parse_log_event(record)
    assert event is not None
    assert (event.kind, event.fields["version"], event.fields["broker"]) == ("LIFE-STARTED", "6.3.1", "a")


def test_log_message_without_kind_is_no_event() -> None:
    (record,) = parse_log(log_text(["something that no release writes"]))
    assert parse_log_event(record) is None
