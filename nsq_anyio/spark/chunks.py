"""The chunks of one partition, their record, and their end.

::

    <spoolDir>/<query uuid>/<epoch>/<partition>/000000.arrow
                                                000001.arrow
                                                000002.arrow       no rows: the end chunk
                                    <partition>.record/000000-1250-125000-8f3a01c2
                                                       000001-400-40000-11d0be97
                                                       000002-0-0-30c6a4e1

Each chunk takes the next number, and only one attempt can take a number. There may be several attempts at a
partition: a retry while a lost executor still runs, speculation, or two tasks that read the same rows. One of
them wins each number, and each message is finished by the attempt that stored it. The end is a chunk, too: if
it were a separate file, an attempt could store a chunk after it, and nobody would read that chunk.

The record lies beside the chunks, so that a deleted chunk is noticed. It consists only of file names, which
cannot be half written and need no fsync. The content of these files does not matter: on a file system, each
is a second link to the chunk's file, because a link is much cheaper than another file; elsewhere, it is
empty. An attempt that is killed may leave its last chunk without a record; the next attempt adds it.

The file of a chunk has a header that identifies the chunk, then its rows in Arrow's format::

    8 bytes   NSQCHUNK
    4 bytes   CRC-32 of all that follows, big-endian
    4 bytes   length of the header, big-endian
    header    JSON, padded with spaces: format, place (query/epoch/partition), number, rows, bytes
    rows      Arrow IPC stream of one record batch; empty in the end chunk

Format 1 is a plain Arrow IPC file. It is still read, but no longer written.
"""

from __future__ import annotations

import errno
import json
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import pyarrow as pa

from ..storage.interface import Storage
from ..storage.place import Place, storage_of
from .schema import arrow_schema, no_rows
from .spool_errors import AttemptSuperseded, NumberTaken, SpoolDamaged, SpoolError, as_spool_error
from .spool_files import committed, mark, put

F = TypeVar("F")

FORMAT = 2

_MAGIC = b"NSQCHUNK"
_MAGIC_OF_FORMAT_1 = b"ARROW1"
_PREFIX = len(_MAGIC) + 8
_ALIGNMENT = 64
"""The alignment at which Arrow can use buffers without copying them."""

_SUFFIX = ".arrow"
_DIGITS = 6
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ESTALE}


