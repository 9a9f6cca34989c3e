"""A driver in a process of its own, which can be killed: ``python -m tests.spark.jvm.program TASK``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from nsq_anyio.spark import session

from ..cluster import short_lived
from ..nsqds import ROOT
from ..processes import Program, running
from .faults import OPTION, Faults, FaultySource
from .ledger import LedgerSink


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What the program is told: one JSON object, its only argument.

    :ivar options: of ``format("nsq")``
    :ivar faults: `Faults.text`
    :ivar sink: the directory of a `LedgerSink`
    :ivar config: of the session
    """

    master: str
    options: dict[str, str]
    faults: str
    checkpoint: str
    sink: str
    config: dict[str, str] = field(default_factory=dict[str, str])


@contextmanager
def running_driver(task: Task, log_path: Path) -> Generator[Program]:
    """Run the program; what is left of it at the end of the block is killed."""
    command = [sys.executable, "-m", __name__, json.dumps(asdict(task))]
    with running(command, log_path=log_path, env={**os.environ, **short_lived()}, cwd=ROOT) as program:
        yield program


def main(argument: str) -> None:
    """Read what waits at the start of the query, and end."""
    fields: dict[str, Any] = json.loads(argument)
    task = Task(**fields)
    faults = Faults.of(task.faults)
    sink = LedgerSink(task.sink)
    spark = session("driver", master=task.master, config=task.config)
    jvm: Any = spark.sparkContext._jvm
    # The Python process is the smaller half of a driver.
    faults.note_driver(jvm.java.lang.ProcessHandle.current().pid(), os.getpid())
    spark.dataSource.register(FaultySource)

    def store(rows: DataFrame, batch: int) -> None:
        table = rows.toArrow()
        faults.reach("sink")
        sink.store(table, batch)
        faults.reach("sunk")

    query = (
        spark.readStream.format("nsq")
        .options(**task.options, **{OPTION: task.faults})
        .load()
        .writeStream.foreachBatch(store)
        .option("checkpointLocation", task.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1])
