"""The writers, called as Spark's tasks call them, without a JVM."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from anyio.from_thread import start_blocking_portal
from pyspark.sql.types import (
    BinaryType,
    CharType,
    DataType,
    DayTimeIntervalType,
    DecimalType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from nsq_anyio.errors import InvalidBody, InvalidOption, NSQError
from nsq_anyio.http import ClusterFailed
from nsq_anyio.spark.options import write_options
from nsq_anyio.spark.publishing import publish_rows
from nsq_anyio.spark.source import NsqDataSource
from nsq_anyio.spark.writer import NsqStreamWriter, NsqWriter, Published

from ..real_servers import real_nsqlookupd
from .conftest import new_name
from .nsqds import Kind, Nsqd, Topic, running_nsqd, wait_until

pytestmark = pytest.mark.timeout(30)

Column: TypeAlias = tuple[str, DataType]

BODY: Column = ("body", StringType())


def schema_of(columns: list[Column]) -> StructType:
    return StructType([StructField(name, type_) for name, type_ in columns])


def _to(topic: Topic) -> dict[str, str]:
    return {"nsqd": topic.nsqd.tcp_address, "topic": topic.name}


def writer_to(topic: Topic, **options: str) -> NsqWriter:
    """One as a task has it: a copy."""
    given = {**_to(topic), **options}
    writer: NsqWriter = pickle.loads(pickle.dumps(NsqWriter(write_options(given))))
    return writer


def batches(count: int, rows: int) -> Iterator[pa.RecordBatch]:
    for first in range(count):
        numbers = range(first * rows, (first + 1) * rows)
        yield pa.record_batch({"body": pa.array(map(str, numbers), pa.string())})


def test_all_rows_are_published_before_it_returns(topic: Topic) -> None:
    written = writer_to(topic, batchRows="50").write(batches(7, 100))
    assert written == Published(700)
    wait_until(lambda: topic.state().depth == 700, "nsqd to copy messages to the channel")
    assert sorted(map(int, topic.take(700))) == list(range(700))


def test_stream_is_written_as_a_batch_is(topic: Topic) -> None:
    options = write_options({"nsqd": topic.nsqd.tcp_address, "topic": topic.name})
    writer = NsqStreamWriter(options)
    assert writer.write(batches(1, 10)) == Published(10)
    writer.commit([Published(10)], 0)
    writer.abort([None], 1)
    assert sorted(map(int, topic.take(10))) == list(range(10))


def test_without_rows_nobody_is_connected_to(unreachable: str) -> None:
    writer = NsqWriter(write_options({"nsqd": unreachable, "topic": "t"}))
    assert writer.write(iter([])) == Published(0)
    assert writer.write(batches(3, 0)) == Published(0)


def test_empty_batch_between_others_is_no_end(topic: Topic) -> None:
    rows = [*batches(1, 5), *batches(1, 0), *batches(1, 5)]
    assert writer_to(topic).write(iter(rows)) == Published(10)


def test_rows_choose_topic_and_time(topic: Topic) -> None:
    other = topic.nsqd.topic(new_name())
    rows = pa.record_batch(
        {
            "topic": [topic.name, other.name, other.name],
            "body": ["now", "here", "later"],
            "defer": [None, 0, 0.6],
        }
    )
    writer = NsqWriter(write_options({"nsqd": topic.nsqd.tcp_address}))
    began_at = time.monotonic()
    assert writer.write(iter([rows])) == Published(3)
    assert topic.take(1) == [b"now"]
    assert other.take(2) == [b"here", b"later"]
    assert time.monotonic() - began_at >= 0.6


def test_rows_of_a_wrong_batch_are_not_published_and_the_row_is_counted(topic: Topic) -> None:
    wrong = pa.record_batch({"body": ["x"] * 30 + [None]})
    with pytest.raises(InvalidBody, match="column body, row 131 of partition 0: null"):
        writer_to(topic).write(iter([*batches(1, 100), wrong]))
    # Those before it were fine, and may be out: Spark runs the task again.
    bodies = topic.take(topic.state().left) if topic.state().left else []
    assert b"x" not in bodies
    assert set(map(int, bodies)) <= set(range(100))


def test_failure_of_the_query_goes_through(topic: Topic) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from batches(1, 10)
        raise ZeroDivisionError("in a user's function")

    with pytest.raises(ZeroDivisionError, match="in a user's function"):
        writer_to(topic).write(failing())


def test_tasks_of_a_few_rows_begin_with_different_nsqds(real_nsqd: Nsqd, embedded_nsqd: Nsqd) -> None:
    name = new_name()
    topics = [nsqd.topic(name) for nsqd in (real_nsqd, embedded_nsqd)]
    options = write_options({"nsqd": ",".join(topic.nsqd.tcp_address for topic in topics), "topic": name})
    for partition in range(4):
        publish_rows(batches(1, 100), options, partition)
    for topic in topics:
        assert len(set(topic.take(200))) == 100, "two tasks wrote the same hundred rows to each"
        assert topic.state().left == 0


def test_task_begins_with_another_nsqd_if_its_own_is_away(topic: Topic, unreachable: str) -> None:
    options = write_options({"nsqd": f"{unreachable},{topic.nsqd.tcp_address}", "topic": topic.name})
    started_at = time.monotonic()
    assert publish_rows(batches(1, 100), options, 0) == 100
    assert time.monotonic() - started_at < 5
    assert len(topic.take(100)) == 100


def test_unreachable_nsqd_is_named(unreachable: str) -> None:
    writer = NsqWriter(write_options({"nsqd": unreachable, "topic": "t", "connectTimeout": "0.3"}))
    with pytest.raises(NSQError, match=unreachable):
        writer.write(batches(1, 10))


def test_refusal_is_told_with_the_limit() -> None:
    """nsqd takes less than the options say."""
    with running_nsqd("real", ["--max-msg-size=100"]) as nsqd:
        topic = nsqd.topic(new_name())
        with pytest.raises(NSQError, match="too big") as caught:
            writer_to(topic).write(iter([pa.record_batch({"body": ["x" * 101]})]))
        assert not isinstance(caught.value, BaseExceptionGroup)
        assert topic.state().left == 0


@pytest.mark.parametrize("kind", ["real", "embedded"])
def test_an_nsqd_with_a_small_max_body_size_gets_all_rows(kind: Kind) -> None:
    """nsqd tells that size to nobody before it refuses."""
    with running_nsqd(kind, ["--max-body-size=500"]) as nsqd:
        topic = nsqd.topic(new_name())
        assert publish_rows(batches(3, 1000), write_options(_to(topic)), 0) == 3000
        assert len(set(topic.take(3000))) == 3000


def test_rows_go_out_while_spark_makes_the_next_ones(topic: Topic) -> None:
    resume = threading.Event()

    def slow() -> Iterator[pa.RecordBatch]:
        yield from batches(1, 10)
        assert resume.wait(20)
        yield from batches(1, 10)

    results: list[Published] = []
    writing = threading.Thread(target=lambda: results.append(writer_to(topic).write(slow())))
    writing.start()
    try:
        wait_until(lambda: topic.state().depth == 10, "the first rows, while the others are being made")
    finally:
        resume.set()
        writing.join()
    assert results == [Published(20)]
    assert topic.state().left == 20


def test_nsqlookupd_names_the_nsqds(unreachable: str) -> None:
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(real_nsqlookupd()) as lookupd:
        options = write_options(
            {"nsqlookupd": f"{lookupd.http_url},http://{unreachable}", "topic": new_name()}
        )
        assert options.topic is not None
        with pytest.raises(ClusterFailed, match="no nsqd to publish to is known") as caught:
            NsqWriter(options).write(batches(1, 10))
        assert unreachable in str(caught.value)
        flag = f"--lookupd-tcp-address={lookupd.tcp_address}"
        with running_nsqd("real", [flag]) as one, running_nsqd("real", [flag]) as two:
            topics = [nsqd.topic(options.topic) for nsqd in (one, two)]
            wait_until(lambda: _nodes(lookupd.http_url) == 2, "both nsqds to register")
            many = write_options({"nsqlookupd": lookupd.http_url, "topic": options.topic, "batchRows": "10"})
            assert NsqWriter(many).write(batches(10, 10)) == Published(100)
            found = [sorted(map(int, topic.take(topic.state().left))) for topic in topics]
    assert all(found), "both get some"
    assert sorted(found[0] + found[1]) == list(range(100))


def _nodes(lookupd: str) -> int:
    reply = json.loads(Nsqd("real", "", lookupd).request("GET", "/nodes"))
    return len(reply["producers"])


@pytest.mark.parametrize(
    ("columns", "options", "expected"),
    [
        ([("text", StringType())], {"topic": "t"}, "no column body among text: rename one"),
        ([], {"topic": "t"}, "no column body among none"),
        (
            [("body", IntegerType())],
            {"topic": "t"},
            "column body has type int: use binary or string",
        ),
        ([BODY, BODY], {"topic": "t"}, "column body occurs 2 times: keep one"),
        ([BODY], {}, "no topic: set the option topic, or add a column topic to body"),
        ([BODY, ("topic", BinaryType())], {}, "column topic has type binary: use string"),
        (
            [BODY, ("defer", StringType())],
            {"topic": "t"},
            "column defer has type string: use a number of seconds",
        ),
        (
            [BODY, ("defer", DayTimeIntervalType())],
            {"topic": "t"},
            "column defer has type interval day to second: use a number of seconds",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["writer", "streamWriter"])
def test_columns_that_cannot_be_published_are_named(
    columns: list[Column], options: dict[str, str], expected: str, kind: str
) -> None:
    make: Any = getattr(NsqDataSource({"nsqd": "127.0.0.1:4150", **options}), kind)
    with pytest.raises(InvalidOption) as caught:
        make(schema_of(columns), overwrite=False)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "columns",
    [
        [BODY],
        [("body", CharType(3)), ("more", IntegerType())],
        [("body", BinaryType()), ("topic", IntegerType()), ("defer", DecimalType(5, 2))],
    ],
)
def test_other_columns_do_not_matter(columns: list[Column]) -> None:
    source = NsqDataSource({"nsqd": "127.0.0.1:4150", "topic": "t"})
    assert isinstance(source.writer(schema_of(columns), overwrite=False), NsqWriter)
    assert isinstance(source.streamWriter(schema_of(columns), overwrite=False), NsqStreamWriter)


def test_nothing_can_be_overwritten() -> None:
    source = NsqDataSource({"nsqd": "127.0.0.1:4150", "topic": "t"})
    with pytest.raises(InvalidOption, match=r"overwrite.*append"):
        source.writer(schema_of([BODY]), overwrite=True)
    with pytest.raises(InvalidOption, match=r"complete.*append"):
        source.streamWriter(schema_of([BODY]), overwrite=True)


def test_a_task_that_writes_needs_neither_pandas_nor_httpx(embedded_nsqd: Nsqd, tmp_path: Path) -> None:
    """Each takes long to import, in each new process of Python, before the first row."""
    topic = embedded_nsqd.topic(new_name())
    (tmp_path / "task").write_bytes(pickle.dumps(writer_to(topic)))
    (tmp_path / "rows").write_bytes(pickle.dumps(list(batches(2, 5))))
    program = (
        "import pickle, sys\n"
        "task = pickle.load(open(sys.argv[1] + '/task', 'rb'))\n"
        "rows = pickle.load(open(sys.argv[1] + '/rows', 'rb'))\n"
        "print(task.write(iter(rows)).rows)\n"
        "print({'pandas', 'httpx', 'nsq_anyio.consumer'} & set(sys.modules))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    shown = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert shown == "10\nset()\n"
