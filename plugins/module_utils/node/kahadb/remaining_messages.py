# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Counts the messages that are left in a kahaDB store of 5.3 to 5.7, from its journal.

A broker of these releases cannot count them: JMX reports 0 messages for a durable subscription without a connected
client (measured on 5.5.1). The journal has every stored message and every acknowledgement, whether the broker runs or
not. The broker removes a data file only when no message in it is left (source: MessageDatabase.checkpointUpdate).
Invariant: the count of a queue or of a known subscription is never too low. It may be too high if the file with the
acknowledgement was removed before the file with the message.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..errors import NodeError
from ..files.untrusted_paths import open_directory
from ..printable import count_with_noun
from . import journal
from .journal import JournalCommand

MAX_RECORDS = 20_000_000
"""Maximum number of messages, acknowledgements and subscriptions in memory."""


@dataclass
class MessageCounts:
    """The numbers of messages that remain in a kahaDB store, by queue, by subscription and by topic.

    A subscription is (topic, subscription). ``prepared`` is the number of XA transactions in doubt. ``whole``: no data
    file was ever removed, so the journal has every subscription.
    """

    queues: dict[str, int] = field(default_factory=dict)
    subscriptions: dict[tuple[str, str], int] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    prepared: int = 0
    whole: bool = True


def count_remaining_messages(directory: str, known: Iterable[tuple[str, str]] | None = None) -> MessageCounts:
    """Return how many unacknowledged messages a kahaDB store has, by queue and by durable subscription.

    They are counted from its journal. ``known``: the existing (topic, subscription key) pairs; None: those in the
    journal. Raises NodeError for a journal that cannot be read to its end.
    """
    try:
        open_directory(directory).close()
    except FileNotFoundError:
        raise NodeError(
            f"the store directory {directory} does not exist: start the broker once, or correct "
            "activemq_store_directory"
        ) from None
    recovery, tail = RecoverySimulation(), journal.JournalEnd()
    try:
        for command in journal.read_journal_commands_and_set_tail(directory, tail):
            recovery.apply_record(command)
        files = journal.data_file_numbers_and_sizes(directory)
    except OSError as error:
        raise NodeError(
            f"the store {directory} cannot be read ({error.strerror}): check its mount and its permissions"
        ) from None
    if tail.damaged or tail.unread:
        raise NodeError(
            f"the messages in the store {directory} cannot be counted, because "
            f"{count_with_noun(tail.damaged + tail.unread, 'place')} of its journal cannot be read. List the places "
            f"and their damage with activemq-fleet store inspect {directory}"
        )
    counts = recovery.message_counts_after_recovery(None if known is None else set(known))
    counts.whole = not files or files[0][0] <= 1
    return counts


