"""`nsq.serve`: handlers until a signal or an event, and a bounded end."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import Any

import anyio
import httpx
import pytest

import nsq_anyio as nsq
from nsq_anyio.serving.listener import ListenFailed, local_port, open_listener

from .endpoints import LIMIT, until

pytestmark = pytest.mark.anyio

KEPT = nsq.ConsumerOptions(max_attempts=0, requeue_delay=0.0)


class Noting:
    """A handler that notes its messages, and goes on until it is released.

    :ivar begun: the bodies of messages, with their attempts
    """

    def __init__(self, *, released: bool = True) -> None:
        self.begun: list[tuple[bytes, int]] = []
        self.done: list[bytes] = []
        self.released = anyio.Event()
        if released:
            self.released.set()

    async def __call__(self, message: nsq.Message) -> None:
        self.begun.append((message.body, message.attempts))
        await self.released.wait()
        self.done.append(message.body)


async def publish(nsqd: nsq.embedded.EmbeddedNsqd, topic: str, *bodies: bytes) -> None:
    async with nsq.produce(nsqd.tcp_address) as producer:
        await producer.publish_many(topic, bodies)


async def left(nsqd: nsq.embedded.EmbeddedNsqd, topic: str = "t", channel: str = "c") -> tuple[int, int]:
    """How many messages of a channel wait, and how many are in flight."""
    async with nsq.http.Nsqd(nsqd.http_url) as http:
        stats = await http.stats(topic=topic, channel=channel)
    (found,) = stats.topics[0].channels
    return found.depth, found.in_flight_count


async def until_left(nsqd: nsq.embedded.EmbeddedNsqd, depth: int, in_flight: int) -> None:
    """Wait for so many: nsqd takes a moment to see that a connection was closed."""
    with anyio.fail_after(LIMIT):
        while await left(nsqd) != (depth, in_flight):  # noqa: ASYNC110 - as seen over HTTP
            await anyio.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_first_signal_drains(number: signal.Signals) -> None:
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    handle = Noting(released=False)
    async with nsq.embedded.nsqd() as nsqd:
        await publish(nsqd, "t", b"1", b"2", b"3")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(nsq.serve, handle, "t", "c", nsqd=nsqd.tcp_address, concurrency=2))
            await until(lambda: len(handle.begun) == 2)
            os.kill(os.getpid(), number)
            await anyio.sleep(0.1)
            assert len(handle.begun) == 2
            assert handle.done == []
            handle.released.set()
        assert sorted(handle.done) == [b"1", b"2"]
        await until_left(nsqd, 1, 0)
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


@pytest.mark.parametrize("ending", ["set", "signal"])
async def test_the_stop_event_drains_and_the_signal_sets_it(ending: str) -> None:
    handle = Noting()
    async with nsq.embedded.nsqd() as nsqd:
        await publish(nsqd, "t", b"1")
        stop = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(nsq.serve, handle, "t", "c", nsqd=nsqd.tcp_address, stop=stop))
            await until(lambda: handle.done)
            if ending == "set":
                stop.set()
            else:
                os.kill(os.getpid(), signal.SIGTERM)
        assert stop.is_set()


async def test_a_service_that_is_stopped_before_it_starts() -> None:
    handle = Noting()
    async with nsq.embedded.nsqd() as nsqd:
        await publish(nsqd, "t", b"1")
        stop = anyio.Event()
        stop.set()
        with anyio.fail_after(LIMIT):
            await nsq.serve(handle, "t", "c", nsqd=nsqd.tcp_address, stop=stop)
    assert handle.begun == []


async def test_a_drain_is_bounded() -> None:
    handle = Noting(released=False)
    options = nsq.ConsumerOptions(drain_timeout=0.1)
    async with nsq.embedded.nsqd() as nsqd:
        await publish(nsqd, "t", b"1")
        stop = anyio.Event()
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as tasks:
                serve = partial(nsq.serve, stop=stop, handle_signals=False, options=options)
                tasks.start_soon(partial(serve, handle, "t", "c", nsqd=nsqd.tcp_address))
                await until(lambda: handle.begun)
                stop.set()
        assert handle.done == []
        await until_left(nsqd, 1, 0)


async def test_a_cancelled_service_hands_back() -> None:
    handle = Noting(released=False)
    options = nsq.ConsumerOptions(cancelled_drain_timeout=0.05)
    async with nsq.embedded.nsqd() as nsqd:
        await publish(nsqd, "t", b"1", b"2")
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(nsq.serve, handle, "t", "c", nsqd=nsqd.tcp_address, options=options))
                await until(lambda: handle.begun)
                tasks.cancel_scope.cancel()
        await until_left(nsqd, 2, 0)


async def test_one_handler_of_several_topics() -> None:
    handle = Noting()
    async with nsq.embedded.nsqd() as nsqd:
        for topic in ("a", "b"):
            await publish(nsqd, topic, topic.encode())
        stop = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(
                partial(nsq.serve, handle, ["a", "b", "a"], "c", nsqd=nsqd.tcp_address, stop=stop)
            )
            await until(lambda: len(handle.done) == 2)
            stop.set()
    assert sorted(handle.done) == [b"a", b"b"]


async def test_open_consumers_with_a_handler_each() -> None:
    handlers = [Noting(), Noting()]
    async with nsq.embedded.nsqd() as nsqd:
        await publish(nsqd, "a", b"a")
        await publish(nsqd, "b", b"b")
        stop = anyio.Event()
        async with (
            nsq.consume("a", "c", nsqd=nsqd.tcp_address) as first,
            nsq.consume("b", "c", nsqd=nsqd.tcp_address) as second,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(partial(nsq.serve, {first: handlers[0], second: handlers[1]}, stop=stop))
            await until(lambda: all(each.done for each in handlers))
            stop.set()
    assert [each.done for each in handlers] == [[b"a"], [b"b"]]


async def test_a_plain_handler() -> None:
    seen: list[bytes] = []

    def handle(message: nsq.Message) -> None:
        seen.append(message.body)

    async with nsq.embedded.nsqd() as nsqd:
        await publish(nsqd, "t", b"1")
        stop = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(nsq.serve, handle, "t", "c", nsqd=nsqd.tcp_address, stop=stop))
            await until(lambda: seen)
            stop.set()


async def test_messages_are_kept_alive() -> None:
    async def handle(_message: nsq.Message) -> None:
        await anyio.sleep(1.5)

    touched: list[nsq.events.MessageTouched] = []

    def note(event: nsq.events.Event) -> None:
        if isinstance(event, nsq.events.MessageTouched):
            touched.append(event)

    connection = nsq.ConnectionOptions(msg_timeout=1)
    async with nsq.embedded.nsqd() as nsqd:
        await publish(nsqd, "t", b"1")
        stop = anyio.Event()
        async with anyio.create_task_group() as tasks:
            serve = partial(nsq.serve, keep_alive=True, stop=stop, on_event=note, connection=connection)
            tasks.start_soon(partial(serve, handle, "t", "c", nsqd=nsqd.tcp_address))
            await until(lambda: touched)
            stop.set()
        await until_left(nsqd, 0, 0)


async def test_batches_of_a_topic() -> None:
    seen: list[list[bytes]] = []

    async def save(batch: nsq.Batch) -> None:
        seen.append(sorted(message.body for message in batch))

    async with nsq.embedded.nsqd() as nsqd:
        await publish(nsqd, "t", *[b"%d" % n for n in range(7)])
        stop = anyio.Event()
        async with anyio.create_task_group() as tasks:
            handler = nsq.BatchHandler(save, max_size=3, max_wait=0.2)
            tasks.start_soon(partial(nsq.serve, handler, "t", "c", nsqd=nsqd.tcp_address, stop=stop))
            await until(lambda: sum(map(len, seen)) == 7)
            stop.set()
        await until_left(nsqd, 0, 0)
    assert max(map(len, seen)) == 3
    assert sorted(body for batch in seen for body in batch) == [b"%d" % n for n in range(7)]


async def test_a_failed_batch_comes_again_and_a_message_that_was_answered_does_not() -> None:
    seen: list[tuple[bytes, int]] = []

    def save(batch: nsq.Batch) -> None:
        seen.extend((message.body, message.attempts) for message in batch)
        for message in batch:
            if message.body == b"bad":
                message.finish()
                raise ValueError

    async with nsq.embedded.nsqd() as nsqd:
        await publish(nsqd, "t", b"bad", b"good", b"better")
        stop = anyio.Event()
        options = nsq.ConsumerOptions(max_backoff_duration=0, requeue_delay=0.0)
        async with anyio.create_task_group() as tasks:
            handler = nsq.BatchHandler(save, max_size=3, max_wait=LIMIT)
            serve = partial(nsq.serve, options=options, stop=stop)
            tasks.start_soon(partial(serve, handler, "t", "c", nsqd=nsqd.tcp_address))
            await until(lambda: len(seen) == 3)
            await publish(nsqd, "t", b"new")  # or the second batch would wait for a third message
            await until(lambda: len(seen) == 6)
            stop.set()
        await until_left(nsqd, 0, 0)
    assert sorted(seen[3:]) == [(b"better", 2), (b"good", 2), (b"new", 1)]


async def test_the_rate_is_that_of_all_topics() -> None:
    handle = Noting()
    async with nsq.embedded.nsqd() as nsqd:
        for topic in ("a", "b"):
            await publish(nsqd, topic, *[b"x"] * 50)
        stop = anyio.Event()
        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            serve = partial(nsq.serve, max_per_second=20, concurrency=5, stop=stop)
            tasks.start_soon(partial(serve, handle, ["a", "b"], "c", nsqd=nsqd.tcp_address))
            await until(lambda: len(handle.begun) >= 20)
            stop.set()
        # 2 may start at once, and the others after 0.05 s each.
        assert anyio.current_time() - began >= 17 * 0.05


async def test_start_returns_the_service() -> None:
    handle = Noting()
    async with nsq.embedded.nsqd() as nsqd:
        stop = anyio.Event()
        serve = partial(nsq.serve, nsqd=nsqd.tcp_address, http_address="127.0.0.1:0", stop=stop)
        async with anyio.create_task_group() as tasks:
            service: nsq.Service = await tasks.start(serve, handle, ["b", "a", "d", "c"], "c")
            assert [consumer.topic for consumer in service.consumers] == ["b", "a", "d", "c"]
            with anyio.fail_after(LIMIT):
                await service.ready()
            assert all(consumer.connections == (nsqd.tcp_address,) for consumer in service.consumers)
            async with httpx.AsyncClient(trust_env=False) as client:
                assert (await client.get(f"http://{service.http_address}/readyz")).text == "OK\n"
            await publish(nsqd, "a", b"1")
            await until(lambda: service.consumers[1].statistics().finished == 1)
            stop.set()
    assert handle.done == [b"1"]


async def test_start_returns_a_service_that_waits_for_its_nsqd() -> None:
    stop = anyio.Event()
    serve = partial(nsq.serve, nsqd="127.0.0.1:1", stop=stop)
    async with anyio.create_task_group() as tasks:
        service: nsq.Service = await tasks.start(serve, print, "t", "c")
        assert service.http_address is None
        stop.set()
        with pytest.raises(nsq.Closed):
            await service.ready()


async def test_start_raises_what_keeps_it_from_starting() -> None:
    async with await open_listener("127.0.0.1", 0) as listener:
        serve = partial(nsq.serve, nsqd="127.0.0.1:1", http_address=f"127.0.0.1:{local_port(listener)}")
        async with anyio.create_task_group() as tasks:
            with pytest.raises(ListenFailed):
                await tasks.start(serve, print, "t", "c")


async def test_a_failing_handler_is_not_the_end() -> None:
    attempts: list[int] = []

    async def handle(message: nsq.Message) -> None:
        attempts.append(message.attempts)
        if message.attempts == 1:
            raise ValueError

    async with nsq.embedded.nsqd() as nsqd:
        await publish(nsqd, "t", b"1")
        stop = anyio.Event()
        options = nsq.ConsumerOptions(max_backoff_duration=0, requeue_delay=0.0)
        async with anyio.create_task_group() as tasks:
            serve = partial(nsq.serve, options=options, stop=stop)
            tasks.start_soon(partial(serve, handle, "t", "c", nsqd=nsqd.tcp_address))
            await until(lambda: attempts == [1, 2])
            stop.set()


async def test_a_taken_port_is_an_error_before_any_message() -> None:
    handle = Noting()
    async with nsq.embedded.nsqd() as nsqd, await open_listener("127.0.0.1", 0) as listener:
        await publish(nsqd, "t", b"1")
        address = f"127.0.0.1:{local_port(listener)}"
        with pytest.raises(ListenFailed, match=address):
            await nsq.serve(handle, "t", "c", nsqd=nsqd.tcp_address, http_address=address)
    assert handle.begun == []


async def test_what_ends_a_consumer_ends_the_service_in_no_group() -> None:
    def returns_awaitable(message: nsq.Message) -> Any:
        return anyio.sleep(len(message.body))

    async with nsq.embedded.nsqd() as nsqd:
        await publish(nsqd, "b", b"1")
        with pytest.raises(nsq.InvalidOption, match="returned an awaitable"):
            await nsq.serve(returns_awaitable, ["a", "b"], "c", nsqd=nsqd.tcp_address)


WRONG: list[tuple[tuple[Any, ...], dict[str, Any], str]] = [
    ((None, "t", "c"), {}, "not callable"),
    ((print,), {}, "no topic given"),
    ((print, "t"), {}, "no channel given"),
    ((print, [], "c"), {}, "nothing to serve"),
    (({},), {"nsqd": None}, "nothing to serve"),
    (({print: print},), {"nsqd": None}, "is not an open consumer"),
    (({},), {}, "nsqd='127.0.0.1:1' is given"),
    ((print, "t", "c"), {"concurrency": 0}, "concurrency=0"),
    ((print, "t", "c"), {"max_per_second": 0}, "max_per_second=0"),
    ((nsq.BatchHandler(print, 5), "t", "c"), {"max_per_second": 9}, "max_per_second=9 is not valid with a B"),
    ((print, "t", "c"), {"keep_alive": 1}, "keep_alive=1 is not valid: use True or False"),
    ((print, "t", "c"), {"http_address": "8080"}, "'8080' is not an address"),
    ((print, "a b", "c"), {}, "'a b'"),
]


@pytest.mark.parametrize(("arguments", "options", "error"), WRONG, ids=[each[2] for each in WRONG])
async def test_wrong_arguments(arguments: tuple[Any, ...], options: dict[str, Any], error: str) -> None:
    with pytest.raises(nsq.NSQError, match=error):
        await nsq.serve(*arguments, **{"nsqd": "127.0.0.1:1", **options})


async def test_dead_letters_of_several_topics() -> None:
    handled: list[bytes] = []

    async def handle(message: nsq.Message) -> None:
        handled.append(message.body)
        raise nsq.Discard("no")

    stop = anyio.Event()
    async with nsq.embedded.nsqd() as nsqd:
        for topic in ("a", "b"):
            await publish(nsqd, topic, b"1")
        async with anyio.create_task_group() as tasks:
            serving = partial(nsq.serve, handle, ["a", "b"], "c", dead_letter="{topic}.dead", stop=stop)
            tasks.start_soon(partial(serving, nsqd=nsqd.tcp_address))
            await until(lambda: len(handled) == 2)
            stop.set()
        assert [nsqd.topics[topic].message_count for topic in ("a.dead", "b.dead")] == [1, 1]
