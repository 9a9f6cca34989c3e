"""Directory entries that survive a crash of the machine, and moves that overwrite nothing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ...durable import link_exclusively, sync_directory

__all__ = ["make_directories", "move_exclusively"]

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
    if not link_exclusively(source, target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    sync_directory(target.parent)
    source.unlink()
    sync_directory(source.parent)
