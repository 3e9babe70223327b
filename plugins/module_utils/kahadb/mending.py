# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Mends what a killed broker leaves in its kahaDB stores, before the next one starts in them."""

from __future__ import annotations

import os
from collections.abc import Iterator

from .index import INDEX, UNUSABLE_SUFFIX, is_store_file, move_unusable_index
from .moved_acks import begin_data_file_unless_locked


def mend_store(root: str) -> Iterator[str]:
    """Mend what a killed broker left in its store, if no broker runs there; yield a sentence on each thing done.

    An index that needs a removed journal file is moved aside, and no message is to come into a file of moved
    acknowledgements. Of an mKahaDB each store is mended. Raises OSError.
    """
    for store in _store_directories(root):
        if lacked := move_unusable_index(store, root):
            yield (
                f"the index of {store} needs {', '.join(lacked)}, which its last clean-up removed: it is kept as "
                f"{INDEX[0]}{UNUSABLE_SUFFIX}, and the broker builds a new one from the journal"
            )
        if made := begin_data_file_unless_locked(store, root):
            yield f"{made} is made in {store}: no message is to follow the moved acknowledgements before it"


def _store_directories(root: str) -> list[str]:
    """Return ``root`` and the directories in it, those that hold a kahaDB store: an mKahaDB has several."""
    try:
        with os.scandir(root) as entries:
            found = [root, *sorted(entry.path for entry in entries if entry.is_dir())]
    except FileNotFoundError:
        return []
    return [store for store in found if any(map(is_store_file, os.listdir(store)))]
