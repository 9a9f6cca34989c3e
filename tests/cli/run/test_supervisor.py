"""``nsq-anyio run --processes``: processes are started again, and drain together."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from nsq_anyio.cli.backend import BACKENDS

from ..forwarders import Server
from .services import LIMIT, Service, exists, service, until

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="--processes needs another system"),
    pytest.mark.timeout(240),
]

TWO = ("--processes", "2", "--http-address", "127.0.0.1:0")
SHORT = ("--consumer-opt", "drain_timeout,100ms")


def occupy(running: Service, nsqd: Server, topic: str, seconds: str) -> set[int]:
    """Give each of two processes a message to work on; their ids."""
    running.until_ready()
    before = len(running.notes("begin"))
    nsqd.publish(topic, f"a:{seconds}".encode(), f"b:{seconds}".encode())
    running.until(lambda: len(running.notes("begin")) == before + 2)
    pids = {note.pid for note in running.notes("begin")[before:]}
    assert len(pids) == 2
    assert running.process.pid not in pids
    return pids


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_the_parent_drains_all(
    nsqd: Server, topic: str, source: list[str], directory: Path, number: signal.Signals, backend: str
) -> None:
    with service(directory, "tasks:handle", *source, *TWO, "--backend", backend) as running:
        pids = occupy(running, nsqd, topic, "2")
        assert running.end(number) == 0, running.log
        assert {note.pid for note in running.notes("end")} == pids
        assert not any(map(exists, pids))
        assert "Traceback" not in running.log
    assert nsqd.is_done_with(topic, "c", 2)


def test_each_process_has_a_lifespan(nsqd: Server, topic: str, source: list[str], directory: Path) -> None:
    with service(directory, "tasks:need", *source, *TWO, "--lifespan", "tasks:lifespan") as running:
        running.until_ready()
        opened = {note.pid for note in running.notes("open")}
        assert len(opened) == 2
        assert running.process.pid not in opened
        assert running.end() == 0, running.log
        assert {note.pid for note in running.notes("close")} == opened


def test_ctrl_c_which_comes_to_all_processes_drains_them(
    nsqd: Server, topic: str, source: list[str], directory: Path
) -> None:
    with service(directory, "tasks:handle", *source, *TWO) as running:
        occupy(running, nsqd, topic, "2")
        os.killpg(running.process.pid, signal.SIGINT)
        assert running.process.wait(LIMIT) == 0, running.log
        assert len(running.notes("end")) == 2


def test_the_second_signal_ends_all_at_once(
    nsqd: Server, topic: str, source: list[str], directory: Path
) -> None:
    with service(directory, "tasks:handle", *source, *TWO) as running:
        pids = occupy(running, nsqd, topic, "1000")
        running.process.send_signal(signal.SIGTERM)
        running.until(lambda: running.get("/readyz") == (503, "draining\n"))
        assert running.end() == 143
        until(lambda: not any(map(exists, pids)), running)


def test_a_killed_process_is_started_again_and_its_message_redelivered(
    source: list[str], topic: str, nsqd: Server, directory: Path
) -> None:
    with service(directory, "tasks:handle", *source, *TWO, "--consumer-opt", "msg_timeout,4s") as running:
        pids = occupy(running, nsqd, topic, "2")
        running.until(lambda: len(running.notes("end")) == 2)
        nsqd.publish(topic, b"c:0.5")
        running.until(lambda: running.notes("begin")[2:])
        victim = running.notes("begin")[2].pid
        os.kill(victim, signal.SIGKILL)
        running.until(lambda: re.search(r"process \d was ended by SIGKILL; starting it again", running.log))
        running.until(lambda: [note for note in running.notes("end") if note.body == "c:0.5"])
        running.until_ready()
        after = occupy(running, nsqd, topic, "2")
        assert victim not in after
        assert len(after & pids) == 1
        assert running.end() == 0


def test_a_process_that_an_operator_ends_drains_and_is_started_again(
    source: list[str], topic: str, nsqd: Server, directory: Path
) -> None:
    with service(directory, "tasks:handle", *source, *TWO) as running:
        first, second = occupy(running, nsqd, topic, "2")
        os.kill(first, signal.SIGTERM)
        running.until(lambda: len(running.notes("end")) == 2)
        running.until(lambda: "ended with exit code 0; starting it again" in running.log)
        assert second in occupy(running, nsqd, topic, "2")
        assert running.end() == 0


@pytest.mark.parametrize("handler", ["handle", "plain"])
def test_processes_whose_parent_was_killed_drain(
    source: list[str], topic: str, nsqd: Server, directory: Path, handler: str
) -> None:
    with service(directory, f"tasks:{handler}", *source, *TWO) as running:
        pids = occupy(running, nsqd, topic, "2")
        running.process.kill()
        running.process.wait(LIMIT)
        until(lambda: not any(map(exists, pids)), running)
        assert {note.pid for note in running.notes("end")} == pids
        assert "Traceback" not in running.log
    assert nsqd.is_done_with(topic, "c", 2)


def test_a_process_that_does_not_drain_is_killed(
    source: list[str], topic: str, nsqd: Server, directory: Path
) -> None:
    flags = (*TWO, *SHORT, "--consumer-opt", "close_timeout,100ms")
    with service(directory, "tasks:block", *source, *flags) as running:
        running.until_ready()
        nsqd.publish(topic, b"a")
        running.until(lambda: running.notes("begin"))
        (victim,) = running.pids()
        status, text = running.get("/healthz")
        assert status == 503
        assert re.fullmatch(r"process \d has not answered in 5 s\n", text)
        assert running.end() == 1
        assert re.search(r"process \d did not drain within 5.2 s, and is killed", running.log)
        assert "Error: not all processes have drained" in running.log
        assert not exists(victim)


def test_a_handler_that_stops_loading_is_no_storm(
    source: list[str], topic: str, nsqd: Server, directory: Path
) -> None:
    with service(directory, "tasks:handle", *source, *TWO) as running:
        first, _ = occupy(running, nsqd, topic, "2")
        good = (directory / "tasks.py").read_text()
        (directory / "tasks.py").write_text("1 / 0\n")
        os.kill(first, signal.SIGKILL)
        running.until(lambda: len(re.findall(r"starting it again in (\S+) s", running.log)) >= 3)
        # Each is shortened at random, by half at most.
        delays = [float(text) for text in re.findall(r"starting it again in (\S+) s", running.log)]
        assert delays[2] >= 0.9
        assert running.log.count("ZeroDivisionError: division by zero") == len(delays) - 1
        assert running.process.poll() is None
        assert running.get("/healthz") == (200, "OK\n")
        status, text = running.get("/readyz")
        assert status == 503
        assert re.fullmatch(r"process \d: not started\n", text)
        (directory / "tasks.py").write_text(good)
        running.until_ready()
        assert running.end() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_processes_load_is_quick(
    source: list[str], directory: Path, number: signal.Signals
) -> None:
    (directory / "slow.py").write_text("import time\nopen('loading', 'w').close()\ntime.sleep(1000)\n")
    with service(directory, "slow:handle", *source, *TWO) as running:
        running.until((directory / "loading").exists)
        assert running.end(number) == 128 + number, running.log
        assert "killed" not in running.log


@pytest.mark.parametrize(
    ("statement", "code", "how"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", 137, "was ended by SIGKILL"),
        ("sys.exit(0)", 1, "ended with exit code 0"),
        ("sys.exit(5)", 5, "ended with exit code 5"),
    ],
)
def test_a_first_process_that_ends_without_a_word(
    source: list[str], directory: Path, statement: str, code: int, how: str
) -> None:
    (directory / "silent.py").write_text(f"import os, signal, sys\n{statement}\n")
    with service(directory, "silent:handle", *source, *TWO) as running:
        assert running.process.wait(LIMIT) == code
        assert f"Error: the first process {how} before it had started\n" in running.log


def test_metrics_of_all_processes(source: list[str], topic: str, nsqd: Server, directory: Path) -> None:
    pytest.importorskip("prometheus_client")
    with service(directory, "tasks:handle", *source, *TWO) as running:
        occupy(running, nsqd, topic, "2")
        running.until(lambda: len(running.notes("end")) == 2)
        status, text = running.get("/metrics")
        assert status == 200
        for number in (0, 1):
            assert re.search(rf'^nsq_consumer_\w+_total{{.*process="{number}".*}} 1.0$', text, re.MULTILINE)
            assert re.search(rf'^process_open_fds{{process="{number}"}}', text, re.MULTILINE)
        heads = [line for line in text.splitlines() if line.startswith("# TYPE")]
        assert len(heads) == len(set(heads))
        assert running.end() == 0


def test_a_process_that_loads_while_its_parent_is_killed_ends(source: list[str], directory: Path) -> None:
    text = "import os, time\nopen('loading', 'w').write(f'{os.getpid()} ')\ntime.sleep(1.5)\n"
    (directory / "slow.py").write_text(f"{text}\nasync def handle(message): ...\n")
    loading = directory / "loading"
    with service(directory, "slow:handle", *source, *TWO) as running:
        running.until(lambda: loading.exists() and loading.read_text().endswith(" "))
        running.process.kill()
        running.process.wait(LIMIT)
        until(lambda: not exists(int(loading.read_text())), running)
        assert "Traceback" not in running.log
