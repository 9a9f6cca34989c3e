"""TLS and AUTH work from executors, and the secret stays out of all that Spark writes down."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from nsq_anyio.spark import NsqDataSource

from ...auth_server import Account, AuthServer, auth_server
from ...tls_files import TLSFiles
from ..cluster import Cluster
from ..conftest import new_name
from ..nsqds import Nsqd, Topic, running_nsqd
from .program import running_driver
from .query import Query

SECRET = "hunter2-of-spark"

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def auth() -> Generator[AuthServer]:
    with auth_server({SECRET: Account(identity="spark")}) as running:
        yield running


@pytest.fixture(scope="module")
def secured_nsqd(tls_files: TLSFiles, auth: AuthServer) -> Generator[Nsqd]:
    """A real nsqd that wants TLS and a secret, and answers HTTP in clear text."""
    flags = [
        f"--tls-cert={tls_files.server.certificate_file}",
        f"--tls-key={tls_files.server.private_key_file}",
        "--tls-required=tcp-https",
        f"--auth-http-address={auth.address}",
    ]
    with running_nsqd("real", flags) as running:
        yield running


@pytest.fixture
def secured_topic(secured_nsqd: Nsqd) -> Topic:
    return secured_nsqd.topic(new_name())


@pytest.fixture
def secrets(tls_files: TLSFiles) -> dict[str, str]:
    return {"tls": "true", "tlsCaFile": tls_files.ca_file, "authSecret": SECRET}


def test_executors_of_a_cluster_read_over_tls_with_the_secret(
    spark_cluster: Cluster,
    secured_topic: Topic,
    secrets: dict[str, str],
    auth: AuthServer,
    tmp_path: Path,
) -> None:
    """With Spark's event log, in which it writes down plans and options."""
    secured_topic.publish_numbers(500)
    query = Query.of(secured_topic, tmp_path, **secrets)
    events = tmp_path / "events"
    events.mkdir()
    config = spark_cluster.config | {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    with running_driver(query.task(spark_cluster.master, query.faults(), config), tmp_path / "log") as driver:
        assert driver.wait() == 0, driver.tail
    query.ledger().check(range(500))
    assert secured_topic.state().left == 0
    assert any(request.secret == SECRET and request.tls for request in auth.requests)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(events in path.parents for path in files)
    assert [path for path in files if SECRET.encode() in path.read_bytes()] == []


def test_rows_are_written_over_tls_with_the_secret(
    spark: SparkSession, secured_topic: Topic, secrets: dict[str, str]
) -> None:
    spark.dataSource.register(NsqDataSource)
    options = secrets | {"nsqd": secured_topic.nsqd.tcp_address, "topic": secured_topic.name}
    spark.range(100).selectExpr("CAST(id AS STRING) AS body").write.format("nsq").options(**options).mode(
        "append"
    ).save()
    assert secured_topic.state().left == 100


def test_secret_is_in_no_plan_and_no_error(
    spark: SparkSession,
    secured_topic: Topic,
    secrets: dict[str, str],
    capfd: pytest.CaptureFixture[str],
) -> None:
    secured_topic.publish_numbers(10)
    spark.dataSource.register(NsqDataSource)
    wrong = secrets | {"authSecret": "wrong-" + SECRET}
    frame = spark.read.format("nsq").options(**secured_topic.options, **wrong, drain=True).load()
    frame.explain(extended=True)
    with pytest.raises(Exception, match=r"(?i)auth") as caught:
        frame.collect()
    printed = capfd.readouterr()
    for text in (printed.out, printed.err, str(caught.value), repr(caught.value)):
        assert SECRET not in text
    assert "nsq" in printed.out.lower(), "a plan was printed"


def test_secret_may_come_from_a_file_of_the_executors(
    spark: SparkSession, secured_topic: Topic, secrets: dict[str, str], tmp_path: Path
) -> None:
    secured_topic.publish_numbers(100)
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n", encoding="utf-8")
    del secrets["authSecret"]
    query = Query.of(secured_topic, tmp_path, **secrets, authSecretFile=str(file))
    query.run(spark)
    query.ledger().check(range(100))
