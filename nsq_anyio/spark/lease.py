"""Shows that a query uses a spool, by a file whose modification time is renewed while the query runs.

A query may wait for hours between two batches, so a thread renews the file. If the process is killed, the
file grows old, and the lease expires. Its age is measured by the storage's own clock, so that the clocks
of the machines need not agree.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import uuid
import weakref

from ..storage.place import Place, storage_of
from .spool_errors import as_spool_error
from .spool_files import LEASE

__all__ = ["VALID", "Lease", "holder", "time_of"]

VALID = 60.0
"""Seconds without renewal after which a lease has expired."""

_log = logging.getLogger("nsq_anyio.spark")


class Lease:
    """Shows, from `hold` to `release` or the end of the process, that a query uses a spool.

    :param renew_every: seconds, far fewer than `VALID`
    """

    def __init__(self, *, renew_every: float = 10.0) -> None:
        self._renew_every = renew_every
        self._path: Place | None = None
        self._ended = threading.Event()

    def __reduce__(self) -> tuple[type[Lease], tuple[()]]:
        # Readers are pickled for their tasks, but only the driver's holds a lease.
        return Lease, ()

    def hold(self, spool: Place) -> None:
        """Take a lease on the spool, unless it is held already."""
        if self._path is not None and self._path.parent == spool:
            return
        self.release()
        self._path = spool / f"{LEASE}{uuid.uuid4().hex}"
        self._ended = threading.Event()
        _write(self._path)
        thread = threading.Thread(
            target=_keep,
            args=(self._path, self._renew_every, self._ended),
            name="nsq_anyio spool lease",
            daemon=True,
        )
        thread.start()
        # So a reader that is dropped without `stop` does not hold its spool forever.
        weakref.finalize(self, self._ended.set)

    def release(self) -> None:
        """Give up the lease."""
        self._ended.set()
        if self._path is not None:
            _delete(self._path)
            self._path = None


def holder(spool: Place, now: float) -> str | None:
    """Return a text that says who uses a spool; None if nobody does.

    :param now: the storage's time, from `time_of`
    :raises OSError: if it cannot be read
    """
    storage = storage_of(spool)
    for entry in storage.entries(spool):
        if not entry.name.startswith(LEASE):
            continue
        path = spool / entry.name
        try:
            age = now - storage.status(path).modified
            if age < VALID:
                return f"{_user(path)}, seen {max(0, age):.0f} s ago"
        except FileNotFoundError:
            continue  # given up meanwhile
    return None


def time_of(directory: Place) -> float:
    """Return the storage's time; this machine's time if nothing can be written there.

    :raises SpoolError: if the storage cannot be used
    """
    with as_spool_error(directory):
        return storage_of(directory).time(directory)


def _user(path: Place) -> str:
    try:
        found = json.loads(storage_of(path).get(path))
        return f"a query on {found['host']} (process {found['process']})"
    except (ValueError, RecursionError, KeyError, TypeError):
        return "a query"  # the content is only for people; what counts is the age


def _keep(path: Place, renew_every: float, ended: threading.Event) -> None:
    storage = storage_of(path)
    while not ended.wait(renew_every):
        try:
            if not storage.is_directory(path.parent):
                return
            storage.renew(path, _content())
        except OSError as error:
            _log.warning("cannot mark the spool %s as in use: %s", path.parent, error)
    _delete(path)


def _content() -> bytes:
    return json.dumps({"host": socket.gethostname(), "process": os.getpid()}).encode()


def _write(path: Place) -> None:
    try:
        storage_of(path).replace(path, _content())
    except OSError as error:
        # The query continues; it fails later if it cannot write to the spool at all.
        _log.warning("cannot mark the spool %s as in use: %s", path.parent, error)


def _delete(path: Place) -> None:
    try:
        storage_of(path).remove(path)
    except OSError as error:
        _log.warning("cannot delete %s, which marks its spool as in use: %s", path, error)
