"""A program in a process group of its own, of which nothing is left after a test."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["in_own_group", "lines"]


@contextmanager
def in_own_group(
    command: Sequence[str], directory: Path, environment: Mapping[str, str]
) -> Generator[subprocess.Popen[bytes]]:
    """Run a program in a directory, whose file ``log`` gets its output; its group is killed at the end.

    :param environment: variables besides those of this process
    """
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(
            command,
            cwd=directory,
            env={**os.environ, **environment},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):  # it has ended
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def lines(path: Path) -> list[str]:
    """What the program has noted in a file."""
    return path.read_text().splitlines() if path.exists() else []
