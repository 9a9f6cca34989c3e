"""Points of a streaming read at which a process is killed, each exactly once however often Spark restarts.

`FaultySource` is ``format("nsq")`` with these points: in a Python worker that reads a partition

- ``link``: a chunk is written to a temporary file, or about to be put, and not published yet;
- ``linked``: it is published in the spool, and its messages are not finished;
- ``filled``: the partition is whole, all of its messages are finished, and Spark has no row of it;

in the driver's worker that deletes what the sink has

- ``commit``, ``deleting`` (the first file), ``committed``;

and in the driver program's sink ``sink`` (Spark has the rows, the sink does not) and ``sunk`` (the sink has
them, Spark does not know).
"""

# ruff: noqa: N802 - the names are Spark's

from __future__ import annotations

import json
import os
import resource
import signal
from collections.abc import Callable, Generator, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from nsq_anyio.spark import NsqDataSource
from nsq_anyio.spark.stream_reader import NsqStreamReader
from nsq_anyio.storage.objects import ObjectStorage
from nsq_anyio.storage.remote import RemoteStorage
from nsq_anyio.storage.webhdfs import WebHdfs

from ..nsqds import wait_until
from ..processes import parent

OPTION = "faults"
"""The option of `FaultySource` that carries `Faults.text`."""

Point = Literal["read", "link", "linked", "filled", "sink", "sunk", "commit", "deleting", "committed"]
Victim = Literal["worker", "executor", "driver", "zombie", "disk"]
_CHUNK = ".arrow"
_RELEASE_LIMIT = 250.0
_DISK_BYTES = 2_000


@dataclass(frozen=True, slots=True)
class Fault:
    """One kill.

    :ivar victim: ``zombie`` kills the executor around a worker that outlives it, and that stays at the point
        until `Faults.release`; ``disk`` kills nothing, but lets the worker write no file beyond a few bytes
    :ivar time: the how-manieth time in one read that the point is reached
    """

    point: Point
    victim: Victim
    time: int = 1


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults that happen one after the other: each is armed when the one before it has happened.

    :ivar directory: where it is noted which have happened; all processes share it
    """

    directory: str
    faults: tuple[Fault, ...] = ()

    @property
    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of(cls, text: str) -> Faults:
        fields = json.loads(text)
        return cls(fields["directory"], tuple(Fault(**fault) for fault in fields["faults"]))

    def happened(self) -> int:
        """How many have happened."""
        return sum(self._mark(number).exists() for number in range(len(self.faults)))

    def note_driver(self, *pids: int) -> None:
        """Note which processes are the driver: those to kill."""
        self._path("driver").write_text(" ".join(map(str, pids)), encoding="utf-8")

    def release(self) -> None:
        """Let a zombie go on."""
        self._path("release").touch()

    def zombie_outcome(self) -> str | None:
        """How the read of the zombie ended: an error, or ``finished``; None while it has not."""
        path = self._path("outcome")
        return path.read_text(encoding="utf-8") if path.exists() else None

    def note_outcome(self, outcome: str) -> None:
        """Note how the zombie's read ended, if this process is the zombie."""
        if self._path("zombie").exists() and self._path("zombie").read_text() == str(os.getpid()):
            temporary = self._path("outcome-temporary")
            temporary.write_text(outcome, encoding="utf-8")
            temporary.rename(self._path("outcome"))

    def reach(self, point: Point, time: int = 1) -> None:
        """Let the fault happen, if this point is its."""
        number = self.happened()
        if (
            number == len(self.faults)
            or self.faults[number].point != point
            or self.faults[number].time != time
        ):
            return
        try:
            self._mark(number).touch(exist_ok=False)
        except FileExistsError:  # another worker is at the same point
            return
        match self.faults[number].victim:
            case "worker":
                pass
            case "executor":
                _kill(_executor())
            case "driver":
                _kill(*map(int, self._path("driver").read_text(encoding="utf-8").split()))
            case "zombie":
                self._outlive_executor()
                return
            case "disk":
                # The system refuses to write more to any one file: a real failure, also of a root user.
                resource.setrlimit(resource.RLIMIT_FSIZE, (_DISK_BYTES, resource.RLIM_INFINITY))
                return
        # Nothing more is done here; the end of its executor or driver would reach this process later.
        _kill(os.getpid())

    def prepare(self) -> None:
        """Called in the main thread of a worker, which alone may do it, before it reads."""
        number = self.happened()
        if number < len(self.faults) and self.faults[number].victim == "zombie":
            # The daemon of the Python workers ends them with SIGHUP when its executor is gone.
            signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _outlive_executor(self) -> None:
        self._path("zombie").write_text(str(os.getpid()), encoding="utf-8")
        os.kill(_executor(), signal.SIGKILL)
        wait_until(self._path("release").exists, "the release of the zombie", _RELEASE_LIMIT)

    def _mark(self, number: int) -> Path:
        return self._path(f"happened-{number}")

    def _path(self, name: str) -> Path:
        return Path(self.directory, name)


