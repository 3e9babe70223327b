"""The steps that bring a pure pair back, in order, from what both nodes show."""

from __future__ import annotations

import pytest

from activemq_fleet.errors import InputError
from activemq_fleet.node.state.evidence import BrokerEvidence
from activemq_fleet.operations.recency import PurePairNodeStore, ResyncRefusedError
from activemq_fleet.operations.resync import PurePairNode, ResyncStep, next_resync_step
from tests.unit.pure_pairs import MASTER, SERVED, SLAVE, master, node, run, slave

EQUAL = (master("| 1 2"), slave("| 1 2"))
NEWER_SLAVE = (master("| 1 2"), slave("| 1 2 3", SERVED))
NEWER_MASTER = (master("| 1 2 3"), slave("| 1 2"))


def step(a: PurePairNode, b: PurePairNode, **more: object) -> ResyncStep:
    return next_resync_step({"x-mq01": (a, b)}, **more)  # type: ignore[arg-type]


def act(a: PurePairNode, b: PurePairNode, **more: object) -> tuple[str, tuple[str, ...]]:
    found = step(a, b, **more)
    return found.act, found.hosts


def test_an_attached_pair_is_left_alone() -> None:
    found = step(node(EQUAL[0], "active"), node(EQUAL[1], "standby"))
    assert found.act == "done"
    assert found.say == "pair x-mq01 requires no change: x-mq01-a has started, and x-mq01-b is attached"


def test_a_message_on_its_way_moves_no_attached_pair() -> None:
    assert act(node(NEWER_MASTER[0], "active"), node(NEWER_MASTER[1], "standby")) == ("done", ())


def test_an_attached_slave_that_is_no_copy_is_made_one() -> None:
    found = step(node(master("| 1 2 3"), "active"), node(slave("| 1 3"), "standby"))
    assert (found.act, found.hosts) == ("stop", (SLAVE,))
    assert "never received 1 message that" in found.say


def test_a_restart_that_is_owed_stops_the_slave_first() -> None:
    well = node(EQUAL[0], "active", restart_required=True), node(EQUAL[1], "standby")
    assert act(*well) == ("stop", (SLAVE,))


def test_brokers_that_are_older_than_the_run_are_restarted_when_that_is_asked_for() -> None:
    well = node(EQUAL[0], "active", age=5.0), node(EQUAL[1], "standby", age=50.0)
    assert act(*well, restart_older=20.0) == ("stop", (SLAVE,))
    assert act(*well, restart_older=60.0) == ("done", ())


def test_the_store_that_is_overwritten_is_stopped_first() -> None:
    assert act(node(NEWER_SLAVE[0], "starting"), node(NEWER_SLAVE[1], "active")) == ("stop", (MASTER,))
    assert act(node(NEWER_MASTER[0], "active"), node(NEWER_MASTER[1], "starting")) == ("stop", (SLAVE,))


def test_a_slave_never_sees_its_master_die() -> None:
    """It would begin to serve, within a tenth of a second."""
    both = node(EQUAL[0], "hung"), node(EQUAL[1], "standby")
    assert act(*both) == ("stop", (SLAVE,))


def test_a_unit_that_waits_to_start_its_broker_is_stopped_too() -> None:
    waiting = node(NEWER_MASTER[1], "stopped", unit="activating")
    assert act(node(NEWER_MASTER[0], "stopped", unit="inactive"), waiting) == ("stop", (SLAVE,))


def test_the_copy_goes_from_the_newer_store_once_both_have_stopped() -> None:
    assert act(node(NEWER_SLAVE[0], "stopped"), node(NEWER_SLAVE[1], "stopped")) == ("copy", (SLAVE, MASTER))
    assert act(node(NEWER_MASTER[0], "stopped"), node(NEWER_MASTER[1], "stopped")) == ("copy", (MASTER, SLAVE))


def test_equal_stores_are_not_copied() -> None:
    assert act(node(EQUAL[0], "stopped"), node(EQUAL[1], "stopped")) == ("start", (MASTER,))


def test_a_lock_that_somebody_holds_ends_it() -> None:
    with pytest.raises(
        ResyncRefusedError, match=r"x-mq01-b: the broker is stopped, but another process holds the lock"
    ):
        step(node(EQUAL[0], "stopped"), node(EQUAL[1], "stopped", locked=True))


def test_a_copy_that_was_half_in_place_is_put_there_before_anything_is_judged() -> None:
    half = node(slave(""), "stopped", unfinished=True)
    assert act(node(EQUAL[0], "stopped"), half) == ("finish", (SLAVE,))


