# pyright: reportPossiblyUnboundVariable=false
"""Middleware whose handler or block is cut short: at its deadline, by cancellation, by the program's end."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import HandlerFailed, MessageTimedOut
from nsq_anyio.exceptions import leaves

from .. import virtual_time
from ..fake_nsqd import LIMIT, Events, FakeConnection, consuming, until
from ..middleware.noting import Notes

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

SHORT = nsq.ConsumerOptions(cancelled_drain_timeout=0.1, drain_timeout=0.1, rdy_redistribute_interval=5)


async def impatient(peer: FakeConnection) -> None:
    await peer.subscribe({"msg_timeout": 100})
    await peer.follow()


async def sleeping(_: nsq.Message) -> None:
    await anyio.sleep_forever()


async def test_at_the_deadline_the_middleware_is_cleaned_up_and_told_so() -> None:
    notes, events = Notes(), Events()
    middleware = [notes.middleware("a"), notes.middleware("b", cleanup=0.01)]
    async with consuming(impatient, middleware=middleware, options=SHORT, on_event=events) as (
        consumer,
        peer,
    ):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, sleeping)
            await peer.message()
            await until(lambda: len(notes) == 5)
            assert notes == ["+a", "+b", "-b timed_out", "b is clean", "-a timed_out"]
            notes.clear()
            await peer.message()  # the worker goes on
            await until(lambda: len(notes) == 5)
            consumer.stop()
    assert len(events.of(MessageTimedOut)) == 2
    assert events.of(HandlerFailed) == []
    assert not [line for line in peer.lines if line.startswith((b"FIN", b"REQ"))]


async def test_a_cleanup_that_hangs_is_cut_short() -> None:
    notes = Notes()
    middleware = [notes.middleware("a"), notes.middleware("b", cleanup=LIMIT * 10)]
    async with consuming(middleware=middleware, options=SHORT) as (consumer, peer):
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consumer.run, sleeping)
                id = await peer.message()
                await until(lambda: len(notes) == 2)
                tasks.cancel_scope.cancel()
        await peer.saw(b"REQ %b 0" % id)
    assert notes == ["+a", "+b", "-b cancelled", "-a cancelled"]


@pytest.mark.parametrize("batch", [False, True])
@pytest.mark.parametrize("cleanup", [0.01, LIMIT * 10])
async def test_a_cancelled_block_is_cleaned_up_in_bounded_time(batch: bool, cleanup: float) -> None:
    notes = Notes()
    middleware = [notes.middleware("a"), notes.middleware("b", cleanup=cleanup)]
    async with consuming(middleware=middleware, options=SHORT) as (consumer, peer):
        id = await peer.message()
        subject: Any = await anext(consumer.batches(1)) if batch else await anext(consumer)
        with anyio.fail_after(LIMIT), anyio.move_on_after(0.01) as scope:
            async with subject:
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        await peer.saw(b"REQ %b 0" % id)
    clean = ["b is clean"] if cleanup < 1 else []
    assert notes == ["+a", "+b", "-b cancelled", *clean, "-a cancelled"]


async def test_a_cancellation_cannot_be_suppressed() -> None:
    notes = Notes()
    async with consuming(middleware=[notes.middleware("a", suppress=True)], options=SHORT) as (
        consumer,
        peer,
    ):
        id = await peer.message()
        with anyio.fail_after(LIMIT), anyio.move_on_after(0.01) as scope:
            async with await anext(consumer):
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        await peer.saw(b"REQ %b 0" % id)


async def test_a_middleware_may_open_scopes_and_task_groups() -> None:
    @asynccontextmanager
    async def limiting(_: nsq.Handling) -> AsyncGenerator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anyio.sleep, 0.001)
            with anyio.fail_after(0.02):
                yield

    events, notes = Events(), Notes()
    options = nsq.ConsumerOptions(requeue_delay=0)
    middleware = [notes.middleware("a"), limiting, notes.middleware("b")]
    async with consuming(middleware=middleware, options=options, on_event=events) as (consumer, peer):
        id = await peer.message()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, sleeping)
            await peer.saw(b"REQ %b 0" % id)
            consumer.stop()
    assert notes == ["+a", "+b", "-b cancelled", "-a requeued"]
    (failed,) = events.of(HandlerFailed)
    assert "TimeoutError" in repr(failed.error)


async def test_system_exit_in_a_middleware_answers_nothing_before_the_end() -> None:
    notes = Notes()
    middleware = [notes.middleware("a"), notes.middleware("b", leave=SystemExit(3))]
    async with consuming(middleware=middleware, options=SHORT) as (consumer, peer):
        await peer.message()
        with pytest.raises(SystemExit):
            async with await anext(consumer):
                pass
        assert notes == ["+a", "+b", "-b finished", "-a cancelled"]
        assert not [line for line in peer.lines if line.startswith((b"FIN", b"REQ"))]
    assert [line.split()[0] for line in peer.lines if line.startswith((b"CLS", b"REQ"))] == [b"CLS", b"REQ"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_system_exit_in_a_middleware_of_run_ends_the_program(backend: str) -> None:
    notes = Notes()
    middleware = [notes.middleware("a"), notes.middleware("b", leave=SystemExit(3))]
    peers: list[FakeConnection] = []

    async def main() -> None:
        async with consuming(middleware=middleware, options=SHORT) as (consumer, peer):
            peers.append(peer)
            await peer.message()

            async def handler(_: nsq.Message) -> None: ...

            await consumer.run(handler)

    with pytest.raises(BaseException) as raised:
        anyio.run(main, backend=backend)
    assert SystemExit in map(type, leaves(raised.value))
    assert notes == ["+a", "+b", "-b finished", "-a cancelled"]
    assert not [line for line in peers[0].lines if line.startswith(b"FIN")]


@pytest.mark.parametrize("block", [False, True])
async def test_a_handler_that_the_middleware_ends_is_one_that_returns(block: bool) -> None:
    """As with a handler's own `move_on_after`: only who has opened the scope knows that it is not done."""
    outcomes: list[object] = []

    @asynccontextmanager
    async def moving_on(handling: nsq.Handling) -> AsyncGenerator[None]:
        with anyio.move_on_after(0.01):
            yield
        outcomes.append(handling.outcome)

    @asynccontextmanager
    async def requeueing(_: nsq.Handling) -> AsyncGenerator[None]:
        with anyio.move_on_after(0.01) as scope:
            yield
        if scope.cancelled_caught:
            raise nsq.Requeue(60)

    @asynccontextmanager
    async def failing_after(_: nsq.Handling) -> AsyncGenerator[None]:
        with anyio.fail_after(0.01):
            yield

    for middleware, answer in ((moving_on, b"FIN "), (requeueing, b"REQ "), (failing_after, b"REQ ")):
        async with consuming(middleware=[middleware]) as (consumer, peer):
            id = await peer.message()
            if block:
                expected = pytest.raises(TimeoutError) if middleware is failing_after else nullcontext()
                with expected:
                    async with await anext(consumer):
                        await anyio.sleep_forever()
            else:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(consumer.run, sleeping)
                    await until(lambda: not peer.in_flight)
                    consumer.stop()
            await until(lambda: any(line.startswith(answer + id) for line in peer.lines))  # noqa: B023
    assert outcomes == ["cancelled"]  # so the middleware can tell, and raise
