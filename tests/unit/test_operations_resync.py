"""The steps of a resync of a pure pair, in order, derived from the evidence of both nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.node.state.evidence import BrokerEvidence
from activemq_fleet.operations.resync import PurePairNode, ResyncStep, next_resync_step
from activemq_fleet.operations.resync_source_choice import PurePairNodeStore, ResyncRefusedError
from tests.unit.pure_pairs import MASTER, RUN_OF_ACTIVE_SLAVE, SLAVE, broker_run, master_store, pair_node, slave_store

EQUAL = (master_store("| 1 2"), slave_store("| 1 2"))
NEWER_SLAVE = (master_store("| 1 2"), slave_store("| 1 2 3", RUN_OF_ACTIVE_SLAVE))
NEWER_MASTER = (master_store("| 1 2 3"), slave_store("| 1 2"))


def resync_step(a: PurePairNode, b: PurePairNode, **options: object) -> ResyncStep:
    return next_resync_step({"x-mq01": (a, b)}, **options)  # type: ignore[arg-type]


def act_and_hosts(a: PurePairNode, b: PurePairNode, **options: object) -> tuple[str, tuple[str, ...]]:
    next_step = resync_step(a, b, **options)
    return next_step.act, next_step.hosts


def test_attached_pair_requires_no_step_of_resync() -> None:
    next_step = resync_step(pair_node(EQUAL[0], "active"), pair_node(EQUAL[1], "standby"))
    assert next_step.act == "done"
    assert next_step.say == "pair x-mq01 requires no change: x-mq01-a has started, and x-mq01-b is attached"


def test_attached_pair_with_message_in_transit_requires_no_step_of_resync() -> None:
    assert act_and_hosts(pair_node(NEWER_MASTER[0], "active"), pair_node(NEWER_MASTER[1], "standby")) == ("done", ())


def test_resync_stops_attached_slave_with_different_store() -> None:
    next_step = resync_step(pair_node(master_store("| 1 2 3"), "active"), pair_node(slave_store("| 1 3"), "standby"))
    assert (next_step.act, next_step.hosts) == ("stop", (SLAVE,))
    assert "never received 1 message that" in next_step.say


def test_resync_with_pending_restart_stops_slave_first() -> None:
    attached_pair = pair_node(EQUAL[0], "active", restart_required=True), pair_node(EQUAL[1], "standby")
    assert act_and_hosts(*attached_pair) == ("stop", (SLAVE,))


def test_restart_older_restarts_only_brokers_started_before_run() -> None:
    attached_pair = pair_node(EQUAL[0], "active", age=5.0), pair_node(EQUAL[1], "standby", age=50.0)
    assert act_and_hosts(*attached_pair, restart_older=20.0) == ("stop", (SLAVE,))
    assert act_and_hosts(*attached_pair, restart_older=60.0) == ("done", ())


def test_resync_stops_broker_with_older_store_first() -> None:
    assert act_and_hosts(pair_node(NEWER_SLAVE[0], "starting"), pair_node(NEWER_SLAVE[1], "active")) == (
        "stop",
        (MASTER,),
    )
    assert act_and_hosts(pair_node(NEWER_MASTER[0], "active"), pair_node(NEWER_MASTER[1], "starting")) == (
        "stop",
        (SLAVE,),
    )


def test_resync_stops_slave_before_hung_master() -> None:
    """A slave that loses its master begins to serve clients within 0.1 s."""
    nodes = pair_node(EQUAL[0], "hung"), pair_node(EQUAL[1], "standby")
    assert act_and_hosts(*nodes) == ("stop", (SLAVE,))


def test_resync_stops_activating_unit_of_stopped_broker() -> None:
    slave_with_starting_unit = pair_node(NEWER_MASTER[1], "stopped", unit="activating")
    assert act_and_hosts(pair_node(NEWER_MASTER[0], "stopped", unit="inactive"), slave_with_starting_unit) == (
        "stop",
        (SLAVE,),
    )


def test_resync_copies_newer_store_after_both_brokers_stopped() -> None:
    assert act_and_hosts(pair_node(NEWER_SLAVE[0], "stopped"), pair_node(NEWER_SLAVE[1], "stopped")) == (
        "copy",
        (SLAVE, MASTER),
    )
    assert act_and_hosts(pair_node(NEWER_MASTER[0], "stopped"), pair_node(NEWER_MASTER[1], "stopped")) == (
        "copy",
        (MASTER, SLAVE),
    )


def test_resync_does_not_copy_equal_stores_and_starts_master() -> None:
    assert act_and_hosts(pair_node(EQUAL[0], "stopped"), pair_node(EQUAL[1], "stopped")) == ("start", (MASTER,))


def test_lock_of_another_process_ends_resync() -> None:
    with pytest.raises(
        ResyncRefusedError, match=r"x-mq01-b: the broker is stopped, but another process holds the lock"
    ):
        resync_step(pair_node(EQUAL[0], "stopped"), pair_node(EQUAL[1], "stopped", locked=True))


def test_resync_finishes_unfinished_copy_before_it_compares_stores() -> None:
    slave_with_unfinished_copy = pair_node(slave_store(""), "stopped", unfinished=True)
    assert act_and_hosts(pair_node(EQUAL[0], "stopped"), slave_with_unfinished_copy) == ("finish", (SLAVE,))


def test_resync_starts_slave_after_master_listens() -> None:
    waiting_run = broker_run("11:00:00")
    restarted_master = master_store("| 1 2 |", broker_run("10:00:00", started=True, attached=1), waiting_run)
    assert act_and_hosts(pair_node(restarted_master, "starting"), pair_node(EQUAL[1], "stopped"))[0] == "wait"
    assert act_and_hosts(pair_node(restarted_master, "starting", listening=True), pair_node(EQUAL[1], "stopped")) == (
        "start",
        (SLAVE,),
    )


def test_resync_stops_master_with_different_store_before_slave_starts() -> None:
    assert act_and_hosts(
        pair_node(NEWER_MASTER[0], "starting", listening=True), pair_node(NEWER_MASTER[1], "stopped")
    ) == (
        "stop",
        (MASTER,),
    )


def test_resync_stops_active_master_before_slave_starts() -> None:
    assert act_and_hosts(pair_node(EQUAL[0], "active", listening=True), pair_node(EQUAL[1], "stopped")) == (
        "stop",
        (MASTER,),
    )


def test_resync_waits_for_starting_slave() -> None:
    for state, unit in (("starting", "active"), ("stopped", "activating")):
        assert (
            act_and_hosts(pair_node(EQUAL[0], "starting", listening=True), pair_node(EQUAL[1], state, unit=unit))[0]
            == "wait"
        )


def test_resync_waits_for_starting_master_of_attached_slave() -> None:
    assert act_and_hosts(pair_node(EQUAL[0], "starting"), pair_node(EQUAL[1], "standby"))[0] == "wait"


def test_waits_of_resync_grow_with_seconds_waited() -> None:
    starting_pair = pair_node(EQUAL[0], "starting"), pair_node(EQUAL[1], "standby")
    assert [resync_step(*starting_pair, waited=waited).seconds for waited in (0.0, 12.0, 290.0)] == [2, 4, 10]


def test_resync_stops_waiting_after_timeout() -> None:
    with pytest.raises(ResyncRefusedError, match=r"x-mq01: the resync waited 301 s and stopped \("):
        resync_step(pair_node(EQUAL[0], "starting"), pair_node(EQUAL[1], "standby"), waited=301.0)


def test_resync_refuses_pair_of_two_active_brokers() -> None:
    with pytest.raises(ResyncRefusedError, match=r"both brokers serve clients.* -e activemq_target=x-mq01 -e ac"):
        resync_step(pair_node(NEWER_SLAVE[0], "active"), pair_node(NEWER_SLAVE[1], "active"))


def test_resync_reports_obstacle_to_copy_before_any_broker_is_stopped() -> None:
    with pytest.raises(ResyncRefusedError, match=r"x-mq01-b: nothing was changed, because .*: the disk is full"):
        resync_step(
            pair_node(NEWER_MASTER[0], "active"), pair_node(NEWER_MASTER[1], "stopped", obstacle="the disk is full")
        )


def test_resync_from_chosen_node_applies_only_to_node_of_single_pair() -> None:
    diverged_pair = (
        pair_node(master_store("| 1 2 3"), "stopped"),
        pair_node(slave_store("| 1 2 4", RUN_OF_ACTIVE_SLAVE), "stopped"),
    )
    assert act_and_hosts(*diverged_pair, chosen=SLAVE) == ("copy", (SLAVE, MASTER))
    assert act_and_hosts(*diverged_pair, chosen="x-mq01-a") == ("copy", (MASTER, SLAVE))
    with pytest.raises(InputError, match="is not a node of the selected pair"):
        resync_step(*diverged_pair, chosen="y-mq01-a")
    with pytest.raises(InputError, match="applies to one pair"):
        next_resync_step({"x-mq01": diverged_pair, "x-mq02": diverged_pair}, chosen=SLAVE)


def test_resync_from_first_label_of_both_nodes_is_refused() -> None:
    master, slave = (
        pair_node(replace(store, host=f"orders.{domain}"), "stopped")
        for store, domain in zip(NEWER_SLAVE, ("dc1.example", "dc2.example"), strict=True)
    )
    with pytest.raises(
        InputError, match=r"^activemq_resync_from is orders, but 2 .* one of orders\.dc1\.example, orders\.dc2\.example"
    ):
        resync_step(master, slave, chosen="orders")
    assert act_and_hosts(master, slave, chosen="orders.dc2.example") == (
        "copy",
        ("orders.dc2.example", "orders.dc1.example"),
    )


def test_pair_that_requires_steps_is_resynced_after_attached_pair() -> None:
    attached_pair = pair_node(EQUAL[0], "active"), pair_node(EQUAL[1], "standby")
    pair_with_stopped_slave = pair_node(NEWER_MASTER[0], "active"), pair_node(NEWER_MASTER[1], "stopped")
    assert next_resync_step({"x-mq02": pair_with_stopped_slave, "x-mq01": attached_pair}).act == "stop"
    assert next_resync_step({"x-mq02": attached_pair, "x-mq01": attached_pair}).act == "done"


def test_resync_refuses_target_without_pure_pairs() -> None:
    with pytest.raises(InputError, match="only pure pairs require a resync"):
        next_resync_step({})


def test_resync_refuses_choice_of_empty_store_over_store_with_messages() -> None:
    stopped_pair = pair_node(master_store(""), "stopped"), pair_node(slave_store("| 1 2"), "stopped")
    with pytest.raises(
        ResyncRefusedError,
        match=r"x-mq01-a: .* the store of x-mq01-a is missing or empty.*activemq_resync_from=x-mq01-b",
    ):
        resync_step(*stopped_pair, chosen=MASTER)
    assert act_and_hosts(*stopped_pair, chosen=SLAVE) == ("copy", (SLAVE, MASTER))


@pytest.mark.parametrize(("answering", "listening"), [((), False), (("openwire",), False), (("replication",), True)])
def test_master_listens_when_its_replication_connector_answers(answering: tuple[str, ...], listening: bool) -> None:
    broker = BrokerEvidence(state="starting", log={"phase": "waiting"}, answering_connectors=answering)
    store_evidence = {"obstacle": "", "free": 1 << 40, "locked": False, "unfinished": False}
    node = PurePairNode.pure_pair_node_from_store(PurePairNodeStore(host=MASTER, role="master"), broker, store_evidence)
    assert node.listening is listening
