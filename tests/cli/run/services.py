"""``nsq-anyio run`` in processes of its own, with handlers that note what they do."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import httpx

LIMIT = 60.0
"""Seconds until a test gives up waiting; each process takes a second or more to start on a busy machine."""

ROOT = Path(__file__).parents[3]

HANDLERS = '''
import os, signal, time
from contextlib import asynccontextmanager
from contextvars import ContextVar
import anyio
import nsq_anyio as nsq

def note(*words):
    with open(os.environ["NOTES"], "a") as notes:
        notes.write(" ".join(map(str, words)) + "\\n")

async def handle(message):
    """Take as many seconds as the body says."""
    body = message.body.decode()
    note("begin", os.getpid(), body, message.attempts)
    await anyio.sleep(float(body.partition(":")[2] or 0))
    note("end", os.getpid(), body, message.attempts)

def plain(message):
    body = message.body.decode()
    note("begin", os.getpid(), body, message.attempts)
    time.sleep(float(body.partition(":")[2] or 0))
    note("end", os.getpid(), body, message.attempts)

class Opened:
    """Whether the lifespan runs, as module and context know it."""
    module = False
    context = ContextVar("context", default=False)

@asynccontextmanager
async def lifespan():
    note("open", os.getpid(), "lifespan", 0)
    Opened.module = True
    Opened.context.set(True)
    await anyio.sleep(0.1)
    try:
        yield
    finally:
        await anyio.sleep(0.1)
        Opened.module = False
        note("close", os.getpid(), "lifespan", 0)

async def need(message):
    note("begin", os.getpid(), f"{Opened.module},{Opened.context.get()}", message.attempts)
    await anyio.sleep(float(message.body))
    note("end", os.getpid(), f"{Opened.module},{Opened.context.get()}", message.attempts)

def need_plain(message):
    note("begin", os.getpid(), f"{Opened.module},{Opened.context.get()}", message.attempts)
    time.sleep(float(message.body))
    note("end", os.getpid(), f"{Opened.module},{Opened.context.get()}", message.attempts)

@asynccontextmanager
async def closed_database():
    raise ConnectionError("no database")
    yield

def _save(batch):
    bodies = sorted(message.body.decode() for message in batch)
    note("begin", os.getpid(), ",".join(bodies), batch[0].attempts)

save = nsq.BatchHandler(_save, max_size=3)

async def fail(message):
    note("begin", os.getpid(), message.body.decode(), message.attempts)
    raise ValueError("no luck")

async def block(message):
    """Block the event loop."""
    note("begin", os.getpid(), message.body.decode(), message.attempts)
    time.sleep(1000)
'''


class Note(NamedTuple):
    """What a handler has noted."""

    what: str
    pid: int
    body: str
    attempts: int


@dataclass(frozen=True)
class Service:
    """A running service.

    :ivar directory: where it runs, and where its handlers are
    """

    process: subprocess.Popen[bytes]
    directory: Path

    def notes(self, what: str = "") -> list[Note]:
        """What handlers have noted, in order."""
        path = self.directory / "notes"
        lines = path.read_text().splitlines() if path.exists() else []
        words = [line.split(" ") for line in lines]
        found = [Note(what, int(pid), body, int(attempts)) for what, pid, body, attempts in words]
        return [note for note in found if what in ("", note.what)]

    def pids(self) -> set[int]:
        """The processes that have handled messages."""
        return {note.pid for note in self.notes()}

    @property
    def log(self) -> str:
        """What it, and its processes, have logged."""
        return (self.directory / "log").read_text()

    def until(self, done: Callable[[], object]) -> None:
        """Wait, as long as it runs."""

        def is_done() -> bool:
            assert self.process.poll() is None, self.log
            return bool(done())

        until(is_done, self)

    def get(self, path: str) -> tuple[int, str]:
        """The status and the text of an answer of its endpoint; 0 while there is none."""
        found = re.findall(r"HTTP: listening on (\S+)", self.log)
        if not found:
            return 0, ""
        reply = httpx.get(f"http://{found[-1]}{path}", trust_env=False, timeout=LIMIT)
        return reply.status_code, reply.text

    def until_ready(self) -> None:
        """Wait until all processes are ready."""
        self.until(lambda: self.get("/readyz")[0] == 200)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(LIMIT)


@contextmanager
def service(directory: Path, *arguments: str) -> Generator[Service]:
    """Run ``nsq-anyio run`` in ``directory``; it is killed at the end, with its processes."""
    environment = {**os.environ, "NOTES": str(directory / "notes"), "PYTHONPATH": str(ROOT)}
    with (directory / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "nsq_anyio", "run", *arguments],
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    running = Service(process, directory)
    try:
        yield running
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(LIMIT)


def write_handlers(directory: Path) -> None:
    """Write the module ``tasks``."""
    (directory / "tasks.py").write_text(HANDLERS)


def until(done: Callable[[], object], running: Service) -> None:
    """Wait until ``done`` says so; the log tells why it did not."""
    limit = time.monotonic() + LIMIT
    while not done():
        assert time.monotonic() < limit, running.log
        time.sleep(0.02)


def exists(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for yet does not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
