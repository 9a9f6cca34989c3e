"""Programs of Spark, each in a session of its own: so all of its descendants are found, and none stays."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from .nsqds import wait_until

_LIMIT = 240.0
_LOG_TAIL = 16 * 1024

# Linux ends the program with the tests, also when those are killed and can clean up nothing.
_ENDS_WITH_TESTS = ("setpriv", "--pdeathsig", "KILL", "--")

# Tests that ended before Linux was told have left the program to another parent: it does not begin.
_BEGINS_WITH_TESTS = ("sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"')


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """A running program with all that it has started."""

    process: subprocess.Popen[bytes]
    log_path: Path

    @property
    def log(self) -> str:
        """What it has written to standard output and error."""
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def members(self) -> list[int]:
        """The processes of its session: Spark's daemons make groups of their own, but no sessions."""
        return [pid for pid in _processes() if _status(pid).get("session") == self.process.pid]

    def wait(self, limit: float = _LIMIT) -> int:
        """Wait until it and all of its descendants have ended; return its exit code.

        :raises TimeoutError: with its log, if it does not end
        """
        try:
            code = self.process.wait(limit)
            wait_until(lambda: not self.members(), f"what {self.process.pid} had started", limit)
        except (subprocess.TimeoutExpired, TimeoutError) as error:
            raise TimeoutError(f"{error}; still there: {self.members()}; its log:\n{self.tail}") from None
        return code

    @property
    def tail(self) -> str:
        return self.log[-_LOG_TAIL:]

    def signal_another_thread(self, number: signal.Signals) -> None:
        """Send a signal to a thread that is not the main one: Linux may choose any that does not block it."""
        threads = [int(task.name) for task in Path(f"/proc/{self.process.pid}/task").iterdir()]
        other = max(thread for thread in threads if thread != self.process.pid)
        assert ctypes.CDLL(None).tgkill(self.process.pid, other, number) == 0

    def kill(self) -> None:
        """Kill it and all of its descendants (SIGKILL)."""
        for pid in self.members():
            # One that has ended meanwhile needs no kill.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(_LIMIT)


@contextmanager
def running(
    command: Sequence[str], *, log_path: Path, env: Mapping[str, str], cwd: Path
) -> Generator[Program]:
    """Start a program, and kill what is left of it at the end of the block.

    Call it in the main thread: Linux takes the end of the thread that starts a program for that of the tests.
    """
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [*_ENDS_WITH_TESTS, *_BEGINS_WITH_TESTS, str(os.getpid()), *command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
        )
    program = Program(process, log_path)
    try:
        yield program
    finally:
        program.kill()


def parent(pid: int) -> int:
    """Return the process that has started `pid`."""
    return _status(pid)["parent"]


def children(pid: int) -> list[int]:
    """Return the processes that `pid` has started, and that have not ended."""
    return [each for each in _processes() if _status(each).get("parent") == pid]


def command_line(pid: int) -> list[str]:
    """Return how a process was started; nothing for one that has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace").split("\0")
    except (FileNotFoundError, ProcessLookupError):
        return []


def _processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def _status(pid: int) -> dict[str, int]:
    """Parent and session of a process; nothing for one that has ended, even if its parent does not know."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return {}
    # The name stands in brackets, and may hold anything.
    state, parent, _group, session = text.rpartition(")")[2].split()[:4]
    return {} if state == "Z" else {"parent": int(parent), "session": int(session)}
