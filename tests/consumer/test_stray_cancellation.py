"""asyncio's CancelledError of something that was awaited is a failure, not the end of what awaited it."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import Event, HandlerFailed, Subscribed
from nsq_anyio.tasks import is_stray

from ..fake_nsqd import LIMIT, Events, consuming, fake_nsqd, until

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "asyncio+uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


async def await_a_cancelled_task() -> None:
    task = asyncio.ensure_future(asyncio.sleep(60))
    asyncio.get_running_loop().call_soon(task.cancel)
    await task


async def raise_it_with_the_text_of_anyio() -> None:
    """A task that an AnyIO scope has cancelled hands its text on to who awaits it."""
    raise asyncio.CancelledError("Cancelled via cancel scope 7f0000000000")


async def raise_it() -> None:
    raise asyncio.CancelledError


STRAYS = pytest.mark.parametrize(
    "stray",
    [await_a_cancelled_task, raise_it_with_the_text_of_anyio, raise_it],
    ids=lambda stray: stray.__name__,
)
OPTIONS = nsq.ConsumerOptions(requeue_delay=1, max_backoff_duration=0)


@STRAYS
async def test_it_is_a_failed_handler(stray: Callable[[], Awaitable[None]]) -> None:
    events = Events()
    handled: list[bytes] = []

    async def handle(message: nsq.Message) -> None:
        handled.append(message.body)
        if message.body == b"bad":
            await stray()

    async with consuming(options=OPTIONS, on_event=events, max_in_flight=4) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handle)
            bad, good = await peer.messages(b"bad", b"good")
            await peer.saw(b"REQ %b 1000" % bad, b"FIN " + good)
            # ... and again, in a worker that has survived it.
            bad, good = await peer.messages(b"bad", b"good")
            await peer.saw(b"REQ %b 1000" % bad, b"FIN " + good)
            tasks.cancel_scope.cancel()
    assert [type(event.error) for event in events.of(HandlerFailed)] == [asyncio.CancelledError] * 2


async def test_a_handler_that_is_cancelled_with_run_is_no_failure() -> None:
    events = Events()

    async def handle(_message: nsq.Message) -> None:
        await asyncio.ensure_future(asyncio.sleep(60))

    options = nsq.ConsumerOptions(cancelled_drain_timeout=0)
    async with consuming(options=options, on_event=events) as (consumer, peer):
        task = asyncio.ensure_future(consumer.run(handle))
        id = await peer.message()
        await until(lambda: consumer.in_flight and not consumer.statistics().waiting)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await peer.saw(b"REQ %b 0" % id)
    assert not events.of(HandlerFailed)


async def test_run_ends_when_its_own_worker_is_cancelled() -> None:
    async def handle(_message: nsq.Message) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await anyio.sleep(60)

    async with consuming() as (consumer, peer):
        id = await peer.message()
        with anyio.fail_after(LIMIT), pytest.raises(asyncio.CancelledError):
            await consumer.run(handle)
        await peer.saw(b"REQ %b 0" % id)


@STRAYS
async def test_in_a_message_block(stray: Callable[[], Awaitable[None]]) -> None:
    async with consuming(options=OPTIONS) as (consumer, peer):
        id = await peer.message()
        with pytest.raises(asyncio.CancelledError):
            async with await anext(consumer):
                await stray()
        await peer.saw(b"REQ %b 1000" % id)


@STRAYS
async def test_in_keep_alive(stray: Callable[[], Awaitable[None]]) -> None:
    async with consuming(options=OPTIONS) as (consumer, peer):
        id = await peer.message()
        with pytest.raises(asyncio.CancelledError):
            async with await anext(consumer) as message, message.keep_alive():
                await stray()
        await peer.saw(b"REQ %b 1000" % id)


@STRAYS
async def test_in_on_give_up(stray: Callable[[], Awaitable[None]]) -> None:
    events = Events()

    async def on_give_up(_message: nsq.Message) -> None:
        await stray()

    async with consuming(options=OPTIONS, on_give_up=on_give_up, on_event=events, max_in_flight=2) as (
        consumer,
        peer,
    ):
        id = await peer.message(attempts=101)
        next_id = await peer.message(b"next")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, finish)
            await peer.saw(b"REQ %b 101000" % id, b"FIN " + next_id)
            tasks.cancel_scope.cancel()
    assert len(events.of(HandlerFailed)) == 1


async def test_in_batches() -> None:
    async def on_give_up(_message: nsq.Message) -> None:
        await await_a_cancelled_task()

    async with consuming(options=OPTIONS, on_give_up=on_give_up) as (consumer, peer):
        batches = aiter(consumer.batches(2, max_wait=0.01))
        id = await peer.message(attempts=101)
        next_id = await peer.message(b"next")
        assert [message._wire_id for message in await anext(batches)] == [next_id]
        await peer.saw(b"REQ %b 101000" % id)


async def test_in_the_hook() -> None:
    def hook(event: Event) -> None:
        if isinstance(event, Subscribed):
            raise asyncio.CancelledError

    async with consuming(on_event=hook) as (consumer, peer):
        await peer.message()
        async with await anext(consumer):
            pass


async def test_in_the_function_for_the_secret() -> None:
    async def secret() -> str:
        await await_a_cancelled_task()
        return "secret"

    events = Events()
    connection = nsq.ConnectionOptions(auth_secret=secret)
    options = nsq.ConsumerOptions(reconnect_delay=0.01)
    arguments: dict[str, Any] = {"connection": connection, "options": options, "on_event": events}

    async def ask(connection: Any) -> None:
        await connection.identify({"auth_required": True})

    async with fake_nsqd(ask) as nsqd, nsq.consume("t", "c", nsqd=nsqd.address, **arguments):
        await until(lambda: len(events.of(nsq.events.ConnectFailed)) >= 2)
    assert all("auth_secret raised" in str(event) for event in events.of(nsq.events.ConnectFailed))


async def finish(_message: nsq.Message) -> None:
    """A handler that succeeds."""


async def test_what_is_stray() -> None:
    assert is_stray(asyncio.CancelledError())
    assert not is_stray(ValueError())
    assert not is_stray(None)
    with anyio.CancelScope() as scope:  # noqa: ASYNC100 - what counts is that it is cancelled
        scope.cancel()
        assert not is_stray(asyncio.CancelledError())
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    assert not is_stray(asyncio.CancelledError())
    task.uncancel()
    # Python 3.13 takes the request back; before, it is still delivered.
    still_delivered = pytest.raises(asyncio.CancelledError) if sys.version_info < (3, 13) else nullcontext()
    with still_delivered:
        await asyncio.sleep(0)
