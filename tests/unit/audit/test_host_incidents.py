"""Demotions, store errors, refusals and duplicate bridges in the log of a host, and similar harmless records."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from activemq_fleet.audit import advice
from tests.unit.audit.broker_logs import MASTER, A, audit_pair, kinds, log, only_incident


def test_active_node_that_loses_its_lock_is_demotion_incident() -> None:
    incident = only_incident(
        audit_pair(log(A, *MASTER, "9 lock gone", "10 lost", "11 stopping", "12 stopped")), "demotion"
    )

    assert "removed" in incident.cause
    assert "L021" in incident.rules  # the node did not start again


def test_demotion_of_node_that_becomes_standby_again_has_duration() -> None:
    restart = ("9 lock modified", "10 lost", "11 stopping", "12 stopped", "14 chosen", "15 wait")

    incident = only_incident(audit_pair(log(A, *MASTER, *restart)), "demotion")

    assert incident.seconds == 6.0
    assert "L021" not in incident.rules


def test_orderly_stop_is_no_demotion() -> None:
    assert audit_pair(log(A, *MASTER, "10 stopping", "11 stopped")) == []


START_FAILURE = ("start failed", "java.io.IOException: Failed to bind\nCaused by: java.net.BindException: in use")


def failed_starts(*minutes: int) -> list[str | tuple[str, str]]:
    return [(f"{minute}:01 {START_FAILURE[0]}", START_FAILURE[1]) for minute in minutes]


def test_repeated_failed_broker_starts_are_one_incident_with_cause() -> None:
    incident = only_incident(audit_pair(log(A, *failed_starts(1, 2, 3, 4))), "failing_start")

    assert (incident.host, incident.seconds, incident.planned) == (A, 180.0, False)
    assert "failed to start 4 times" in incident.cause
    assert "java.net.BindException: in use" in incident.cause


def test_incident_of_failed_broker_start_names_address_in_use() -> None:
    stack = "a.B: x\nCaused by: a.C: to bind to h:1 due to: in use\nCaused by: java.net.BindException: in use"
    incident = only_incident(
        audit_pair(log(A, *((f"{minute}:01 start failed", stack) for minute in (1, 2, 3)))), "failing_start"
    )

    assert "to bind to h:1" in incident.cause


def test_failed_broker_start_with_refused_configuration_is_counted_once() -> None:
    refused_starts = [line for minute in (1, 2, 3) for line in (f"{minute}:01 invalid", *failed_starts(minute))]

    assert "3 times" in only_incident(audit_pair(log(A, *refused_starts)), "failing_start").cause


def test_each_series_of_failed_broker_starts_is_incident_even_with_one_start() -> None:
    assert "failed to start once" in only_incident(audit_pair(log(A, *failed_starts(1))), "failing_start").cause
    lines = [
        *failed_starts(1, 2),
        "3:00 chosen",
        "3:01 opened",
        "3:02 starting",
        "3:03 started",
        *failed_starts(4, 5),
    ]
    assert kinds(audit_pair(log(A, *lines))) == ["failing_start", "failing_start"]
    assert kinds(audit_pair(log(A, *failed_starts(1, 20, 40)))) == ["failing_start"] * 3


@pytest.mark.parametrize(
    "error", ["attempt to obtain lock aborted due to shutdown", "Cannot start broker as being asked to shut down"]
)
def test_standby_that_is_stopped_while_it_waits_has_no_failed_start(error: str) -> None:
    assert audit_pair(log(A, "0 chosen", "1 wait", ("9:00 start failed", f"java.io.IOException: {error}"))) == []


def starts_that_serve_until(end: str, *seconds: int) -> list[str]:
    """Return the records of starts at these seconds. Each process serves clients 3 s after its start, until ``end``."""
    start_records = ((0, "chosen"), (1, "opened"), (2, "starting"), (3, "started"))
    delay, _, message = end.partition(" ")
    run_records = [*start_records, (int(delay), message)] if end else start_records
    return [f"{(start + at) // 60}:{(start + at) % 60} {message}" for start in seconds for at, message in run_records]


@pytest.mark.parametrize("end", ["6 invalid", ""])
def test_broker_starts_that_stop_within_seconds_are_one_failing_start_incident(end: str) -> None:
    incident = only_incident(audit_pair(log(A, *starts_that_serve_until(end, 0, 20, 40, 60))), "failing_start")
    assert f"failed to start {4 if end else 3} times" in incident.cause  # the last process may still run
    # A process that stops without a record may have been killed.
    kinds_of_two_starts = kinds(audit_pair(log(A, *starts_that_serve_until(end, 0, 20))))
    assert kinds_of_two_starts == (["failing_start"] if end else [])


def test_broker_starts_that_fail_after_45_seconds_are_separate_incidents() -> None:
    assert kinds(audit_pair(log(A, *starts_that_serve_until("45 invalid", 0, 60, 120, 180)))) == ["failing_start"] * 4


def test_failed_start_with_missing_journal_files_is_one_store_error() -> None:
    failed_start = (
        "5 start failed",
        "java.io.IOException: Detected missing/corrupt journal files referenced by:[0:q] 7",
    )

    incident = only_incident(
        audit_pair(log(A, "0 chosen", "1 opened", "2 missing journal", failed_start)), "store_error"
    )

    assert "missing" in incident.cause


def test_failed_start_for_another_reason_is_no_store_error() -> None:
    port_failure = (
        "5 start failed",
        "java.io.IOException: Transport Connector could not be registered: Address already in use",
    )
    lock_failure = (
        "6 start failed",
        "java.io.IOException: attempt to obtain lock aborted due to shutdown\nCaused by: java.sql.SQLException: x",
    )

    assert kinds(audit_pair(log(A, "0 chosen", "1 opened", port_failure, lock_failure))) == ["failing_start"]


def test_store_error_names_full_disk_after_other_errors() -> None:
    incident = only_incident(audit_pair(log(A, *MASTER, "9 corrupt", "10 store failed")), "store_error")

    assert "full" in incident.cause
    assert "L025" in incident.rules


def test_recovery_after_kill_is_no_store_error() -> None:
    assert audit_pair(log(A, "0 chosen", "1 opened", "1 unclean", "2 starting", "3 started")) == []


def test_store_errors_hours_apart_are_separate_incidents() -> None:
    assert kinds(audit_pair(log(A, *MASTER, "9 corrupt", "200:00 corrupt"))) == ["store_error", "store_error"]


def test_repeatedly_refused_messages_are_incident_with_error_of_broker() -> None:
    failed_sends = [f"5:{second:02} message failed" for second in range(0, 18, 3)]

    incident = only_incident(audit_pair(log(A, *MASTER, *failed_sends)), "refused_messages")

    assert incident.cause.startswith("orders-mq01-a refused messages 6 times: “Async error occurred: ")
    assert 'because "transaction" is null' in incident.cause
    assert incident.rules == ("V027",)


def test_single_failed_message_is_no_incident() -> None:
    assert audit_pair(log(A, *MASTER, "5 message failed", "5:30 message failed")) == []


def test_messages_refused_for_missing_right_are_refused_rights_incident() -> None:
    incidents = audit_pair(log(A, *MASTER, *[f"5:{second} right missing" for second in range(1, 9)]))

    assert kinds(incidents) == ["refused_rights"]
    assert "the account shop tried to write to queue://orders 8 times without the right" in incidents[0].cause


def test_repeated_logins_of_refused_client_are_one_incident() -> None:
    attempts = [f"{minute}:{second} client refused" for minute in range(1, 20) for second in (1, 2, 30)]

    incident = only_incident(audit_pair(log(A, *MASTER, *attempts)), "refused_credentials")

    assert incident.cause == "orders-mq01-a: the broker refused a client with the account shop 57 times."


def test_refused_logins_of_clients_and_bridges_are_one_incident() -> None:
    incident = only_incident(audit_pair(log(A, *MASTER, "5 bridge refused", "7 client refused")), "refused_credentials")

    assert "a bridge with the account network" in incident.cause
    assert "a client with the account shop" in incident.cause
    assert set(incident.rules) == {"S003", "N036"}
    assert incident.peer == ""


def test_incident_of_refused_bridge_names_its_peer() -> None:
    incident = only_incident(audit_pair(log(A, *MASTER, "5 bridge up", "5.1 bridge refused")), "refused_credentials")

    assert incident.peer == "orders-mq01-a"


def test_incident_of_refused_bridge_that_never_started_names_peer_of_its_stop() -> None:
    incident = only_incident(
        audit_pair(log(A, *MASTER, "5 bridge refused", "5.1 bridge stopped")), "refused_credentials"
    )

    assert incident.peer == "orders-mq01-a"


def test_incident_of_refused_bridge_omits_peer_of_bridge_that_stops_much_later() -> None:
    incident = only_incident(
        audit_pair(log(A, *MASTER, "5 bridge refused", "40 bridge stopped")), "refused_credentials"
    )

    assert incident.peer == ""


def test_incident_of_bridge_refused_by_unnamed_broker_has_no_peer() -> None:
    lines = log(A, *MASTER, "5 bridge refused", "5.1 nameless bridge stopped")

    assert only_incident(audit_pair(lines), "refused_credentials").peer == ""


def test_broken_connection_of_client_is_no_incident() -> None:
    assert audit_pair(log(A, *MASTER, "5 client gone")) == []


def test_incident_of_refused_bridge_has_rule_about_network_accounts() -> None:
    incident = only_incident(audit_pair(log(A, *MASTER, "5 bridge refused", "7 bridge refused")), "refused_credentials")

    assert incident.rules == ("N036",)


def test_incident_of_bridge_refused_for_missing_rights_names_rights() -> None:
    incident = only_incident(audit_pair(log(A, *MASTER, "5 bridge without rights")), "refused_credentials")

    assert "lacked rights" in incident.cause


def test_repeated_connection_of_existing_bridge_is_duplicate_bridge() -> None:
    incident = only_incident(audit_pair(log(A, *MASTER, "5 bridge twice", "7 bridge twice")), "duplicate_bridge")

    assert "N010" in incident.rules


def test_single_connection_of_existing_bridge_is_no_incident() -> None:
    assert audit_pair(log(A, *MASTER, "5 bridge twice")) == []


def test_client_that_is_already_connected_is_no_duplicate_bridge() -> None:
    assert audit_pair(log(A, *MASTER, "5 client twice", "6 client twice")) == []


def test_replaced_duplex_connection_is_no_duplicate_bridge() -> None:
    assert audit_pair(log(A, *MASTER, "5 replaced", "6 replaced")) == []


BRIDGE_UP, LOCAL_ERROR = "bridge up", "bridge too large"


def bridge_failures(*minutes: int, error: str = LOCAL_ERROR, lasts: int = 1) -> list[str]:
    return [line for minute in minutes for line in (f"{minute}:01 {BRIDGE_UP}", f"{minute}:{1 + lasts:02} {error}")]


def test_bridge_that_breaks_five_times_after_start_is_one_incident_with_remedy() -> None:
    incident = only_incident(audit_pair(log(A, *MASTER, *bridge_failures(1, 2, 3, 4, 5))), "breaking_bridge")

    assert "broke 5 times" in incident.cause
    assert "MaxFrameSizeExceededException" in incident.cause
    assert "wireFormat.maxFrameSize" in incident.remedy
    assert incident.rules == ("N048",)
    assert incident.seconds == 240.0


def test_bridge_that_breaks_with_another_error_is_incident() -> None:
    incident = only_incident(
        audit_pair(log(A, *MASTER, *bridge_failures(1, 2, 3, 4, 5, error="bridge lost"))), "breaking_bridge"
    )

    assert "EOFException" in incident.cause
    assert "log of the broker at the other end" in incident.remedy


def test_bridge_that_breaks_rarely_or_late_is_no_incident() -> None:
    for lines in (
        bridge_failures(1, 2, 3, 4),
        bridge_failures(1, 2, 3, 4, 5, lasts=30),
        bridge_failures(1, 2, 30, 31, 60, 61),
    ):
        assert "breaking_bridge" not in kinds(audit_pair(log(A, *MASTER, *lines)))


def test_bridge_with_refused_login_is_refusal_and_no_breaking_bridge() -> None:
    incidents = audit_pair(log(A, *MASTER, *bridge_failures(1, 2, 3, 4, 5, error="bridge refused")))

    assert set(kinds(incidents)) == {"refused_credentials"}


def test_repeated_refused_frames_are_one_incident_with_client_address() -> None:
    incident = only_incident(
        audit_pair(log(A, *MASTER, *(f"{minute}:01 frame too large" for minute in range(1, 6)))), "refused_frames"
    )

    assert "tcp://10.30.0.11" in incident.cause
    assert "Frame size of 14 MB" in incident.cause
    assert kinds(audit_pair(log(A, *MASTER, *(f"{minute}:01 frame too large" for minute in range(1, 5))))) == []


OUTGOING_LINK = ("1 dial to billing", "1 link started", "2 link up")


def test_duplex_link_from_both_brokers_is_duplicate_bridge_without_error() -> None:
    incident = only_incident(
        audit_pair(log(A, *MASTER, *OUTGOING_LINK, "3 link came", "3.1 came up")), "duplicate_bridge"
    )

    assert "billing-mq01" in incident.cause
    assert (incident.ended, incident.seconds) == (None, None)
    assert "N010" in incident.rules


def test_duplex_links_that_follow_each_other_are_no_duplicate_bridge() -> None:
    assert audit_pair(log(A, *MASTER, *OUTGOING_LINK, "60 link stopped", "70 link came", "71 came up")) == []


def test_duplex_links_with_different_names_are_no_duplicate_bridge() -> None:
    assert audit_pair(log(A, *MASTER, *OUTGOING_LINK, "3 other link came", "3.1 came up")) == []


def test_each_rule_that_incidents_name_is_on_rules_page() -> None:
    source = "".join(path.read_text() for path in Path(advice.__file__).parent.glob("*.py"))
    rules_page = (Path(__file__).resolve().parents[3] / "docs" / "rules.md").read_text()

    mentioned = set(re.findall(r'"([VLPNMCS]\d{3})"', source))

    assert len(mentioned) > 20
    assert {rule for rule in mentioned if f"\n### {rule}\n" not in rules_page} == set()
