# Copyright: the activemq.fleet authors
# SPDX-License-Identifier: Apache-2.0
"""Removes generations that are out of use, and lists the messages of those that must be kept.

A frozen broker may have acknowledged messages after its files were copied. These messages are in its generation, after
the offsets that the next claim records. So a generation is removed only when its broker is known to be dead, and its
messages after those offsets were sent to the pair again, or do not exist. Otherwise the generation is kept, and the
messages are listed in a file. Every guard may do this at any time, because a generation is never used again after a
later claim has replaced it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from ..files import disk
from ..files.untrusted_paths import open_file
from ..kahadb import journal, openwire_message
from .shared_store import SharedStore

_KEPT_CLAIMS = 100
"""The number of claims whose records are kept, for operators, after their generations were removed. Each record has a
few kilobytes."""


@dataclass(frozen=True)
class UncopiedMessage:
    """A message in an old generation (copy of the shared store) that was not copied to the next generation.

    The broker wrote it after the other node, which had taken over, had copied the generation. ``destination`` is type
    and name as in ``journal.JournalCommand``. The message is an OpenWire frame of ``size`` bytes at ``offset`` of the
    data file ``path``. ``in_doubt``: its XA transaction was prepared, but not decided.
    """

    destination: str
    message: str
    path: str
    offset: int
    size: int
    in_doubt: bool

    def read_frame_of_uncopied_message(self) -> bytes:
        """Return the bytes (OpenWire frame) of this message, read from the data file of the old copy of the store.

        Raises OSError, UntrustedPathError.
        """
        with os.fdopen(open_file(self.path), "rb") as file:
            file.seek(self.offset)
            return file.read(self.size)

    def to_dict(self) -> dict[str, str]:
        """Return, as a dict for JSON, a message that only an old generation (copy of the shared store) contains.

        The dict has the destination, the message id and, for an agent's event, the event id.
        """
        event = openwire_message.event_id_of_message(self.read_frame_of_uncopied_message())
        return {
            "destination": journal.destination_url(self.destination),
            "message": self.message,
            **({"event": event} if event else {}),
            **({"transaction": "prepared, but neither committed nor rolled back"} if self.in_doubt else {}),
        }


def uncopied_messages(store: SharedStore, generation_number: int) -> Iterator[UncopiedMessage]:
    """Yield each message that was added to a generation (copy of the shared store) after the next one was made from it.

    The generation received them after its files were copied. A message of a transaction counts if the commit came after
    the copy. Raises OSError, FenceError.
    """
    claim, _unused = store.read_claim_and_details(generation_number)
    _next_claim, next_claim_record = store.read_claim_and_details(generation_number + 1)
    if next_claim_record.get("is_whole"):
        return
    yield from uncopied_messages_of_generation(
        store.generation_directory_path(claim.directory), next_claim_record["open_file"], next_claim_record["ends"]
    )


def uncopied_messages_of_generation(generation: str, open_file: str, ends: dict[str, int]) -> Iterator[UncopiedMessage]:
    """Yield each message that was added to a directory of store files after the next copy was made from its files.

    They were written after the copied offsets of its data files. ``open_file`` and ``ends`` are as in
    ``GenerationCopyResult``.
    """
    names = sorted(filter(journal.FILE.fullmatch, os.listdir(generation)), key=journal.data_file_number)
    behind = {
        name: ends.get(name, 0)
        for name in names
        if name == open_file or journal.data_file_number(name) > journal.data_file_number(open_file)
    }
    prepared: set[bytes] = set()
    committed: set[bytes] = set()
    for name, offset in behind.items():
        for command in journal.read_data_file_commands(os.path.join(generation, name), offset):
            if command.kind == journal.PREPARE:
                prepared.add(command.transaction)
            elif command.kind in (journal.COMMIT, journal.ROLLBACK):
                prepared.discard(command.transaction)
                (committed.add if command.kind == journal.COMMIT else committed.discard)(command.transaction)
    # 5.14 and later write a commit again when they move acknowledgements, so an earlier commit of it may exist.
    for name in names if committed else ():
        if behind.get(name) != 0:
            path = os.path.join(generation, name)
            for command in journal.read_data_file_commands(path, 0, behind.get(name), (journal.COMMIT,)):
                committed.discard(command.transaction)
    decided = committed | prepared
    for name in names if decided else behind:
        path = os.path.join(generation, name)
        for command in journal.read_data_file_commands(path, 0 if decided else behind[name]):
            start, stop = command.content
            is_behind = not decided or (name in behind and start >= behind[name])
            if command.kind == journal.ADD and (
                command.transaction in decided or (is_behind and not command.transaction)
            ):
                in_doubt = command.transaction in prepared
                yield UncopiedMessage(command.destination, command.message, path, start, stop - start, in_doubt)


def remove_and_describe_old_store_copies(store: SharedStore) -> Iterator[str]:
    """Remove the obsolete generations (numbered copies) of a shared store, and yield a sentence for each of them.

    The sentence reports that a generation was removed, or why it is kept. The iterator removes while it is consumed. A
    generation is obsolete if a newer one replaced it, its broker is dead, and all its messages were copied to a newer
    one or sent to the pair again. Also removes the records of removed generations, except for the last hundred. Raises
    OSError, FenceError.
    """
    highest = store.highest_claim()
    claims = store.claim_numbers()
    for number, directories in store.generation_names_by_number().items():
        if highest is None or number > highest.number:
            break
        claimed = store.read_claim_and_details(number)[0].directory
        for directory in directories:
            if directory != claimed or (number < highest.number and number + 1 not in claims):
                # Another directory has its number, or it was claimed after later claims: no broker has opened it.
                disk.remove_tree_or_file(store.generation_directory_path(directory))
            elif number < highest.number:
                yield from _tidy_claimed(store, number, store.generation_directory_path(directory))
    if highest is not None:
        store.remove_claims_below(highest.number - _KEPT_CLAIMS)


def _tidy_claimed(store: SharedStore, number: int, path: str) -> Iterator[str]:
    what = f"generation {number}, an old copy of the store {store.directory}"
    if store.were_uncopied_messages_replayed(number):
        disk.remove_tree_or_file(path)
        yield f"{what}, was removed, because its messages were sent to the pair again"
    elif store.is_broker_recorded_dead(number) and not os.path.lexists(store.uncopied_message_list_path(number)):
        rows = [message.to_dict() for message in uncopied_messages(store, number)]
        if rows:
            store.write_uncopied_message_list(number, rows)
            yield (
                f"{what}, is kept, because no newer copy contains {len(rows)} of its messages. The file "
                f"{store.uncopied_message_list_path(number)} lists these messages. Send them to the pair with "
                "activemq-fleet store replay"
            )
        else:
            disk.remove_tree_or_file(path)
            yield f"{what}, was removed, because a newer copy of the store has all its messages"
