"""Next steps of the playbook migrate: it stops no old broker before the evidence shows that its store is empty."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from activemq_fleet.deployment import FleetFacts, LinkFacts
from activemq_fleet.errors import InputError
from activemq_fleet.operations import OperationDecisionRequest, decide_operation
from activemq_fleet.operations.migrate import (
    LINK_PATIENCE,
    STALLED,
    BrokerBacklogToMigrate,
    MigrationBrokerEvidence,
    MigrationStep,
    next_migration_step,
    own_pair_by_receiving_host,
)
from activemq_fleet.operations.operation_decisions import RunProgress
from tests.support.facts_of_brokers import facts_of_broker

LINK = LinkFacts("new-mq01-to-old-mq01", "old-mq01", duplex=True)
NOTHING = BrokerBacklogToMigrate(
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


def master_with_backlog(**contents: Any) -> MigrationBrokerEvidence:
    """Return the old master with messages in its store."""
    backlog = replace(NOTHING, **contents)
    number = sum(backlog.queues.values()) + sum(subscription[3] for subscription in backlog.subscriptions)
    return replace(MASTER, held=replace(backlog, messages=number), counts=(number,))


def migration_step(*evidence: MigrationBrokerEvidence, **options: Any) -> MigrationStep:
    return next_migration_step(evidence, ["old-mq01"], **options)


def test_migrate_drains_queues_with_messages_on_active_new_node() -> None:
    step = migration_step(master_with_backlog(queues={"orders": 5, "a": 1}), SLAVE, NEW, PEER)

    assert (step.act, step.phase) == ("want", "draining")
    assert step.hosts == ("new-mq01-a",)
    assert step.queues == ("a", "orders")


def test_pair_is_drained_after_two_empty_counts() -> None:
    step_after_first_empty_count = migration_step(replace(MASTER, counts=(3, 0)), SLAVE, NEW, PEER)
    step_after_second_empty_count = migration_step(MASTER, SLAVE, NEW, PEER)

    assert (step_after_first_empty_count.act, step_after_first_empty_count.phase) == ("wait", "draining")
    assert (step_after_second_empty_count.act, step_after_second_empty_count.phase) == ("done", "drained")


def test_migrate_stops_no_broker_without_retire() -> None:
    assert migration_step(MASTER, SLAVE, NEW, PEER).act == "done"


def test_retire_stops_slave_before_master() -> None:
    first_step = migration_step(MASTER, SLAVE, NEW, PEER, retire=True)
    second_step = migration_step(MASTER, replace(SLAVE, state="stopped"), NEW, PEER, retire=True)

    assert (first_step.act, first_step.hosts) == ("stop", ("old-mq01-b",))
    assert (second_step.act, second_step.hosts) == ("stop", ("old-mq01-a",))


def test_retire_waits_for_second_count_before_first_stop() -> None:
    assert migration_step(replace(MASTER, counts=(0,)), SLAVE, NEW, PEER, retire=True).act == "wait"


def test_stopped_brokers_with_empty_stores_are_retired() -> None:
    stopped_master = replace(MASTER, state="stopped", held=replace(NOTHING, clients=[], bridges=[]), counts=(0,))

    step = migration_step(stopped_master, replace(SLAVE, state="stopped"), NEW, PEER)

    assert (step.act, step.phase) == ("done", "retired")
    assert "/var/lib/activemq/activemq/data/kahadb" in step.say


def test_migrate_reports_missing_bridge_after_timeout_and_names_link() -> None:
    master_without_bridge = replace(MASTER, held=replace(NOTHING, bridges=[]))

    assert migration_step(master_without_bridge, SLAVE, NEW, PEER).phase == "prepared"
    with pytest.raises(InputError, match="new-mq01-to-old-mq01 of new-mq01-a to old-mq01-a"):
        migration_step(master_without_bridge, SLAVE, NEW, PEER, waited=LINK_PATIENCE)


def test_client_connection_blocks_only_retire() -> None:
    client = ("desk", "192.0.2.9:4000", "openwire")
    master_with_client = replace(MASTER, held=replace(NOTHING, clients=[*NOTHING.clients, client]))

    assert "desk from 192.0.2.9:4000" in migration_step(master_with_client, SLAVE, NEW, PEER).notes[0]
    with pytest.raises(InputError, match=r"still connected: desk from 192\.0\.2\.9:4000 to old-mq01-a"):
        migration_step(master_with_client, SLAVE, NEW, PEER, retire=True)


def test_migrate_waits_for_backlog_of_link_until_it_stalls() -> None:
    master_with_backlog_of_link = master_with_backlog(
        subscriptions=[("prices", "new-mq01-to-old-mq01_new-mq01_inbound_old", "s", 4)]
    )

    assert migration_step(master_with_backlog_of_link, SLAVE, NEW, PEER).act == "wait"
    with pytest.raises(
        InputError, match=r"old-mq01-a: .* in 4 consecutive counts\. The old broker still holds 4 messages for"
    ):
        migration_step(replace(master_with_backlog_of_link, counts=(4,) * STALLED), SLAVE, NEW, PEER)


REFUSED = {
    "subscription": (
        master_with_backlog(subscriptions=[("prices", "desk", "all", 7)]),
        SLAVE,
        NEW,
        "all of client desk on prices: 7",
    ),
    "transaction": (
        master_with_backlog(prepared=1),
        SLAVE,
        NEW,
        "1 prepared XA transaction, which no link can transfer",
    ),
    "backlog that does not decrease": (
        replace(master_with_backlog(queues={"q": 2}), counts=(9,) + (2,) * STALLED),
        SLAVE,
        NEW,
        r"number did not decrease in 4 consecutive counts\. The queues still hold: q \(2\)\.",
    ),
    "incomplete list of subscriptions": (
        replace(MASTER, held=replace(NOTHING, certain=False)),
        SLAVE,
        NEW,
        "not list all durable subscriptions",
    ),
    "active slave": (
        replace(MASTER, state="stopped"),
        replace(SLAVE, state="active", how="it answers"),
        NEW,
        "old-mq01-b: the preferred slave serves clients .* resync",
    ),
    "two masters": (MASTER, replace(SLAVE, state="active"), NEW, "the preferred slave serves clients"),
    "hung master": (
        replace(MASTER, state="hung", how="silent"),
        SLAVE,
        NEW,
        r"old-mq01-a: the preferred master is hung \(silent\)",
    ),
    "link that is not duplex": (MASTER, SLAVE, replace(NEW, links=(replace(LINK, duplex=False),)), "is not duplex"),
    "no link": (MASTER, SLAVE, replace(NEW, links=()), "no new pair has a link to the old pair old-mq01"),
    "new pair without active node": (MASTER, SLAVE, replace(NEW, state="standby"), "new-mq01 has no active node"),
    "old pair that is not pure": (
        replace(MASTER, ha="shared-file"),
        SLAVE,
        NEW,
        "old-mq01-a: activemq_ha is shared-file, but",
    ),
    "messages in stopped pair": (
        replace(master_with_backlog(queues={"late": 3}), state="stopped"),
        replace(SLAVE, state="stopped"),
        NEW,
        "still holds messages or transactions .queue late: 3.*resync for pair old-mq01",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("retire", [False, True])
def test_migrate_refuses_obstacle_and_names_it(case: str, retire: bool) -> None:
    *evidence, message = REFUSED[case]

    with pytest.raises(InputError, match=str(message)):
        migration_step(*[broker for broker in evidence if isinstance(broker, MigrationBrokerEvidence)], retire=retire)


def test_retired_pair_does_not_block_other_pairs() -> None:
    second_link = replace(LINK, target="old-mq02")
    stopped_master = replace(MASTER, host="old-mq02-a", pair="old-mq02", state="stopped", counts=(0, 0))
    stopped_slave = replace(SLAVE, host="old-mq02-b", pair="old-mq02", state="stopped")

    step = next_migration_step(
        [MASTER, SLAVE, stopped_master, stopped_slave, replace(NEW, links=(LINK, second_link)), PEER],
        ["old-mq01", "old-mq02"],
    )

    assert step.phase == "drained"


def test_only_new_pairs_with_link_to_old_pair_drain_it() -> None:
    links = (LinkFacts("l", "old-mq01", True),)
    brokers = {
        "n": facts_of_broker("n", pair="new-mq01", ha="shared-file", links=links),
        "o": facts_of_broker("o", pair="old-mq02", ha="pure", links=links),
        "x": facts_of_broker("x", pair="else-mq01", ha="none"),
    }

    assert own_pair_by_receiving_host(brokers, ["old-mq01"]) == {"n": "new-mq01"}


def decide_with_bridges(bridges: list[str], progress: RunProgress) -> dict[str, Any]:
    """Return the decision of the playbook for an old master that holds five messages and has these bridges."""
    brokers = {
        "o": facts_of_broker("o", pair="old-mq01", ha="pure", broker_name="old"),
        "n": facts_of_broker("n", pair="new-mq01", ha="shared-file", broker_name="new-mq01", links=(LINK,)),
    }
    request = OperationDecisionRequest(
        fleet=FleetFacts(brokers=brokers),
        evidence={host: {"state": "active"} for host in brokers},
        target={"name": "old-mq01", "pairs": {"old-mq01": ["o"]}, "hosts": ["o", "n"]},
        progress=progress,
        options={
            "held": {"o": asdict(replace(NOTHING, queues={"orders": 5}, messages=5, clients=[], bridges=bridges))},
            "retire": False,
        },
    )
    return decide_operation("migrate", request)


@pytest.mark.parametrize(
    "acts",
    [
        pytest.param(["wait"] * (STALLED + 1) + ["want"] * (STALLED - 1), id="link-connects-late"),
        pytest.param(["want", "wait", "wait"] * (STALLED - 1), id="link-reconnects-repeatedly"),
    ],
)
def test_only_counts_while_link_is_connected_stall_migration(acts: list[str]) -> None:
    progress = RunProgress()
    for act in acts:
        decision = decide_with_bridges(["new-mq01"] if act == "want" else [], progress)
        progress = RunProgress.progress_from_dict(decision["progress"])
        assert decision["step"]["act"] == act
    with pytest.raises(InputError, match="did not decrease in 4 consecutive counts"):
        decide_with_bridges(["new-mq01"], progress)


def test_messages_that_leave_after_producers_added_others_are_drained() -> None:
    counts = (1000, *range(2900, 2900 - 500 * (STALLED - 1), -500))
    master = replace(master_with_backlog(queues={"orders": counts[-1]}), counts=counts)

    assert migration_step(master, SLAVE, NEW, PEER).act == "want"


def test_messages_that_arrive_at_empty_old_broker_are_drained() -> None:
    master = replace(master_with_backlog(queues={"orders": 5}), counts=(0,) * (STALLED - 1) + (5,))

    assert migration_step(master, SLAVE, NEW, PEER).act == "want"
