"""``query.stop()`` in the middle of a batch: it returns, nothing is lost, and the spool is free."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ..nsqds import Topic, wait_until
from .query import Query

STOPS = int(os.environ.get("NSQ_ANYIO_STOPS", "5"))
ROWS = 1_500 * STOPS
_LIMIT = 60.0
_STOP_LIMIT = 10.0

pytestmark = pytest.mark.timeout(300 + 10 * STOPS)


def test_a_query_that_is_stopped_in_a_batch_goes_on(
    spark: SparkSession, real_topic: Topic, tmp_path: Path
) -> None:
    rng = random.Random(3)
    query = Query.of(real_topic, tmp_path, maxRowsPerBatch=400, maxInFlight=50, msgTimeout=30)
    real_topic.publish_numbers(ROWS)
    in_a_batch = 0
    for _ in range(STOPS):
        before = query.chunks()
        running = query.start(spark, trigger={"processingTime": "0 seconds"})
        wait_until(lambda: not running.isActive or query.chunks() - before, "a new chunk", _LIMIT)  # noqa: B023
        time.sleep(rng.uniform(0, 0.3))
        began = time.monotonic()
        running.stop()
        assert time.monotonic() - began < _STOP_LIMIT
        assert running.exception() is None
        wait_until(lambda: not list(tmp_path.glob("spool/*/lease-*")), "the reader to give up its lease")
        in_a_batch += bool(query.chunks())
    assert in_a_batch, "no stop met a batch"
    query.run_out(spark).check(range(ROWS))
