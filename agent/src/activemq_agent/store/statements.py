"""SQL statements of a handler that run in the transaction that records its message as handled: exactly once."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

PREFIX = "x_"
"""Prefix of handlers' tables and indexes; their statements cannot touch the store's own tables."""

_READ = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE}
_WRITE = {
    sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE, sqlite3.SQLITE_CREATE_TABLE,
    sqlite3.SQLITE_CREATE_INDEX, sqlite3.SQLITE_DROP_TABLE, sqlite3.SQLITE_DROP_INDEX, sqlite3.SQLITE_REINDEX,
}  # fmt: skip
_OF_SQLITE = ("sqlite_master", "sqlite_autoindex_x_")


class Statements:
    """The SQL statements that a handler adds for its own tables; they run when its message is recorded as handled."""

    def __init__(self) -> None:
        self._all: list[tuple[str, Sequence[Any]]] = []

    def execute(self, sql: str, values: Sequence[Any] = ()) -> None:
        """Add an SQL statement on tables that begin with ``x_``; it runs when the message is recorded as handled."""
        self._all.append((sql, values))

    def run(self, db: sqlite3.Connection) -> None:
        """Run the statements in the open transaction.

        Raises sqlite3.Error for a statement that is wrong or not allowed.
        """
        if not self._all:
            return
        db.set_authorizer(_authorize)
        try:
            for sql, values in self._all:
                db.execute(sql, values)
        finally:
            db.set_authorizer(None)


def _authorize(action: int, name: str | None, *_: str | None) -> int:
    if action in _READ:
        return sqlite3.SQLITE_OK
    if action in _WRITE and name is not None and name.startswith((PREFIX, *_OF_SQLITE)):
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY
