# pyright: reportPossiblyUnboundVariable=false
"""Plain functions as handlers: they run in threads, from which their messages are answered and touched."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from functools import partial
from threading import Barrier, Event, Thread, get_ident

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import HandlerFailed, MessageDiscarded, MessageTouched
from nsq_anyio.exceptions import only_error

from ..fake_nsqd import LIMIT, Events, FakeConnection, consuming, until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]

CALLER: ContextVar[str] = ContextVar("CALLER")


async def with_timeout(peer: FakeConnection) -> None:
    await peer.subscribe({"msg_timeout": 30_000, "max_msg_timeout": 60_000})
    await peer.follow()


async def answer_of(handler: Callable[[nsq.Message], object], events: Events | None = None) -> bytes:
    """The command with which a message is answered that this handler gets."""
    async with (
        consuming(with_timeout, on_event=events) as (consumer, peer),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(consumer.run, handler)
        id = await peer.message()
        await until(lambda: any(line.startswith((b"FIN", b"REQ")) for line in peer.lines))
        consumer.stop()
    (answer,) = (line for line in peer.lines if line.startswith((b"FIN", b"REQ")))
    assert id in answer
    return answer.replace(b" " + id, b"")


@pytest.mark.parametrize("concurrency", [16, 60])
async def test_so_many_run_at_once(concurrency: int) -> None:
    together = Barrier(concurrency)  # AnyIO's own limiter would let 40 of them in
    async with (
        consuming(with_timeout, max_in_flight=concurrency) as (consumer, peer),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(partial(consumer.run, lambda _: together.wait(LIMIT), concurrency=concurrency))
        ids = await peer.messages(*[b"x"] * concurrency)
        await peer.saw(*[b"FIN " + id for id in ids])
        consumer.stop()


async def test_what_a_handler_raises_says_what_becomes_of_the_message() -> None:
    events = Events()

    def raises(error: BaseException) -> Callable[[nsq.Message], None]:
        def handle(message: nsq.Message) -> None:
            raise error

        return handle

    assert await answer_of(lambda message: message.body) == b"FIN"
    assert await answer_of(raises(nsq.Requeue(delay=2))) == b"REQ 2000"
    assert await answer_of(raises(nsq.Discard("bad")), events) == b"FIN"
    assert [event.reason for event in events.of(MessageDiscarded)] == ["bad"]
    assert not events.of(HandlerFailed)
    assert await answer_of(raises(ValueError("mine")), events) == b"REQ 90000"
    # Such as the result of an asyncio task that somebody has cancelled: the thread itself is not.
    assert await answer_of(raises(asyncio.CancelledError()), events) == b"REQ 90000"
    assert await answer_of(raises(StopIteration("odd")), events) == b"REQ 90000"
    failed = [event.error for event in events.of(HandlerFailed)]
    assert [type(error) for error in failed] == [ValueError, asyncio.CancelledError, RuntimeError]


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_the_end_of_the_program_ends_it(anyio_backend: str, kind: type[BaseException]) -> None:
    def handle(message: nsq.Message) -> None:
        raise kind

    async def main() -> None:
        async with consuming(with_timeout) as (consumer, peer):
            await peer.message()
            await consumer.run(handle)

    with pytest.raises(BaseException) as raised:  # in the groups of the fake nsqd's tasks
        anyio.run(main, backend=anyio_backend)
    assert isinstance(only_error(raised.value), kind)


async def test_the_thread_answers_and_touches() -> None:
    events = Events()
    touched = Event()
    seen: list[object] = []

    def handle(message: nsq.Message) -> None:
        before = message.deadline
        assert isinstance(message, nsq.Message)
        assert 0 < message.time_left() <= 30
        time.sleep(0.02)
        message.touch()
        seen.append(message.deadline > before)
        touched.wait(LIMIT)
        seen.append(message.responded)
        if message.body == b"finish":
            message.finish()
        else:
            message.requeue(3)
        seen.append(message.responded)
        for again in (message.finish, message.requeue, message.touch):
            with pytest.raises(nsq.AlreadyResponded):
                again()
        seen.append((message.topic, message.channel, message.nsqd, message.attempts, len(message.id)))

    async with consuming(with_timeout, on_event=events) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handle)
            for body in (b"finish", b"requeue"):
                touched.clear()
                id = await peer.message(body)
                await peer.saw(b"TOUCH " + id)  # before the handler ends
                touched.set()
                await peer.saw(b"FIN " + id if body == b"finish" else b"REQ %b 3000" % id)
            consumer.stop()
        assert seen == 2 * [True, False, True, ("t", "c", consumer.connections[0], 1, 16)]
        statistics = consumer.statistics()
        assert (statistics.finished, statistics.requeued, statistics.late) == (1, 1, 0)
    assert len(events.of(MessageTouched)) == 2
    assert not events.of(HandlerFailed)


async def test_it_is_kept_alive_by_an_option() -> None:
    touched = Event()

    async def impatient(peer: FakeConnection) -> None:
        await peer.subscribe({"msg_timeout": 1_000, "max_msg_timeout": 60_000})
        await peer.follow()

    async with consuming(impatient) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(consumer.run, lambda _: touched.wait(LIMIT), keep_alive=True))
            id = await peer.message()
            await peer.saw(b"TOUCH " + id)
            touched.set()
            await peer.saw(b"FIN " + id)
            consumer.stop()


async def test_a_wrong_use_fails_in_the_thread() -> None:
    errors: list[type[BaseException]] = []

    def handle(message: nsq.Message) -> None:
        for action in (partial(message.requeue, -1), message.finish, message.finish):
            try:
                action()
            except nsq.NSQError as error:
                errors.append(type(error))

    assert await answer_of(handle) == b"FIN"
    assert errors == [nsq.InvalidOption, nsq.AlreadyResponded]


async def test_any_thread_may_answer_and_a_coroutine_that_the_thread_runs() -> None:
    def by_another_thread(message: nsq.Message) -> None:
        thread = Thread(target=partial(message.requeue, 4))
        thread.start()
        thread.join()

    def by_a_coroutine(message: nsq.Message) -> None:
        async def finish() -> None:
            assert message.time_left() > 0
            async with message.keep_alive(), message:
                await anyio.lowlevel.checkpoint()

        anyio.from_thread.run(finish)

    def discarding(message: nsq.Message) -> None:
        async def finish() -> None:
            async with message:
                raise nsq.Requeue(5)

        anyio.from_thread.run(finish)

    assert await answer_of(by_another_thread) == b"REQ 4000"
    assert await answer_of(by_a_coroutine) == b"FIN"
    assert await answer_of(discarding) == b"REQ 5000"


async def test_the_callers_context_is_visible() -> None:
    seen: list[tuple[str, bool]] = []
    loop_thread = get_ident()
    token = CALLER.set("me")
    try:
        await answer_of(lambda _: seen.append((CALLER.get(), get_ident() == loop_thread)))
    finally:
        CALLER.reset(token)
    assert seen == [("me", False)]


# Batches.


async def test_a_plain_function_takes_batches_and_answers_some_apart() -> None:
    loop_thread = get_ident()
    seen: list[list[bytes]] = []

    def save(batch: nsq.Batch) -> None:
        assert get_ident() != loop_thread
        seen.append([message.body for message in batch])
        for message in batch:
            message.touch()
        batch[1].requeue(3)

    async with consuming(with_timeout) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, nsq.BatchHandler(save, max_size=3, max_wait=LIMIT))
            ids = await peer.messages(b"a", b"b", b"c")
            await peer.saw(b"FIN " + ids[0], b"REQ %b 3000" % ids[1], b"FIN " + ids[2])
            await peer.saw(*(b"TOUCH " + id for id in ids))
            consumer.stop()
    assert seen == [[b"a", b"b", b"c"]]


async def test_a_plain_function_of_batches_that_returns_an_awaitable_is_refused() -> None:
    def save(_batch: nsq.Batch) -> Awaitable[None]:
        return anyio.lowlevel.checkpoint()

    async with consuming(with_timeout) as (consumer, peer):
        ids = await peer.messages(b"a", b"b")
        with pytest.raises(nsq.InvalidOption, match="returned an awaitable"):
            await consumer.run(nsq.BatchHandler(save, max_size=2, max_wait=LIMIT))
        await peer.saw(*(b"REQ %b 0" % id for id in ids))
