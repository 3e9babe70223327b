"""Counting what is left in a kahaDB journal: never too few."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.kahadb import remaining_messages
from activemq_fleet.node.process.system_accounts import current_account
from activemq_fleet.node.state.backlog import ManagementView, message_counts_from_jmx_and_store

QUEUE, TOPIC = 0, 1


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def text(number: int, value: bytes | str) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def place(kind: int, name: str) -> bytes:
    return b"\x08" + varint(kind) + text(2, name)


def command(kind: int, *fields: bytes) -> bytes:
    body = b"".join(fields)
    return bytes([kind]) + varint(len(body)) + body


def local(number: int) -> bytes:
    """A local transaction, whose two fields have one number."""
    return text(1, text(1, text(1, "ID:c") + b"\x08" + varint(number)))


def xa(name: str) -> bytes:
    return text(1, text(2, b"\x08\x01" + text(2, name) + text(3, name)))


def add(kind: int, name: str, message: str, transaction: bytes = b"") -> bytes:
    return command(1, transaction, text(2, place(kind, name)), text(3, message), text(4, b"\0" * 200))


def remove(kind: int, name: str, message: str, key: str = "", transaction: bytes = b"") -> bytes:
    return command(2, transaction, text(2, place(kind, name)), text(3, message), text(5, key) if key else b"")


def subscribe(topic: str, key: str, *, gone: bool = False) -> bytes:
    return command(7, text(1, place(TOPIC, topic)), text(2, key), b"" if gone else text(4, b"info"))


def batch(*commands: bytes) -> bytes:
    records = b"".join(struct.pack(">IB", len(one) + 5, 1) + one for one in commands)
    head = struct.pack(">IB", 28, 2) + b"WRITE BATCH" + struct.pack(">IQ", len(records), 0)
    return head + records


def journal(directory: Path, *commands: bytes, number: int = 1, tail: bytes = b"\0" * 4096) -> str:
    directory.mkdir(exist_ok=True)
    (directory / f"db-{number}.log").write_bytes(b"".join(batch(one) for one in commands) + tail)
    return str(directory)


def test_what_was_taken_is_not_left(tmp_path: Path) -> None:
    store = journal(tmp_path, add(QUEUE, "q", "1"), add(QUEUE, "q", "2"), add(QUEUE, "r", "3"), remove(QUEUE, "q", "1"))

    assert remaining_messages.count_remaining_messages(store).queues == {"q": 1, "r": 1}


def test_each_subscription_is_owed_what_came_after_it_was_made(tmp_path: Path) -> None:
    store = journal(
        tmp_path,
        subscribe("t", "a:s"),
        add(TOPIC, "t", "1"),
        subscribe("t", "b:s"),
        add(TOPIC, "t", "2"),
        remove(TOPIC, "t", "1", "a:s"),
    )

    assert remaining_messages.count_remaining_messages(store).subscriptions == {("t", "a:s"): 1, ("t", "b:s"): 1}


def test_a_removed_subscription_is_owed_nothing(tmp_path: Path) -> None:
    store = journal(tmp_path, subscribe("t", "a:s"), add(TOPIC, "t", "1"), subscribe("t", "a:s", gone=True))

    assert remaining_messages.count_remaining_messages(store).subscriptions == {}


def test_one_that_is_made_again_keeps_what_waits_for_it(tmp_path: Path) -> None:
    store = journal(tmp_path, subscribe("t", "a:s"), add(TOPIC, "t", "1"), subscribe("t", "a:s"))

    assert remaining_messages.count_remaining_messages(store).subscriptions == {("t", "a:s"): 1}


def test_a_subscription_whose_beginning_is_gone_is_owed_all_that_it_has_not_taken(tmp_path: Path) -> None:
    store = journal(tmp_path, add(TOPIC, "t", "1"), add(TOPIC, "t", "2"), remove(TOPIC, "t", "1", "a:s"), number=9)

    counts = remaining_messages.count_remaining_messages(store, [("t", "a:s"), ("t", "silent:s")])

    assert counts.subscriptions == {("t", "a:s"): 1, ("t", "silent:s"): 2}
    assert not counts.whole


@pytest.mark.parametrize(("end", "left"), [(4, {"q": 1}), (5, {}), (0, {})], ids=["committed", "rolled back", "open"])
def test_a_transaction_counts_when_it_is_committed(tmp_path: Path, end: int, left: dict[str, int]) -> None:
    ended = [command(end, local(7))] if end else []
    store = journal(tmp_path, add(QUEUE, "q", "1", local(7)), add(QUEUE, "q", "2", local(8)), *ended)

    assert remaining_messages.count_remaining_messages(store).queues == left


def test_a_prepared_transaction_is_in_doubt_until_it_is_ended(tmp_path: Path) -> None:
    begun = [add(QUEUE, "q", "1", xa("x")), command(3, xa("x"))]

    assert remaining_messages.count_remaining_messages(journal(tmp_path / "a", *begun)).prepared == 1
    ended = remaining_messages.count_remaining_messages(journal(tmp_path / "b", *begun, command(4, xa("x"))))
    assert (ended.prepared, ended.queues) == (0, {"q": 1})


def test_a_removed_destination_holds_nothing(tmp_path: Path) -> None:
    assert (
        remaining_messages.count_remaining_messages(
            journal(tmp_path, add(QUEUE, "q", "1"), command(6, text(1, place(QUEUE, "q"))))
        ).queues
        == {}
    )


def test_files_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    journal(tmp_path, remove(QUEUE, "q", "1"), number=10)

    assert remaining_messages.count_remaining_messages(journal(tmp_path, add(QUEUE, "q", "1"), number=9)).queues == {}


def test_a_batch_that_was_cut_off_at_the_end_was_never_receipted(tmp_path: Path) -> None:
    cut = batch(add(QUEUE, "q", "2"))[:-100]

    assert remaining_messages.count_remaining_messages(journal(tmp_path, add(QUEUE, "q", "1"), tail=cut)).queues == {
        "q": 1
    }


@pytest.mark.parametrize(
    "broken",
    [b"\0" * 64, struct.pack(">IB", 9, 7) + b"\0" * 4, struct.pack(">IB", 1 << 30, 1)],
    ids=["hole", "kind", "size"],
)
def test_a_journal_with_damage_in_its_midst_proves_nothing(tmp_path: Path, broken: bytes) -> None:
    store = journal(tmp_path, add(QUEUE, "q", "1"), tail=broken + batch(remove(QUEUE, "q", "1")))

    with pytest.raises(NodeError, match="cannot be counted"):
        remaining_messages.count_remaining_messages(store)


def test_a_broken_command_proves_nothing(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match=r"1 place .* cannot be read"):
        remaining_messages.count_remaining_messages(journal(tmp_path, b"\x01\x7f\x12"))


def test_the_higher_of_two_witnesses_counts(tmp_path: Path) -> None:
    store = journal(tmp_path, add(QUEUE, "stored", "1"), subscribe("t", "desk:all"), add(TOPIC, "t", "1"))
    view = ManagementView(queues={"stored": 0, "fleeting": 2}, subscriptions={("t", "desk", "all"): 0})

    counts = message_counts_from_jmx_and_store(view, store, current_account())

    assert counts["queues"] == {"fleeting": 2, "stored": 1}
    assert counts["subscriptions"] == [{"topic": "t", "client": "desk", "name": "all", "messages": 1}]
    assert counts["messages"] == 4
    assert counts["certain"]


def test_a_stopped_store_that_was_shortened_cannot_name_everybody(tmp_path: Path) -> None:
    assert (
        message_counts_from_jmx_and_store(
            None, journal(tmp_path / "a", add(TOPIC, "t", "1"), number=4), current_account()
        )["certain"]
        is False
    )
    assert (
        message_counts_from_jmx_and_store(
            None, journal(tmp_path / "b", remove(QUEUE, "q", "1"), number=4), current_account()
        )["certain"]
        is True
    )
