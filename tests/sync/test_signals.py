"""Signals: Ctrl-C ends each wait at once, and a handler may stop a consumer wherever it interrupts it."""

from __future__ import annotations

import sys

import pytest

import nsq_anyio as nsq

from .conftest import Backend, nothing_left, publish
from .programs import run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sends itself signals")

INTERRUPTED = """
def interrupt_soon():
    def interrupt():
        until_waiting()
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt).start()

def until_waiting():
    while not consumer._exchange.handover.waiting:
        time.sleep(0.001)

def until_handling():
    handling.wait()

def handle(message):
    handling.set()
    time.sleep(60)

handling = threading.Event()
options = nsq.ConsumerOptions(cancelled_drain_timeout=0.1)
waits = {
    "next": lambda: next(consumer),
    "take": lambda: consumer.take(timeout=60),
    "batches": lambda: next(consumer.batches(10, 60)),
    "run": lambda: consumer.run(print, threads=2),
}
for name, wait in waits.items():
    consumer = nsq.sync.consume("nothing", "c", nsqd=address, backend=backend, options=options)
    started = time.monotonic()
    try:
        with consumer:
            interrupt_soon()
            wait()
    except KeyboardInterrupt:
        print(name, time.monotonic() - started < 30)
until_waiting = until_handling
try:
    with nsq.sync.consume("t", "c", nsqd=address, backend=backend, options=options) as consumer:
        interrupt_soon()
        consumer.run(handle, threads=2)
except KeyboardInterrupt:
    print("hanging handler", time.monotonic() - started < 30)
"""


def test_ctrl_c_ends_each_wait_and_the_block(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    publish(nsqd, b"x")
    ended = run(INTERRUPTED, nsqd.tcp_address, backend)
    assert ended.code == 0, ended.errors
    assert ended.output.splitlines() == [
        f"{name} True" for name in ("next", "take", "batches", "run", "hanging handler")
    ]
    assert nsqd.topics["t"].channels["c"].depth == 1


# The timer interrupts whatever the main thread does, its locks held or not.
STOPPED = """
def stop(number, frame):
    consumer.stop()

def look(number, frame):
    global looks
    looks += 1
    assert consumer.statistics().connections <= 1
    if count < 3000:
        signal.setitimer(signal.ITIMER_REAL, 0.0002)

signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGALRM, look)
count = looks = 0
with nsq.sync.consume("t", "c", nsqd=address, backend=backend, max_in_flight=50) as consumer:
    signal.setitimer(signal.ITIMER_REAL, 0.0002)
    for message in consumer:
        with message:
            count += 1
        if count == 3000:
            os.kill(os.getpid(), signal.SIGTERM)
    signal.setitimer(signal.ITIMER_REAL, 0)
print(count, looks > 25)
"""


def test_handlers_of_signals_may_use_the_consumer_anywhere(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    publish(nsqd, *[b"x"] * 3000)
    ended = run(STOPPED, nsqd.tcp_address, backend, limit=40)
    assert (ended.code, ended.output) == (0, "3000 True\n"), ended.errors
    assert nothing_left(nsqd)


PUBLISHED = """
def look(number, frame):
    global looks
    if count == 1000:
        return
    looks += 1
    futures.append(producer.publish_soon("t", b"from the handler"))
    producer.statistics()
    signal.setitimer(signal.ITIMER_REAL, 0.0005)

signal.signal(signal.SIGALRM, look)
count = looks = 0
futures = []
with nsq.sync.produce(address, backend=backend) as producer:
    signal.setitimer(signal.ITIMER_REAL, 0.0005)
    while count < 1000:
        if count % 2:
            producer.publish("t", b"x")
        else:
            producer.publish_soon("t", b"x").result()
        count += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    for future in futures:
        future.result()
    published = producer.statistics().published
print(count, published == 1000 + looks, looks > 50)
"""


def test_handlers_of_signals_may_use_the_producer_anywhere(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    ended = run(PUBLISHED, nsqd.tcp_address, backend, limit=40)
    assert (ended.code, ended.output) == (0, "1000 True True\n"), ended.errors


STOPPED_IN_A_WAIT = """
def stop(number, frame):
    consumer.stop()

def terminate():
    while not consumer._exchange.handover.waiting:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGTERM)

signal.signal(signal.SIGTERM, stop)
for use in (list, lambda consumer: list(consumer.batches(10, 60)), lambda consumer: consumer.run(print)):
    with nsq.sync.consume("nothing", "c", nsqd=address, backend=backend) as consumer:
        threading.Thread(target=terminate).start()
        print(use(consumer))
"""


def test_a_handler_of_a_signal_stops_each_wait(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    ended = run(STOPPED_IN_A_WAIT, nsqd.tcp_address, backend)
    assert (ended.code, ended.output) == (0, "[]\n[]\nNone\n"), ended.errors


AT_EXIT = """
consumer = nsq.sync.consume("t", "c", nsqd=address, backend=backend, max_in_flight=10)
messages = [next(consumer) for _ in range(3)]
messages[0].finish()

def iterate():
    for message in consumer:
        time.sleep(60)

threading.Thread(target=iterate, daemon=True).start()
threading.Thread(target=consumer.run, args=(lambda message: time.sleep(60),), daemon=True).start()
while consumer._exchange.handover.waiting < 1 and consumer.statistics().received < 9:
    time.sleep(0.001)
"""


def test_the_exit_of_the_interpreter_hands_back_what_is_unanswered(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    publish(nsqd, *[b"x"] * 9)
    ended = run(AT_EXIT, nsqd.tcp_address, backend)
    assert (ended.code, ended.errors) == (0, "")
    channel = nsqd.topics["t"].channels["c"]
    assert (channel.depth, len(channel.in_flight)) == (8, 0)
