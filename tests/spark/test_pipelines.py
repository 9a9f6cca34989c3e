"""The pipelines without a JVM: what they refuse, how they follow a query, and how errors are told."""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from nsq_anyio.cli.main import cli
from nsq_anyio.errors import InvalidOption
from nsq_anyio.spark.pipelines import PipelineFailed, Progress, archive, metrics, replay
from nsq_anyio.spark.pipelines.__main__ import parsed
from nsq_anyio.spark.pipelines.query import failed, follow, spark_errors_explained
from nsq_anyio.spark.pipelines.replay import paced
from nsq_anyio.spark.session import JavaMissing, find_java

# Everything is checked before Spark is touched: nothing but None is there to be touched.
NO_SPARK = cast("SparkSession", None)

READ: dict[str, Any] = {
    "topic": "clicks",
    "channel": "archive",
    "nsqd": "127.0.0.1:4150",
    "checkpoint": "/checkpoint",
    "spool_dir": "/spool",
}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"format": "csv"}, "format='csv' is not valid: use 'parquet' or 'json'"),
        ({"topic": "two words"}, "two words"),
        ({"nsqlookupd": "http://127.0.0.1:4161"}, "nsqlookupd"),
        ({"nsqd": None}, "nsqlookupd"),
        ({"spool_dir": "relative"}, "relative"),
        ({"options": {"maxRowPerBatch": 1}}, "maxRowsPerBatch"),
        ({"options": {"Topic": "other"}}, "topic has its own argument"),
    ],
)
def test_archive_refuses(changes: dict[str, Any], expected: str) -> None:
    given: dict[str, Any] = {**READ, "output": "/out", **changes}
    with pytest.raises(InvalidOption, match=expected):
        archive(NO_SPARK, **given)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"key": ""}, "key='' is not valid"),
        ({"key": "a..b"}, r"key='a\.\.b' is not valid"),
        ({"value": "it's"}, 'value="it\'s" is not valid'),
        ({"window": 0.5}, "window=0.5"),
        ({"lateness": -1}, "lateness=-1"),
        ({"quantiles": (0.5, 1.5)}, "quantile 1.5 is not valid: use 0 to 1"),
        ({"quantiles": (float("nan"),)}, "quantile nan"),
        ({"quantiles": ()}, "one or more"),
        ({"quantiles": (0.5, 0.50)}, "each once"),
        ({"output": "/out", "output_topic": "t", "output_nsqd": "a:1"}, "exclude each other"),
        ({"output_topic": "t"}, "exclude each other"),
        ({"output_nsqd": "a:1"}, "exclude each other"),
        ({"output_topic": "two words", "output_nsqd": "a:1"}, "two words"),
    ],
)
def test_metrics_refuses(changes: dict[str, Any], expected: str) -> None:
    given: dict[str, Any] = {**READ, "key": "country", **changes}
    with pytest.raises(InvalidOption, match=expected):
        metrics(NO_SPARK, **given)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"format": "orc"}, "format='orc'"),
        ({"rate": 0}, "rate=0 is not valid: use 1 or more"),
        ({"since": datetime(2026, 1, 31)}, "since=2026-01-31T00:00:00 has no time zone"),  # noqa: DTZ001
        ({"until": datetime(2026, 1, 31)}, "until=2026-01-31T00:00:00 has no time zone"),  # noqa: DTZ001
        ({"topic": "two words"}, "two words"),
        ({"nsqd": "nowhere"}, "nowhere"),
    ],
)
def test_replay_refuses(changes: dict[str, Any], expected: str) -> None:
    given: dict[str, Any] = {"input": "/in", "topic": "t", "nsqd": "127.0.0.1:4150", **changes}
    with pytest.raises(InvalidOption, match=expected):
        replay(NO_SPARK, **given)


