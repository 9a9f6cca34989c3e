"""Programs that use the producer for plain functions, each in an interpreter of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import dataclass

# Far more than any of them takes, and less than any of the waits that must not happen.
LIMIT = 40.0

PRELUDE = """
import contextlib, os, signal, sys, threading, time
import nsq_anyio as nsq

address, backend = sys.argv[1:3]
"""


@dataclass
class Ended:
    """How a program has ended.

    :ivar seconds: how long it ran
    """

    code: int
    output: str
    errors: str
    seconds: float


def run(program: str, *arguments: str, limit: float = LIMIT) -> Ended:
    """Run it to its end; one that does not end within ``limit`` is killed and fails the test.

    What it prints should be short: it is read when it has ended.
    """
    source = PRELUDE + textwrap.dedent(program)
    # From 3.12 on, Python warns of a fork beside other threads, which is what some programs are about.
    quiet = ("-W", "ignore:This process:DeprecationWarning")
    # Unbuffered: a child that is forked would print once more what its parent has not written yet.
    command = [sys.executable, "-u", *quiet, "-c", source, *arguments]
    started = time.monotonic()
    # A session of its own, so that the processes it forks can be killed with it.
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            raise AssertionError(f"still there after {limit} s; it printed {output!r}, {errors!r}") from None
    return Ended(process.returncode, output, errors, time.monotonic() - started)
