"""The file of a service for delays: an SQLite database of the messages that wait for their time.

The file is plain and synchronous; each method may take as long as the disk does, so an event loop calls it in
a worker thread. Any thread may call a method, and any number of processes may open the file beside the one
service that writes it: SQLite's WAL lets them read meanwhile, and cancel in short transactions.

Everything that is asked often has an index or a counter, so that nothing depends on the number of messages:
for each topic, its messages in the order of their times, and the time of the first one.
"""

from __future__ import annotations

import heapq
import math
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from ..errors import DelayFileUnusable, InvalidOption
from ..files import locked_file
from ..names import check_topic
from ..options.checks import check_integer
from ..sqlite_format import has_tables

_APPLICATION = 0x6E737164  # "nsqd", as for a delay
_VERSION = 1
_FORMAT = """
CREATE TABLE topic (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    waiting INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    next INTEGER
);
CREATE INDEX topic_next ON topic (next);
CREATE TABLE message (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    topic INTEGER NOT NULL,
    due INTEGER NOT NULL,
    at INTEGER NOT NULL,
    source TEXT NOT NULL UNIQUE,
    tries INTEGER NOT NULL,
    error TEXT,
    body BLOB NOT NULL
);
CREATE INDEX message_due ON message (topic, due);
"""

_CACHE = 16 * 1024  # KiB
_CHECKPOINT = 4000  # pages of the WAL, 16 MiB
_BUSY = 10.0
_PAGE = 500
_SMALLEST_PAGE = 5
_LONGEST_ERROR = 500
_MICRO = 1_000_000
_LATEST = 2**62  # microseconds

RESERVE = 32 * 1024 * 1024
"""Bytes of the disk that `DelayFile.store` leaves free, since SQLite needs some to delete."""

_TEMPORARY = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
}
_REMEDIES = {
    sqlite3.SQLITE_BUSY: "another process holds it for too long; end that process",
    sqlite3.SQLITE_CANTOPEN: "check that its directory exists, and may be written",
    sqlite3.SQLITE_CORRUPT: "it is damaged; move it away, and recover its rows with the sqlite3 program",
    sqlite3.SQLITE_FULL: "make room on the disk",
    sqlite3.SQLITE_NOTADB: "it is no database of SQLite; name another file",
    sqlite3.SQLITE_READONLY: "it may not be written; check its owner and mode",
}


@dataclass(frozen=True, slots=True)
class DelayedMessage:
    """A message to keep until its time.

    :ivar topic: the topic to publish it to
    :ivar at: when to publish it, in seconds since the epoch
    :ivar body: the body to publish
    :ivar source: what brought it, as ``NSQD/ID``: of several messages with one source, the first is kept
    """

    topic: str
    at: float
    body: bytes
    source: str


