"""A forked child that inherits a producer: it is told to make its own, and leaves the block at once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

import nsq_anyio as nsq

from .conftest import Backend, published
from .programs import run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

FORKING = """
def end(): pass
def exit(): sys.exit(3)
def fail(): raise LookupError
def interrupt(): raise KeyboardInterrupt
def make_its_own():
    with nsq.sync.produce(address, backend=backend) as mine:
        mine.publish("t", b"mine")

with nsq.sync.produce(address, backend=backend) as producer:
    producer.publish("t", b"before")
    for in_child in (end, exit, fail, interrupt, make_its_own):
        child = os.fork()
        if child == 0:
            in_child()
            break
        print(in_child.__name__, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        producer.publish("t", b"after")
"""

MULTIPROCESSING = """
import multiprocessing

def in_child():
    try:
        producer.publish("t", b"in the child")
    except nsq.Closed as error:
        print(error, flush=True)

with nsq.sync.produce(address, backend=backend) as producer:
    producer.publish("t", b"before")
    child = multiprocessing.get_context("fork").Process(target=in_child)
    child.start()
    child.join()
    print(child.exitcode)
    producer.publish("t", b"after")
"""


def test_a_child_leaves_the_inherited_block_at_once(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    ended = run(FORKING, nsqd.tcp_address, backend)
    assert ended.code == 0, ended.errors
    assert ended.output.splitlines() == [
        "end 0",
        "exit 3",
        "fail 1",
        f"interrupt {-signal.SIGINT}",
        "make_its_own 0",
    ]
    assert published(nsqd) == 7  # the parent's connection is as it was after each of them


def test_a_child_of_multiprocessing_is_told_to_make_its_own(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    ended = run(MULTIPROCESSING, nsqd.tcp_address, backend)
    assert ended.code == 0, ended.errors
    told, code = ended.output.splitlines()
    assert "create one in each process" in told
    assert code == "0"
    assert published(nsqd) == 2


APPLICATION = """
import os
import nsq_anyio as nsq

producer = nsq.sync.produce(os.environ["NSQD"], backend=os.environ["BACKEND"])
if os.environ["USED"]:
    producer.publish("t", b"from the master")

def answer(environ, start_response):
    try:
        producer.publish("t", b"from a worker")
        text = b"published"
    except nsq.Closed as error:
        text = str(error).encode()
    start_response("200 OK", [("Content-Length", str(len(text)))])
    return [text]
"""


@pytest.mark.parametrize("used", ["used before the fork", ""])
def test_gunicorn_with_a_preloaded_application(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend, tmp_path: Path, used: str
) -> None:
    (tmp_path / "application.py").write_text(APPLICATION)
    # One worker: its answer proves that it takes signals, which a second one might not do yet.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        environment = {**os.environ, "NSQD": nsqd.tcp_address, "BACKEND": backend, "USED": used}
        bind = f"--bind=fd://{listener.fileno()}"
        with subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "--preload", "--workers=1", bind, "application:answer"],
            cwd=tmp_path,
            env=environment,
            pass_fds=[listener.fileno()],
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as gunicorn:
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
                    client.sendall(b"GET / HTTP/1.0\r\n\r\n")
                    answer = b"".join(iter(lambda: client.recv(4096), b""))
                started = time.monotonic()
                gunicorn.terminate()
                gunicorn.communicate(timeout=20)
                seconds = time.monotonic() - started
            finally:
                if gunicorn.poll() is None:
                    os.killpg(gunicorn.pid, signal.SIGKILL)
    assert (b"create one in each process" if used else b"published") in answer
    assert gunicorn.returncode == 0
    assert seconds < 10  # its own limit for workers that do not end is 30
    assert published(nsqd) == 1
