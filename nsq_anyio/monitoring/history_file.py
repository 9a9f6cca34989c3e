"""Storage of a history in an SQLite file, which survives a restart."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from threading import Lock
from typing import Self

import anyio
import anyio.to_thread

from ..errors import NSQError
from ..options.checks import check_seconds
from ..tasks import user_block_tasks
from .history import History
from .ring import RingState
from .snapshot import Key

_log = logging.getLogger(__name__)

_APPLICATION = 0x6E737161  # "nsqa"
_VERSION = 1
_TABLE = """
CREATE TABLE IF NOT EXISTS ring (
    topic TEXT, channel TEXT, step REAL, capacity INTEGER, last INTEGER, count INTEGER, means BLOB,
    PRIMARY KEY (topic, channel, step)
) WITHOUT ROWID
"""
_LONGEST_SAVE = 10.0


class HistoryFileUnusable(NSQError):
    """The file of a history is damaged, belongs to another program, is locked, or cannot be written."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"the history file {str(path)!r} cannot be used: {reason}")


class HistoryFile:
    """An open file, which no other process can open at the same time. Any thread may call the methods.

    Its size is bounded by that of the history, which is some 16 kB for each topic and channel.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = Lock()
        self._saved: dict[tuple[Key, float], tuple[int, int]] = {}

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a file, and create it if it is missing.

        :raises HistoryFileUnusable: if that fails
        """
        try:
            connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            try:
                _prepare(connection)
            except BaseException:
                connection.close()
                raise
        except sqlite3.Error as error:
            raise HistoryFileUnusable(path, _advice(error)) from error
        except ValueError as error:
            raise HistoryFileUnusable(path, str(error)) from error
        return cls(connection)

    def load(self, history: History) -> int:
        """Restore a history; return the number of restored series.

        Series with other steps, and series beyond the history's ``most_series``, are left out.
        """
        by_key: dict[Key, dict[float, RingState]] = {}
        with closing(self._connection.execute("SELECT * FROM ring")) as rows:
            for topic, channel, step, _, last, count, means in rows:
                by_key.setdefault((topic, channel), {})[step] = RingState(last, count, means)
        steps = [step for step, _ in history.shape]
        complete = {key: found for key, found in by_key.items() if list(found) == steps}
        return sum(history.restore(key, [found[step] for step in steps]) for key, found in complete.items())

    def save(self, history: History) -> None:
        """Store the changes since the last call, in one transaction.

        :raises sqlite3.Error: if that fails, for example because the disk is full
        """
        with self._lock:
            self._save(history)

    def _save(self, history: History) -> None:
        shape = history.shape
        saved: dict[tuple[Key, float], tuple[int, int]] = {}
        self._connection.execute("BEGIN")
        try:
            for key, states in history.states():
                for (step, capacity), state in zip(shape, states, strict=True):
                    saved[key, step] = state.last, state.counted
                    if self._saved.get((key, step)) != (state.last, state.counted):
                        row = (*key, step, capacity, *state)
                        self._connection.execute("REPLACE INTO ring VALUES (?, ?, ?, ?, ?, ?, ?)", row)
            stored = self._connection.execute("SELECT topic, channel, step FROM ring").fetchall()
            gone = [row for row in stored if ((row[0], row[1]), row[2]) not in saved]
            self._connection.executemany("DELETE FROM ring WHERE (topic, channel, step) = (?, ?, ?)", gone)
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        self._saved = saved

    def close(self) -> None:
        """Close the file. If another thread is saving, the file is closed when it is garbage-collected."""
        if self._lock.acquire(blocking=False):
            self._connection.close()


@asynccontextmanager
async def history_kept(
    history: History, path: str | os.PathLike[str], *, every: float = 300.0
) -> AsyncGenerator[None]:
    """Load a history from a file; store it regularly, and at the end of the block.

    A failure to save is logged once. The history continues in memory, and is stored when a later save works.

    :param every: seconds from one save to the next, 0.01 or more; default 300
    :raises HistoryFileUnusable: if the file cannot be used
    :raises InvalidOption: if ``every`` is outside its range
    """
    check_seconds("every", every, 0.01)
    place = Path(path)
    file = await anyio.to_thread.run_sync(HistoryFile.open, place)
    is_failing = False

    async def save() -> None:
        nonlocal is_failing
        try:
            await anyio.to_thread.run_sync(file.save, history, abandon_on_cancel=True)
        except sqlite3.Error as error:
            if not is_failing:
                _log.error("%s: %s; the history goes on in memory", place, _advice(error))
            is_failing = True
        else:
            if is_failing:
                _log.info("%s: the history is stored again", place)
            is_failing = False

    async def save_regularly() -> None:
        while True:
            await anyio.sleep(every)
            await save()

    try:
        taken = await anyio.to_thread.run_sync(file.load, history)
        _log.info("%s: %d series of history", place, taken)
        async with user_block_tasks() as tasks:
            tasks.start_soon(save_regularly)
            yield
    finally:
        try:
            with anyio.move_on_after(_LONGEST_SAVE, shield=True):
                await save()
        finally:
            file.close()


def _prepare(connection: sqlite3.Connection) -> None:
    """Lock a database, and check that it holds a history or nothing.

    :raises ValueError: if it does not
    """
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("BEGIN EXCLUSIVE")  # kept until the connection is closed
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != _APPLICATION:
        raise ValueError("it is a database of another program; name another file")
    if tables and version != _VERSION:
        raise ValueError(f"it has version {version}, not {_VERSION}; name another file")
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise ValueError(f"it is damaged ({found}); delete it")
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {_VERSION}")
    connection.execute(_TABLE)
    connection.execute("COMMIT")


def _advice(error: sqlite3.Error) -> str:
    """Return what is wrong and what to do, in one line."""
    text = str(error)
    remedies = {
        "database is locked": "another process uses it; name another file",
        "file is not a database": "it is not a database of SQLite; name another file",
        "database disk image is malformed": "it is damaged; delete it",
    }
    return f"{text}: {remedies[text]}" if text in remedies else text
