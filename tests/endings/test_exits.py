"""Handlers that end the program: it ends promptly, with their status, and hands back what it has."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from .exits import STATUS
from .loops import Loop, every_loop

BOUND = 30.0
"""Seconds for a program, which takes one where nothing else runs."""


def _end(loop: Loop, block: str, handler: str) -> tuple[int, str]:
    """Run the program; its status, and what it has written."""
    command = [sys.executable, "-m", "tests.endings.exits", loop.name, block, handler]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=False)
    return ended.returncode, ended.stderr


@every_loop
@pytest.mark.parametrize(
    ("block", "handler"), [("run", "in a thread"), ("serve", "plain"), ("hook", "patient")]
)
def test_the_status(loop: Loop, block: str, handler: str) -> None:
    status, written = _end(loop, block, handler)
    assert status == STATUS
    assert "Traceback" not in written
    assert "left in flight" not in written


@every_loop
def test_an_interrupt(loop: Loop) -> None:
    status, written = _end(loop, "serve", "interrupted")
    assert status == (-signal.SIGINT if sys.platform != "win32" else 0xC000013A)
    assert "left in flight" not in written


@every_loop
def test_in_a_task_of_the_program(loop: Loop) -> None:
    status, written = _end(loop, "run in a task", "plain")
    # A task group of the program raises its tasks' errors in a group. Only asyncio looks into its tasks.
    assert status == (1 if loop.name == "trio" else STATUS)
    assert "left in flight" not in written