def _executor() -> int:
    """The JVM of this Python worker: the parent of the daemon that has forked it."""
    return parent(parent(os.getpid()))


def _kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


class FaultySource(NsqDataSource):
    """``format("nsq")`` whose processes get killed."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        mine = dict(options)
        self._faults = Faults.of(mine.pop(OPTION))
        super().__init__(mine)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        reader = super().streamReader(schema)
        assert isinstance(reader, NsqStreamReader)
        return _Reader(reader, self._faults)


class _Reader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, reader: NsqStreamReader, faults: Faults) -> None:
        self._reader = reader
        self._faults = faults

    def initialOffset(self) -> dict[str, Any]:
        return self._reader.initialOffset()

    def getDefaultReadLimit(self) -> ReadLimit:
        return self._reader.getDefaultReadLimit()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return self._reader.latestOffset(start, limit)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self._reader.reportLatestOffset()

    def prepareForTriggerAvailableNow(self) -> None:
        self._reader.prepareForTriggerAvailableNow()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return list(self._reader.partitions(start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        self._faults.prepare()
        with self._linking():
            self._faults.reach("read")
            try:
                batches = iter(self._reader.read(partition))
                first = next(batches, None)
            except BaseException as error:
                self._faults.note_outcome(f"{type(error).__name__}: {error}")
                raise
            self._faults.note_outcome("finished")
            self._faults.reach("filled")
            if first is not None:
                yield first
                yield from batches

    def commit(self, end: dict[str, Any]) -> None:
        self._faults.reach("commit")
        with self._deleting():
            self._reader.commit(end)
        self._faults.reach("committed")

    def stop(self) -> None:
        self._reader.stop()

    @contextmanager
    def _linking(self) -> Generator[None]:
        times = 0

        def link(real: Callable[..., None], source: Any, target: Any, **options: Any) -> None:
            nonlocal times
            is_chunk = str(target).endswith(_CHUNK)
            times += is_chunk
            if is_chunk:
                self._faults.reach("link", times)
            real(source, target, **options)
            if is_chunk:
                self._faults.reach("linked", times)

        def put(real: Callable[..., bool], storage: RemoteStorage, target: Any, content: bytes) -> bool:
            nonlocal times
            is_chunk = str(target).endswith(_CHUNK)
            times += is_chunk
            if is_chunk:
                self._faults.reach("link", times)
            is_new = real(storage, target, content)
            if is_chunk:
                self._faults.reach("linked", times)
            return is_new

        with (
            _wrapped(os, "link", link),
            _wrapped(ObjectStorage, "create", put),
            _wrapped(WebHdfs, "create", put),
        ):
            yield

    @contextmanager
    def _deleting(self) -> Generator[None]:
        def unlink(real: Callable[..., None], path: Any, **options: Any) -> None:
            real(path, **options)
            self._faults.reach("deleting")

        with _wrapped(os, "unlink", unlink):
            yield


@contextmanager
def _wrapped(owner: object, name: str, wrapper: Callable[..., Any]) -> Generator[None]:
    """Put a function in front of one of a module or class, for as long as this worker does one thing."""
    real = getattr(owner, name)

    def replacement(*arguments: Any, **options: Any) -> Any:
        return wrapper(real, *arguments, **options)

    setattr(owner, name, replacement)
    try:
        yield
    finally:
        setattr(owner, name, real)
