"""Take-overs, failed ones, split brains and flapping, from logs of a pair; and that clocks change none of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from activemq_fleet.audit.evidence import DurableMessageLossRisk, Incident, PairNode, SystemdJournalRecord
from activemq_fleet.audit.pair_findings import incidents_of_pair, pair_findings_of_logs
from tests.unit.audit.broker_logs import NOON, PAIR, A, B, agent, audit_pair, bridge_loss, busy, kinds, log, operation

MASTER = ("0 chosen", "1 opened", "1 starting", "2 started")
STANDS_BY = ("5 chosen", "6 wait")
TAKES_OVER = ("1:10 opened", "1:10 unclean", "1:11 starting", "1:12 started")


def at(text: str) -> datetime:
    """The moment ``MINUTES:SECONDS`` after noon."""
    minutes, _, seconds = text.partition(":")
    return NOON + timedelta(minutes=int(minutes), seconds=float(seconds))


def killed(host: str, since: str, moment: str, kind: str = "WATCHDOG-KILLS") -> SystemdJournalRecord:
    """The watchdog's report of a broker that has not answered since then, with its kill."""
    seconds = round((at(moment) - at(since)).total_seconds())
    fields = {"seconds": str(seconds), "reason": "process 812 was stopped by a signal"}
    return SystemdJournalRecord(host, 1, at(moment), kind, fields)


def takeover_of(incidents: list[Incident]) -> Incident:
    return only([incident for incident in incidents if incident.kind == "takeover"])


def only(incidents: list[Incident]) -> Incident:
    assert len(incidents) == 1, incidents
    return incidents[0]


def test_a_pair_that_starts_and_runs_has_no_incident() -> None:
    assert audit_pair(log(A, *MASTER), log(B, *STANDS_BY)) == []


def test_a_stand_by_that_becomes_active_took_over() -> None:
    incident = only(audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER)))

    assert (incident.kind, incident.host, incident.pair, incident.certainty) == ("takeover", B, "orders-mq01", "proved")
    assert "orders-mq01-a" in incident.cause


def test_a_kill_without_witnesses_has_no_beginning() -> None:
    incident = only(audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER)))

    assert (incident.began, incident.seconds, incident.began_from) == (None, None, "unknown")


def test_an_agent_tells_when_a_killed_master_was_lost() -> None:
    incident = only(audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER), more=agent("1:08.5", "1:14")))

    assert (incident.began_from, incident.seconds) == ("agent", 3.5)


def test_an_agent_that_ended_by_itself_saw_no_loss() -> None:
    stopped = agent("1:08.5", "1:14")
    stopped[0] = stopped[0]._replace(reason="stopped")

    incident = only(audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER), more=stopped))

    assert incident.began_from == "unknown"


def test_a_loss_of_an_hour_before_is_not_of_this_take_over() -> None:
    incident = only(audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER), more=agent("-60:0", "-59:0")))

    assert incident.began_from == "unknown"


def test_a_bridge_tells_when_no_agent_does() -> None:
    incident = only(audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER), more=[bridge_loss("1:09", "1:13")]))

    assert (incident.began_from, incident.seconds) == ("bridge", 3.0)


def test_an_agent_goes_before_a_bridge() -> None:
    more = [*agent("1:08", "1:14"), bridge_loss("1:09", "1:13")]

    assert only(audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER), more=more)).began_from == "agent"


@pytest.mark.parametrize("clock", [-299.0, -60.0, 60.0, 299.0])
def test_a_witness_with_another_clock_tells_the_time_by_its_own(clock: float) -> None:
    more = agent("1:08.5", "1:14", clock=clock)

    incident = only(audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER), more=more))

    assert incident.seconds == 5.5
    assert incident.began is not None
    assert incident.ended is not None
    assert (incident.ended - incident.began).total_seconds() == 5.5


