"""Get the servers of storages that the tests of spools need: ``python -m tests.servers.storages``.

An S3 server is built from the Go module in ``s3/``, and the jars of HDFS come from Maven Central. They land
beside the real NSQ programs, in ``.nox/storages``. The second run returns at once.
"""

import hashlib
import os
import shutil
import sys
from pathlib import Path

from . import build

__all__ = ["HDFS_JARS", "HDFS_PROGRAM", "S3_SERVER"]

_DIRECTORY = build.DIRECTORY.parents[1] / "storages"
S3_SERVER = _DIRECTORY / "bin" / "versitygw"
HDFS_JARS = _DIRECTORY / "hdfs"
HDFS_PROGRAM = build.MODULE / "hdfs" / "MiniHdfs.java"


def get_s3_server() -> bool:
    """Build the S3 server, unless it is up to date; return whether it had to be.

    :raises BuildError: if Go cannot be had, or failed
    """
    module = build.MODULE / "s3"
    stamp = _stamp(module / "go.mod", module / "go.sum")
    if _has(S3_SERVER.parent, stamp):
        return False
    go = build.find_go(_DIRECTORY.parent / "servers")
    S3_SERVER.parent.mkdir(parents=True, exist_ok=True)
    command = [go, "build", "-buildvcs=false", "-ldflags=-s -w", "-o", f"{S3_SERVER.parent}{os.sep}", "tool"]
    build.run(command, module)
    (S3_SERVER.parent / "stamp").write_text(stamp, encoding="utf-8")
    return True


def get_hdfs() -> bool:
    """Fetch the jars of HDFS, unless they are there; return whether they had to be.

    :raises BuildError: if there is no Maven, or it failed
    """
    project = build.MODULE / "hdfs" / "pom.xml"
    stamp = _stamp(project)
    if _has(HDFS_JARS, stamp):
        return False
    if shutil.which("mvn") is None:
        raise build.BuildError("install Maven: it fetches HDFS")
    shutil.rmtree(HDFS_JARS, ignore_errors=True)
    build.run(
        ["mvn", "-q", "-f", str(project), "dependency:copy-dependencies", f"-DoutputDirectory={HDFS_JARS}"]
    )
    (HDFS_JARS / "stamp").write_text(stamp, encoding="utf-8")
    return True


def _stamp(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _has(directory: Path, stamp: str) -> bool:
    file = directory / "stamp"
    return file.is_file() and file.read_text(encoding="utf-8") == stamp


def main() -> None:
    try:
        for get, path in ((get_s3_server, S3_SERVER), (get_hdfs, HDFS_JARS)):
            print(f"{path}: {'new' if get() else 'up to date'}")
    except build.BuildError as error:
        sys.exit(f"storages.py: {error}")


if __name__ == "__main__":
    main()
