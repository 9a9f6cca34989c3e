"""The batch reader's methods, called as Spark calls them, without a JVM."""

from __future__ import annotations

import pickle
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from nsq_anyio.errors import ConnectionFailed, InvalidOption
from nsq_anyio.http import ClusterFailed
from nsq_anyio.spark.batch_reader import NsqBatchReader, PeekTooLong, WaitingPartition
from nsq_anyio.spark.bounded_reader import BoundedReader, bounded_reader
from nsq_anyio.spark.options import ReadOptions
from nsq_anyio.spark.schema import arrow_schema
from nsq_anyio.spark.source import NsqDataSource
from nsq_anyio.spark.spool_admin import find_spools
from nsq_anyio.spark.task import SpooledPartition

from .conftest import new_name
from .nsqds import Kind, Nsqd, Topic, running_nsqd, wait_until
from .reading import options_of, sound_chunks
from .rows import bodies, ids

pytestmark = pytest.mark.timeout(30)


def reader_of(topic: Topic, **options: str | float | bool | Path) -> NsqBatchReader:
    chosen = {} if {"peek", "spoolDir"} & options.keys() else {"drain": True}
    return NsqBatchReader(options_of(topic, **chosen, **options))


def task(reader: NsqBatchReader, partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """What a task does: in another process, so with copies."""
    copy = cast("NsqBatchReader", pickle.loads(pickle.dumps(reader)))
    return copy.read(cast("InputPartition", pickle.loads(pickle.dumps(partition))))


def read(reader: NsqBatchReader, partitions: Iterable[InputPartition]) -> list[pa.RecordBatch]:
    return [batch for partition in partitions for batch in task(reader, partition)]


def returned(topic: Topic, count: int) -> None:
    wait_until(lambda: topic.state().in_flight == 0, "nsqd to take back what was in flight")
    state = topic.state()
    assert (state.depth, state.deferred, state.timed_out) == (count, 0, 0)


def test_what_waits_is_read_once_and_finished(topic: Topic) -> None:
    topic.publish_numbers(330)
    reader = reader_of(topic)
    batches = read(reader, reader.partitions())
    assert sorted(map(int, bodies(batches))) == list(range(330))
    assert len(set(ids(batches))) == 330
    # nsqd has handled each FIN by the end of the task.
    assert topic.state().left == 0


def test_bound_holds_over_partitions(topic: Topic) -> None:
    topic.publish_numbers(330)
    reader = reader_of(topic, maxRows=100, minPartitions=3)
    partitions = reader.partitions()
    assert [cast("WaitingPartition", partition).rows for partition in partitions] == [34, 33, 33]
    assert len(set(bodies(read(reader, partitions)))) == 100
    state = topic.state()
    assert (state.left, state.requeued) == (230, 0)


def test_nothing_waits(topic: Topic) -> None:
    reader = reader_of(topic)
    assert reader.partitions() == []
    # What Spark makes of no partitions.
    assert read(reader, [InputPartition(None)]) == []


def test_rows_are_finished_only_after_spark_has_taken_them(topic: Topic) -> None:
    topic.publish_numbers(300)
    reader = reader_of(topic)
    rows = task(reader, *reader.partitions())
    first = next(rows)
    assert topic.state().left == 300
    second = next(rows)
    # Spark asks for more: it has the first ones.
    wait_until(lambda: topic.state().left == 300 - first.num_rows, "the FINs of the first chunk")
    cast("Any", rows).close()
    returned(topic, 300 - first.num_rows)
    assert len(topic.take(300 - first.num_rows)) == 300 - first.num_rows
    assert second.num_rows


def test_task_that_is_dropped_gives_back_what_it_holds(topic: Topic) -> None:
    """A task that fails, or has enough as with LIMIT, is dropped: nobody closes what it reads."""
    topic.publish_numbers(300)
    reader = reader_of(topic)
    rows = task(reader, *reader.partitions())
    next(rows)
    del rows
    returned(topic, 300)


def test_peek_puts_everything_back(topic: Topic) -> None:
    topic.publish_numbers(300)
    reader = reader_of(topic, peek=True, maxRows=80)
    seen = bodies(read(reader, reader.partitions()))
    assert len(set(seen)) == len(seen) == 80
    returned(topic, 300)
    assert sorted(map(int, topic.take(300))) == list(range(300))


def test_peek_sees_each_message_once_even_if_more_than_a_connection_holds(topic: Topic) -> None:
    topic.publish_numbers(450)
    reader = reader_of(topic, peek=True)
    (partition,) = reader.partitions()
    seen = bodies(task(reader, partition))
    assert sorted(map(int, seen)) == list(range(450))
    returned(topic, 450)


def test_peek_gives_back_before_spark_takes_the_rows(topic: Topic) -> None:
    topic.publish_numbers(100)
    reader = reader_of(topic, peek=True)
    rows = task(reader, *reader.partitions())
    assert next(rows).num_rows
    returned(topic, 100)


def test_peek_ends_when_others_have_taken_the_messages(topic: Topic) -> None:
    topic.publish_numbers(100)
    reader = reader_of(topic, peek=True)
    partitions = reader.partitions()
    topic.take(70)
    wait_until(lambda: topic.state().left == 30, "nsqd to handle the FINs")
    assert len(bodies(read(reader, partitions))) == 30
    returned(topic, 30)


def test_spool_of_its_own_is_kept(topic: Topic, tmp_path: Path) -> None:
    topic.publish_numbers(250)
    reader = reader_of(topic, spoolDir=tmp_path, minPartitions=2)
    partitions = reader.partitions()
    assert all(isinstance(partition, SpooledPartition) for partition in partitions)
    batches = read(reader, partitions)
    assert sorted(map(int, bodies(batches))) == list(range(250))
    assert topic.state().left == 0
    (spool,) = find_spools(tmp_path)
    assert (spool.topic, spool.channel, spool.rows) == (topic.name, topic.channel, 250)
    assert sorted(ids(chunk.batch for chunk in sound_chunks(spool))) == sorted(ids(batches))
    # A task that Spark runs again reads the same rows.
    assert ids(read(reader, partitions)) == ids(batches)


def test_each_read_has_a_spool_of_its_own_and_none_if_nothing_waits(topic: Topic, tmp_path: Path) -> None:
    reader = reader_of(topic, spoolDir=tmp_path)
    assert reader.partitions() == []
    assert list(tmp_path.iterdir()) == []
    for number in range(2):
        topic.publish_numbers(5, first=number)
        assert len(bodies(read(reader, reader.partitions()))) == 5
    assert [spool.rows for spool in find_spools(tmp_path)] == [5, 5]


def test_several_nsqds_share_a_read(real_nsqd: Nsqd, embedded_nsqd: Nsqd) -> None:
    name = new_name()
    topics = [nsqd.topic(name) for nsqd in (real_nsqd, embedded_nsqd)]
    for number, topic in enumerate(topics):
        topic.publish_numbers(50, first=50 * number)
    reader = reader_of(
        topics[0],
        nsqd=f"{real_nsqd.tcp_address},{embedded_nsqd.tcp_address}",
        nsqdHttp=f"{real_nsqd.http_url},{embedded_nsqd.http_url}",
    )
    assert sorted(map(int, bodies(read(reader, reader.partitions())))) == list(range(100))


def test_unreachable_nsqd_is_named_when_planned(topic: Topic, unreachable: str) -> None:
    reader = reader_of(topic, nsqdHttp=f"http://{unreachable}")
    with pytest.raises(ClusterFailed, match=unreachable):
        reader.partitions()


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="drain"),
        pytest.param({"peek": True}, id="peek"),
        pytest.param({"spoolDir": "made by the test"}, id="spool"),
    ],
)
def test_unreachable_nsqd_is_named_by_a_task_and_is_not_empty(
    topic: Topic, unreachable: str, tmp_path: Path, more: dict[str, str | bool]
) -> None:
    topic.publish_numbers(5)
    if "spoolDir" in more:
        more = {"spoolDir": str(tmp_path)}
    reader = reader_of(topic, nsqd=unreachable, connectTimeout=0.3, **more)
    (partition,) = reader.partitions()
    with pytest.raises(ConnectionFailed, match=unreachable):
        list(task(reader, partition))
    assert topic.state().left == 5


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"minPartitions": 2}, "leave minPartitions=2 out"),
        ({"maxRowsPerPartition": 10}, "leave maxRowsPerPartition=10 out"),
    ],
)
def test_options_that_mean_nothing_with_peek_are_refused(
    options: dict[str, str | float], expected: str, topic: Topic
) -> None:
    with pytest.raises(InvalidOption, match=expected):
        reader_of(topic, peek=True, **options)