@dataclass(frozen=True, slots=True)
class WaitingMessage:
    """A message that waits in the file.

    :ivar id: its number, which no other message of the file ever has
    :ivar topic: the topic to publish it to
    :ivar at: when it is to be published, in seconds since the epoch
    :ivar size: the size of its body in bytes
    :ivar tries: how often nsqd has refused it
    :ivar error: why nsqd refused it last; None if it did not
    :ivar due: when to publish it next: ``at``, or later if nsqd refused it
    """

    id: int
    topic: str
    at: float
    size: int
    tries: int
    error: str | None
    due: float


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects messages in the file; a field that is None selects all.

    :ivar topic: the topic to publish to
    :ivar id: the number of one message
    :ivar before: messages that are due earlier than this, in seconds since the epoch
    :ivar after: messages that are due at this time or later, in seconds since the epoch
    :raises InvalidName: if nsqd would refuse the topic
    :raises InvalidOption: if another value is out of range
    """

    topic: str | None = None
    id: int | None = None
    before: float | None = None
    after: float | None = None

    def __post_init__(self) -> None:
        if self.topic is not None:
            check_topic(self.topic)
        check_integer("id", self.id, 0, 2**63 - 1, special=(None,))
        for name, value in (("before", self.before), ("after", self.after)):
            if value is not None and math.isnan(value):
                raise InvalidOption(f"{name}={value!r} is not valid: use seconds since the epoch")


@dataclass(frozen=True, slots=True)
class TopicDelays:
    """What waits for one topic.

    :ivar topic: the topic to publish to
    :ivar waiting: the number of messages
    :ivar bytes: the total size of their bodies
    :ivar next_at: when the next of them is due, in seconds since the epoch
    :ivar failed: the number of messages that nsqd has refused; they are among those that wait
    """

    topic: str
    waiting: int
    bytes: int
    next_at: float | None
    failed: int


class DelayFile:
    """An open file of delayed messages.

    Deleted messages leave room that later ones take; the file does not shrink.

    :param path: the file; a writer creates it if it is missing
    :param writer: whether this is the service, which takes messages. There is one for each file: a lock on
        ``PATH.lock``, which is left behind, keeps others away. Others may look at messages and cancel them
    :raises DelayFileUnusable: if there is no such file, it is in use by another service, damaged, of a newer
        version or of another program, or cannot be read or written; so does each method
    """

    def __init__(self, path: str | os.PathLike[str], *, writer: bool) -> None:
        self.path: Path = Path(path)
        self._lock = threading.Lock()
        self._is_closing = False
        with ExitStack() as resources, self._explained():
            if writer:
                self._lock_file(resources)
            elif not self.path.exists():
                raise self._unusable("there is no such file; name the file of a service that has run")
            # Without `writer`, a missing file is not created. Statements are autocommitted outside of BEGIN.
            place = f"{self.path.absolute().as_uri()}?mode={'rwc' if writer else 'rw'}"
            connection = sqlite3.connect(
                place, uri=True, timeout=_BUSY, isolation_level=None, check_same_thread=False
            )
            resources.callback(connection.close)
            self._connection = connection
            self._prepare(writer=writer)
            self._identity = _identity(self.path)
            self._resources = resources.pop_all()

    def store(self, messages: Sequence[DelayedMessage]) -> int:
        """Store messages in one transaction, and return once they survive a crash of the machine.

        :return: how many were new: a source that the file has already is not stored again
        :raises DelayFileUnusable: also if less than 32 MiB of the disk are free, or if the file was deleted
            or replaced; no message is stored then
        """
        with self._used():
            if _identity(self.path) != self._identity:
                raise self._unusable("it was deleted or replaced while in use; start the service again")
            free = shutil.disk_usage(self.path.parent).free
            if free < RESERVE:
                reason = f"{free} bytes of its disk are free, and {RESERVE} must stay so; make room there"
                raise self._unusable(reason, temporary=True)
            with self._transaction("FULL") as changes:
                ids: dict[str, int] = {}
                for message in messages:
                    topic = ids.get(message.topic)
                    if topic is None:
                        topic = ids[message.topic] = self._topic_id(message.topic)
                    at = _microseconds(message.at)
                    added = self._connection.execute(
                        "INSERT INTO message (topic, due, at, source, tries, body) VALUES (?, ?, ?, ?, 0, ?)"
                        " ON CONFLICT (source) DO NOTHING",
                        (topic, at, at, message.source, message.body),
                    )
                    changes.add(topic, added.rowcount, added.rowcount * len(message.body), 0)
                return changes.messages

    def due(
        self, now: float, *, limit: int, max_bytes: int, without: Collection[str] = ()
    ) -> list[tuple[WaitingMessage, bytes]]:
        """Return messages that are due, with their bodies: topic by topic, in the order of their times.

        :param now: seconds since the epoch
        :param limit: the most messages, 1 or more
        :param max_bytes: the total size of the bodies at which to stop; there is at least one message
        :param without: topics to leave out
        """
        time = _passed(now)
        found: list[tuple[WaitingMessage, bytes]] = []
        size = 0
        with self._used():
            topics = self._connection.execute(
                "SELECT id, name FROM topic WHERE next <= ? ORDER BY next", (time,)
            ).fetchall()
            for topic, name in topics:
                if name in without:
                    continue
                rows = self._connection.execute(
                    f"SELECT {_COLUMNS}, body FROM message"  # noqa: S608 - a constant
                    " WHERE topic = ? AND due <= ? ORDER BY due, id LIMIT ?",
                    (topic, time, limit - len(found)),
                )
                for *columns, body in rows:
                    size += len(body)
                    if found and size > max_bytes:
                        return found
                    found.append((_waiting(name, columns), body))
                if len(found) == limit:
                    break
        return found

    def next_at(self, without: Collection[str] = ()) -> float | None:
        """Return when the next message is due, in seconds since the epoch; None if none waits.

        :param without: topics to leave out
        """
        with self._used():
            rows = self._connection.execute("SELECT name, next FROM topic ORDER BY next")
            with closing(rows):
                return next((_seconds(due) for name, due in rows if name not in without), None)

    def delete(self, ids: Iterable[int]) -> None:
        """Delete messages that were published; ids that the file does not have are ignored.

        The deletion survives the end of this process. A crash of the machine may undo it.
        """
        with self._used(), self._transaction("NORMAL") as changes:
            self._delete(ids, changes)

    def put_off(self, ids: Iterable[int], until: float, error: str) -> None:
        """Keep messages that nsqd has refused for another try.

        :param until: when to try again, in seconds since the epoch
        :param error: why nsqd refused them; its first 500 characters are kept
        """
        due = _microseconds(until)
        with self._used(), self._transaction("NORMAL") as changes:
            for id in ids:
                row = self._connection.execute(
                    "SELECT topic, tries FROM message WHERE id = ?", (id,)
                ).fetchone()
                if row is not None:
                    topic, tries = row
                    self._connection.execute(
                        "UPDATE message SET due = ?, tries = ?, error = ? WHERE id = ?",
                        (due, tries + 1, error[:_LONGEST_ERROR], id),
                    )
                    changes.add(topic, 0, 0, int(tries == 0))

    def waiting(self, selection: Selection, limit: int | None = None) -> Iterator[WaitingMessage]:
        """Return an iterator over messages, in the order in which they are due.

        It reads the file page by page: it holds nothing up, and shows what changes meanwhile or not.

        :param limit: the most messages; None for all
        """
        if selection.id is not None:
            found: Iterator[WaitingMessage] = iter(self._page(selection, None, 1))
        else:
            with self._used():
                topics = self._topics(selection.topic)
            size = max(_PAGE // max(len(topics), 1), _SMALLEST_PAGE)
            size = size if limit is None else min(limit, size)
            pages = [chain.from_iterable(self._pages(selection, topic, size)) for topic in topics]
            found = heapq.merge(*pages, key=lambda message: (message.due, message.id))
        return islice(found, limit)

    def body(self, id: int) -> bytes | None:
        """Return the body of a message; None if the file does not have it."""
        with self._used():
            row = self._connection.execute("SELECT body FROM message WHERE id = ?", (id,)).fetchone()
        return None if row is None else row[0]

    def cancel(self, selection: Selection, now: Callable[[], float]) -> int:
        """Delete messages that are not due yet, and return how many. What is due may be on its way to nsqd.

        Many messages are deleted in several transactions, and a failure leaves the later ones waiting.

        :param now: returns seconds since the epoch; it is called within each transaction, and must be the
            clock of the service
        """
        with self._used():
            topics = [None] if selection.id is not None else self._topics(selection.topic)
        cancelled = 0
        for topic in topics:
            deleted = _PAGE
            while deleted == _PAGE:
                with self._used(), self._transaction("FULL") as changes:
                    late = _seconds(_passed(now()) + 1)
                    after = late if selection.after is None else max(selection.after, late)
                    future = Selection(selection.topic, selection.id, selection.before, after)
                    found = self._select(future, topic, _PAGE)
                    self._delete([message.id for message in found], changes)
                deleted = len(found)
                cancelled += deleted
        return cancelled

    def topics(self) -> list[TopicDelays]:
        """Return what waits, by topic; this reads counters, whatever the number of messages."""
        with self._used():
            rows = self._connection.execute(
                "SELECT name, waiting, bytes, next, failed FROM topic ORDER BY name"
            )
            return [
                TopicDelays(name, waiting, size, _seconds(due), failed)
                for name, waiting, size, due, failed in rows
            ]

    def close(self) -> None:
        """Close the file; if another thread is using it, once that is done."""
        self._is_closing = True
        self._close_if_unused()

    def _close_if_unused(self) -> None:
        if self._lock.acquire(blocking=False):
            try:
                with self._explained():
                    self._resources.close()
            finally:
                self._lock.release()

    @contextmanager
    def _used(self) -> Generator[None]:
        """Use the connection, which one thread does at a time."""
        try:
            with self._explained(), self._lock:
                yield
        finally:
            if self._is_closing:
                self._close_if_unused()

    def _lock_file(self, resources: ExitStack) -> None:
        try:
            resources.enter_context(locked_file(Path(f"{self.path.resolve()}.lock")))
        except BlockingIOError as error:
            raise self._unusable("another service uses it; each service needs a file of its own") from error

    def _prepare(self, *, writer: bool) -> None:
        execute = self._connection.execute
        execute(f"PRAGMA cache_size = -{_CACHE}")
        # Before anything is written, even the journal mode.
        is_new = not has_tables(self._connection, self.path, application=_APPLICATION, version=_VERSION)
        if is_new and not writer:
            raise self._unusable("no service has stored anything in it; name the file of a service")
        (mode,) = execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            raise self._unusable("its file system does not support SQLite's WAL; use a local disk")
        execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT}")
        if is_new:
            with self._transaction("FULL"):
                for statement in _FORMAT.split(";"):
                    execute(statement)
                execute(f"PRAGMA application_id = {_APPLICATION}")
                execute(f"PRAGMA user_version = {_VERSION}")

    def _topic_id(self, name: str) -> int:
        self._connection.execute(
            "INSERT INTO topic (name, waiting, bytes, failed) VALUES (?, 0, 0, 0) ON CONFLICT DO NOTHING",
            (name,),
        )
        found: int = self._connection.execute("SELECT id FROM topic WHERE name = ?", (name,)).fetchone()[0]
        return found

    def _topics(self, name: str | None) -> list[tuple[int, str]]:
        if name is None:
            return self._connection.execute("SELECT id, name FROM topic").fetchall()
        return self._connection.execute("SELECT id, name FROM topic WHERE name = ?", (name,)).fetchall()

    def _delete(self, ids: Iterable[int], changes: _Changes) -> None:
        for id in ids:
            row = self._connection.execute(
                "SELECT topic, length(body), tries FROM message WHERE id = ?", (id,)
            ).fetchone()
            if row is not None:
                topic, size, tries = row
                self._connection.execute("DELETE FROM message WHERE id = ?", (id,))
                changes.add(topic, -1, -size, -int(tries > 0))

    def _pages(
        self, selection: Selection, topic: tuple[int, str], size: int
    ) -> Iterator[list[WaitingMessage]]:
        last: WaitingMessage | None = None
        while page := self._page(selection, topic, size, last):
            yield page
            last = page[-1]

    def _page(
        self,
        selection: Selection,
        topic: tuple[int, str] | None,
        limit: int,
        last: WaitingMessage | None = None,
    ) -> list[WaitingMessage]:
        with self._used():
            return self._select(selection, topic, limit, last)

    def _select(
        self,
        selection: Selection,
        topic: tuple[int, str] | None,
        limit: int,
        last: WaitingMessage | None = None,
    ) -> list[WaitingMessage]:
        """Return the first messages of one topic, or that of ``selection.id``, beginning after ``last``."""
        earliest = 0 if selection.after is None else _microseconds(selection.after)
        latest = _LATEST if selection.before is None else _microseconds(selection.before)
        if topic is None:
            rows = self._connection.execute(
                f"SELECT name, {_COLUMNS} FROM message JOIN topic"  # noqa: S608 - a constant
                " ON topic.id = message.topic"
                " WHERE message.id = ? AND due >= ? AND due < ? AND (name = ? OR ?)",
                (selection.id, earliest, latest, selection.topic, selection.topic is None),
            )
            return [_waiting(name, columns) for name, *columns in rows]
        number, name = topic
        after = (earliest, -1) if last is None else (_microseconds(last.due), last.id)
        rows = self._connection.execute(
            f"SELECT {_COLUMNS} FROM message"  # noqa: S608 - a constant
            " WHERE topic = ? AND (due, id) > (?, ?) AND due < ? ORDER BY due, id LIMIT ?",
            (number, *after, latest, limit),
        )
        return [_waiting(name, columns) for columns in rows]

    @contextmanager
    def _transaction(self, synchronous: str) -> Generator[_Changes]:
        """Change the file, and the counters of the topics with it.

        :param synchronous: "FULL" to sync the WAL at the end; "NORMAL" to leave that to a later one
        """
        connection = self._connection
        connection.execute(f"PRAGMA synchronous = {synchronous}")
        connection.execute("BEGIN IMMEDIATE")
        try:
            changes = _Changes()
            yield changes
            changes.apply(connection)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")

    @contextmanager
    def _explained(self) -> Generator[None]:
        """Raise errors of SQLite and of the system as `DelayFileUnusable`."""
        try:
            yield
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & 0xFF  # not the extended part
            reason = f"{error}; {_REMEDIES[code]}" if code in _REMEDIES else str(error)
            raise self._unusable(reason, temporary=code in _TEMPORARY) from error
        except TypeError as error:  # SQLite returns values of the types that the row says, damaged or not
            raise self._unusable(f"{error}; {_REMEDIES[sqlite3.SQLITE_CORRUPT]}") from error
        except OSError as error:
            raise self._unusable(str(error)) from error

    def _unusable(self, reason: str, *, temporary: bool = False) -> DelayFileUnusable:
        return DelayFileUnusable(str(self.path), reason, temporary=temporary)


_COLUMNS = "message.id, at, length(body), tries, error, due"


class _Changes:
    """What a transaction changes about each topic: messages, bytes, and refused messages."""

    def __init__(self) -> None:
        self._topics: dict[int, list[int]] = {}

    @property
    def messages(self) -> int:
        return sum(messages for messages, _, _ in self._topics.values())

    def add(self, topic: int, messages: int, size: int, failed: int) -> None:
        change = self._topics.setdefault(topic, [0, 0, 0])
        change[0] += messages
        change[1] += size
        change[2] += failed

    def apply(self, connection: sqlite3.Connection) -> None:
        for topic, change in self._topics.items():
            connection.execute(
                "UPDATE topic SET waiting = waiting + ?, bytes = bytes + ?, failed = failed + ?,"
                " next = (SELECT min(due) FROM message WHERE topic = topic.id) WHERE id = ?",
                (*change, topic),
            )
            connection.execute("DELETE FROM topic WHERE id = ? AND waiting = 0", (topic,))


def _waiting(topic: str, columns: Sequence[Any]) -> WaitingMessage:
    id, at, size, tries, error, due = columns
    return WaitingMessage(id, topic, _seconds(at), size, tries, error, _seconds(due))


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _microseconds(seconds: float) -> int:
    """Return the time for the file: the first microsecond that is not earlier."""
    if not seconds < _LATEST / _MICRO:
        return _LATEST
    found = max(round(seconds * _MICRO), 0)
    return found if found / _MICRO >= seconds else found + 1


def _passed(now: float) -> int:
    """Return the last microsecond that is not later than ``now``."""
    found = round(now * _MICRO)
    return found if found / _MICRO <= now else found - 1


def _seconds(microseconds: int) -> float:
    return microseconds / _MICRO