@pytest.mark.parametrize(
    ("name", "flags", "expected"),
    [
        ("archive", ["--option", "maxRowPerBatch=1"], "did you mean maxRowsPerBatch"),
        ("archive", ["--option", "maxRows=1"], "maxRows=1 is for batch reads"),
        ("metrics", ["--key", "a..b"], "key='a..b' is not valid"),
        ("replay", ["--option", "batchRow=1"], "did you mean batchRows"),
    ],
)
def test_the_command_checks_its_options_before_spark_starts(
    name: str, flags: list[str], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    given = {
        "archive": ["--channel", "c", "--state", "/state", "--output", "/out"],
        "metrics": ["--channel", "c", "--state", "/state"],
        "replay": ["--input", "/in"],
    }
    command = ["pipeline", name, "--topic", "t", "--nsqd", "127.0.0.1:4150", *given[name], *flags]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 2, result.output
    assert expected in result.stderr.replace("\n", " ")


def test_a_jvm_that_has_ended_is_told() -> None:
    with (
        pytest.raises(PipelineFailed, match=r"JVM has ended: .*spark\.driver\.memory"),
        spark_errors_explained(),
    ):
        raise ConnectionRefusedError(111, "Connection refused")


# Following a query.


@dataclass
class Report:
    """As Spark's StreamingQueryProgress."""

    timestamp: str
    batchId: int  # noqa: N815 - Spark's name
    numInputRows: int | None  # noqa: N815
    processedRowsPerSecond: float | None = 10.0  # noqa: N815
    observedMetrics: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])  # noqa: N815


@dataclass
class Query:
    """A query that has one more report each time it is asked whether it is active."""

    reports: Sequence[Report]
    error: Exception | None = None
    endless: bool = False
    kept: int = 100
    asked: int = 0
    stopped: int = 0

    @property
    def isActive(self) -> bool:  # noqa: N802 - Spark's name
        self.asked += 1
        return self.endless or self.asked <= len(self.reports)

    @property
    def recentProgress(self) -> list[Report]:  # noqa: N802
        return list(self.reports[: self.asked][-self.kept :])

    @property
    def lastProgress(self) -> Report | None:  # noqa: N802
        return self.recentProgress[-1] if self.recentProgress else None

    def exception(self) -> Exception | None:
        """As StreamingQuery.exception."""
        return self.error

    def stop(self) -> None:
        """As StreamingQuery.stop."""
        self.stopped += 1

    @property
    def spark(self) -> StreamingQuery:
        return cast("StreamingQuery", self)


def test_each_report_counts_once() -> None:
    # Spark reports an idle trigger as the batch before it, without rows.
    query = Query(
        [
            Report("t0", 0, 5),
            Report("t1", 0, 0),
            Report("t2", 1, 7, None, {"skipped": {"skipped": 3}}),
            Report("t3", 2, None),
        ]
    )
    seen: list[Progress] = []
    lags = itertools.count(10)
    summary = follow(query.spark, lag=lambda: next(lags), on_progress=seen.append)
    assert seen == [
        Progress(batch=0, rows=5, total=5, rows_per_second=10.0, lag=10),
        Progress(batch=1, rows=7, total=12, rows_per_second=0.0, lag=11),
    ]
    assert (summary.batches, summary.rows, summary.skipped, summary.lag) == (2, 12, 3, 12)
    assert summary.rows_per_second == pytest.approx(12 / summary.seconds)
    assert query.stopped == 1


def test_reports_that_come_together_all_count() -> None:
    query = Query([Report(f"t{number}", number, 1) for number in range(5)], asked=4)
    assert follow(query.spark, lag=lambda: None).rows == 5


def test_reports_that_spark_no_longer_keeps_do_not_confuse() -> None:
    query = Query([Report(f"t{number}", number, 1) for number in range(9)], kept=1)
    assert follow(query.spark, lag=lambda: None).batches == 9


def test_a_query_without_any_report_did_nothing() -> None:
    summary = follow(Query([]).spark, lag=lambda: None)
    assert (summary.batches, summary.rows, summary.lag) == (0, 0, None)


def test_the_event_ends_a_query() -> None:
    stop = threading.Event()
    query = Query([Report("t0", 0, 5)], endless=True)

    def ended(progress: Progress) -> None:
        assert progress.rows == 5
        stop.set()

    summary = follow(query.spark, lag=lambda: 3, on_progress=ended, stop=stop)
    assert (summary.rows, summary.lag) == (5, 3)
    assert query.stopped == 1


