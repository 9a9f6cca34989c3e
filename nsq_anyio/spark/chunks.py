"""The chunks of one partition: who publishes which, and when there are no more.

::

    <spoolDir>/<query uuid>/<epoch>/<partition>/000000.arrow
                                                000001.arrow
                                                000002.arrow   no rows: the end

Every chunk is a file that takes the next number, and taking a number is exclusive. Of several attempts at a
partition (Spark's retry beside an executor that was only believed to be dead, or speculation) one wins each
number, and a message is finished by the attempt that stored it. The end takes a number as well: were it a
file of its own, an attempt could still publish a chunk behind it, and nobody would ever read that one.
"""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pyarrow as pa

from .spool_errors import PartitionLost, SpoolError, naming

__all__ = ["Partition", "Stored", "fsync_directory", "publish"]

_SUFFIX = ".arrow"


@dataclass(frozen=True, slots=True)
class Stored:
    """What is there of a partition.

    :ivar chunks: with rows; the next one takes this number
    :ivar rows: in all of them
    :ivar bytes: of their bodies
    :ivar ended: whether no more can follow
    """

    chunks: int
    rows: int
    bytes: int
    ended: bool


@dataclass(frozen=True, slots=True)
class Partition:
    """The directory of one partition of one epoch."""

    path: Path

    def make(self) -> None:
        """Make the directory, unless it is there.

        Never the epoch's: a late attempt at a batch that Spark has committed would start a second life of it,
        and finish messages that nobody reads.

        :raises PartitionLost: if Spark has committed the batch
        :raises SpoolError: if the directory cannot be made
        """
        with naming(self.path):
            try:
                self.path.mkdir()
            except FileExistsError:
                return
            except FileNotFoundError:
                self._check_not_committed()
                raise
            fsync_directory(self.path.parent)

    def _check_not_committed(self) -> None:
        epoch = self.path.parent
        if epoch.parent.is_dir() and not epoch.exists():
            raise PartitionLost(
                self.path, "Spark has committed this batch: another attempt has done the work of this one"
            ) from None

    def stored(self) -> Stored:
        """Look at what is there.

        :raises SpoolError: if the directory is missing, or a file in it is no chunk
        """
        chunks = rows = size = 0
        for batch in self._numbered():
            if not batch.num_rows:
                return Stored(chunks, rows, size, ended=True)
            chunks += 1
            rows += batch.num_rows
            size += cast("pa.BinaryArray", batch.column("body")).total_values_length
        return Stored(chunks, rows, size, ended=False)

    def read(self) -> Iterator[pa.RecordBatch]:
        """Each chunk's rows, in order; the files may be deleted once they are open.

        :raises SpoolError: if the directory is missing, or a file in it is no chunk
        """
        for batch in self._numbered():
            if not batch.num_rows:
                return
            yield batch

    def publish(self, number: int, batch: pa.RecordBatch) -> None:
        """Store a chunk for good, in one step.

        :raises PartitionLost: if another attempt has taken the number, or Spark has committed the batch
        :raises SpoolError: if it cannot be written; nothing of it stays
        """
        target = self._chunk(number)
        try:
            is_first = publish(target, _file_of(batch))
        except SpoolError:
            self._check_not_committed()
            raise
        if not is_first:
            raise PartitionLost(
                target, "another attempt at this partition was first; what this one holds goes back to nsqd"
            )

    def end(self, number: int, schema: pa.Schema) -> None:
        """Let no chunk follow: from now on the partition has the same rows for ever.

        :raises PartitionLost: if another attempt has taken the number, or Spark has committed the batch
        :raises SpoolError: if it cannot be written
        """
        self.publish(number, pa.RecordBatch.from_pylist([], schema=schema))

    def _chunk(self, number: int) -> Path:
        return self.path / f"{number:06d}{_SUFFIX}"

    def _numbered(self) -> Iterator[pa.RecordBatch]:
        with naming(self.path):
            count = sum(name.endswith(_SUFFIX) for name in os.listdir(self.path))  # noqa: PTH208 - names will do
        for number in range(count):
            yield _load(self._chunk(number))


def _load(path: Path) -> pa.RecordBatch:
    with naming(path):
        try:
            with pa.memory_map(os.fspath(path)) as source, pa.ipc.open_file(source) as reader:
                return reader.get_batch(0)
        except pa.ArrowInvalid as error:
            raise SpoolError(path, f"is not a chunk of a spool: {error}") from error


def publish(target: Path, content: bytes | memoryview) -> bool:
    """Write a file and give it its name, on disk before this returns; whether the name was free.

    :raises SpoolError: if it cannot be written; no part of it stays
    """
    temporary = target.with_name(f".{target.name}-{uuid.uuid4().hex}")
    with naming(target):
        try:
            with temporary.open("xb", buffering=0) as file:
                _write(file, content)
                os.fsync(file.fileno())
            os.link(temporary, target)
        except FileExistsError:
            # A network filesystem may lose the answer, and find our own link when it asks again.
            if not target.samefile(temporary):
                return False
        finally:
            temporary.unlink(missing_ok=True)
        fsync_directory(target.parent)
    return True


def _file_of(batch: pa.RecordBatch) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batch.schema) as writer:
        writer.write_batch(batch)  # pyright: ignore[reportUnknownMemberType] - stubs lack its return type
    return memoryview(sink.getvalue())


def _write(file: io.FileIO, content: bytes | memoryview) -> None:
    """All of it: on a disk that gets full, a write may do a part only, and the next one tells why."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]


def fsync_directory(path: Path) -> None:
    """Have the names in a directory survive a power failure."""
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
