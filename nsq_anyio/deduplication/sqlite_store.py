"""The store of ids in an SQLite file, for the consumers of one machine."""

from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

from ..errors import InvalidOption
from ..options.checks import check_integer, check_seconds
from ..sqlite_format import has_tables
from .records import Operation, Record, apply
from .store import Claimed
from .store_thread import StoreThread

_APPLICATION = 0x6E737149  # "nsqI"
_VERSION = 1
_PATIENCE = 5.0
"""The seconds to wait for another process that writes."""

_PURGED = 64
"""How many of the oldest ids each transaction looks at, beside as many as it adds."""


class SQLiteStore(StoreThread):
    """Ids in an SQLite file on a local disk. It serves the consumers of all processes of one machine.

    The file is in WAL mode: what a killed process has stored stays, and a machine that loses power may lose
    the last few transactions. Times are those of the machine's wall clock. An id takes about 150 bytes.

    :param path: the file, which is made if it is missing
    :param window: the seconds for which a handled message is remembered, 0.001 or more; default 3600
    :param size: about the most ids, 1 or more; default 1,000,000. Beyond that, the oldest are forgotten
    :raises InvalidOption: if a value is out of range
    """

    def __init__(
        self, path: str | os.PathLike[str], *, window: float = 3600.0, size: int = 1_000_000
    ) -> None:
        if not isinstance(path, str | os.PathLike) or not os.fspath(path):
            raise InvalidOption(f"path={path!r} is not valid: use the path of a file")
        check_seconds("window", window, 0.001)
        check_integer("size", size, 1)
        self._path = os.fspath(path)
        self._size = size
        super().__init__(window)

    def __repr__(self) -> str:
        return f"<SQLiteStore {self._path}>"

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=_PATIENCE, isolation_level=None)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        self._has_tables(connection)  # before anything is written, even the journal mode
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("BEGIN IMMEDIATE")  # of several processes, one makes the table
        if not self._has_tables(connection):
            connection.execute(
                "CREATE TABLE ids (place INTEGER PRIMARY KEY, id TEXT UNIQUE NOT NULL, "
                "value TEXT NOT NULL, until REAL NOT NULL)"
            )
            connection.execute(f"PRAGMA application_id={_APPLICATION}")
            connection.execute(f"PRAGMA user_version={_VERSION}")
        connection.execute("COMMIT")

    def _has_tables(self, connection: sqlite3.Connection) -> bool:
        return has_tables(connection, Path(self._path), application=_APPLICATION, version=_VERSION)

    def _perform(self, connection: sqlite3.Connection, operations: list[Operation]) -> list[Claimed]:
        connection.execute("BEGIN IMMEDIATE")
        now = time.time()
        answers = [_perform(connection, operation, now) for operation in operations]
        connection.execute(
            "DELETE FROM ids WHERE until <= ? AND place IN (SELECT place FROM ids ORDER BY place LIMIT ?)",
            (now, len(operations) + _PURGED),
        )
        # Places are given in order, so there are no more ids than places between the first and the last.
        connection.execute("DELETE FROM ids WHERE place <= (SELECT max(place) FROM ids) - ?", (self._size,))
        connection.execute("COMMIT")
        return answers

    def _close(self, connection: sqlite3.Connection) -> None:
        connection.close()  # which rolls an open transaction back


def _perform(connection: sqlite3.Connection, operation: Operation, now: float) -> Claimed:
    id = operation.claim.id
    row = connection.execute("SELECT value, until FROM ids WHERE id = ?", (id,)).fetchone()
    found = None if row is None else Record(*row)
    answer, record = apply(operation, found, now)
    if record is None:
        if found is not None:
            connection.execute("DELETE FROM ids WHERE id = ?", (id,))
    elif found is None or operation.kind == "done":
        connection.execute("INSERT OR REPLACE INTO ids (id, value, until) VALUES (?, ?, ?)", (id, *record))
    elif record != found:
        connection.execute("UPDATE ids SET value = ?, until = ? WHERE id = ?", (*record, id))
    return answer
