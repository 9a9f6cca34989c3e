"""``nsq-anyio run`` with one process."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from nsq_anyio.cli.backend import BACKENDS

from ..forwarders import Server
from .services import LIMIT, exists, service

pytestmark = [
    pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM ends the process there"),
    pytest.mark.timeout(120),
]

HTTP = ("--http-address", "127.0.0.1:0")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("handler", ["handle", "plain"])
def test_it_handles_messages_and_drains(
    nsqd: Server, topic: str, source: list[str], directory: Path, handler: str, backend: str
) -> None:
    with service(directory, f"tasks:{handler}", *source, *HTTP, "--backend", backend) as running:
        running.until_ready()
        nsqd.publish(topic, b"a", b"b:1.5")
        running.until(lambda: len(running.notes("begin")) == 2)
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(LIMIT) == 0, running.log
        assert [note.body for note in running.notes("end")] == ["a", "b:1.5"]
        assert "Traceback" not in running.log
    assert nsqd.is_done_with(topic, "c", 2)


def test_the_second_signal_ends_it_at_once(
    nsqd: Server, topic: str, source: list[str], directory: Path
) -> None:
    with service(directory, "tasks:handle", *source, *HTTP) as running:
        nsqd.publish(topic, b"a:1000")
        running.until(lambda: running.notes("begin"))
        running.process.send_signal(signal.SIGTERM)
        running.until(lambda: running.get("/readyz") == (503, "draining\n"))
        assert running.end(signal.SIGINT) == 130


def test_a_plain_handler_that_never_ends_does_not_keep_the_process(
    nsqd: Server, topic: str, source: list[str], directory: Path
) -> None:
    flags = ("--consumer-opt", "drain_timeout,100ms")
    with service(directory, "tasks:plain", *source, *flags) as running:
        nsqd.publish(topic, b"a:1000")
        running.until(lambda: running.notes("begin"))
        assert running.end() == 0, running.log
        assert "in a thread, which cannot be cancelled" in running.log
    assert nsqd.channel(topic, "c")["depth"] == 1


def test_as_many_messages_are_in_flight_as_handlers(
    nsqd: Server, topic: str, source: list[str], directory: Path
) -> None:
    with service(directory, "tasks:handle", *source, "--concurrency", "2") as running:
        nsqd.publish(topic, *[b"a:30"] * 5)
        running.until(lambda: len(running.notes("begin")) == 2)
        assert nsqd.channel(topic, "c")["in_flight_count"] == 2


def test_dead_letters(nsqd: Server, topic: str, source: list[str], directory: Path) -> None:
    flags = (
        *("--dead-letter", "{topic}.dead", "--consumer-opt", "max_attempts,1"),
        *("--consumer-opt", "default_requeue_delay,0", "--consumer-opt", "max_backoff_duration,0"),
    )
    with service(directory, "tasks:fail", *source, *flags) as running:
        nsqd.publish(topic, b"a")
        running.until(lambda: nsqd.topic(f"{topic}.dead").get("message_count") == 1)
        assert running.end() == 0


def test_a_rate(nsqd: Server, topic: str, source: list[str], directory: Path) -> None:
    with service(directory, "tasks:handle", *source, "--max-per-second", "0.01") as running:
        nsqd.publish(topic, b"a", b"b")
        running.until(lambda: running.notes("end"))
        assert running.end() == 0
        assert len(running.notes("begin")) == 1


def test_batches(nsqd: Server, topic: str, source: list[str], directory: Path) -> None:
    nsqd.publish(topic, b"a", b"b", b"c")
    with service(directory, "tasks:save", *source) as running:
        running.until(lambda: running.notes("begin"))
        assert running.end() == 0, running.log
        assert [note.body for note in running.notes("begin")] == ["a,b,c"]
    assert nsqd.is_done_with(topic, "c", 3)


def test_no_rate_limits_batches(source: list[str], directory: Path) -> None:
    with service(directory, "tasks:save", *source, "--max-per-second", "5") as running:
        assert running.process.wait(LIMIT) == 2
        assert "--max-per-second 5.0 is not valid with a BatchHandler" in running.log


def test_messages_are_kept_alive(nsqd: Server, topic: str, source: list[str], directory: Path) -> None:
    flags = ("--keep-alive", "--consumer-opt", "msg_timeout,1s")
    with service(directory, "tasks:plain", *source, *flags) as running:
        nsqd.publish(topic, b"a:1.8")
        running.until(lambda: running.notes("end"))
        assert running.end() == 0
    assert len(running.notes("begin")) == 1
    assert nsqd.is_done_with(topic, "c", 1)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("handler", ["need", "need_plain"])
def test_the_lifespan_is_open_from_before_the_first_message_until_after_the_drain(
    nsqd: Server, topic: str, source: list[str], directory: Path, handler: str, backend: str
) -> None:
    nsqd.publish(topic, b"1")
    flags = ("--lifespan", "tasks:lifespan", "--dead-letter", "{topic}.dead", "--backend", backend)
    with service(directory, f"tasks:{handler}", *source, *flags) as running:
        running.until(lambda: running.notes("begin"))
        assert running.end() == 0, running.log
        assert [note.what for note in running.notes()] == ["open", "begin", "end", "close"]
        assert {note.body for note in running.notes()[1:3]} == {"True,True"}


def test_the_lifespan_is_left_when_the_service_fails(
    nsqd: Server, topic: str, source: list[str], directory: Path
) -> None:
    (directory / "ending.py").write_text(ENDING)
    with service(directory, "ending:handle", *source, "--lifespan", "tasks:lifespan") as running:
        nsqd.publish(topic, b"exit")
        assert running.process.wait(LIMIT) == 7, running.log
        assert [note.body for note in running.notes("close")] == ["lifespan"]


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        ((), ""),
        (("--processes", "2"), "Error: the first process ended with exit code 1 before it had started"),
    ],
    ids=["here", "in-processes"],
)
def test_a_lifespan_that_fails_ends_the_command(
    source: list[str], directory: Path, flags: tuple[str, ...], error: str
) -> None:
    with service(
        directory, "tasks:handle", *source, "--lifespan", "tasks:closed_database", *flags
    ) as running:
        assert running.process.wait(LIMIT) == 1, running.log
        assert running.log.count("ConnectionError: no database") == 1
        assert error in running.log


def test_it_waits_for_its_nsqd(directory: Path) -> None:
    source = ("--topic", "t", "--channel", "c", "--nsqd-tcp-address", "127.0.0.1:1")
    with service(directory, "tasks:handle", *source, *HTTP, "--log-format", "json") as running:
        running.until(lambda: '"nsq_anyio.consumer"' in running.log)
        assert running.process.poll() is None
        assert running.end() == 0


MODULES = {
    "empty": "",
    "broken": "def f():\n    1 / 0\n\nf()\n",
    "imports": "import no_such_module\n",
    "unfinished": "x = (\n",
}
MISTAKES = [
    ("nothing:handle", 2, "there is no module 'nothing' in "),
    ("package.nothing:handle", 2, "there is no module 'package'"),
    ("empty:handle", 2, "empty.py) has no 'handle'"),
    ("tasks", 2, "'tasks' is not MODULE:HANDLER"),
    ("tasks.py:handle", 2, "'tasks.py:handle' is not MODULE:HANDLER"),
    ("tasks:os", 2, "tasks:os is not a handler: "),
    ("broken:handle", 1, 'broken.py", line 2, in f'),
    ("imports:handle", 1, "No module named 'no_such_module'"),
    ("unfinished:handle", 1, "'(' was never closed"),
]


@pytest.mark.parametrize("flags", [(), ("--processes", "2")], ids=["here", "in-processes"])
@pytest.mark.parametrize(("handler", "code", "error"), MISTAKES, ids=[each[0] for each in MISTAKES])
def test_a_handler_that_cannot_be_loaded(
    directory: Path, source: list[str], handler: str, code: int, error: str, flags: tuple[str, ...]
) -> None:
    for name, text in MODULES.items():
        (directory / f"{name}.py").write_text(text)
    with service(directory, handler, *source, *flags) as running:
        assert running.process.wait(LIMIT) == code, running.log
        assert running.log.count(error) == 1
        assert "nsq_anyio/" not in running.log
        assert "importlib" not in running.log


@pytest.mark.parametrize("flags", [(), ("--processes", "2")], ids=["here", "in-processes"])
def test_a_taken_port_is_one_line(
    nsqd: Server, source: list[str], directory: Path, flags: tuple[str, ...]
) -> None:
    address = nsqd.tcp_address
    with service(directory, "tasks:handle", *source, "--http-address", address, *flags) as running:
        assert running.process.wait(LIMIT) == 1
        assert running.log.startswith(f"Error: cannot listen on {address}: ")
        assert running.log.count("\n") == 1


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (("--http-address", "8080"), "'8080' is not an address"),
        (("--topic", "a b"), "'a b'"),
        (("--max-per-second", "0"), "--max-per-second"),
        (("--dead-letter", "a b"), "'a b'"),
        (("--lifespan", "tasks"), "'tasks' is not MODULE:LIFESPAN: use, for example, 'app.tasks:lifespan'"),
        (("--lifespan", "tasks:nothing"), "tasks.py) has no 'nothing'"),
        (("--lifespan", "tasks:Opened.module"), "tasks:Opened.module is not a lifespan: use a function"),
        (("--lifespan", "tasks:note"), "tasks:note is not a lifespan: use a function"),
        (("--lifespan", "tasks:plain"), "tasks:plain is not a lifespan: use a function without parameters"),
        (("--lifespan", "tasks:handle"), "tasks:handle is not a lifespan: use a function"),
    ],
)
def test_wrong_flags(directory: Path, source: list[str], flags: tuple[str, ...], error: str) -> None:
    with service(directory, "tasks:handle", *source, *flags) as running:
        assert running.process.wait(LIMIT) in (1, 2)
        assert error in running.log
        assert "Traceback" not in running.log


ENDING = """
import atexit, concurrent.futures, os, sys, threading, time
import nsq_anyio as nsq
from tasks import note

