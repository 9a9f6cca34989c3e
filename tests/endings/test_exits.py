"""Handlers and signals that end the program: promptly, with the right status, handing back messages."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from .exits import STATUS
from .loops import Loop, every_loop

BOUND = 30.0
"""Seconds for a program, which takes one where nothing else runs."""


def _command(loop: Loop, block: str, handler: str) -> list[str]:
    return [sys.executable, "-m", "tests.endings.exits", loop.name, block, handler]


def _end(loop: Loop, block: str, handler: str) -> tuple[int, str]:
    """Run the program; its status, and what it has written."""
    command = _command(loop, block, handler)
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


def _signalled(loop: Loop, block: str, handler: str, ready: int, *numbers: signal.Signals) -> tuple[int, str]:
    """Run the program, and send it signals when so many handlers run; its status, and what it has written."""
    pipe = subprocess.PIPE
    with subprocess.Popen(_command(loop, block, handler), stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        for _ in range(ready):
            assert process.stdout.readline() == "ready\n"
        for number in numbers:
            process.send_signal(number)
            time.sleep(0.3)
        try:
            _, written = process.communicate(timeout=BOUND)
        finally:
            process.kill()
    return process.returncode, written


no_windows = pytest.mark.skipif(sys.platform == "win32", reason="it has no such signals")


@no_windows
@every_loop
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drains_all_services_of_a_program(loop: Loop, number: signal.Signals) -> None:
    status, written = _signalled(loop, "serve twice", "asleep", 2, number)
    assert status == 0, written
    assert "left in flight" not in written


@no_windows
@every_loop
def test_the_second_signal_ends_a_program_whose_event_loop_is_blocked(loop: Loop) -> None:
    status, _ = _signalled(loop, "serve", "blocking", 1, signal.SIGTERM, signal.SIGINT)
    assert status == 128 + signal.SIGINT
