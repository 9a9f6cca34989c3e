"""Writes that survive a crash of the machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

if sys.platform == "darwin":
    import fcntl  # not on every platform


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
