"""Directory entries that survive a crash of the machine, and moves that overwrite nothing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["make_directories", "move_exclusively", "sync_directory", "sync_file"]

_MODE = 0o770
"""As the real one's, for directories that are missing."""


def make_directories(path: Path) -> None:
    """Make a directory and those above it, where they are missing.

    :raises OSError: if that fails
    """
    missing = [path, *path.parents]
    while missing and missing[-1].is_dir():
        missing.pop()
    for directory in reversed(missing):
        directory.mkdir(_MODE, exist_ok=True)
        sync_directory(directory.parent)


def move_exclusively(source: Path, target: Path) -> None:
    """Give a file another name on the same file system, unless that name is taken.

    :raises FileExistsError: if it is taken
    :raises OSError: if it fails otherwise
    """
    target.hardlink_to(source)  # other than a rename, it fails if there is a target
    sync_directory(target.parent)
    source.unlink()
    sync_directory(source.parent)


def sync_directory(path: Path) -> None:
    """See to it that the names in a directory survive a crash of the machine.

    :raises OSError: if that fails
    """
    if sys.platform == "win32":
        return  # directories cannot be opened there
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def sync_file(descriptor: int) -> None:
    """See to it that what was written survives a crash of the machine.

    :raises OSError: if that fails
    """
    if sys.platform == "darwin":
        import fcntl  # not on every platform

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)  # there, fsync leaves it in the drive's cache
    else:
        os.fsync(descriptor)
