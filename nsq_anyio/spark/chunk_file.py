"""The file of one chunk: its rows as Arrow has them, behind a header that says which chunk it is.

::

    8 bytes   NSQCHUNK
    4 bytes   CRC-32 of all that follows, big-endian
    4 bytes   length of the header, big-endian
    header    JSON, filled up with spaces: format, place (query/epoch/partition), number, rows, bytes
    rows      Arrow IPC stream of one record batch; nothing in the chunk that is the end

Format 1 is an Arrow IPC file with nothing around it. It is read, and not written any more.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from .schema import arrow_schema
from .spool_errors import SpoolDamaged

__all__ = ["FORMAT", "Chunk", "Record", "decode", "encode"]

FORMAT = 2

_MAGIC = b"NSQCHUNK"
_MAGIC_OF_FORMAT_1 = b"ARROW1"
_PREFIX = len(_MAGIC) + 8
_ALIGNMENT = 64
"""Where Arrow wants its buffers, so that it need not copy them."""


@dataclass(frozen=True, slots=True)
class Record:
    """What is noted of a chunk, as a name, apart from the chunk itself.

    :ivar number: of the chunk in its partition
    :ivar rows: in it; none in the end
    :ivar bytes: of their bodies
    :ivar checksum: of the chunk's file
    """

    number: int
    rows: int
    bytes: int
    checksum: int

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.number:06d}-{self.rows}-{self.bytes}-{self.checksum:08x}"

    @classmethod
    def of(cls, name: str) -> Record | None:
        """Read a name; None for one that is no record's."""
        try:
            number, rows, size, checksum = name.split("-")
            record = cls(int(number), int(rows), int(size), int(checksum, 16))
        except ValueError:
            return None
        return record if record.name == name else None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk that was read, and is what was written.

    :ivar path: of its file
    :ivar batch: its rows; none in the end
    """

    path: Path
    record: Record
    batch: pa.RecordBatch


def encode(batch: pa.RecordBatch, place: str, number: int) -> tuple[Record, list[bytes | memoryview]]:
    """Return what to note of a chunk, and what its file consists of.

    :param place: of its partition, as ``query/epoch/partition``
    """
    rows = memoryview(b"")
    if batch.num_rows:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)  # pyright: ignore[reportUnknownMemberType] - stubs lack its return type
        rows = memoryview(sink.getvalue())
    size = _body_bytes(batch)
    fields = {"format": FORMAT, "place": place, "number": number, "rows": batch.num_rows, "bytes": size}
    header = json.dumps(fields).encode()
    header += b" " * (-(_PREFIX + len(header)) % _ALIGNMENT)
    behind = len(header).to_bytes(4, "big") + header
    checksum = zlib.crc32(rows, zlib.crc32(behind))
    first = _MAGIC + checksum.to_bytes(4, "big") + behind
    return Record(number, batch.num_rows, size, checksum), [first, rows]


def decode(content: bytes, path: Path, place: str, number: int) -> Chunk:
    """Return the chunk of a file, after its checksum and its number are found right.

    :raises SpoolDamaged: if it is not the one that it should be, or not what was written
    """
    if content.startswith(_MAGIC_OF_FORMAT_1):
        return _decode_format_1(content, path, number)
    if not content.startswith(_MAGIC) or len(content) < _PREFIX:
        raise SpoolDamaged(path, "is not a chunk of a spool")
    view = memoryview(content)
    checksum = int.from_bytes(view[len(_MAGIC) : len(_MAGIC) + 4], "big")
    if zlib.crc32(view[len(_MAGIC) + 4 :]) != checksum:
        raise SpoolDamaged(path, "is damaged: its checksum is wrong")
    end = _PREFIX + int.from_bytes(view[len(_MAGIC) + 4 : _PREFIX], "big")
    fields: dict[str, Any] = json.loads(content[_PREFIX:end])
    if fields["format"] != FORMAT:
        raise SpoolDamaged(path, f"is of format {fields['format']}, and this version knows {FORMAT} and 1")
    if (fields["place"], fields["number"]) != (place, number):
        raise SpoolDamaged(
            path, f"is another chunk, number {fields['number']} of {fields['place']}, copied or renamed"
        )
    record = Record(number, fields["rows"], fields["bytes"], checksum)
    if not record.rows:
        return Chunk(path, record, _no_rows())
    with pa.ipc.open_stream(pa.py_buffer(content)[end:]) as reader:
        return Chunk(path, record, reader.read_next_batch())


def _decode_format_1(content: bytes, path: Path, number: int) -> Chunk:
    try:
        with pa.ipc.open_file(pa.py_buffer(content)) as reader:
            batch = reader.get_batch(0)
        batch.validate(full=True)
        if not batch.schema.equals(arrow_schema()):
            raise ValueError("it has other columns")
    except Exception as error:
        # It has no checksum, and Arrow raises whatever it stumbles over, down to SystemError.
        raise SpoolDamaged(path, f"is not a chunk of a spool: {error}") from error
    return Chunk(path, Record(number, batch.num_rows, _body_bytes(batch), zlib.crc32(content)), batch)


def _body_bytes(batch: pa.RecordBatch) -> int:
    return cast("pa.BinaryArray", batch.column("body")).total_values_length if batch.num_rows else 0


def _no_rows() -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=arrow_schema())
