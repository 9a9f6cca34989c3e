"""The lease of a query on its spool: a file whose modification time is renewed while the query runs.

A query may wait for hours between two batches, so a thread renews the file. If the process is killed, the
file grows old, and the lease expires; the spool's next query deletes it. Its age is measured by the storage's
clock, so that the clocks of the machines need not agree.

Leases also reveal a second driver on the same checkpoint: an epoch that Spark has not logged is replaced only
if nobody else holds a lease, because another driver may be about to log it.

PySpark ends the process of a query's reader with SIGTERM before `stop` can be called, so the lease handles
this signal.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import threading
import time
import uuid
import weakref
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType

from ..storage.place import Place, storage_of
from .spool_errors import as_spool_error
from .spool_files import LEASE

VALID = 60.0
"""Seconds without renewal after which a lease has expired."""

_RELEASE_TIMEOUT = 5.0
"""Seconds for which the end of a query waits for the deletion of its lease."""

AT_ONCE = 1000
"""The most expired leases to delete between two renewals, which must not be late."""

_kept: dict[Place, SimpleQueue[None]] = {}
"""The leases that threads of this process renew, each with the queue that ends its thread.

A `threading.Event` would not do: a signal handler that interrupts `set` and calls it again waits for itself.
"""

_log = logging.getLogger("nsq_anyio.spark")


class Lease:
    """Shows, from `hold` to `release` or the end of the process, that a query uses a spool.

    :param renew_every: seconds, far fewer than `VALID`
    """

    def __init__(self, *, renew_every: float = 10.0) -> None:
        self._renew_every = renew_every
        self._path: Place | None = None
        self._thread: threading.Thread | None = None
        self._end: SimpleQueue[None] = SimpleQueue()

    def __reduce__(self) -> tuple[type[Lease], tuple[()]]:
        # Readers are pickled for their tasks, but only the driver's holds a lease.
        return Lease, ()

    def hold(self, spool: Place) -> None:
        """Take a lease on the spool, unless it is held already."""
        if self._path is not None and self._path.parent == spool:
            return
        self.release()
        self._path = spool / f"{LEASE}{uuid.uuid4().hex}"
        self._end = SimpleQueue()
        _renew(self._path)
        self._thread = threading.Thread(
            target=_keep,
            args=(self._path, self._renew_every, self._end),
            name="nsq_anyio spool lease",
            daemon=True,
        )
        _kept[self._path] = self._end
        self._thread.start()
        if _is_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, _release_and_die)
        # So a reader that is dropped without `stop` does not hold its spool forever.
        weakref.finalize(self, self._end.put, None)

    def release(self) -> None:
        """Give up the lease."""
        if self._thread is None:
            return
        self._end.put(None)
        self._thread.join(_RELEASE_TIMEOUT)
        self._path = self._thread = None
        if not _kept and _is_main_thread() and signal.getsignal(signal.SIGTERM) is _release_and_die:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def rival(self) -> str | None:
        """Return a description of who else uses the spool; None if nobody does.

        A query that was killed leaves a lease that has not expired yet. So this waits until such a lease is
        renewed or expires.

        :raises OSError: if the leases cannot be read
        """
        assert self._path is not None  # noqa: S101 - it is asked for while the lease is held
        spool = self._path.parent
        storage = storage_of(spool)
        ahead = storage.time(spool) - time.monotonic()
        seen: dict[str, float] | None = None
        while True:
            young = dict(_young(spool, ahead + time.monotonic(), self._path.name))
            seen = young if seen is None else seen
            for name, renewed in young.items():
                if seen.get(name) != renewed:
                    with suppress(FileNotFoundError):  # given up meanwhile
                        return _user(spool / name)
            if not young:
                return None
            time.sleep(storage.poll_interval)


def holder(spool: Place, now: float) -> str | None:
    """Return a description of who uses a spool; None if nobody does.

    :param now: the storage's time, from `time_of`
    :raises OSError: if it cannot be read
    """
    for name, renewed in _young(spool, now):
        with suppress(FileNotFoundError):  # given up meanwhile
            return f"{_user(spool / name)}, seen {max(0, now - renewed):.0f} s ago"
    return None


def time_of(directory: Place) -> float:
    """Return the storage's time; this machine's time if nothing can be written there.

    :raises SpoolError: if the storage cannot be used
    """
    with as_spool_error(directory):
        return storage_of(directory).time(directory)


def _young(spool: Place, now: float, but: str = "") -> Iterator[tuple[str, float]]:
    """Yield the leases that have not expired, each with the time of its renewal."""
    for name, status in storage_of(spool).statuses(spool).items():
        if name.startswith(LEASE) and name != but and now - status.modified < VALID:
            yield name, status.modified


def _user(path: Place) -> str:
    try:
        found = json.loads(storage_of(path).get(path))
        return f"a query on {found['host']} (process {found['process']})"
    except (ValueError, RecursionError, KeyError, TypeError):
        return "a query"  # the content is only for people; the age alone counts


def _keep(path: Place, renew_every: float, end: SimpleQueue[None]) -> None:
    try:
        while _delete_expired(path) and end.empty():
            _renew(path)
        while _is_kept(end, renew_every):
            if not _renew(path):
                return
        _delete(path)
    finally:
        del _kept[path]


def _is_kept(end: SimpleQueue[None], seconds: float) -> bool:
    try:
        end.get(timeout=seconds)
    except Empty:
        return True
    return False


def _renew(path: Place) -> bool:
    """Write a lease, or renew it; return False if the spool is gone."""
    storage = storage_of(path)
    content = json.dumps({"host": socket.gethostname(), "process": os.getpid()})
    try:
        if not storage.is_directory(path.parent):
            return False
        storage.renew(path, content.encode())
    except OSError as error:
        # The query continues; it fails later if it cannot write to the spool at all.
        _log.warning("cannot mark the spool %s as in use: %s", path.parent, error)
    return True


def _delete_expired(own: Place) -> bool:
    """Delete the leases of queries that were killed, some at a time; return whether there are more.

    Each batch lists the spool several times, and would be slowed down by them.
    """
    storage = storage_of(own)
    try:
        found = storage.statuses(own.parent)
        # This lease itself is missing if it could not be written.
        now = found[own.name].modified if own.name in found else 0.0
        expired = [
            own.parent / name
            for name, status in found.items()
            if name.startswith(LEASE) and name != own.name and now - status.modified >= VALID
        ]
        storage.remove(*expired[:AT_ONCE])
    except OSError as error:
        _log.warning("cannot delete expired leases of the spool %s: %s", own.parent, error)
        return False
    return len(expired) > AT_ONCE


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _release_and_die(number: int, _frame: FrameType | None) -> None:
    """Delete the leases of this process, then let the signal end it."""
    signal.signal(number, signal.SIG_IGN)  # Spark sends it twice
    for end in list(_kept.values()):
        end.put(None)
    give_up_at = time.monotonic() + _RELEASE_TIMEOUT
    while _kept and time.monotonic() < give_up_at:
        time.sleep(0.01)
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)


def _delete(path: Place) -> None:
    try:
        storage_of(path).remove(path)
    except OSError as error:
        _log.warning("cannot delete %s, which marks its spool as in use: %s", path, error)