def test_the_slave_is_started_once_its_master_listens() -> None:
    waits = run("11:00:00")
    a = master("| 1 2 |", run("10:00:00", started=True, attached=1), waits)
    assert act(node(a, "starting"), node(EQUAL[1], "stopped"))[0] == "wait"
    assert act(node(a, "starting", listening=True), node(EQUAL[1], "stopped")) == ("start", (SLAVE,))


def test_no_slave_is_started_beside_a_master_that_holds_something_else() -> None:
    assert act(node(NEWER_MASTER[0], "starting", listening=True), node(NEWER_MASTER[1], "stopped")) == (
        "stop",
        (MASTER,),
    )


def test_no_slave_is_started_beside_a_master_that_takes_messages() -> None:
    assert act(node(EQUAL[0], "active", listening=True), node(EQUAL[1], "stopped")) == ("stop", (MASTER,))


def test_a_slave_on_its_way_is_waited_for() -> None:
    for state, unit in (("starting", "active"), ("stopped", "activating")):
        assert act(node(EQUAL[0], "starting", listening=True), node(EQUAL[1], state, unit=unit))[0] == "wait"


def test_a_master_that_has_yet_to_say_that_it_started_is_waited_for() -> None:
    assert act(node(EQUAL[0], "starting"), node(EQUAL[1], "standby"))[0] == "wait"


def test_waiting_has_an_end() -> None:
    with pytest.raises(ResyncRefusedError, match=r"x-mq01: the resync waited 301 s and stopped \("):
        step(node(EQUAL[0], "starting"), node(EQUAL[1], "standby"), waited=301.0)


def test_two_that_both_serve_are_left_to_the_operator() -> None:
    with pytest.raises(ResyncRefusedError, match="both brokers serve clients"):
        step(node(NEWER_SLAVE[0], "active"), node(NEWER_SLAVE[1], "active"))


def test_a_store_that_cannot_be_replaced_is_told_before_anything_is_stopped() -> None:
    with pytest.raises(ResyncRefusedError, match=r"x-mq01-b: nothing was changed, because .*: the disk is full"):
        step(node(NEWER_MASTER[0], "active"), node(NEWER_MASTER[1], "stopped", obstacle="the disk is full"))


def test_the_operator_decides_for_one_pair_and_one_of_its_nodes() -> None:
    split = node(master("| 1 2 3"), "stopped"), node(slave("| 1 2 4", SERVED), "stopped")
    assert act(*split, chosen=SLAVE) == ("copy", (SLAVE, MASTER))
    assert act(*split, chosen="x-mq01-a") == ("copy", (MASTER, SLAVE))
    with pytest.raises(InputError, match="is not a node of the selected pair"):
        step(*split, chosen="y-mq01-a")
    with pytest.raises(InputError, match="applies to one pair"):
        next_resync_step({"x-mq01": split, "x-mq02": split}, chosen=SLAVE)


def test_pairs_come_one_after_the_other() -> None:
    well = node(EQUAL[0], "active"), node(EQUAL[1], "standby")
    ill = node(NEWER_MASTER[0], "active"), node(NEWER_MASTER[1], "stopped")
    assert next_resync_step({"x-mq02": ill, "x-mq01": well}).act == "stop"
    assert next_resync_step({"x-mq02": well, "x-mq01": well}).act == "done"


def test_a_target_without_pure_pairs_is_refused() -> None:
    with pytest.raises(InputError, match="only pure pairs require a resync"):
        next_resync_step({})


def test_an_empty_store_is_not_chosen_over_one_that_holds_messages() -> None:
    stopped = node(master(""), "stopped"), node(slave("| 1 2"), "stopped")
    with pytest.raises(
        ResyncRefusedError,
        match=r"x-mq01-a: .* the store of x-mq01-a is missing or empty.*activemq_resync_from=x-mq01-b",
    ):
        step(*stopped, chosen=MASTER)
    assert act(*stopped, chosen=SLAVE) == ("copy", (SLAVE, MASTER))


@pytest.mark.parametrize(("answering", "listening"), [((), False), (("openwire",), False), (("replication",), True)])
def test_master_listens_when_its_replication_connector_answers(answering: tuple[str, ...], listening: bool) -> None:
    broker = BrokerEvidence(state="starting", log={"phase": "waiting"}, answering_connectors=answering)
    contents = {"obstacle": "", "free": 1 << 40, "locked": False, "unfinished": False}
    node = PurePairNode.pure_pair_node_from_store(PurePairNodeStore(host=MASTER, role="master"), broker, contents)
    assert node.listening is listening
