"""Places: the file or directory that a path or URL names, and the storage that holds it."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from ..errors import InvalidOption
from .interface import Storage
from .posix import PosixStorage
from .remote import RemotePlace, RemoteStorage

_OBJECTS = ("s3://", "s3a://", "gs://", "az://")
_AZURE_BY_ACCOUNT = ("abfss://", "abfs://")
_CONTAINER_AND_ACCOUNT = re.compile(r"[a-z0-9-]+@[a-z0-9]+\.dfs\.core\.windows\.net")
_SAME = {"s3a://": "s3://", "abfs://": "abfss://"}
"""Synonyms of prefixes. Hadoop uses ``abfs://`` for Azure without TLS; here TLS is used in any case."""
HDFS = ("hdfs://", "webhdfs://", "swebhdfs://")
"""The prefixes of HDFS URLs; the last two name the HTTP server."""

_CHOICES = (
    "use the absolute path, or the file: URI, of a directory, such as /mnt/shared/nsq, or the URL of a "
    "directory in S3, Google Cloud Storage, Azure or HDFS, such as s3://bucket/nsq, gs://bucket/nsq, "
    "abfss://container@account.dfs.core.windows.net/nsq or hdfs://namenode/nsq; "
    "any other store works only if it is mounted"
)

_POSIX = PosixStorage()


def is_url(given: str) -> bool:
    """Return whether a text is a URL rather than a path."""
    return "://" in given


def local_path(given: str) -> str | None:
    """Return the path that a ``file:`` URI names; None for anything else.

    :raises InvalidOption: for another machine's file
    """
    if not given.startswith("file:"):
        return None
    parts = urlsplit(given)
    if parts.netloc not in {"", "localhost"}:
        raise InvalidOption(_CHOICES)
    return unquote(parts.path)


def split(given: str) -> RemotePlace:
    """Return the place that a URL names.

    :raises InvalidOption: for a URL of another kind, or with a user, a query or names that are not plain
    """
    scheme, _, rest = given.partition("://")
    start = f"{scheme.lower()}://"
    server, _, path = rest.partition("/")
    if start not in (*_OBJECTS, *_AZURE_BY_ACCOUNT, *HDFS):
        raise InvalidOption(_CHOICES)
    plain = rest
    if start in _AZURE_BY_ACCOUNT:
        if not _CONTAINER_AND_ACCOUNT.fullmatch(server):
            raise InvalidOption(
                f"use {start}container@account.dfs.core.windows.net/nsq, without key or token; for an "
                "account elsewhere, use az://container/nsq with AZURE_STORAGE_ACCOUNT_NAME and "
                "AZURE_STORAGE_ENDPOINT in the environment"
            )
        plain = path
    if not server or not server.isprintable() or any(each in plain for each in "@?#\\%") or " " in server:
        raise InvalidOption(
            "use a URL without user, password, query or escapes, such as s3://bucket/nsq: "
            "credentials come from the environment"
        )
    names = tuple(name for name in path.split("/") if name)
    if not names:
        raise InvalidOption(f"name a directory in {start}{server}, such as {start}{server}/nsq")
    if any(name in {".", ".."} or not name.isprintable() for name in names):
        raise InvalidOption("use a URL whose directories are neither . nor .., nor have control characters")
    return RemotePlace(_SAME.get(start, start) + server, names)


def spool_location(given: str) -> str:
    """Return where spools are: the absolute path of a directory, or a URL.

    :raises InvalidOption: for anything else
    """
    path = local_path(given)
    if path is None and is_url(given):
        return str(split(given))
    path = given if path is None else path
    if not PurePosixPath(path).is_absolute():
        raise InvalidOption(f"{_CHOICES}; the driver and the executors must share it")
    return str(PurePosixPath(path))


Place: TypeAlias = Path | RemotePlace


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
    """Return the storage that holds a place.

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
    # The packages of one kind of storage are not loaded, and need not be installed, for another.
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
