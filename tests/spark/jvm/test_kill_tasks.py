"""Python workers and executors are killed (SIGKILL) in each phase of a read; Spark runs their tasks again."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from ..cluster import Cluster
from ..nsqds import Topic, wait_until
from .faults import Fault
from .program import running_driver
from .query import Query

pytestmark = pytest.mark.timeout(300)

MESSAGES = 3_000


def test_python_workers_are_killed_in_each_phase(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    topic.publish_numbers(MESSAGES)
    query = Query.of(topic, tmp_path)
    faults = query.faults(
        Fault("link", "worker", time=2),
        Fault("linked", "worker", time=2),
        Fault("filled", "worker"),
    )
    with running_driver(query.task("local[2,4]", faults), tmp_path / "log") as driver:
        assert driver.wait() == 0, driver.tail
    assert faults.happened() == 3
    ledger = query.run_out(spark)
    ledger.check(range(MESSAGES))
    assert ledger.duplicates > 0, "the chunk that was stored and not finished was delivered once more"


def test_executors_of_a_cluster_are_killed_in_each_phase(
    spark_cluster: Cluster, spark: SparkSession, real_topic: Topic, tmp_path: Path
) -> None:
    real_topic.publish_numbers(MESSAGES)
    query = Query.of(real_topic, tmp_path)
    faults = query.faults(
        Fault("link", "executor", time=2),
        Fault("linked", "executor", time=2),
        Fault("filled", "executor"),
    )
    task = query.task(spark_cluster.master, faults, spark_cluster.config)
    with running_driver(task, tmp_path / "log") as driver:
        assert driver.wait() == 0, driver.tail
    assert faults.happened() == 3
    ledger = query.run_out(spark)
    ledger.check(range(MESSAGES))
    assert ledger.duplicates > 0, "the chunk that was stored and not finished was delivered once more"


def test_driver_of_a_cluster_is_killed(
    spark_cluster: Cluster, spark: SparkSession, real_topic: Topic, tmp_path: Path
) -> None:
    real_topic.publish_numbers(MESSAGES)
    query = Query.of(real_topic, tmp_path)
    faults = query.faults(Fault("linked", "driver", time=2))
    task = query.task(spark_cluster.master, faults, spark_cluster.config)
    with running_driver(task, tmp_path / "log") as driver:
        assert driver.wait() == -9, driver.tail
    assert faults.happened() == 1
    ledger = query.run_out(spark)
    ledger.check(range(MESSAGES))
    assert ledger.duplicates > 0


@pytest.mark.parametrize(
    ("time", "max_rows"),
    [
        pytest.param(1, 1_000, id="at-its-first-chunk-until-the-batch-is-stored-and-deleted"),
        pytest.param(3, 10_000, id="at-a-later-chunk-until-the-batch-is-stored"),
    ],
)
def test_worker_that_outlives_its_executor_takes_nothing_with_it(
    time: int,
    max_rows: int,
    spark_cluster: Cluster,
    spark: SparkSession,
    real_topic: Topic,
    tmp_path: Path,
) -> None:
    """It goes on when another attempt has read the partition: what it holds then must go back to nsqd."""
    real_topic.publish_numbers(MESSAGES)
    query = Query.of(real_topic, tmp_path, maxRowsPerBatch=max_rows, msgTimeout=60)
    faults = query.faults(Fault("link", "zombie", time=time))
    task = query.task(spark_cluster.master, faults, spark_cluster.config)
    with running_driver(task, tmp_path / "log") as driver:
        assert driver.wait() == 0, driver.tail
    held = real_topic.state().in_flight
    assert held > 0, "the zombie holds what nobody else could read"
    faults.release()
    wait_until(lambda: faults.zombie_outcome() is not None, "the zombie to end its read")
    if max_rows == 1_000:
        assert "Spark has committed this batch" in str(faults.zombie_outcome())
    else:
        assert faults.zombie_outcome() == "finished", "it returns what the other attempt has stored"
    ledger = query.run_out(spark)
    ledger.check(range(MESSAGES))
