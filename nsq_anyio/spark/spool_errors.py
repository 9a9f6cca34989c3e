"""The errors of a spool; each text has the path and the remedy."""

from __future__ import annotations

import errno
from collections.abc import Generator
from contextlib import contextmanager

from ..errors import NSQError
from ..storage.interface import explained

BEGIN_ANEW = (
    "put the sound rows back with `nsq-anyio spool put-back`, and begin with a new checkpointLocation; a "
    "sink that identifies batches by number (files, Delta) needs a new path as well, since it skips the "
    "numbers that it has"
)
"""The remedy for a query that cannot continue from its checkpoint."""

_NO_SPACE = "free some space; what was not stored stays in NSQ"
_NOT_ALLOWED = "let the user that runs the driver and the executors write there"
_NO_LINKS = "spoolDir must be on a filesystem with hard links, which publish a chunk in one step"
_GONE = "spoolDir must be a path that the driver and all executors share, and must outlive the query"
_REMEDIES = {
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: _NO_SPACE,
    errno.EFBIG: _NO_SPACE,
    errno.EACCES: _NOT_ALLOWED,
    errno.EROFS: _NOT_ALLOWED,
    errno.EPERM: f"{_NOT_ALLOWED}, and {_NO_LINKS}",
    errno.EOPNOTSUPP: _NO_LINKS,
    errno.EXDEV: _NO_LINKS,
    errno.ENOENT: _GONE,
    errno.ENOTDIR: _GONE,
    errno.ESTALE: _GONE,
}


class SpoolError(NSQError):
    """A spool cannot be read or written, or is not the expected one.

    :ivar path: the file or directory, as a path or URL
    """

    def __init__(self, path: object, reason: str) -> None:
        super().__init__(f"spool {path!s}: {reason}")
        self.path: str = str(path)
        self.reason: str = reason


class SpoolDamaged(SpoolError):
    """A part of a spool is missing, or differs from what was stored.

    :ivar damage: what is damaged, without the remedy
    """

    def __init__(self, path: object, damage: str) -> None:
        super().__init__(path, f"{damage}: restore it from a backup, or {BEGIN_ANEW}")
        self.damage: str = damage


class AttemptSuperseded(SpoolError):
    """The partition does not need this attempt any more; its messages go back to nsqd."""


class NumberTaken(AttemptSuperseded):
    """Another attempt at the same partition has stored the chunk of this number."""


@contextmanager
def as_spool_error(path: object) -> Generator[None]:
    """Raise an `OSError` of the block as a `SpoolError` with ``path`` and the remedy.

    :raises SpoolError: for an `OSError` of the block
    """
    try:
        yield
    except OSError as error:
        raise SpoolError(path, explained(error, _REMEDIES)) from error