def test_a_stop_in_good_order_begins_with_its_line() -> None:
    old = log(A, *MASTER, "1:08 stopping", "1:09 stopped")

    incident = only(audit_pair(old, log(B, *STANDS_BY, *TAKES_OVER)))

    assert (incident.began_from, incident.seconds) == ("log", 4.0)
    assert "was stopped cleanly" in incident.cause


@pytest.mark.parametrize("clock", [-280.0, 280.0])
def test_logs_whose_clocks_contradict_the_lock_give_no_duration(clock: float) -> None:
    old = log(A, *MASTER, "1:08 stopping", "1:09 stopped", clock=clock)

    incident = only(audit_pair(old, log(B, *STANDS_BY, *TAKES_OVER)))

    assert (incident.kind, incident.seconds) == ("takeover", None)


def test_a_node_that_comes_back_for_its_own_lock_took_nothing_over() -> None:
    again = ("1:00 lost", "1:01 stopping", "1:02 stopped", "1:03 chosen", "1:04 wait", "1:09 opened", "1:10 started")

    assert kinds(audit_pair(log(A, *MASTER, *again), log(B, *STANDS_BY))) == ["demotion"]


def test_a_first_start_that_had_to_wait_is_no_take_over() -> None:
    failed = log(A, "0 chosen", "1 opened", "2 start failed", "2 stopping")

    assert kinds(audit_pair(failed, log(B, *STANDS_BY, *TAKES_OVER))) == ["failing_start"]


def test_without_the_other_log_a_take_over_is_only_possible() -> None:
    incident = only(audit_pair(log(B, *STANDS_BY, *TAKES_OVER), lacking=A))

    assert (incident.kind, incident.certainty) == ("takeover", "possible")


def test_a_waiting_line_that_was_rolled_away_leaves_a_take_over() -> None:
    assert kinds(audit_pair(log(A, *MASTER), log(B, *TAKES_OVER))) == ["takeover"]


def test_a_start_after_the_whole_pair_was_down_is_no_take_over() -> None:
    old = log(A, *MASTER, "1:00 stopping", "1:01 stopped")

    assert audit_pair(old, log(B, "30:00 chosen", "30:01 opened", "30:02 starting", "30:03 started")) == []


def test_a_lease_that_was_waited_for_is_a_take_over() -> None:
    old = log(A, "0 jdbc", "0 lease try", "0.1 lease got", "1 starting", "2 started")
    new = log(B, "5 jdbc", "5 lease try", "1:10 lease got", "1:11 starting", "1:12 started")

    assert kinds(audit_pair(old, new, store=None)) == ["takeover"]


def test_a_promoted_slave_took_over_from_its_master() -> None:
    master = log(A, "0 chosen", "1 opened", "2 old started", "9 slave seen")
    slave = log(
        B,
        "5 chosen",
        "6 opened",
        "7 slave dials",
        "8 slave attached",
        "9 old started",
        "1:00 master lost",
        "1:00.2 promoted",
    )

    incident = only(audit_pair(master, slave, store=None))

    assert (incident.kind, incident.host, incident.began_from, incident.seconds) == ("takeover", B, "log", 0.2)
    assert "P009" in incident.rules


def test_slave_took_over_from_master_that_died_before_its_start_was_logged() -> None:
    slave = log(
        B, "5 chosen", "7 slave dials", "8 slave attached", "9 old started", "1:00 master lost", "1:00.2 promoted"
    )

    incident = only(audit_pair(log(A, "0 chosen", "8 slave seen"), slave, store=None))

    assert (incident.kind, incident.certainty) == ("takeover", "proved")
    assert "orders-mq01-a" in incident.cause


def test_an_attached_slave_is_no_active_node_and_no_failed_one() -> None:
    slave = log(B, "5 chosen", "6 opened", "7 slave dials", "8 slave attached", "9 old started", "1:00 stopping")

    assert audit_pair(log(A, *MASTER), slave, store=None) == []


