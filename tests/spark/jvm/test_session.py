"""What a user without Java, or without the extra, is told."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from ..nsqds import ROOT

_NO_PYSPARK = """
import sys
sys.modules["pyspark"] = None
import nsq_anyio.spark
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


def _run(program: str, **env: str) -> str:
    """Run a program that must fail, and return what it says."""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    return done.stderr
