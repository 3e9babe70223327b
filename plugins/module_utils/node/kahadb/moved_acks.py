# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Keeps brokers from writing messages into a data file of moved acknowledgements, where they would be lost.

5.14 and later move acknowledgements of an old data file into a new one, whose first record names the old one
(MessageDatabase.forwardAllAcks). A broker that starts continues in the last data file, even in such a file
(Journal.start). If it is killed before its next checkpoint, the following start reads the first record, and skips the
rest of the file while the old one exists (MessageDatabase.process of a KahaRewrittenDataFileCommand, 5.14.0 to 6.3.1).
The messages in it never get into the index, and are removed with the file. On 6.3.1 this lost 620 of 1,291,188
messages in two hours of crashes, without an error.
"""

from __future__ import annotations

import os

from ..files import disk
from . import journal
from .index import hold_store_lock_if_free

_TRACE_TEXT = "activemq.fleet created this data file, because the previous data file begins with moved acknowledgements"


def begin_data_file_if_acks_moved(store: str) -> str:
    """Begin a new data file of a kahaDB store if its last data file has acknowledgements that a cleanup moved to it.

    Returns the name of the new file. The new file contains one trace record, which brokers skip, and is synced. Returns
    "" if no file was created. No broker may use the store. Raises OSError.
    """
    number = _last_file_of_moved_acks(store)
    if not number:
        return ""
    name = f"db-{number + 1}.log"
    disk.replace_file(os.path.join(store, name), journal.encode_trace_batch(_TRACE_TEXT), 0o640)
    return name


def begin_data_file_unless_locked(store: str, root: str = "") -> str:
    """Begin a new data file of a kahaDB store, unless a broker holds the store's lock.

    The file is begun only after a data file with acknowledgements that kahaDB moved. Returns the name of the file, or
    "" if no file was created. ``root`` is as in ``hold_store_lock_if_free``.
    """
    if not _last_file_of_moved_acks(store):
        return ""
    with hold_store_lock_if_free(store, root) as is_unused:
        return begin_data_file_if_acks_moved(store) if is_unused else ""


def _last_file_of_moved_acks(store: str) -> int:
    """Return the number of the last data file if it begins with moved acknowledgements, else 0."""
    try:
        names = os.listdir(store)
    except FileNotFoundError:
        return 0
    for name in sorted(filter(journal.FILE.fullmatch, names), key=journal.data_file_number, reverse=True):
        kind = journal.first_record_kind(os.path.join(store, name))
        if kind is not None:  # A broker also skips an empty file.
            return journal.data_file_number(name) if kind == journal.MOVED_ACKS else 0
    return 0
