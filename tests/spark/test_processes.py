"""Programs that tests start do not outlive them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from .nsqds import ROOT, wait_until
from .processes import running

_STARTS_ONE = """
import os, pathlib, sys
from tests.spark.processes import running

directory = pathlib.Path(sys.argv[1])
with running(["sleep", "1000"], log_path=directory / "log", env=os.environ, cwd=directory) as program:
    print(program.process.pid, flush=True)
    program.process.wait()
"""


def test_program_ends_with_the_block(tmp_path: Path) -> None:
    command = ["sh", "-c", "sleep 1000 & sleep 1000"]
    with running(command, log_path=tmp_path / "log", env=os.environ, cwd=tmp_path) as program:
        wait_until(lambda: len(program.members()) == 3, "the shell to start both")
    assert program.process.returncode == -signal.SIGKILL
    wait_until(lambda: not program.members(), "what the shell had started to end")


def test_program_ends_when_the_tests_are_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _STARTS_ONE, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as tests:
        assert tests.stdout is not None
        pid = int(tests.stdout.readline())
        assert Path(f"/proc/{pid}").exists()
        tests.kill()
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the end of a program without a parent")
