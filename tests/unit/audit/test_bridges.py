"""Bridges from a host's log: when each was up, how it ended, whether it came back."""

from __future__ import annotations

from datetime import timedelta

from activemq_fleet.audit.logged_bridges import LoggedBridge, bridges_from_log_evidence
from tests.unit.audit.broker_logs import NOON, C, log

STARTS = ("0 chosen", "1 dial", "1 connector", "2 started")


def bridges(*lines: str) -> list[LoggedBridge]:
    return bridges_from_log_evidence(log(C, *STARTS, *lines))


def test_a_bridge_that_is_up_has_no_end() -> None:
    (found,) = bridges("3 bridge up")

    assert (found.link, found.peer, found.direction, found.state) == ("to-orders", "orders-mq01-a", "out", "up")
    assert (found.ended, found.rebuilt, found.flaps) == (None, None, 0)


def test_a_bridge_over_a_failover_was_rebuilt_with_the_other_node() -> None:
    first, second = bridges("3 bridge up", "1:00 bridge lost", "1:01 bridge lost", "1:05 bridge up b")

    assert (first.state, first.rebuilt, first.back_peer, first.flaps) == ("down", True, "orders-mq01-b", 1)
    assert "EOFException" in (first.cause or "")
    assert (second.state, second.peer) == ("up", "orders-mq01-b")


def test_a_bridge_that_was_lost_and_stays_away_was_not_rebuilt() -> None:
    (found,) = bridges("3 bridge up", "1:00 bridge lost")

    assert (found.state, found.rebuilt, found.seen_loss) == ("down", False, True)


def test_a_bridge_that_dies_within_a_second_never_was() -> None:
    (found,) = bridges("3 bridge up", "3.4 bridge refused", "5 bridge up", "5.3 bridge refused")

    assert (found.state, found.began, found.flaps, found.rebuilt) == ("failed", None, 2, False)
    assert "SecurityException" in (found.cause or "")


def test_a_short_one_is_not_what_brings_a_link_back() -> None:
    (found,) = bridges("3 bridge up", "1:00 bridge lost", "1:05 bridge up", "1:05.2 bridge refused")

    assert (found.rebuilt, found.flaps) == (False, 1)


def test_a_broker_that_was_killed_leaves_no_end_of_its_bridges() -> None:
    found = bridges("3 bridge up", "9:00 chosen", "9:01 dial", "9:01 connector", "9:02 started", "9:03 bridge up")

    assert [(one.state, one.ended, one.rebuilt) for one in found] == [("down", None, True), ("up", None, None)]


def test_a_stopped_bridge_saw_no_loss() -> None:
    (found,) = bridges("3 bridge up", "1:00 bridge stopped")

    assert (found.state, found.seen_loss, found.cause) == ("down", False, "it was stopped")
    assert found.began is not None
    assert found.began > NOON


def test_stopped_bridge_whose_next_attempt_breaks_in_the_handshake_is_broken() -> None:
    (bridge,) = bridges("3 bridge up", "60:00 bridge stopped", "60:01 dial", "60:02 handshake broken")

    assert bridge.is_not_rebuilt_by_running_broker
    assert bridge.broken_handshake == NOON + timedelta(minutes=60, seconds=2)


def test_bridge_is_not_broken_if_an_attempt_or_a_stop_follows_the_handshake() -> None:
    ended = ("3 bridge up", "60:00 bridge stopped", "60:01 dial", "60:02 handshake broken")

    for lines in (("60:05 dial",), ("60:05 dial", "60:06 bridge up"), ("60:10 stopping", "60:11 stopped")):
        assert not bridges(*ended, *lines)[0].is_not_rebuilt_by_running_broker