def test_a_slave_that_stops_with_its_master_failed_to_take_over() -> None:
    master = log(A, "0 chosen", "1 opened", "2 old started", "9 slave seen")
    slave = log(B, "5 chosen", "6 opened", "7 slave dials", "8 slave attached", "1:00 master lost", "1:00 retired")

    incident = only(audit_pair(master, slave, store=None))

    assert (incident.kind, incident.rules) == ("failed_takeover", ("P007",))


def test_a_stand_by_that_gets_the_lock_and_fails_is_a_failed_take_over() -> None:
    incident = only(
        audit_pair(log(A, *MASTER), log(B, *STANDS_BY, "1:10 opened", "1:11 start failed", "1:12 stopping"))
    )

    assert (incident.kind, incident.host, incident.seconds) == ("failed_takeover", B, 1.0)


def test_a_stand_by_that_is_stopped_while_it_waits_did_not_fail() -> None:
    assert audit_pair(log(A, *MASTER), log(B, *STANDS_BY, "1:00 stopping", "1:01 stopped")) == []


def test_a_silent_old_master_is_a_take_over() -> None:
    incidents = audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER), more=[busy(B, "9:00", "60:00")])

    assert kinds(incidents) == ["takeover"]


def test_two_nodes_that_both_work_on_one_store_are_a_split_brain() -> None:
    more = [busy(A, "59:10", "59:50"), busy(B, "59:00", "59:40")]

    incident = only(audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER), more=more))

    assert (incident.kind, incident.host) == ("split_brain", B)
    assert "L001" in incident.rules


LATER = ("5 chosen", "6 wait", "21:10 opened", "21:11 starting", "21:12 started")


def test_lines_within_the_skew_are_no_split_brain() -> None:
    incidents = audit_pair(log(A, *MASTER), log(B, *LATER), more=[busy(A, "26:00", "26:08"), busy(B, "40:00", "40:05")])

    assert kinds(incidents) == ["takeover"]


def test_lines_just_beyond_the_skew_are_one() -> None:
    assert kinds(audit_pair(log(A, *MASTER), log(B, *LATER), more=[busy(A, "26:12", "26:15")])) == ["split_brain"]


def test_two_that_began_at_about_the_same_time_must_both_work_beyond_the_skew() -> None:
    """The clocks may hide that one came after the other."""
    incidents = audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER), more=[busy(A, "9:00", "9:10")])

    assert kinds(incidents) == ["takeover"]


def test_a_node_that_woke_up_and_gave_up_is_no_split_brain() -> None:
    woke = log(A, *MASTER, "20:01 lock modified", "20:02 lost", "20:03 stopping")
    more = [busy(A, "20:00", "20:01.5")]

    assert kinds(audit_pair(woke, log(B, *STANDS_BY, *TAKES_OVER), more=more)) == ["demotion", "takeover"]


def test_two_nodes_with_stores_of_their_own_are_no_split_brain() -> None:
    other = log(B, "5 chosen", "6 opened", "7 starting", "8 started")
    more = [busy(A, "59:10", "59:50"), busy(B, "59:00", "59:40")]

    assert audit_pair(log(A, *MASTER), other, more=more, store=None) == []


def test_two_nodes_that_worked_on_generations_of_their_own_are_no_split_brain() -> None:
    noon = NOON.timestamp()
    generations = {A: ((1, noon - 60),), B: ((2, noon + 21 * 60),)}
    logs = log(A, *MASTER), log(B, *LATER)
    more = [busy(A, "26:12", "26:15")]

    assert kinds(audit_pair(*logs, more=more, generations=generations)) == ["takeover"]
    assert kinds(audit_pair(*logs, more=more, generations={A: ((1, noon - 60),)})) == ["split_brain"]


