"""A process of the supervisor: started, asked, drained, and killed if it does not end."""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

import anyio
from anyio.abc import Process, SocketStream

from .link import Questions

_log = logging.getLogger("nsq_anyio.service")


class ServiceProcess:
    """A process that runs the command line ``arguments`` as a child of the supervisor.

    :param name: its name in the log, such as ``process 2``
    :param patience: the seconds that it has to drain before it is killed
    :ivar questions: asks the process; None unless it is running
    :ivar has_started: whether it has started its service
    :ivar was_killed: whether it had to be killed because it did not drain in time
    """

    def __init__(self, name: str, arguments: Sequence[str], patience: float) -> None:
        self.name = name
        self.questions: Questions | None = None
        self.was_killed: bool = False
        self.has_started: bool = False
        self._arguments = arguments
        self._patience = patience
        self._process: Process | None = None

    def kill(self) -> None:
        """Kill the process, if it is running."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def run(self, drain: anyio.Event, started: anyio.Event | None = None) -> int:
        """Run the process; return its exit code, or the negative number of the signal that ended it.

        :param drain: set to drain the process
        :param started: set once the process has started its service
        :raises OSError: if the system cannot start the process
        """
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", f"{__package__}.child", str(theirs.fileno()), *self._arguments]
        with ours, theirs:
            process = await anyio.open_process(
                command, stdin=subprocess.DEVNULL, stdout=None, stderr=None, pass_fds=[theirs.fileno()]
            )
            theirs.close()  # otherwise the link would not end with the process
            self._process = process
            async with process:
                ours.setblocking(False)
                async with await SocketStream.from_socket(ours) as link, anyio.create_task_group() as tasks:
                    self.questions = Questions(link)
                    tasks.start_soon(self._note_start, self.questions, process.pid, started)
                    tasks.start_soon(self._read, self.questions)
                    tasks.start_soon(self._drain_at, drain, link)
                    try:
                        await process.wait()
                    finally:
                        self.questions = None
                    tasks.cancel_scope.cancel()
        code = process.returncode
        assert code is not None  # noqa: S101 - it has been waited for
        return code

    async def _note_start(self, questions: Questions, pid: int, started: anyio.Event | None) -> None:
        await questions.started.wait()
        self.has_started = True
        _log.info("%s has started, with process id %d", self.name, pid)
        if started is not None:
            started.set()

    async def _drain_at(self, drain: anyio.Event, link: SocketStream) -> None:
        await drain.wait()
        assert self._process is not None  # noqa: S101 - `run` has set it
        if self.has_started:
            with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):  # it has just ended
                await link.send_eof()
        else:
            self._process.terminate()  # it holds no message yet, and its imports might take long
        await self._kill_later("drain")

    async def _read(self, questions: Questions) -> None:
        await questions.read()
        await self._kill_later("end")  # its service has ended, perhaps with an error, but a thread still runs

    async def _kill_later(self, what: str) -> None:
        assert self._process is not None  # noqa: S101 - `run` has set it
        await anyio.sleep(self._patience)
        _log.error("%s did not %s within %g s, and is killed", self.name, what, self._patience)
        self.was_killed = True
        self._process.kill()


def how_it_ended(code: int) -> str:
    """Describe an exit code in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"
