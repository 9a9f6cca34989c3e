"""Streaming queries of tests: from a topic, through the spool, to a ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from nsq_anyio.spark import NsqDataSource
from nsq_anyio.storage.place import Place, place_of, storage_of

from ..nsqds import Topic, wait_until
from .faults import OPTION, Fault, Faults, FaultySource
from .ledger import Ledger, LedgerSink
from .program import Task

Sink: TypeAlias = Callable[[DataFrame, int], None]

_MAX_RUNS = 5
_RUN_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Query:
    """The directories and options of one query, however often it is started.

    :ivar directory: of its checkpoint, spool, sink and faults, which survive
    """

    topic: Topic
    directory: Path
    options: Mapping[str, str]

    @classmethod
    def of(cls, topic: Topic, directory: Path, **options: str | float) -> Query:
        """Make the directories. `options` win over what tests have in common: small batches and chunks."""
        for name in ("spool", "sink", "faults"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        common: dict[str, str | int | float] = {
            "maxRowsPerBatch": 1_000,
            "minPartitions": 2,
            "maxInFlight": 200,
            "maxWait": 0.5,
            # Only after it does nsqd give others what a killed reader held.
            "msgTimeout": 5,
            "spoolDir": str(directory / "spool"),
        }
        texts = {name: str(value) for name, value in {**common, **options}.items()}
        servers = topic.options if "nsqlookupd" not in options else {}
        return cls(topic, directory, {"topic": topic.name, "channel": topic.channel, **servers, **texts})

    @property
    def spool(self) -> Place:
        return place_of(self.options["spoolDir"])

    @property
    def checkpoint(self) -> str:
        return str(self.directory / "checkpoint")

    def chunks(self) -> set[Place]:
        """The chunks in the spool, whose directories may be deleted meanwhile."""
        files = storage_of(self.spool).files(self.spool)
        return {path for path in files if path.name.endswith(".arrow")}

    def faults(self, *faults: Fault) -> Faults:
        return Faults(str(self.directory / "faults"), faults)

    def ledger(self) -> Ledger:
        return Ledger(self.directory / "sink")

    def task(self, master: str, faults: Faults, config: Mapping[str, str] | None = None) -> Task:
        """What to tell a driver in a process of its own, that runs this query once."""
        return Task(
            master=master,
            options=dict(self.options),
            faults=faults.text,
            checkpoint=self.checkpoint,
            sink=str(self.directory / "sink"),
            config=dict(config or {}),
        )

    def start(
        self,
        spark: SparkSession,
        faults: Faults | None = None,
        *,
        sink: Sink | None = None,
        trigger: Mapping[str, Any] | None = None,
    ) -> StreamingQuery:
        """Start it.

        :param sink: by default a `LedgerSink`
        :param trigger: by default it reads what waits now, and ends
        """
        more = {} if faults is None else {OPTION: faults.text}
        spark.dataSource.register(NsqDataSource if faults is None else FaultySource)
        return (
            spark.readStream.format("nsq")
            .options(**self.options, **more)
            .load()
            .writeStream.foreachBatch(sink or LedgerSink(str(self.directory / "sink")))
            .option("checkpointLocation", self.checkpoint)
            .trigger(**(trigger or {"availableNow": True}))
            .start()
        )

    def run(self, spark: SparkSession, faults: Faults | None = None, *, sink: Sink | None = None) -> None:
        """Run it to its end, which must come.

        :raises StreamingQueryException: if it fails
        """
        query = self.start(spark, faults, sink=sink)
        try:
            assert query.awaitTermination(_RUN_LIMIT), f"the query goes on: {query.lastProgress}"
        finally:
            query.stop()

    def run_out(self, spark: SparkSession) -> Ledger:
        """Run it until nothing is left in the channel, as an operator would after a crash."""
        for _ in range(_MAX_RUNS):
            # Nobody reads now: messages of dead readers go back to the channel.
            wait_until(lambda: self.topic.state().in_flight == 0, "nsqd to take back what was in flight")
            self.run(spark)
            if self.topic.state().left == 0:
                return self.ledger()
        raise AssertionError(f"{self.topic.state()} after {_MAX_RUNS} runs")
