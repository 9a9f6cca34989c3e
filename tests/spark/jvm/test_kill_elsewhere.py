"""Workers, executors and drivers are killed (SIGKILL) while the spool is elsewhere: a short ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsq_anyio.storage.place import Place

from ..cluster import Cluster
from ..nsqds import Topic, wait_until
from ..storages import EVERY_CASE, for_executors
from .faults import Fault, Faults
from .ledger import Ledger
from .program import running_driver
from .query import Query

pytestmark = pytest.mark.timeout(600)

MESSAGES = 2_000
RUNS = 4


LOCAL = "local[2,3]"
"""A master within the driver, which tries a task three times; its Python workers are processes."""


def run(query: Query, cluster: Cluster | None, faults: Faults, log: Path) -> int:
    """Run the query once, in a driver of its own; return the driver's exit code.

    :param cluster: None for `LOCAL`
    """
    config = {**cluster.config, **for_executors()} if cluster else {}
    with running_driver(query.task(cluster.master if cluster else LOCAL, faults, config), log) as driver:
        code = driver.wait()
        assert code in {0, -9}, driver.tail
    return code


def run_out(query: Query, cluster: Cluster | None, directory: Path) -> Ledger:
    """Run the query until nothing is left in the channel."""
    for number in range(RUNS):
        wait_until(lambda: query.topic.state().in_flight == 0, "nsqd to take back what was in flight")
        if query.topic.state().left == 0 and number:
            break
        assert run(query, cluster, query.faults(), directory / f"log-out-{number}") == 0
    assert query.topic.state().left == 0
    return query.ledger()


@pytest.mark.parametrize("store", ["s3", "hdfs"], indirect=True)
def test_nothing_is_lost_whoever_is_killed(
    store: Place, spark_cluster: Cluster, real_topic: Topic, tmp_path: Path
) -> None:
    real_topic.publish_numbers(MESSAGES)
    query = Query.of(real_topic, tmp_path, spoolDir=str(store))
    faults = query.faults(
        Fault("link", "worker", time=2),
        Fault("linked", "executor", time=2),
        Fault("filled", "worker"),
        Fault("commit", "driver"),
    )
    assert run(query, spark_cluster, faults, tmp_path / "log") == -9
    assert faults.happened() == 4
    ledger = run_out(query, spark_cluster, tmp_path)
    ledger.check(range(MESSAGES))
    assert ledger.duplicates > 0, "the chunk that was stored and not finished was delivered once more"
    epochs = {path.parent.parent.name for path in query.chunks()}
    assert len(epochs) <= 1, "only the newest batch is kept"


@pytest.mark.parametrize("store", ["gcs", "azure"] if EVERY_CASE else ["azure"], indirect=True)
def test_nothing_is_lost_in_other_object_stores(store: Place, real_topic: Topic, tmp_path: Path) -> None:
    """Shorter, and without a cluster: from S3 differ the client and, in Azure, what is deleted."""
    real_topic.publish_numbers(MESSAGES)
    query = Query.of(real_topic, tmp_path, spoolDir=str(store))
    faults = query.faults(
        Fault("link", "worker", time=2), Fault("linked", "worker", time=2), Fault("commit", "driver")
    )
    assert run(query, None, faults, tmp_path / "log") == -9
    assert faults.happened() == 3
    ledger = run_out(query, None, tmp_path)
    ledger.check(range(MESSAGES))
    assert ledger.duplicates > 0, "the chunk that was stored and not finished was delivered once more"
    epochs = {path.parent.parent.name for path in query.chunks()}
    assert len(epochs) <= 1, "only the newest batch is kept"


@pytest.mark.parametrize("store", ["s3"], indirect=True)
def test_a_worker_that_goes_on_after_the_commit_takes_nothing_with_it(
    store: Place, spark_cluster: Cluster, real_topic: Topic, tmp_path: Path
) -> None:
    """It can take the number of its chunk again, as the object that had it is deleted."""
    real_topic.publish_numbers(MESSAGES)
    query = Query.of(real_topic, tmp_path, spoolDir=str(store), msgTimeout=60)
    faults = query.faults(Fault("link", "zombie"))
    assert run(query, spark_cluster, faults, tmp_path / "log") == 0
    assert real_topic.state().in_flight > 0, "the zombie holds what nobody else could read"
    faults.release()
    wait_until(lambda: faults.zombie_outcome() is not None, "the zombie to end its read")
    assert "Spark has committed this batch" in str(faults.zombie_outcome())
    run_out(query, spark_cluster, tmp_path).check(range(MESSAGES))
