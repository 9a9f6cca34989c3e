"""promtool, which comes with Prometheus and checks rules and metrics."""

from __future__ import annotations

import shutil
import subprocess

import pytest


def promtool(*arguments: str, text: bytes = b"") -> None:
    """Run promtool with a text as its input; the test fails when it finds something."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed")
    done = subprocess.run([program, *arguments], input=text, capture_output=True, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def check_metrics(text: bytes) -> None:
    """Check the text of a scrape."""
    promtool("check", "metrics", text=text)
