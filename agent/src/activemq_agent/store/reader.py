"""Read the store while its writer runs: events to send, messages to handle, journal records to export.

Every row is checked against its checksum.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from activemq_agent.agent_errors import AgentError
from activemq_agent.store.rows import has_valid_checksum
from activemq_agent.store.schema import connect_to_database


class StoreReader:
    """A reader of an agent's store, by a read-only connection to its SQLite database.

    It is for any thread. Each call sees the state committed before it began.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._db = path, connect_to_database(path, readonly=True)
        self._lock = threading.Lock()
        self._damaged_rows: set[tuple[str, int]] = set()

    @property
    def damaged_rows_read_count(self) -> int:
        """The number of damaged rows that were read from an agent's store, that is, rows that failed their checksum.

        Such rows are never returned, and are moved out of the store at the next start.
        """
        return len(self._damaged_rows)

    def close(self) -> None:
        """Close the read-only database connection to the agent's store, after the reader's running calls have ended."""
        with self._lock:
            self._db.close()

    def first_row(self, query: str) -> tuple[Any, ...]:
        """Return the first row of an SQL query on an agent's store.

        Raises AgentError if the file cannot be read.
        """
        with self._open_cursor(query) as cursor:
            row: tuple[Any, ...] = cursor.fetchone()
        return row

    def undamaged_rows(
        self, table: str, condition: str, *values: Any, limit: int, most_bytes: int | None = None
    ) -> list[tuple[Any, ...]]:
        """Return, as tuples, rows of an agent's database table that meet an SQL condition and match their checksums.

        The rows are ordered by their keys. They have all columns. At most ``limit`` rows, which have at most
        ``most_bytes`` of text and blobs together unless the first one alone has more. Raises AgentError if the file
        cannot be read.
        """
        rows: list[tuple[Any, ...]] = []
        size = 0
        with self._open_cursor(f"SELECT * FROM {table} WHERE {condition} ORDER BY 1", *values) as cursor:  # noqa: S608
            for row in cursor:
                if not has_valid_checksum(table, row):
                    self._damaged_rows.add((table, row[0]))
                    continue
                size += sum(len(value) for value in row if isinstance(value, (str, bytes)))
                if rows and most_bytes is not None and size > most_bytes:
                    break
                rows.append(row)
                if len(rows) >= limit:
                    break
        return rows

    @contextmanager
    def _open_cursor(self, query: str, *values: Any) -> Iterator[sqlite3.Cursor]:
        with self._lock:
            try:
                with closing(self._db.execute(query, values)) as cursor:
                    yield cursor
            except sqlite3.Error as error:
                raise AgentError(
                    f"{self._path}: the agent's store cannot be read ({error}): restart the agent. It then repairs "
                    "the store, and keeps all readable data"
                ) from error
