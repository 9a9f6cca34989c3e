"""The file operations of a spool.

No file is appended to or replaced. A file is stored whole under a free name, listed, read and deleted. An
object store can do that as well.
"""

from __future__ import annotations

import io
import json
import os
import uuid
import zlib
from pathlib import Path
from typing import Any, cast

from ..durable import link_exclusively, sync_directory, sync_file
from .spool_errors import SpoolDamaged, as_spool_error

__all__ = [
    "LEASE",
    "committed",
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
"""The prefix of lease files."""

_COMMITTED = "committed-"
_CHECKSUM = "checksum"


def put(target: Path, *content: bytes | memoryview, record: Path | None = None) -> bool:
    """Write a file atomically; return False, and write nothing, if its name is taken.

    The content is on disk before the file gets its name. The name is on disk after an fsync of the directory.

    :param record: a second name, which the file gets after the first
    :raises OSError: if it cannot be written; then no part of it remains, unless only the record failed
    """
    temporary = target.with_name(f".{target.name}-{uuid.uuid4().hex}")
    try:
        with temporary.open("xb", buffering=0) as file:
            for part in content:
                _write(file, part)
            sync_file(file.fileno())
        if not link_exclusively(temporary, target):
            return False
        if record is not None:
            # Another name costs a filesystem little; another file would cost as much as all the rest.
            temporary.rename(record)
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _write(file: io.FileIO, content: bytes | memoryview) -> None:
    """Write all of it: when the disk gets full, a write may be partial, and the next one raises."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]


def is_temporary(name: str) -> bool:
    """Return whether a file is still being written, or was left by a writer that was killed."""
    return name.startswith(".")


def holds_no_rows(name: str) -> bool:
    """Return whether a file has no rows, so that nothing is lost with it."""
    return is_temporary(name) or name.startswith((_COMMITTED, LEASE))


def mark(target: Path) -> None:
    """Create an empty file, whose name is the information, unless it exists.

    :raises OSError: if it cannot be made
    """
    target.touch()


def put_document(target: Path, fields: dict[str, Any]) -> bool:
    """Put a JSON file with a checksum; return whether the name was free.

    :raises SpoolError: if it cannot be written
    """
    with as_spool_error(target):
        is_new = put(target, _document(fields))
        sync_directory(target.parent)
    return is_new


def load_document(path: Path) -> Any:
    """Return the content of a JSON file, after checking its checksum, if it has one.

    :raises SpoolDamaged: if it is missing, or not what was written
    :raises SpoolError: if it cannot be read
    """
    try:
        with as_spool_error(path):
            content = path.read_bytes()
            found = json.loads(content)
    except (ValueError, RecursionError):  # RecursionError: nested too deeply
        raise SpoolDamaged(path, "is damaged: it is not JSON") from None
    if not isinstance(found, dict):
        return found
    fields = cast("dict[str, Any]", found)
    # Format 1 has no checksum.
    if fields.pop(_CHECKSUM, None) is None and fields.get("format") == 1:
        return fields
    if _document(fields) != content:
        raise SpoolDamaged(path, "is damaged: its checksum is wrong")
    return fields


def _document(fields: dict[str, Any]) -> bytes:
    text = json.dumps(fields)
    return json.dumps({**fields, _CHECKSUM: f"{zlib.crc32(text.encode()):08x}"}).encode()


def numbered_directories(path: Path) -> list[int]:
    """Return the directories whose names are numbers, in order; everything else there is ignored.

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
    """Return the last epoch that Spark has committed; 0 if there is none, or no spool.

    :raises OSError: if it cannot be read
    """
    try:
        return max(_committed(spool), default=0)
    except FileNotFoundError:
        return 0


def _committed(spool: Path) -> list[int]:
    names = (name.removeprefix(_COMMITTED) for name in os.listdir(spool) if name.startswith(_COMMITTED))  # noqa: PTH208 - names will do
    return [int(name) for name in names if _is_number(name)]
