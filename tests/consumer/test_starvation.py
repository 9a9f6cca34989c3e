"""A consumer warns of messages that nobody answers, while somebody waits for the next one."""

import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.dead_letters import ChannelScan
from nsq_anyio.events import Starved

from .. import virtual_time
from ..fake_nsqd import Events, FakeConnection, consuming

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

SILENT = nsq.ConnectionOptions(heartbeat_interval=600)  # longer than any of these tests

Taker = Callable[[nsq.Consumer], Coroutine[Any, Any, None]]


async def iterates(consumer: nsq.Consumer) -> None:
    async for message in consumer:
        assert not message.responded


async def takes_with_a_timeout(consumer: nsq.Consumer) -> None:
    while True:
        with anyio.move_on_after(0.7):
            await anext(consumer)


async def gathers(consumer: nsq.Consumer) -> None:
    async for batch in consumer.batches(10):
        assert not batch[0].responded


async def handles(consumer: nsq.Consumer) -> None:
    async def hang(_: nsq.Message) -> None:
        await anyio.sleep(30)

    await consumer.run(hang, concurrency=3)


async def patient(peer: FakeConnection) -> None:
    await peer.subscribe({"msg_timeout": 600_000})
    await peer.follow()


async def told(take: Taker, seconds: float, *, messages: int = 2, max_in_flight: int | None = 2) -> Events:
    """What a consumer tells within so many seconds after it has got its messages."""
    events = Events()
    arguments = {"max_in_flight": max_in_flight, "connection": SILENT}
    async with consuming(patient, on_event=events, **arguments) as (consumer, peer):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take, consumer)
            await peer.offer(*[b"body"] * messages)
            await anyio.sleep(seconds)
            tasks.cancel_scope.cancel()
    return events


@pytest.mark.parametrize("take", [iterates, takes_with_a_timeout, gathers, handles])
async def test_whoever_waits_while_all_of_max_in_flight_is_unanswered_is_warned(
    take: Taker, caplog: pytest.LogCaptureFixture
) -> None:
    events = await told(take, 5)
    assert not events.of(Starved)
    events = await told(take, 7.5)
    (starved,) = events.of(Starved)
    assert (starved.topic, starved.channel, starved.unanswered) == ("t", "c", 2)
    assert 5 <= starved.seconds <= 7
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (record.name, record.levelname) == ("nsq_anyio.consumer", "WARNING")
    assert record.getMessage() == (
        "t/c: a task waits for a message, but 2 messages are unanswered, the last for "
        f"{starved.seconds:.1f} s, and max_in_flight allows no more: answer each one (`async with message:`, "
        "finish() or requeue()); to work on more at a time, raise max_in_flight"
    )


async def test_the_default_of_an_iteration_is_one() -> None:
    (starved,) = (await told(iterates, 7.5, messages=1, max_in_flight=None)).of(Starved)
    assert "but 1 message is unanswered" in str(starved)


async def test_what_lasts_is_reported_ever_more_seldom() -> None:
    seconds = [round(event.seconds) for event in (await told(iterates, 180)).of(Starved)]
    assert seconds == [6, 11, 21, 41, 81, 161]


async def test_no_warning_while_more_may_come() -> None:
    assert not (await told(iterates, 60, messages=1)).of(Starved)


async def test_no_warning_of_handlers_that_take_long() -> None:
    async def handle(consumer: nsq.Consumer) -> None:
        async def hang(_: nsq.Message) -> None:
            await anyio.sleep(50)

        await consumer.run(hang, concurrency=2)

    for max_in_flight in (None, 2):
        assert not (await told(handle, 60, max_in_flight=max_in_flight)).of(Starved)


async def test_no_warning_of_messages_that_are_answered_in_time() -> None:
    async def answer_later(consumer: nsq.Consumer) -> None:
        async def answer(message: nsq.Message) -> None:
            async with message:
                await anyio.sleep(4)

        async with anyio.create_task_group() as tasks:
            async for message in consumer:
                tasks.start_soon(answer, message)

    assert not (await told(answer_later, 60, messages=40)).of(Starved)


async def test_no_warning_of_a_block_that_takes_long_before_it_asks_again() -> None:
    async def work(consumer: nsq.Consumer) -> None:
        held = [await anext(consumer) for _ in range(2)]
        for _ in range(10):
            await anyio.sleep(6)
            with suppress(TimeoutError), anyio.fail_after(2):
                await anext(consumer)
        assert not held[0].responded

    assert not (await told(work, 70)).of(Starved)


async def test_no_warning_while_the_user_has_asked_for_none() -> None:
    async def pauses(consumer: nsq.Consumer) -> None:
        await anext(consumer)
        consumer.max_in_flight = 0
        await anext(consumer)

    assert not (await told(pauses, 60, messages=1)).of(Starved)


async def test_no_warning_of_a_walk_which_holds_all_that_it_has_visited(
    caplog: pytest.LogCaptureFixture,
) -> None:
    visited: list[nsq.Message] = []

    async def visit(messages: Sequence[nsq.Message]) -> None:
        visited.extend(messages)

    async with nsq.embedded.nsqd() as nsqd:
        async with nsq.produce(nsqd=nsqd.tcp_address) as producer:
            await producer.publish_many("t", [b"a", b"b"])
        walk = ChannelScan("t", "c", nsqd=[nsqd.tcp_address], max_in_flight=2, wait=20)
        await walk.run(visit, anyio.Event())
    assert len(visited) == 2
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []
