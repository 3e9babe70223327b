"""Bridges in the log of a host: their start, end and recovery."""

from __future__ import annotations

from datetime import timedelta

from activemq_fleet.audit.evidence import LogRecordEvidence
from activemq_fleet.audit.log_evidence import evidence_in_log
from activemq_fleet.audit.logged_bridges import LoggedBridge, bridges_from_log_evidence
from tests.unit.audit.broker_logs import NOON, C, log

STARTS = ("0 chosen", "1 dial", "1 connector", "2 started")


def bridges(*lines: str) -> list[LoggedBridge]:
    return bridges_from_log_evidence(log(C, *STARTS, *lines))


def test_running_bridge_has_no_end() -> None:
    (bridge,) = bridges("3 bridge up")

    assert (bridge.link, bridge.peer, bridge.direction, bridge.state) == ("to-orders", "orders-mq01-a", "out", "up")
    assert (bridge.ended, bridge.rebuilt, bridge.flaps) == (None, None, 0)


def test_bridge_is_rebuilt_with_other_node_after_failover() -> None:
    lost_bridge, new_bridge = bridges("3 bridge up", "1:00 bridge lost", "1:01 bridge lost", "1:05 bridge up b")

    assert (lost_bridge.state, lost_bridge.rebuilt, lost_bridge.flaps) == ("down", True, 1)
    assert "EOFException" in (lost_bridge.cause or "")
    assert (new_bridge.state, new_bridge.peer) == ("up", "orders-mq01-b")


def test_lost_bridge_without_later_start_is_not_rebuilt() -> None:
    (bridge,) = bridges("3 bridge up", "1:00 bridge lost")

    assert (bridge.state, bridge.rebuilt, bridge.seen_loss) == ("down", False, True)


def test_bridge_that_fails_within_one_second_has_not_started() -> None:
    (bridge,) = bridges("3 bridge up", "3.4 bridge refused", "5 bridge up", "5.3 bridge refused")

    assert (bridge.state, bridge.began, bridge.flaps, bridge.rebuilt) == ("failed", None, 2, False)
    assert "SecurityException" in (bridge.cause or "")


def test_bridge_that_fails_within_one_second_does_not_rebuild_link() -> None:
    (bridge,) = bridges("3 bridge up", "1:00 bridge lost", "1:05 bridge up", "1:05.2 bridge refused")

    assert (bridge.rebuilt, bridge.flaps) == (False, 1)


def test_bridge_of_killed_broker_is_down_without_known_end() -> None:
    host_bridges = bridges(
        "3 bridge up", "9:00 chosen", "9:01 dial", "9:01 connector", "9:02 started", "9:03 bridge up"
    )

    assert [(bridge.state, bridge.ended, bridge.rebuilt) for bridge in host_bridges] == [
        ("down", None, True),
        ("up", None, None),
    ]


def test_orderly_stop_of_bridge_is_no_loss_of_connection() -> None:
    (bridge,) = bridges("3 bridge up", "1:00 bridge stopped")

    assert (bridge.state, bridge.seen_loss, bridge.cause) == ("down", False, "it was stopped")
    assert bridge.began is not None
    assert bridge.began > NOON


def test_stopped_bridge_whose_last_attempt_fails_in_handshake_is_not_rebuilt() -> None:
    (bridge,) = bridges("3 bridge up", "60:00 bridge stopped", "60:01 dial", "60:02 handshake broken")

    assert bridge.is_not_rebuilt_by_running_broker
    assert bridge.broken_handshake == NOON + timedelta(minutes=60, seconds=2)


def test_failed_handshake_of_bridge_is_no_problem_if_attempt_or_stop_follows() -> None:
    lines_until_failure = ("3 bridge up", "60:00 bridge stopped", "60:01 dial", "60:02 handshake broken")

    for lines in (("60:05 dial",), ("60:05 dial", "60:06 bridge up"), ("60:10 stopping", "60:11 stopped")):
        assert not bridges(*lines_until_failure, *lines)[0].is_not_rebuilt_by_running_broker


def test_error_of_bridge_is_read_from_stack_if_release_logs_unfilled_placeholder() -> None:
    record = LogRecordEvidence(
        "a",
        1,
        NOON,
        "NET-LOCAL-ERR",
        {"local": "vm://a#4", "remote": "tcp://b:61616", "e": "{}"},
        "Network connection between vm://a#4 and tcp://b:61616 shutdown due to a local error: {}\n"
        "javax.jms.InvalidClientIDException: Broker: a - Client: b_inbound already connected\n\tat java.Thread",
        "",
        level="INFO",
    )

    (evidence,) = evidence_in_log([record])

    assert evidence.fields["e"].startswith("javax.jms.InvalidClientIDException")
    assert evidence.text == ""