def test_source_makes_it_and_refuses_what_only_a_stream_has(topic: Topic) -> None:
    schema: StructType = from_arrow_schema(arrow_schema())
    source = NsqDataSource({**topic.options, "drain": "true"})
    assert isinstance(source.reader(schema), NsqBatchReader)
    with pytest.raises(InvalidOption, match="bound a batch read with maxRows"):
        NsqDataSource(topic.options | {"maxRowsPerBatch": "5"}).reader(schema)
    with pytest.raises(InvalidOption, match=r"schema .* is not valid: leave it out"):
        source.reader(StructType([*schema.fields[1:]]))


def test_read_says_what_becomes_of_the_messages(topic: Topic) -> None:
    """Spark buffers many batches ahead, so a read that finishes them has to be asked for."""
    schema: StructType = from_arrow_schema(arrow_schema())
    with pytest.raises(
        InvalidOption, match=r"none of peek, spoolDir and drain is set: .*peek=true .*spoolDir, .*drain=true"
    ):
        NsqDataSource(topic.options).reader(schema)
    for chosen in ({"peek": "true"}, {"spoolDir": "/spool"}, {"drain": "true"}):
        assert isinstance(NsqDataSource({**topic.options, **chosen}).reader(schema), NsqBatchReader)
    with pytest.raises(InvalidOption, match="peek and spoolDir exclude each other"):
        NsqDataSource({**topic.options, "peek": "true", "spoolDir": "/spool"}).reader(schema)


