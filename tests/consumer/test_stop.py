"""`stop` and a cancelled `run`: no more messages start, and those that run may end."""

import anyio
import pytest

import nsq_anyio as nsq

from ..fake_nsqd import (
    LIMIT,
    consuming,
    until,
)

pytestmark = pytest.mark.anyio


# stop()


async def test_after_stop_the_iteration_ends_and_what_was_taken_can_still_be_answered() -> None:
    async with consuming(max_in_flight=3) as (consumer, peer):
        taken, *left = await peer.messages(b"a", b"b", b"c")
        message = await anext(consumer)
        await until(lambda: consumer.statistics().waiting == 2)
        consumer.stop()
        with pytest.raises(StopAsyncIteration):
            await anext(consumer)
        await peer.saw(b"CLS", *(b"REQ %b 0" % id for id in left))
        message.finish()
        await peer.saw(b"FIN " + taken)


async def test_stop_ends_every_iteration_that_waits() -> None:
    async with consuming() as (consumer, _):

        async def take() -> None:
            async for _ in consumer:
                raise AssertionError

        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(take)
                await anyio.wait_all_tasks_blocked()
                consumer.stop()
                consumer.stop()


async def test_after_stop_run_returns_once_its_handlers_have_ended() -> None:
    release = anyio.Event()
    done: list[bytes] = []
    first = second = b""

    async def handler(message: nsq.Message) -> None:
        await release.wait()
        done.append(message.body)

    async with consuming(max_in_flight=4) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: consumer.run(handler, concurrency=2))
            first, second, *left = await peer.messages(b"a", b"b", b"c", b"d")
            await until(lambda: consumer.statistics().waiting == 2)
            consumer.stop()
            await peer.saw(*(b"REQ %b 0" % id for id in left))
            assert done == []
            release.set()
        assert sorted(done) == [b"a", b"b"]
        await peer.saw(b"FIN " + first, b"FIN " + second)


async def test_after_stop_a_handler_has_drain_timeout_to_end() -> None:
    async def handler(_message: nsq.Message) -> None:
        await anyio.sleep_forever()

    id = b""
    stopped = 0.0
    async with consuming(options=nsq.ConsumerOptions(drain_timeout=0.05)) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            id = await peer.message()
            await until(lambda: consumer.in_flight == 1 and not consumer.statistics().waiting)
            consumer.stop()
            stopped = anyio.current_time()
        assert 0.04 <= anyio.current_time() - stopped < 2
        await peer.saw(b"REQ %b 0" % id)


# run() cancelled


async def test_run_that_is_cancelled_lets_its_handlers_end_and_starts_no_more() -> None:
    started: list[bytes] = []

    async def handler(message: nsq.Message) -> None:
        started.append(message.body)
        await anyio.sleep(0.03)

    async with consuming(max_in_flight=3) as (consumer, peer):
        id, *_ = await peer.messages(b"a", b"b", b"c")
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consumer.run, handler)
                await until(lambda: started)
                scope.cancel()
        assert started == [b"a"]
        await peer.saw(b"FIN " + id)
        assert consumer.statistics().waiting == 2  # for another taker
        assert (await anext(consumer)).body == b"b"


async def test_run_that_is_cancelled_cancels_late_handlers_and_requeues_their_messages() -> None:
    async def handler(_message: nsq.Message) -> None:
        await anyio.sleep_forever()

    cancelled = 0.0
    options = nsq.ConsumerOptions(cancelled_drain_timeout=0.05)
    async with consuming(options=options, max_in_flight=2) as (consumer, peer):
        ids = await peer.messages(b"a", b"b")
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: consumer.run(handler, concurrency=2))
                await until(lambda: consumer.in_flight == 2 and not consumer.statistics().waiting)
                scope.cancel()
                cancelled = anyio.current_time()
        assert 0.04 <= anyio.current_time() - cancelled < 2
        await peer.saw(*(b"REQ %b 0" % id for id in ids))


async def test_cancelled_after_stop_run_gives_its_handlers_the_short_time_only() -> None:
    options = nsq.ConsumerOptions(drain_timeout=60, cancelled_drain_timeout=0.1)
    started = anyio.Event()

    async def handler(_: nsq.Message) -> None:
        started.set()
        await anyio.sleep_forever()

    async with consuming(options=options) as (consumer, peer):
        (id,) = await peer.messages(b"a")
        with anyio.fail_after(LIMIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consumer.run, handler)
                await started.wait()
                consumer.stop()
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
        await peer.saw(b"REQ " + id + b" 0")


async def test_who_waits_for_a_subscription_learns_that_the_block_has_ended() -> None:
    errors: list[nsq.Closed] = []

    async def wait(consumer: nsq.Consumer) -> None:
        try:
            await consumer.ready()
        except nsq.Closed as error:
            errors.append(error)

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            async with nsq.consume("t", "c", nsqd="127.0.0.1:1") as consumer:
                tasks.start_soon(wait, consumer)
                await anyio.wait_all_tasks_blocked()
    assert len(errors) == 1


@pytest.mark.parametrize("stopped_first", [True, False])
async def test_who_waits_for_a_subscription_learns_at_once_that_the_consumer_was_stopped(
    stopped_first: bool,
) -> None:
    """In the open block: nsqd is out of reach, and may be so for long."""
    async with (
        nsq.consume("t", "c", nsqd="127.0.0.1:1") as consumer,
        anyio.create_task_group() as tasks,
    ):
        if stopped_first:
            consumer.stop()
        else:
            tasks.start_soon(stop_soon, consumer)
        with anyio.fail_after(LIMIT), pytest.raises(nsq.Closed, match="stopped"):
            await consumer.ready()


async def stop_soon(consumer: nsq.Consumer) -> None:
    await anyio.wait_all_tasks_blocked()
    consumer.stop()


async def test_a_consumer_that_was_ready_stays_so_for_who_asks_after_stop() -> None:
    async with consuming() as (consumer, _peer):
        consumer.stop()
        with anyio.fail_after(LIMIT):
            await consumer.ready()
