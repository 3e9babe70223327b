# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Removes generations that nobody needs any more, and names the messages of those that somebody does.

A broker that was frozen may have acknowledged messages after its files were copied. They lie in its generation, behind
the point that the claim of the next one tells. So a generation goes only when its broker is proved dead and nothing
lies there; else it is kept, and the messages are written down.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import suppress

from ..install import disk
from ..kahadb import journal
from .shared_store import SharedStore

_NUMBERED = re.compile(r"([1-9][0-9]{0,8})-[0-9a-f]{8,64}")


def messages_behind(generation: str, open_file: str, end: int) -> list[tuple[str, str]]:
    """Return destination and id of each message in a generation that the next one was made without.

    ``open_file`` is the journal file that was being written when the next one was made, ``end`` how many bytes were
    taken of it. Raises OSError.
    """
    return [
        (command.destination.partition(":")[2], command.message)
        for path, offset in _rest(generation, open_file, end)
        for command in journal.commands_after(path, offset)
        if command.kind == journal.ADD
    ]


def _rest(generation: str, open_file: str, end: int) -> Iterator[tuple[str, int]]:
    """Yield the files that the next generation does not have whole, and from where on. Moved ones bring no message."""
    names = sorted(filter(journal.FILE.fullmatch, os.listdir(generation)), key=journal.number_of)
    for name in names:
        if name == open_file or journal.number_of(name) > journal.number_of(open_file):
            yield os.path.join(generation, name), end if name == open_file else 0


def tidy(store: SharedStore, current: int) -> Iterator[str]:
    """Remove what can go of the generations before ``current``; yield a sentence for each that went or has to stay.

    Only the guard whose generation is in force may call this. Raises OSError, FenceError.
    """
    for directory in sorted(os.listdir(store.generations)):
        match = _NUMBERED.fullmatch(directory)
        number = int(match[1]) if match else 0
        if not 0 < number <= current:
            continue
        claim, _ = store.read_claim(number)
        if claim.directory != directory:
            # Its number is taken, so nobody can claim it any more.
            disk.remove_tree(store.generation(directory))
        elif number < current and store.has_ended(number) and not os.path.lexists(store.behind(number)):
            yield _end(store, number, directory)


def _end(store: SharedStore, number: int, directory: str) -> str:
    _, told = store.read_claim(number + 1)
    open_file = told["open_file"]
    messages = messages_behind(store.generation(directory), open_file, told["ends"].get(open_file, 0))
    if not messages:
        disk.remove_tree(store.generation(directory))
        return f"generation {number} is removed: the one after it has all that it held"
    rows = [{"destination": destination, "message": message} for destination, message in messages]
    with suppress(FileExistsError):
        disk.write_file(store.behind(number), json.dumps(rows, indent=1).encode(), 0o640, disk.Owner())
    return (
        f"generation {number} is kept: {len(messages)} messages in it came after the other node took over; "
        f"{store.behind(number)} names them"
    )
