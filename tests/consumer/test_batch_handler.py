# pyright: reportPossiblyUnboundVariable=false
"""`BatchHandler`: `Consumer.run` with a function that takes several messages at a time."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, cast

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import HandlerFailed, HandlerReturnedFalse, MessageDiscarded

from .. import virtual_time
from ..fake_nsqd import Events, FakeConnection, consuming, until

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

LONG = 60.0
MSG_TIMEOUT = 3.0
PATIENT = nsq.ConsumerOptions(max_attempts=0, requeue_delay=0.0, max_backoff_duration=0)

VARIABLE: ContextVar[bytes] = ContextVar("VARIABLE", default=b"")


async def impatient(peer: FakeConnection) -> None:
    await peer.subscribe({"msg_timeout": round(MSG_TIMEOUT * 1000), "max_msg_timeout": 60_000})
    await peer.follow()


def bodies(batch: nsq.Batch) -> list[bytes]:
    return [message.body for message in batch]


class Noting:
    """Notes its batches, and goes on until it is released."""

    def __init__(self) -> None:
        self.begun: list[list[bytes]] = []
        self.cancelled_at = 0.0
        self.released = anyio.Event()

    async def __call__(self, batch: nsq.Batch) -> None:
        self.begun.append(bodies(batch))
        try:
            await self.released.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled_at = anyio.current_time()
            raise


@asynccontextmanager
async def running(
    consumer: nsq.Consumer,
    peer: FakeConnection,
    function: Callable[[nsq.Batch], Awaitable[object] | object],
    max_size: int = 3,
    max_wait: float = LONG,
    *,
    concurrency: int = 1,
    keep_alive: bool = False,
) -> AsyncGenerator[None]:
    """`Consumer.run` for the length of the block, once nsqd may send messages for all handlers."""
    async with anyio.create_task_group() as tasks:
        handler = nsq.BatchHandler(function, max_size, max_wait)
        tasks.start_soon(partial(consumer.run, handler, concurrency=concurrency, keep_alive=keep_alive))
        await peer.saw(b"RDY %d" % (max_size * concurrency))
        yield
        consumer.stop()


async def test_batches_are_full_while_messages_abound_and_so_many_are_handled_at_once() -> None:
    handle = Noting()
    async with consuming() as (consumer, peer):
        async with running(consumer, peer, handle, concurrency=2):
            await peer.offer(*[b"%d" % n for n in range(9)])
            await until(lambda: len(handle.begun) == 2)
            assert handle.begun == [[b"0", b"1", b"2"], [b"3", b"4", b"5"]]
            handle.released.set()
            await until(lambda: consumer.statistics().finished == 9)
            assert handle.begun[2] == [b"6", b"7", b"8"]


async def test_a_batch_ends_max_wait_after_its_first_message_whatever_the_concurrency() -> None:
    handle = Noting()
    handle.released.set()
    async with consuming() as (consumer, peer):
        async with running(consumer, peer, handle, max_size=50, max_wait=5, concurrency=3):
            await peer.message(b"a")
            await anyio.sleep(4)
            await peer.message(b"b")
            assert handle.begun == []
            await until(lambda: handle.begun)
            assert handle.begun == [[b"a", b"b"]]


# What becomes of the messages.


async def test_one_bad_message_is_answered_apart_from_the_good_ones() -> None:
    events = Events()

    async def handle(batch: nsq.Batch) -> None:
        for message in batch:
            if message.body == b"bad":
                async with message:
                    raise nsq.Discard("not good")
            if message.body == b"later":
                message.requeue(5)

    async with consuming(on_event=events) as (consumer, peer):
        async with running(consumer, peer, handle):
            good, bad, later = await peer.messages(b"good", b"bad", b"later")
            await peer.saw(b"FIN " + good, b"FIN " + bad, b"REQ %b 5000" % later)
    assert [event.message_id.encode() for event in events.of(MessageDiscarded)] == [bad]
    assert not events.of(HandlerFailed)


async def test_a_failure_requeues_all_that_are_unanswered_and_is_one_event() -> None:
    events = Events()
    error = ValueError("no luck")

    async def handle(batch: nsq.Batch) -> None:
        batch[1].finish()
        raise error

    async with consuming(on_event=events, options=PATIENT) as (consumer, peer):
        async with running(consumer, peer, handle):
            ids = await peer.messages(b"a", b"b", b"c")
            await peer.saw(b"REQ %b 0" % ids[0], b"FIN " + ids[1], b"REQ %b 0" % ids[2])
            statistics = consumer.statistics()
            assert (statistics.finished, statistics.requeued) == (1, 2)
    (failed,) = events.of(HandlerFailed)
    assert failed.error is error
    assert (failed.message_id.encode(), failed.messages) == (ids[0], 3)
    assert "failed on 3 messages, the first of which is message " in str(failed)


@pytest.mark.parametrize(
    ("error", "answer"), [(nsq.Requeue(delay=2), b"REQ %b 2000"), (nsq.Discard("bad"), b"FIN %b")], ids=repr
)
async def test_what_it_asks_for_applies_to_all(error: Exception, answer: bytes) -> None:
    events = Events()

    async def handle(batch: nsq.Batch) -> None:
        raise error

    async with consuming(on_event=events) as (consumer, peer):
        async with running(consumer, peer, handle):
            ids = await peer.messages(b"a", b"b", b"c")
            await peer.saw(*(answer % id for id in ids))
    assert not events.of(HandlerFailed)


async def test_a_message_that_a_failure_would_give_up_comes_alone() -> None:
    handle = Noting()
    handle.released.set()
    async with consuming(options=nsq.ConsumerOptions(max_attempts=2)) as (consumer, peer):
        async with running(consumer, peer, handle, max_wait=1):
            await peer.messages(b"a", b"b")
            await peer.message(b"last", attempts=2)
            await until(lambda: len(handle.begun) == 2)
    assert handle.begun == [[b"a", b"b"], [b"last"]]


async def test_false_is_reported() -> None:
    events = Events()

    async def handle(_batch: nsq.Batch) -> bool:
        return False

    async with consuming(on_event=events) as (consumer, peer):
        async with running(consumer, peer, handle):
            ids = await peer.messages(b"a", b"b", b"c")
            await peer.saw(*(b"FIN " + id for id in ids))
    assert len(events.of(HandlerReturnedFalse)) == 1


async def test_middleware_wraps_each_batch_once_and_each_batch_has_its_own_context() -> None:
    wrapped: list[list[bytes]] = []
    seen: list[bytes] = []

    @asynccontextmanager
    async def note(handling: nsq.Handling) -> AsyncGenerator[None]:
        seen.append(VARIABLE.get())
        VARIABLE.set(handling.messages[0].body)
        yield
        wrapped.append([message.body for message in handling.messages])

    async def handle(batch: nsq.Batch) -> None:
        seen.append(VARIABLE.get())
        async with batch[0]:
            pass

    async with consuming(middleware=[note]) as (consumer, peer):
        async with running(consumer, peer, handle, max_size=2):
            await peer.offer(b"a", b"b", b"c", b"d")
            await until(lambda: consumer.statistics().finished == 4)
    assert wrapped == [[b"a", b"b"], [b"c", b"d"]]
    assert seen == [b"", b"a", b"", b"c"]


# The end.


async def test_stop_lets_a_running_batch_finish_and_hands_back_one_that_is_not_full() -> None:
    handle = Noting()
    async with consuming() as (consumer, peer):
        async with running(consumer, peer, handle, concurrency=2):
            one, two, three, four = await peer.messages(b"1", b"2", b"3", b"4")
            await until(lambda: handle.begun and not consumer.statistics().waiting)
            consumer.stop()
            await peer.saw(b"REQ %b 0" % four)
            assert not [line for line in peer.lines if line.startswith(b"FIN")]
            handle.released.set()
            await peer.saw(b"FIN " + one, b"FIN " + two, b"FIN " + three)
    assert handle.begun == [[b"1", b"2", b"3"]]


async def test_the_drain_is_bounded() -> None:
    handle = Noting()
    options = nsq.ConsumerOptions(drain_timeout=2)
    async with consuming(options=options) as (consumer, peer):
        async with running(consumer, peer, handle):
            ids = await peer.messages(b"1", b"2", b"3")
            await until(lambda: handle.begun)
            began = anyio.current_time()
        await peer.saw(*(b"REQ %b 0" % id for id in ids))
        assert handle.cancelled_at - began == pytest.approx(2, abs=0.1)


async def test_a_cancelled_run_puts_back_what_it_has_collected() -> None:
    handle = Noting()
    async with consuming() as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, nsq.BatchHandler(handle, 3, LONG))
            await peer.saw(b"RDY 3")
            ids = await peer.messages(b"1", b"2")
            await until(lambda: consumer.in_flight == 2 and not consumer.statistics().waiting)
            tasks.cancel_scope.cancel()
        assert handle.begun == []
        for id in ids:
            async with await anext(consumer) as message:
                assert message.id.encode() == id


# Deadlines.


async def test_it_is_cancelled_when_the_first_unanswered_message_times_out() -> None:
    handle = Noting()

    async def finish_one(batch: nsq.Batch) -> None:
        batch[0].finish()
        await handle(batch)

    async with consuming(impatient) as (consumer, peer):
        async with running(consumer, peer, finish_one, max_wait=LONG):
            await peer.message(b"a")
            await anyio.sleep(0.5)
            second = await peer.message(b"b")
            arrived = anyio.current_time()
            await anyio.sleep(0.5)
            third = await peer.message(b"c")
            await until(lambda: handle.cancelled_at)
            assert handle.cancelled_at - arrived == pytest.approx(MSG_TIMEOUT, abs=0.1)
            await peer.saw(b"REQ %b 0" % third)
            assert consumer.statistics().timed_out == 1
            assert b"REQ %b 0" % second not in peer.lines


async def test_it_is_kept_alive() -> None:
    async def handle(_batch: nsq.Batch) -> None:
        await anyio.sleep(2 * MSG_TIMEOUT)

    async with consuming(impatient) as (consumer, peer):
        async with running(consumer, peer, handle, keep_alive=True):
            ids = await peer.messages(b"a", b"b", b"c")
            await peer.saw(*(b"TOUCH " + id for id in ids), *(b"FIN " + id for id in ids))
        assert consumer.statistics().timed_out == 0


# Mistakes.


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((print, 0), "max_size=0 is not valid"),
        ((print, 1, -1), "max_wait=-1 is not valid"),
        ((None, 1), "handler=None is not valid, it is not callable"),
        ((lambda: None, 1), "it takes \\(\\)"),
    ],
)
def test_wrong_values(arguments: tuple[Any, ...], error: str) -> None:
    with pytest.raises(nsq.InvalidOption, match=error):
        nsq.BatchHandler(*arguments)


async def test_no_rate_limits_it() -> None:
    async with consuming() as (consumer, _):
        with pytest.raises(nsq.InvalidOption, match="max_per_second=5 is not valid with a BatchHandler"):
            await consumer.run(nsq.BatchHandler(print, 3), max_per_second=5)


async def test_testing_handle_refuses_it() -> None:
    handler = cast("Any", nsq.BatchHandler(print, 3))
    with pytest.raises(nsq.InvalidOption, match="it is not callable"):
        await nsq.testing.handle(handler, nsq.testing.message(b"1"))