def test_nodes_without_a_lock_on_one_known_store_are_a_split_brain() -> None:
    other = log(B, "5 chosen", "6 opened", "7 starting", "8 started")
    more = [busy(A, "59:10", "59:50"), busy(B, "59:00", "59:40")]

    assert kinds(audit_pair(log(A, *MASTER), other, more=more)) == ["split_brain"]


def rounds(times: tuple[int, ...], clock: float, planned: tuple[int, ...] = ()) -> list[Incident]:
    """A dies at the first of ``times`` (minutes), B at the next, and so on; B's clock is ahead.

    At the minutes ``planned`` a playbook was at work on the pair.
    """
    a, b = [*MASTER], [*STANDS_BY]
    nodes = [a, b]
    for turn, minute in enumerate(times):
        dies, takes = nodes[turn % 2], nodes[1 - turn % 2]
        takes += [f"{minute}:02 opened", f"{minute}:02 unclean", f"{minute}:03 starting", f"{minute}:04 started"]
        dies += [f"{minute}:30 chosen", f"{minute}:31 wait"]
    more = [
        operation(host, f"{minute}:01", f"{minute}:45", ahead)
        for minute in planned
        for host, ahead in ((A, 0.0), (B, clock))
    ]
    return audit_pair(log(A, *a), log(B, *b, clock=clock), more=more)


@pytest.mark.parametrize("clock", [-299.0, -150.0, -30.0, 0.0, 30.0, 150.0, 299.0])
def test_three_take_overs_in_ten_minutes_are_flapping_whatever_the_clocks_say(clock: float) -> None:
    assert kinds(rounds((3, 7, 12), clock)) == ["flapping", "takeover", "takeover", "takeover"]


@pytest.mark.parametrize("clock", [-299.0, -30.0, 0.0, 30.0, 299.0])
def test_three_take_overs_in_more_than_ten_minutes_are_not(clock: float) -> None:
    assert kinds(rounds((3, 9, 14), clock)) == ["takeover", "takeover", "takeover"]


@pytest.mark.parametrize("clock", [-299.0, -30.0, 0.0, 30.0, 299.0])
def test_takeovers_during_playbook_are_planned_and_no_flapping(clock: float) -> None:
    incidents = rounds((3, 7, 12), clock, planned=(3, 7, 12))
    assert kinds(incidents) == ["takeover", "takeover", "takeover"]
    assert all(one.planned for one in incidents)
    takeover = next(one for one in incidents if one.kind == "takeover")
    assert takeover.cause.endswith("The takeover was planned: restart, by ops@controller.")


def test_planned_takeovers_around_unplanned_one_are_no_flapping() -> None:
    incidents = rounds((3, 7, 12), 0.0, planned=(3, 12))
    assert sorted((one.kind, one.planned) for one in incidents) == [
        ("takeover", False), ("takeover", True), ("takeover", True),
    ]  # fmt: skip


def test_three_unplanned_takeovers_beside_planned_one_are_flapping() -> None:
    flapping = [one for one in rounds((3, 5, 7, 9), 0.0, planned=(5,)) if one.kind == "flapping"]
    assert only(flapping).cause.startswith("3 takeovers")


def test_takeover_after_watchdog_killed_hung_node_names_reason_and_downtime() -> None:
    incident = takeover_of(
        audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER), more=[killed(A, "0:20", "1:09")])
    )
    assert (incident.began_from, incident.began, incident.seconds) == ("watchdog", NOON + timedelta(seconds=20), 52.0)
    assert incident.cause == (
        "orders-mq01-a hung (process 812 was stopped by a signal), and its watchdog killed it at 12:01:09 UTC; "
        "orders-mq01-b took over after its store had been recovered. The downtime of the pair was between 51.5 and "
        "70.0 s. The last log record of orders-mq01-a before it hung is from 12:00:02 UTC: the upper bound counts from "
        "this record, because no later one proves that orders-mq01-a worked. The lower bound counts from the first "
        "record that proves its failure. orders-mq01-a did not answer its "
        "watchdog from 12:00:20 UTC on. orders-mq01-b was active from 12:01:12 UTC on."
    )
    assert (incident.downtime_min, incident.downtime_max) == (51.5, 70.0)
    assert "thread dump" in incident.remedy