class RecoverySimulation:
    """A simulated recovery of a kahaDB store from its journal, which counts the messages left in the store.

    It applies journal records in order. Pure.
    """

    def __init__(self) -> None:
        self._messages: dict[str, dict[str, None]] = defaultdict(dict)
        self._subscriptions_by_topic: dict[str, set[str]] = defaultdict(set)
        self._acknowledged: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._first_position_by_pair: dict[tuple[str, str], int] = {}
        self._removed_subscriptions: set[tuple[str, str]] = set()
        self._transactions = journal.OpenTransactions()
        self._held_count = 0

    def apply_record(self, command: JournalCommand) -> None:
        """Apply the next record of a journal to the simulated recovery of a kahaDB store.

        Raises NodeError above ``MAX_RECORDS`` records.
        """
        for effective_command in self._transactions.records_applied_by_command(command):
            self._apply_effective_command(effective_command)
        if self._held_count + self._transactions.held > MAX_RECORDS:
            raise NodeError(
                "the messages in the store of this broker were not counted, because the store has more than "
                f"{MAX_RECORDS} messages and acknowledgements: let clients consume messages until the broker "
                "has deleted old journal files, and run the command again"
            )

    def holds_message(self, destination: str, message: str) -> bool:
        """Return whether the simulated store holds a message, in its queue or for a subscription of its topic."""
        if message not in self._messages.get(destination, ()):
            return False
        keys = self._subscriptions_by_topic.get(destination, ())
        has_subscriptions = destination.startswith(journal.TOPICS) and keys
        return not has_subscriptions or any(
            message not in self._acknowledged.get((destination, key), ()) for key in keys
        )

    def _apply_effective_command(self, command: JournalCommand) -> None:
        name = command.destination
        if command.kind == journal.REMOVE_DESTINATION:
            self._held_count -= len(self._messages.pop(name, {}))
            self._subscriptions_by_topic.pop(name, None)
        elif command.kind == journal.SUBSCRIPTION:
            self._held_count += 1
            self._apply_subscription(name, command.subscription, command.info)
        elif command.kind == journal.ADD:
            self._held_count += command.message not in self._messages[name]
            self._messages[name][command.message] = None
        elif command.kind == journal.REMOVE and name.startswith(journal.TOPICS):
            self._held_count += 1
            self._acknowledged[name, command.subscription].add(command.message)
        elif command.kind == journal.REMOVE and command.message in self._messages[name]:
            self._held_count -= 1
            self._messages[name].pop(command.message)

    def _apply_subscription(self, topic: str, key: str, creates: bool) -> None:
        """Create or remove a subscription; a subscription that is created again keeps its waiting messages."""
        if creates and key not in self._subscriptions_by_topic[topic]:
            # Earlier acknowledgements are kept, because a cleanup may have moved the record.
            self._subscriptions_by_topic[topic] |= {key}
            self._first_position_by_pair[topic, key] = len(self._messages[topic])
            self._removed_subscriptions.discard((topic, key))
        elif not creates:
            self._acknowledged.pop((topic, key), None)
            self._first_position_by_pair.pop((topic, key), None)
            self._subscriptions_by_topic[topic] -= {key}
            self._removed_subscriptions.add((topic, key))

    def message_counts_after_recovery(self, subscriptions: set[tuple[str, str]] | None = None) -> MessageCounts:
        """Return how many messages a kahaDB store has after its simulated recovery, by queue and durable subscription.

        The counts result from the journal records applied so far. ``subscriptions``: the (topic, subscription key)
        pairs to count; None: those in the journal. For a subscription whose first record is no longer in the journal,
        all messages that it has not acknowledged count.
        """
        journal_pairs = {(topic, key) for topic, keys in self._subscriptions_by_topic.items() for key in keys}
        journal_pairs |= {pair for pair in self._acknowledged if pair not in self._removed_subscriptions}
        counted_pairs = (
            journal_pairs if subscriptions is None else {(f"1:{topic}", key) for topic, key in subscriptions}
        )
        positions = {
            name: {message: position for position, message in enumerate(messages)}
            for name, messages in self._messages.items()
            if name.startswith(journal.TOPICS)
        }
        remaining = {pair: self._count_remaining(positions.get(pair[0], {}), pair) for pair in counted_pairs}
        return MessageCounts(
            queues={
                name.partition(":")[2]: len(messages)
                for name, messages in self._messages.items()
                if messages and name not in positions
            },
            subscriptions={
                (topic.partition(":")[2], key): number for (topic, key), number in sorted(remaining.items())
            },
            topics={name.partition(":")[2]: len(messages) for name, messages in positions.items() if messages},
            prepared=self._transactions.prepared_xa_count(),
        )

    def max_lost_messages_by_subscription(
        self, known_subscriptions: set[tuple[str, str]], *, is_complete: bool, reads_records: bool
    ) -> dict[tuple[str, str], int]:
        """Return the maximum number of messages that a rebuild of the index loses, by durable subscription.

        The index is built from the journal of the kahaDB store. Each key of the dict is a pair of topic and
        subscription key. ``known_subscriptions``: (destination, key) pairs in addition to those of the journal.
        ``is_complete`` False: there may be other subscriptions, which are listed with an empty key. A subscription gets
        the messages after its record. It gets none without a record, or if the broker skips such records
        (``reads_records`` False).
        """
        pairs = (
            known_subscriptions
            | set(self._acknowledged)
            | {(topic, key) for topic, keys in self._subscriptions_by_topic.items() for key in keys}
        )
        if not is_complete:
            pairs |= {(topic, "") for topic in self._messages if topic.startswith(journal.TOPICS)}
        lost = {}
        topic, positions = "", {}
        for destination, key in sorted(pairs - self._removed_subscriptions):
            if destination != topic:
                topic = destination
                positions = {message: position for position, message in enumerate(self._messages.get(topic, ()))}
            waiting = len(positions) - sum(message in positions for message in self._acknowledged.get((topic, key), ()))
            has_record = reads_records and key in self._subscriptions_by_topic.get(topic, ())
            delivered = self._count_remaining(positions, (topic, key)) if has_record else 0
            if waiting > delivered:
                lost[topic.partition(":")[2], key] = waiting - delivered
        return lost

    def _count_remaining(self, positions: dict[str, int], pair: tuple[str, str]) -> int:
        """Return the number of a topic's messages since the subscription was created, without the acknowledged ones.

        The time is proportional to the number of the subscription's acknowledgements.
        """
        first_position = self._first_position_by_pair.get(pair, 0)
        acknowledged = sum(
            1 for message in self._acknowledged.get(pair, ()) if positions.get(message, -1) >= first_position
        )
        return max(0, len(positions) - first_position) - acknowledged
