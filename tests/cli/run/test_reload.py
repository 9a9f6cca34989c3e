"""``nsq-anyio run --reload``: the code that is saved is the code that runs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nsq_anyio.cli.backend import BACKENDS

from ..forwarders import Server
from .services import HANDLERS, LIMIT, service

pytest.importorskip("watchfiles")

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="--reload needs another system"),
    pytest.mark.timeout(180),
]

RELOAD = ("--reload", "--http-address", "127.0.0.1:0")
CHANGED = HANDLERS.replace('note("end"', 'note("changed"')


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_change_starts_it_again_and_a_mistake_waits_for_the_next(
    nsqd: Server, topic: str, source: list[str], directory: Path, backend: str
) -> None:
    with service(directory, "tasks:handle", *source, *RELOAD, "--backend", backend) as running:
        running.until_ready()
        nsqd.publish(topic, b"a")
        running.until(lambda: running.notes("end"))

        (directory / "tasks.py").write_text("x = (\n")
        running.until(lambda: "waiting for a change of the code" in running.log)
        assert "SyntaxError: '(' was never closed" in running.log

        (directory / "tasks.py").write_text(CHANGED)
        running.until_ready()
        nsqd.publish(topic, b"b")
        running.until(lambda: running.notes("changed"))
        assert running.notes("changed")[0].pid != running.notes("end")[0].pid
        assert running.end(signal.SIGINT) == 0, running.log
        assert "Traceback" not in running.log


def test_a_mistake_at_the_start_waits_for_a_change(source: list[str], directory: Path) -> None:
    (directory / "tasks.py").write_text("x = (\n")
    with service(directory, "tasks:handle", *source, *RELOAD) as running:
        running.until(lambda: "waiting for a change of the code" in running.log)
        (directory / "tasks.py").write_text(HANDLERS)
        running.until_ready()
        assert running.end() == 0, running.log


def test_without_watchfiles_it_names_the_extra(source: list[str], directory: Path) -> None:
    (directory / "watchfiles.py").write_text("raise ModuleNotFoundError('no', name='watchfiles')\n")
    with service(directory, "tasks:handle", *source, *RELOAD) as running:
        assert running.process.wait(LIMIT) == 2
        assert "watchfiles is not installed: pip install 'nsq-anyio[reload]'" in running.log


def test_importing_the_commands_needs_no_watchfiles() -> None:
    code = "import sys; sys.modules['watchfiles'] = None; import nsq_anyio.cli.run.run"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LIMIT)
