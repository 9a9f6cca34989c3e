"""``nsq-anyio`` as a process of its own, that reads and writes bytes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import IO

LIMIT = 20.0
COMMAND = (sys.executable, "-m", "nsq_anyio")


@contextmanager
def running(
    *arguments: str,
    stdout: int | IO[bytes] = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
    env: Mapping[str, str] | None = None,
    ulimit: str = "",
) -> Generator[subprocess.Popen[bytes]]:
    """With ``arguments``; killed at the end if it still runs. Its input is a pipe.

    :param ulimit: arguments of the shell's ``ulimit``, such as ``-n 64``
    """
    limited = ("sh", "-c", f'ulimit {ulimit} && exec "$@"', "sh") if ulimit else ()
    with subprocess.Popen(
        [*limited, *COMMAND, *arguments],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        env=_environment(env or {}),
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def run(
    *arguments: str, data: bytes = b"", stdout: int | IO[bytes] = subprocess.PIPE, **env: str
) -> subprocess.CompletedProcess[bytes]:
    """With ``arguments``, to its end."""
    return subprocess.run(
        [*COMMAND, *arguments],
        input=data,
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=LIMIT,
        check=False,
        env=_environment(env),
    )


def end(process: subprocess.Popen[bytes], number: signal.Signals = signal.SIGTERM) -> tuple[bytes, str]:
    """Ask it to end, which it does with 0; the little that it printed and logged since.

    Its input stays open, so that it is the signal that ends it.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    process.send_signal(number)
    code = process.wait(LIMIT)
    log = process.stderr.read().decode()
    assert code == 0, log
    return process.stdout.read(), log


def asked_by_bash(line: str) -> dict[str, str]:
    """The variables by which bash's script asks what completes the last word of ``line``."""
    word = re.split("[ =:]", line)[-1]
    return {"_NSQ_ANYIO_COMPLETE": "bash_complete", "COMP_LINE": line, "COMP_WORD": word}


def read_terminal(descriptor: int) -> bytes:
    """What a process wrote to a terminal until all its ends were closed."""
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(descriptor, 4096)
        except OSError:  # Linux's word for the end of a pseudo-terminal
            break
        if not part:
            break
        parts.append(part)
    return b"".join(parts)


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    """A terminal that knows colours, whatever the tests run in."""
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "FORCE_COLOR"}}
    return {**kept, "TERM": "xterm-256color", **more}
