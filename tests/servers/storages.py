"""Get the servers of storages that the tests of spools need: ``python -m tests.servers.storages``.

Servers of S3 and of Google Cloud Storage are built from the Go modules in ``s3/`` and ``gcs/``. npm fetches
the one of Azure, and Maven the jars of HDFS and Delta. They land beside the real NSQ programs, in
``.nox/storages``. The second run returns at once.
"""

import hashlib
import os
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from . import build

_DIRECTORY = build.DIRECTORY.parents[1] / "storages"
S3_SERVER = _DIRECTORY / "bin" / "versitygw"
GCS_SERVER = _DIRECTORY / "gcs" / "gcs"
AZURE_SERVER = _DIRECTORY / "azure" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
HDFS_JARS = _DIRECTORY / "hdfs"
DELTA_JARS = _DIRECTORY / "delta"
HDFS_PROGRAM = build.MODULE / "hdfs" / "MiniHdfs.java"


def get_s3_server() -> bool:
    """Build the S3 server, unless it is up to date; return whether it had to be.

    :raises BuildError: if Go cannot be had, or failed
    """
    return _build_with_go("s3", S3_SERVER, "tool")


def get_gcs_server() -> bool:
    """Build the server of Cloud Storage, unless it is up to date; return whether it had to be.

    :raises BuildError: if Go cannot be had, or failed
    """
    return _build_with_go("gcs", GCS_SERVER, ".")


def _build_with_go(name: str, program: Path, what: str) -> bool:
    module = build.MODULE / name
    stamp = _stamp(*(file for file in sorted(module.iterdir()) if file.suffix in {".go", ".mod", ".sum"}))
    if _has(program.parent, stamp):
        return False
    go = build.find_go(_DIRECTORY.parent / "servers")
    program.parent.mkdir(parents=True, exist_ok=True)
    command = [go, "build", "-buildvcs=false", "-ldflags=-s -w", "-o", f"{program.parent}{os.sep}", what]
    build.run(command, module)
    (program.parent / "stamp").write_text(stamp, encoding="utf-8")
    return True


def get_azure_server() -> bool:
    """Fetch the server of Azure, unless it is there; return whether it had to be.

    :raises BuildError: if there is no npm, or it failed
    """
    directory = _DIRECTORY / "azure"
    files = [build.MODULE / "azure" / name for name in ("package.json", "package-lock.json")]
    stamp = _stamp(*files)
    if _has(directory, stamp):
        return False
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise build.BuildError("install Node.js with npm: the server of Azure runs on it")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for file in files:
        shutil.copy(file, directory)
    build.run([npm, "ci", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund"], directory)
    (directory / "stamp").write_text(stamp, encoding="utf-8")
    return True


def get_jars(target: Path) -> bool:
    """Fetch the jars that a project of Maven needs, unless they are there; return whether they had to be.

    :param target: where they land; the project has the same name
    :raises BuildError: if there is no Maven, or it failed
    """
    project = build.MODULE / target.name / "pom.xml"
    stamp = _stamp(project)
    if _has(target, stamp):
        return False
    if shutil.which("mvn") is None:
        raise build.BuildError(f"install Maven: it fetches {project.parent.name}")
    shutil.rmtree(target, ignore_errors=True)
    build.run(
        ["mvn", "-q", "-f", str(project), "dependency:copy-dependencies", f"-DoutputDirectory={target}"]
    )
    (target / "stamp").write_text(stamp, encoding="utf-8")
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
    wanted: tuple[tuple[Callable[[], bool], Path], ...] = (
        (get_s3_server, S3_SERVER),
        (get_gcs_server, GCS_SERVER),
        (get_azure_server, AZURE_SERVER),
        *((partial(get_jars, jars), jars) for jars in (HDFS_JARS, DELTA_JARS)),
    )
    try:
        for get, path in wanted:
            print(f"{path}: {'new' if get() else 'up to date'}")
    except build.BuildError as error:
        sys.exit(f"storages.py: {error}")


if __name__ == "__main__":
    main()