def test_kill_by_watchdog_counts_before_later_loss_that_agent_saw() -> None:
    more = [*agent("1:08.5", "1:14"), killed(A, "0:20", "1:09")]
    incident = takeover_of(audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER), more=more))
    assert (incident.began_from, incident.seconds) == ("watchdog", 52.0)


def test_kill_by_watchdog_with_other_clock_gives_reason_without_duration() -> None:
    logs = log(A, *MASTER, clock=-200.0), log(B, *STANDS_BY, *TAKES_OVER)
    incident = takeover_of(audit_pair(*logs, more=[killed(A, "-3:20", "-3:29")]))
    assert (incident.began_from, incident.seconds) == ("watchdog", None)
    assert "hung (process 812" in incident.cause
    assert "differ, so the duration of the takeover is unknown" in incident.cause


@pytest.mark.parametrize(
    ("host", "since", "at"),
    [(B, "0:20", "1:09"), (A, "-9:0", "-8:0"), (A, "9:00", "9:10")],
    ids=["peer", "old", "late"],
)
def test_kill_that_does_not_belong_to_takeover_does_not_explain_it(host: str, since: str, at: str) -> None:
    incident = takeover_of(audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER), more=[killed(host, since, at)]))
    assert (incident.began_from, incident.seconds) == ("unknown", None)


def test_kill_by_watchdog_does_not_explain_takeover_after_orderly_stop() -> None:
    stops = log(A, *MASTER, "1:05 stopping", "1:06 stopped")
    incident = takeover_of(audit_pair(stops, log(B, *STANDS_BY, *TAKES_OVER), more=[killed(A, "1:00", "1:09")]))
    assert "was stopped cleanly" in incident.cause


def test_downtime_begins_with_last_record_before_hang_although_broker_logged_later() -> None:
    more = [killed(A, "0:20", "1:09"), busy(A, "15", "50")]
    incident = takeover_of(audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER), more=more))
    assert (incident.downtime_min, incident.downtime_max) == (51.5, 57.0)


def test_killed_broker_without_journal_has_downtime_bounds_by_lock_and_last_record() -> None:
    incident = only(audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER), more=[busy(A, "40", "58")]))
    assert (incident.seconds, incident.downtime_min, incident.downtime_max) == (None, 2.0, 14.0)
    assert "The downtime of the pair was between 2.0 and 14.0 s." in incident.cause


def test_downtime_after_orderly_stop_is_the_duration_of_the_takeover() -> None:
    stops = log(A, *MASTER, "1:05 stopping", "1:06 stopped")
    incident = only(audit_pair(stops, log(B, *STANDS_BY, *TAKES_OVER)))
    assert (incident.seconds, incident.downtime_min, incident.downtime_max) == (7.0, 7.0, 7.0)
    assert "downtime" not in incident.cause


def test_slow_stop_and_late_lock_are_named() -> None:
    stops = log(A, *MASTER, "10 stopping", "40 stopped")
    incident = only(audit_pair(stops, log(B, *STANDS_BY, *TAKES_OVER)))
    assert incident.cause.endswith(
        "orders-mq01-a released its store 30 s after its stop had begun. orders-mq01-b acquired the lock 30 s after "
        "orders-mq01-a had stopped."
    )


def test_hang_is_an_incident_with_and_without_a_kill() -> None:
    for kind, outcome in (("WATCHDOG-KILLS", "killed it."), ("WATCHDOG-HUNG", "did not kill the broker.")):
        incident = only(audit_pair(log(A, *MASTER), log(B, *STANDS_BY), more=[killed(A, "0:20", "1:09", kind)]))
        assert (incident.kind, incident.host, incident.began) == ("hung_broker", A, at("0:20"))
        assert incident.cause.endswith(outcome)


