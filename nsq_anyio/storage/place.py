"""A file or directory, and the storage that has it."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any, TypeAlias

from .interface import Storage
from .posix import PosixStorage
from .remote import RemotePlace, RemoteStorage
from .url import HDFS, is_url, local_path, split

Place: TypeAlias = Path | RemotePlace

_POSIX = PosixStorage()


def place_of(location: str | os.PathLike[str]) -> Place:
    """Return the place that a path or URL names.

    :raises InvalidOption: for a URL that is not valid
    """
    text = os.fspath(location)
    path = local_path(text)
    if path is not None:
        return Path(path)
    return split(text) if is_url(text) else Path(text)


def storage_of(place: Place) -> Storage[Any]:
    """Return the storage that has a place.

    :raises ImportError: if it needs a package that is not installed
    """
    return _POSIX if isinstance(place, Path) else remote_storage_of(place)


def remote_storage_of(place: RemotePlace) -> RemoteStorage:
    """Return the storage of a place that a URL names.

    :raises ImportError: if it needs a package that is not installed
    """
    return _remote(place.root)


@functools.cache
def _remote(root: str) -> RemoteStorage:
    """Return the storage of a bucket or file system, which keeps its connections while the process lives."""
    # What one kind of storage needs is not loaded, and need not be installed, for another.
    if root.startswith(HDFS):
        from .webhdfs import WebHdfs  # noqa: PLC0415

        return WebHdfs(root)
    try:
        from .objects import ObjectStorage  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(
            f"object stores need obstore ({error}): pip install 'nsq-anyio[object-store]'",
            name=error.name,
        ) from error
    return ObjectStorage(root)