@pytest.fixture
def slow_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each connection of a peek take 0.3 s more."""

    @asynccontextmanager
    async def slow(options: ReadOptions, nsqd: str, rows: int) -> AsyncGenerator[BoundedReader]:
        await anyio.sleep(0.3)
        async with bounded_reader(options, nsqd, rows) as reader:
            yield reader

    monkeypatch.setattr("nsq_anyio.spark.batch_reader.bounded_reader", slow)


@pytest.mark.usefixtures("slow_connections")
def test_peek_that_lasts_longer_than_the_timeout_sees_each_message_once(topic: Topic) -> None:
    topic.publish_numbers(700)
    reader = reader_of(topic, peek=True, msgTimeout=1)
    seen = bodies(read(reader, reader.partitions()))
    assert sorted(map(int, seen)) == list(range(700))
    returned(topic, 700)


@pytest.mark.usefixtures("slow_connections")
@pytest.mark.parametrize("kind", ["real", "embedded"])
def test_peek_that_lasts_longer_than_nsqd_allows_fails(kind: Kind) -> None:
    flags = ["--msg-timeout=1s", "--max-msg-timeout=1s"]
    with running_nsqd(kind, flags) as nsqd:
        topic = nsqd.topic("peeked")
        topic.publish_numbers(700)
        reader = reader_of(topic, peek=True)
        with pytest.raises(PeekTooLong, match=r"--max-msg-timeout.*lower maxRows, or read into a spoolDir"):
            read(reader, reader.partitions())
        wait_until(lambda: topic.state().in_flight == 0, "nsqd to take back what was in flight")
        assert topic.state().left == 700


@pytest.mark.parametrize("drop", [0, 1])
def test_stream_that_is_refused_says_so_when_spark_asks(topic: Topic, drop: int) -> None:
    """Not before: PySpark 4.3.0 would tell of a reader that it does not have."""
    schema: StructType = from_arrow_schema(arrow_schema())
    expected = r"schema .* is not valid: leave it out" if drop else "no spoolDir: "
    reader: Any = NsqDataSource(topic.options).streamReader(StructType([*schema.fields[drop:]]))
    asked: list[Callable[[], object]] = [
        reader.initialOffset,
        reader.getDefaultReadLimit,
        lambda: reader.latestOffset({}, ReadAllAvailable()),
        reader.prepareForTriggerAvailableNow,
        lambda: reader.partitions({}, {}),
        lambda: reader.read(InputPartition(None)),
    ]
    for ask in asked:
        with pytest.raises(InvalidOption, match=expected):
            ask()
    reader.stop()
