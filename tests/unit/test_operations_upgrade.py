"""Supported upgrades, their order, and refusals with their remedies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from activemq_fleet.deployment import StoreFacts
from activemq_fleet.node.state.broker_health import STORE_REQUIRES_GUARD
from activemq_fleet.operations import RefusalError
from activemq_fleet.operations.pair_preconditions import ObservedNode
from activemq_fleet.operations.release_changes import Back, release_change_effects
from activemq_fleet.operations.restart_and_switchover import RollingProgress
from activemq_fleet.operations.upgrade import (
    StoreBeforeAndAfterUpgrade,
    may_roll_back,
    next_upgrade_step,
    pair_health_step_before_upgrade,
    upgrade_effects_by_pair,
)
from activemq_fleet.releases import Release, known_release_lines
from activemq_fleet.releases._data import load_releases_and_advisories

SHARE = "/srv/activemq/orders-mq01"
A, B = "orders-mq01-a", "orders-mq01-b"


def kahadb_store(directory: str = SHARE, **more: Any) -> StoreFacts:
    return StoreFacts("kahaDB", directory, **more)


def release_change(
    installed: str, wanted: str, old_store: StoreFacts | None = None, new_store: StoreFacts | None = None
) -> Any:
    return release_change_effects(
        Release.of(installed), Release.of(wanted), old_store or kahadb_store(), new_store or kahadb_store()
    )


def observed_pair(
    active: str = "5.17.6", standby: str = "5.17.6", wanted: str = "5.18.3", **more: Any
) -> tuple[ObservedNode, ObservedNode]:
    """Return the active node a and the standby b, both healthy."""
    common: dict[str, Any] = {
        "pair": "orders-mq01",
        "ha": "shared-file",
        "wanted": wanted,
        "unit": {"ActiveState": "active", "LoadState": "loaded"},
        "store": SHARE,
        "store_marker": ("orders-mq01",),
        "how": "seen",
        **more,
    }
    return (
        ObservedNode(host=A, state="active", role="master", release=active, pid=10, **common),
        ObservedNode(host=B, state="standby", role="slave", release=standby, pid=20, **common),
    )


def upgrade_progress(nodes: Sequence[ObservedNode], **more: Any) -> RollingProgress:
    return RollingProgress(act="upgrade", done=(), **{"chosen": [node.host for node in nodes], **more})


def store_changes(nodes: Sequence[ObservedNode], **more: Any) -> dict[str, StoreBeforeAndAfterUpgrade]:
    return {
        node.host: StoreBeforeAndAfterUpgrade(**{"now": kahadb_store(), "then": kahadb_store(), **more})
        for node in nodes
    }


def upgrade_step(nodes: Sequence[ObservedNode], switched: Mapping[str, int] | None = None, **more: Any) -> Any:
    return next_upgrade_step(nodes, store_changes(nodes, **more), upgrade_progress(nodes), switched)


def readiness_of(
    nodes: Sequence[ObservedNode], stores: Mapping[str, StoreBeforeAndAfterUpgrade], run: RollingProgress
) -> None:
    upgrade_effects_by_pair(nodes, stores, run)
    pair_health_step_before_upgrade(nodes, run)


def refusal_of(nodes: Sequence[ObservedNode], **more: Any) -> str:
    chosen = more.pop("chosen", [node.host for node in nodes])
    with pytest.raises(RefusalError) as error:
        readiness_of(nodes, store_changes(nodes, **more), upgrade_progress(nodes, chosen=chosen))
    return str(error.value)


@pytest.mark.parametrize(
    ("installed", "wanted", "rollback"),
    [
        ("5.5.0", "5.5.1", "open"),
        ("5.5.1", "5.6.0", "closed"),
        ("5.6.0", "5.8.0", "open"),
        ("5.8.0", "5.10.2", "closed"),
        ("5.9.0", "5.11.4", "open"),
        ("5.11.4", "5.12.0", "closed"),
        ("5.12.3", "5.15.16", "open"),
        ("5.15.16", "5.16.7", "rebuilds"),
        ("5.15.16", "6.3.1", "rebuilds"),
        ("5.17.6", "5.18.3", "open"),
        ("5.18.3", "6.3.1", "open"),
    ],
)
def test_rollback_after_release_change_is_as_measured(installed: str, wanted: str, rollback: Back) -> None:
    change = release_change(installed, wanted)
    assert (change.refusal, change.back) == ("", rollback)


def test_each_newer_release_accepts_each_older_kahadb_store() -> None:
    releases = [load_releases_and_advisories().newest_release(line) for line in known_release_lines()]
    for index, installed in enumerate(releases):
        for wanted in releases[index:]:
            assert not release_change(installed, wanted).refusal


def test_downgrade_to_release_that_cannot_read_store_is_refused() -> None:
    refusal = release_change("6.3.1", "5.11.4").refusal
    assert "which 5.11.4 therefore cannot read" in refusal
    assert "move all contents of the store directory away, and restore the copy of the store from before the" in refusal


def test_downgrade_reports_that_index_is_rebuilt() -> None:
    change = release_change("6.3.1", "5.15.16")
    assert not change.refusal
    assert any("builds the index" in text for text in change.changes)


@pytest.mark.parametrize(
    ("installed", "wanted", "kind"),
    [
        ("5.8.0", "5.9.0", "amqPersistenceAdapter"),
        ("5.8.0", "5.11.4", "kahaPersistenceAdapter"),
        ("5.16.7", "5.17.6", "levelDB"),
        ("5.16.7", "5.18.3", "replicatedLevelDB"),
        ("5.15.16", "6.3.1", "journalPersistenceAdapterFactory"),
        ("5.16.7", "6.3.1", "journaledJDBC"),
    ],
)
def test_store_that_release_does_not_support_requires_new_pair(installed: str, wanted: str, kind: str) -> None:
    store = StoreFacts(kind)
    assert (
        f"stores its messages in {kind}, which {wanted} does not support"
        in release_change(installed, wanted, store, store).refusal
    )
    assert "Add a new pair" in release_change(installed, wanted, store, store).refusal


def test_upgrade_refuses_change_of_store_kind() -> None:
    refusal = release_change("5.15.16", "5.16.7", StoreFacts("levelDB"), kahadb_store()).refusal
    assert "stores its messages in levelDB, but with the settings of the inventory it would use kahaDB" in refusal


def test_default_store_of_mkahadb_uses_another_directory_from_5_11_on() -> None:
    multiple_stores = StoreFacts("mKahaDB", SHARE)
    assert (
        "stores messages in the directory 0 of its mKahaDB store, but 5.18.3 would read them from the directory #210"
        in release_change("5.8.0", "5.18.3", multiple_stores, multiple_stores).refusal
    )
    assert release_change("5.13.5", "6.3.1", multiple_stores, multiple_stores).refusal == ""


def test_upgrade_refuses_change_of_store_directory() -> None:
    refusal = release_change("5.17.6", "5.18.3", kahadb_store(), kahadb_store("/elsewhere")).refusal
    assert f"The playbook does not move the store. Set activemq_store_directory to {SHARE}." in refusal


def test_upgrade_refuses_change_of_database_and_of_stores_by_destination() -> None:
    jdbc, stores = StoreFacts("jdbcPersistenceAdapter", database="jdbc:x:a"), StoreFacts("mKahaDB", stores="queue x.>")
    for old_store, new_store in ((jdbc, replace(jdbc, database="jdbc:x:b")), (stores, replace(stores, stores="y"))):
        assert release_change("5.17.6", "5.18.3", old_store, old_store).refusal == ""
        assert "with the settings of the inventory" in release_change("5.17.6", "5.18.3", old_store, new_store).refusal


def test_database_store_requires_its_openwire_version_across_5_12() -> None:
    jdbc = StoreFacts("jdbcPersistenceAdapter")
    assert '{storeOpenWireVersion: "6"}' in release_change("5.11.4", "5.15.16", jdbc, jdbc).refusal
    store_with_version = replace(jdbc, openwire=6)
    assert (
        release_change("5.11.4", "5.15.16", jdbc, store_with_version).refusal,
        release_change("5.11.4", "5.15.16", jdbc, store_with_version).back,
    ) == (
        "",
        "open",
    )
    assert not release_change("5.15.16", "6.3.1", jdbc, jdbc).refusal
    # A database store that has an OpenWire version must keep it permanently.
    assert '"6"' in release_change("5.15.16", "6.3.1", store_with_version, jdbc).refusal


def test_upgrade_refuses_pure_pair() -> None:
    pure = kahadb_store("/var/lib/activemq/data", pure=True)
    assert "the playbook resync" in release_change("5.5.1", "5.7.0", pure, pure).refusal
    assert "Run the playbook migrate" in release_change("5.5.1", "5.18.3", pure, kahadb_store()).refusal


@pytest.mark.parametrize(
    ("installed", "wanted", "texts"),
    [
        ("5.16.7", "5.17.6", ["Java 11 or later", "log4j2.properties"]),
        ("5.19.0", "6.0.0", ["Java 17 or later", "jakarta.jms", "groups.properties", "bin/setenv"]),
        ("6.2.7", "6.3.1", ["jetty-spring.xml"]),
        ("5.7.0", "5.8.0", ["MBeans have new names", "waitForSlave"]),
        ("5.9.1", "5.10.0", ["MQTT topics that contain a dot"]),
        ("5.17.6", "5.18.3", ["decreaseNetworkConsumerPriority"]),
        ("5.15.16", "5.17.6", ["5.17.6 does not support levelDB"]),
    ],
)
def test_upgrade_reports_changes_of_release(installed: str, wanted: str, texts: list[str]) -> None:
    changes = "; ".join(release_change(installed, wanted).changes)
    for text in texts:
        assert text in changes


def test_upgrade_to_patch_release_reports_no_changes() -> None:
    assert release_change("5.18.3", "5.18.7").changes == ()


def test_standby_is_upgraded_first_then_switchover_then_other_node() -> None:
    nodes = observed_pair()
    first_step = upgrade_step(nodes)
    assert (first_step.act, first_step.hosts, first_step.peer) == ("upgrade", (B,), A)
    nodes = (nodes[0], replace(nodes[1], release="5.18.3"))
    second_step = upgrade_step(nodes)
    assert (second_step.act, second_step.hosts, second_step.peer) == ("switch", (A,), B)
    nodes = (replace(nodes[0], state="standby"), replace(nodes[1], state="active"))
    third = upgrade_step(nodes)
    assert (third.act, third.hosts, third.peer) == ("upgrade", (A,), B)
    nodes = (replace(nodes[0], release="5.18.3"), nodes[1])
    assert upgrade_step(nodes).act == "done"


def test_upgrade_of_one_of_two_single_brokers_counts_one_broker() -> None:
    chosen, other = observed_pair("5.18.3", "5.17.6", ha="none")
    nodes = (chosen, replace(other, state="active"))
    run = upgrade_progress(nodes, chosen=[A])

    before = pair_health_step_before_upgrade(nodes, run)
    after = next_upgrade_step(nodes, store_changes(nodes), run)

    assert before.say == "1 broker checked: nothing prevents the upgrade"
    assert after.say == f"1 broker checked: all run activemq_release; active hosts: {A}"


def test_active_node_is_upgraded_only_without_peer() -> None:
    step = upgrade_step(observed_pair()[:1])
    assert (step.act, step.hosts, step.peer) == ("upgrade", (A,), None)


def test_switchover_of_upgrade_reports_when_rollback_becomes_impossible() -> None:
    nodes = observed_pair("5.11.4", "5.18.3")
    assert "after this step no rollback is possible" in upgrade_step(nodes).say
    assert "rollback" not in upgrade_step(observed_pair("5.17.6", "5.18.3")).say


def test_lock_that_active_broker_reacquired_3_times_ends_upgrade() -> None:
    nodes = observed_pair("5.17.6", "5.18.3")
    assert upgrade_step(nodes, {A: 2}).act == "switch"
    with pytest.raises(RefusalError, match="3 times, but each time this broker acquired the lock again"):
        upgrade_step(nodes, {A: 3})


def test_upgrade_without_effect_ends_run() -> None:
    nodes = observed_pair()
    with pytest.raises(RefusalError, match=r"this run has upgraded the broker, but it still runs 5\.17\.6"):
        next_upgrade_step(nodes, store_changes(nodes), upgrade_progress(nodes, acted=[B]))


def test_upgrade_waits_for_starting_standby_and_refuses_stopped_standby() -> None:
    nodes = observed_pair("5.17.6", "5.18.3")
    starting_standby = replace(nodes[1], state="starting")
    assert upgrade_step((nodes[0], starting_standby)).act == "wait"
    stopped_standby = replace(nodes[1], state="stopped", pid=None, release=None)
    with pytest.raises(RefusalError, match=f"{B}: the broker is stopped"):
        upgrade_step((nodes[0], stopped_standby))


def test_upgrade_refuses_permanent_problem_before_first_step() -> None:
    nodes = observed_pair()
    refusal = refusal_of((nodes[0], replace(nodes[1], store_marker=None)))
    assert refusal.startswith("nothing was changed:")
    assert "has no file .activemq-fleet-pair" in refusal


def test_standby_may_be_downgraded_before_its_release_opened_store() -> None:
    # Node a serves clients with 5.11.4 and has opened the store. Node b is already upgraded.
    nodes = observed_pair("5.11.4", "6.3.1", wanted="5.11.4")
    step = upgrade_step(nodes)
    assert (step.act, step.hosts) == ("upgrade", (B,))


def test_downgrade_is_refused_after_newer_release_opened_store() -> None:
    nodes = observed_pair("6.3.1", "5.11.4", wanted="5.11.4")
    assert f"{A}: the broker runs 6.3.1 and has changed the store, which 5.11.4 therefore" in refusal_of(nodes)


def test_resumed_upgrade_reports_that_rollback_is_not_possible() -> None:
    nodes = observed_pair("6.3.1", "5.11.4", wanted="6.3.1")
    change = upgrade_effects_by_pair(nodes, store_changes(nodes), upgrade_progress(nodes))["orders-mq01"]
    assert (change.found, change.back) == ("5.11.4", "closed")
    assert change.way_back.startswith("rollback is not possible, because 6.3.1 has opened the store")
    assert "move all contents of the store directory away" in change.way_back


@pytest.mark.parametrize(
    ("active", "standby", "allowed"),
    [("5.11.4", "5.11.4", True), ("6.3.1", "5.11.4", False), ("6.3.1", "5.15.16", True), ("6.3.1", "5.17.6", True)],
)
def test_rollback_is_allowed_only_if_old_release_can_read_store(active: str, standby: str, allowed: bool) -> None:
    nodes = observed_pair(active, standby, wanted="6.3.1")
    assert may_roll_back(B, nodes, store_changes(nodes)) is allowed


@pytest.mark.parametrize(("active", "allowed"), [("5.10.2", True), ("5.11.4", False)])
@pytest.mark.parametrize("kind", ["levelDB", "org.example.OwnPersistenceAdapter", None])
def test_rollback_in_store_of_other_kind_is_allowed_while_peer_runs_old_release(
    kind: str | None, active: str, allowed: bool
) -> None:
    nodes, store = observed_pair(active, "5.10.2", wanted="5.11.4"), StoreFacts(kind=kind)
    stores = {host: StoreBeforeAndAfterUpgrade(now=store, then=store) for host in (A, B)}
    assert may_roll_back(B, nodes, stores) is allowed


def test_rollback_of_single_broker_requires_store_readable_by_old_release() -> None:
    assert not may_roll_back(A, observed_pair("5.11.4", wanted="6.3.1")[:1], store_changes(observed_pair()))
    assert may_roll_back(A, observed_pair("5.17.6", wanted="6.3.1")[:1], store_changes(observed_pair()))


def two_single_brokers(release: str, wanted: str) -> tuple[ObservedNode, ObservedNode]:
    """Return two brokers that do not share a store, although their names form a pair."""
    node, _ = observed_pair(release, wanted=wanted, ha="none", store=None, store_marker=None)
    return node, replace(node, host=B, role="slave", pid=20)


def test_upgrade_refuses_downgrade_of_single_brokers_with_names_of_pair() -> None:
    refusal = refusal_of(two_single_brokers("6.3.1", "5.11.4"))

    for host in (A, B):
        assert f"{host}: the broker runs 6.3.1 and has changed the store, which 5.11.4 therefore cannot read" in refusal


def test_upgrade_of_one_single_broker_does_not_change_other_with_name_in_pair() -> None:
    nodes = two_single_brokers("5.17.6", "5.18.3")
    run = upgrade_progress(nodes, chosen=[A])

    assert list(upgrade_effects_by_pair(nodes, store_changes(nodes), run)) == [A]
    step = next_upgrade_step(nodes, store_changes(nodes), run)
    assert (step.act, step.hosts, step.peer) == ("upgrade", (A,), None)
    upgraded = [replace(nodes[0], release="5.18.3"), nodes[1]]
    assert next_upgrade_step(upgraded, store_changes(nodes), run).act == "done"


def test_rollback_of_single_broker_ignores_other_with_name_in_pair() -> None:
    nodes = two_single_brokers("5.11.4", "5.12.0")
    assert not may_roll_back(A, nodes, store_changes(nodes))


def test_upgrade_refuses_pair_with_two_other_releases() -> None:
    refusal = refusal_of(observed_pair("5.16.7", "5.17.6", wanted="5.18.3"))
    assert f"orders-mq01: the nodes run two releases ({A} 5.16.7, {B} 5.17.6), and neither of them is" in refusal


def test_upgrade_refuses_node_with_unknown_running_release() -> None:
    nodes = observed_pair()
    assert f"{B}: the release that process 20 of the broker runs is not known" in refusal_of(
        (nodes[0], replace(nodes[1], release=None))
    )


def test_upgrade_waits_for_starting_node_of_any_release() -> None:
    for active in ("5.17.6", "5.18.3"):
        nodes = observed_pair(active)
        assert upgrade_step((nodes[0], replace(nodes[1], state="starting", release=None))).act == "wait"


def test_upgrade_refuses_unsupported_release() -> None:
    assert "does not know (5.2.0)" in refusal_of(observed_pair("5.2.0", "5.2.0"))


def test_upgrade_refuses_single_node_of_pair() -> None:
    refusal = refusal_of(observed_pair(), chosen=[B])
    assert f"orders-mq01: both nodes of a pair must run the same release, but {A} would keep its release" in refusal


def test_upgrade_refuses_different_activemq_release_in_pair() -> None:
    nodes = observed_pair()
    assert "activemq_release differs within the pair" in refusal_of((nodes[0], replace(nodes[1], wanted="6.3.1")))


def test_upgrade_refuses_packaged_broker() -> None:
    assert "the playbook upgrade does not upgrade packages" in refusal_of(observed_pair(), install="package")


def test_refusal_of_upgrade_names_all_pairs_with_problems() -> None:
    pair_with_unknown_release = [
        replace(node, pair="orders-mq02", host=node.host.replace("01", "02"))
        for node in observed_pair("5.2.0", "5.2.0")
    ]
    refusal = refusal_of((*observed_pair(), *pair_with_unknown_release), then=kahadb_store("/elsewhere"))
    assert "orders-mq01-a: the broker stores its messages in" in refusal
    assert "orders-mq02-a: the pair runs a release that this version of" in refusal


@pytest.mark.parametrize(
    ("fence", "access", "continues"),
    [
        ("guard", STORE_REQUIRES_GUARD, True),
        ("none", STORE_REQUIRES_GUARD, False),
        ("guard", "the file system of the store /srv/x does not answer within 5 s", False),
    ],
)
def test_upgrade_that_adds_guard_continues_with_standby_that_waits_without_guard(
    fence: str, access: str, continues: bool
) -> None:
    """After the switch, the store has a fence, and only the upgrade of the other node gives it a guard."""
    old_node, new_node = observed_pair("5.18.3", "5.18.3", fence=fence)
    old_node = replace(old_node, state="standby", release="5.17.6", store_access=access)
    new_node = replace(new_node, state="active", guard=19, generation=1, generation_in_force=1)
    nodes = (old_node, new_node)
    run = upgrade_progress(nodes, acted=(B,), waited=31)
    if continues:
        assert next_upgrade_step(nodes, store_changes(nodes), run, {A: 1}).hosts == (A,)
        return
    with pytest.raises(RefusalError, match="the broker cannot lock the store"):
        next_upgrade_step(nodes, store_changes(nodes), run, {A: 1})
