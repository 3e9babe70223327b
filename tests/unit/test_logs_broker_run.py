from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import pytest

from activemq_fleet.lab.log_tail import last_error_line
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
WAITS_OLD = (
    "Database /s/lock is locked... waiting 1 seconds for the database to be unlocked. Reason: java.io.IOException: x"
)
DIALS_MASTER = "Starting a slave connection between vm://a#0 and nio://m.example.com:61618"
ATTACHED = "Slave connection between vm://a#0 and tcp://m.example.com/127.0.0.1:61618 has been established."


def log(messages: Iterable[str], level: str = "INFO") -> str:
    return "".join(
        f"2026-03-01 10:00:{second:02},000 | {level:5} | {message} | {logger_of(message)} | main\n"
        for second, message in enumerate(messages)
    )


def story(*messages: str) -> BrokerRun:
    return BrokerRun().apply_records(parse_log(log(messages)))


def up(number: int, remote: str = "tcp://b.example.com/127.0.0.2:61616(b)", peer: str = "") -> str:
    return f"Network connection between vm://a#{number} and {remote}{peer} has been established."


@pytest.mark.parametrize(
    ("messages", "phase"),
    [
        ([], "starting"),
        (OLD_START, "starting"),
        ([*OLD_START, OLD_STARTED], "started"),
        ([STARTED], "started"),
        ([WAITS], "waiting"),
        ([WAITS_OLD, WAITS_OLD], "waiting"),
        (["Attempting to acquire the exclusive lock to become the Master broker"], "waiting"),
        (["a attempting to acquire exclusive lease to become the master"], "waiting"),
        ([WAITS, "KahaDB is version 7"], "starting"),
        ([WAITS, "Opening MessageDatabase", STARTED], "started"),
        ([*OLD_START, DIALS_MASTER, ATTACHED], "attached"),
        ([STARTED, "Apache ActiveMQ 6.3.1 (a, ID:vm-1-2-0:1) is shutting down"], "stopping"),
        ([STARTED, "Apache ActiveMQ 6.3.1 (a, ID:vm-1-2-0:1) is shutdown"], "stopped"),
        (["Failed to start Apache ActiveMQ (a, null)"], "failed"),
    ],
)
def test_the_phase_is_what_the_log_said_last(messages: list[str], phase: PhaseName) -> None:
    assert story(*messages).phase == phase


def test_record_that_is_cut_off_shows_no_phase() -> None:
    text = log([WAITS]) + f"2026-03-01 10:00:09,000 | INFO  | {STARTED}\n" + log(["whatever follows"])
    assert BrokerRun().apply_records(parse_log(text)).phase == "waiting"


def test_run_without_a_record_of_its_phase_has_none() -> None:
    assert story("whatever").logged_phase.name == "unknown"
    assert story(WAITS).logged_phase.message == WAITS


def test_repeated_wait_keeps_the_time_at_which_it_began() -> None:
    broker_run = story(WAITS_OLD, WAITS_OLD)
    assert broker_run.since == datetime(2026, 3, 1, 10, 0, 0)
    assert broker_run.logged_phase.time == datetime(2026, 3, 1, 10, 0, 1)


def test_a_pure_slave_that_says_started_is_still_attached() -> None:
    assert story(*OLD_START, DIALS_MASTER, ATTACHED, OLD_STARTED).phase == "attached"


def test_a_pure_slave_whose_master_failed_has_started() -> None:
    broker_run = story(*OLD_START, DIALS_MASTER, ATTACHED, OLD_STARTED, "Master Failed - starting all connectors")
    assert (broker_run.phase, broker_run.promoted) == ("started", True)


def test_a_pure_slave_that_found_no_master_is_a_master() -> None:
    run = story(*OLD_START, DIALS_MASTER, "Failed to start network bridge: java.net.ConnectException", OLD_STARTED)
    assert run.phase == "started"


def test_a_master_that_lost_its_slave_goes_on_alone() -> None:
    broker_run = story(*OLD_START, OLD_STARTED, "Slave Failed")
    assert (broker_run.phase, broker_run.lost_slave) == ("started", True)


def test_a_master_that_lost_its_lock_begins_again_as_standby() -> None:
    broker_run = story(
        STARTED,
        up(0),
        "a, no longer able to keep the exclusive lock so giving up being a master",
        "Apache ActiveMQ 6.3.1 (a, ID:vm-1-2-0:1) is shutdown",
        "Using Persistence Adapter: KahaDBPersistenceAdapter[/s]",
        WAITS,
    )
    assert (broker_run.phase, broker_run.established_bridges) == ("waiting", ())


