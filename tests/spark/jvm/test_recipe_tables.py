"""Each message is in a table of Delta or Iceberg exactly once, although drivers are killed at any moment.

Delta runs with PySpark 4.2 alone, so `nox -s spark_lowest` runs its test, and `nox -s spark` that of Iceberg.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ...servers.storages import DELTA_JARS
from ..cluster import short_lived
from ..nsqds import wait_until
from ..processes import Program, running
from .recipes import PROGRAMS, column, running_clicks

pytestmark = pytest.mark.timeout(600)

MESSAGES = 2_000
KILLS = 2
_MAX_RUNS = 4
_LIMIT = 200.0
# A run that is killed has many batches; each has several chunks, which nsqd may deliver again.
_SMALL = {"maxRowsPerBatch": "200", "maxInFlight": "100", "maxWait": "2", "msgTimeout": "5"}
_LAST = {**_SMALL, "maxRowsPerBatch": "2000"}


def test_delta_has_each_message_once(java: str, tmp_path: Path) -> None:
    def kept() -> list[int]:
        files: set[str] = set()
        for version in sorted((tmp_path / "clicks" / "_delta_log").glob("*.json")):
            for action in map(json.loads, version.read_text(encoding="utf-8").splitlines()):
                files |= {action["add"]["path"]} if "add" in action else set()
                files -= {action["remove"]["path"]} if "remove" in action else set()
        return [int(body) for file in files for body in column(tmp_path / "clicks" / file, "body")]

    jars = ",".join(map(str, sorted(DELTA_JARS.glob("*.jar"))))
    few = "--conf spark.databricks.delta.snapshotPartitions=2 --conf spark.sql.shuffle.partitions=2"
    _run_and_kill("delta", kept, tmp_path, f"--jars {jars} {few} pyspark-shell")


def test_iceberg_has_each_message_once(java: str, tmp_path: Path) -> None:
    def kept() -> list[int]:
        from pyiceberg.catalog.sql import SqlCatalog

        with closing(SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db")) as catalog:
            rows: Any = catalog.load_table("nsq.clicks").scan().to_arrow()
        return list(map(int, rows["body"].to_pylist()))

    _run_and_kill("iceberg", kept, tmp_path, "--conf spark.sql.shuffle.partitions=2 pyspark-shell")


def _run_and_kill(recipe: str, kept: Callable[[], list[int]], directory: Path, arguments: str) -> None:
    """Kill the program at random moments once it has begun to store, then run it to its end."""
    (directory / "spool").mkdir()
    env = {**os.environ, **short_lived(), "PYSPARK_SUBMIT_ARGS": arguments}
    command = [sys.executable, "-c", _WITH_OPTIONS, str(PROGRAMS / f"{recipe}.py")]
    seed = random.randrange(2**32)
    moments = random.Random(seed)
    with running_clicks() as clicks:
        topic = clicks.channel(recipe)
        command += [clicks.nsqlookupd, str(directory)]
        for number in range(KILLS):
            topic.publish_numbers(MESSAGES, first=number * MESSAGES)
            log = directory / f"log-{number}"
            killed = [*command, json.dumps(_SMALL)]
            with running(killed, log_path=log, env=env, cwd=directory) as program:
                _wait_for_a_new_chunk(directory / "spool", program)
                time.sleep(moments.uniform(0, 2))
                assert program.process.poll() is None, program.tail
                program.kill()
        for number in range(_MAX_RUNS):
            wait_until(lambda: topic.state().in_flight == 0, "nsqd to take back what was in flight")
            log = directory / f"last-log-{number}"
            last = [*command, json.dumps(_LAST)]
            with running(last, log_path=log, env=env, cwd=directory) as program:
                assert program.wait(_LIMIT) == 0, program.tail
            if topic.state().left == 0:
                break
        assert topic.state().left == 0
    assert sorted(kept()) == list(range(KILLS * MESSAGES)), f"with seed {seed}"


def _wait_for_a_new_chunk(spool: Path, program: Program) -> None:
    known = set(spool.rglob("*.arrow"))

    def is_there() -> bool:
        assert program.process.poll() is None, program.tail
        return not known.issuperset(spool.rglob("*.arrow"))

    wait_until(is_there, "a new chunk", _LIMIT)


_WITH_OPTIONS = """
import json, runpy, sys
from nsq_anyio.spark import NsqDataSource
*arguments, small = sys.argv[1:]
class Source(NsqDataSource):
    def __init__(self, options):
        super().__init__({**options, **json.loads(small)})
sys.modules["nsq_anyio.spark.session"].NsqDataSource = Source
sys.argv = arguments
runpy.run_path(arguments[0], run_name="__main__")
"""
"""Runs a recipe with options that make its batches small, so that a run has many of them."""
