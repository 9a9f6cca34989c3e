"""A plain handler that forks, and returns in the child as well: the child ends there, and answers nothing."""

from __future__ import annotations

import os

import pytest

import nsq_anyio as nsq

from .conftest import Backend, nothing_left, publish, published
from .programs import run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

# What the child of each message does, by the message's body.
HANDLER = """
import atexit
atexit.register(lambda: print("at exit", os.getpid() == parent))

parent = os.getpid()
children = {}
lock = threading.Lock()

def handle(message):
    name = message.body.decode()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(nsq.Closed):
            message.finish()
            os._exit(99)
        with contextlib.suppress(nsq.Closed):
            message.touch()
            os._exit(98)
        sys.stdout.write(f"in the child {name}\\n")
        if name == "error":
            raise ValueError("in the child")
        if name == "requeue":
            raise nsq.Requeue
        if name == "exit":
            sys.exit(4)
        if name == "block":
            with message if hasattr(message, "__exit__") else contextlib.nullcontext():
                pass
        return name != "false"  # to what called the handler
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])  # or the test finds that it takes too long
    with lock:
        children[name] = code
        if len(children) == 6:
            stop()
"""

SYNC = """
consumer = nsq.sync.consume("t", "c", nsqd=address, backend=backend)
stop = consumer.stop
with consumer:
    consumer.run(handle, threads=3)
print(sorted(children.items()))
"""

ASYNC = """
import anyio, anyio.from_thread

async def main():
    global stop
    async with nsq.consume("t", "c", nsqd=address) as consumer:
        stop = lambda: anyio.from_thread.run_sync(consumer.stop)
        await consumer.run(handle, concurrency=3)

anyio.run(main, backend=backend)
print(sorted(children.items()))
"""

ON_GIVE_UP = """
consumer = nsq.sync.consume(
    "t", "c", nsqd=address, backend=backend, on_give_up=handle, max_in_flight=6,
    options=nsq.ConsumerOptions(max_attempts=1, requeue_delay=0, max_backoff_duration=0)
)

stop = consumer.stop

def fail(message):
    raise ValueError

with consumer:
    consumer.run(fail, threads=3)
print(sorted(children.items()))
"""

CODES = [("block", 0), ("error", 1), ("exit", 4), ("false", 0), ("fine", 0), ("requeue", 1)]


@pytest.mark.parametrize("program", [SYNC, ASYNC, ON_GIVE_UP], ids=["sync", "async", "on_give_up"])
def test_the_child_ends_with_the_handler(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend, program: str
) -> None:
    publish(nsqd, *(name.encode() for name, _ in CODES))
    ended = run(HANDLER + program, nsqd.tcp_address, backend, limit=40)
    assert ended.code == 0, ended.errors
    # What the children have printed is there; exit handlers run in the parent alone.
    lines = ended.output.splitlines()
    assert sorted(lines[:-2]) == sorted(f"in the child {name}" for name, _ in CODES)
    assert lines[-2:] == [str(CODES), "at exit True"]
    assert "ValueError: in the child" in ended.errors
    assert nothing_left(nsqd)
    assert published(nsqd) == len(CODES)


ITERATION = """
codes = []
with nsq.sync.consume("t", "c", nsqd=address, backend=backend) as consumer:
    try:
        for message in consumer:
            with message:
                child = os.fork()
                if child:
                    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            if len(codes) == 2:
                break
    except nsq.Closed:
        assert not child
        sys.exit(3)
print(codes)
"""


def test_a_block_that_the_child_leaves(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    publish(nsqd, b"1", b"2")
    ended = run(ITERATION, nsqd.tcp_address, backend)
    assert (ended.code, ended.output, ended.errors) == (0, "[3, 3]\n", "")
    assert nothing_left(nsqd)
