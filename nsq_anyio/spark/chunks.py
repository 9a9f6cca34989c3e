"""The chunks of one partition: who publishes which, what is noted of them, and when there are no more.

::

    <spoolDir>/<query uuid>/<epoch>/<partition>/000000.arrow       see `chunk_file`
                                                000001.arrow
                                                000002.arrow       no rows: the end
                                    <partition>.record/000000-1250-125000-8f3a01c2
                                                       000001-400-40000-11d0be97
                                                       000002-0-0-30c6a4e1

Every chunk is a file that takes the next number, and taking a number is exclusive. Of several attempts at a
partition (Spark's retry beside an executor that was only believed to be dead, speculation, or two tasks that
read the same rows) one wins each number, and a message is finished by the attempt that stored it. The end
takes a number as well: were it a file of its own, an attempt could still publish a chunk behind it, and
nobody would ever read that one.

The record is apart from the chunks, so that a chunk that is gone is missed. It consists of names alone, which
cannot be half written, and need no sync of their own; whether there is something under a name does not
matter. Here it is the chunk's own file: a second name costs next to nothing, a second file a lot. A chunk
without one is the last that an attempt stored before it was killed; the next attempt adds it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from .chunk_file import Chunk, Record, decode, encode
from .schema import arrow_schema
from .spool_errors import AttemptSuperseded, NumberTaken, SpoolDamaged, SpoolError, as_spool_error
from .spool_files import committed, fsync_directory, mark, put

__all__ = ["Partition", "Stored"]

_SUFFIX = ".arrow"
_DIGITS = 6
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ESTALE}


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
    """One partition of one epoch.

    :ivar path: the directory of its chunks
    """

    path: Path

    @property
    def record(self) -> Path:
        """The directory of what is noted of its chunks."""
        return self.path.with_name(f"{self.path.name}.record")

    def make(self) -> None:
        """Make its directories. The driver does it, before Spark logs the batch; nobody does it later.

        So their absence is always a fault; and a late attempt at a batch that Spark has committed cannot
        start a second life of it, and finish messages that nobody reads.

        :raises SpoolError: if they cannot be made
        """
        for path in (self.path, self.record):
            with as_spool_error(path):
                path.mkdir(exist_ok=True)

    def check(self) -> None:
        """Look whether its directories are there.

        :raises SpoolDamaged: if not
        """
        for path in (self.path, self.record):
            if not path.is_dir():
                raise self._missing(path)

    def stored(self) -> Stored:
        """Look at what is there; what an attempt that was killed has stored last is noted now.

        :raises AttemptSuperseded: if Spark has committed the batch
        :raises SpoolDamaged: if something of it is missing, or is no chunk
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

    def read(self, *, ended: bool = False) -> Iterator[pa.RecordBatch]:
        """Each chunk's rows, in order.

        :param ended: whether the end must be there
        :raises AttemptSuperseded: if Spark has committed the batch
        :raises SpoolDamaged: if something of it is missing, or is not what was stored
        :raises SpoolError: if it cannot be read
        """
        noted, found = self._listed()
        for number in found - noted.keys():
            noted[number] = self._load(number).record
        records = self._complete(noted, found)
        if ended and (not records or records[-1].rows):
            raise self._gone() or SpoolDamaged(self._chunk(len(records)), "is missing: it was the end")
        for record in records:
            if record.rows:
                yield self._load(record.number, record).batch

    def salvage(self) -> Iterator[Chunk | SpoolError]:
        """Each chunk that is sound, and for each that is not what is wrong with it; also without a record."""
        noted: dict[int, Record] = {}
        found: set[int] = set()
        try:
            if os.path.lexists(self.record):
                noted = self._noted()
        except SpoolError as error:
            yield error
        try:
            found = self._found()
        except SpoolError as error:
            yield error
            return
        numbers = found | noted.keys()
        for number in range(max(numbers, default=-1) + 1):
            try:
                if number not in found:
                    raise self._missing_chunk(number, noted)
                yield self._load(number, noted.get(number))
            except SpoolError as error:
                yield error

    def store_chunk(self, number: int, batch: pa.RecordBatch) -> None:
        """Store a chunk for good, in one step.

        :raises NumberTaken: if another attempt has taken the number
        :raises AttemptSuperseded: if Spark has committed the batch
        :raises SpoolError: if it cannot be written; nothing of it stays
        """
        record, content = encode(batch, self._place, number)
        target = self._chunk(number)
        with self._explained(target, is_new=True):
            if not put(target, *content, record=self.record / record.name):
                raise NumberTaken(
                    target,
                    "another attempt at this partition was first; what this one holds goes back to nsqd",
                )
            # The last step, so that the journal of a local filesystem takes both names at once.
            fsync_directory(self.path)

    def end(self, number: int) -> None:
        """Let no chunk follow: from now on the partition has the same rows for ever.

        :raises NumberTaken: if another attempt has taken the number
        :raises AttemptSuperseded: if Spark has committed the batch
        :raises SpoolError: if it cannot be written
        """
        self.store_chunk(number, pa.RecordBatch.from_pylist([], schema=arrow_schema()))

    @property
    def _place(self) -> str:
        return "/".join(self.path.parts[-3:])

    def _chunk(self, number: int) -> Path:
        return self.path / f"{number:0{_DIGITS}d}{_SUFFIX}"

    def _load(self, number: int, noted: Record | None = None) -> Chunk:
        path = self._chunk(number)
        with self._explained(path):
            content = path.read_bytes()
        chunk = decode(content, path, self._place, number)
        if noted is not None and chunk.record != noted:
            raise SpoolDamaged(path, f"is not the chunk that {self.record / noted.name} tells of")
        return chunk

    def _listed(self) -> tuple[dict[int, Record], set[int]]:
        """What is noted, and the numbers of the chunks that are there."""
        # In this order: a chunk that is stored meanwhile is not missed.
        return self._noted(), self._found()

    def _noted(self) -> dict[int, Record]:
        with self._explained(self.record):
            records = [record for name in os.listdir(self.record) if (record := Record.of(name))]  # noqa: PTH208 - names will do
        noted: dict[int, Record] = {}
        for record in records:
            if noted.setdefault(record.number, record) != record:
                raise SpoolDamaged(self.record, f"tells of two chunks of number {record.number}")
        return noted

    def _found(self) -> set[int]:
        with self._explained(self.path):
            numbers = {_number(name) for name in os.listdir(self.path)}  # noqa: PTH208 - names will do
        return {number for number in numbers if number is not None}

    def _complete(self, noted: dict[int, Record], found: set[int]) -> list[Record]:
        """The records in order, after none is found missing."""
        for number in range(max(noted, default=-1) + 1):
            if number not in found:
                raise self._missing_chunk(number, noted)
        records = [noted[number] for number in range(len(noted))]
        for record in records[:-1]:
            if not record.rows:
                raise SpoolDamaged(self._chunk(record.number), "is the end of a partition, but more follow")
        return records

    @contextmanager
    def _explained(self, path: Path, *, is_new: bool = False) -> Generator[None]:
        try:
            with as_spool_error(path):
                yield
        except SpoolError as error:
            if isinstance(error.__cause__, OSError) and error.__cause__.errno in _GONE:
                gone = self._gone() if is_new else self._missing(path)
                raise (gone or error) from error.__cause__
            raise

    def _missing(self, path: Path) -> SpoolError:
        """Why a file or directory is not there."""
        return self._gone() or SpoolDamaged(path, "is missing, and what was stored in it is lost")

    def _missing_chunk(self, number: int, noted: dict[int, Record]) -> SpoolError:
        how = "later ones are there"
        if number in noted:
            how = f"{self.record / noted[number].name} tells of {noted[number].rows} rows in it"
        return self._gone() or SpoolDamaged(self._chunk(number), f"is missing, and {how}")

    def _gone(self) -> SpoolError | None:
        """The outermost of the directories that is not there."""
        epoch = self.path.parent
        spool = epoch.parent
        if not spool.is_dir():
            return SpoolError(
                spool,
                "is missing: spoolDir must be a path that the driver and all executors share, and "
                "must outlive the query",
            )
        with as_spool_error(spool):
            is_committed = epoch.name.isdecimal() and int(epoch.name) <= committed(spool)
        if is_committed:
            return AttemptSuperseded(
                self.path, "Spark has committed this batch: another attempt has done the work of this one"
            )
        for outer in (epoch, self.path, self.record):
            if not outer.is_dir():
                what = "is not a directory" if outer.exists() else "is missing"
                return SpoolDamaged(outer, f"{what}, and what was stored in it is lost")
        return None


def _number(name: str) -> int | None:
    """The number of a chunk; None for a name that is no chunk's."""
    digits = name.removesuffix(_SUFFIX)
    is_number = digits.isascii() and digits.isdecimal() and name == f"{int(digits):0{_DIGITS}d}{_SUFFIX}"
    return int(digits) if is_number else None
