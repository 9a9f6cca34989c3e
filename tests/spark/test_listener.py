"""What a query tells of itself becomes metrics: gauges of what is, and counts that never decrease."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)

from nsq_anyio.spark.listener import SPARK_METRICS, NSQListener
from nsq_anyio.spark.spool import Spool
from nsq_anyio.spark.task import TaskReport, note_report

from .rows import on_disk, rows_of
from .test_page import rows

ID, RUN = uuid.uuid4(), uuid.uuid4()
SOURCE = {"query": "archive", "topic": "clicks", "channel": "spark"}
NSQD = {**SOURCE, "nsqd": "127.0.0.1:4150"}
TOLD: dict[str, Any] = {
    "source": "nsq",
    "topic": "clicks",
    "channel": "spark",
    "depth": {"127.0.0.1:4150": 7},
    "lag": 9,
    "spoolDir": "/spool",
    "spoolBytes": 100,
}
BATCH = {
    "epoch": 1,
    "rows": 5,
    "bytes": 100,
    "chunks": 2,
    "storeMs": 30,
    "slowestChunkMs": 20,
    "redelivered": 1,
    "refused": 0,
}


class Watched:
    """A listener, and the values that it exports."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.listener = NSQListener(self.registry)

    def value(self, name: str, labels: dict[str, str] | None = None) -> float | None:
        return self.registry.get_sample_value(f"nsq_spark_{name}", labels or SOURCE)

    def progress(
        self,
        offset: object,
        rows: int = 5,
        name: str | None = "archive",
        end: dict[str, Any] | None = None,
    ) -> None:
        progress = StreamingQueryProgress.fromJson(
            {
                "id": str(ID),
                "runId": str(RUN),
                "name": name,
                "timestamp": "2026-11-25T12:00:00.000Z",
                "batchId": 1,
                "batchDuration": 2500,
                "numInputRows": rows,
                "inputRowsPerSecond": 1.0,
                "processedRowsPerSecond": 1.0,
                "durationMs": {"triggerExecution": 2500},
                "eventTime": {},
                "stateOperators": [],
                "sources": [
                    {
                        "description": "nsq",
                        "startOffset": None,
                        "endOffset": end and json.dumps(end),
                        "latestOffset": offset if isinstance(offset, str) else json.dumps(offset),
                        "numInputRows": rows,
                        "inputRowsPerSecond": 1.0,
                        "processedRowsPerSecond": 1.0,
                        "metrics": {},
                    }
                ],
                "sink": {"description": "noop", "numOutputRows": rows, "metrics": {}},
                "observedMetrics": {},
            }
        )
        self.listener.onQueryProgress(QueryProgressEvent(progress))

    def end(self, exception: str | None = None) -> None:
        self.listener.onQueryTerminated(QueryTerminatedEvent(ID, RUN, exception, None))


def test_gauges_are_what_was_told_last() -> None:
    watched = Watched()
    watched.progress(TOLD | {"paused": {"127.0.0.1:4150": "channel"}, "publishedPerSecond": 0})
    assert watched.value("depth", NSQD) == 7
    assert watched.value("paused", NSQD) == 1
    assert watched.value("lag") == 9
    assert watched.value("spool_bytes") == 100
    assert watched.value("published_per_second") == 0
    assert watched.value("batch_duration_seconds", {"query": "archive"}) == 2.5
    watched.progress(TOLD | {"depth": {"127.0.0.1:4250": 3}})
    assert watched.value("depth", NSQD) is None, "the nsqd has left"
    assert watched.value("depth", {**NSQD, "nsqd": "127.0.0.1:4250"}) == 3
    assert watched.value("paused", {**NSQD, "nsqd": "127.0.0.1:4250"}) == 0


def test_a_batch_counts_once() -> None:
    watched = Watched()
    for _ in range(2):
        watched.progress(TOLD | {"lastBatch": BATCH, "unreachable": {"127.0.0.1:4150": 1}})
    assert watched.value("rows_total") == 10
    assert watched.value("bytes_total") == 100
    assert watched.value("chunks_total") == 2
    assert watched.value("chunk_store_seconds_total") == pytest.approx(0.03)
    assert watched.value("slowest_chunk_seconds") == pytest.approx(0.02)
    assert watched.value("redelivered_rows_total") == 1
    assert watched.value("refused_rows_total") == 0
    assert watched.value("unreachable_partitions_total", NSQD) == 1
    watched.progress(TOLD | {"lastBatch": BATCH | {"epoch": 2}, "unreachable": {"127.0.0.1:4150": 3}})
    assert watched.value("bytes_total") == 200
    assert watched.value("unreachable_partitions_total", NSQD) == 3
    assert watched.value("batches_total", {"query": "archive"}) == 3


