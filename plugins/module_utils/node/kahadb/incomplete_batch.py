# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Removes an incomplete batch at the end of a kahaDB journal with which brokers up to 5.11 do not start.

These brokers count a batch without a checksum as complete, even if its data file ends inside of it
(Journal.recoveryCheck). The start then fails with ``java.io.EOFException``. While it stops, the broker writes into the
index that everything is complete, so the second start serves without the messages since the last checkpoint. A killed
broker does not leave such a file, because it allocates the space of a data file first. An interrupted copy of a store
or a damaged file system does.
"""

from __future__ import annotations

import os

from ..errors import NodeError
from ..files import disk
from . import journal

REMOVED_SUFFIX = ".removed-batch"
"""The suffix of the file, next to the data file, that keeps the removed batch. No broker reads it."""
_LOSS_AND_REMEDY = (
    "The messages in this batch, and messages that were stored after it, are lost, unless a copy or a backup has the "
    f"complete data file. {journal.RECOVERY_FROM_COPY}"
)


def remove_incomplete_batch_at_journal_end(store: str) -> str:
    """Remove the incomplete batch at the end of a kahaDB store's journal; return a description, or "" without one.

    The data file is replaced by a new file, so that hard links to the old file, such as those of an earlier generation,
    keep the batch. No broker may use the store. Raises NodeError, OSError.
    """
    path_and_offset = _find_incomplete_batch(store)
    if path_and_offset is None:
        return ""
    path, offset = path_and_offset
    with open(path, "rb") as file:
        content = file.read()
        mode = os.fstat(file.fileno()).st_mode & 0o777
    disk.replace_file(path + REMOVED_SUFFIX, content[offset:], mode)
    disk.replace_file(path, content[:offset], mode)
    return (
        f"the data file {path} ended at byte {len(content)}, inside of its last batch of records. Brokers up to 5.11 "
        f"do not start with such a file. The check before the start therefore removed this batch, from byte {offset} "
        f"on, and saved it as {path}{REMOVED_SUFFIX}. {_LOSS_AND_REMEDY}"
    )


def describe_incomplete_batch_not_copied(store: str) -> str:
    """Describe the incomplete batch at the end of the journal of a kahaDB store that was copied without this batch.

    Returns "" without such a batch. An error of the check, which must not prevent a start, is described, too.
    """
    try:
        path_and_offset = _find_incomplete_batch(store)
    except (NodeError, OSError) as error:
        return f"the end of the journal of the store {store} was not checked: {error}"
    if path_and_offset is None:
        return ""
    path, offset = path_and_offset
    return (
        f"the data file {path} ends inside of its last batch of records. The copy of the store for this takeover does "
        f"not contain this batch, which begins at byte {offset}. The copied store keeps the batch until the guard "
        f"removes old generations. {_LOSS_AND_REMEDY}"
    )


def has_incomplete_last_batch(store: str) -> bool:
    """Return whether a kahaDB store's journal ends inside of a batch without a checksum. Raises NodeError, OSError."""
    return _find_incomplete_batch(store) is not None


def _find_incomplete_batch(store: str) -> tuple[str, int] | None:
    """Return the path of the last data file and the offset of the batch inside of which it ends; None without one."""
    name = journal.last_data_file(os.listdir(store)) if os.path.isdir(store) else ""
    path = os.path.join(store, name)
    offset = journal.start_offset_of_truncated_last_batch(path) if name else None
    return None if offset is None else (path, offset)