def test_a_failed_query_raises_its_cause() -> None:
    error = ValueError("the sky fell")
    query = Query([Report("t0", 0, 5)], error=error)
    with pytest.raises(PipelineFailed, match="the sky fell") as raised:
        follow(query.spark, lag=lambda: None)
    assert raised.value.__cause__ is error
    assert query.stopped == 1


def test_a_query_is_stopped_when_its_follower_fails() -> None:
    def fail(_: Progress) -> None:
        raise KeyError("mine")

    query = Query([Report("t0", 0, 5)], endless=True)
    with pytest.raises(KeyError, match="mine"):
        follow(query.spark, lag=lambda: None, on_progress=fail)
    assert query.stopped == 1


# Telling errors.

WORKER = """\
Job aborted: Task 0 in stage 0.0 failed 1 times: org.apache.spark.api.python.PythonException:
Traceback (most recent call last):
  File "connection.py", line 10, in connect
    raise OSError("refused")
OSError: refused

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "reader.py", line 1, in read
    fill()
nsq_anyio.errors.DialFailed: nsqd 127.0.0.1:1: refused

\tat org.apache.spark.api.python.BasePythonRunner.run(PythonRunner.scala:1)
Caused by: java.lang.IllegalStateException: late
"""


def test_what_python_raised_in_a_worker_is_the_cause() -> None:
    assert str(failed(RuntimeError(WORKER))) == "DialFailed: nsqd 127.0.0.1:1: refused"


def test_the_cause_is_looked_for_in_all_causes() -> None:
    error = RuntimeError("Writing job failed.")
    error.__cause__ = RuntimeError("Job aborted.")
    error.__cause__.__cause__ = RuntimeError(WORKER)
    assert str(failed(error)).startswith("DialFailed: ")


def test_what_pyspark_raises_over_the_cause_is_not_the_cause() -> None:
    """Its process for a stream's reader, in 4.3.0, when the reader cannot be made."""
    text = (
        "[PYTHON_DATA_SOURCE_ERROR] Failed to plan Python data source: Traceback (most recent call last):\n"
        '  File "/x/source.py", line 77, in streamReader\n    return reader\n'
        "nsq_anyio.errors.InvalidOption: maxRows=5 is for batch reads\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/x/python_streaming_source_runner.py", line 295, in main\n    reader.stop()\n'
        "UnboundLocalError: cannot access local variable 'reader' where it is not associated with a value\n"
    )
    assert str(failed(RuntimeError(text))) == "InvalidOption: maxRows=5 is for batch reads"


def test_an_error_without_a_message_keeps_its_name() -> None:
    assert str(failed(RuntimeError("Traceback (most recent call last):\n  File x\nKeyError"))) == "KeyError"
    assert str(failed(RuntimeError())) == "RuntimeError"


def test_what_java_raised_first_is_the_cause() -> None:
    text = (
        "An error occurred while calling o89.start.\n"
        ": org.apache.spark.SparkException: cannot start\n\tat a.b.C(D.scala:1)\n"
        "Caused by: java.io.FileNotFoundException: /out: Not a directory\n\tat e.f.G(H.java:2)\n"
    )
    assert str(failed(RuntimeError(text))) == "FileNotFoundException: /out: Not a directory"


def test_an_error_of_spark_itself_is_its_first_line() -> None:
    assert str(failed(RuntimeError("\n[PATH_NOT_FOUND] no path\n\nJVM stacktrace:\n..."))) == (
        "[PATH_NOT_FOUND] no path"
    )


# The rate of a replay.


