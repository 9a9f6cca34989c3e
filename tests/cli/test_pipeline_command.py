"""``nsq-anyio pipeline``: its options, signals and errors; Spark itself is not started."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nsq_anyio.cli.main import cli
from nsq_anyio.errors import InvalidOption, NSQError


@dataclass
class Progress:
    """As nsq_anyio.spark.pipelines.Progress, which cannot be imported without Spark."""

    batch: int
    rows: int
    total: int
    rows_per_second: float
    lag: int | None


@dataclass
class Summary:
    batches: int = 2
    rows: int = 1500
    skipped: int = 1
    seconds: float = 3.0
    lag: int | None = 0
    rows_per_second: float = 500.0


@dataclass
class FakeSpark:
    """Stands for the package `nsq_anyio.spark`; what the command asked of it."""

    called: str = ""
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    sessions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    stopped: int = 0
    during: Callable[[threading.Event], None] = lambda _: None

    def used(self) -> None:
        """As whatever a pipeline does with its session first."""

    def stop(self) -> None:
        """As SparkSession.stop."""
        self.stopped += 1

    def session(self, name: str, **arguments: Any) -> FakeSpark:
        """As nsq_anyio.spark.session.session."""
        self.sessions.append({"name": name, **arguments})
        return self

    def pipeline(self, name: str) -> Callable[..., Summary]:
        """A pipeline that does two batches."""

        def run(
            spark: FakeSpark,
            *,
            on_progress: Callable[[Progress], object] = lambda _: None,
            stop: threading.Event | None = None,
            **arguments: Any,
        ) -> Summary:
            spark.used()  # ends a call that only checks the arguments
            assert spark is self
            assert stop is not None
            self.called, self.arguments = name, arguments
            on_progress(Progress(0, 1000, 1000, 1234.5, 500))
            on_progress(Progress(1, 500, 1500, 2000.0, None))
            self.during(stop)
            return Summary()

        return run


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> FakeSpark:
    fake = FakeSpark()
    package = ModuleType("nsq_anyio.spark")
    pipelines = ModuleType("nsq_anyio.spark.pipelines")
    for name in ("archive", "metrics", "replay"):
        setattr(pipelines, name, fake.pipeline(name))
    pipelines.spark_errors_explained = nullcontext  # type: ignore[attr-defined]
    session = ModuleType("nsq_anyio.spark.session")
    session.session = fake.session  # type: ignore[attr-defined]
    package.pipelines = pipelines  # type: ignore[attr-defined]
    package.session = session  # type: ignore[attr-defined]
    for module in (package, pipelines, session):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    return fake


def pipeline(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["pipeline", *arguments])


READ = ("--topic", "clicks", "--channel", "archive", "--nsqlookupd", "http://127.0.0.1:4161")
ARCHIVE = ("archive", *READ, "--state", "/state", "--output", "out")


def test_archive_has_its_state_in_one_directory(spark: FakeSpark) -> None:
    result = pipeline(*ARCHIVE)
    assert result.exit_code == 0, result.output
    assert spark.called == "archive"
    assert spark.arguments == {
        "topic": "clicks",
        "channel": "archive",
        "nsqlookupd": ("http://127.0.0.1:4161",),
        "nsqd": (),
        "output": "out",
        "format": "parquet",
        "checkpoint": "file:///state/checkpoint",
        "spool_dir": "/state/spool",
        "trigger": "available-now",
        "options": {},
    }
    assert spark.stopped == 1


def test_the_parts_of_the_state_can_be_elsewhere(spark: FakeSpark) -> None:
    parts = ("--checkpoint", "hdfs:///notes", "--spool-dir", "/shared")
    assert pipeline("archive", *READ, *parts, "--output", "o", "--every", "2.5").exit_code == 0
    assert (spark.arguments["checkpoint"], spark.arguments["spool_dir"]) == ("hdfs:///notes", "/shared")
    assert spark.arguments["trigger"] == 2.5


def test_a_relative_state_becomes_absolute(spark: FakeSpark) -> None:
    assert pipeline("archive", *READ, "--state", "here", "--output", "o").exit_code == 0
    assert spark.arguments["spool_dir"] == str(Path.cwd() / "here" / "spool")


def test_metrics_passes_on_what_to_measure(spark: FakeSpark) -> None:
    result = pipeline(
        *("metrics", *READ, "--state", "/s", "--key", "user.country", "--value", "ms"),
        *("--window", "5", "--quantile", "0.5", "--quantile", "0.999", "--output-topic", "t"),
        *("--output-nsqd", "a:1", "--output-nsqd", "b:1"),
    )
    assert result.exit_code == 0, result.output
    assert spark.called == "metrics"
    wanted = {"key": "user.country", "value": "ms", "window": 5.0, "lateness": 60.0}
    assert wanted.items() <= spark.arguments.items()
    assert spark.arguments["quantiles"] == (0.5, 0.999)
    assert spark.arguments["output_nsqd"] == ("a:1", "b:1")
    assert spark.arguments["output"] is None


def test_replay_takes_times(spark: FakeSpark) -> None:
    result = pipeline(
        *("replay", "--input", "in", "--topic", "t", "--nsqd", "a:1", "--rate", "100"),
        *("--since", "2026-01-31T09:00Z", "--option", "compression=snappy"),
    )
    assert result.exit_code == 0, result.output
    assert spark.arguments == {
        "input": "in",
        "topic": "t",
        "nsqd": ("a:1",),
        "rate": 100,
        "since": datetime(2026, 1, 31, 9, tzinfo=UTC),
        "until": None,
        "format": "parquet",
        "options": {"compression": "snappy"},
    }


def test_options_reach_spark_and_the_source(spark: FakeSpark) -> None:
    result = pipeline(
        *(*ARCHIVE, "--master", "local[3]", "--conf", "spark.log.level=INFO", "--conf", "a=b=c"),
        *("--option", "maxRowsPerBatch=5", "--option", "tls=true"),
    )
    assert result.exit_code == 0, result.output
    assert spark.arguments["options"] == {"maxRowsPerBatch": "5", "tls": "true"}
    (session,) = spark.sessions
    assert session["master"] == "local[3]"
    assert session["config"]["spark.log.level"] == "INFO"
    assert session["config"]["a"] == "b=c"


def test_each_batch_is_a_line_when_nobody_watches_live(spark: FakeSpark) -> None:
    result = pipeline(*ARCHIVE)
    assert result.stderr.splitlines() == [
        "batch 0: 1,000 rows, 1,234 rows/s; 1,000 in all, lag 500",
        "batch 1: 500 rows, 2,000 rows/s; 1,500 in all, lag unknown",
    ]
    (row,) = (line for line in result.stdout.splitlines() if "archive" in line)
    assert "1,500" in row
    assert spark.called == "archive"


def test_json_is_one_line(spark: FakeSpark) -> None:
    result = pipeline(*ARCHIVE, "--json")
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert json.loads(result.stdout) == {
        "batches": 2,
        "rows": 1500,
        "skipped": 1,
        "seconds": 3.0,
        "rows_per_second": 500,
        "lag": 0,
    }
    assert spark.stopped == 1


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("more", [(), ("--every", "1")])
def test_a_signal_stops_it_and_the_summary_is_still_told(
    spark: FakeSpark, number: signal.Signals, more: tuple[str, ...]
) -> None:
    before = signal.getsignal(number)

    def interrupt(stop: threading.Event) -> None:
        os.kill(os.getpid(), number)
        assert stop.wait(10)

    spark.during = interrupt
    result = pipeline(*ARCHIVE, *more)
    # One that runs until it is interrupted has done all that it was to do.
    assert result.exit_code == (0 if more else 128 + number), result.output
    assert "Aborted!" not in result.stderr
    assert "1,500" in result.stdout
    assert spark.stopped == 1
    assert signal.getsignal(number) is before


@pytest.mark.parametrize(
    ("error", "exit_code"), [(InvalidOption("rate=0 is not valid"), 2), (NSQError("no nsqd"), 1)]
)
def test_an_error_is_told_without_a_traceback(spark: FakeSpark, error: NSQError, exit_code: int) -> None:
    def fail(_: threading.Event) -> None:
        raise error

    spark.during = fail
    result = pipeline(*ARCHIVE)
    assert result.exit_code == exit_code
    assert str(error) in result.stderr
    assert "Traceback" not in result.stderr
    assert spark.stopped == 1


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    for name in [name for name in sys.modules if name.startswith("nsq_anyio.spark")]:
        monkeypatch.delitem(sys.modules, name)
    result = pipeline(*ARCHIVE)
    assert result.exit_code == 1
    assert "pip install 'nsq-anyio[spark]'" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("archive", *READ, "--output", "o"), "'--state', or both '--checkpoint' and '--spool-dir'"),
        (("archive", *READ, "--output", "o", "--checkpoint", "c"), "'--state', or both"),
        ((*ARCHIVE, "--option", "nothing"), "'nothing' is not valid: use KEY=VALUE"),
        ((*ARCHIVE, "--conf", "=x"), "'=x' is not valid: use KEY=VALUE"),
        ((*ARCHIVE, "--format", "csv"), "parquet"),
        ((*ARCHIVE, "--every", "-1"), "--every"),
        (("metrics", *READ, "--state", "s"), "--key"),
        (("metrics", *READ, "--state", "s", "--key", "k", "--quantile", "2"), "--quantile"),
        (("replay", "--input", "i", "--topic", "t"), "--nsqd"),
        (("replay", "--input", "i", "--topic", "t", "--nsqd", "a:1", "--since", "soon"), "'soon' is not"),
        (("replay", "--input", "i", "--topic", "t", "--nsqd", "a:1", "--rate", "0"), "--rate"),
    ],
)
def test_bad_options_are_explained(spark: FakeSpark, arguments: tuple[str, ...], expected: str) -> None:
    result = pipeline(*arguments)
    assert result.exit_code == 2
    assert expected in result.stderr
    assert spark.sessions == []