def test_hang_that_ended_hours_before_does_not_explain_a_crash() -> None:
    healthy = SystemdJournalRecord(A, 2, at("0:40"), "WATCHDOG-HEALTHY")
    hung = killed(A, "0:10", "0:30", "WATCHDOG-HUNG")
    logs = log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER)
    incidents = audit_pair(*logs, more=[hung, healthy])
    assert "orders-mq01-a stopped logging" in takeover_of(incidents).cause
    assert "It answered again later." in only([one for one in incidents if one.kind == "hung_broker"]).cause


@pytest.mark.parametrize(
    ("kind", "fields", "cause"),
    [
        (
            "UNIT-OUT-OF-MEMORY",
            {},
            "the kernel killed the broker of orders-mq01-a at 12:01:09 UTC, because memory was exhausted",
        ),
        ("UNIT-EXITED", {"status": "code=killed, status=9/KILL"}, "systemd recorded code=killed, status=9/KILL at"),
    ],
)
def test_record_of_systemd_explains_the_end_of_a_broker(kind: str, fields: dict[str, str], cause: str) -> None:
    record = SystemdJournalRecord(A, 1, at("1:09"), kind, fields)
    incident = only(audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER), more=[record]))
    assert (incident.began_from, incident.seconds, incident.downtime_max) == ("systemd", 3.0, 70.0)
    assert cause in incident.cause


def test_kill_by_guard_after_the_takeover_explains_the_end_without_a_duration() -> None:
    record = SystemdJournalRecord(A, 1, at("1:30"), "GUARD-KILLED", {"reason": "the other node took over the store"})
    incident = only(audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER), more=[record]))
    assert (incident.began_from, incident.seconds, incident.downtime_max) == ("unknown", None, 70.0)
    reason = (
        "the guard of orders-mq01-a, which protects the store, killed its broker at 12:01:30 UTC, because the other "
        "node took over the store;"
    )
    assert incident.cause.startswith(reason)
    assert "contradict" not in incident.cause


def test_failed_start_after_the_takeover_does_not_explain_the_end_before() -> None:
    record = SystemdJournalRecord(A, 1, at("1:30"), "UNIT-EXITED", {"status": "code=exited, status=1/FAILURE"})
    incident = only(audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER), more=[record]))
    assert (incident.began_from, incident.seconds) == ("unknown", None)
    assert "orders-mq01-a stopped logging" in incident.cause


def test_three_orderly_stops_in_ten_minutes_are_no_flapping() -> None:
    stops = ("chosen", "wait", "opened", "starting", "started", "stopping", "stopped")
    a = [
        *MASTER,
        "2:00 stopping",
        "2:01 stopped",
        *(
            f"{when} {what}"
            for when, what in zip(("3:00", "3:01", "4:02", "4:03", "4:04", "6:00", "6:01"), stops, strict=True)
        ),
    ]
    b = [*STANDS_BY, "2:02 opened", "2:03 starting", "2:04 started", "4:00 stopping", "4:01 stopped"]
    b += ["5:00 chosen", "5:01 wait", "6:02 opened", "6:03 starting", "6:04 started"]
    assert kinds(audit_pair(log(A, *a), log(B, *b))) == ["takeover", "takeover", "takeover"]


def test_a_take_over_before_or_after_the_planned_work_is_not_planned() -> None:
    for window in (("0:10", "1:05"), ("1:20", "2:00")):
        found = audit_pair(log(A, *MASTER), log(B, *STANDS_BY, *TAKES_OVER), more=[operation(B, *window)])
        assert [(one.kind, one.planned) for one in found] == [("takeover", False)]