pool = concurrent.futures.ProcessPoolExecutor(1)
atexit.register(lambda: note("exit", os.getpid(), threading.current_thread().name, 0))

def work():
    time.sleep(1.5)
    note("thread", os.getpid(), "ended", 0)

def handle(message):
    body = message.body.decode()
    note("begin", os.getpid(), body, message.attempts)
    if body == "work":
        threading.Thread(target=work, daemon=False).start()
        note("pool", pool.submit(os.getpid).result(), "started", 0)
        producer = nsq.sync.produce(message.nsqd).__enter__()
        for _ in range(5):
            producer.publish_soon(message.topic + ".soon", b"body")
    if body == "hang":
        time.sleep(1000)
    if body == "exit":
        time.sleep(0.5)
        sys.exit(7)
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_program_ends_in_full_but_for_abandoned_handlers(
    nsqd: Server, topic: str, source: list[str], directory: Path, backend: str
) -> None:
    (directory / "ending.py").write_text(ENDING)
    flags = ("--concurrency", "2", "--consumer-opt", "drain_timeout,100ms", "--backend", backend)
    with service(directory, "ending:handle", *source, *flags) as running:
        nsqd.publish(topic, b"hang", b"work")
        running.until(lambda: running.notes("pool"))
        running.until(lambda: len(running.notes("begin")) == 2)
        assert running.end() == 0, running.log
        assert running.notes("thread")
        own = [note for note in running.notes("exit") if note.pid == running.process.pid]
        assert [note.body for note in own] == ["MainThread"]
        assert not exists(running.notes("pool")[0].pid)
        assert "Exception ignored" not in running.log
    assert nsqd.topic(f"{topic}.soon")["message_count"] == 5


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_handler_exits_while_another_hangs(
    nsqd: Server, topic: str, source: list[str], directory: Path, backend: str
) -> None:
    (directory / "ending.py").write_text(ENDING)
    flags = ("--concurrency", "2", "--backend", backend)
    with service(directory, "ending:handle", *source, *flags) as running:
        nsqd.publish(topic, b"hang", b"exit")
        assert running.process.wait(LIMIT) == 7
        assert running.notes("exit")
        assert "Traceback" not in running.log


