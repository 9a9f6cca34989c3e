"""The spool of one query: where what was read from NSQ stays until Spark's sink has it.

::

    <spoolDir>/<query uuid>/query.json                          whose it is
                            <epoch>/plan.json                   what the batch reads
                                    <partition>/NNNNNN.arrow    see `chunks`

A query finds its spool by the uuid in its offsets, so that it never replays another one's. The driver makes
an epoch's directory when it plans the batch, and deletes it once the sink has the batch.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from .chunks import Partition, fsync_directory, publish
from .spool_errors import SpoolError, naming

__all__ = ["Plan", "Spool", "SpoolInfo", "delete", "read_messages", "spools"]

Plan = Sequence[tuple[str, int]]
"""For each partition its nsqd, as ``host:port``, and the rows to read at most."""

_FORMAT = 1
_QUERY = "query.json"
_PLAN = "plan.json"
_DELETED = ".deleted-"

_log = logging.getLogger("nsq_anyio.spark")


@dataclass(frozen=True, slots=True)
class Spool:
    """The directory of one query."""

    path: Path

    @classmethod
    def create(cls, spool_dir: str, query: str, topic: str, channel: str) -> Spool:
        """Make the spool of a query that begins; one that is there already is opened.

        :raises SpoolError: if it cannot be written, or is there and another query's
        """
        path = Path(spool_dir, query)
        content = {
            "format": _FORMAT,
            "topic": topic,
            "channel": channel,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        with naming(path):
            path.mkdir(parents=True, exist_ok=True)
            fsync_directory(path.parent)
        publish(path / _QUERY, json.dumps(content).encode())
        return cls.open(spool_dir, query, topic, channel)

    @classmethod
    def at(cls, spool_dir: str, query: str) -> Spool:
        """The spool that a task or a commit was told of, without a look at it."""
        return cls(Path(spool_dir, query))

    @classmethod
    def open(cls, spool_dir: str, query: str, topic: str, channel: str) -> Spool:
        """Open the spool that a checkpoint names.

        :raises SpoolError: if it is missing, or another query's
        """
        path = Path(spool_dir, query)
        if not (path / _QUERY).exists():
            raise SpoolError(
                path,
                "is missing, but the checkpoint goes on from it: mount or restore it, or give the spoolDir "
                "that the query had; if it was deleted, what was not in the sink is lost, and a new "
                "checkpointLocation begins anew",
            )
        found = _description(path)
        if (found["topic"], found["channel"]) != (topic, channel):
            raise SpoolError(
                path,
                f"is of {found['topic']}/{found['channel']}, and this query reads {topic}/{channel}: give "
                "each topic and channel a checkpointLocation of its own",
            )
        return cls(path)

    def begin(self, epoch: int, plan: Plan) -> None:
        """Make an epoch's directory; at a restart it is there already, with the same plan.

        :raises SpoolError: if it cannot be written, or holds what another plan has read
        """
        directory = self._epoch(epoch)
        with naming(directory):
            directory.mkdir(exist_ok=True)
            fsync_directory(self.path)
        content = json.dumps([list(part) for part in plan]).encode()
        if not publish(directory / _PLAN, content):
            with naming(directory):
                if (directory / _PLAN).read_bytes() != content:
                    raise SpoolError(
                        directory,
                        "holds rows that another plan has read: the checkpoint is older than the spool; put "
                        "the rows back with `nsq-anyio spool put-back`, and begin with a new "
                        "checkpointLocation",
                    )

    def partition(self, epoch: int, number: int) -> Partition:
        """Where one partition's chunks are."""
        return Partition(self._epoch(epoch) / str(number))

    def commit(self, epoch: int) -> None:
        """Delete an epoch and those before it: the sink has their rows. It may be called again.

        :raises SpoolError: if an epoch cannot be taken out of the spool
        """
        if not self.path.exists():
            return
        for number in self.epochs():
            if number <= epoch:
                # One step, so that no late attempt finds half an epoch to go on with.
                directory = self._epoch(number)
                with naming(directory):
                    directory.rename(self.path / f"{_DELETED}{number}-{uuid.uuid4().hex}")
        with naming(self.path):
            deleted = [path for path in self.path.iterdir() if path.name.startswith(_DELETED)]
        for path in deleted:
            try:
                shutil.rmtree(path)
            except OSError as error:
                # Nobody reads it any more, so the query may go on; the next commit tries again.
                _log.warning("cannot delete %s of the spool, which is not needed any more: %s", path, error)

    def epochs(self) -> list[int]:
        """The epochs that are there, in order."""
        with naming(self.path):
            return sorted(int(name) for name in os.listdir(self.path) if name.isdecimal())  # noqa: PTH208 - names will do

    def partitions(self, epoch: int) -> list[Partition]:
        """An epoch's partitions of which something is there, in order."""
        directory = self._epoch(epoch)
        with naming(directory):
            numbers = sorted(int(name) for name in os.listdir(directory) if name.isdecimal())  # noqa: PTH208 - names will do
        return [self.partition(epoch, number) for number in numbers]

    def _epoch(self, epoch: int) -> Path:
        return self.path / str(epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpoolInfo:
    """What a spool holds, for people.

    :ivar path: the spool's directory
    :ivar uuid: its name, which the query's offsets carry
    :ivar topic: that the query reads
    :ivar channel: likewise
    :ivar created: when the query began, UTC
    :ivar epochs: batches of which the spool does not know yet that the sink has them
    :ivar rows: in them
    :ivar bytes: of their files
    :ivar last_written: when a chunk was added, UTC; None when there is none
    """

    path: Path
    uuid: str
    topic: str
    channel: str
    created: datetime
    epochs: int
    rows: int
    bytes: int
    last_written: datetime | None


def spools(directory: str | os.PathLike[str]) -> list[SpoolInfo]:
    """The spools in a ``spoolDir``, the oldest first.

    :raises SpoolError: if it cannot be read, or one of them is of a version that is not known
    """
    with naming(directory):
        paths = [path for path in Path(directory).iterdir() if (path / _QUERY).exists()]
    return sorted((_info(path) for path in paths), key=lambda info: (info.created, info.uuid))


def read_messages(spool: SpoolInfo) -> Iterator[pa.RecordBatch]:
    """The rows of a spool, a chunk at a time, batch after batch; the column ``body`` has the messages.

    :raises SpoolError: if it cannot be read
    """
    opened = Spool(spool.path)
    for epoch in opened.epochs():
        for partition in opened.partitions(epoch):
            yield from partition.read()


def delete(spool: SpoolInfo) -> None:
    """Delete a spool with all that it holds.

    :raises SpoolError: if it cannot be deleted, or not whole
    """
    opened = Spool(spool.path)
    epochs = opened.epochs()
    if epochs:
        opened.commit(epochs[-1])
    with naming(spool.path):
        shutil.rmtree(spool.path)


def _info(path: Path) -> SpoolInfo:
    spool = Spool(path)
    found = _description(path)
    epochs = spool.epochs()
    partitions = [partition for epoch in epochs for partition in spool.partitions(epoch)]
    with naming(path):
        files = [file.stat() for partition in partitions for file in partition.path.glob("*.arrow")]
    return SpoolInfo(
        path=path,
        uuid=path.name,
        topic=found["topic"],
        channel=found["channel"],
        created=datetime.fromisoformat(found["created"]),
        epochs=len(epochs),
        rows=sum(partition.stored().rows for partition in partitions),
        bytes=sum(file.st_size for file in files),
        last_written=datetime.fromtimestamp(max(file.st_mtime for file in files), UTC) if files else None,
    )


def _description(path: Path) -> dict[str, Any]:
    with naming(path):
        text = (path / _QUERY).read_text(encoding="utf-8")
    try:
        found = json.loads(text)
    except ValueError:
        raise SpoolError(path / _QUERY, "is not JSON: this is not a spool") from None
    if not isinstance(found, dict) or cast("dict[str, Any]", found).get("format") != _FORMAT:
        raise SpoolError(
            path / _QUERY, f"is not of format {_FORMAT}, the one that this version reads and writes"
        )
    return cast("dict[str, Any]", found)
