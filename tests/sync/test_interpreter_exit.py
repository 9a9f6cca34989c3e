"""A producer whose block nobody leaves: the interpreter sends what waits, and exits."""

from __future__ import annotations

import anyio
from anyio.from_thread import start_blocking_portal

import nsq_anyio as nsq

from ..fake_nsqd import FakeConnection, fake_nsqd
from .conftest import Backend, published
from .programs import run

NEVER_LEFT = "producer = nsq.sync.produce(address, backend=backend).__enter__()"

ALL_WAYS = """
def generate():
    with nsq.sync.produce(address, backend=backend) as producer:
        yield producer

at_module_level = nsq.sync.produce(address, backend=backend).__enter__()
stack = contextlib.ExitStack()
in_a_stack = stack.enter_context(nsq.sync.produce(address, backend=backend))
suspended = generate()
in_a_generator = next(suspended)

for producer in (at_module_level, in_a_stack, in_a_generator):
    for _ in range(100):
        producer.publish_soon("t", b"x")
"""


def test_the_exit_sends_what_waits(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    ended = run(ALL_WAYS, nsqd.tcp_address, backend)
    assert (ended.code, ended.errors) == (0, "")
    assert published(nsqd) == 300


def test_the_exit_resolves_names(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    """A name is resolved in a thread, and no new ones are to be had when the interpreter exits."""
    port = nsqd.tcp_address.partition(":")[2]
    program = f"{NEVER_LEFT}\nproducer.publish('t', b'x')\nproducer.publish_soon('t', b'y')"
    ended = run(program, f"localhost:{port}", backend)
    assert (ended.code, ended.errors) == (0, "")
    assert published(nsqd) == 2


def test_threads_that_end_later_reach_an_nsqd_by_its_name(
    nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend
) -> None:
    """asyncio's own threads take no look-up once the main thread has ended."""
    port = nsqd.tcp_address.partition(":")[2]
    program = """
def publish_late():
    threading.main_thread().join()
    with nsq.sync.produce(address, backend=backend) as producer:
        producer.publish("t", b"late")
threading.Thread(target=publish_late).start()
"""
    ended = run(program, f"localhost:{port}", backend)
    assert (ended.code, ended.errors) == (0, "")
    assert published(nsqd) == 1


def test_threads_that_end_later_find_an_nsqd_by_the_name_of_its_nsqlookupd(backend: Backend) -> None:
    program = """
def publish_late():
    threading.main_thread().join()
    with nsq.sync.produce(nsqlookupd=f"http://localhost:{address}", backend=backend) as producer:
        producer.publish("t", b"late")
threading.Thread(target=publish_late).start()
"""
    with start_blocking_portal() as portal:
        with portal.wrap_async_context_manager(nsq.embedded.nsqlookupd()) as lookupd:
            nsqd = nsq.embedded.nsqd(lookupd_tcp_addresses=[lookupd.tcp_address])
            with portal.wrap_async_context_manager(nsqd) as running:
                ended = run(program, lookupd.http_url.rpartition(":")[2], backend)
                assert (ended.code, ended.errors) == (0, "")
                assert published(running) == 1


def test_threads_that_end_later_publish_until_then(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    program = (
        NEVER_LEFT
        + """
def publish_late():
    threading.main_thread().join()
    producer.publish("t", b"late")
threading.Thread(target=publish_late).start()
"""
    )
    ended = run(program, nsqd.tcp_address, backend)
    assert (ended.code, ended.errors) == (0, "")
    assert published(nsqd) == 1


def test_an_exit_code_is_kept(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    program = NEVER_LEFT + "\nproducer.publish_soon('t', b'x')\nsys.exit(3)"
    ended = run(program, nsqd.tcp_address, backend)
    assert (ended.code, ended.errors) == (3, "")
    assert published(nsqd) == 1


# Exit handlers run last first, so the one that looks at the outcome has to be there before the producer's.
SILENT = """
import atexit

def at_exit():
    print(type(future.exception()).__name__, 0.6 < time.monotonic() - ending < 5)

atexit.register(at_exit)
options = nsq.ProducerOptions(drain_timeout=0.5, cancelled_drain_timeout=0.2)
producer = nsq.sync.produce(address, backend=backend, options=options).__enter__()
future = producer.publish_soon("t", b"x")
while not producer.statistics().outstanding:
    time.sleep(0.01)
ending = time.monotonic()
"""


def test_a_silent_nsqd_holds_up_the_exit_for_its_bound(backend: Backend) -> None:
    async def never_answer(connection: FakeConnection) -> None:
        await connection.identify()
        await connection.expect(b"PUB t")
        await connection.eof()
        await anyio.sleep_forever()

    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(fake_nsqd(never_answer)) as nsqd,
    ):
        ended = run(SILENT, nsqd.address, backend)
    assert (ended.code, ended.output) == (0, "OutcomeUnknown True\n"), ended.errors
    assert "Traceback" not in ended.errors
