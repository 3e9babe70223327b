"""Exports the journal of a store into files: JSON lines in ``agent/*.jsonl``, rotated by size and kept for seven days.

The store deletes a record only after the record is on the disk in such a file, so each record is written at least once.
After a crash, some records are written twice. Readers count each (agent, epoch, jseq) once.
"""

from __future__ import annotations

import itertools
import os
import re
from pathlib import Path

from activemq_agent.agent_errors import AgentError
from activemq_agent.store import MachineClocks, Store
from activemq_agent.store.state_directory import sync_paths_to_disk

DIRECTORY = "agent"
"""Name of the journal's directory below the state directory."""
SIZE = 16 << 20
KEEP = 7 * 86400.0
DELETE_AFTER = 3600.0
"""Seconds, by the monotonic clock, for which a file must be too old by the wall clock before it is deleted."""
AT_ONCE = 32
"""Rows of the store's journal that are written and synced together: some 2,000 records, and 0.5 MB, at most."""

_NAME = re.compile(r"journal-([0-9]{9})\.jsonl")


class ExportedJournalFiles:
    """The files to which the event journal of an agent's store is exported.

    They are in ``directory``, and for use by one thread. ``size``: bytes after which the next file is begun. ``keep``:
    seconds, by the wall clock, after its last record that a file is kept. A file is deleted one hour later, so that a
    wall clock that is wrong for a shorter time deletes nothing.
    """

    def __init__(
        self, store: Store, directory: Path, *, size: int = SIZE, keep: float = KEEP, clock: MachineClocks | None = None
    ) -> None:
        self._store = store
        self._directory = directory
        self._size = size
        self._keep = keep
        self._clock = clock or MachineClocks()
        self._is_last_file_repaired = False
        self._too_old_since: dict[Path, float] = {}  # monotonic time at which each file was first found too old

    def export_new_journal_records(self) -> int:
        """Export new records of the agent's event journal from the store to its journal files; return their number.

        Raises AgentError if the files cannot be written.
        """
        written = 0
        try:
            while records := self._store.oldest_journal_records(AT_ONCE):
                self._append_lines("\n".join([*(record.line for record in records), ""]).encode())
                self._store.delete_exported_journal_records(records[-1].position)
                written += len(records)
            self._remove_old()
        except OSError as error:
            raise AgentError(
                f"the agent's event journal in {self._directory} cannot be written ({error.strerror}): check the free "
                "space and the owner of this directory"
            ) from error
        return written

    def files(self) -> list[Path]:
        """Return the paths of the files of the agent's event journal (``journal-*.jsonl``), sorted by name."""
        return sorted(path for path in self._directory.glob("journal-*.jsonl") if _NAME.fullmatch(path.name))

    def _append_lines(self, lines: bytes) -> None:
        path, is_new = self._current_file()
        with open(path, "ab", buffering=0, opener=_open_for_group) as file:
            previous_size = file.tell()
            try:
                unwritten = memoryview(lines)
                while unwritten:
                    unwritten = unwritten[file.write(unwritten) :]
                os.fsync(file.fileno())
            except OSError:
                file.truncate(previous_size)  # an incomplete line would make the next one unreadable
                raise
        if is_new:
            sync_paths_to_disk(self._directory)

    def _current_file(self) -> tuple[Path, bool]:
        """Return the file to append to, and whether that file has yet to be created."""
        self._directory.mkdir(mode=0o750, exist_ok=True)
        files = self.files()
        if not files:
            return self._directory / "journal-000000001.jsonl", True
        if not self._is_last_file_repaired:
            _remove_incomplete_line(files[-1])
            self._is_last_file_repaired = True
        if files[-1].stat().st_size < self._size:
            return files[-1], False
        number = int(files[-1].name[len("journal-") : -len(".jsonl")]) + 1
        return self._directory / f"journal-{number:09}.jsonl", True

    def _remove_old(self) -> None:
        oldest, now = self._clock.utc_now().timestamp() - self._keep, self._clock.seconds_since_boot()
        old_files = itertools.takewhile(lambda path: path.stat().st_mtime < oldest, self.files()[:-1])
        self._too_old_since = {path: self._too_old_since.get(path, now) for path in old_files}
        for path, since in self._too_old_since.items():
            if now - since >= DELETE_AFTER:
                path.unlink()


def _open_for_group(path: str, flags: int) -> int:
    """Open a file that only its owner may write, and that the owner and the group may read."""
    return os.open(path, flags, 0o640)


def _remove_incomplete_line(path: Path) -> None:
    """Cut off an incomplete last line that a crash left; its record is still in the store."""
    content = path.read_bytes()
    if not content.endswith(b"\n"):
        os.truncate(path, content.rfind(b"\n") + 1)
