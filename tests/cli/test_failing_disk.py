"""``nsq-anyio nsqd`` on a disk that fails or is full, at random moments: every answer and every end is true.

`NSQ_ANYIO_DISK_ROUNDS` is the number of rounds of each kind; there are few by default, because CI has little
time. System calls fail by a preloaded library, which needs a C compiler. A file system that is really full
needs the right to mount one; without it, writes fail as they do there.
"""

import errno
import os
import random
import re
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import real_servers
from tests.cli.servers import ANY_PORTS, listening, running
from tests.cli.test_killed_nsqd import DURABLE, LIMIT, Ledger, connect, frame

ROUNDS = int(os.environ.get("NSQ_ANYIO_DISK_ROUNDS", "1"))
FAULTS = ("write", "fsync", "rename", "unlink", "full")
ENDS = ("kill", "stop", "freeze and kill", "freeze and stop")
SMALL, LARGE = "1m", "200m"

pytestmark = pytest.mark.timeout(120 + 30 * ROUNDS)


class Faults:
    """Lets system calls below ``data`` fail."""

    def __init__(self, directory: Path, *, is_mounted: bool) -> None:
        self.data = directory / "data"
        self._switches = directory / "switches"
        self._switches.mkdir()
        self._is_mounted = is_mounted

    def begin(self, fault: str) -> None:
        if fault != "full":
            (self._switches / fault).write_text(str(errno.EIO))
        elif self._is_mounted:
            _mount(self.data, SMALL, "remount,")
        else:
            (self._switches / "write").write_text(str(errno.ENOSPC))

    def end(self) -> None:
        if self._is_mounted:
            _mount(self.data, LARGE, "remount,")
        for switch in self._switches.iterdir():
            switch.unlink()

    @contextmanager
    def preloaded(self, library: Path) -> Generator[None]:
        """Processes that are started meanwhile are subject to the faults."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LD_PRELOAD", str(library))
            patch.setenv("FAULTS_BELOW", str(self.data))
            patch.setenv("FAULTS_WHILE", str(self._switches))
            yield


def _mount(path: Path, size: str, options: str = "") -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"{options}size={size}", "tmpfs", str(path)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("library") / "failing_calls.so"
    source = Path(__file__).with_name("failing_calls.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", path, source, "-ldl"], check=True)
    return path


@pytest.fixture
def faults(tmp_path: Path) -> Generator[Faults]:
    data = tmp_path / "data"
    data.mkdir()
    is_mounted = _mount(data, LARGE)
    yield Faults(tmp_path, is_mounted=is_mounted)
    if is_mounted:
        subprocess.run(["umount", str(data)], check=True)


class Removals:
    """Publishes numbers, and removes them; ``gone`` is the last one that an answer said to be removed."""

    def __init__(self) -> None:
        self.number = 0
        self.gone = 0

    def run(self, http: str, rng: random.Random) -> None:
        try:
            while True:
                self.number += 1
                post(http, "pub?topic=removed", b"%d" % self.number)
                if rng.random() < 0.3:
                    path = rng.choice(["topic/empty", "topic/delete"])
                    if post(http, f"{path}?topic=removed") == 200:
                        self.gone = self.number
        except httpx.TransportError:
            return


def post(http: str, path: str, body: bytes = b"") -> int:
    return httpx.post(f"http://{http}/{path}", content=body, trust_env=False, timeout=LIMIT).status_code


def ended(nsqd: subprocess.Popen[str], how: str) -> tuple[int, str]:
    """End a process in one of the ways; return its code and what it said."""
    if how.startswith("freeze"):
        nsqd.send_signal(signal.SIGSTOP)
        time.sleep(0.05)
    nsqd.send_signal(signal.SIGKILL if how.endswith("kill") else signal.SIGTERM)
    nsqd.send_signal(signal.SIGCONT)
    _, said = nsqd.communicate(timeout=LIMIT)
    return nsqd.returncode, said


def left_in(stats: dict[str, Any], topic: str) -> int:
    return sum(
        each["depth"] + each.get("in_flight_count", 0) + each.get("deferred_count", 0)
        for found in stats["topics"]
        if found["topic_name"] == topic
        for each in (found, *found["channels"])
    )


def drained(addresses: dict[str, str], topic: str) -> set[int]:
    """Finish all messages of a topic's channel; return the numbers with which their bodies begin."""
    found: set[int] = set()
    deadline = time.monotonic() + LIMIT
    with connect(addresses["TCP"]) as stream:
        stream.sendall(b"SUB %b c\nRDY 100\n" % topic.encode())
        while time.monotonic() < deadline:
            if not select.select([stream], [], [], 0.2)[0]:
                url = f"http://{addresses['HTTP']}/stats?format=json"
                if not left_in(httpx.get(url, trust_env=False).json(), topic):
                    return found
                continue
            kind, data = frame(stream)
            if kind == 2:
                found.add(int(data[26:].split()[0]))
                stream.sendall(b"FIN %b\n" % data[10:26])
    raise AssertionError(f"{topic} is not empty after {LIMIT} s")


