"""A program in a process group of its own, of which nothing is left after a test."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import anyio

from .observe import until


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


async def restart(
    program: Callable[[], AbstractContextManager[subprocess.Popen[bytes]]],
    done: Callable[[], int],
    *,
    times: int,
    limit: float,
) -> None:
    """Start a program again and again; each time, end it once it has done a bit: by SIGTERM, or SIGKILL."""
    for number in range(times):
        before = done()
        with program() as process:
            await until(lambda before=before: done() >= before + 3, limit=limit)  # type: ignore[misc]
            if number % 3 == 2:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.terminate()
            with anyio.fail_after(limit):
                await anyio.to_thread.run_sync(process.wait)
