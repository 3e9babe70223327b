"""The choice of the newer store of a pure pair: it is correct, or it is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.operations.resync_source_choice import (
    PurePairNodeStore,
    ResyncRefusedError,
    choose_store_to_keep,
    store_difference_sentence,
)
from tests.unit.pure_pairs import (
    MASTER,
    RUN_OF_ACTIVE_SLAVE,
    RUN_OF_ATTACHED_SLAVE,
    RUN_OF_MASTER_WITH_SLAVE,
    SLAVE,
    broker_run,
    master_store,
    slave_store,
)

WAITED = broker_run("11:00:00")


def newer_store(a: PurePairNodeStore, b: PurePairNodeStore) -> str:
    return choose_store_to_keep(a, b).winner


def test_stores_of_pure_pair_with_same_messages_are_equal() -> None:
    verdict = choose_store_to_keep(master_store("| 1 2 -1"), slave_store("| 2"))
    assert verdict.equal
    assert verdict.reasons == ("both stores hold the same 1 message or subscription",)


def test_store_of_slave_that_served_and_stored_more_is_newer() -> None:
    assert newer_store(master_store("| 1 2"), slave_store("| 1 2 3", RUN_OF_ACTIVE_SLAVE)) == SLAVE


def test_store_of_slave_that_served_and_only_delivered_is_newer() -> None:
    assert newer_store(master_store("| 1 2"), slave_store("| 1 2 -1", RUN_OF_ACTIVE_SLAVE)) == SLAVE


def test_store_of_master_that_stored_and_delivered_alone_is_newer() -> None:
    assert newer_store(master_store("| 1 2 3 -1"), slave_store("| 1 2")) == MASTER


def test_store_of_master_that_only_stored_messages_alone_is_newer() -> None:
    assert newer_store(master_store("| 1 2 3"), slave_store("| 1 2")) == MASTER


def test_store_of_master_that_only_delivered_alone_is_newer() -> None:
    assert newer_store(master_store("| 1 2 -1"), slave_store("| 1 2")) == MASTER


def test_acknowledgment_in_transit_does_not_make_store_of_failed_slave_newer() -> None:
    assert newer_store(master_store("| 1 2 3 4"), slave_store("| 1 2 -1")) == MASTER


def test_message_in_transit_does_not_make_store_of_failed_slave_newer() -> None:
    assert newer_store(master_store("| 1 2 -1 -2"), slave_store("| 1 2 3")) == MASTER


def test_store_of_slave_with_additional_message_is_newer_if_both_nodes_failed() -> None:
    assert newer_store(master_store("| 1 2"), slave_store("| 1 2 3")) == SLAVE


def test_store_of_slave_that_served_is_newer_than_store_of_delivering_master() -> None:
    assert newer_store(master_store("| 1 2 -1"), slave_store("| 1 2 3", RUN_OF_ACTIVE_SLAVE)) == SLAVE


def test_log_decides_if_each_node_delivered_message_of_other() -> None:
    a = master_store("| 1 2 3 -1")
    assert newer_store(a, slave_store("| 1 2 3 -2", RUN_OF_ACTIVE_SLAVE)) == SLAVE
    assert newer_store(a, slave_store("| 1 2 3 -2")) == MASTER
    with pytest.raises(ResyncRefusedError, match="no log shows whether"):
        choose_store_to_keep(a, replace(slave_store("| 1 2 3 -2"), runs=()))


def test_choice_of_newer_store_is_refused_if_both_nodes_stored_messages_alone() -> None:
    with pytest.raises(
        ResyncRefusedError, match=r"has 1 message that \S+ never received; \S+ has 1 message that \S+ never received;"
    ) as refused:
        choose_store_to_keep(master_store("| 1 2 3"), slave_store("| 1 2 4", RUN_OF_ACTIVE_SLAVE))
    assert "-e activemq_resync_from=HOST" in str(refused.value)
    assert "keeps a backup of the store" in str(refused.value)


def test_choice_of_newer_store_is_refused_if_slave_served_earlier() -> None:
    second_run = broker_run("11:00:05", started=True, established=True)
    with pytest.raises(ResyncRefusedError):
        choose_store_to_keep(
            master_store("| 1 2 | 4", RUN_OF_MASTER_WITH_SLAVE, broker_run("11:00:00", started=True, attached=1)),
            slave_store("| 1 2 3 |", RUN_OF_ACTIVE_SLAVE, second_run),
        )


def test_choice_of_newer_store_is_refused_without_log_of_slave() -> None:
    slave_without_log = replace(slave_store("| 1 2 -1"), runs=())
    with pytest.raises(ResyncRefusedError, match="no log shows whether"):
        choose_store_to_keep(master_store("| 1 2 3"), slave_without_log)


def test_choice_of_newer_store_is_refused_if_log_is_of_earlier_run_than_journal() -> None:
    earlier_run = broker_run("04:00:00", started=True, established=True)
    with pytest.raises(ResyncRefusedError, match="no log shows whether"):
        choose_store_to_keep(master_store("| 1 2 3"), slave_store("| 1 2 -1", earlier_run, starts=("10:00:05",)))


def test_different_clocks_do_not_change_choice_of_newer_store() -> None:
    later_run = broker_run("10:10:05", started=True, established=True, served=True)
    assert newer_store(master_store("| 1 2"), slave_store("| 1 2 3", later_run)) == SLAVE
    earlier_run = broker_run("09:50:05", started=True, established=True)
    assert newer_store(master_store("| 1 2 3"), slave_store("| 1 2 -1", earlier_run)) == MASTER


def test_store_of_slave_that_served_is_newer_than_store_of_restarted_master() -> None:
    assert (
        newer_store(
            master_store("| 1 2 |", RUN_OF_MASTER_WITH_SLAVE, WAITED), slave_store("| 1 2 3 -1", RUN_OF_ACTIVE_SLAVE)
        )
        == SLAVE
    )


def test_choice_of_newer_store_is_refused_if_too_many_messages_differ_for_transit() -> None:
    new_messages = " ".join(str(number) for number in range(10, 2000))
    with pytest.raises(ResyncRefusedError):
        choose_store_to_keep(master_store("| 1 2 3 -2"), slave_store(f"| 1 2 {new_messages}"))


def test_choice_of_newer_store_is_refused_if_master_never_connected_to_slave() -> None:
    with pytest.raises(ResyncRefusedError):
        choose_store_to_keep(master_store("| 1 2 3", broker_run("10:00:00", started=True)), slave_store("| 1 2 4"))


def test_slave_with_new_disk_gets_store_of_master() -> None:
    assert newer_store(master_store("| 1 2"), slave_store("")) == MASTER


def test_master_with_new_disk_gets_store_of_slave_that_served() -> None:
    assert newer_store(master_store(""), slave_store("| 1 2", RUN_OF_ACTIVE_SLAVE)) == SLAVE


def test_choice_of_newer_store_is_refused_for_new_disk_if_slave_never_served() -> None:
    with pytest.raises(ResyncRefusedError, match="may be older than the store that x-mq01-a lost"):
        choose_store_to_keep(master_store(""), slave_store("| 1 2"))


def test_choice_of_newer_store_is_refused_if_journal_is_damaged() -> None:
    with pytest.raises(ResyncRefusedError, match="x-mq01-a: the store has 3 damaged places in its journal or index"):
        choose_store_to_keep(master_store("| 1 2", damaged=3), slave_store("| 1"))


def test_message_missing_from_cleaned_journal_was_delivered_if_later_one_is_known() -> None:
    """The slave took over, delivered 1 and 2, and then removed its journal files of that time."""
    served = slave_store("3 4 -3", RUN_OF_ACTIVE_SLAVE, starts=(), cleaned=True)
    assert newer_store(master_store("| 1 2 3"), served) == SLAVE


def test_message_missing_from_cleaned_journal_may_be_new_if_no_later_one_is_known() -> None:
    with pytest.raises(ResyncRefusedError) as refusal:
        choose_store_to_keep(master_store("| 1 2 3"), slave_store("4 5", RUN_OF_ACTIVE_SLAVE, starts=(), cleaned=True))
    assert " 0 messages" not in str(refusal.value)


def test_choice_of_newer_store_is_refused_if_slave_connected_to_master_twice() -> None:
    run_with_two_connections = broker_run("10:00:00", started=True, attached=2)
    with pytest.raises(ResyncRefusedError):
        choose_store_to_keep(
            master_store("| 1 2 3", run_with_two_connections),
            slave_store("3 4", RUN_OF_ACTIVE_SLAVE, starts=(), cleaned=True),
        )


def test_choice_of_operator_names_messages_left_in_backup() -> None:
    verdict = choose_store_to_keep(master_store("| 1 2 3"), slave_store("| 1 2 4 5", RUN_OF_ACTIVE_SLAVE), MASTER)
    assert verdict.winner == MASTER
    assert verdict.reasons == (
        "activemq_resync_from is x-mq01-a; then the backup of the store of x-mq01-b has the only copy of 2 messages",
    )


def test_choice_of_newer_store_is_refused_if_store_was_not_read() -> None:
    with pytest.raises(ResyncRefusedError, match="did not read the store"):
        choose_store_to_keep(PurePairNodeStore(MASTER, "master", seen=False), slave_store(""))


def test_store_of_attached_slave_with_message_in_transit_does_not_differ() -> None:
    assert store_difference_sentence(master_store("| 1 2 3 4"), slave_store("| 1 2 3")) == ""
    assert store_difference_sentence(master_store("| 1 2 3"), slave_store("| 1 2 3 4")) == ""


def test_store_of_slave_that_attached_with_old_store_differs() -> None:
    assert "never received 1 message that" in store_difference_sentence(master_store("| 1 2 3"), slave_store("| 1 3"))


def test_store_of_slave_with_messages_stored_alone_differs() -> None:
    assert "holds 1 message that it stored before it connected to x-mq01-a" in store_difference_sentence(
        master_store("| 1 |"), slave_store("| 1 2 |", RUN_OF_ACTIVE_SLAVE, broker_run("11:00:05", established=True))
    )


# The events of a simulated pair, which also records what a store must hold after them.
EVENTS = ("send", "take", "master dies", "slave dies", "both die")


def _simulate_pair(events: list[str]) -> tuple[PurePairNodeStore, PurePairNodeStore, set[int], set[int]]:
    """Return both stores after these events, the messages that must not be lost, and the delivered messages."""
    a, b, number = ["|"], ["|"], 0
    alive = {"a", "b"}
    served = False
    required: list[int] = []
    delivered: set[int] = set()
    for event in events:
        if event in ("master dies", "both die"):
            served |= "a" in alive and "b" in alive and event == "master dies"
            alive.discard("a")
        if event in ("slave dies", "both die"):
            alive.discard("b")
        writers = [journal for journal, node in ((b, "b"), (a, "a")) if node in alive]
        if not writers:
            break
        if event == "send":
            number += 1
            required.append(number)
            for journal in writers:
                journal.append(str(number))
        elif event == "take" and required:
            delivered.add(required[0])
            for journal in writers:
                journal.append(f"-{required[0]}")
            del required[0]
    return (
        master_store(" ".join(a)),
        slave_store(" ".join(b), RUN_OF_ACTIVE_SLAVE if served else RUN_OF_ATTACHED_SLAVE),
        set(required),
        delivered,
    )


@given(
    events=st.lists(st.sampled_from(EVENTS), max_size=14), in_flight=st.sampled_from(["none", "message", "delivery"])
)
def test_newer_store_holds_all_accepted_and_no_delivered_messages(events: list[str], in_flight: str) -> None:
    a, b, required, delivered = _simulate_pair(events)
    if in_flight == "message" and not any(event in EVENTS[2:] for event in events):
        # The slave stores a message before the producer receives its acknowledgment.
        b = slave_store(" ".join(["|", *(str(key) if kind == 1 else f"-{key}" for kind, key in b.order[1:]), "999"]))
        required |= {999}
    try:
        verdict = choose_store_to_keep(a, b)
    except ResyncRefusedError:
        assert (
            in_flight != "none" or a.was_never_used
        )  # without a message in flight, only a master without a store causes a refusal
        return
    chosen = a if verdict.winner == MASTER else b
    assert required - set(chosen.live) <= {999}
    assert delivered & set(chosen.live) == set()
