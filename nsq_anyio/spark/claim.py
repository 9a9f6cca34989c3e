"""Locks that keep two streams of one application from reading the same channel of one nsqd.

NSQ gives each message to one of the consumers of a channel. Two sources of a query on one channel, as in a
join of a stream with itself, would each get a part of the messages, and the result would be wrong without an
error. Spark does not tell a source which query it belongs to, but runs each reader in its own process, whose
parent is the application's JVM. So these processes lock their channels, in a file that is named after the
JVM's pid. The system releases a lock when its process ends.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import logging
import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..errors import InvalidOption

_LOOK_EVERY = 0.05
_SUFFIX = ".locks"
_OFFSET_BYTES = 7
"""The bytes of a digest that are used as a lock's offset, which has 63 bits."""

_log = logging.getLogger("nsq_anyio.spark")


class Claim:
    """The nsqds at which this process has locked a channel. It is pickled without its locks."""

    def __init__(self, topic: str, channel: str) -> None:
        self._topic = topic
        self._channel = channel
        self._locks: dict[str, _Lock | None] = {}

    def __reduce__(self) -> tuple[type[Claim], tuple[str, str]]:
        return Claim, (self._topic, self._channel)

    def take(self, nsqds: Iterable[str], *, patience: float = 5.0) -> None:
        """Lock the channel at these nsqds, unless this process has done so already.

        :param patience: how long to wait for the reader process of a stopped query to end, in seconds
        :raises InvalidOption: if another stream of this application reads it
        """
        for nsqd in nsqds:
            if nsqd not in self._locks:
                self._locks[nsqd] = self._lock(nsqd, patience)

    def release(self) -> None:
        """Release all locks."""
        for lock in self._locks.values():
            if lock is not None:
                lock.release()
        self._locks.clear()

    def _lock(self, nsqd: str, patience: float) -> _Lock | None:
        try:
            file = _file(_path())
        except OSError as error:
            _log.warning("cannot tell whether other streams read the same channel: %s", error)
            return None
        digest = hashlib.sha256(f"{self._topic}/{self._channel}/{nsqd}".encode()).digest()
        lock = _Lock(file, int.from_bytes(digest[:_OFFSET_BYTES], "big"))
        give_up_at = time.monotonic() + patience
        while not lock.is_taken():
            if time.monotonic() > give_up_at:
                raise self._is_claimed(nsqd)
            time.sleep(_LOOK_EVERY)
        return lock

    def _is_claimed(self, nsqd: str) -> InvalidOption:
        return InvalidOption(
            f"another stream of this application reads {self._topic}/{self._channel} from nsqd {nsqd}, and "
            "NSQ gives each message to one of the two, so that a join or union of them lacks rows: read the "
            "channel once and use its rows several times in foreachBatch; or let one query store them, and "
            "let others read that table; or give the other stream a channel of its own; or, if each may get "
            "a part of the messages, set shareChannel=true on both"
        )


@dataclass(frozen=True, slots=True)
class _Lock:
    """A lock on one byte of a file."""

    file: int
    offset: int

    def is_taken(self) -> bool:
        """Try to take the lock; return False if another process has it."""
        try:
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self.offset)
        except (BlockingIOError, PermissionError):
            return False
        return True

    def release(self) -> None:
        fcntl.lockf(self.file, fcntl.LOCK_UN, 1, self.offset)


def _path() -> Path:
    return Path(tempfile.gettempdir(), f"{_prefix()}{os.getppid()}{_SUFFIX}")


def _prefix() -> str:
    return f"nsq-anyio-spark-{os.getuid()}-"


@functools.cache
def _file(path: Path) -> int:
    # The file stays open while the process runs: closing it would release the locks of all claims.
    for other in path.parent.glob(f"{_prefix()}*{_SUFFIX}"):
        pid = other.name.removeprefix(_prefix()).removesuffix(_SUFFIX)
        if pid.isdecimal() and not _is_running(int(pid)):
            other.unlink(missing_ok=True)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True
