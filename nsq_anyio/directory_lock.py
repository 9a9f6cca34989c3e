"""A directory that one process at a time uses."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl

__all__ = ["locked_directory"]


@contextmanager
def locked_directory(path: Path) -> Generator[None]:
    """Lock a directory for the length of the block, as nsqd does; as there, nothing is locked on Windows.

    :raises BlockingIOError: if another process has locked it
    :raises OSError: if there is no such directory, or it cannot be locked
    """
    if sys.platform == "win32":
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "it is not a directory", str(path))
        yield
        return
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
