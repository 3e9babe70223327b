"""Which store of a pure pair is the newer one: right, or refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from activemq_fleet.operations.recency import (
    PurePairNodeStore,
    ResyncRefusedError,
    choose_store_to_keep,
    store_difference_sentence,
)
from tests.unit.pure_pairs import ATTACHED, MASTER, SAW_SLAVE, SERVED, SLAVE, master, run, slave

WAITED = run("11:00:00")


def winner(a: PurePairNodeStore, b: PurePairNodeStore) -> str:
    return choose_store_to_keep(a, b).winner


def test_stores_that_hold_the_same_need_no_copy() -> None:
    verdict = choose_store_to_keep(master("| 1 2 -1"), slave("| 2"))
    assert verdict.equal
    assert verdict.reasons == ("both stores hold the same 1 message or subscription",)


def test_a_slave_that_served_and_took_more_is_newer() -> None:
    assert winner(master("| 1 2"), slave("| 1 2 3", SERVED)) == SLAVE


def test_a_slave_that_served_and_only_delivered_is_newer() -> None:
    assert winner(master("| 1 2"), slave("| 1 2 -1", SERVED)) == SLAVE


def test_a_master_that_went_on_alone_is_newer_though_its_log_says_nothing_of_it() -> None:
    assert winner(master("| 1 2 3 -1"), slave("| 1 2")) == MASTER


def test_a_master_that_only_took_messages_alone_is_newer() -> None:
    assert winner(master("| 1 2 3"), slave("| 1 2")) == MASTER


def test_a_master_that_only_delivered_alone_is_newer() -> None:
    assert winner(master("| 1 2 -1"), slave("| 1 2")) == MASTER


def test_acknowledgement_in_transit_does_not_make_dead_slave_newer_than_master() -> None:
    assert winner(master("| 1 2 3 4"), slave("| 1 2 -1")) == MASTER


def test_a_message_on_its_way_does_not_make_a_dead_slave_newer_than_its_master() -> None:
    assert winner(master("| 1 2 -1 -2"), slave("| 1 2 3")) == MASTER


def test_of_two_that_died_together_the_one_with_a_message_more_is_taken() -> None:
    assert winner(master("| 1 2"), slave("| 1 2 3")) == SLAVE


def test_a_slave_that_served_is_taken_when_its_master_had_only_delivered_more() -> None:
    assert winner(master("| 1 2 -1"), slave("| 1 2 3", SERVED)) == SLAVE


def test_each_delivered_what_the_other_still_has_and_the_log_decides() -> None:
    a = master("| 1 2 3 -1")
    assert winner(a, slave("| 1 2 3 -2", SERVED)) == SLAVE
    assert winner(a, slave("| 1 2 3 -2")) == MASTER
    with pytest.raises(ResyncRefusedError, match="no log shows whether"):
        choose_store_to_keep(a, replace(slave("| 1 2 3 -2"), runs=()))


def test_both_took_messages_alone_and_nothing_is_decided() -> None:
    with pytest.raises(
        ResyncRefusedError, match=r"has 1 message that \S+ never received; \S+ has 1 message that \S+ never received;"
    ) as refused:
        choose_store_to_keep(master("| 1 2 3"), slave("| 1 2 4", SERVED))
    assert "-e activemq_resync_from=HOST" in str(refused.value)
    assert "keeps a backup of the store" in str(refused.value)


def test_slave_that_served_earlier_may_hold_messages_its_master_never_had() -> None:
    again = run("11:00:05", started=True, established=True)
    with pytest.raises(ResyncRefusedError):
        choose_store_to_keep(
            master("| 1 2 | 4", SAW_SLAVE, run("11:00:00", started=True, attached=1)), slave("| 1 2 3 |", SERVED, again)
        )


def test_a_slave_whose_log_is_gone_proves_nothing() -> None:
    lost = replace(slave("| 1 2 -1"), runs=())
    with pytest.raises(ResyncRefusedError, match="no log shows whether"):
        choose_store_to_keep(master("| 1 2 3"), lost)


def test_a_log_of_another_run_than_the_journals_last_proves_nothing() -> None:
    early = run("04:00:00", started=True, established=True)
    with pytest.raises(ResyncRefusedError, match="no log shows whether"):
        choose_store_to_keep(master("| 1 2 3"), slave("| 1 2 -1", early, starts=("10:00:05",)))


def test_clocks_that_are_apart_change_nothing() -> None:
    late = run("10:10:05", started=True, established=True, served=True)
    assert winner(master("| 1 2"), slave("| 1 2 3", late)) == SLAVE
    early = run("09:50:05", started=True, established=True)
    assert winner(master("| 1 2 3"), slave("| 1 2 -1", early)) == MASTER


def test_a_master_that_came_back_alone_has_taken_nothing() -> None:
    assert winner(master("| 1 2 |", SAW_SLAVE, WAITED), slave("| 1 2 3 -1", SERVED)) == SLAVE


def test_more_than_can_be_on_its_way_is_no_message_on_its_way() -> None:
    many = " ".join(str(number) for number in range(10, 2000))
    with pytest.raises(ResyncRefusedError):
        choose_store_to_keep(master("| 1 2 3 -2"), slave(f"| 1 2 {many}"))


def test_a_master_that_never_saw_its_slave_proves_nothing() -> None:
    with pytest.raises(ResyncRefusedError):
        choose_store_to_keep(master("| 1 2 3", run("10:00:00", started=True)), slave("| 1 2 4"))


def test_a_slave_with_a_new_disk_gets_its_masters_store() -> None:
    assert winner(master("| 1 2"), slave("")) == MASTER


def test_a_master_with_a_new_disk_gets_the_store_of_a_slave_that_served() -> None:
    assert winner(master(""), slave("| 1 2", SERVED)) == SLAVE


def test_a_master_with_a_new_disk_whose_slave_never_served_is_left_to_the_operator() -> None:
    with pytest.raises(ResyncRefusedError, match="may be older than the store that x-mq01-a lost"):
        choose_store_to_keep(master(""), slave("| 1 2"))


def test_a_damaged_journal_proves_nothing() -> None:
    with pytest.raises(ResyncRefusedError, match="x-mq01-a: the store journal has 3 damaged places"):
        choose_store_to_keep(master("| 1 2", damaged=3), slave("| 1"))


def test_message_missing_from_cleaned_journal_was_delivered_if_later_one_is_known() -> None:
    """The slave took over, delivered 1 and 2, and its journal files of that time are gone."""
    served = slave("3 4 -3", SERVED, starts=(), cleaned=True)
    assert winner(master("| 1 2 3"), served) == SLAVE


def test_message_missing_from_cleaned_journal_may_be_new_if_no_later_one_is_known() -> None:
    with pytest.raises(ResyncRefusedError) as refusal:
        choose_store_to_keep(master("| 1 2 3"), slave("4 5", SERVED, starts=(), cleaned=True))
    assert " 0 messages" not in str(refusal.value)


def test_a_master_to_which_a_slave_came_twice_may_hold_what_it_took_in_between() -> None:
    twice = run("10:00:00", started=True, attached=2)
    with pytest.raises(ResyncRefusedError):
        choose_store_to_keep(master("| 1 2 3", twice), slave("3 4", SERVED, starts=(), cleaned=True))


def test_the_operator_may_decide_and_is_told_what_is_left_in_the_backup() -> None:
    verdict = choose_store_to_keep(master("| 1 2 3"), slave("| 1 2 4 5", SERVED), MASTER)
    assert verdict.winner == MASTER
    assert verdict.reasons == (
        "activemq_resync_from is x-mq01-a; then the backup of the store of x-mq01-b has the only copy of 2 messages",
    )


def test_a_store_that_was_not_read_decides_nothing() -> None:
    with pytest.raises(ResyncRefusedError, match="did not read the store"):
        choose_store_to_keep(PurePairNodeStore(MASTER, "master", seen=False), slave(""))


def test_a_slave_that_is_a_copy_differs_in_nothing() -> None:
    assert store_difference_sentence(master("| 1 2 3 4"), slave("| 1 2 3")) == ""
    assert store_difference_sentence(master("| 1 2 3"), slave("| 1 2 3 4")) == ""


def test_a_slave_that_was_attached_with_an_old_store_is_no_copy() -> None:
    assert "never received 1 message that" in store_difference_sentence(master("| 1 2 3"), slave("| 1 3"))


def test_a_slave_that_holds_what_it_took_alone_is_no_copy() -> None:
    assert "holds 1 message that it stored before it connected to x-mq01-a" in store_difference_sentence(
        master("| 1 |"), slave("| 1 2 |", SERVED, run("11:00:05", established=True))
    )


# Life of a pair in single events, with the truth beside it: what a store must hold in the end.
EVENTS = ("send", "take", "master dies", "slave dies", "both die")


def _live(events: list[str]) -> tuple[PurePairNodeStore, PurePairNodeStore, set[int], set[int]]:
    """Records of both journals after these events; then what must not be lost, and what was delivered."""
    a, b, number = ["|"], ["|"], 0
    alive = {"a", "b"}
    served = False
    held: list[int] = []
    taken: set[int] = set()
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
            held.append(number)
            for journal in writers:
                journal.append(str(number))
        elif event == "take" and held:
            taken.add(held[0])
            for journal in writers:
                journal.append(f"-{held[0]}")
            del held[0]
    return master(" ".join(a)), slave(" ".join(b), SERVED if served else ATTACHED), set(held), taken


@given(events=st.lists(st.sampled_from(EVENTS), max_size=14), flight=st.sampled_from(["none", "message", "delivery"]))
def test_winner_holds_everything_accepted_and_nothing_delivered(events: list[str], flight: str) -> None:
    a, b, held, taken = _live(events)
    if flight == "message" and not any(event in EVENTS[2:] for event in events):
        # The slave has it first; nobody was told yet that it is stored.
        b = slave(" ".join(["|", *(str(key) if kind == 1 else f"-{key}" for kind, key in b.order[1:]), "999"]))
        held |= {999}
    try:
        verdict = choose_store_to_keep(a, b)
    except ResyncRefusedError:
        assert (
            flight != "none" or a.was_never_used
        )  # a life in order is never refused, but for a master without a store
        return
    chosen = a if verdict.winner == MASTER else b
    assert held - set(chosen.live) <= {999}
    assert taken & set(chosen.live) == set()
