# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Reads from the index of a kahaDB store where in the journal its broker goes on at its start.

Up to 5.13 a clean-up removes journal files before the index of that moment is on the disk: ``checkpointUpdate``
flushes within the transaction that stores the new position, so what reaches the disk is the position of the checkpoint
before (MessageDatabase of 5.5.1 to 5.13.5; 5.14 flushes first and removes then). A broker that is killed before its
next checkpoint may leave an index that goes on in a file that is gone, and does not start with it again: "Could not
locate data file". Without ``db.data`` and ``db.redo`` a broker builds its index from the journal.
"""

from __future__ import annotations

import struct

_HEADER = 4096
"""Bytes before page 0 of an index (PageFile.PAGE_FILE_HEADER_SIZE)."""
_PAGE = struct.Struct(">B8x8x4x4x8x")
"""The head of page 0: type, transaction, next page, checksum; then the index's state and its page of destinations."""
_POSITION = struct.Struct(">ii")
_WHOLE_PAGE = 2


def recovery_file_number(path: str) -> int | None:
    """Return the number of the journal file in which a broker with the index at ``path`` begins to recover.

    That of the first transaction in progress, else that of the last update. None where it begins with the first file
    of all, where page 0 is not whole, or where there is no index. Raises OSError.
    """
    try:
        with open(path, "rb") as index:
            index.seek(_HEADER)
            page = index.read(_PAGE.size + 2 * (1 + _POSITION.size))
    except FileNotFoundError:
        return None
    if len(page) < _PAGE.size + 2 or page[0] != _WHOLE_PAGE:
        return None
    last_update, rest = _position(page[_PAGE.size :])
    in_progress, _ = _position(rest)
    return last_update if in_progress is None else in_progress


def _position(content: bytes) -> tuple[int | None, bytes]:
    """Split off a position that may be absent: return its file's number, and what follows it."""
    if len(content) < 1 + _POSITION.size or not content[0]:
        return None, content[1:]
    number, _offset = _POSITION.unpack_from(content, 1)
    return number, content[1 + _POSITION.size :]
