"""The pipelines on Spark, from NSQ to files and back."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from nsq_anyio.errors import InvalidOption
from nsq_anyio.spark.pipelines import PipelineFailed, Progress, archive, metrics, replay
from nsq_anyio.spark.pipelines.archive import Format
from nsq_anyio.spark.pipelines.metrics import Measures

from ..conftest import new_name
from ..nsqds import Nsqd, Topic, wait_until

# Starting Spark counts for the first test that runs, and a busy machine takes its time.
pytestmark = pytest.mark.timeout(300)

FORMATS: Sequence[Format] = ("parquet", "json")

BINARY = b"\xff\x00\xfe"


def reading(topic: Topic, state: Path) -> dict[str, Any]:
    """The arguments of a pipeline that reads the topic."""
    (state / "spool").mkdir(parents=True, exist_ok=True)
    return {
        "topic": topic.name,
        "channel": topic.channel,
        "nsqd": topic.nsqd.tcp_address,
        "options": {"nsqdHttp": topic.nsqd.http_url, "maxWait": 0.5},
        "checkpoint": str(state / "checkpoint"),
        "spool_dir": str(state / "spool"),
    }


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [str(number).encode() for number in range(first, first + count)]


def test_reason_of_a_refused_option_is_told(spark: SparkSession, real_topic: Topic, tmp_path: Path) -> None:
    arguments = reading(real_topic, tmp_path)
    arguments["options"]["maxRows"] = 5
    with pytest.raises(InvalidOption, match="maxRows=5 is for batch reads: use maxRowsPerBatch"):
        archive(spark, **arguments, output=str(tmp_path / "out"))


@pytest.mark.parametrize("format", FORMATS)
def test_an_archive_goes_on_where_it_was_and_is_replayed(
    spark: SparkSession, topic: Topic, tmp_path: Path, format: Format
) -> None:
    output = str(tmp_path / "out")
    bodies = [*numbers(1000), BINARY, "grüße\n".encode()]
    began_at = datetime.now(UTC)
    for batch in (bodies[:600], bodies[600:]):
        topic.publish(batch)
        seen: list[Progress] = []
        summary = archive(
            spark, **reading(topic, tmp_path), output=output, format=format, on_progress=seen.append
        )
        assert (summary.rows, summary.lag) == (len(batch), 0)
        assert sum(progress.rows for progress in seen) == seen[-1].total == len(batch)
        assert summary.batches == len(seen)
    assert topic.state().left == 0

    rows = spark.read.format(format).load(output).collect()
    assert {row["topic"] for row in rows} == {topic.name}
    assert {row["nsqd"] for row in rows} == {topic.nsqd.tcp_address}
    assert len({row["id"] for row in rows}) == len(rows) == len(bodies)
    hours = {began_at + timedelta(hours=passed) for passed in (0, 1)}
    allowed = {(f"date={hour:%Y-%m-%d}", f"hour={hour.hour}") for hour in hours}
    found = {path.relative_to(output).parts[:2] for path in Path(output).rglob(f"*.{format}")}
    assert found
    assert found <= allowed

    again = topic.nsqd.topic(new_name())
    other: Format = "json" if format == "parquet" else "parquet"
    with pytest.raises(
        InvalidOption, match=f"{output} is an archive of format {format}, .*--format {format} "
    ):
        replay(spark, input=output, format=other, topic=again.name, nsqd=again.nsqd.tcp_address)
    summary = replay(spark, input=output, format=format, topic=again.name, nsqd=again.nsqd.tcp_address)
    assert (summary.rows, summary.lag) == (len(bodies), 0)
    assert Counter(again.take(len(bodies))) == Counter(bodies)


def test_lines_of_json_hold_text_or_else_base64(
    spark: SparkSession, real_topic: Topic, tmp_path: Path
) -> None:
    real_topic.publish([b'{"a": 1}', BINARY])
    archive(spark, **reading(real_topic, tmp_path), output=str(tmp_path / "out"), format="json")
    lines = [
        json.loads(line)
        for file in (tmp_path / "out").rglob("*.json")
        for line in file.read_text().splitlines()
    ]
    assert sorted((line.get("body", ""), line.get("body_base64", "")) for line in lines) == [
        ("", "/wD+"),
        ('{"a": 1}', ""),
    ]
    assert all(datetime.fromisoformat(line["timestamp"]).tzinfo is UTC for line in lines)


def test_an_archive_that_runs_on_ends_when_it_is_told(
    spark: SparkSession, real_topic: Topic, tmp_path: Path
) -> None:
    output = str(tmp_path / "out")
    stop = threading.Event()
    real_topic.publish(numbers(100))

    def publish_more_once(progress: Progress) -> None:
        if progress.total == 100:
            real_topic.publish(numbers(100, first=100))
        elif progress.total == 200:
            stop.set()

    summary = archive(
        spark,
        **reading(real_topic, tmp_path),
        output=output,
        trigger=0.0,
        on_progress=publish_more_once,
        stop=stop,
    )
    assert summary.rows == 200
    assert {row["body"] for row in spark.read.parquet(output).collect()} == set(numbers(200))


def archived(spark: SparkSession, directory: Path, times: Sequence[datetime]) -> str:
    """Write an archive by hand: a message for each time, its number for a body."""
    rows = [
        (bytearray(str(number).encode()), time, time.date(), time.hour) for number, time in enumerate(times)
    ]
    frame = spark.createDataFrame(rows, "body BINARY, timestamp TIMESTAMP, date DATE, hour INT")
    output = str(directory / "archive")
    frame.write.partitionBy("date", "hour").parquet(output)
    return output


def test_a_replay_takes_a_span_of_time_oldest_first(
    spark: SparkSession, real_topic: Topic, tmp_path: Path
) -> None:
    first = datetime(2026, 1, 31, 22, tzinfo=UTC)
    times = [first + timedelta(minutes=number) for number in range(0, 180, 10)]
    seen: list[Progress] = []
    summary = replay(
        spark,
        input=archived(spark, tmp_path, times),
        topic=real_topic.name,
        nsqd=real_topic.nsqd.tcp_address,
        since=times[4],
        until=times[15],
        on_progress=seen.append,
    )
    assert (summary.rows, summary.batches, summary.lag) == (11, 3, 0)
    assert [(progress.batch, progress.rows, progress.lag) for progress in seen] == [
        (0, 2, 9),  # of 22:40 and 22:50
        (1, 6, 3),
        (2, 3, 0),
    ]
    hours = [number // 6 for number in map(int, real_topic.take(11))]
    assert hours == sorted(hours) == [0] * 2 + [1] * 6 + [2] * 3


def test_a_replay_keeps_to_its_rate_and_can_be_stopped(
    spark: SparkSession, real_topic: Topic, tmp_path: Path
) -> None:
    first = datetime(2026, 1, 31, 22, tzinfo=UTC)
    # All at once: a span is a number of messages, however long it took them to come.
    times = [first + timedelta(milliseconds=number) for number in range(600)]
    stop = threading.Event()
    summary = replay(
        spark,
        input=archived(spark, tmp_path, times),
        topic=real_topic.name,
        nsqd=real_topic.nsqd.tcp_address,
        rate=50,
        on_progress=lambda _: stop.set(),
        stop=stop,
    )
    # A span has ten seconds of the rate at most, and an hour is divided evenly.
    assert (summary.batches, summary.rows, summary.lag) == (1, 300, 300)
    assert summary.seconds >= 300 / 50
    assert set(real_topic.take(300)) == set(numbers(300))


def test_a_replay_that_fails_says_where_to_go_on(spark: SparkSession, tmp_path: Path) -> None:
    first = datetime(2026, 1, 31, 22, tzinfo=UTC)
    source = archived(spark, tmp_path, [first])
    with pytest.raises(
        PipelineFailed, match=r"127\.0\.0\.1:1\b.*everything before 2026-01-31T22:00:00\+00:00 is published"
    ):
        replay(spark, input=source, topic="t", nsqd="127.0.0.1:1", options={"connectTimeout": 1})


def test_there_is_no_replay_without_an_archive(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(PipelineFailed, match=r"PATH_NOT_FOUND.*nothing-here"):
        replay(spark, input=str(tmp_path / "nothing-here"), topic="t", nsqd="127.0.0.1:1")


def test_measures_are_exact(spark: SparkSession, tmp_path: Path) -> None:
    at = datetime(2026, 1, 31, 9, tzinfo=UTC)
    rows = [
        (json.dumps({"user": {"country": "at"}, "ms": number}).encode(), f"{number:016x}", "h:1", at)
        for number in range(101)
    ]
    rows += [
        (b'{"user": {"country": "de"}, "ms": "fast"}', "d1", "h:1", at),  # no number: only counted
        (b'{"user": {"country": "de"}}', "d2", "h:1", at + timedelta(seconds=59)),
        (b'{"user": {"country": "de"}, "ms": 7}', "d2", "h:2", at),  # the same id, of another nsqd
        (b'{"user": {"country": "de"}, "ms": 7}', "d2", "h:2", at),  # delivered twice
        (b'{"user": {}}', "s1", "h:1", at),
        (b"no json", "s2", "h:1", at),
        (BINARY, "s3", "h:1", at),
        (b'{"user": {"country": "at"}}', "e1", "h:1", at + timedelta(seconds=60)),  # stays open
    ]
    schema = "body BINARY, id STRING, nsqd STRING, timestamp TIMESTAMP"
    spark.createDataFrame([(bytearray(body), *others) for body, *others in rows], schema).coalesce(
        1
    ).write.parquet(str(tmp_path / "in"))
    messages = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
    measures = Measures(key="user.country", value="ms", lateness=0, quantiles=(0.0, 0.5, 0.999))
    query = (
        measures.of(messages)
        .writeStream.format("parquet")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "out"))
    )
    query.awaitTermination()
    windows = spark.read.parquet(str(tmp_path / "out")).orderBy("key").collect()
    assert [tuple(row)[2:] for row in windows] == [
        ("at", 101, 5050.0, 0.0, 50.0, 100.0),
        ("de", 3, 7.0, 7.0, 7.0, 7.0),
    ]
    assert windows[0].__fields__ == ["start", "end", "key", "count", "sum", "p0", "p50", "p99_9"]
    assert {row["start"].timestamp() for row in windows} == {at.timestamp()}
    skipped = [report.observedMetrics["skipped"]["skipped"] for report in query.recentProgress]
    assert sum(skipped) == 3


def test_metrics_reach_another_topic(
    spark: SparkSession, real_topic: Topic, real_nsqd: Nsqd, tmp_path: Path
) -> None:
    output = real_nsqd.topic(new_name())
    arguments: dict[str, Any] = {
        **reading(real_topic, tmp_path),
        "key": "country",
        "window": 1,
        "lateness": 0,
        "output_topic": output.name,
        "output_nsqd": real_nsqd.tcp_address,
    }
    began_at = datetime.now(UTC)
    real_topic.publish([b'{"country": "at"}'] * 5 + [b"{}"])
    summary = metrics(spark, **arguments)
    assert (summary.rows, summary.skipped) == (6, 1)
    # The first window ends when a message of a later one has come.
    wait_until(lambda: datetime.now(UTC) - began_at > timedelta(seconds=2), "the next window to begin")
    real_topic.publish([b'{"country": "at"}'])
    metrics(spark, **arguments)
    wait_until(lambda: output.state().left, "windows to arrive")
    windows = [json.loads(body) for body in output.take(output.state().left)]
    assert {window["key"] for window in windows} == {"at"}
    assert sum(window["count"] for window in windows) == 5
    for window in windows:
        start, end = (datetime.fromisoformat(window[name]) for name in ("start", "end"))
        assert end - start == timedelta(seconds=1)
        assert began_at - timedelta(seconds=1) <= start <= datetime.now(UTC)
