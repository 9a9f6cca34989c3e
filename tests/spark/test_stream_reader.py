"""The streaming reader's methods, called as Spark calls them, without a JVM."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    ReadMaxRows,
    ReadMinRows,
)

from nsq_anyio.errors import ConnectionFailed, InvalidOption
from nsq_anyio.http import ClusterFailed
from nsq_anyio.spark.spool_admin import find_spools
from nsq_anyio.spark.spool_errors import AttemptSuperseded, SpoolError
from nsq_anyio.spark.stream_reader import NsqStreamReader
from nsq_anyio.spark.task import SpooledPartition

from .conftest import new_name
from .nsqds import Nsqd, Topic, running_nsqd
from .reading import Offset, logged, options_of, read
from .rows import ids

_readers: list[NsqStreamReader] = []


@pytest.fixture(autouse=True)
def readers_stop() -> Iterator[None]:
    """Stop what a test has made, as Spark does."""
    yield
    while _readers:
        _readers.pop().stop()


def reader_of(topic: Topic, directory: Path, **options: str | float | bool) -> NsqStreamReader:
    reader = NsqStreamReader(options_of(topic, spoolDir=directory, **options))
    _readers.append(reader)
    return reader


def rows_of(offset: Offset) -> list[int]:
    return [rows for _, rows in offset["plan"]]


def run(reader: NsqStreamReader, start: Offset, limit: ReadLimit) -> tuple[Offset, list[bytes]]:
    """One batch, committed."""
    end = logged(reader.latestOffset(start, limit))
    found = read(reader, reader.partitions(start, end))
    reader.commit(end)
    return end, found


def test_batches_follow_each_other(topic: Topic, tmp_path: Path) -> None:
    topic.publish_numbers(250)
    reader = reader_of(topic, tmp_path)
    start = logged(reader.initialOffset())
    assert (start["epoch"], start["plan"]) == (0, [])
    found: list[bytes] = []
    for epoch, expected in enumerate((100, 100, 50), 1):
        end, batch = run(reader, start, ReadMaxRows(100))
        assert end["epoch"] == epoch
        assert end["spool"] == start["spool"]
        assert len(batch) == expected
        found += batch
        start = end
    assert sorted(map(int, found)) == list(range(250))
    assert topic.state().left == 0
    (info,) = find_spools(tmp_path)
    assert (info.uuid, info.topic, info.channel, info.epochs) == (start["spool"], topic.name, "spark", 0)


def test_nothing_waits_nothing_happens(topic: Topic, tmp_path: Path) -> None:
    reader = reader_of(topic, tmp_path)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    assert reader.partitions(start, start) == []
    assert list(tmp_path.iterdir()) == [], "no spool without rows"
    topic.publish_numbers(5)
    end, _ = run(reader, start, ReadAllAvailable())
    assert reader.latestOffset(end, ReadAllAvailable()) == end


def test_wrong_spool_dir_is_told_before_a_message_comes(embedded_nsqd: Nsqd, tmp_path: Path) -> None:
    topic = embedded_nsqd.topic(new_name())
    (tmp_path / "file").touch()
    reader = reader_of(topic, tmp_path / "file" / "spool")
    with pytest.raises(SpoolError, match="spoolDir must be a path that the driver and all executors share"):
        reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    reader = reader_of(topic, tmp_path / "made" / "spool")
    reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert list((tmp_path / "made" / "spool").iterdir()) == []


def test_each_query_has_a_spool_of_its_own(topic: Topic, tmp_path: Path) -> None:
    first, second = (reader_of(topic, tmp_path).initialOffset() for _ in range(2))
    assert first["spool"] != second["spool"]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (ReadMaxRows(30), [30]),
        (ReadMaxRows(1_000), [80]),
        (ReadAllAvailable(), [80]),
        (ReadMinRows(80), [50]),
        (ReadMinRows(81), []),
    ],
)
def test_read_limits(real_topic: Topic, tmp_path: Path, limit: ReadLimit, expected: list[int]) -> None:
    real_topic.publish_numbers(80)
    reader = reader_of(real_topic, tmp_path, maxRowsPerBatch=50)
    assert rows_of(reader.latestOffset(reader.initialOffset(), limit)) == expected


def test_limit_in_files_is_refused(real_topic: Topic, tmp_path: Path) -> None:
    reader = reader_of(real_topic, tmp_path)
    real_topic.publish_numbers(1)
    with pytest.raises(InvalidOption, match="ReadMaxRows"):
        reader.latestOffset(reader.initialOffset(), ReadMaxFiles(1))


def test_default_limit_is_the_option(real_topic: Topic, tmp_path: Path) -> None:
    assert reader_of(real_topic, tmp_path).getDefaultReadLimit() == ReadMaxRows(1_000_000)
    assert reader_of(real_topic, tmp_path, maxRowsPerBatch=7).getDefaultReadLimit() == ReadMaxRows(7)


def test_report_tells_what_waited(real_topic: Topic, tmp_path: Path) -> None:
    real_topic.publish_numbers(30)
    reader = reader_of(real_topic, tmp_path)
    assert reader.reportLatestOffset() is None
    reader.latestOffset(reader.initialOffset(), ReadMaxRows(10))
    told = {
        "source": "nsq",
        "topic": real_topic.name,
        "channel": real_topic.channel,
        "depth": {real_topic.nsqd.tcp_address: 30},
        "lag": 30,
        "spoolDir": str(tmp_path),
        "spoolBytes": 0,
    }
    assert reader.reportLatestOffset() == told


def test_report_tells_how_the_last_batch_went(real_topic: Topic, tmp_path: Path) -> None:
    real_topic.publish_numbers(30)
    reader = reader_of(real_topic, tmp_path)
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(10))
    assert len(read(reader, reader.partitions(start, first))) == 10
    second = reader.latestOffset(first, ReadMaxRows(10))
    told = reader.reportLatestOffset()
    assert told is not None
    batch = told["lastBatch"]
    size = sum(len(str(number)) for number in range(30))
    assert 10 <= batch.pop("bytes") == told["spoolBytes"] < size
    assert batch.pop("storeMs") >= batch.pop("slowestChunkMs") >= 0
    assert batch == {"epoch": 1, "rows": 10, "chunks": 2, "redelivered": 0, "refused": 0}
    assert told["publishedPerSecond"] == 0
    assert told["lag"] == 20
    reader.commit(first)
    reader.latestOffset(second, ReadMaxRows(10))
    assert (reader.reportLatestOffset() or {})["spoolBytes"] == 0, "the second batch was not read"


def test_available_now_ends_while_producers_go_on(topic: Topic, tmp_path: Path) -> None:
    topic.publish_numbers(150)
    reader = reader_of(topic, tmp_path)
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    counts: list[int] = []
    while True:
        topic.publish_numbers(200)
        end = reader.latestOffset(start, ReadMaxRows(100))
        if end == start:
            break
        counts.append(len(read(reader, reader.partitions(start, end))))
        reader.commit(end)
        start = end
    assert counts == [100, 50]
    assert topic.state().left == 600


def test_available_now_ends_when_others_take_the_messages(topic: Topic, tmp_path: Path) -> None:
    topic.publish_numbers(150)
    reader = reader_of(topic, tmp_path)
    reader.prepareForTriggerAvailableNow()
    start, found = run(reader, reader.initialOffset(), ReadMaxRows(100))
    assert len(found) == 100
    topic.take(50)
    assert reader.latestOffset(start, ReadMaxRows(100)) == start


def test_batch_whose_messages_others_took_is_empty_but_ends(topic: Topic, tmp_path: Path) -> None:
    topic.publish_numbers(50)
    reader = reader_of(topic, tmp_path)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    topic.take(50)
    assert read(reader, reader.partitions(start, end)) == []


def test_bytes_divide_over_partitions(topic: Topic, tmp_path: Path) -> None:
    topic.publish([b"x" * 100] * 200)
    reader = reader_of(topic, tmp_path, maxBytesPerBatch=4_000, minPartitions=2, maxInFlight=10)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    partitions = cast("Sequence[SpooledPartition]", reader.partitions(start, end))
    assert [partition.max_bytes for partition in partitions] == [2_000, 2_000]
    # The message that crosses the bound of a partition comes alone.
    assert 40 <= len(read(reader, partitions)) <= 42
    assert topic.state().requeued <= 40


def test_available_now_reads_all_within_the_bound_of_bytes(topic: Topic, tmp_path: Path) -> None:
    topic.publish([b"x" * 100] * 100)
    reader = reader_of(topic, tmp_path, maxBytesPerBatch=3_000, minPartitions=2)
    reader.prepareForTriggerAvailableNow()
    start = logged(reader.initialOffset())
    counts: list[int] = []
    while (end := logged(reader.latestOffset(start, ReadMaxRows(1_000)))) != start:
        counts.append(len(read(reader, reader.partitions(start, end))))
        start = end
    assert counts == [30, 30, 30, 10]
    state = topic.state()
    assert (state.left, state.requeued) == (0, 0), "what nsqd pushes beyond the bound moves in vain"


def test_size_of_messages_is_learnt_when_nsqd_does_not_know_it(tmp_path: Path) -> None:
    """After a restart it has counted nothing, and its topic has messages on disk."""
    data = tmp_path / "data"
    data.mkdir()
    flags = [f"--data-path={data}", "--mem-queue-size=0"]
    with running_nsqd("real", flags) as nsqd:
        nsqd.topic("kept").publish([b"x" * 1_000] * 50)
    with running_nsqd("real", flags) as nsqd:
        topic = Topic(nsqd, "kept", "spark")
        reader = reader_of(topic, tmp_path, maxBytesPerBatch=5 * 1024 * 1024)
        start = reader.initialOffset()
        end = reader.latestOffset(start, ReadAllAvailable())
        assert rows_of(end) == [5], "each may have a mebibyte"
        assert len(read(reader, reader.partitions(start, end))) == 5
        assert rows_of(reader.latestOffset(end, ReadAllAvailable())) == [45]
        reader.stop()


def test_available_now_ends_when_a_batch_gets_nothing_of_what_waits(
    real_topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_topic.publish_numbers(50)
    reader = reader_of(real_topic, tmp_path)
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(20))
    partitions = reader.partitions(start, end)
    # Others are faster, although more than was planned goes on to wait.
    real_topic.nsqd.request("POST", f"/channel/pause?topic={real_topic.name}&channel=spark")
    assert read(reader, partitions) == []
    real_topic.nsqd.request("POST", f"/channel/unpause?topic={real_topic.name}&channel=spark")
    assert real_topic.state().depth == 50
    assert reader.latestOffset(end, ReadMaxRows(20)) == end


def test_idle_stream_asks_once_in_an_interval(
    topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    # The time module itself is also the one of Spark's threads, if the worker has a session already.
    own_time = SimpleNamespace(sleep=slept.append, monotonic=time.monotonic)
    monkeypatch.setattr("nsq_anyio.spark.stream_reader.time", own_time)
    reader = reader_of(topic, tmp_path, pollInterval=30)
    start = reader.initialOffset()
    for asked in range(3):
        assert reader.latestOffset(start, ReadAllAvailable()) == start
        assert len(slept) == asked
    assert all(20 < seconds <= 30 for seconds in slept)
    topic.publish_numbers(5)
    end = reader.latestOffset(start, ReadAllAvailable())
    assert rows_of(end) == [5]
    read(reader, reader.partitions(start, end))
    slept.clear()
    reader.latestOffset(end, ReadAllAvailable())
    assert slept == [], "there was something the last time"


def test_partitions_follow_from_the_offset_alone(real_topic: Topic, tmp_path: Path) -> None:
    real_topic.publish_numbers(100)
    first = reader_of(real_topic, tmp_path, minPartitions=3)
    start = first.initialOffset()
    end = logged(first.latestOffset(start, ReadAllAvailable()))
    real_topic.publish_numbers(100)
    for reader in (first, reader_of(real_topic, tmp_path, minPartitions=7)):
        partitions = cast("Sequence[SpooledPartition]", reader.partitions(start, end))
        assert [(found.number, found.nsqd, found.rows) for found in partitions] == [
            (0, real_topic.nsqd.tcp_address, 34),
            (1, real_topic.nsqd.tcp_address, 33),
            (2, real_topic.nsqd.tcp_address, 33),
        ]
        assert {(found.spool, found.epoch) for found in partitions} == {(start["spool"], 1)}


def test_rerun_returns_the_same_rows(topic: Topic, tmp_path: Path) -> None:
    topic.publish_numbers(120)
    reader = reader_of(topic, tmp_path, minPartitions=2)
    start = reader.initialOffset()
    end = logged(reader.latestOffset(start, ReadMaxRows(100)))
    runs = [
        [ids(restarted.read(partition)) for partition in restarted.partitions(start, end)]
        for restarted in (reader, reader_of(topic, tmp_path, minPartitions=2))
    ]
    assert runs[0] == runs[1]
    assert len({id_ for found in runs[0] for id_ in found}) == 100
    assert topic.state().left == 20


def test_commit_is_idempotent_and_leaves_later_batches(topic: Topic, tmp_path: Path) -> None:
    topic.publish_numbers(20)
    reader = reader_of(topic, tmp_path)
    start = reader.initialOffset()
    first = reader.latestOffset(start, ReadMaxRows(10))
    read(reader, reader.partitions(start, first))
    second = reader.latestOffset(first, ReadMaxRows(10))
    partitions = reader.partitions(first, second)
    found = read(reader, partitions)
    for _ in range(2):
        reader.commit(first)
        assert read(reader, partitions) == found
    reader.commit(start)
    reader.commit(second)
    reader.commit(first)
    assert find_spools(tmp_path)[0].epochs == 0
    reader.stop()


def test_late_attempt_takes_nothing(topic: Topic, tmp_path: Path) -> None:
    topic.publish_numbers(20)
    reader = reader_of(topic, tmp_path)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(10))
    partitions = reader.partitions(start, end)
    read(reader, partitions)
    reader.commit(end)
    with pytest.raises(AttemptSuperseded, match="Spark has committed this batch"):
        read(reader, partitions)
    assert topic.state().left == 10


def test_restart_without_its_spool_is_explained(real_topic: Topic, tmp_path: Path) -> None:
    real_topic.publish_numbers(20)
    start, _ = run(reader := reader_of(real_topic, tmp_path), reader.initialOffset(), ReadMaxRows(10))
    elsewhere = reader_of(real_topic, tmp_path / "elsewhere")
    for ask in (
        lambda: elsewhere.latestOffset(start, ReadMaxRows(10)),
        lambda: elsewhere.partitions({**start, "epoch": 0, "plan": []}, start),
    ):
        with pytest.raises(SpoolError, match="is missing, but the checkpoint continues from it") as caught:
            ask()
        assert str(tmp_path / "elsewhere" / start["spool"]) in str(caught.value)
    assert real_topic.state().left == 10


def test_checkpoint_of_another_topic_is_refused(real_nsqd: Nsqd, real_topic: Topic, tmp_path: Path) -> None:
    real_topic.publish_numbers(20)
    start, _ = run(reader := reader_of(real_topic, tmp_path), reader.initialOffset(), ReadMaxRows(10))
    other = reader_of(real_nsqd.topic(f"{real_topic.name}-other"), tmp_path)
    with pytest.raises(SpoolError, match=f"belongs to {real_topic.name}/spark, but this query reads"):
        other.latestOffset(start, ReadMaxRows(10))


def test_several_nsqds_share_a_batch(real_nsqd: Nsqd, embedded_nsqd: Nsqd, tmp_path: Path) -> None:
    topics = [nsqd.topic("several-nsqds") for nsqd in (real_nsqd, embedded_nsqd)]
    topics[0].publish_numbers(90)
    topics[1].publish_numbers(10, first=90)
    reader = reader_of(
        topics[0],
        tmp_path,
        nsqd=f"{real_nsqd.tcp_address},{embedded_nsqd.tcp_address}",
        nsqdHttp=f"{real_nsqd.http_url},{embedded_nsqd.http_url}",
    )
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(60))
    assert dict(end["plan"]) == {real_nsqd.tcp_address: 50, embedded_nsqd.tcp_address: 10}
    assert len(read(reader, reader.partitions(start, end))) == 60
    _, rest = run(reader, end, ReadAllAvailable())
    assert len(rest) == 40
    assert [topic.state().left for topic in topics] == [0, 0]


def test_one_nsqd_of_several_is_down(
    real_topic: Topic, tmp_path: Path, unreachable: str, caplog: pytest.LogCaptureFixture
) -> None:
    real_topic.publish_numbers(30)
    reader = reader_of(
        real_topic,
        tmp_path,
        nsqd=f"{unreachable},{real_topic.nsqd.tcp_address}",
        nsqdHttp=f"http://{unreachable},{real_topic.nsqd.http_url}",
    )
    _, found = run(reader, reader.initialOffset(), ReadAllAvailable())
    assert len(found) == 30
    assert unreachable in caplog.text


def test_all_nsqds_are_down(real_topic: Topic, tmp_path: Path, unreachable: str) -> None:
    reader = reader_of(real_topic, tmp_path, nsqd=unreachable, nsqdHttp=f"http://{unreachable}")
    for ask in (
        lambda: reader.latestOffset(reader.initialOffset(), ReadAllAvailable()),
        reader.prepareForTriggerAvailableNow,
    ):
        with pytest.raises(ClusterFailed, match=unreachable):
            ask()


def test_task_names_the_nsqd_that_it_cannot_reach(
    real_topic: Topic, tmp_path: Path, unreachable: str
) -> None:
    real_topic.publish_numbers(10)
    reader = reader_of(real_topic, tmp_path, connectTimeout=0.3, nsqd=unreachable)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    (partition,) = reader.partitions(start, end)
    with pytest.raises(ConnectionFailed, match=unreachable):
        read(reader, [partition])


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"spoolDir": None}, "no spoolDir: NSQ forgets a message once it is finished"),
        ({"peek": True}, "peek=true is for batch reads"),
        ({"drain": True}, "drain=true is for batch reads"),
        ({"maxRows": 5}, "maxRows=5 is for batch reads"),
    ],
)
def test_options_that_mean_nothing_here_are_refused(
    real_topic: Topic, tmp_path: Path, options: dict[str, Any], reason: str
) -> None:
    given = {name: value for name, value in {"spoolDir": tmp_path, **options}.items() if value is not None}
    with pytest.raises(InvalidOption, match=reason):
        NsqStreamReader(options_of(real_topic, **given))