def test_a_process_whose_handler_exits_while_another_hangs_is_started_again(
    nsqd: Server, topic: str, source: list[str], directory: Path
) -> None:
    (directory / "ending.py").write_text(ENDING)
    flags = ("--concurrency", "2", "--processes", "2")
    with service(directory, "ending:handle", *source, *flags) as running:
        nsqd.publish(topic, b"exit", b"exit", b"hang", b"hang")
        running.until(lambda: "ended with exit code 7; starting it again" in running.log)


def test_a_process_that_a_thread_keeps_after_its_end_is_killed_and_started_again(
    nsqd: Server, topic: str, source: list[str], directory: Path
) -> None:
    text = ENDING.replace("time.sleep(1.5)", "time.sleep(1000)")
    (directory / "ending.py").write_text(text)
    patience = ("--consumer-opt", "drain_timeout,0", "--consumer-opt", "close_timeout,100ms")
    with service(directory, "ending:handle", *source, *patience, "--processes", "2") as running:
        nsqd.publish(topic, b"work", b"work")
        running.until(lambda: running.notes("pool"))
        os.kill(running.notes("begin")[0].pid, signal.SIGTERM)
        running.until(lambda: "did not end within 5.1 s, and is killed" in running.log)
        running.until(lambda: "was ended by SIGKILL; starting it again" in running.log)


def test_the_second_signal_ends_it_although_the_event_loop_is_blocked(
    nsqd: Server, topic: str, source: list[str], directory: Path
) -> None:
    with service(directory, "tasks:block", *source) as running:
        nsqd.publish(topic, b"a")
        running.until(lambda: running.notes("begin"))
        running.process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert running.end() == 143