def test_counts_outlive_a_run_and_gauges_do_not() -> None:
    watched = Watched()
    for expected in (1, 2):
        watched.listener.onQueryStarted(QueryStartedEvent(ID, RUN, "archive", "2026-11-25T12:00Z", set()))
        watched.progress(TOLD | {"lastBatch": BATCH, "unreachable": {"127.0.0.1:4150": 1}})
        watched.end("broken")
        assert watched.value("lag") is None
        assert watched.value("bytes_total") == expected * 100
        assert watched.value("unreachable_partitions_total", NSQD) == expected
        assert watched.value("queries_failed_total", {"query": "archive"}) == expected
    watched.progress(TOLD)
    watched.end()
    assert watched.value("queries_failed_total", {"query": "archive"}) == 2


def test_an_idle_query_lives() -> None:
    watched = Watched()
    labels = {"query": "archive"}
    watched.listener.onQueryIdle(IDLE)
    assert watched.value("last_progress_timestamp_seconds", labels) is None
    watched.progress(TOLD)
    before = watched.value("last_progress_timestamp_seconds", labels)
    watched.listener.onQueryIdle(IDLE)
    after = watched.value("last_progress_timestamp_seconds", labels)
    assert before is not None
    assert after is not None
    assert after >= before


def stored(directory: Path, epoch: int) -> dict[str, Any]:
    """Make a batch that has ended, with one nsqd that was unreachable; return its end."""
    spool = Spool.create(str(directory), "query", "clicks", "spark")
    plan = [("127.0.0.1:4150", 2), ("127.0.0.1:4250", 2)]
    spool.begin(epoch, plan)
    first, second = spool.partition(epoch, 0), spool.partition(epoch, 1)
    first.store_chunk(0, rows_of([b"12345", b"678"]))
    note_report(first, TaskReport(chunks=1, store_ms=20, slowest_chunk_ms=20, redelivered=1))
    first.end(1)
    second.end(0)
    on_disk(second.path).with_name("1.unreachable").write_text("gone")
    return {"format": 2, "spool": "query", "epoch": epoch, "plan": plan}


IDLE = QueryIdleEvent(ID, RUN, "2026-11-25T12:00:00.000Z")


def test_nothing_waits_for_an_idle_query() -> None:
    watched = Watched()
    watched.progress(TOLD | {"depth": {"127.0.0.1:4150": 250_000}, "lag": 250_000, "publishedPerSecond": 5})
    watched.listener.onQueryIdle(IDLE)
    assert watched.value("depth", NSQD) == watched.value("lag") == 0
    assert watched.value("published_per_second") is None
    watched.progress(TOLD)
    assert watched.value("lag") == 9


@pytest.mark.parametrize("idle", [False, True])
def test_the_last_batch_of_a_run_counts(tmp_path: Path, idle: bool) -> None:
    watched = Watched()
    told = TOLD | {"spoolDir": str(tmp_path)}
    watched.progress(told, end=stored(tmp_path, 1))
    gone = {**NSQD, "nsqd": "127.0.0.1:4250"}
    if idle:
        watched.listener.onQueryIdle(IDLE)
        assert watched.value("bytes_total") == 8
        assert watched.value("unreachable_partitions_total", gone) == 1
    told |= {"lastBatch": BATCH | {"bytes": 8, "chunks": 1}, "unreachable": {gone["nsqd"]: 1}}
    watched.progress(told, end=stored(tmp_path, 2))
    assert watched.value("bytes_total") == 8
    watched.end()
    assert watched.value("bytes_total") == 16
    assert watched.value("chunks_total") == 2
    assert watched.value("redelivered_rows_total") == 2
    assert watched.value("unreachable_partitions_total", gone) == 2


def test_a_last_batch_that_cannot_be_read_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    watched = Watched()
    end = {"format": 2, "spool": "query", "epoch": 3, "plan": [["127.0.0.1:4150", 1]]}
    watched.progress(TOLD | {"spoolDir": str(tmp_path)}, end=end)
    watched.end()
    assert "cannot count batch 3 of clicks/spark: spool" in caplog.text
    assert watched.value("bytes_total") is None


@pytest.mark.parametrize("offset", ["", "null", "17", "not json", '{"0": 5}', '["nsq"]'])
def test_other_sources_are_left_alone(offset: str) -> None:
    watched = Watched()
    watched.progress(offset)
    watched.end("broken")
    assert [sample for metric in watched.registry.collect() for sample in metric.samples] == []


def test_a_query_without_a_name_is_known_by_its_id() -> None:
    watched = Watched()
    watched.progress(TOLD, name=None)
    assert watched.value("lag", {**SOURCE, "query": str(ID)}) == 9


def test_the_page_lists_the_metrics() -> None:
    documented = [
        (name.strip("`"), kind, help_) for name, kind, _, help_ in rows("#### Metrics for Prometheus")
    ]
    assert documented == [
        (name if kind == "gauge" else f"{name}_total", kind, help_)
        for name, (kind, _, help_) in SPARK_METRICS.items()
    ]
