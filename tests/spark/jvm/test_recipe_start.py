"""What docs/spark-recipes.md does for a session that starts sooner takes effect."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

from ..cluster import QUICK_JAVA, environment
from ..nsqds import ROOT
from .recipes import PROGRAMS

HOME = Path(pyspark.__path__[0])

_TASK = """
import sys
from nsq_anyio.spark import session

def imported(_):
    import pyspark
    yield pyspark.__file__
    yield pyspark.SparkContext.parallelize.__code__.co_filename

spark = session(master="local[1]", config={"spark.driver.extraJavaOptions": " ".join(sys.argv[1:])})
for found in spark.sparkContext.parallelize([0], 1).mapPartitions(imported).collect():
    print(found)
spark.stop()
"""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An installation of Spark with zips of its own, without bytecode, and otherwise this one's files."""
    own = tmp_path / "spark"
    library = own / "python" / "lib"
    library.mkdir(parents=True)
    for path in HOME.iterdir():
        if path.name != "python":
            (own / path.name).symlink_to(path)
    for path in (HOME / "python" / "lib").glob("*.zip"):
        with ZipFile(path) as installed, ZipFile(library / path.name, "w") as copy:
            for name in installed.namelist():
                if not name.endswith((".pyc", "/")):
                    copy.writestr(name, installed.read(name))
    return own


def test_tasks_import_bytecode_and_java_reads_its_classes_from_an_archive(
    java: str, home: Path, tmp_path: Path
) -> None:
    pyspark_zip = home / "python" / "lib" / "pyspark.zip"
    zips = sorted(path.name for path in pyspark_zip.parent.iterdir())
    with ZipFile(pyspark_zip) as uncompiled:
        assert "pyspark/__init__.pyc" not in uncompiled.namelist()
    program = [str(PROGRAMS / "compile_pyspark.py")]
    _run(home, program)
    size = pyspark_zip.stat().st_size
    assert str(pyspark_zip) in _run(home, program)
    assert pyspark_zip.stat().st_size == size, "compiling again changes nothing"
    assert sorted(path.name for path in pyspark_zip.parent.iterdir()) == zips
    archive = tmp_path / "driver.jsa"
    # Java would print which classes it cannot archive.
    module, code = _run(home, ["-c", _TASK, "-Xlog:disable", f"-XX:ArchiveClassesAtExit={archive}"])
    assert module == f"{pyspark_zip}/pyspark/__init__.pyc"
    assert Path(code).is_relative_to(pyspark_zip), "tracebacks must name the zip, not where it was compiled"
    # Java ends with -Xshare:on if it cannot read the archive, which it otherwise does without.
    _run(home, ["-c", _TASK, "-Xshare:on", f"-XX:SharedArchiveFile={archive}"])


def _run(home: Path, arguments: Sequence[str]) -> list[str]:
    """Run Python with another installation of Spark; return the lines that it prints."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        # An archive of other jars would stand in the way of the one that is tested.
        env={**os.environ, **environment(), "JDK_JAVA_OPTIONS": QUICK_JAVA, "SPARK_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
