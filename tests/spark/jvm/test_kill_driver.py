"""The driver is killed (SIGKILL) in each phase of a batch, and the query starts again from its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ..nsqds import Topic
from .faults import Fault, Point
from .program import running_driver
from .query import Query

pytestmark = pytest.mark.timeout(300)

MESSAGES = 2_000


@pytest.mark.parametrize(
    ("point", "partitions", "reruns", "duplicates"),
    [
        # A chunk is written, and not part of the spool: nsqd delivers its messages again. A second partition
        # could be between its spool and its FIN.
        pytest.param("link", 1, 0, False, id="mid-read"),
        # The spool has a chunk that is not finished: nsqd delivers it again, and the rerun replays it.
        pytest.param("linked", 2, 0, True, id="after-the-spool-and-before-FIN"),
        pytest.param("filled", 1, 0, False, id="after-FIN-and-before-the-sink"),
        pytest.param("sink", 2, 0, False, id="before-the-sink"),
        pytest.param("sunk", 2, 1, False, id="after-the-sink-and-before-the-commit"),
        pytest.param("commit", 2, 0, False, id="before-the-spool-is-deleted"),
        pytest.param("deleting", 2, 0, False, id="while-the-spool-is-deleted"),
        pytest.param("committed", 2, 0, False, id="after-the-spool-is-deleted"),
    ],
)
def test_nothing_is_lost_when_the_driver_is_killed(
    point: Point,
    partitions: int,
    reruns: int,
    duplicates: bool,
    spark: SparkSession,
    real_topic: Topic,
    tmp_path: Path,
) -> None:
    real_topic.publish_numbers(MESSAGES)
    query = Query.of(real_topic, tmp_path, minPartitions=partitions)
    faults = query.faults(Fault(point, "driver", time=2 if point in {"link", "linked"} else 1))
    with running_driver(query.task("local[2]", faults), tmp_path / "log") as driver:
        assert driver.wait() == -9, driver.tail
    assert faults.happened() == 1
    ledger = query.run_out(spark)
    ledger.check(range(MESSAGES))
    assert ledger.reruns == reruns
    assert (ledger.duplicates > 0) is duplicates
