"""The file of one chunk: a header that identifies the chunk, then its rows in Arrow's format.

::

    8 bytes   NSQCHUNK
    4 bytes   CRC-32 of all that follows, big-endian
    4 bytes   length of the header, big-endian
    header    JSON, padded with spaces: format, place (query/epoch/partition), number, rows, bytes
    rows      Arrow IPC stream of one record batch; empty in the end chunk

Format 1 is a plain Arrow IPC file. It is still read, but no longer written.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from typing import Any, cast

import pyarrow as pa

from ..storage.place import Place
from .schema import arrow_schema, no_rows
from .spool_errors import SpoolDamaged

FORMAT = 2

_MAGIC = b"NSQCHUNK"
_MAGIC_OF_FORMAT_1 = b"ARROW1"
_PREFIX = len(_MAGIC) + 8
_ALIGNMENT = 64
"""The alignment at which Arrow can use buffers without copying them."""


@dataclass(frozen=True, slots=True)
class Record:
    """What the partition's record says about a chunk, written as a file name.

    :ivar number: the number of the chunk in its partition
    :ivar rows: the number of rows; 0 in the end chunk
    :ivar bytes: the bytes of their bodies
    :ivar checksum: the checksum of the chunk's file
    """

    number: int
    rows: int
    bytes: int
    checksum: int

    @property
    def name(self) -> str:
        """The file name."""
        return f"{self.number:06d}-{self.rows}-{self.bytes}-{self.checksum:08x}"

    @classmethod
    def of(cls, name: str) -> Record | None:
        """Parse a file name; return None if it is not the name of a record."""
        try:
            number, rows, size, checksum = name.split("-")
            record = cls(int(number), int(rows), int(size), int(checksum, 16))
        except ValueError:
            return None
        return record if record.name == name else None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk that was read and verified.

    :ivar path: its file
    :ivar batch: its rows; empty in the end chunk
    """

    path: Place
    record: Record
    batch: pa.RecordBatch


def encode(batch: pa.RecordBatch, place: str, number: int) -> tuple[Record, list[bytes | memoryview]]:
    """Return the record of a chunk, and the parts of its file.

    :param place: the partition, as ``query/epoch/partition``
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


def decode(content: bytes, path: Place, place: str, number: int) -> Chunk:
    """Verify the checksum and the number of a file, and return its chunk.

    :raises SpoolDamaged: if it is another chunk, or not what was written
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
        raise SpoolDamaged(path, f"has format {fields['format']}, but this version reads {FORMAT} and 1")
    if (fields["place"], fields["number"]) != (place, number):
        raise SpoolDamaged(
            path, f"is another chunk, number {fields['number']} of {fields['place']}, copied or renamed"
        )
    record = Record(number, fields["rows"], fields["bytes"], checksum)
    if not record.rows:
        return Chunk(path, record, no_rows())
    with pa.ipc.open_stream(pa.py_buffer(content)[end:]) as reader:
        return Chunk(path, record, reader.read_next_batch())


def _decode_format_1(content: bytes, path: Place, number: int) -> Chunk:
    try:
        with pa.ipc.open_file(pa.py_buffer(content)) as reader:
            batch = reader.get_batch(0)
        batch.validate(full=True)
        if not batch.schema.equals(arrow_schema()):
            raise ValueError("it has other columns")
    except Exception as error:
        # The file has no checksum, and Arrow may raise anything for damaged bytes, even SystemError.
        raise SpoolDamaged(path, f"is not a chunk of a spool: {error}") from error
    return Chunk(path, Record(number, batch.num_rows, _body_bytes(batch), zlib.crc32(content)), batch)


def _body_bytes(batch: pa.RecordBatch) -> int:
    return cast("pa.BinaryArray", batch.column("body")).total_values_length if batch.num_rows else 0
