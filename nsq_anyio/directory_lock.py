"""Directories and files that one process at a time uses."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl


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
    with _locked(path, os.O_RDONLY | os.O_DIRECTORY):
        yield


@contextmanager
def locked_file(path: Path) -> Generator[None]:
    """Make a file if there is none, and lock it for the length of the block; on Windows, only make it.

    Unlike a directory's lock, this one holds for all machines on NFS.

    :raises BlockingIOError: if another process has locked it
    :raises OSError: if it cannot be made or locked
    """
    if sys.platform == "win32":
        path.touch()
        yield
        return
    with _locked(path, os.O_RDWR | os.O_CREAT):  # NFS locks only what may be written
        yield


if sys.platform != "win32":

    @contextmanager
    def _locked(path: Path, flags: int) -> Generator[None]:
        descriptor = os.open(path, flags, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        finally:
            os.close(descriptor)
