"""The recipes of docs/spark-recipes.md that need nothing but Spark run, and keep what they promise."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Generator, MutableMapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from nsq_anyio.envelope import MAGIC, encode
from nsq_anyio.spark import NsqDataSource

from ..nsqds import ROOT, wait_until
from .faults import OPTION, Fault, Faults, FaultySource
from .recipes import Clicks, running_clicks

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def clicks() -> Generator[Clicks]:
    with running_clicks() as running:
        yield running


@pytest.fixture
def redelivered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Faults:
    """Let a task be killed when it has stored a chunk and not finished its messages, which come again."""
    faults = Faults(str(tmp_path), (Fault("linked", "worker"),))

    class Source(FaultySource):
        def __init__(self, options: MutableMapping[str, str]) -> None:
            small = {"maxInFlight": "200", "maxWait": "2", "msgTimeout": "5"}
            super().__init__({**options, **small, OPTION: faults.text})

    monkeypatch.setattr(sys.modules["nsq_anyio.spark.session"], "NsqDataSource", Source)
    return faults


def test_dedupe_keeps_each_message_once(
    spark: SparkSession, clicks: Clicks, redelivered: Faults, tmp_path: Path
) -> None:
    topic = clicks.channel("dedupe")
    topic.publish_numbers(1_000)
    clicks.run_out(topic, "dedupe.py", tmp_path)
    assert redelivered.happened() == 1
    rows = spark.read.parquet(str(tmp_path / "clicks"))
    assert sorted(int(row.body) for row in rows.collect()) == list(range(1_000))


def test_a_watermark_drops_what_is_older(spark: SparkSession, tmp_path: Path) -> None:
    """Why the recipe's watermark is days: rows that come later than it are lost, not only duplicates."""
    now = datetime.now(UTC)
    source, sink = tmp_path / "source", tmp_path / "sink"
    schema = "nsqd STRING, id STRING, timestamp TIMESTAMP"

    def run(*rows: tuple[str, timedelta]) -> list[str]:
        found = [("127.0.0.1:4150", name, now - age) for name, age in rows]
        spark.createDataFrame(found, schema).write.mode("append").parquet(str(source))
        unique = spark.readStream.schema(schema).parquet(str(source)).withWatermark("timestamp", "10 minutes")
        query = unique.dropDuplicatesWithinWatermark(["nsqd", "id"]).writeStream.format("parquet")
        query = query.option("path", str(sink)).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
        return sorted(row.id for row in spark.read.schema(schema).parquet(str(sink)).collect())

    assert run(("new", timedelta(0))) == ["new"]
    assert run(("requeued", timedelta(minutes=11)), ("late", timedelta(minutes=9))) == ["late", "new"]


def test_json_that_does_not_parse_stays_beside_the_rest(
    spark: SparkSession, clicks: Clicks, tmp_path: Path
) -> None:
    topic = clicks.channel("json")
    bad = [b'{"page": "/a", "ms": "slow"}', b"no json", b'{"page": ', b"[1]"]
    topic.publish([b'{"page": "/", "ms": 12, "more": true}', b'{"page": "/b"}', *bad])
    clicks.run("json_rows.py", tmp_path)
    rows = spark.read.parquet(str(tmp_path / "clicks")).select("page", "ms", "bad").collect()
    assert {(row.page, row.ms) for row in rows if row.bad is None} == {("/", 12), ("/b", None)}
    assert {row.bad.encode(): row.page for row in rows if row.bad is not None} == {
        **dict.fromkeys(bad),
        bad[0]: "/a",
    }


def test_headers_become_columns(spark: SparkSession, clicks: Clicks, tmp_path: Path) -> None:
    topic = clicks.channel("headers")
    topic.publish([encode(b"1", {"Tenant": "blue", "traceparent": "00-1"}), b"2", MAGIC + b"damaged"])
    clicks.run("headers.py", tmp_path)
    rows = spark.read.parquet(str(tmp_path / "clicks")).collect()
    assert {(row.body, row.tenant, row.traceparent) for row in rows} == {
        ("1", "blue", "00-1"),
        ("2", "none", None),
    }
    assert (tmp_path / "clicks" / "tenant=blue").is_dir()


def test_dead_letters_can_be_listed_and_retried(spark: SparkSession, clicks: Clicks, tmp_path: Path) -> None:
    topic = clicks.channel("strict")
    dead = clicks.nsqd.topic("clicks.dead", "dead-letter")
    damaged = encode(b"\xff no json", {"trace": "1"})
    topic.publish([b'{"page": "/"}', b"no json", damaged])
    clicks.run("dead_letters.py", tmp_path)
    rows = spark.read.parquet(str(tmp_path / "clicks")).collect()
    assert [(row.page, row.batch) for row in rows] == [("/", 0)]
    wait_until(lambda: dead.state().left == 2, "the dead letters")

    place = ("--topic", dead.name, "--nsqd-tcp-address", clicks.nsqd.tcp_address)
    letters = [json.loads(line) for line in _command("dead-letter", "list", *place, "--json").splitlines()]
    assert {each["problem"] for each in letters} == {None}
    assert {each["headers"]["nsq-dead-error"] for each in letters} == {"not a click in JSON"}
    _command("dead-letter", "retry", *place)
    assert set(topic.take(2)) == {b"no json", damaged}


def test_a_database_has_each_message_once(
    clicks: Clicks, spark: SparkSession, redelivered: Faults, tmp_path: Path
) -> None:
    topic = clicks.channel("database")
    topic.publish_numbers(1_000)
    clicks.run_out(topic, "database.py", tmp_path)
    assert redelivered.happened() == 1
    assert _numbers(tmp_path) == list(range(1_000))
    # Spark runs a batch again when its driver was killed before it had noted the batch.
    for commit in (tmp_path / "checkpoint" / "commits").iterdir():
        commit.unlink()
    topic.publish_numbers(10, first=1_000)
    clicks.run("database.py", tmp_path)
    assert _numbers(tmp_path) == list(range(1_010))


@pytest.mark.parametrize(
    ("trigger", "refusal"),
    [
        ({"realTime": "5 minutes"}, "real-time mode"),
        ({"continuous": "1 second"}, "[Cc]ontinuous processing"),
    ],
    ids=["real time", "continuous"],
)
def test_triggers_that_do_not_work_are_refused(
    trigger: dict[str, Any], refusal: str, spark: SparkSession, clicks: Clicks, tmp_path: Path
) -> None:
    spark.dataSource.register(NsqDataSource)
    read = spark.readStream.format("nsq").options(
        nsqlookupd=clicks.nsqlookupd, topic="clicks", channel="first"
    )
    rows = read.option("spoolDir", str(tmp_path)).load().select("body")
    sink = rows.writeStream.format("console").outputMode("update").trigger(**trigger)
    with pytest.raises(PySparkException, match=refusal):
        sink.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination(100)


def _numbers(directory: Path) -> list[int]:
    with closing(sqlite3.connect(directory / "clicks.db")) as database:
        return sorted(int(body) for (body,) in database.execute("SELECT body FROM clicks"))


def _command(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "nsq_anyio", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
