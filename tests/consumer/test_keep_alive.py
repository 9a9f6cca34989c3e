# pyright: reportPossiblyUnboundVariable=false
"""`Message.keep_alive` touches a message while a block runs, for as long as nsqd allows."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial, wraps
from typing import Any, cast

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import MessageTouched

from .. import virtual_time
from ..fake_nsqd import Events, FakeConnection, consuming, until

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

MSG_TIMEOUT = 0.08
OFTEN = nsq.ConsumerOptions(rdy_redistribute_interval=0.005, requeue_delay=0, reconnect_delay=10)


def nsqd(max_msg_timeout: float = 60) -> Any:
    """The script of an nsqd with these timeouts."""

    async def script(peer: FakeConnection) -> None:
        timeouts = {"msg_timeout": MSG_TIMEOUT, "max_msg_timeout": max_msg_timeout}
        await peer.subscribe({name: round(seconds * 1000) for name, seconds in timeouts.items()})
        await peer.follow()

    return script


def touches(peer: FakeConnection) -> int:
    return sum(line.startswith(b"TOUCH ") for line in peer.lines)


async def test_it_touches_half_way_to_each_deadline() -> None:
    events = Events()
    async with consuming(nsqd(), options=OFTEN, on_event=events) as (consumer, peer):
        id = await peer.message()
        async with await anext(consumer) as message, message.keep_alive() as same:
            assert same is message
            arrived = message.deadline - MSG_TIMEOUT
            await anyio.sleep_until(arrived + 2.5 * MSG_TIMEOUT)
        await peer.saw(b"FIN " + id, b"TOUCH " + id)
        assert consumer.statistics().timed_out == 0
    touched = [event.deadline - MSG_TIMEOUT for event in events.of(MessageTouched)]
    assert touched[0] - arrived >= MSG_TIMEOUT / 2 - 0.002  # uvloop's timers count milliseconds
    gaps = [later - earlier for earlier, later in zip([arrived, *touched], touched, strict=False)]
    assert all(MSG_TIMEOUT / 2 - 0.002 <= gap < MSG_TIMEOUT for gap in gaps)
    assert 3 <= len(touched) <= 5


async def test_a_short_block_needs_no_touch_and_none_follows_it() -> None:
    async with consuming(nsqd(), options=OFTEN) as (consumer, peer):
        await peer.message()
        message = await anext(consumer)
        async with message.keep_alive():
            pass
        await anyio.sleep(MSG_TIMEOUT * 0.75)
        assert touches(peer) == 0


async def test_it_stops_at_max_msg_timeout_and_the_message_times_out() -> None:
    events = Events()
    async with consuming(nsqd(max_msg_timeout=0.15), options=OFTEN, on_event=events) as (consumer, peer):
        await peer.message()
        message = await anext(consumer)
        hard_deadline = message.deadline - MSG_TIMEOUT + 0.15
        async with message.keep_alive():
            await until(lambda: consumer.statistics().timed_out == 1)
            assert anyio.current_time() >= hard_deadline
            sent = touches(peer)
            await anyio.sleep(MSG_TIMEOUT)
            assert touches(peer) == sent
    deadlines = [event.deadline for event in events.of(MessageTouched)]
    assert len(deadlines) >= 2
    assert deadlines[-1] == pytest.approx(hard_deadline)


async def test_a_handler_that_keeps_its_message_alive_is_cancelled_at_max_msg_timeout() -> None:
    cancelled_at = hard_deadline = 0.0

    async def handler(message: nsq.Message) -> None:
        nonlocal cancelled_at, hard_deadline
        hard_deadline = message.deadline - MSG_TIMEOUT + 0.15
        try:
            async with message.keep_alive():
                await anyio.sleep_forever()
        finally:
            cancelled_at = anyio.current_time()

    options = nsq.ConsumerOptions(rdy_redistribute_interval=5)
    async with consuming(nsqd(max_msg_timeout=0.15), options=options) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            await peer.message()
            await until(lambda: cancelled_at)
            consumer.stop()
    assert 0 <= cancelled_at - hard_deadline <= 0.05


async def test_a_handler_may_keep_its_message_alive_until_it_is_done() -> None:
    async def handler(message: nsq.Message) -> None:
        async with message.keep_alive():
            await anyio.sleep(2.5 * MSG_TIMEOUT)

    async with consuming(nsqd(), options=OFTEN) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            id = await peer.message()
            await peer.saw(b"FIN " + id)
            consumer.stop()
        assert consumer.statistics().timed_out == 0


@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "with middleware"])
async def test_run_keeps_messages_alive_while_their_handlers_run(wrapped: bool) -> None:
    @asynccontextmanager
    async def slow(_handling: nsq.Handling) -> AsyncGenerator[None]:
        yield
        await anyio.sleep(1.5 * MSG_TIMEOUT)

    async def handler(_message: nsq.Message) -> None:
        await anyio.sleep(1.5 * MSG_TIMEOUT)

    middleware = [slow] if wrapped else []
    async with consuming(nsqd(), options=OFTEN, middleware=middleware) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(consumer.run, handler, keep_alive=True))
            id = await peer.message()
            await peer.saw(b"FIN " + id)
            sent = touches(peer)
            assert sent >= 2
            await anyio.sleep(MSG_TIMEOUT)
            assert touches(peer) == sent
            consumer.stop()
        assert consumer.statistics().timed_out == 0


async def test_run_that_keeps_messages_alive_refuses_an_invalid_handler() -> None:
    async def handler(message: nsq.Message) -> None: ...

    @wraps(handler)
    def wrapper(_message: nsq.Message) -> int:
        return 1

    async with consuming(nsqd(), options=OFTEN) as (consumer, peer):
        id = await peer.message()
        with pytest.raises(nsq.InvalidOption, match="returned int"):
            await consumer.run(cast("Any", wrapper), keep_alive=True)
        await peer.saw(b"REQ %b 0" % id)
        with pytest.raises(nsq.InvalidOption, match="keep_alive='yes' is not valid: use True or False"):
            await consumer.run(handler, keep_alive=cast("bool", "yes"))


async def test_a_batch_keeps_its_unanswered_messages_alive() -> None:
    async with consuming(nsqd(), options=OFTEN) as (consumer, peer):
        batches = consumer.batches(max_size=3)
        one, two, three = await peer.messages(b"a", b"b", b"c")
        batch = await anext(batches)
        async with batch, batch.keep_alive() as same:
            assert same is batch
            batch[1].finish()
            await anyio.sleep(1.5 * MSG_TIMEOUT)
        await peer.saw(b"TOUCH " + one, b"TOUCH " + three, b"FIN " + one, b"FIN " + two, b"FIN " + three)
        assert b"TOUCH " + two not in peer.lines
        sent = touches(peer)
        await anyio.sleep(MSG_TIMEOUT)
        assert touches(peer) == sent
        assert consumer.statistics().timed_out == 0


@pytest.mark.parametrize("answer", ["finish", "requeue"])
async def test_an_answer_inside_ends_the_touches(answer: str) -> None:
    async with consuming(nsqd(), options=OFTEN) as (consumer, peer):
        await peer.message()
        message = await anext(consumer)
        async with message.keep_alive():
            getattr(message, answer)()
            await anyio.sleep(1.5 * MSG_TIMEOUT)
        assert touches(peer) == 0
        assert consumer.statistics().late == 0


async def test_a_message_that_was_answered_before_is_not_touched() -> None:
    async with consuming(nsqd(), options=OFTEN) as (consumer, peer):
        await peer.message()
        message = await anext(consumer)
        message.finish()
        async with message.keep_alive():
            await anyio.sleep(MSG_TIMEOUT)
        assert touches(peer) == 0


async def test_the_block_goes_on_when_the_connection_is_lost() -> None:
    async with consuming(nsqd(), options=OFTEN) as (consumer, peer):
        await peer.message()
        message = await anext(consumer)
        async with message.keep_alive():
            await until(lambda: touches(peer) == 1)
            await peer.close()
            await until(lambda: not consumer.connections)
            await anyio.sleep(1.5 * MSG_TIMEOUT)
        assert touches(peer) == 1
        assert consumer.statistics().late == 0


async def test_what_the_block_raises_leaves_as_it_is() -> None:
    error = ValueError("mine")
    async with consuming(nsqd(), options=OFTEN) as (consumer, peer):
        id = await peer.message()
        with pytest.raises(ValueError, match="mine") as caught:
            async with await anext(consumer) as message, message.keep_alive():
                raise error
        assert caught.value is error
        await peer.saw(b"REQ %b 0" % id)


async def test_requeue_raised_inside_is_understood() -> None:
    async with consuming(nsqd(), options=OFTEN) as (consumer, peer):
        id = await peer.message()
        async with await anext(consumer) as message, message.keep_alive():
            raise nsq.Requeue(delay=2)
        await peer.saw(b"REQ %b 2000" % id)


async def test_a_cancelled_block_ends_at_once_and_hands_the_message_back() -> None:
    async with consuming(nsqd(), options=OFTEN) as (consumer, peer):
        id = await peer.message()
        with anyio.move_on_after(0.02) as scope:
            async with await anext(consumer) as message, message.keep_alive():
                await anyio.sleep_forever()
        assert scope.cancelled_caught
        await peer.saw(b"REQ %b 0" % id)


async def test_two_messages_are_kept_alive_side_by_side() -> None:
    async with consuming(nsqd(), max_in_flight=2, options=OFTEN) as (consumer, peer):
        one, two = await peer.messages(b"a", b"b")
        first, second = await anext(consumer), await anext(consumer)
        async with first.keep_alive(), second.keep_alive():
            await anyio.sleep(1.5 * MSG_TIMEOUT)
        first.finish()
        second.finish()
        await peer.saw(b"TOUCH " + one, b"TOUCH " + two, b"FIN " + one, b"FIN " + two)
        assert consumer.statistics().timed_out == 0


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), ValueError()], ids=repr)
async def test_what_its_block_raises_leaves_as_it_is(error: BaseException) -> None:
    caught: BaseException | None = None
    async with consuming(nsqd(), options=OFTEN) as (consumer, peer):
        await peer.message()
        message = await anext(consumer)
        try:
            async with message.keep_alive():
                raise error
        except BaseException as raised:
            caught = raised
    assert caught is error
