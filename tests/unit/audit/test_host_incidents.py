"""Demotions, store errors, refusals and double bridges, from one host's log; and what looks like them and is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from activemq_fleet.audit import advice
from activemq_fleet.audit.evidence import Incident
from tests.unit.audit.broker_logs import A, audit_pair, kinds, log

MASTER = ("0 chosen", "1 opened", "1 starting", "2 started")


def only(incidents: list[Incident], kind: str) -> Incident:
    found = [one for one in incidents if one.kind == kind]
    assert len(found) == 1, incidents
    return found[0]


def test_an_active_node_that_lost_its_lock_was_demoted() -> None:
    incident = only(audit_pair(log(A, *MASTER, "9 lock gone", "10 lost", "11 stopping", "12 stopped")), "demotion")

    assert "removed" in incident.cause
    assert "L021" in incident.rules  # it did not come back


def test_a_demoted_node_that_stands_by_again_shows_how_long_it_took() -> None:
    again = ("9 lock modified", "10 lost", "11 stopping", "12 stopped", "14 chosen", "15 wait")

    incident = only(audit_pair(log(A, *MASTER, *again)), "demotion")

    assert incident.seconds == 6.0
    assert "L021" not in incident.rules


def test_a_stop_in_good_order_is_no_demotion() -> None:
    assert audit_pair(log(A, *MASTER, "10 stopping", "11 stopped")) == []


FAILS = ("start failed", "java.io.IOException: Failed to bind\nCaused by: java.net.BindException: in use")


def failing(*minutes: int) -> list[str | tuple[str, str]]:
    return [(f"{minute}:01 {FAILS[0]}", FAILS[1]) for minute in minutes]


def test_starts_that_fail_again_and_again_are_one_incident_with_their_cause() -> None:
    incident = only(audit_pair(log(A, *failing(1, 2, 3, 4))), "failing_start")

    assert (incident.host, incident.seconds, incident.planned) == (A, 180.0, False)
    assert "failed to start 4 times" in incident.cause
    assert "java.net.BindException: in use" in incident.cause


def test_a_failed_start_names_the_cause_that_says_which_address_is_in_use() -> None:
    stack = "a.B: x\nCaused by: a.C: to bind to h:1 due to: in use\nCaused by: java.net.BindException: in use"
    incident = only(
        audit_pair(log(A, *((f"{minute}:01 start failed", stack) for minute in (1, 2, 3)))), "failing_start"
    )

    assert "to bind to h:1" in incident.cause


def test_a_configuration_that_is_refused_again_and_again_is_told_once_a_start() -> None:
    both = [line for minute in (1, 2, 3) for line in (f"{minute}:01 invalid", *failing(minute))]

    assert "3 times" in only(audit_pair(log(A, *both)), "failing_start").cause


def test_each_series_of_failed_starts_is_an_incident_even_of_one_start() -> None:
    assert "failed to start once" in only(audit_pair(log(A, *failing(1))), "failing_start").cause
    came_up = [*failing(1, 2), "3:00 chosen", "3:01 opened", "3:02 starting", "3:03 started", *failing(4, 5)]
    assert kinds(audit_pair(log(A, *came_up))) == ["failing_start", "failing_start"]
    assert kinds(audit_pair(log(A, *failing(1, 20, 40)))) == ["failing_start"] * 3


@pytest.mark.parametrize(
    "error", ["attempt to obtain lock aborted due to shutdown", "Cannot start broker as being asked to shut down"]
)
def test_standby_that_is_stopped_while_it_waits_did_not_fail_to_start(error: str) -> None:
    assert audit_pair(log(A, "0 chosen", "1 wait", ("9:00 start failed", f"java.io.IOException: {error}"))) == []


def served_until(end: str, *seconds: int) -> list[str]:
    """Starts at these seconds that each served from their third second on."""
    serves = ((0, "chosen"), (1, "opened"), (2, "starting"), (3, "started"))
    after, _, what = end.partition(" ")
    events = [*serves, (int(after), what)] if end else serves
    return [f"{(start + at) // 60}:{(start + at) % 60} {what}" for start in seconds for at, what in events]


@pytest.mark.parametrize("end", ["6 invalid", ""])
def test_starts_that_end_soon_after_each_are_failing_start_crash_loop_late_bean(end: str) -> None:
    incident = only(audit_pair(log(A, *served_until(end, 0, 20, 40, 60))), "failing_start")
    assert f"failed to start {4 if end else 3} times" in incident.cause  # the last one may still run
    few = kinds(audit_pair(log(A, *served_until(end, 0, 20))))
    assert few == (["failing_start"] if end else [])  # a process that ends without a record can have been killed


def test_starts_that_fail_after_a_while_are_no_series() -> None:
    assert kinds(audit_pair(log(A, *served_until("45 invalid", 0, 60, 120, 180)))) == ["failing_start"] * 4


def test_missing_journal_files_that_keep_a_broker_from_starting_are_one_store_error() -> None:
    refused = ("5 start failed", "java.io.IOException: Detected missing/corrupt journal files referenced by:[0:q] 7")

    incident = only(audit_pair(log(A, "0 chosen", "1 opened", "2 missing journal", refused)), "store_error")

    assert "missing" in incident.cause


def test_a_failed_start_for_another_reason_is_no_store_error() -> None:
    port = (
        "5 start failed",
        "java.io.IOException: Transport Connector could not be registered: Address already in use",
    )
    held = (
        "6 start failed",
        "java.io.IOException: attempt to obtain lock aborted due to shutdown\nCaused by: java.sql.SQLException: x",
    )

    assert kinds(audit_pair(log(A, "0 chosen", "1 opened", port, held))) == ["failing_start"]


def test_a_full_disk_is_named_though_other_errors_follow() -> None:
    incident = only(audit_pair(log(A, *MASTER, "9 corrupt", "10 store failed")), "store_error")

    assert "full" in incident.cause
    assert "L025" in incident.rules


def test_a_recovery_after_a_kill_is_no_store_error() -> None:
    assert audit_pair(log(A, "0 chosen", "1 opened", "1 unclean", "2 starting", "3 started")) == []


def test_errors_hours_apart_are_two() -> None:
    assert kinds(audit_pair(log(A, *MASTER, "9 corrupt", "200:00 corrupt"))) == ["store_error", "store_error"]


def test_max_uncommitted_network_is_an_incident_with_the_error_of_the_broker() -> None:
    sends = [f"5:{second:02} message failed" for second in range(0, 18, 3)]

    incident = only(audit_pair(log(A, *MASTER, *sends)), "refused_messages")

    assert incident.cause.startswith("orders-mq01-a refused messages 6 times: “Async error occurred: ")
    assert 'because "transaction" is null' in incident.cause
    assert incident.rules == ("V027",)


def test_single_failed_message_is_no_incident() -> None:
    assert audit_pair(log(A, *MASTER, "5 message failed", "5:30 message failed")) == []


def test_message_without_a_right_is_a_refusal_of_rights() -> None:
    incidents = audit_pair(log(A, *MASTER, *[f"5:{second} right missing" for second in range(1, 9)]))

    assert kinds(incidents) == ["refused_rights"]
    assert "the account shop tried to write to queue://orders 8 times without the right" in incidents[0].cause


def test_a_refused_client_is_one_incident_however_often_it_tries() -> None:
    tries = [f"{minute}:{second} client refused" for minute in range(1, 20) for second in (1, 2, 30)]

    incident = only(audit_pair(log(A, *MASTER, *tries)), "refused_credentials")

    assert incident.cause == "orders-mq01-a: the broker refused a client with the account shop 57 times."


def test_clients_and_bridges_that_are_refused_together_are_one_incident() -> None:
    incident = only(audit_pair(log(A, *MASTER, "5 bridge refused", "7 client refused")), "refused_credentials")

    assert "a bridge with the account network" in incident.cause
    assert "a client with the account shop" in incident.cause
    assert set(incident.rules) == {"S003", "N036"}
    assert incident.peer == ""


def test_a_bridge_that_was_refused_names_who_refused_it() -> None:
    incident = only(audit_pair(log(A, *MASTER, "5 bridge up", "5.1 bridge refused")), "refused_credentials")

    assert incident.peer == "orders-mq01-a"


def test_the_end_of_a_bridge_names_who_refused_it_where_it_never_came_up() -> None:
    incident = only(audit_pair(log(A, *MASTER, "5 bridge refused", "5.1 bridge stopped")), "refused_credentials")

    assert incident.peer == "orders-mq01-a"


def test_a_bridge_that_ends_much_later_did_not_refuse() -> None:
    incident = only(audit_pair(log(A, *MASTER, "5 bridge refused", "40 bridge stopped")), "refused_credentials")

    assert incident.peer == ""


def test_a_broker_that_has_not_told_its_name_is_nobodys_peer() -> None:
    lines = log(A, *MASTER, "5 bridge refused", "5.1 nameless bridge stopped")

    assert only(audit_pair(lines), "refused_credentials").peer == ""


def test_a_connection_that_broke_was_not_refused() -> None:
    assert audit_pair(log(A, *MASTER, "5 client gone")) == []


def test_a_refused_bridge_leads_to_the_accounts_of_the_network() -> None:
    incident = only(audit_pair(log(A, *MASTER, "5 bridge refused", "7 bridge refused")), "refused_credentials")

    assert incident.rules == ("N036",)


def test_a_bridge_without_rights_is_told_apart_from_one_without_password() -> None:
    incident = only(audit_pair(log(A, *MASTER, "5 bridge without rights")), "refused_credentials")

    assert "lacked rights" in incident.cause


def test_a_bridge_that_is_there_already_again_and_again_is_a_double_one() -> None:
    incident = only(audit_pair(log(A, *MASTER, "5 bridge twice", "7 bridge twice")), "duplicate_bridge")

    assert "N010" in incident.rules


def test_once_it_may_be_a_connection_that_was_not_given_up_yet() -> None:
    assert audit_pair(log(A, *MASTER, "5 bridge twice")) == []


def test_a_client_that_is_there_already_is_no_bridge() -> None:
    assert audit_pair(log(A, *MASTER, "5 client twice", "6 client twice")) == []


def test_a_duplex_connection_that_replaces_a_dead_one_is_no_double_bridge() -> None:
    assert audit_pair(log(A, *MASTER, "5 replaced", "6 replaced")) == []


UP, LOCAL = "bridge up", "bridge too large"


def breaking(*minutes: int, error: str = LOCAL, lasts: int = 1) -> list[str]:
    return [line for minute in minutes for line in (f"{minute}:01 {UP}", f"{minute}:{1 + lasts:02} {error}")]


def test_bridge_that_breaks_five_times_after_start_is_one_incident_with_remedy() -> None:
    incident = only(audit_pair(log(A, *MASTER, *breaking(1, 2, 3, 4, 5))), "breaking_bridge")

    assert "broke 5 times" in incident.cause
    assert "MaxFrameSizeExceededException" in incident.cause
    assert "wireFormat.maxFrameSize" in incident.remedy
    assert incident.rules == ("N048",)
    assert incident.seconds == 240.0


def test_bridge_that_breaks_with_another_error_is_an_incident_too() -> None:
    incident = only(audit_pair(log(A, *MASTER, *breaking(1, 2, 3, 4, 5, error="bridge lost"))), "breaking_bridge")

    assert "EOFException" in incident.cause
    assert "log of the broker at the other end" in incident.remedy


def test_bridge_that_breaks_seldom_late_or_long_apart_is_no_incident() -> None:
    for lines in (breaking(1, 2, 3, 4), breaking(1, 2, 3, 4, 5, lasts=30), breaking(1, 2, 30, 31, 60, 61)):
        assert "breaking_bridge" not in kinds(audit_pair(log(A, *MASTER, *lines)))


def test_bridge_whose_login_is_refused_is_a_refusal_and_not_a_breaking_bridge() -> None:
    incidents = audit_pair(log(A, *MASTER, *breaking(1, 2, 3, 4, 5, error="bridge refused")))

    assert set(kinds(incidents)) == {"refused_credentials"}


def test_frames_refused_many_times_are_one_incident_with_address() -> None:
    incident = only(
        audit_pair(log(A, *MASTER, *(f"{minute}:01 frame too large" for minute in range(1, 6)))), "refused_frames"
    )

    assert "tcp://10.30.0.11" in incident.cause
    assert "Frame size of 14 MB" in incident.cause
    assert kinds(audit_pair(log(A, *MASTER, *(f"{minute}:01 frame too large" for minute in range(1, 5))))) == []


DIALLED = ("1 dial to billing", "1 link started", "2 link up")


def test_a_duplex_link_from_both_ends_is_a_double_one_though_nobody_complains() -> None:
    incident = only(audit_pair(log(A, *MASTER, *DIALLED, "3 link came", "3.1 came up")), "duplicate_bridge")

    assert "billing-mq01" in incident.cause
    assert (incident.ended, incident.seconds) == (None, None)
    assert "N010" in incident.rules


def test_one_end_after_the_other_is_no_double_bridge() -> None:
    assert audit_pair(log(A, *MASTER, *DIALLED, "60 link stopped", "70 link came", "71 came up")) == []


def test_duplex_links_of_two_names_are_no_double_bridge() -> None:
    assert audit_pair(log(A, *MASTER, *DIALLED, "3 other link came", "3.1 came up")) == []


def test_every_rule_that_is_named_exists() -> None:
    text = "".join(path.read_text() for path in Path(advice.__file__).parent.glob("*.py"))
    known = (Path(__file__).resolve().parents[3] / "docs" / "rules.md").read_text()

    named = set(re.findall(r'"([VLPNMCS]\d{3})"', text))

    assert len(named) > 20
    assert {rule for rule in named if f"\n### {rule}\n" not in known} == set()
