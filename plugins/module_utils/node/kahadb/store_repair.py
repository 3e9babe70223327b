# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Repairs the kahaDB stores of a killed broker before the next broker opens them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

from ..errors import NodeError
from ..host_paths import MKAHADB_STORE_NAME
from .incomplete_batch import has_incomplete_last_batch, remove_incomplete_batch_at_journal_end
from .index import (
    INDEX,
    UNUSABLE_SUFFIX,
    describe_unusable_index,
    hold_store_lock_if_free,
    missing_journal_file_names,
    move_index_aside,
)
from .journal_end_check import describe_missing_journal_end
from .kept_index import KeptIndex
from .moved_acks import begin_data_file_unless_locked
from .rebuild_risk import RebuildRefusedError, find_rebuild_risk
from .risk_records import record_rebuild_risk


def repair_killed_broker_stores(root: str, *, accept_loss: bool) -> Iterator[str]:
    """Repair the kahaDB stores of a broker that was killed, so that the broker can start on them.

    Yields one sentence for each repair, and one for a journal whose end is missing, which cannot be repaired. Nothing
    is done if a broker runs there. An unusable index is replaced by the kept copy, or moved aside. An incomplete batch
    at the end of the journal is removed. A new data file prevents that messages are written to a file of moved
    acknowledgements. If ``root`` is an mKahaDB, each of its stores is repaired. ``accept_loss``: an index is moved
    aside even if the broker then loses messages of durable subscriptions, which are recorded first. Without it such an
    index raises RebuildRefusedError. Errors, also OSError, are raised after all other stores are repaired.
    """
    failed: OSError | RebuildRefusedError | None = None
    for store in store_directories(root):
        try:
            yield from _repair_store(store, root, accept_loss=accept_loss)
        except (OSError, RebuildRefusedError) as error:
            failed = failed or error
    if failed:
        raise failed


def _repair_store(store: str, root: str, *, accept_loss: bool) -> Iterator[str]:
    if describe_unusable_index(store):
        # If the caller stops early, the stack is closed and releases the lock.
        with ExitStack() as stack:
            if stack.enter_context(hold_store_lock_if_free(store, root)):
                yield from _replace_index(store, accept_loss=accept_loss)
    if _may_lack_journal_end(store):
        with ExitStack() as stack:
            # A running broker may change the store during the checks, so that they are repeated with the lock.
            if stack.enter_context(hold_store_lock_if_free(store, root)):
                yield from filter(
                    None, (remove_incomplete_batch_at_journal_end(store), describe_missing_journal_end(store))
                )
    if created_file := begin_data_file_unless_locked(store, root):
        yield (
            f"the empty data file {created_file} was created in the store {store}, so that the broker writes new "
            "messages to it. The previous data file begins with acknowledgements that the broker moved from an older "
            "file. Without the new file, messages could be lost. No action is required"
        )


def _may_lack_journal_end(store: str) -> bool:
    """Return whether the end of a store's journal is incomplete, or cannot be checked while a broker changes it."""
    try:
        return has_incomplete_last_batch(store) or bool(describe_missing_journal_end(store))
    except (NodeError, OSError):
        return True


def _replace_index(store: str, *, accept_loss: bool) -> Iterator[str]:
    """Replace an unusable index of a store by its kept copy, or move it aside; yield what was done.

    The index is checked again, because the previous holder of the lock may have written.
    """
    problem = describe_unusable_index(store)
    if not problem:
        return
    if restored := KeptIndex(store).restore_index(store, lambda: move_index_aside(store)):
        yield f"{problem}. The broker continues with {restored}"
        return
    risk = find_rebuild_risk(store)
    if risk and not accept_loss:
        raise RebuildRefusedError(
            f"{problem}, and no saved copy of the index exists. A broker that builds its index from the store "
            f"journal loses messages of these durable subscriptions: {risk.describe_subscriptions()}. Restore the "
            "store from a "
            f"backup, or accept this loss: activemq-guard --store {store} --mend --accept-loss (the program is "
            "INSTANCE-guard if activemq_instance is not activemq)"
        )
    if risk:
        path = record_rebuild_risk(store, store, problem, risk)
        yield (
            f"{problem}, so messages of these durable subscriptions may be lost: {risk.describe_subscriptions()}. "
            f"If the publishers still have these messages, publish them again. Then delete the file {path}, which "
            "lists these subscriptions"
        )
    if missing_journal_file_names(store):
        move_index_aside(store)
        yield (
            f"{problem}. This index was renamed to {INDEX[0]}{UNUSABLE_SUFFIX}, and the broker builds a new one "
            "from the store journal"
        )


def store_directories(root: str) -> list[str]:
    """Return the directories of the kahaDB stores below a directory.

    ``root`` itself is included, because it may be a store. The stores are those of an mKahaDB.
    """
    try:
        names = sorted(os.listdir(root))
    except FileNotFoundError:
        return []
    substores = (os.path.join(root, name) for name in names if MKAHADB_STORE_NAME.fullmatch(name))
    return [root, *filter(os.path.isdir, substores)]
