"""Listing, reading and clearing of the spools in a directory. A damaged spool does not affect the others."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

from ..storage.interface import Status
from ..storage.place import Place, place_of, storage_of
from .chunks import Chunk, Partition, Record, missing
from .lease import VALID, holder, time_of
from .spool import PLAN, QUERY, Spool
from .spool_errors import SpoolDamaged, SpoolError, as_spool_error
from .spool_files import committed, holds_no_rows

F = TypeVar("F")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolInfo:
    """The contents and state of a spool.

    :ivar path: the spool's directory
    :ivar uuid: its name, which is in the query's offsets
    :ivar topic: the topic that the query reads; None if the description is damaged
    :ivar channel: the channel that it reads; None if the description is damaged
    :ivar created: when the query began, UTC; None if the description is damaged
    :ivar epochs: the number of batches that are not yet known to be in the sink
    :ivar rows: the rows in their chunks, without damaged and missing chunks
    :ivar bytes: the bytes of these chunks' files
    :ivar last_written: when the last chunk was stored, UTC; None if there is none
    :ivar user: who uses the spool; None if nobody does
    :ivar damage: the errors for missing parts and, if the chunks were read, for altered ones
    :ivar is_read: whether all chunks were read and verified
    """

    path: Place
    uuid: str
    topic: str | None
    channel: str | None
    created: datetime | None
    epochs: int
    rows: int
    bytes: int
    last_written: datetime | None
    user: str | None
    damage: tuple[SpoolError, ...]
    is_read: bool

    @property
    def state(self) -> str:
        """``damaged``, ``in use``, ``sound``, or ``unchecked`` if its chunks were not read."""
        if self.damage or self.user:
            return "damaged" if self.damage else "in use"
        return "sound" if self.is_read else "unchecked"


def find_spools(
    directory: str | os.PathLike[str] | Place, now: float | None = None, *, check: bool = False
) -> list[SpoolInfo]:
    """Return the spools in a ``spoolDir``, the oldest first, including damaged ones.

    :param directory: a path or URL
    :param now: the storage's time; default: this machine's time
    :param check: whether to read all chunks; otherwise only names and sizes are checked, which finds missing
        chunks, but not altered ones
    :raises SpoolError: if the directory cannot be listed
    :raises InvalidOption: for a URL that is not valid
    """
    place = place_of(directory) if isinstance(directory, str | os.PathLike) else directory
    with as_spool_error(place):
        names = [entry.name for entry in storage_of(place).entries(place) if entry.is_directory]
        paths = [place / name for name in names if _is_spool(place / name)]
    now = time.time() if now is None else now
    infos = [info for path in paths if (info := _info(path, now, check=check)) is not None]
    return sorted(infos, key=lambda info: (info.created or datetime.min.replace(tzinfo=UTC), info.uuid))


def look_again(info: SpoolInfo) -> SpoolInfo | None:
    """Return the current info of a spool; None if it was deleted. No chunk is read.

    :raises SpoolError: if it cannot be read
    """
    return _info(info.path, time_of(info.path.parent), check=False)


def read_chunks(info: SpoolInfo) -> Iterator[Chunk | SpoolError]:
    """Yield the sound chunks of a spool, including end chunks, and the errors of the others."""
    return _survey(Spool(info.path), Partition.salvage)


def clear(info: SpoolInfo, chunks: Iterable[tuple[Place, Record]]) -> list[Place]:
    """Delete chunks with their records, then all empty directories; return the files that remain.

    Only these chunks are deleted, so chunks that are stored meanwhile remain.

    :raises SpoolError: if something cannot be deleted
    """
    spool = Spool(info.path)
    storage = storage_of(info.path)
    with as_spool_error(info.path):
        for path, record in chunks:
            storage.remove(path, Partition(path.parent).record / record.name)
        for epoch in spool.epochs():
            for partition in spool.partitions(epoch):
                for path in (partition.record, partition.path):
                    _remove(path, ())
            _remove(info.path / str(epoch), (PLAN,))
        _remove(info.path, (QUERY,))
        # Only files: they are why the directories remain.
        return sorted(storage.files(info.path))


def delete(info: SpoolInfo) -> None:
    """Delete a spool, and the remains of earlier calls that were killed.

    :raises SpoolError: if it cannot be deleted, or only in part
    """
    storage = storage_of(info.path)
    with as_spool_error(info.path):
        # In one step, so that nobody finds half a spool.
        taken = storage.take_out(info.path)
        left = storage.taken_out(info.path.parent)
    for path in dict.fromkeys([taken, *left]):
        with as_spool_error(path), suppress(FileNotFoundError):  # another process deletes it, too
            storage.delete(path)


def _remove(directory: Place, own: tuple[str, ...]) -> None:
    """Remove a directory that has only the files in ``own``, and files without rows."""
    storage = storage_of(directory)
    with suppress(FileNotFoundError):
        entries = storage.entries(directory)
        if all(
            not entry.is_directory and (entry.name in own or holds_no_rows(entry.name)) for entry in entries
        ):
            storage.remove(*(directory / entry.name for entry in entries))
            with suppress(OSError):  # something was added meanwhile: keep it
                storage.remove_directory(directory)


def _is_spool(path: Place) -> bool:
    """Return whether a directory is a spool, possibly a damaged one."""
    if path.name.startswith("."):
        return False
    storage = storage_of(path)
    try:
        if storage.exists(path / QUERY):
            return True
        uuid.UUID(path.name)
        return bool(storage.entries(path))  # an empty directory is being created or deleted
    except (ValueError, FileNotFoundError):
        return False


def _info(path: Place, now: float, *, check: bool) -> SpoolInfo | None:
    """Return the info of a spool; None if it was deleted meanwhile."""
    spool = Spool(path)
    storage = storage_of(path)
    damage: list[SpoolError] = []
    description: dict[str, str] = {}
    created: datetime | None = None
    epochs: list[int] = []
    user: str | None = None
    try:
        description = spool.description()
        created = datetime.fromisoformat(description["created"])
    except SpoolError as error:
        damage.append(error)
    except ValueError:
        damage.append(SpoolDamaged(path / QUERY, "is damaged: its field created is not a time"))
    rows = size = 0
    last_written = 0.0
    unended: set[Place] = set()
    files = _Files()
    try:
        with as_spool_error(path):
            if storage.missing([path]):
                damage.append(missing(path))
        epochs = _uncommitted(spool)
        with as_spool_error(path):
            user = holder(path, now)
        for found in _survey(spool, _salvaged if check else Partition.recorded):
            if isinstance(found, SpoolError):
                damage.append(found)
                continue
            chunk, record = found
            rows += record.rows
            file = files.status(chunk)
            size += file.size
            last_written = max(last_written, file.modified)
            unended.add(chunk.parent)
            if not record.rows:
                unended.discard(chunk.parent)
    except SpoolError as error:
        damage.append(error)
    with as_spool_error(path):
        if not storage.exists(path):
            return None
    if user is None and unended and now - last_written < VALID:
        user = f"a task, which wrote {max(0, now - last_written):.0f} s ago"
    return SpoolInfo(
        path=path,
        uuid=path.name,
        topic=description.get("topic"),
        channel=description.get("channel"),
        created=created,
        epochs=len(epochs),
        rows=rows,
        bytes=size,
        last_written=datetime.fromtimestamp(last_written, UTC) if last_written else None,
        user=user,
        damage=tuple(damage),
        is_read=check,
    )


class _Files:
    """The sizes and times of files, read for one directory at a time."""

    def __init__(self) -> None:
        self._directory: Place | None = None
        self._statuses: dict[str, Status] = {}

    def status(self, file: Place) -> Status:
        """Return the size and the time of a file; 0 for one that Spark has committed meanwhile."""
        if file.parent != self._directory:
            self._directory = file.parent
            self._statuses = {}
            with as_spool_error(file.parent), suppress(FileNotFoundError):
                self._statuses = storage_of(file).statuses(file.parent)
        return self._statuses.get(file.name, Status(0, 0.0))


def _salvaged(partition: Partition) -> Iterator[tuple[Place, Record] | SpoolError]:
    for found in partition.salvage():
        yield (found.path, found.record) if isinstance(found, Chunk) else found


def _survey(spool: Spool, load: Callable[[Partition], Iterator[F | SpoolError]]) -> Iterator[F | SpoolError]:
    """Yield the result of ``load`` for each chunk, and an error for each missing or damaged one."""
    for epoch in _uncommitted(spool):
        for found in _survey_epoch(spool, epoch, load):
            # Spark may commit the epoch meanwhile, which is not damage.
            if not isinstance(found, SpoolError) or _is_uncommitted(spool, epoch):
                yield found


def _is_uncommitted(spool: Spool, epoch: int) -> bool:
    with as_spool_error(spool.path):
        return storage_of(spool.path).exists(spool.path / str(epoch)) and epoch > committed(spool.path)


def _uncommitted(spool: Spool) -> list[int]:
    """Return the epochs whose rows the sink may not have.

    A committed epoch may have left files: a commit was killed, or, in a storage without directories, a late
    attempt was killed after it had put a chunk, and before it noticed that the epoch is committed.
    """
    epochs = spool.epochs()
    with as_spool_error(spool.path):
        last = committed(spool.path)
    return [epoch for epoch in epochs if epoch > last]


def _survey_epoch(
    spool: Spool, epoch: int, load: Callable[[Partition], Iterator[F | SpoolError]]
) -> Iterator[F | SpoolError]:
    try:
        partitions = spool.partitions(epoch)
    except SpoolError as error:
        yield error
        return
    is_used = False
    for partition in partitions:
        for found in load(partition):
            is_used = True
            yield found
    directory = spool.path / str(epoch)
    storage = storage_of(directory)
    # The plan is written last: an empty epoch without one is still being created.
    with as_spool_error(directory):
        is_created = is_used or storage.exists(directory / PLAN)
        if storage.missing([directory]) and is_created:
            yield missing(directory)
    try:
        for partition in spool.expected(epoch):
            partition.check()
    except SpoolError as error:
        if is_created:
            yield error