def test_an_established_bridge_is_up() -> None:
    (bridge,) = story(up(0)).established_bridges
    assert (bridge.peer, bridge.remote_host, bridge.remote_port, bridge.responder) == (
        "b",
        "b.example.com",
        61616,
        False,
    )


def test_a_bridge_over_a_failover_transport_names_what_was_dialled() -> None:
    (bridge,) = story(up(0, "tcp://b.example.com:61616", " (b)")).established_bridges
    assert (bridge.remote_host, bridge.remote_port) == ("b.example.com", 61616)


@pytest.mark.parametrize("remote", ["tcp:///127.0.0.1:47178@61616 (b)", "tcp:///127.0.0.1:45562(b)"])
def test_a_socket_that_the_peer_opened_is_the_responding_end(remote: str) -> None:
    (bridge,) = story(up(0, remote)).established_bridges
    assert (bridge.responder, bridge.remote_host) == (True, "127.0.0.1")


def test_a_stopped_bridge_is_down() -> None:
    assert story(up(0), "a bridge to b stopped").established_bridges == ()


def test_an_error_names_the_bridge_that_ended_and_its_stop_ends_no_other() -> None:
    broker_run = story(
        up(0),
        up(2, "tcp:///127.0.0.1:40000(b)"),
        "Network connection between vm://a#2 and tcp:///127.0.0.1:40000 shutdown due to a remote error: EOF",
        "a bridge to b stopped",
    )
    assert [bridge.local for bridge in broker_run.established_bridges] == ["vm://a#0"]


def test_a_bridge_that_never_came_up_ends_none() -> None:
    assert len(story(up(0), "a bridge to Unknown stopped").established_bridges) == 1


def test_a_bridge_that_its_transport_resumed_is_still_one() -> None:
    assert len(story(up(0), up(0)).established_bridges) == 1


def test_a_duplex_end_without_the_peers_id_makes_half_a_link() -> None:
    assert story("Started responder end of duplex bridge to-hub@null").one_way_duplex_link_names == ("to-hub",)


def test_a_link_that_comes_up_again_with_its_id_is_whole() -> None:
    broker_run = story(
        "Started responder end of duplex bridge to-hub@null",
        "Started responder end of duplex bridge to-hub@ID:vm-44383-1795246193219-0:1",
    )
    assert broker_run.one_way_duplex_link_names == ()


def test_the_last_error_comes_with_its_root_cause() -> None:
    text = log(["Failed to start Apache ActiveMQ (a, null)"], "ERROR") + (
        "java.io.IOException: Transport Connector could not be registered\n"
        "\tat x.Y.z(Y.java:1)\n"
        "Caused by: java.net.BindException: Address already in use\n"
    )
    assert last_error_line(parse_log(text)) == (
        "Failed to start Apache ActiveMQ (a, null): java.net.BindException: Address already in use"
    )


def test_of_a_nested_exception_the_innermost_is_told() -> None:
    text = log(["Failed to load: URL [x], reason: bean; nested exception is java.io.IOException: no space"], "ERROR")
    assert last_error_line(parse_log(text)) == "java.io.IOException: no space"


def test_a_warning_is_told_where_there_is_no_error() -> None:
    assert last_error_line(parse_log(log(["odd"], "WARN"))) == "odd"
    assert last_error_line(parse_log(log(["wrong"], "ERROR") + log(["odd"], "WARN"))) == "wrong"
    assert last_error_line(parse_log(log(["fine"]))) == ""


def test_every_kind_has_a_regex_that_compiles() -> None:
    assert len({log_message_kind(id_).regex.pattern for id_ in log_message_kind_ids()}) == len(log_message_kind_ids())


def test_an_event_holds_what_its_message_names() -> None:
    (record,) = parse_log(log([STARTED]))
    event = parse_log_event(record)
    assert event is not None
    assert (event.kind, event.fields["version"], event.fields["broker"]) == ("LIFE-STARTED", "6.3.1", "a")


def test_a_message_of_no_kind_is_no_event() -> None:
    (record,) = parse_log(log(["something that no release writes"]))
    assert parse_log_event(record) is None
