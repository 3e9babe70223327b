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

from ..files import disk
from . import journal

REMOVED_SUFFIX = ".removed-batch"
"""The suffix of the file, next to the data file, that keeps the removed batch. No broker reads it."""


def remove_cut_batch(store: str) -> str:
    """Remove the incomplete batch at the end of a kahaDB store's journal; return a description, or "" without one.

    No broker may use the store. Raises OSError.
    """
    name = _last_data_file(store)
    path = os.path.join(store, name)
    offset = journal.offset_of_cut_batch(path) if name else None
    if offset is None:
        return ""
    with open(path, "r+b") as file:
        file.seek(offset)
        batch = file.read()
        disk.replace_file(path + REMOVED_SUFFIX, batch, os.fstat(file.fileno()).st_mode & 0o777)
        file.truncate(offset)
        os.fsync(file.fileno())
    return (
        f"the data file {path} ended at byte {offset + len(batch)}, inside of its last batch of records. This batch "
        f"was removed from byte {offset} on and saved as {path}{REMOVED_SUFFIX}, because brokers up to 5.11 do not "
        "start with it. The messages in it, and all later ones, are lost. If a copy or a backup has the complete data "
        "file, stop both nodes and restore it"
    )


def has_cut_batch(store: str) -> bool:
    """Return whether the journal of a kahaDB store ends inside of a batch without a checksum. Raises OSError."""
    name = _last_data_file(store)
    return bool(name) and journal.offset_of_cut_batch(os.path.join(store, name)) is not None


def _last_data_file(store: str) -> str:
    """Return the name of the last data file of a store that is not empty; "" without one."""
    names = filter(journal.FILE.fullmatch, os.listdir(store)) if os.path.isdir(store) else ()
    for name in sorted(names, key=journal.data_file_number, reverse=True):
        if os.path.getsize(os.path.join(store, name)):
            return name
    return ""
