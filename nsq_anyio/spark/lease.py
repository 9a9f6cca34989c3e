"""Who uses a spool: a file that a running query keeps young, which every shared file system can show.

A query may wait for hours between two batches, so a thread sees to it. It holds nothing else: when its
process is killed, the file gets old. The times compared are both the file system's, so that the clocks of
machines do not matter.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
import uuid
import weakref
from pathlib import Path

from .spool_files import LEASE

__all__ = ["VALID", "Lease", "holder", "time_of"]

VALID = 60.0
"""Seconds without a sign of life after which nobody is believed to use a spool."""

_EVERY = 10.0

_log = logging.getLogger("nsq_anyio.spark")


class Lease:
    """Shows, from `hold` to `release` or the end of the process, that a query uses a spool."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._ended = threading.Event()

    def __reduce__(self) -> tuple[type[Lease], tuple[()]]:
        # Readers are pickled for their tasks, and the driver's is the one that holds it.
        return Lease, ()

    def hold(self, spool: Path) -> None:
        """Show that the spool is used; a lease that is held already is kept."""
        if self._path is not None and self._path.parent == spool:
            return
        self.release()
        self._path = spool / f"{LEASE}{uuid.uuid4().hex}"
        self._ended = threading.Event()
        _write(self._path)
        thread = threading.Thread(
            target=_keep, args=(self._path, self._ended), name="nsq_anyio spool lease", daemon=True
        )
        thread.start()
        # A reader that is forgotten without being stopped does not hold its spool for ever.
        weakref.finalize(self, self._ended.set)

    def release(self) -> None:
        """Show that nobody uses it any more."""
        self._ended.set()
        if self._path is not None:
            _delete(self._path)
            self._path = None


def holder(spool: Path, now: float) -> str | None:
    """Say who uses a spool; None for nobody.

    :param now: by the clock of the file system, as `time_of` tells it
    :raises OSError: if it cannot be read
    """
    for path in spool.glob(f"{LEASE}*"):
        try:
            age = now - path.stat().st_mtime
            if age < VALID:
                return f"{_user(path)}, seen {max(0, age):.0f} s ago"
        except FileNotFoundError:
            continue  # released meanwhile
    return None


def time_of(directory: Path) -> float:
    """The time by the clock of the file system; by this machine's where nothing may be written."""
    probe = directory / f".clock-{uuid.uuid4().hex}"
    try:
        probe.touch()
    except OSError:
        return time.time()
    try:
        return probe.stat().st_mtime
    finally:
        probe.unlink(missing_ok=True)


def _user(path: Path) -> str:
    try:
        found = json.loads(path.read_bytes())
        return f"a query on {found['host']} (process {found['process']})"
    except (ValueError, RecursionError, KeyError, TypeError):
        return "a query"  # what it says is for people alone; that it is young counts


def _keep(path: Path, ended: threading.Event) -> None:
    while not ended.wait(_EVERY):
        if not path.parent.is_dir():
            return
        try:
            os.utime(path)
        except FileNotFoundError:
            _write(path)
        except OSError as error:
            _log.warning("cannot show that the spool %s is in use: %s", path.parent, error)
    _delete(path)


def _write(path: Path) -> None:
    content = {"host": socket.gethostname(), "process": os.getpid()}
    try:
        path.write_text(json.dumps(content), encoding="utf-8")
    except OSError as error:
        # The query reads all the same; what it cannot store it says then.
        _log.warning("cannot show that the spool %s is in use: %s", path.parent, error)


def _delete(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        _log.warning("cannot delete %s, which says that its spool is in use: %s", path, error)
