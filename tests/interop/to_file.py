"""nsq-anyio to-file and nsq_to_file as processes."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from anyio.abc import Process

from ..processes import ending
from .observe import LIMIT

TO_FILE = (sys.executable, "-m", "nsq_anyio", "to-file")


@asynccontextmanager
async def running(
    log_directory: Path, *arguments: str, command: Sequence[str] = TO_FILE
) -> AsyncGenerator[Archiver]:
    """Killed at the end, if it still runs."""
    log_path = log_directory / f"log-{uuid.uuid4()}"
    with log_path.open("wb") as log:
        process = await anyio.open_process(
            [*command, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    async with ending(process):
        yield Archiver(process, log_path)


class Archiver:
    """A running archiver, ours or the real one."""

    def __init__(self, process: Process, log_path: Path) -> None:
        self.process = process
        self._log_path = log_path

    @property
    def log(self) -> str:
        return self._log_path.read_text()

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return await self.wait()

    async def wait(self) -> int:
        with anyio.fail_after(LIMIT):
            return await self.process.wait()