@contextmanager
def successor(path: Path, *, is_real: bool) -> Generator[dict[str, str]]:
    """The addresses of an nsqd that goes on with the files, and is stopped at the end."""
    # A message that is there twice may wait so long for its other copy.
    flags = (*ANY_PORTS, f"--data-path={path}", "--msg-timeout=2s")
    program = (real_servers.DIRECTORY / "nsqd",) if is_real else (sys.executable, "-m", "nsq_anyio", "nsqd")
    with subprocess.Popen([*program, *flags], stderr=subprocess.PIPE, text=True) as nsqd:
        try:
            addresses = listening(nsqd)
            assert nsqd.stderr is not None
            threading.Thread(target=nsqd.stderr.read).start()  # a real one logs more than a pipe holds
            yield addresses
            nsqd.terminate()
            assert nsqd.wait(LIMIT) == 0
        finally:
            nsqd.kill()


def run_round(
    faults: Faults, library: Path, fault: str, how: str, flags: tuple[str, ...], rng: random.Random
) -> int:
    """Run one nsqd to its end; return how many messages are missing that it had confirmed."""
    here, late, removals = Ledger("t"), Ledger("late"), Removals()
    with faults.preloaded(library), running("nsqd", *ANY_PORTS, f"--data-path={faults.data}", *flags) as nsqd:
        addresses = listening(nsqd)
        tcp, http = addresses["TCP"], addresses["HTTP"]
        threads = [
            threading.Thread(target=here.publish, args=(tcp, rng.random())),
            threading.Thread(target=here.consume, args=(tcp, rng.random())),
            threading.Thread(target=late.publish, args=(tcp, rng.random())),
            threading.Thread(target=removals.run, args=(http, random.Random(rng.random()))),
        ]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + LIMIT
        while not (here.confirmed and late.confirmed) and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.5))
        faults.begin(fault)
        time.sleep(rng.uniform(0, 0.3))
        post(http, "channel/create?topic=late&channel=c")
        time.sleep(rng.uniform(0, 0.5))
        if rng.random() < 0.3:
            faults.end()
            time.sleep(rng.uniform(0, 0.3))
        code, said = ended(nsqd, how)
        for thread in threads:
            thread.join()
    faults.end()
    with successor(faults.data, is_real=code == 0 and rng.random() < 0.5) as addresses:
        missing = sum(
            len(each.confirmed - each.delivered - drained(addresses, each.topic.decode()))
            for each in (here, late)
        )
        back = [number for number in drained(addresses, "removed") if number <= removals.gone]
        assert not back
        assert post(addresses["HTTP"], "topic/delete?topic=removed") == 200
    confirmed = len(here.confirmed), len(late.confirmed)
    # With `-rP`, pytest shows the figures of a long run.
    print(fault, how, f"exit={code} {confirmed=} {missing=} removed={removals.gone}")  # noqa: T201
    assert all(confirmed)
    if not how.endswith("kill"):
        lost = re.search(r"(\d+) messages could not be stored at the end, and are lost", said)
        assert (code == 0) == ("could be stored at the end" not in said and not lost), said
        assert missing <= (int(lost[1]) if lost else 0), said
    return missing


@pytest.mark.parametrize("fault", FAULTS if ROUNDS > 1 else ("write", "full"))
def test_nothing_that_was_stored_is_lost(faults: Faults, library: Path, fault: str) -> None:
    rng = random.Random(fault)
    for number in range(ROUNDS):
        how = ENDS[number % len(ENDS)] if ROUNDS > 1 else rng.choice(ENDS)
        assert run_round(faults, library, fault, how, DURABLE, rng) == 0, (fault, how)


@pytest.mark.parametrize("fault", FAULTS if ROUNDS > 1 else ("full",))
def test_an_end_tells_what_it_could_not_store(faults: Faults, library: Path, fault: str) -> None:
    rng = random.Random(fault)
    for number in range(ROUNDS):
        run_round(faults, library, fault, ENDS[1::2][number % 2], ("--mem-queue-size=200",), rng)
