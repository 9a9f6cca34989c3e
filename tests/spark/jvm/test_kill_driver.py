"""The driver is killed (SIGKILL) in each phase of a batch, and the query starts again from its checkpoint."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ..nsqds import Topic, wait_until
from .faults import Fault, Faults
from .program import running_driver
from .query import Query

pytestmark = pytest.mark.timeout(600)

MESSAGES = 1_000
LINKED = 0
"""The number of the kill after which messages come twice."""

KILLS = (
    # The spool has a chunk that is not finished: nsqd delivers it again, and the rerun replays it.
    (Fault("linked", "driver", time=2), 2),
    # A chunk is written, and not part of the spool: nsqd delivers its messages again. A second partition
    # could be between its spool and its FIN.
    (Fault("link", "driver", time=2), 1),
    # All messages are finished, and Spark has no row of them.
    (Fault("filled", "driver"), 1),
    (Fault("sink", "driver"), 2),
    # The sink has the batch, and Spark does not know.
    (Fault("sunk", "driver"), 2),
    # Before, while, and after the spool is deleted.
    (Fault("commit", "driver"), 2),
    (Fault("deleting", "driver"), 2),
    (Fault("committed", "driver"), 2),
)
"""The faults in the order in which they happen to one query, and the partitions of the query meanwhile."""


def test_nothing_is_lost_whenever_the_driver_is_killed(
    spark: SparkSession, real_topic: Topic, tmp_path: Path
) -> None:
    query = Query.of(real_topic, tmp_path)
    for number, (fault, partitions) in enumerate(KILLS):
        real_topic.publish_numbers(MESSAGES, first=number * MESSAGES)
        # In a directory of its own: a worker that outlives its driver for a moment reaches no later fault.
        directory = tmp_path / f"faults-{number}"
        directory.mkdir()
        faults = Faults(str(directory), (fault,))
        run = replace(query, options={**query.options, "minPartitions": str(partitions)})
        with running_driver(run.task("local[2]", faults), tmp_path / f"log-{number}") as driver:
            assert driver.wait() == -9, (fault, driver.tail)
        assert faults.happened() == 1
        # Nobody reads now: what the killed driver held goes back to the channel.
        wait_until(lambda: real_topic.state().in_flight == 0, "nsqd to take back what was in flight")
    ledger = query.run_out(spark)
    ledger.check(range(len(KILLS) * MESSAGES))
    assert ledger.reruns == 1, "of the batch that the sink had, and Spark did not know of"
    times = Counter(row.number for row in ledger.rows)
    repeated = [number for number in times if times[number] > 1]
    assert repeated
    assert max(repeated) < (LINKED + 1) * MESSAGES
