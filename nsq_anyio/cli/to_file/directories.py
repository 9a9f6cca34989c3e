"""Create directories that survive a crash of the machine."""

from __future__ import annotations

from pathlib import Path

from ...files import sync_directory

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
