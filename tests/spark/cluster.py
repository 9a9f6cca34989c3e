"""A standalone cluster of Spark on this machine: a master and two workers from the pyspark package."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from .nsqds import ROOT, wait_until
from .processes import Program, running

WORKERS = 2
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_ADDRESS = re.compile(r"Starting Spark master at (spark://\S+)")
_LIMIT = 60.0


@dataclass(frozen=True, slots=True)
class Cluster:
    """A running cluster.

    :ivar master: its URL, for a session
    """

    master: str

    @property
    def config(self) -> dict[str, str]:
        """What a session must be told: one executor with one core on each worker."""
        return {
            "spark.executor.cores": "1",
            "spark.executor.memory": "512m",
            "spark.cores.max": str(WORKERS),
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.executorEnv.PYTHONPATH": str(ROOT),
        }


def environment() -> dict[str, str]:
    """Return what Spark and its Python workers need in their environment."""
    return {
        "SPARK_HOME": pyspark.__path__[0],
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_PUBLIC_DNS": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        # Workers are not started where the tests are, and import parts of them.
        "PYTHONPATH": str(ROOT),
    }


QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def short_lived() -> dict[str, str]:
    """Return the same for a JVM of a few seconds, which ends before its better compiler has paid off.

    The session of nox adds an archive of classes to these options.
    """
    return {**environment(), "JDK_JAVA_OPTIONS": os.environ.get("JDK_JAVA_OPTIONS", QUICK_JAVA)}


@contextmanager
def running_cluster(directory: Path) -> Generator[Cluster]:
    """Run a master and two workers for the length of the block; they keep their files in `directory`."""
    env = {
        **os.environ,
        **short_lived(),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_WORKER_DIR": str(directory / "work"),
    }
    spark_class = str(Path(env["SPARK_HOME"], "bin", "spark-class"))
    listen = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]

    def start(name: str, arguments: list[str]) -> Program:
        command = [spark_class, *arguments]
        return stack.enter_context(
            running(command, log_path=directory / f"{name}.log", env=env, cwd=directory)
        )

    with ExitStack() as stack:
        master = start("master", [_MASTER, *listen])
        _wait_for(master, _ADDRESS)
        (address,) = _ADDRESS.findall(master.log)
        workers = [
            start(f"worker-{number}", [_WORKER, *listen, "--cores", "1", "--memory", "1g", address])
            for number in range(WORKERS)
        ]
        for worker in workers:
            _wait_for(worker, re.compile("Successfully registered with master"))
        yield Cluster(address)


def _wait_for(program: Program, pattern: re.Pattern[str]) -> None:
    def is_found() -> bool:
        assert program.process.poll() is None, f"ended with {program.process.returncode}:\n{program.tail}"
        return pattern.search(program.log) is not None

    try:
        wait_until(is_found, pattern.pattern, _LIMIT)
    except TimeoutError as error:
        raise TimeoutError(f"{error}; its log:\n{program.tail}") from None
