"""The operations on files that a spool is made of.

Nothing is appended to, and nothing is replaced: a file is put whole under a name that was free, its names are
listed, and it is deleted. That is what an object store can do as well.
"""

from __future__ import annotations

import io
import json
import os
import uuid
import zlib
from pathlib import Path
from typing import Any, cast

from .spool_errors import SpoolDamaged, as_spool_error

__all__ = [
    "LEASE",
    "committed",
    "fsync_directory",
    "holds_no_rows",
    "is_temporary",
    "load_document",
    "mark",
    "mark_committed",
    "numbered_directories",
    "put",
    "put_document",
]

LEASE = "lease-"
"""How the files begin that show who uses a spool."""

_COMMITTED = "committed-"
_CHECKSUM = "checksum"


def put(target: Path, *content: bytes | memoryview, record: Path | None = None) -> bool:
    """Write a file whole, and give it its name; return whether the name was free.

    Its content is on disk before it has the name; the name is when the directory is synced.

    :param record: a second name, which it gets after the first one
    :raises OSError: if it cannot be written; no part of it stays unless it is the record that fails
    """
    temporary = target.with_name(f".{target.name}-{uuid.uuid4().hex}")
    try:
        with temporary.open("xb", buffering=0) as file:
            for part in content:
                _write(file, part)
            os.fsync(file.fileno())
        if not _link(temporary, target):
            return False
        if record is not None:
            # A name costs a filesystem little, and one more file about as much as all the rest.
            temporary.rename(record)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _link(temporary: Path, target: Path) -> bool:
    try:
        os.link(temporary, target)
    except FileExistsError:
        # A network filesystem may lose the answer, and find our own link when it asks again.
        return target.samefile(temporary)
    return True


def _write(file: io.FileIO, content: bytes | memoryview) -> None:
    """All of it: on a disk that gets full, a write may do a part only, and the next one tells why."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]


def is_temporary(name: str) -> bool:
    """Whether a file has not got its name yet, or never will because its writer was killed."""
    return name.startswith(".")


def holds_no_rows(name: str) -> bool:
    """Whether a file only helps those who use a spool, so that nothing is lost with it."""
    return is_temporary(name) or name.startswith((_COMMITTED, LEASE))


def mark(target: Path) -> None:
    """Make an empty file, whose name says all; one that is there already says the same.

    :raises OSError: if it cannot be made
    """
    target.touch()


def put_document(target: Path, fields: dict[str, Any]) -> bool:
    """Put a JSON file with a checksum; return whether the name was free.

    :raises SpoolError: if it cannot be written
    """
    with as_spool_error(target):
        is_new = put(target, _document(fields))
        fsync_directory(target.parent)
    return is_new


def load_document(path: Path) -> Any:
    """What a JSON file says; its checksum, if it has one, is right.

    :raises SpoolDamaged: if it is missing, or not what was written
    :raises SpoolError: if it cannot be read
    """
    try:
        with as_spool_error(path):
            content = path.read_bytes()
            found = json.loads(content)
    except (ValueError, RecursionError):  # the latter where it is nested deep
        raise SpoolDamaged(path, "is damaged: it is not JSON") from None
    if not isinstance(found, dict):
        return found
    fields = cast("dict[str, Any]", found)
    # Format 1 has none.
    if fields.pop(_CHECKSUM, None) is None and fields.get("format") == 1:
        return fields
    if _document(fields) != content:
        raise SpoolDamaged(path, "is damaged: its checksum is wrong")
    return fields


def _document(fields: dict[str, Any]) -> bytes:
    text = json.dumps(fields)
    return json.dumps({**fields, _CHECKSUM: f"{zlib.crc32(text.encode()):08x}"}).encode()


def numbered_directories(path: Path) -> list[int]:
    """The directories whose names are numbers, in order; whatever else is there is not the spool's.

    :raises SpoolError: if it cannot be listed
    """
    with as_spool_error(path), os.scandir(path) as entries:
        return sorted(int(entry.name) for entry in entries if _is_number(entry.name) and entry.is_dir())


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal() and str(int(name)) == name


def mark_committed(spool: Path, epoch: int) -> None:
    """Note that Spark has committed the batches up to ``epoch``.

    :raises OSError: if it cannot be noted
    """
    mark(spool / f"{_COMMITTED}{epoch}")
    for older in _committed(spool):
        if older < epoch:
            (spool / f"{_COMMITTED}{older}").unlink(missing_ok=True)


def committed(spool: Path) -> int:
    """The last epoch that Spark has committed; 0 if there is none, or no spool.

    :raises OSError: if it cannot be read
    """
    try:
        return max(_committed(spool), default=0)
    except FileNotFoundError:
        return 0


def _committed(spool: Path) -> list[int]:
    names = (name.removeprefix(_COMMITTED) for name in os.listdir(spool) if name.startswith(_COMMITTED))  # noqa: PTH208 - names will do
    return [int(name) for name in names if _is_number(name)]


def fsync_directory(path: Path) -> None:
    """Have the names in a directory survive a power failure."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
