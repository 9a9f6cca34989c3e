"""What a forked child may do with the objects that it inherits: they are dead, say so, and do no harm."""

from __future__ import annotations

import os

import pytest

import nsq_anyio as nsq

from .conftest import Backend, publish, published
from .programs import run

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

# Each child does one thing with what it inherits, while threads of the parent work.
EVERY_USE = """
import gc, multiprocessing

def closed(call):
    try:
        call()
    except nsq.Closed as error:
        assert f"opened in process {os.getppid()}" in str(error), error
        assert f"this is process {os.getpid()}" in str(error), error
        assert "post_fork" in str(error), error
    else:
        raise AssertionError(call)

def use_all():
    closed(lambda: producer.publish("t", b"x"))
    closed(lambda: producer.publish_soon("t", b"x"))
    closed(producer.statistics)
    closed(lambda: next(consumer))
    closed(lambda: iter(consumer))
    closed(consumer.take)
    closed(lambda: next(batches))
    closed(lambda: consumer.run(print))
    closed(consumer.ready)
    closed(consumer.pause)
    closed(lambda: consumer.max_in_flight)
    closed(message.finish)
    closed(message.requeue)
    closed(message.touch)
    repr(producer), repr(consumer), repr(message)

def close_all():
    consumer.stop()
    consumer.close()
    producer.close()

def drop_all():
    global producer, consumer, message, batches
    del producer, consumer, message, batches
    gc.collect()

def exit_hard(): os._exit(0)
def exit_softly(): sys.exit(0)
def open_unused():
    unused.publish("t", b"from the child")
    unused.close()
def open_unused_and_leave_it():
    unused.publish_soon("t", b"from the child")

def work():
    while not over.is_set():
        producer.publish("t", b"from the parent")

over = threading.Event()
unused = nsq.sync.produce(address, backend=backend)
producer = nsq.sync.produce(address, backend=backend)
consumer = nsq.sync.consume("t", "c", nsqd=address, backend=backend, max_in_flight=10)
batches = consumer.batches(1)
message = next(consumer)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for in_child in (use_all, close_all, drop_all, exit_hard, exit_softly, open_unused, open_unused_and_leave_it):
    child = os.fork()
    if child == 0:
        over.set()
        in_child()
        sys.exit()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    producer.publish("t", b"after")
    with next(consumer):
        print(in_child.__name__, code)
over.set()
for thread in threads:
    thread.join()
message.finish()
consumer.close()
producer.close()
"""


def test_each_use_and_each_end_of_a_child(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    publish(nsqd, b"first")
    ended = run(EVERY_USE, nsqd.tcp_address, backend, limit=40)
    assert (ended.code, ended.errors) == (0, "")
    assert ended.output.splitlines() == [
        f"{name} 0"
        for name in (
            "use_all",
            "close_all",
            "drop_all",
            "exit_hard",
            "exit_softly",
            "open_unused",
            "open_unused_and_leave_it",
        )
    ]
    channel = nsqd.topics["t"].channels["c"]
    assert channel.depth == published(nsqd) - 8  # the first, and one after each child
    assert not channel.in_flight


# As Celery's prefork pool does: children are forked while the parent works, and each has an initializer.
POOL = """
import multiprocessing

def initialize():
    global mine
    mine = nsq.sync.produce(address, backend=backend)

def task(number):
    try:
        producer.publish("t", b"inherited")
    except nsq.Closed:
        mine.publish("t", b"%d" % number)
        return number

if __name__ == "__main__":
    with nsq.sync.produce(address, backend=backend) as producer:
        producer.publish("t", b"before")
        with multiprocessing.get_context("fork").Pool(2, initialize, maxtasksperchild=5) as pool:
            print(sorted(pool.map(task, range(20), chunksize=1)) == list(range(20)))
            pool.close()
            pool.join()
        producer.publish("t", b"after")
"""


def test_a_pool_of_forked_workers_with_an_initializer(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    ended = run(POOL, nsqd.tcp_address, backend, limit=40)
    assert (ended.code, ended.output) == (0, "True\n"), ended.errors
    assert published(nsqd) == 22


# `spawn` starts children from the program's file, so it needs one.
SPAWN = """
import multiprocessing, sys
import nsq_anyio as nsq

address, backend = sys.argv[1:3]

def task(number):
    with nsq.sync.produce(address, backend=backend) as mine:
        mine.publish("t", b"%d" % number)

if __name__ == "__main__":
    with nsq.sync.produce(address, backend=backend) as producer:
        producer.publish("t", b"before")
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            pool.map(task, range(2))
            pool.close()
            pool.join()
        producer.publish("t", b"after")
"""


def test_spawned_workers_make_their_own(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("spawn") / "program.py"
    path.write_text(SPAWN)
    ended = run(
        "import subprocess\n"
        f"sys.exit(subprocess.run([sys.executable, {str(path)!r}, *sys.argv[1:]]).returncode)",
        nsqd.tcp_address,
        backend,
        limit=40,
    )
    assert ended.code == 0, ended.errors
    assert published(nsqd) == 4


LAZY_PARENT = """
producer = nsq.sync.produce(address, backend=backend)  # as in an application that is loaded before the fork
codes = []
for number in range(3):
    child = os.fork()
    if child == 0:
        producer.publish("t", b"%d" % number)
        sys.exit()
    codes.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
producer.publish("t", b"the parent's")
producer.close()
print(codes)
"""


def test_one_that_is_unused_at_the_fork_works_in_every_process(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    ended = run(LAZY_PARENT, nsqd.tcp_address, backend)
    assert (ended.code, ended.output, ended.errors) == (0, "[0, 0, 0]\n", "")
    assert published(nsqd) == 4
