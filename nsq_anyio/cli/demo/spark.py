"""The demo with Spark: messages are published and archived, and the files are read."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from ...names import check_topic
from ...producer import produce
from ..pipeline.run import PipelineProgress, quiet_session
from .run import Cluster

if TYPE_CHECKING:
    from ...spark import pipelines

_BATCH = 1000
_HELD = """
    SELECT nsqd, count(*) AS rows, count(DISTINCT id) AS unique
    FROM {archive} GROUP BY nsqd ORDER BY nsqd
"""
_EXAMPLE = """
    SELECT to_json(struct(date, hour, nsqd, id, timestamp, attempts, string(body) AS body))
    FROM {archive} LIMIT 1
"""
_COUNTRIES = ("at", "de", "fr", "pl")


@dataclass(frozen=True, slots=True)
class Held:
    """The archived rows that came from one nsqd.

    :ivar unique: the number of distinct ids among the rows
    """

    nsqd: str
    rows: int
    unique: int


@dataclass(frozen=True, slots=True)
class Archived:
    """The result of a demo with Spark.

    :ivar bytes: the size of all files
    :ivar example: one row, as JSON
    """

    summary: pipelines.Summary
    held: tuple[Held, ...]
    files: int
    bytes: int
    example: str


async def run_spark_demo(cluster: Cluster, topic: str, messages: int, progress: PipelineProgress) -> Archived:
    """Publish JSON messages, archive them as Parquet files in a temporary directory, and read the files.

    :raises JavaMissing: if Spark cannot run
    :raises PipelineFailed: if its job fails
    """
    check_topic(topic)
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="nsq-anyio-demo-") as directory:
        await _publish(cluster, topic, messages)
        async with _set_when_cancelled(stop):
            return await anyio.to_thread.run_sync(_archive, cluster, topic, Path(directory), progress, stop)


@asynccontextmanager
async def _set_when_cancelled(stop: threading.Event) -> AsyncGenerator[None]:
    # A thread cannot be cancelled: ask it to stop, and wait for it.
    async def wait() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stop.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        yield
        tasks.cancel_scope.cancel()


async def _publish(cluster: Cluster, topic: str, messages: int) -> None:
    async with produce(cluster.nsqds) as producer:
        for start in range(0, messages, _BATCH):
            numbers = range(start, min(start + _BATCH, messages))
            await producer.publish_many(topic, [_body(number) for number in numbers])


def _body(number: int) -> str:
    return json.dumps({"click": number, "country": _COUNTRIES[number % len(_COUNTRIES)], "ms": number % 977})


def _archive(
    cluster: Cluster, topic: str, directory: Path, progress: PipelineProgress, stop: threading.Event
) -> Archived:
    output = directory / "archive"
    with quiet_session("nsq-anyio demo") as (spark, pipelines):
        summary = pipelines.archive(
            spark,
            topic=topic,
            channel="archive",
            nsqlookupd=cluster.nsqlookupds,
            nsqd=() if cluster.nsqlookupds else cluster.nsqds,
            output=str(output),
            checkpoint=str(directory / "checkpoint"),
            spool_dir=str(directory / "spool"),
            on_progress=progress.take,
            stop=stop,
        )
        table = spark.read.parquet(str(output))
        held = spark.sql(_HELD, archive=table).collect()
        (example,) = spark.sql(_EXAMPLE, archive=table).head(1)
    sizes = [file.stat().st_size for file in output.rglob("*.parquet")]
    return Archived(
        summary=summary,
        held=tuple(Held(row["nsqd"], row["rows"], row["unique"]) for row in held),
        files=len(sizes),
        bytes=sum(sizes),
        example=example[0],
    )
