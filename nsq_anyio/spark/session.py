"""Spark sessions that can read and write NSQ, and the check for Java before they start."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from ..errors import NSQError
from .source import NsqDataSource

__all__ = ["JavaMissing", "find_java", "session"]

OLDEST_JAVA = 17
"""The oldest version that Spark 4 runs on."""

_INSTALL = (
    f"install Java {OLDEST_JAVA} or later (on Debian: apt-get install openjdk-{OLDEST_JAVA}-jre-headless) "
    "and set JAVA_HOME to its directory"
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_VERSION_TIMEOUT = 30.0

# Set by spark-submit, which has started the JVM and chosen the master by then.
_SUBMITTED = "PYSPARK_GATEWAY_PORT"


class JavaMissing(NSQError):
    """Spark cannot start: Java is missing or too old."""


def find_java() -> Path:
    """Return the ``java`` that Spark will run: the one in JAVA_HOME, or else the first on PATH.

    :raises JavaMissing: if there is none, it does not run, or it is older than 17
    """
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java.exe" if sys.platform == "win32" else "java")
        if not os.access(java, os.X_OK):
            raise JavaMissing(f"JAVA_HOME={home!r} holds no bin/java: {_INSTALL}")
    else:
        found = shutil.which("java")
        if found is None:
            raise JavaMissing(f"Java not found: JAVA_HOME is not set, and PATH has no java: {_INSTALL}")
        java = Path(found)
    _check_version(java)
    return java


def _check_version(java: Path) -> None:
    command = [str(java), "-version"]
    try:
        # Java writes its version to stderr.
        reply = subprocess.run(  # noqa: S603 - the program that Spark itself is about to run
            command, capture_output=True, text=True, timeout=_VERSION_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissing(f"{java} does not run: {error}; {_INSTALL}") from error
    version = _VERSION.search(reply.stderr)
    if version is None:
        raise JavaMissing(
            f"{java} -version says {reply.stderr.strip()!r}, which names no version: {_INSTALL}"
        )
    if int(version[1]) < OLDEST_JAVA:
        raise JavaMissing(f"{java} is Java {version[1]}, which is too old for Spark: {_INSTALL}")


def session(
    name: str = "nsq-anyio", *, master: str | None = None, config: Mapping[str, str] | None = None
) -> SparkSession:
    """Return the running Spark session, or a new one, in which ``format("nsq")`` is registered.

    Sets PYSPARK_PYTHON to this interpreter unless it is set: executors would otherwise start ``python3``,
    which may have other packages. On a cluster, set it to an interpreter that every machine has. A local
    session listens only on 127.0.0.1, and has no web UI.

    :param name: the application's name in Spark's web UI
    :param master: such as ``local[2]`` or ``spark://host:7077``; default: the one given to spark-submit, or
        ``local[*]``
    :param config: Spark's options; they override those set here
    :raises JavaMissing: if Java is missing or too old; not checked under spark-submit, which has started it
    """
    submitted = _SUBMITTED in os.environ
    if not submitted:
        find_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    if not submitted and (master is None or master.startswith("local")):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        for key, value in _local_config().items():
            builder = builder.config(key, value)
    for key, value in (config or {}).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    _show_shipped_package(spark.sparkContext.environment)
    spark.dataSource.register(NsqDataSource)
    return spark


def _show_shipped_package(environment: dict[str, str]) -> None:
    """Let the driver's readers of streams import this package if it was shipped by ``--py-files``.

    Spark 4.3.0 does not put such files on the path of these readers. The environment also reaches the
    executors, which do not need it.
    """
    home = Path(__file__).parents[2]
    # Only for a zip: the directory of an installed package may not exist on the executors.
    if home.is_file():
        others = environment.get("PYTHONPATH", "").split(os.pathsep)
        environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, (*others, str(home)))))


def _local_config() -> dict[str, str]:
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        # Spark's default of 200 is for a cluster: here each batch would wait for 200 small tasks.
        "spark.sql.shuffle.partitions": str(os.cpu_count() or 1),
    }
