"""What a user without Java, or without the extra, is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..cluster import short_lived
from ..nsqds import ROOT

pytestmark = pytest.mark.timeout(300)

_NO_PYSPARK = """
import sys
sys.modules["pyspark"] = None
import nsq_anyio.spark
"""

_ROWS = """
from nsq_anyio.spark import session
spark = session(master="local[1]")
print(spark.createDataFrame([("x",)], "body STRING").toArrow().num_rows)
spark.stop()
"""

_TESTS = f"""
import sys, pytest
sys.stdout = sys.stderr
sys.exit(pytest.main(["-p", "no:cacheprovider", {f"{__file__}::test_java_is_there"!r}]))
"""


def test_missing_java_is_named(tmp_path: Path) -> None:
    told = _run("from nsq_anyio.spark import session; session()", PATH=str(tmp_path), JAVA_HOME="")
    assert "Java 17" in told
    assert "JAVA_HOME" in told


def test_java_is_there(java: str) -> None:
    assert Path(java).is_absolute()


def test_tests_fail_without_java(tmp_path: Path) -> None:
    told = _run(_TESTS, PATH=str(tmp_path), JAVA_HOME="")
    assert "1 error in" in told
    assert "Java 17" in told


def test_missing_extra_is_named() -> None:
    assert "pip install 'nsq-anyio[spark]'" in _run(_NO_PYSPARK)


def test_a_session_warns_of_nothing_that_the_extra_installs(java: str) -> None:
    """PySpark tells in every run that it does not know pandas 3 yet."""
    assert "Warning:" not in _run(_ROWS, expected=0)


def _run(program: str, expected: int = 1, **env: str) -> str:
    """Run a program, and return what it says on stderr.

    :param expected: its exit status
    """
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, **short_lived(), **env},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == expected, done.stderr
    return done.stderr
