"""How fast ``tail`` and ``pub`` are beside nsq_tail and to_nsq, from start to end of a process.

The figures of a quiet machine: ``NSQ_ANYIO_SPEED_MESSAGES=1000000 NSQ_ANYIO_SPEED_ROUNDS=3 pytest -s`` and
the name of this file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from random import Random
from statistics import median

import pytest

from ..benchmarks.nsqds import Nsqds, running_nsqds
from ..benchmarks.payloads import event
from ..real_servers import program

MESSAGES = int(os.environ.get("NSQ_ANYIO_SPEED_MESSAGES", "100000"))
PUBLISHED = MESSAGES // 5
"""By `pub`, since to_nsq takes many times as long for each."""
ROUNDS = int(os.environ.get("NSQ_ANYIO_SPEED_ROUNDS", "3"))
SIZE = 100
LIMIT = 90.0

AT_LEAST = 0.5
"""Of the rate of the NSQ utility: far below what is usual, as a short run is more start than work, and the
machine may do other work meanwhile."""

pytestmark = pytest.mark.timeout(900)

Report = Callable[[str, int, dict[str, list[float]]], float]


@pytest.fixture(scope="module")
def nsqds() -> Generator[Nsqds]:
    with running_nsqds() as running:
        yield running


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str], record_property: Callable[[str, object], None]) -> Report:
    """Print the median rates of seconds by name, the first ours; return our part of the other's rate."""

    def print_and_compare(what: str, messages: int, seconds: dict[str, list[float]]) -> float:
        rates = {name: messages / median(times) for name, times in seconds.items()}
        ours, theirs = rates.values()
        each = "; ".join(f"{name} {rate:,.0f} messages/s" for name, rate in rates.items())
        text = f"{what}: {each}; ratio {ours / theirs:.2f}"
        record_property("rate", text)
        with capsys.disabled():
            print(f"\n{text}")  # noqa: T201 - for the log of CI
        return ours / theirs

    return print_and_compare


def ours(command: str) -> Sequence[str]:
    return (sys.executable, "-m", "nsq_anyio", command)


def theirs(name: str) -> Sequence[str]:
    return (str(program(name)),)


def timed(command: Sequence[str], source: Path, sink: Path) -> float:
    """Seconds that a process takes to read one file and write the other."""
    with source.open("rb") as stdin, sink.open("wb") as stdout:
        started_at = time.perf_counter()
        done = subprocess.run(
            command, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE, timeout=LIMIT, check=False
        )
        seconds = time.perf_counter() - started_at
    assert done.returncode == 0, done.stderr.decode()
    return seconds


def test_tail(nsqds: Nsqds, tmp_path: Path, report: Report) -> None:
    commands = {"nsq-anyio tail": ours("tail"), "nsq_tail": theirs("nsq_tail")}
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for round in range(ROUNDS):
        printed: list[bytes] = []
        for name, command in commands.items():
            topic, sink = f"tail-{round}-{len(printed)}", tmp_path / "printed"
            nsqds.create(topic, "c")
            nsqds.fill(topic, "c", MESSAGES, SIZE)
            arguments = [f"--topic={topic}", "--channel=c", f"-n={MESSAGES}", *to(nsqds)]
            seconds[name].append(timed([*command, *arguments], Path(os.devnull), sink))
            if command == commands["nsq-anyio tail"]:
                nsqds.check_consumed(topic, "c", MESSAGES, MESSAGES, answered=True)
            nsqds.delete(topic)
            printed.append(b"\n".join(sorted(sink.read_bytes().split(b"\n"))))
        assert printed[0] == printed[1]
        assert len(printed[0]) == MESSAGES * (SIZE + 1)
    assert report("tail", MESSAGES, seconds) >= AT_LEAST


def test_pub(nsqds: Nsqds, tmp_path: Path, report: Report) -> None:
    source = tmp_path / "lines"
    create_lines(source)
    commands = {"nsq-anyio pub": ours("pub"), "to_nsq": theirs("to_nsq")}
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for round in range(ROUNDS):
        for name, command in commands.items():
            topic = f"pub-{round}"
            nsqds.create(topic, "")
            arguments = [f"--topic={topic}", *to(nsqds)]
            seconds[name].append(timed([*command, *arguments], source, Path(os.devnull)))
            nsqds.check_published(topic, PUBLISHED)
            nsqds.delete(topic)
    assert report("pub", PUBLISHED, seconds) >= AT_LEAST


def to(nsqds: Nsqds) -> list[str]:
    return [f"--nsqd-tcp-address={address}" for address in nsqds.addresses]


def create_lines(path: Path) -> None:
    """Write a line for each message that is measured."""
    random = Random(SIZE)
    with path.open("wb") as file:
        file.writelines(event(random, SIZE) + b"\n" for _ in range(PUBLISHED))
