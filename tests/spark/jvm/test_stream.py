"""Streaming reads: what waits is read once, in batches that are never empty, and the query ends."""

from __future__ import annotations

import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from anyio.from_thread import start_blocking_portal
from prometheus_client import CollectorRegistry
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from nsq_anyio.spark import NsqDataSource
from nsq_anyio.spark.listener import NSQListener

from ...real_servers import real_nsqlookupd
from ..conftest import new_name
from ..nsqds import Topic, registered, running_nsqd, wait_until
from ..rows import on_disk
from .ledger import LedgerSink
from .query import Query

pytestmark = pytest.mark.timeout(300)

_LIMIT = 100


def test_available_now_reads_what_waits_in_bounded_batches(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.publish_numbers(2_500)
    query = Query.of(topic, tmp_path)
    query.run(spark)
    ledger = query.ledger()
    ledger.check(range(2_500))
    assert ledger.duplicates == 0
    assert [len(runs[0]) for runs in ledger.batches.values()] == [1_000, 1_000, 500]
    assert topic.state().left == 0


def test_a_listener_counts_the_only_batch_of_a_run(
    spark: SparkSession, real_topic: Topic, tmp_path: Path
) -> None:
    registry = CollectorRegistry()
    listener = NSQListener(registry)
    spark.streams.addListener(listener)
    try:
        real_topic.publish([b"x" * 100] * 30)
        Query.of(real_topic, tmp_path).run(spark)
        wait_until(lambda: "nsq_spark_bytes_total" in _values(registry), "the end of the run to be counted")
    finally:
        spark.streams.removeListener(listener)
    found = _values(registry)
    assert (found["nsq_spark_rows_total"], found["nsq_spark_bytes_total"]) == (30, 3_000)


def _values(registry: CollectorRegistry) -> dict[str, float]:
    return {sample.name: sample.value for metric in registry.collect() for sample in metric.samples}


def test_rows_tell_where_they_come_from(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.publish([b"\x00\xff", b"\n", b"text"])
    Query.of(topic, tmp_path).run(spark)
    (path,) = (tmp_path / "sink").iterdir()
    table = pq.read_table(path)  # pyright: ignore[reportUnknownMemberType] - the stubs are partial here
    rows = sorted(table.to_pylist(), key=lambda row: row["body"])
    assert [row["body"] for row in rows] == [b"\x00\xff", b"\n", b"text"]
    assert {row["topic"] for row in rows} == {topic.name}
    assert {row["channel"] for row in rows} == {topic.channel}
    assert {row["nsqd"] for row in rows} == {topic.nsqd.tcp_address}
    assert {row["attempts"] for row in rows} == {1}
    assert all(len(row["id"]) == 16 for row in rows)


def test_query_that_is_started_again_goes_on(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    query = Query.of(topic, tmp_path)
    topic.publish_numbers(700)
    query.run(spark)
    topic.publish_numbers(700, first=700)
    query.run(spark)
    query.run(spark)  # nothing waits: no batch
    ledger = query.ledger()
    ledger.check(range(1_400))
    assert (len(ledger.batches), ledger.duplicates) == (2, 0)


def test_query_without_messages_has_no_batches_and_no_spool(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    query = Query.of(topic, tmp_path)
    for _ in range(2):
        query.run(spark)
    # Spark runs the first batch of a new query in any case.
    assert query.ledger().batches == {0: [[]]}
    assert not list(on_disk(query.spool).iterdir())


def test_continuous_query_reads_what_comes_and_deletes_what_is_stored(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    query = Query.of(topic, tmp_path)
    running = query.start(spark, trigger={"processingTime": "100 milliseconds"})
    try:
        for first in (0, 100, 200):
            topic.publish_numbers(100, first)
            wait_until(partial(_has, query, first + 100), "the query to read what came")
    finally:
        running.stop()
    query.ledger().check(range(300))
    epochs = {path.parent.parent.name for path in on_disk(query.spool).rglob("*.arrow")}
    assert len(epochs) <= 1, "Spark tells that a batch is stored when it plans the next one"


def test_available_now_ends_while_producers_go_on(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.publish_numbers(3_000)
    query = Query.of(topic, tmp_path)
    sink = LedgerSink(str(tmp_path / "sink"))

    def store(rows: DataFrame, batch: int) -> None:
        sink(rows, batch)
        topic.publish_numbers(2_000, first=3_000 + 2_000 * batch)

    query.run(spark, sink=store)
    # Which of them it reads, nsqd decides; how many was fixed at the start.
    assert len(query.ledger().rows) == 3_000
    assert topic.state().left == 6_000


def test_available_now_ends_when_others_take_the_messages(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.publish_numbers(2_000)
    query = Query.of(topic, tmp_path)
    sink = LedgerSink(str(tmp_path / "sink"))

    def store(rows: DataFrame, batch: int) -> None:
        sink(rows, batch)
        topic.take(topic.state().depth)

    query.run(spark, sink=store)
    assert len(query.ledger().rows) == 1_000
    assert topic.state().left == 0


def test_spool_of_another_query_is_not_replayed(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.publish_numbers(500)
    first = Query.of(topic, tmp_path / "first")
    first.run(spark)
    assert list(on_disk(first.spool).rglob("*.arrow")), "its last batch stays until it is started again"
    topic.publish_numbers(500, first=500)
    second = Query.of(topic, tmp_path / "second", spoolDir=str(first.spool))
    second.run(spark)
    assert sorted(row.number for row in second.ledger().rows) == list(range(500, 1_000))


def test_failed_sink_gets_the_same_rows_again(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.publish_numbers(500)
    query = Query.of(topic, tmp_path)
    _fail_in_sink(query, spark)
    assert topic.state().left == 0, "all of it is in the spool"
    query.run(spark)
    ledger = query.ledger()
    ledger.check(range(500))
    assert (ledger.reruns, ledger.duplicates) == (1, 0)


def test_missing_spool_of_an_unfinished_batch_is_named(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    topic.publish_numbers(500)
    query = Query.of(topic, tmp_path)
    _fail_in_sink(query, spark)
    for directory in on_disk(query.spool).iterdir():
        shutil.rmtree(directory)
    with pytest.raises(StreamingQueryException) as caught:
        query.run(spark)
    assert str(query.spool) in str(caught.value)


def test_two_tasks_that_read_one_partition_get_the_same_rows(
    spark: SparkSession, real_topic: Topic, tmp_path: Path
) -> None:
    """Two threads of a sink run the same job at once."""
    real_topic.publish_numbers(1_000)
    query = Query.of(real_topic, tmp_path, minPartitions=1)

    def store(rows: DataFrame, batch: int) -> None:
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(rows.toArrow) for _ in range(2)]
            tables = [job.result() for job in jobs]
        first, second = (Counter(table["id"].to_pylist()) for table in tables)
        assert first == second
        LedgerSink(str(tmp_path / "sink")).store(tables[0], batch)

    query.run(spark, sink=store)
    query.run_out(spark).check(range(1_000))


def test_several_nsqds_are_found_and_read_at_once(spark: SparkSession, tmp_path: Path) -> None:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(real_nsqlookupd()) as lookupd:
        flags = [f"--lookupd-tcp-address={lookupd.tcp_address}", "--broadcast-address=127.0.0.1"]
        with running_nsqd("real", flags) as real, running_nsqd("embedded", flags) as embedded:
            name = new_name()
            topics = [nsqd.topic(name) for nsqd in (real, embedded)]
            topics[0].publish_numbers(1_500)
            topics[1].publish_numbers(500, first=1_500)
            wait_until(lambda: registered(lookupd.http_url, name) == 2, "both nsqds to register the topic")
            query = Query.of(topics[0], tmp_path, nsqlookupd=lookupd.http_url)
            query.run(spark)
            assert [topic.state().left for topic in topics] == [0, 0]
    ledger = query.ledger()
    ledger.check(range(2_000))
    first_batch = [row.nsqd for row in ledger.batches[0][0]]
    assert {nsqd: first_batch.count(nsqd) for nsqd in set(first_batch)} == {
        real.tcp_address: pytest.approx(750, abs=250),
        embedded.tcp_address: pytest.approx(250, abs=250),
    }


def _has(query: Query, messages: int) -> bool:
    return len({row.number for row in query.ledger().rows}) == messages


def _fail_in_sink(query: Query, spark: SparkSession) -> None:
    """Let the first batch fail after the sink has it."""
    sink = LedgerSink(str(query.directory / "sink"))

    def fail(rows: DataFrame, batch: int) -> None:
        sink(rows, batch)
        raise RuntimeError("the sink is full")

    with pytest.raises(StreamingQueryException, match="the sink is full"):
        query.run(spark, sink=fail)


@pytest.mark.parametrize("combined", ["join", "union of two"])
def test_two_sources_on_one_channel_are_refused(
    combined: str, spark: SparkSession, real_topic: Topic, tmp_path: Path
) -> None:
    """NSQ gives each message to one of them: a join with itself found no rows, and said nothing."""
    real_topic.publish_numbers(100)
    query = Query.of(real_topic, tmp_path)
    spark.dataSource.register(NsqDataSource)
    first, second = (spark.readStream.format("nsq").options(**query.options).load() for _ in range(2))
    if combined == "join":
        frame = first.alias("left").join(first.alias("right"), "body").select("body")
    else:
        frame = first.union(second).select("body")
    running = (
        frame.writeStream.format("noop")
        .option("checkpointLocation", query.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(
        StreamingQueryException, match=f"reads {real_topic.name}/spark .*foreachBatch"
    ) as caught:
        running.awaitTermination(_LIMIT)
    assert "shareChannel=true" in str(caught.value)
    assert real_topic.state().left == 100
    # The readers of the query that failed are gone.
    query.run(spark)
    query.ledger().check(range(100))


def test_bytes_bound_each_batch_and_available_now_reads_all(
    spark: SparkSession, real_topic: Topic, tmp_path: Path
) -> None:
    bodies = [b"%d" % (10**99 + number) for number in range(60)]
    real_topic.publish(bodies)
    query = Query.of(real_topic, tmp_path, maxBytesPerBatch=2_000)
    query.run(spark)
    ledger = query.ledger()
    assert sorted(row.number for row in ledger.rows) == [int(body) for body in bodies]
    assert [len(runs[0]) for runs in ledger.batches.values()] == [20, 20, 20]
    assert real_topic.state().requeued == 0
