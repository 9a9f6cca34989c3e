"""Durable writes, and locks of files and directories."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

if sys.platform != "win32":
    import fcntl


def sync_file(descriptor: int) -> None:
    """Sync a file: return once everything written to it survives a crash of the machine.

    :raises OSError: if that fails
    """
    if sys.platform == "darwin":
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # fsync leaves the data in the drive's cache there
    else:
        os.fsync(descriptor)


def sync_directory(path: Path) -> None:
    """Sync a directory: return once its entries survive a crash of the machine.

    :raises OSError: if that fails
    """
    if sys.platform == "win32":
        return  # directories cannot be opened there
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def link_exclusively(source: Path, target: Path) -> bool:
    """Give a file a second name on the same file system; return whether the name was free.

    Unlike a rename, a hard link never replaces a file.

    :raises OSError: if it fails for another reason
    """
    try:
        target.hardlink_to(source)
    except FileExistsError:
        # A network filesystem may lose the answer, and find our own link when it asks again.
        return target.samefile(source)
    return True


@contextmanager
def locked_directory(path: Path) -> Generator[None]:
    """Lock a directory for the length of the block, as nsqd does; on Windows, neither locks anything.

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
    with _locked(path, os.O_RDWR | os.O_CREAT):  # NFS locks only writable files
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
