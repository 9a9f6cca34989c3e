"""How fast ``to-file`` archives beside nsq_to_file, from the start of a process until all is finished.

The figures of a quiet machine: ``NSQ_ANYIO_SPEED_MESSAGES=1000000 pytest -s`` and the name of this file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import pytest

from ..benchmarks.nsqds import Miscounted, Nsqds, running_nsqds
from ..real_servers import program

MESSAGES = int(os.environ.get("NSQ_ANYIO_SPEED_MESSAGES", "200000"))
ROUNDS = int(os.environ.get("NSQ_ANYIO_SPEED_ROUNDS", "3"))
SIZE = 100
LIMIT = 90.0

SYNC_INTERVAL = "200ms"
"""Of both. The last messages wait for its end, so it is short to matter little in a short run."""

AT_LEAST = 1.0
"""Of nsq_to_file's rate: below what was measured, 1.7 to 2.4 with a million messages and 1.5 to 1.8 with
200,000, for machines that do other work meanwhile."""

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def nsqds() -> Generator[Nsqds]:
    with running_nsqds() as running:
        yield running


@contextmanager
def running(command: Sequence[str], log_path: Path) -> Generator[subprocess.Popen[bytes]]:
    """Killed at the end, if it still runs."""
    with log_path.open("wb") as log, subprocess.Popen(command, stderr=log) as process:
        try:
            yield process
        finally:
            process.kill()


def until_finished(nsqds: Nsqds, topic: str, process: subprocess.Popen[bytes]) -> None:
    """Wait until nsqd has delivered each message once, and has each one's FIN."""
    give_up_at = time.perf_counter() + LIMIT
    while True:
        try:
            nsqds.check_consumed(topic, "c", MESSAGES, MESSAGES, answered=True)
        except Miscounted:
            assert process.poll() is None
            if time.perf_counter() > give_up_at:
                raise
            time.sleep(0.02)
        else:
            return


def archived(directory: Path) -> list[bytes]:
    """The sorted lines of the one file."""
    (path,) = directory.iterdir()
    return sorted(path.read_bytes().splitlines())


@pytest.mark.parametrize("max_in_flight", [200, 2500])
def test_to_file(
    nsqds: Nsqds,
    tmp_path: Path,
    max_in_flight: int,
    capsys: pytest.CaptureFixture[str],
    record_property: Callable[[str, object], None],
) -> None:
    commands = {
        "nsq-anyio to-file": (sys.executable, "-m", "nsq_anyio", "to-file"),
        "nsq_to_file": (str(program("nsq_to_file")),),
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for round in range(ROUNDS):
        found: list[list[bytes]] = []
        for name, command in list(commands.items())[:: -1 if round % 2 else 1]:
            topic = f"archived-{max_in_flight}-{round}-{len(found)}"
            output = tmp_path / topic
            nsqds.create(topic, "c")
            nsqds.fill(topic, "c", MESSAGES, SIZE)
            arguments = [
                f"--topic={topic}",
                "--channel=c",
                f"--nsqd-tcp-address={nsqds.addresses[0]}",
                f"--output-dir={output}",
                "--filename-format=<TOPIC>.log",
                f"--max-in-flight={max_in_flight}",
                f"--sync-interval={SYNC_INTERVAL}",
                "--log-level=error",
            ]
            log_path = tmp_path / "log"
            started_at = time.perf_counter()
            with running([*command, *arguments], log_path) as process:
                until_finished(nsqds, topic, process)
                seconds[name].append(time.perf_counter() - started_at)
                process.terminate()
                assert process.wait(LIMIT) == 0, log_path.read_text()
            nsqds.delete(topic)
            found.append(archived(output))
        assert found[0] == found[1]
        assert len(found[0]) == MESSAGES
    rates = {name: MESSAGES / median(times) for name, times in seconds.items()}
    ours, theirs = rates.values()
    each = "; ".join(f"{name} {rate:,.0f} messages/s" for name, rate in rates.items())
    text = f"to-file, {max_in_flight} in flight: {each}; ratio {ours / theirs:.2f}"
    record_property("rate", text)
    with capsys.disabled():
        print(f"\n{text}")  # noqa: T201 - for the log of CI
    assert ours >= AT_LEAST * theirs, text