@dataclass(frozen=True, slots=True)
class Record:
    """The record of a chunk, written as a file name.

    :ivar number: the number of the chunk in its partition
    :ivar rows: the number of rows; 0 in the end chunk
    :ivar bytes: the bytes of the rows' bodies
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


@dataclass(frozen=True, slots=True)
class Stored:
    """The stored part of a partition.

    :ivar chunks: the number of chunks with rows, which is also the number of the next chunk
    :ivar rows: the rows in all of them
    :ivar bytes: the bytes of the rows' bodies
    :ivar ended: whether there is an end chunk
    """

    chunks: int
    rows: int
    bytes: int
    ended: bool


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of one epoch.

    :ivar path: the directory of the chunks
    """

    path: Place

    @property
    def record(self) -> Place:
        """The directory with the records of the chunks."""
        return self.path.with_name(f"{self.path.name}.record")

    @property
    def _storage(self) -> Storage[Any]:
        return storage_of(self.path)

    def check(self) -> None:
        """Check that the directories exist.

        :raises SpoolDamaged: if one is missing
        """
        check_all([self])

    def stored(self) -> Stored:
        """Return how much is stored. Add the record that a killed attempt did not write.

        :raises AttemptSuperseded: if Spark has committed the batch
        :raises SpoolDamaged: if a chunk is missing, or a file is not a chunk
        :raises SpoolError: if it cannot be read
        """
        noted, found = self._listed()
        for number in sorted(found - noted.keys()):
            record = self._load(number).record
            with self._explained(self.record, is_new=True):
                mark(self.record / record.name)
            noted[number] = record
        records = self._complete(noted, found)
        ended = bool(records) and not records[-1].rows
        return Stored(
            len(records) - ended,
            sum(record.rows for record in records),
            sum(record.bytes for record in records),
            ended=ended,
        )

    def read(self, first: int = 0, *, ended: bool = False) -> Iterator[pa.RecordBatch]:
        """Yield the rows of each chunk, in order.

        :param first: the number of the first chunk
        :param ended: whether the end chunk must be there
        :raises AttemptSuperseded: if Spark has committed the batch
        :raises SpoolDamaged: if a chunk is missing, or differs from what was stored
        :raises SpoolError: if it cannot be read
        """
        noted, found = self._listed()
        for number in found - noted.keys():
            noted[number] = self._load(number).record
        records = self._complete(noted, found)
        if ended and (not records or records[-1].rows):
            raise self.why_gone() or SpoolDamaged(
                self._chunk(len(records)), "is missing, although the partition has ended"
            )
        for record in records[first:]:
            if record.rows:
                yield self._load(record.number, record).batch

    def salvage(self) -> Iterator[Chunk | SpoolError]:
        """Yield each sound chunk, even without a record, and an error for each damaged or missing one."""
        return self._each(self._load)

    def recorded(self) -> Iterator[tuple[Place, Record] | SpoolError]:
        """Yield the file of each chunk and its record, and an error for each missing one.

        Only a chunk without a record is read.
        """
        return self._each(lambda number, noted: (self._chunk(number), noted or self._load(number).record))

    def _each(self, load: Callable[[int, Record | None], F]) -> Iterator[F | SpoolError]:
        noted: dict[int, Record] = {}
        try:
            with as_spool_error(self.record):
                is_there = self._storage.exists(self.record)
            noted = self._records() if is_there else {}
        except SpoolError as error:
            yield error
        try:
            found = self._numbers()
        except SpoolError as error:
            yield error
            return
        for number in range(max(found | noted.keys(), default=-1) + 1):
            try:
                if number not in found:
                    raise self._missing_chunk(number, noted)
                yield load(number, noted.get(number))
            except SpoolError as error:
                yield error

    def store_chunk(self, number: int, batch: pa.RecordBatch) -> None:
        """Store a chunk durably and atomically.

        :raises NumberTaken: if another attempt has taken the number
        :raises AttemptSuperseded: if Spark has committed the batch
        :raises SpoolError: if it cannot be written; then no part of it remains
        """
        record, content = encode(batch, self._place, number)
        target = self._chunk(number)
        with self._explained(target, is_new=True):
            if not put(target, *content, record=self.record / record.name):
                raise NumberTaken(
                    target,
                    "another attempt at this partition was first; the messages of this one go back to nsqd",
                )
            # Only now, so that a local file system commits both names in one journal transaction.
            self._storage.sync(self.path)
        if not self._storage.takes_out_at_once:
            # A late attempt can take a number again once its chunk is deleted.
            self._check_not_committed()

    def end(self, number: int) -> None:
        """Store the end chunk: no chunk can follow it, and the rows of the partition are final.

        :raises NumberTaken: if another attempt has taken the number
        :raises AttemptSuperseded: if Spark has committed the batch
        :raises SpoolError: if it cannot be written
        """
        self.store_chunk(number, no_rows())

    def why_gone(self) -> SpoolError | None:
        """Return the error for the outermost directory that is missing; None if none is."""
        epoch = self.path.parent
        spool = epoch.parent
        with as_spool_error(spool):
            if not self._storage.is_directory(spool):
                return SpoolError(
                    self._storage.marker_of(spool),
                    "is missing: spoolDir must be a path that the driver and all executors share, and "
                    "must outlive the query",
                )
        try:
            self._check_not_committed()
        except AttemptSuperseded as superseded:
            return superseded
        with as_spool_error(spool):
            lost = self._storage.missing([epoch, self.path, self.record])
        return missing(lost[0]) if lost else None

    def _check_not_committed(self) -> None:
        epoch = self.path.parent
        with as_spool_error(epoch.parent):
            is_committed = epoch.name.isdecimal() and int(epoch.name) <= committed(epoch.parent)
        if is_committed:
            raise AttemptSuperseded(
                self.path, "Spark has committed this batch: another attempt has done the work of this one"
            )

    @property
    def _place(self) -> str:
        return "/".join(self.path.parts[-3:])

    def _chunk(self, number: int) -> Place:
        return self.path / f"{number:0{_DIGITS}d}{_SUFFIX}"

    def _load(self, number: int, noted: Record | None = None) -> Chunk:
        path = self._chunk(number)
        with self._explained(path):
            content = self._storage.get(path)
        chunk = decode(content, path, self._place, number)
        if noted is not None and chunk.record != noted:
            raise SpoolDamaged(path, f"is not the chunk that {self.record / noted.name} records")
        return chunk

    def _listed(self) -> tuple[dict[int, Record], set[int]]:
        """Return the records, and the numbers of the chunks."""
        # In this order, so that a chunk that is stored meanwhile does not seem to be missing.
        return self._records(), self._numbers()

    def _records(self) -> dict[int, Record]:
        with self._explained(self.record):
            names = [entry.name for entry in self._storage.entries(self.record)]
        noted: dict[int, Record] = {}
        for record in filter(None, map(Record.of, names)):
            if noted.setdefault(record.number, record) != record:
                raise SpoolDamaged(self.record, f"records two chunks with number {record.number}")
        return noted

    def _numbers(self) -> set[int]:
        with self._explained(self.path):
            numbers = {_number(entry.name) for entry in self._storage.entries(self.path)}
        return {number for number in numbers if number is not None}

    def _complete(self, noted: dict[int, Record], found: set[int]) -> list[Record]:
        """Return the records in order, after checking that no chunk is missing."""
        for number in range(max(noted, default=-1) + 1):
            if number not in found:
                raise self._missing_chunk(number, noted)
        records = [noted[number] for number in range(len(noted))]
        for record in records[:-1]:
            if not record.rows:
                raise SpoolDamaged(self._chunk(record.number), "ends the partition, but more chunks follow")
        return records

    @contextmanager
    def _explained(self, path: Place, *, is_new: bool = False) -> Generator[None]:
        try:
            with as_spool_error(path):
                yield
        except SpoolError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in _GONE:
                gone = self.why_gone() if is_new else self._missing(path)
                raise (gone or error) from error.__cause__
            raise

    def _missing(self, path: Place) -> SpoolError:
        """Return the error for a file or directory that is missing."""
        return self.why_gone() or SpoolDamaged(path, "is missing, and the rows stored in it are lost")

    def _missing_chunk(self, number: int, noted: dict[int, Record]) -> SpoolError:
        how = "later chunks exist"
        if number in noted:
            how = f"{self.record / noted[number].name} records {noted[number].rows} rows in it"
        return self.why_gone() or SpoolDamaged(self._chunk(number), f"is missing, and {how}")


