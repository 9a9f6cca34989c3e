"""The directory with the files of an nsqd, and its lock."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from ...errors import NSQError

if sys.platform != "win32":
    import fcntl

__all__ = ["DataPathUnusable", "locked"]


class DataPathUnusable(NSQError):
    """The data path of an nsqd cannot be used: it is missing, not writable, or in use by another nsqd.

    :ivar path: the data path
    :ivar reason: what is wrong with it
    """

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(f"cannot use data path {os.fspath(path)}: {reason}")
        self.path: str = os.fspath(path)
        self.reason: str = reason


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Lock a directory as nsqd does, so that no other nsqd uses it.

    :raises DataPathUnusable: if it does not exist, or another nsqd has locked it
    """
    if sys.platform == "win32":  # nor does nsqd lock anything there
        if not path.is_dir():
            raise DataPathUnusable(path, "it is not a directory")
        yield
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise DataPathUnusable(path, _reason(error)) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise DataPathUnusable(path, "it is locked, perhaps by another nsqd that uses it") from error
        yield
    finally:
        os.close(descriptor)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)
