"""What the playbook migrate does next, from what was found: nothing is ended before it is proved empty."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from activemq_fleet.deployment import LinkFacts
from activemq_fleet.errors import InputError
from activemq_fleet.operations.migrate import (
    LINK_PATIENCE,
    STALLED,
    MigrationBrokerEvidence,
    MigrationStep,
    StoreBacklog,
    next_migration_step,
    own_pair_by_receiving_host,
)
from tests.support.facts_of_brokers import facts_of_broker

LINK = LinkFacts("new-mq01-to-old-mq01", "old-mq01", duplex=True)
NOTHING = StoreBacklog(
    store="/var/lib/activemq/activemq/data/kahadb",
    queues={},
    subscriptions=[],
    prepared=0,
    clients=[
        ("ID_old-mq01-b_2", "192.0.2.2:4000", "replication"),
        ("new-mq01-to-old-mq01_x_inbound_y", "n", "openwire"),
    ],
    bridges=["new-mq01"],
    certain=True,
    messages=0,
)
MASTER = MigrationBrokerEvidence(
    host="old-mq01-a",
    broker_name="old-mq01-a",
    pair="old-mq01",
    role="master",
    ha="pure",
    state="active",
    held=NOTHING,
    counts=(0, 0),
)
SLAVE = replace(
    MASTER, host="old-mq01-b", broker_name="old-mq01-b", role="slave", state="standby", held=None, counts=()
)
NEW = MigrationBrokerEvidence(
    host="new-mq01-a",
    broker_name="new-mq01",
    pair="new-mq01",
    role="master",
    ha="shared-file",
    state="active",
    links=(LINK,),
)
PEER = replace(NEW, host="new-mq01-b", role="slave", state="standby")


def holding(**values: Any) -> MigrationBrokerEvidence:
    """The old master, with something in it."""
    held = replace(NOTHING, **values)
    number = sum(held.queues.values()) + sum(one[3] for one in held.subscriptions)
    return replace(MASTER, held=replace(held, messages=number), counts=(number,))


def plan(*looks: MigrationBrokerEvidence, **options: Any) -> MigrationStep:
    return next_migration_step(looks, ["old-mq01"], **options)


def test_full_queues_are_wanted_on_the_active_new_node() -> None:
    step = plan(holding(queues={"orders": 5, "a": 1}), SLAVE, NEW, PEER)

    assert (step.act, step.phase) == ("want", "draining")
    assert step.hosts == ("new-mq01-a",)
    assert step.queues == ("a", "orders")


def test_it_is_drained_only_after_two_counts_of_nothing() -> None:
    once = plan(replace(MASTER, counts=(3, 0)), SLAVE, NEW, PEER)
    twice = plan(MASTER, SLAVE, NEW, PEER)

    assert (once.act, once.phase) == ("wait", "draining")
    assert (twice.act, twice.phase) == ("done", "drained")


def test_nothing_is_ended_unless_it_is_said() -> None:
    assert plan(MASTER, SLAVE, NEW, PEER).act == "done"


def test_the_slave_is_ended_before_its_master() -> None:
    first = plan(MASTER, SLAVE, NEW, PEER, retire=True)
    then = plan(MASTER, replace(SLAVE, state="stopped"), NEW, PEER, retire=True)

    assert (first.act, first.hosts) == ("stop", ("old-mq01-b",))
    assert (then.act, then.hosts) == ("stop", ("old-mq01-a",))


def test_a_second_count_comes_before_anything_is_ended() -> None:
    assert plan(replace(MASTER, counts=(0,)), SLAVE, NEW, PEER, retire=True).act == "wait"


def test_stopped_brokers_with_empty_stores_are_retired() -> None:
    ended = replace(MASTER, state="stopped", held=replace(NOTHING, clients=[], bridges=[]), counts=(0,))

    step = plan(ended, replace(SLAVE, state="stopped"), NEW, PEER)

    assert (step.act, step.phase) == ("done", "retired")
    assert "/var/lib/activemq/activemq/data/kahadb" in step.say


def test_a_link_that_is_not_up_yet_is_waited_for_and_then_named() -> None:
    alone = replace(MASTER, held=replace(NOTHING, bridges=[]))

    assert plan(alone, SLAVE, NEW, PEER).phase == "prepared"
    with pytest.raises(InputError, match="new-mq01-to-old-mq01 of new-mq01-a to old-mq01-a"):
        plan(alone, SLAVE, NEW, PEER, waited=LINK_PATIENCE)


def test_a_clients_connection_stands_in_the_way_of_the_end_only() -> None:
    client = ("desk", "192.0.2.9:4000", "openwire")
    busy = replace(MASTER, held=replace(NOTHING, clients=[*NOTHING.clients, client]))

    assert "desk from 192.0.2.9:4000" in plan(busy, SLAVE, NEW, PEER).notes[0]
    with pytest.raises(InputError, match=r"still connected: desk from 192\.0\.2\.9:4000 to old-mq01-a"):
        plan(busy, SLAVE, NEW, PEER, retire=True)


def test_what_the_link_itself_is_owed_is_waited_for() -> None:
    bridged = holding(subscriptions=[("prices", "new-mq01-to-old-mq01_new-mq01_inbound_old", "s", 4)])

    assert plan(bridged, SLAVE, NEW, PEER).act == "wait"
    with pytest.raises(
        InputError, match=r"old-mq01-a: .* in 4 consecutive counts\. The old broker still holds 4 messages for"
    ):
        plan(replace(bridged, counts=(4,) * STALLED), SLAVE, NEW, PEER)


REFUSED = {
    "subscription": (
        holding(subscriptions=[("prices", "desk", "all", 7)]),
        SLAVE,
        NEW,
        "all of client desk on prices: 7",
    ),
    "transaction": (holding(prepared=1), SLAVE, NEW, "1 prepared XA transaction, which no link can transfer"),
    "stuck": (
        replace(holding(queues={"q": 2}), counts=(9,) + (2,) * STALLED),
        SLAVE,
        NEW,
        r"number did not decrease in 4 consecutive counts\. The queues still hold: q \(2\)\.",
    ),
    "doubt": (replace(MASTER, held=replace(NOTHING, certain=False)), SLAVE, NEW, "not list all durable subscriptions"),
    "promoted": (
        replace(MASTER, state="stopped"),
        replace(SLAVE, state="active", how="it answers"),
        NEW,
        "old-mq01-b: the preferred slave serves clients .* resync",
    ),
    "two masters": (MASTER, replace(SLAVE, state="active"), NEW, "the preferred slave serves clients"),
    "no master": (
        replace(MASTER, state="hung", how="silent"),
        SLAVE,
        NEW,
        r"old-mq01-a: the preferred master is hung \(silent\)",
    ),
    "one way": (MASTER, SLAVE, replace(NEW, links=(replace(LINK, duplex=False),)), "is not duplex"),
    "no link": (MASTER, SLAVE, replace(NEW, links=()), "no new pair has a link to the old pair old-mq01"),
    "asleep": (MASTER, SLAVE, replace(NEW, state="standby"), "new-mq01 has no active node"),
    "not pure": (replace(MASTER, ha="shared-file"), SLAVE, NEW, "old-mq01-a: activemq_ha is shared-file, but"),
    "left behind": (
        replace(holding(queues={"late": 3}), state="stopped"),
        replace(SLAVE, state="stopped"),
        NEW,
        "still holds messages or transactions .queue late: 3.*resync for pair old-mq01",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("retire", [False, True])
def test_what_is_in_the_way_is_refused_and_named(case: str, retire: bool) -> None:
    *looks, said = REFUSED[case]

    with pytest.raises(InputError, match=str(said)):
        plan(*[look for look in looks if isinstance(look, MigrationBrokerEvidence)], retire=retire)


def test_a_pair_that_was_ended_does_not_hold_up_the_others() -> None:
    other = replace(LINK, target="old-mq02")
    ended = replace(MASTER, host="old-mq02-a", pair="old-mq02", state="stopped", counts=(0, 0))
    gone = replace(SLAVE, host="old-mq02-b", pair="old-mq02", state="stopped")

    step = next_migration_step(
        [MASTER, SLAVE, ended, gone, replace(NEW, links=(LINK, other)), PEER], ["old-mq01", "old-mq02"]
    )

    assert step.phase == "drained"


def test_only_new_pairs_with_a_link_there_drain() -> None:
    links = (LinkFacts("l", "old-mq01", True),)
    brokers = {
        "n": facts_of_broker("n", pair="new-mq01", ha="shared-file", links=links),
        "o": facts_of_broker("o", pair="old-mq02", ha="pure", links=links),
        "x": facts_of_broker("x", pair="else-mq01", ha="none"),
    }

    assert own_pair_by_receiving_host(brokers, ["old-mq01"]) == {"n": "new-mq01"}