def make_all(partitions: Iterable[Partition]) -> None:
    """Create the directories of partitions. Only the driver does so, before Spark logs the batch.

    So a missing directory is always a fault. Also, a late attempt at a batch that Spark has committed cannot
    begin it again and finish messages whose rows nobody reads.

    :raises SpoolError: if they cannot be created
    """
    paths = [path for partition in partitions for path in (partition.path, partition.record)]
    if paths:
        with as_spool_error(paths[0].parent):
            storage_of(paths[0]).make(*paths)


def check_all(partitions: Iterable[Partition]) -> None:
    """Check that the directories of partitions exist.

    :raises SpoolDamaged: if one is missing
    """
    of_path = {path: each for each in partitions for path in (each.path, each.record)}
    for first in list(of_path)[:1]:
        with as_spool_error(first.parent):
            lost = storage_of(first).missing(of_path)
        for path in lost:
            raise of_path[path].why_gone() or missing(path)


def missing(directory: Place) -> SpoolDamaged:
    """Return the error for a missing directory, which the driver had created.

    :raises SpoolError: if its storage cannot be read
    """
    storage = storage_of(directory)
    with as_spool_error(directory):
        is_something_else = storage.marker_of(directory) == directory and storage.exists(directory)
    what = "is not a directory" if is_something_else else "is missing"
    return SpoolDamaged(storage.marker_of(directory), f"{what}, and the rows stored in it are lost")


def _number(name: str) -> int | None:
    """Return the number of a chunk's file; None for any other file."""
    digits = name.removesuffix(_SUFFIX)
    is_number = digits.isascii() and digits.isdecimal() and name == f"{int(digits):0{_DIGITS}d}{_SUFFIX}"
    return int(digits) if is_number else None


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

    :raises SpoolDamaged: if it is another chunk, or differs from what was written
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
