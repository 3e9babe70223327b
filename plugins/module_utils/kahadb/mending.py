# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Mends what a killed broker leaves in its kahaDB stores, before the next one starts in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from .index import INDEX, UNUSABLE_SUFFIX, move_unusable_index
from .moved_acks import begin_data_file_unless_locked

_STORE_OF_MKAHADB = re.compile(r"(queue|topic)#3a#2f#2f.+|#210|0")
"""The name that an mKahaDB gives the directory of a store: of its destinations, or, for all others, as in
``Release.mkahadb_rest`` (MultiKahaDBPersistenceAdapter.nameFromDestinationFilter)."""


def mend_stores(root: str) -> Iterator[str]:
    """Mend what a killed broker left in its store, if no broker runs there; yield a sentence on each thing done.

    An index that needs a removed journal file is moved aside, and no message is to come into a file of moved
    acknowledgements. Of an mKahaDB in the directory ``root`` each store is mended. Raises OSError once all others are.
    """
    failed = None
    for store in _store_directories(root):
        try:
            yield from _mend(store, root)
        except OSError as error:
            failed = failed or error
    if failed:
        raise failed


def _mend(store: str, root: str) -> Iterator[str]:
    if lacked := move_unusable_index(store, root):
        yield (
            f"the index of {store} needs {', '.join(lacked)}, which its last clean-up removed: it is kept as "
            f"{INDEX[0]}{UNUSABLE_SUFFIX}, and the broker builds a new one from the journal"
        )
    if made := begin_data_file_unless_locked(store, root):
        yield f"{made} is made in {store}: no message is to follow the moved acknowledgements before it"


def _store_directories(root: str) -> list[str]:
    """Return ``root``, which is a kahaDB store or none, and the directories of the stores of an mKahaDB there."""
    try:
        names = sorted(os.listdir(root))
    except FileNotFoundError:
        return []
    below = (os.path.join(root, name) for name in names if _STORE_OF_MKAHADB.fullmatch(name))
    return [root, *filter(os.path.isdir, below)]