@dataclass
class Clock:
    """A clock that only sleeping, and working, move on."""

    now: float = 0.0

    def monotonic(self) -> float:
        """As time.monotonic."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """As time.sleep."""
        self.now += seconds


@pytest.mark.parametrize("work", [0.0, 0.05, 0.2])
@pytest.mark.parametrize("rate", [1.0, 95.0, 2_000.0, 1e6])
def test_no_stretch_of_time_exceeds_the_rate(
    monkeypatch: pytest.MonkeyPatch, rate: float, work: float
) -> None:
    clock = Clock()
    monkeypatch.setattr(sys.modules[paced.__module__], "time", clock)
    sizes = [0, 7, 1, 300]
    batches = [pa.RecordBatch.from_pydict({"body": [b"%d" % row for row in range(size)]}) for size in sizes]
    taken: list[tuple[float, int]] = []
    bodies: list[bytes] = []
    for part in paced(iter(batches), rate):
        taken.append((clock.now, part.num_rows))
        bodies += cast("list[bytes]", part.column(0).to_pylist())
        clock.now += work  # publishing takes time, which is not waited for twice
    assert bodies == [b"%d" % row for size in sizes for row in range(size)]
    assert max(rows for _, rows in taken) <= max(1, rate / 10 + 1)
    for first in range(len(taken)):
        passed = 0
        for (_, rows), (end, _) in zip(taken[first:], [*taken[first + 1 :], (clock.now, 0)], strict=True):
            passed += rows
            assert passed <= (end - taken[first][0]) * rate + 1e-6
    if work == 0:
        assert clock.now == pytest.approx(308 / rate)


# Arguments of spark-submit.


def test_arguments_are_text_times_or_json() -> None:
    name, given = parsed(
        [
            *("metrics", "topic=123", "channel=c", "key=true", "checkpoint=/c", "spool_dir=/s"),
            *("nsqd=a:1", 'nsqlookupd=["http://a", "http://b"]', "quantiles=[0.5, 0.9]", "trigger=2.5"),
            'options={"tls": true}',
        ]
    )
    assert name == "metrics"
    assert given == {
        "topic": "123",
        "channel": "c",
        "key": "true",
        "checkpoint": "/c",
        "spool_dir": "/s",
        "nsqd": "a:1",
        "nsqlookupd": ["http://a", "http://b"],
        "quantiles": [0.5, 0.9],
        "trigger": 2.5,
        "options": {"tls": True},
    }
    _, given = parsed(["replay", "input=i", "topic=t", "nsqd=a:1", "rate=5", "since=2026-01-31T09:00Z"])
    assert given["since"] == datetime(2026, 1, 31, 9, tzinfo=UTC)
    assert given["rate"] == 5
    more = ["topic=t", "channel=c", "output=o", "checkpoint=c", "spool_dir=s"]
    _, given = parsed(["archive", *more, "format=json"])
    assert given["format"] == "json"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "pipeline '' is not known: use archive, metrics, replay"),
        (["archiv"], "pipeline 'archiv' is not known"),
        (["replay", "input"], "'input' is not valid: use NAME=VALUE, with one of input, topic"),
        (["replay", "stop=1"], "'stop=1' is not valid"),
        (["replay", "input=i"], "missing for replay: nsqd, topic"),
        (["replay", "since=soon"], "since='soon' is not valid"),
    ],
)
def test_bad_arguments_are_explained(arguments: list[str], expected: str) -> None:
    with pytest.raises(InvalidOption, match=expected):
        parsed(arguments)


# Looking for Java.


def java(home: Path, script: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize("version", ["17.0.15", "21", "25-ea"])
def test_java_home_wins_over_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    program = java(tmp_path, f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere:/bin")
    assert find_java() == program


def test_java_is_found_on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = java(tmp_path, "echo 'openjdk version \"17\"' >&2")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{program.parent}:/bin")
    assert find_java() == program


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (
            "echo 'java version \"1.8.0_292\"' >&2",
            "is Java 8, which is too old for Spark: install Java 17 or later",
        ),
        ("echo 'openjdk version \"11.0.2\"' >&2", "is Java 11, which is too old"),
        ("echo 'The operation cannot be completed.' >&2; exit 1", "cannot be completed.*install Java 17"),
        ("exit 0", "which names no version"),
    ],
)
def test_a_java_that_will_not_do_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, expected: str
) -> None:
    program = java(tmp_path, script)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "/bin")
    with pytest.raises(JavaMissing, match=f"^{program}.*{expected}"):
        find_java()


def test_a_java_that_cannot_be_run_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = java(tmp_path, "")
    program.write_bytes(b"\0not a program")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match=f"^{program} does not run: "):
        find_java()


def test_where_java_was_looked_for_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaMissing, match=rf"JAVA_HOME='{tmp_path}' holds no bin/java"):
        find_java()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JavaMissing, match="JAVA_HOME is not set, and PATH has no java: install Java 17"):
        find_java()