def test_a_take_over_that_fails_is_never_planned() -> None:
    dies = log(B, *STANDS_BY, "1:10 opened", "1:11 start failed")
    incidents = audit_pair(log(A, *MASTER), dies, more=[operation(B, "1:00", "1:30")])
    assert ("failed_takeover", False) in [(one.kind, one.planned) for one in incidents]


def test_two_take_overs_are_no_flapping() -> None:
    assert kinds(rounds((3, 4), 0.0)) == ["takeover", "takeover"]


def test_five_close_take_overs_are_one_flapping() -> None:
    incidents = [one for one in rounds((3, 5, 7, 9, 11), 0.0) if one.kind == "flapping"]

    assert only(incidents).cause.startswith("5 takeovers")


@pytest.mark.parametrize("clock", [-299.0, 299.0])
def test_clocks_change_neither_host_nor_kind_of_an_incident(clock: float) -> None:
    def told(found: list[Incident]) -> list[tuple[str, str, str]]:
        return sorted((one.kind, one.host, one.certainty) for one in found)

    assert told(rounds((3, 7, 40, 44, 90), clock)) == told(rounds((3, 7, 40, 44, 90), 0.0))


def test_a_witness_whose_clock_is_right_tells_nothing_of_what_it_did_not_see() -> None:
    """Its one loss is of the second takeover, and close to the first."""
    a, b = [*MASTER, "3:30 chosen", "3:31 wait"], [*STANDS_BY, "3:02 opened", "3:03 starting", "3:04 started"]
    b += ["5:30 chosen", "5:31 wait"]
    a += ["5:02 opened", "5:03 starting", "5:04 started"]

    first, second = sorted(
        audit_pair(log(A, *a), log(B, *b), more=agent("5:01", "5:05", broker="10.0.0.1", to="10.0.0.2")),
        key=lambda one: str(one.ended),
    )

    assert (first.host, first.began_from, first.seconds) == (B, "unknown", None)
    assert (second.host, second.began_from, second.seconds) == (A, "agent", 3.0)


def test_first_lines_after_restart_do_not_count_for_killed_process() -> None:
    """They come before the line that names its store."""
    again = log(A, *MASTER, "20:02 chosen", "20:03 wait")
    new = log(B, *STANDS_BY, *TAKES_OVER)

    incidents = audit_pair(again, new, more=[busy(A, "19:58", "19:59"), busy(B, "30:00", "30:01")])

    assert kinds(incidents) == ["takeover"]


def test_a_start_that_fails_does_not_say_how_the_run_before_it_ended() -> None:
    again = log(
        A, *MASTER, "20:00 invalid", "40:00 refresh", "40:01 invalid", "60:00 refresh", "60:05 chosen", "60:06 wait"
    )

    incidents = audit_pair(again, log(B, *STANDS_BY, *TAKES_OVER), more=[busy(A, "39:58", "39:59")])

    found = only([incident for incident in incidents if incident.kind != "failing_start"])
    assert (found.kind, found.certainty, found.began_from) == ("takeover", "proved", "unknown")
    assert "without a log record" in found.cause


def test_record_in_shared_store_is_one_incident_of_its_pair() -> None:
    risk = DurableMessageLossRisk(
        NOON, "/srv/activemq/orders-mq01/at-risk/1-2.json", "reporting:daily of topic://prices (at most 2 messages)"
    )
    seen_by_peer = replace(risk, path="/mnt/store/at-risk/1-2.json")
    nodes = [
        PairNode(A, "orders", PAIR, risks=(risk,)),
        PairNode(B, "orders", PAIR, risks=(seen_by_peer, replace(risk, time=NOON + timedelta(days=1)))),
    ]
    incidents = incidents_of_pair(pair_findings_of_logs(nodes, ()), ())
    assert [(incident.kind, incident.host, incident.began) for incident in incidents] == [
        ("subscriptions_at_risk", A, NOON),
        ("subscriptions_at_risk", B, NOON + timedelta(days=1)),
    ]
    assert f"A broker of {PAIR} started without a usable index" in incidents[0].cause
    assert (
        "reporting:daily of topic://prices (at most 2 messages). The file /srv/activemq/orders-mq01/at-risk/1-2.json"
        in incidents[0].cause
    )
    assert "Then remove the file that this incident names" in incidents[0].remedy


