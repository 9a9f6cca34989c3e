"""The files of a spool in any storage: JSON documents, and empty files whose names are the information."""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection
from typing import Any, cast

from ..storage.place import Place, storage_of
from .spool_errors import SpoolDamaged, SpoolError, as_spool_error

LEASE = "lease-"
"""The prefix of lease files."""

_COMMITTED = "committed-"
_CHECKSUM = "checksum"


def put(target: Place, *content: bytes | memoryview, record: Place | None = None) -> bool:
    """Put a complete file; return False, and write nothing, if its name is taken.

    The content is durable before the file gets its name. The name is durable after a sync of the directory.

    :param record: the place of its record, which is put after it; only the name matters
    :raises OSError: if it cannot be written; then no part of it remains, unless only the record failed
    """
    return storage_of(target).put(target, *content, record=record)


def is_temporary(name: str) -> bool:
    """Return whether a file is still being written, or was left by a writer that was killed."""
    return name.startswith(".")


def holds_no_rows(name: str) -> bool:
    """Return whether a file has no rows, so that nothing is lost with it."""
    return is_temporary(name) or name.startswith((_COMMITTED, LEASE))


def mark(target: Place) -> None:
    """Create an empty file, whose name is the information, unless it exists.

    :raises OSError: if it cannot be created
    """
    storage_of(target).put_empty(target)


def put_document(target: Place, fields: dict[str, Any]) -> bool:
    """Put a JSON file with a checksum; return whether the name was free.

    :raises SpoolError: if it cannot be written
    """
    with as_spool_error(target):
        is_new = put(target, _document(fields))
        storage_of(target).sync(target.parent)
    return is_new


def load_document(path: Place) -> Any:
    """Return the content of a JSON file, after checking its checksum, if it has one.

    :raises SpoolDamaged: if it is missing, or differs from what was written
    :raises SpoolError: if it cannot be read
    """
    try:
        with as_spool_error(path):
            content = storage_of(path).get(path)
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


def load_fields(path: Place, formats: Collection[int]) -> dict[str, Any]:
    """Return the fields of a JSON file, as `load_document` does.

    :param formats: the allowed values of its field ``format``
    :raises SpoolError: as `load_document`, and for a file of another format
    """
    found = load_document(path)
    if not isinstance(found, dict):
        raise SpoolDamaged(path, "is damaged: it is not a JSON object")
    fields = cast("dict[str, Any]", found)
    if fields.get("format") not in formats:
        known = " and ".join(map(str, formats))
        raise SpoolError(path, f"has format {fields.get('format')}, but this version reads {known}")
    return fields


def _document(fields: dict[str, Any]) -> bytes:
    text = json.dumps(fields)
    return json.dumps({**fields, _CHECKSUM: f"{zlib.crc32(text.encode()):08x}"}).encode()


def numbered_directories(path: Place) -> list[int]:
    """Return the directories whose names are numbers, as sorted integers; all other entries are ignored.

    :raises SpoolError: if it cannot be listed
    """
    with as_spool_error(path):
        entries = storage_of(path).entries(path)
    return sorted(int(entry.name) for entry in entries if _is_number(entry.name) and entry.is_directory)


def _is_number(name: str) -> bool:
    return name.isascii() and name.isdecimal() and str(int(name)) == name


def mark_committed(spool: Place, epoch: int) -> None:
    """Record that Spark has committed the batches up to ``epoch``.

    :raises OSError: if it cannot be recorded
    """
    mark(spool / f"{_COMMITTED}{epoch}")
    older = (number for number in _committed(spool) if number < epoch)
    storage_of(spool).remove(*(spool / f"{_COMMITTED}{number}" for number in older))


def committed(spool: Place) -> int:
    """Return the last epoch that Spark has committed; 0 if there is none, or no spool.

    :raises OSError: if it cannot be read
    """
    try:
        return max(_committed(spool), default=0)
    except FileNotFoundError:
        return 0


def _committed(spool: Place) -> list[int]:
    names = (entry.name for entry in storage_of(spool).entries(spool))
    numbers = (name.removeprefix(_COMMITTED) for name in names if name.startswith(_COMMITTED))
    return [int(number) for number in numbers if _is_number(number)]
