"""The real servers that ``nox -s servers`` builds, as `nsq_anyio.testing` runs them.

A test that cannot start them fails: it never skips.
"""

import os
import signal
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import anyio.abc

from nsq_anyio.testing import real_server as real
from nsq_anyio.testing.real_server import RealServer, RealServerError

from .servers import build

__all__ = [
    "DIRECTORY",
    "RealServer",
    "RealServerError",
    "program",
    "real_nsqadmin",
    "real_nsqd",
    "real_nsqlookupd",
    "suspend",
]

DIRECTORY = Path(os.environ.get("NSQ_ANYIO_SERVERS") or build.DIRECTORY)
"""Where the programs are: ``.nox/servers/bin``, or the directory that NSQ_ANYIO_SERVERS names."""

program = partial(real.program, DIRECTORY)
real_nsqd = partial(real.real_nsqd, DIRECTORY)
real_nsqlookupd = partial(real.real_nsqlookupd, DIRECTORY)


def suspend(process: anyio.abc.Process) -> None:
    """Let a server do nothing until it gets SIGCONT; the kernel still accepts connections for it."""
    process.send_signal(signal.SIGSTOP)
    # Until all of its threads have stopped, it may still answer.
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


@asynccontextmanager
async def real_nsqadmin(flags: Sequence[str]) -> AsyncGenerator[RealServer]:
    """Run nsqadmin for the length of the block.

    :param flags: the servers that it asks, such as ``--nsqd-http-address=127.0.0.1:4151``, and others
    :raises RealServerError: if it is missing, did not start, or ended by itself during the block
    """
    with tempfile.TemporaryDirectory(prefix="nsqadmin-") as own:
        arguments = ["--http-address=127.0.0.1:0", *flags]
        async with real.real_server(program("nsqadmin"), arguments, {"HTTP"}, Path(own)) as server:
            yield server
