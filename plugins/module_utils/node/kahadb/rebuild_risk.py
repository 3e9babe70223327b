# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Determines which messages of durable subscriptions are lost when a broker builds its index from the journal."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress

from ..errors import NodeError
from . import journal
from .index import INDEX, UNUSABLE_SUFFIX
from .index_pages import IndexPageError
from .indexed_subscriptions import index_version, subscriptions_in_index
from .kept_index import DIRECTORY as KEPT
from .remaining_messages import RecoverySimulation
from .risk_records import NO_RISK, RebuildRisk

_VERSION_SKIPPING_RECORDS = 5
"""The version of an index of 5.9 to 5.11."""


class RebuildRefusedError(Exception):
    """An error for a broker start that is refused, because rebuilding the kahaDB index would lose messages.

    The messages are those of durable subscriptions. The operator has not accepted their loss.
    """


def find_rebuild_risk(store: str, index_stores: Iterable[str] = ()) -> RebuildRisk:
    """Return how many messages each durable subscription may lose if a broker rebuilds the index of a kahaDB store.

    A broker builds the index from the journal. The subscriptions are those of the store's index, of an index that was
    moved aside, of a kept copy, of the same files in ``index_stores``, and of the journal. If the journal has all data
    files since its first one, nothing is at risk, except on releases that skip the records of subscriptions (5.11.4:
    "ignoring add sub command during recovery replay"). An index of version 5, and one that cannot be read, may be of
    such a release. Raises OSError.
    """
    known, versions = _known_subscriptions([store, *index_stores])
    is_complete = bool(versions)
    reads_records = is_complete and _VERSION_SKIPPING_RECORDS not in versions
    numbers = []
    with suppress(FileNotFoundError):
        numbers = sorted(filter(None, map(journal.data_file_number, os.listdir(store))))
    if not numbers or (reads_records and numbers == list(range(1, len(numbers) + 1))):
        return NO_RISK
    simulation = RecoverySimulation()
    try:
        for command in journal.read_journal_commands_and_set_tail(store, journal.JournalEnd()):
            simulation.apply_record(command)
        lost: dict[tuple[str, str], int | None] = dict(
            simulation.max_lost_messages_by_subscription(known, is_complete=is_complete, reads_records=reads_records)
        )
    except NodeError:
        lost = {(destination.partition(":")[2], key): None for destination, key in sorted(known)}
        if not is_complete:
            lost["", ""] = None
    return RebuildRisk(lost, is_complete)


def _known_subscriptions(stores: Iterable[str]) -> tuple[set[tuple[str, str]], set[int]]:
    """Return the subscriptions of all readable indexes, and the versions of these indexes."""
    known: set[tuple[str, str]] = set()
    versions: set[int] = set()
    for store in stores:
        for path in (
            os.path.join(store, INDEX[0]),
            os.path.join(store, INDEX[0] + UNUSABLE_SUFFIX),
            os.path.join(store, KEPT, "copy", INDEX[0]),
        ):
            with suppress(IndexPageError, FileNotFoundError):
                known |= subscriptions_in_index(path)
                versions.add(index_version(path))
    return known, versions
