"""The Go programs of the benchmarks, built as the real servers are: see ``tests/servers/build.py``."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..servers import build as servers
from .environments import DIRECTORY, Unavailable

MODULE = Path(__file__).resolve().parent / "go_nsq"
CLIENT = DIRECTORY / "go-nsq" / ("go_nsq" + servers.EXE)
"""The client that is measured."""
SINK = CLIENT.with_name("sink" + servers.EXE)
"""The HTTP server that commands are measured with."""


def build() -> None:
    """Build both programs, unless they are up to date.

    :raises Unavailable: they cannot be built
    """
    stamp_file = CLIENT.with_name("stamp")
    try:
        # Where the servers were built, there may be a Go beside them.
        go = servers.find_go(servers.DIRECTORY.parent)
        stamp = _stamp(servers.go_version(go))
        if (
            CLIENT.is_file()
            and SINK.is_file()
            and stamp_file.is_file()
            and stamp_file.read_text(encoding="utf-8") == stamp
        ):
            return
        CLIENT.parent.mkdir(parents=True, exist_ok=True)
        for program, package in ((CLIENT, "."), (SINK, "./sink")):
            servers.run([go, "build", "-buildvcs=false", "-trimpath", "-o", str(program), package], MODULE)
    except servers.BuildError as error:
        raise Unavailable(f"the Go programs cannot be built: {error}") from error
    stamp_file.write_text(stamp, encoding="utf-8")


def _stamp(go: str) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in MODULE.rglob("*") if path.is_file()):
        digest.update(path.read_bytes())
    return f"{go}\n{digest.hexdigest()}\n"
