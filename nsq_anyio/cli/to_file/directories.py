"""Create directories that survive a crash of the machine, and move files without overwriting any."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from ...durable import link_exclusively, sync_directory

__all__ = ["make_directories", "move_exclusively"]

_MODE = 0o770
"""The mode of new directories, as in nsq_to_file."""


def make_directories(path: Path) -> None:
    """Create a directory and its missing parents.

    :raises OSError: if that fails
    """
    missing = [path, *path.parents]
    while missing and missing[-1].is_dir():
        missing.pop()
    for directory in reversed(missing):
        directory.mkdir(_MODE, exist_ok=True)
        sync_directory(directory.parent)


def move_exclusively(source: Path, target: Path) -> None:
    """Rename a file on the same file system, unless the new name is taken.

    :raises FileExistsError: if the new name is taken
    :raises OSError: if renaming fails otherwise
    """
    if not link_exclusively(source, target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target))
    sync_directory(target.parent)
    source.unlink()
    sync_directory(source.parent)