WAITS = ("0 chosen", "1 wait")


def test_pair_whose_nodes_both_wait_is_an_outage() -> None:
    restarted = (*MASTER, "30:00 refresh", "30:01 chosen", "30:02 wait")

    incident = only(audit_pair(log(A, *restarted), log(B, *WAITS), more=[busy(A, "29:00", "29:30")]))

    assert (incident.kind, incident.began, incident.ended) == ("outage", NOON + timedelta(minutes=30, seconds=2), None)
    assert "L001" in incident.rules


def test_standby_that_starts_long_after_the_stop_of_its_peer_and_waits_is_an_outage() -> None:
    stopped = (*MASTER, "10:00 stopping", "10:01 stopped")

    assert kinds(audit_pair(log(A, *stopped), log(B, "20:00 chosen", "20:01 wait"))) == ["outage"]


def test_standby_that_waited_when_its_peer_was_stopped_is_no_outage() -> None:
    assert audit_pair(log(A, *MASTER, "10:00 stopping", "10:01 stopped"), log(B, *WAITS)) == []


@pytest.mark.parametrize(
    ("states", "collected", "expected"),
    [
        ({A: "stopped", B: "standby"}, "40:00", ["outage"]),
        ({A: "active", B: "standby"}, "40:00", []),
        ({A: "unhealthy", B: "standby"}, "40:00", []),
        ({B: "standby"}, "40:00", []),
        ({}, "40:00", []),
        ({A: "stopped", B: "standby"}, "10:30", []),  # the lock of a broker that just died is not free yet
        ({A: "stopped", B: "standby"}, "", []),
    ],
)
def test_standby_that_still_waits_for_a_peer_that_died_is_an_outage(
    states: dict[str, str], collected: str, expected: list[str]
) -> None:
    """A standby of 5.12 or later logs nothing while it waits, and a killed broker nothing at its end."""
    logs = (log(A, *MASTER), log(B, *WAITS))
    incidents = audit_pair(*logs, more=[busy(A, "5:00", "10:00")], states=states, collected=collected)

    assert kinds(incidents) == expected
    if incidents:
        (incident,) = incidents
        assert incident.began == NOON + timedelta(minutes=10)
        assert "did not run when the logs were collected, although its log shows no stop" in incident.cause


def test_standby_whose_peer_has_no_log_is_no_outage() -> None:
    assert audit_pair(log(B, *WAITS), lacking=A) == []


def test_pair_with_a_lease_that_neither_gets_is_an_outage() -> None:
    tries = ("0 jdbc", "1 lease try")

    assert kinds(audit_pair(log(A, *tries), log(B, *tries))) == ["outage"]
    assert audit_pair(log(A, *tries), log(B, *tries, "1.2 lease got", "2 starting", "3 started")) == []


def test_bridge_that_was_lost_and_stays_away_is_a_link_that_is_down() -> None:
    bridge = ("3 dial", "3 connector", "4 bridge up", "60:00 bridge lost")

    incident = only(audit_pair(log(A, *MASTER, *bridge), more=[busy(A, "70:00", "70:01")]))

    assert (incident.kind, incident.began) == ("link_down", NOON + timedelta(minutes=60))
    assert "The link to-orders of orders-mq01-a to orders-mq01-a has been down" in incident.cause
    stopped = log(A, *MASTER, *bridge, "60:20 stopping", "60:21 stopped")
    assert audit_pair(stopped, more=[busy(A, "70:00", "70:01")]) == []
    assert audit_pair(log(A, *MASTER, *bridge), more=[busy(A, "60:50", "60:59")]) == []
