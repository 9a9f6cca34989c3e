"""The spool of one query, which keeps the rows that were read from NSQ until Spark's sink has them.

::

    <spoolDir>/<query uuid>/query.json               topic and channel
                            committed-<epoch>        the last batch that Spark has committed
                            lease-...                see `lease`
                            <epoch>/plan.json        the plan of the batch
                                    <partition>      see `chunks`
                                    <partition>.record

A query finds its spool by the uuid in its offsets, so it never reads another query's. The driver creates an
epoch with all of its directories before Spark logs the batch, so that a directory that is missing later must
have been lost. The driver deletes the epoch once the sink has the batch.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias, cast

from ..storage.interface import Storage
from ..storage.place import Place, place_of, storage_of
from .chunks import FORMAT, Partition, check_all, make_all, missing
from .spool_errors import BEGIN_ANEW, SpoolDamaged, SpoolError, as_spool_error
from .spool_files import (
    committed,
    is_temporary,
    load_document,
    load_fields,
    mark_committed,
    numbered_directories,
    put_document,
)

__all__ = ["FORMAT", "PLAN", "QUERY", "Plan", "Spool"]

Plan = Sequence[tuple[str, int]]
"""The nsqd of each partition, as ``host:port``, and the most rows to read."""

Rival: TypeAlias = Callable[[], str | None]
"""Returns a description of who else uses the spool; None if nobody does."""

QUERY = "query.json"
PLAN = "plan.json"

_FORMATS = (1, FORMAT)
_OLDER = f"the checkpoint is older than the spool: {BEGIN_ANEW}"

_log = logging.getLogger("nsq_anyio.spark")


@dataclass(frozen=True, slots=True)
class Spool:
    """The directory of one query, on a mounted file system or in another storage."""

    path: Place

    @property
    def _storage(self) -> Storage[Any]:
        return storage_of(self.path)

    @classmethod
    def create(cls, spool_dir: str, query: str, topic: str, channel: str) -> Spool:
        """Create the spool of a new query, or open it if it exists.

        :raises SpoolError: if it cannot be written, belongs to another query, or its storage lets a second
            file take the name of the first
        """
        path = place_of(spool_dir) / query
        with as_spool_error(path):
            storage = storage_of(path)
            storage.verify_exclusive_put(path.parent)
            storage.make(path, parents=True)
            storage.sync(path.parent)
        content = {
            "format": FORMAT,
            "spool": query,
            "topic": topic,
            "channel": channel,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        put_document(path / QUERY, content)
        return cls.open(spool_dir, query, topic, channel)

    @staticmethod
    def check_place(spool_dir: str) -> None:
        """Check that spools can be written in a directory, and make it.

        :raises SpoolError: if not
        """
        directory = place_of(spool_dir)
        with as_spool_error(directory):
            storage = storage_of(directory)
            storage.verify_exclusive_put(directory)
            if isinstance(directory, Path):  # elsewhere, the verification has written a file
                directory.mkdir(parents=True, exist_ok=True)
                probe = directory / f".probe-{uuid.uuid4().hex}"
                storage.put(probe)
                storage.remove(probe)

    @classmethod
    def at(cls, spool_dir: str, query: str) -> Spool:
        """Return the spool of a query without checking it, for a task or a commit."""
        return cls(place_of(spool_dir) / query)

    @classmethod
    def open(cls, spool_dir: str, query: str, topic: str, channel: str) -> Spool:
        """Open the spool that a checkpoint names.

        :raises SpoolError: if it is missing or damaged, belongs to another query, or its storage lets a
            second file take the name of the first
        """
        spool = cls.at(spool_dir, query)
        with as_spool_error(spool.path):
            storage = storage_of(spool.path)
            storage.verify_exclusive_put(spool.path.parent)
            is_there = storage.is_directory(spool.path)
        if not is_there:
            raise SpoolError(
                storage.marker_of(spool.path),
                "is missing, but the checkpoint continues from it: mount or restore it, or set spoolDir to "
                "the directory that the query used; if it was deleted, the rows that were not in the sink "
                "are lost: begin with a new checkpointLocation, and with a new path for a sink that "
                "identifies batches by number (files, Delta)",
            )
        found = spool.description()
        if (found["topic"], found["channel"]) != (topic, channel):
            raise SpoolError(
                spool.path,
                f"belongs to {found['topic']}/{found['channel']}, but this query reads {topic}/{channel}: "
                "give each topic and channel a checkpointLocation of its own",
            )
        return spool

    def description(self) -> dict[str, str]:
        """Return the query's ``topic``, ``channel`` and ``created``.

        :raises SpoolError: if it cannot be read, is damaged, or has an unknown format
        """
        path = self.path / QUERY
        found = load_fields(path, _FORMATS)
        if found.get("spool", self.path.name) != self.path.name:
            raise SpoolDamaged(path, f"belongs to the spool {found['spool']}")
        names = ("topic", "channel", "created")
        if not all(isinstance(found.get(name), str) for name in names):
            raise SpoolDamaged(path, f"is damaged: it lacks one of {', '.join(names)}")
        return {name: found[name] for name in names}

    def begin(self, epoch: int, plan: Plan, rival: Rival | None = None) -> None:
        """Create an epoch with all of its directories, before Spark logs it.

        An existing epoch with this number is replaced if it is empty: Spark has never logged it, because the
        driver was killed or the checkpoint could not be written. It is not replaced while another driver uses
        the spool: Spark may be about to log it.

        :raises SpoolError: if it cannot be written, another driver uses the spool, or Spark has run this
            batch before
        """
        directory = self._epoch(epoch)
        with as_spool_error(directory):
            is_begun = self._storage.exists(directory)
        if is_begun:
            self._check_alone(rival)
        self._check_not_committed(epoch, rival)
        with as_spool_error(directory):
            if is_begun:
                self._discard_unused(epoch)
            self._storage.make(directory)
        self._make_partitions(epoch, plan)
        # Last, because the plan marks the epoch as complete.
        if not self._put_plan(epoch, plan):
            self._check_alone(rival)
            raise SpoolError(directory, f"still has a plan that Spark has not logged: delete {PLAN} there")
        with as_spool_error(directory):
            self._storage.sync(self.path)

    def check(self, epoch: int, plan: Plan) -> None:
        """Check that everything that `begin` created exists, with the plan that Spark has logged.

        :raises SpoolError: if not
        """
        directory = self._epoch(epoch)
        with as_spool_error(directory):
            is_there = self._storage.is_directory(directory)
        if not is_there:
            self._check_not_committed(epoch)
            raise missing(directory)
        if self.plan(epoch) != [(nsqd, rows) for nsqd, rows in plan]:
            raise SpoolError(directory, f"has a different plan from the one in Spark's log, so {_OLDER}")
        check_all(self.partition(epoch, number) for number in range(len(plan)))

    def begin_format_1(self, epoch: int, plan: Plan) -> None:
        """Create the missing parts of an epoch whose plan an earlier version has logged.

        That version created directories later, so a lost directory looks like one that was not created
        yet.

        :raises SpoolError: if it cannot be written, or has another plan
        """
        directory = self._epoch(epoch)
        self._check_not_committed(epoch)
        with as_spool_error(directory):
            self._storage.make(directory)
        self._make_partitions(epoch, plan)
        with as_spool_error(directory):
            has_plan = self._storage.exists(directory / PLAN)
        if not has_plan:
            self._put_plan(epoch, plan)
        self.check(epoch, plan)

    def plan(self, epoch: int) -> Plan:
        """Return the plan of an epoch.

        :raises SpoolError: if it cannot be read, or is damaged
        """
        return self._load_plan(epoch)[0]

    def expected(self, epoch: int) -> list[Partition]:
        """Return the partitions that an epoch must have; none for format 1, which created them later.

        :raises SpoolError: if its plan cannot be read, or is damaged
        """
        plan, is_format_1 = self._load_plan(epoch)
        return [] if is_format_1 else [self.partition(epoch, number) for number in range(len(plan))]

    def _make_partitions(self, epoch: int, plan: Plan) -> None:
        make_all(self.partition(epoch, number) for number in range(len(plan)))

    def _put_plan(self, epoch: int, plan: Plan) -> bool:
        parts = [list(part) for part in plan]
        content = {"format": FORMAT, "spool": self.path.name, "epoch": epoch, "plan": parts}
        return put_document(self._epoch(epoch) / PLAN, content)

    def _load_plan(self, epoch: int) -> tuple[Plan, bool]:
        path = self._epoch(epoch) / PLAN
        found = load_document(path)
        is_format_1 = isinstance(found, list)
        if not is_format_1:
            fields = load_fields(path, _FORMATS)
            if (fields.get("spool"), fields.get("epoch")) != (self.path.name, epoch):
                raise SpoolDamaged(path, f"belongs to epoch {fields.get('epoch')} of {fields.get('spool')}")
            found = fields.get("plan")
        try:
            parts = cast("list[tuple[Any, Any]]", found)
            return [(str(nsqd), int(rows)) for nsqd, rows in parts], is_format_1
        except (TypeError, ValueError):
            raise SpoolDamaged(path, "is damaged: it is not a plan") from None

    def partition(self, epoch: int, number: int) -> Partition:
        """Return a partition of an epoch."""
        return Partition(self._epoch(epoch) / str(number))

    def commit(self, epoch: int) -> None:
        """Delete an epoch and all earlier ones, whose rows the sink has. A second call does nothing.

        :raises SpoolError: if an epoch cannot be removed from the spool
        """
        with as_spool_error(self.path):
            if not self._storage.exists(self.path):
                return
            # First, because late attempts have to know why they cannot store any more.
            if epoch > committed(self.path):
                mark_committed(self.path, epoch)
        self._sweep([self._take_out(number) for number in self.epochs() if number <= epoch])

    def epochs(self) -> list[int]:
        """Return the numbers of the existing epochs, in order."""
        return numbered_directories(self.path)

    def partitions(self, epoch: int) -> list[Partition]:
        """Return the existing partitions of an epoch, in order."""
        return [self.partition(epoch, number) for number in numbered_directories(self._epoch(epoch))]

    def _epoch(self, epoch: int) -> Place:
        return self.path / str(epoch)

    def _check_not_committed(self, epoch: int, rival: Rival | None = None) -> None:
        """Refuse an epoch that Spark has committed: its rows are deleted, and it must not be begun again."""
        directory = self._epoch(epoch)
        with as_spool_error(directory):
            is_committed = epoch <= committed(self.path)
        if is_committed:
            self._check_alone(rival)
            raise SpoolError(directory, f"was committed before, so {_OLDER}")

    def _check_alone(self, rival: Rival | None) -> None:
        with as_spool_error(self.path):
            user = None if rival is None else rival()
        if user is not None:
            raise SpoolError(
                self.path,
                f"is in use by {user}, too: only one driver may run a query from a checkpoint, so stop one "
                "of the two; if this is the one that has to go on, start it again then",
            )

    def _discard_unused(self, epoch: int) -> None:
        directory = self._epoch(epoch)
        try:
            partitions = numbered_directories(directory)
        except SpoolError as error:
            if isinstance(error.__cause__, NotADirectoryError):
                raise SpoolError(directory, "is not a directory of the spool: move it away") from None
            raise
        for number in partitions:
            partition = self.partition(epoch, number)
            for path in (partition.path, partition.record):
                if not all(map(is_temporary, self._names(path))):
                    raise SpoolError(directory, f"holds rows, but Spark has not logged it, so {_OLDER}")
        self._sweep([self._take_out(epoch)])

    def _names(self, directory: Place) -> list[str]:
        try:
            return [entry.name for entry in self._storage.entries(directory)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _take_out(self, epoch: int) -> Place:
        """Make an epoch unusable, so that no late attempt continues with half of it; return its new place."""
        directory = self._epoch(epoch)
        with as_spool_error(directory):
            place: Place = self._storage.take_out(directory)
        return place

    def _sweep(self, deleted: Sequence[Place]) -> None:
        with as_spool_error(self.path):
            left: list[Place] = self._storage.taken_out(self.path)
        for path in dict.fromkeys([*deleted, *left]):
            try:
                self._storage.delete(path)
            except OSError as error:
                # Nobody reads it any more, so the query continues; the next commit tries again.
                _log.warning("cannot delete %s of the spool, which is no longer needed: %s", path, error)
