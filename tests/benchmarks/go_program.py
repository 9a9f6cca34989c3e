"""The Go program that measures go-nsq, built as the real servers are: see ``tests/servers/build.py``."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..servers import build as servers
from .environments import DIRECTORY, Unavailable

__all__ = ["build"]

MODULE = Path(__file__).resolve().parent / "go_nsq"


def build() -> Path:
    """Return the program's path, after building it unless it is up to date.

    :raises Unavailable: it cannot be built
    """
    program = DIRECTORY / "go-nsq" / ("bench_go_nsq" + servers.EXE)
    stamp_file = program.with_name("stamp")
    try:
        # Where the servers were built, there may be a Go beside them.
        go = servers.find_go(servers.DIRECTORY.parent)
        stamp = _stamp(servers.go_version(go))
        if program.is_file() and stamp_file.is_file() and stamp_file.read_text(encoding="utf-8") == stamp:
            return program
        program.parent.mkdir(parents=True, exist_ok=True)
        servers.run([go, "build", "-buildvcs=false", "-trimpath", "-o", str(program), "."], MODULE)
    except servers.BuildError as error:
        raise Unavailable(f"go-nsq's program cannot be built: {error}") from error
    stamp_file.write_text(stamp, encoding="utf-8")
    return program


def _stamp(go: str) -> str:
    digest = hashlib.sha256()
    for path in sorted(MODULE.iterdir()):
        digest.update(path.read_bytes())
    return f"{go}\n{digest.hexdigest()}\n"
