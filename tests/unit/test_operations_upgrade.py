"""Which upgrades are made, in which order, and what is refused with which remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from activemq_fleet.deployment import StoreFacts
from activemq_fleet.operations import RefusalError
from activemq_fleet.operations.health import ObservedNode
from activemq_fleet.operations.release_changes import Back, release_change_effects
from activemq_fleet.operations.rolling import RollingProgress
from activemq_fleet.operations.upgrade import (
    UpgradeStoreChange,
    may_roll_back,
    next_upgrade_step,
    upgrade_effects_by_pair,
    wait_or_done_step_before_upgrade,
)
from activemq_fleet.releases import Release, known_release_lines
from activemq_fleet.releases._data import load_release_data

SHARE = "/srv/activemq/orders-mq01"
A, B = "orders-mq01-a", "orders-mq01-b"


def kaha(directory: str = SHARE, **more: Any) -> StoreFacts:
    return StoreFacts("kahaDB", directory, **more)


def jump_of(found: str, wanted: str, now: StoreFacts | None = None, then: StoreFacts | None = None) -> Any:
    return release_change_effects(Release.of(found), Release.of(wanted), now or kaha(), then or kaha())


def pair(
    active: str = "5.17.6", standby: str = "5.17.6", wanted: str = "5.18.3", **more: Any
) -> tuple[ObservedNode, ObservedNode]:
    """Node a serves, b waits for the lock; both are well."""
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


def run_of(nodes: Sequence[ObservedNode], **more: Any) -> RollingProgress:
    return RollingProgress(act="upgrade", done=(), **{"chosen": [node.host for node in nodes], **more})


def stores_of(nodes: Sequence[ObservedNode], **more: Any) -> dict[str, UpgradeStoreChange]:
    return {node.host: UpgradeStoreChange(**{"now": kaha(), "then": kaha(), **more}) for node in nodes}


def step_of(nodes: Sequence[ObservedNode], switched: Mapping[str, int] | None = None, **more: Any) -> Any:
    return next_upgrade_step(nodes, stores_of(nodes, **more), run_of(nodes), switched)


def readiness_of(nodes: Sequence[ObservedNode], stores: Mapping[str, UpgradeStoreChange], run: RollingProgress) -> None:
    upgrade_effects_by_pair(nodes, stores, run)
    wait_or_done_step_before_upgrade(nodes, run)


def refusal_of(nodes: Sequence[ObservedNode], **more: Any) -> str:
    chosen = more.pop("chosen", [node.host for node in nodes])
    with pytest.raises(RefusalError) as error:
        readiness_of(nodes, stores_of(nodes, **more), run_of(nodes, chosen=chosen))
    return str(error.value)


@pytest.mark.parametrize(
    ("found", "wanted", "back"),
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
def test_the_way_back_is_the_one_that_was_measured(found: str, wanted: str, back: Back) -> None:
    jump = jump_of(found, wanted)
    assert (jump.refusal, jump.back) == ("", back)


def test_every_newer_release_goes_on_with_every_older_kahadb_store() -> None:
    releases = [load_release_data().newest_release(line) for line in known_release_lines()]
    for number, found in enumerate(releases):
        for wanted in releases[number:]:
            assert not jump_of(found, wanted).refusal


def test_an_older_release_that_cannot_read_the_store_is_refused_with_the_way_out() -> None:
    refusal = jump_of("6.3.1", "5.11.4").refusal
    assert "which 5.11.4 therefore cannot read" in refusal
    assert "the copy of the store from before the upgrade" in refusal


def test_going_back_says_that_the_index_is_built_anew() -> None:
    jump = jump_of("6.3.1", "5.15.16")
    assert not jump.refusal
    assert any("builds the index" in change for change in jump.changes)


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
def test_a_store_that_the_release_does_not_have_needs_a_new_pair(installed: str, wanted: str, kind: str) -> None:
    same = StoreFacts(kind)
    assert (
        f"stores its messages in {kind}, which {wanted} does not support"
        in jump_of(installed, wanted, same, same).refusal
    )
    assert "Add a new pair" in jump_of(installed, wanted, same, same).refusal


def test_another_kind_of_store_would_leave_the_messages_behind() -> None:
    refusal = jump_of("5.15.16", "5.16.7", StoreFacts("levelDB"), kaha()).refusal
    assert "stores its messages in levelDB, but with 5.16.7 it would use kahaDB" in refusal


def test_default_store_of_several_uses_another_directory_from_5_11_on() -> None:
    several = StoreFacts("mKahaDB", SHARE)
    assert (
        "stores messages in the directory 0 of its mKahaDB store, but 5.18.3 would read them from the directory #210"
        in jump_of("5.8.0", "5.18.3", several, several).refusal
    )
    assert jump_of("5.13.5", "6.3.1", several, several).refusal == ""


def test_another_directory_is_no_upgrade() -> None:
    refusal = jump_of("5.17.6", "5.18.3", kaha(), kaha("/elsewhere")).refusal
    assert refusal.endswith(f"An upgrade does not move the store. Set activemq_store_directory to {SHARE}")


def test_rows_of_a_database_need_their_openwire_version_across_5_12() -> None:
    jdbc = StoreFacts("jdbcPersistenceAdapter")
    assert '{storeOpenWireVersion: "6"}' in jump_of("5.11.4", "5.15.16", jdbc, jdbc).refusal
    told = replace(jdbc, openwire=6)
    assert (jump_of("5.11.4", "5.15.16", jdbc, told).refusal, jump_of("5.11.4", "5.15.16", jdbc, told).back) == (
        "",
        "open",
    )
    assert not jump_of("5.15.16", "6.3.1", jdbc, jdbc).refusal
    # What a store was once told to use it must be told for ever.
    assert '"6"' in jump_of("5.15.16", "6.3.1", told, jdbc).refusal


def test_a_pure_pair_is_no_roll() -> None:
    pure = kaha("/var/lib/activemq/data", pure=True)
    assert "the playbook resync" in jump_of("5.5.1", "5.7.0", pure, pure).refusal
    assert "Run the playbook migrate" in jump_of("5.5.1", "5.18.3", pure, kaha()).refusal


@pytest.mark.parametrize(
    ("found", "wanted", "words"),
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
def test_what_changes_on_the_way_is_told(found: str, wanted: str, words: list[str]) -> None:
    changes = "; ".join(jump_of(found, wanted).changes)
    for word in words:
        assert word in changes


def test_nothing_but_the_patch_changes_nothing_to_look_after() -> None:
    assert jump_of("5.18.3", "5.18.7").changes == ()


def test_the_standby_comes_first_then_places_change_then_the_other() -> None:
    nodes = pair()
    first = step_of(nodes)
    assert (first.act, first.hosts, first.peer) == ("upgrade", (B,), A)
    nodes = (nodes[0], replace(nodes[1], release="5.18.3"))
    second = step_of(nodes)
    assert (second.act, second.hosts, second.peer) == ("switch", (A,), B)
    nodes = (replace(nodes[0], state="standby"), replace(nodes[1], state="active"))
    third = step_of(nodes)
    assert (third.act, third.hosts, third.peer) == ("upgrade", (A,), B)
    nodes = (replace(nodes[0], release="5.18.3"), nodes[1])
    assert step_of(nodes).act == "done"


def test_the_node_that_serves_is_upgraded_only_where_it_has_no_peer() -> None:
    step = step_of(pair()[:1])
    assert (step.act, step.hosts, step.peer) == ("upgrade", (A,), None)


def test_the_switch_says_when_it_closes_the_way_back() -> None:
    nodes = pair("5.11.4", "5.18.3")
    assert "after this step no rollback is possible" in step_of(nodes).say
    assert "rollback" not in step_of(pair("5.17.6", "5.18.3")).say


def test_a_lock_that_is_won_back_again_and_again_ends_the_run() -> None:
    nodes = pair("5.17.6", "5.18.3")
    assert step_of(nodes, {A: 2}).act == "switch"
    with pytest.raises(RefusalError, match="3 times, but each time this broker acquired the lock again"):
        step_of(nodes, {A: 3})


def test_a_node_that_stays_what_it_was_ends_the_run() -> None:
    nodes = pair()
    with pytest.raises(RefusalError, match=r"this run has upgraded the broker, but it still runs 5\.17\.6"):
        next_upgrade_step(nodes, stores_of(nodes), run_of(nodes, acted=[B]))


def test_a_standby_that_is_not_there_is_waited_for_or_refused() -> None:
    nodes = pair("5.17.6", "5.18.3")
    coming = replace(nodes[1], state="starting")
    assert step_of((nodes[0], coming)).act == "wait"
    gone = replace(nodes[1], state="stopped", pid=None, release=None)
    with pytest.raises(RefusalError, match=f"{B}: the broker is stopped"):
        step_of((nodes[0], gone))


def test_the_very_start_refuses_what_does_not_pass_by_itself() -> None:
    nodes = pair()
    said = refusal_of((nodes[0], replace(nodes[1], store_marker=None)))
    assert said.startswith("nothing was changed:")
    assert "has no file .activemq-fleet-pair" in said


def test_a_standby_may_go_back_while_nobody_has_opened_the_store() -> None:
    # a serves as 5.11.4 and has the store open; b was upgraded already.
    nodes = pair("5.11.4", "6.3.1", wanted="5.11.4")
    step = step_of(nodes)
    assert (step.act, step.hosts) == ("upgrade", (B,))


def test_once_it_was_opened_there_is_no_way_back() -> None:
    nodes = pair("6.3.1", "5.11.4", wanted="5.11.4")
    assert f"{A}: the broker runs 6.3.1 and has changed the store, which 5.11.4 therefore" in refusal_of(nodes)


def test_a_cut_run_that_goes_on_says_that_the_way_back_is_closed_by_now() -> None:
    nodes = pair("6.3.1", "5.11.4", wanted="6.3.1")
    jump = upgrade_effects_by_pair(nodes, stores_of(nodes), run_of(nodes))["orders-mq01"]
    assert (jump.found, jump.back) == ("5.11.4", "closed")
    assert jump.way_back.startswith("rollback is not possible, because 6.3.1 has opened the store")


@pytest.mark.parametrize(
    ("active", "standby", "may"),
    [("5.11.4", "5.11.4", True), ("6.3.1", "5.11.4", False), ("6.3.1", "5.15.16", True), ("6.3.1", "5.17.6", True)],
)
def test_a_release_comes_back_only_to_a_store_that_it_can_read(active: str, standby: str, may: bool) -> None:
    nodes = pair(active, standby, wanted="6.3.1")
    assert may_roll_back(B, nodes, stores_of(nodes)) is may


def test_a_broker_without_a_peer_may_have_opened_its_store_itself() -> None:
    assert not may_roll_back(A, pair("5.11.4", wanted="6.3.1")[:1], stores_of(pair()))
    assert may_roll_back(A, pair("5.17.6", wanted="6.3.1")[:1], stores_of(pair()))


def test_two_releases_of_which_none_is_wanted_are_refused() -> None:
    said = refusal_of(pair("5.16.7", "5.17.6", wanted="5.18.3"))
    assert f"orders-mq01: the nodes run two releases ({A} 5.16.7, {B} 5.17.6), and neither of them is" in said


def test_a_node_whose_release_cannot_be_seen_is_refused() -> None:
    nodes = pair()
    assert f"{B}: the release that process 20 of the broker runs is not known" in refusal_of(
        (nodes[0], replace(nodes[1], release=None))
    )


def test_a_node_that_is_just_coming_up_is_waited_for_whatever_it_runs() -> None:
    for active in ("5.17.6", "5.18.3"):
        nodes = pair(active)
        assert step_of((nodes[0], replace(nodes[1], state="starting", release=None))).act == "wait"


def test_a_release_that_nobody_knows_is_refused() -> None:
    assert "does not know (5.2.0)" in refusal_of(pair("5.2.0", "5.2.0"))


def test_one_node_of_a_pair_is_no_target() -> None:
    said = refusal_of(pair(), chosen=[B])
    assert f"orders-mq01: both nodes of a pair must run the same release, but {A} would keep its release" in said


def test_a_pair_must_agree_on_its_release() -> None:
    nodes = pair()
    assert "activemq_release differs within the pair" in refusal_of((nodes[0], replace(nodes[1], wanted="6.3.1")))


def test_a_package_is_the_systems_own_business() -> None:
    assert "the playbook upgrade does not upgrade packages" in refusal_of(pair(), install="package")


def test_every_bad_pair_is_named_at_once() -> None:
    bad = [replace(node, pair="orders-mq02", host=node.host.replace("01", "02")) for node in pair("5.2.0", "5.2.0")]
    said = refusal_of((*pair(), *bad), then=kaha("/elsewhere"))
    assert "orders-mq01-a: the broker stores its messages in" in said
    assert "orders-mq02-a: the pair runs a release that this version of" in said
