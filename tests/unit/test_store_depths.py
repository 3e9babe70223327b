"""Counts of the messages that remain in a kahaDB journal, which are never too low."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from activemq_fleet.node.errors import NodeError
from activemq_fleet.node.kahadb import remaining_messages
from activemq_fleet.node.process.system_accounts import current_account
from activemq_fleet.node.state.backlog import MessagesClientsAndBridgesFromJmx, higher_message_counts_of_jmx_and_store

QUEUE, TOPIC = 0, 1


def varint(number: int) -> bytes:
    encoded = b""
    while number > 127:
        encoded, number = encoded + bytes([number & 127 | 128]), number >> 7
    return encoded + bytes([number])


def bytes_field(number: int, value: bytes | str) -> bytes:
    encoded = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(encoded)) + encoded


def destination(kind: int, name: str) -> bytes:
    return b"\x08" + varint(kind) + bytes_field(2, name)


def command(kind: int, *fields: bytes) -> bytes:
    body = b"".join(fields)
    return bytes([kind]) + varint(len(body)) + body


def local_transaction(number: int) -> bytes:
    """Return a local transaction, whose connection and number have the same field number."""
    return bytes_field(1, bytes_field(1, bytes_field(1, "ID:c") + b"\x08" + varint(number)))


def xa_transaction(name: str) -> bytes:
    return bytes_field(1, bytes_field(2, b"\x08\x01" + bytes_field(2, name) + bytes_field(3, name)))


def add(kind: int, name: str, message: str, transaction: bytes = b"") -> bytes:
    return command(
        1, transaction, bytes_field(2, destination(kind, name)), bytes_field(3, message), bytes_field(4, b"\0" * 200)
    )


def remove(kind: int, name: str, message: str, key: str = "", transaction: bytes = b"") -> bytes:
    return command(
        2,
        transaction,
        bytes_field(2, destination(kind, name)),
        bytes_field(3, message),
        bytes_field(5, key) if key else b"",
    )


def subscribe(topic: str, key: str, *, removed: bool = False) -> bytes:
    return command(
        7, bytes_field(1, destination(TOPIC, topic)), bytes_field(2, key), b"" if removed else bytes_field(4, b"info")
    )


def batch(*commands: bytes) -> bytes:
    records = b"".join(struct.pack(">IB", len(encoded) + 5, 1) + encoded for encoded in commands)
    batch_header = struct.pack(">IB", 28, 2) + b"WRITE BATCH" + struct.pack(">IQ", len(records), 0)
    return batch_header + records


def journal(directory: Path, *commands: bytes, number: int = 1, tail: bytes = b"\0" * 4096) -> str:
    directory.mkdir(exist_ok=True)
    (directory / f"db-{number}.log").write_bytes(b"".join(batch(encoded) for encoded in commands) + tail)
    return str(directory)


def test_acknowledged_message_does_not_count_as_remaining(tmp_path: Path) -> None:
    store = journal(tmp_path, add(QUEUE, "q", "1"), add(QUEUE, "q", "2"), add(QUEUE, "r", "3"), remove(QUEUE, "q", "1"))

    assert remaining_messages.count_remaining_messages(store).queues == {"q": 1, "r": 1}


def test_subscription_has_remaining_messages_since_its_creation(tmp_path: Path) -> None:
    store = journal(
        tmp_path,
        subscribe("t", "a:s"),
        add(TOPIC, "t", "1"),
        subscribe("t", "b:s"),
        add(TOPIC, "t", "2"),
        remove(TOPIC, "t", "1", "a:s"),
    )

    assert remaining_messages.count_remaining_messages(store).subscriptions == {("t", "a:s"): 1, ("t", "b:s"): 1}


def test_removed_subscription_has_no_remaining_messages(tmp_path: Path) -> None:
    store = journal(tmp_path, subscribe("t", "a:s"), add(TOPIC, "t", "1"), subscribe("t", "a:s", removed=True))

    assert remaining_messages.count_remaining_messages(store).subscriptions == {}


def test_subscription_created_again_keeps_its_remaining_messages(tmp_path: Path) -> None:
    store = journal(tmp_path, subscribe("t", "a:s"), add(TOPIC, "t", "1"), subscribe("t", "a:s"))

    assert remaining_messages.count_remaining_messages(store).subscriptions == {("t", "a:s"): 1}


def test_subscription_without_creation_record_counts_unacknowledged_messages(tmp_path: Path) -> None:
    store = journal(tmp_path, add(TOPIC, "t", "1"), add(TOPIC, "t", "2"), remove(TOPIC, "t", "1", "a:s"), number=9)

    counts = remaining_messages.count_remaining_messages(store, [("t", "a:s"), ("t", "silent:s")])

    assert counts.subscriptions == {("t", "a:s"): 1, ("t", "silent:s"): 2}
    assert not counts.whole


@pytest.mark.parametrize(
    ("end_kind", "queues"), [(4, {"q": 1}), (5, {}), (0, {})], ids=["committed", "rolled back", "open"]
)
def test_message_of_transaction_counts_only_after_commit(tmp_path: Path, end_kind: int, queues: dict[str, int]) -> None:
    end_commands = [command(end_kind, local_transaction(7))] if end_kind else []
    store = journal(
        tmp_path, add(QUEUE, "q", "1", local_transaction(7)), add(QUEUE, "q", "2", local_transaction(8)), *end_commands
    )

    assert remaining_messages.count_remaining_messages(store).queues == queues


def test_prepared_transaction_is_in_doubt_until_commit(tmp_path: Path) -> None:
    commands = [add(QUEUE, "q", "1", xa_transaction("x")), command(3, xa_transaction("x"))]

    assert remaining_messages.count_remaining_messages(journal(tmp_path / "a", *commands)).prepared == 1
    counts = remaining_messages.count_remaining_messages(
        journal(tmp_path / "b", *commands, command(4, xa_transaction("x")))
    )
    assert (counts.prepared, counts.queues) == (0, {"q": 1})


def test_removed_destination_has_no_remaining_messages(tmp_path: Path) -> None:
    assert (
        remaining_messages.count_remaining_messages(
            journal(tmp_path, add(QUEUE, "q", "1"), command(6, bytes_field(1, destination(QUEUE, "q"))))
        ).queues
        == {}
    )


def test_store_journal_files_are_read_in_numeric_order(tmp_path: Path) -> None:
    journal(tmp_path, remove(QUEUE, "q", "1"), number=10)

    assert remaining_messages.count_remaining_messages(journal(tmp_path, add(QUEUE, "q", "1"), number=9)).queues == {}


def test_truncated_last_batch_of_store_journal_is_not_counted(tmp_path: Path) -> None:
    truncated = batch(add(QUEUE, "q", "2"))[:-100]

    assert remaining_messages.count_remaining_messages(
        journal(tmp_path, add(QUEUE, "q", "1"), tail=truncated)
    ).queues == {"q": 1}


@pytest.mark.parametrize(
    "broken",
    [b"\0" * 64, struct.pack(">IB", 9, 7) + b"\0" * 4, struct.pack(">IB", 1 << 30, 1)],
    ids=["hole", "kind", "size"],
)
def test_messages_of_journal_with_damage_before_its_end_cannot_be_counted(tmp_path: Path, broken: bytes) -> None:
    store = journal(tmp_path, add(QUEUE, "q", "1"), tail=broken + batch(remove(QUEUE, "q", "1")))

    with pytest.raises(NodeError, match="cannot be counted"):
        remaining_messages.count_remaining_messages(store)


def test_messages_of_journal_with_unreadable_command_cannot_be_counted(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match=r"1 place .* cannot be read"):
        remaining_messages.count_remaining_messages(journal(tmp_path, b"\x01\x7f\x12"))


def test_higher_message_count_of_jmx_and_store_is_used(tmp_path: Path) -> None:
    store = journal(tmp_path, add(QUEUE, "stored", "1"), subscribe("t", "desk:all"), add(TOPIC, "t", "1"))
    view = MessagesClientsAndBridgesFromJmx(
        queues={"stored": 0, "fleeting": 2}, subscriptions={("t", "desk", "all"): 0}
    )

    counts = higher_message_counts_of_jmx_and_store(view, store, current_account())

    assert counts["queues"] == {"fleeting": 2, "stored": 1}
    assert counts["subscriptions"] == [{"topic": "t", "client": "desk", "name": "all", "messages": 1}]
    assert counts["messages"] == 4
    assert counts["certain"]


def test_message_counts_of_cleaned_journal_are_uncertain_only_with_topics(tmp_path: Path) -> None:
    assert (
        higher_message_counts_of_jmx_and_store(
            None, journal(tmp_path / "a", add(TOPIC, "t", "1"), number=4), current_account()
        )["certain"]
        is False
    )
    assert (
        higher_message_counts_of_jmx_and_store(
            None, journal(tmp_path / "b", remove(QUEUE, "q", "1"), number=4), current_account()
        )["certain"]
        is True
    )
