"""Messages that came more often than ``max_attempts`` are given up."""

from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import BackoffStarted, GaveUp, HandlerFailed

from ..fake_nsqd import Events, consuming, until

pytestmark = pytest.mark.anyio


async def given_up(on_give_up: Any, *, attempts: int = 101) -> tuple[list[bytes], Events]:
    """The answers to a message that came more often than 20 times max_attempts=5, and the events."""
    events = Events()
    async with consuming(on_give_up=on_give_up, on_event=events, max_in_flight=2) as (consumer, peer):
        id = await peer.message(attempts=attempts)
        await peer.message(b"next")
        async with await anext(consumer) as message:
            assert message.body == b"next"
        await until(lambda: not peer.in_flight)
    return [line.replace(id, b"id") for line in peer.lines if id in line], events


async def test_a_message_that_came_too_often_is_finished_without_being_handled() -> None:
    lines, events = await given_up(None)
    assert lines == [b"FIN id"]
    assert [event.attempts for event in events.of(GaveUp)] == [101]


async def test_the_last_allowed_attempt_is_handled() -> None:
    async with consuming() as (consumer, peer):
        await peer.message(attempts=5)
        async with await anext(consumer) as message:
            assert message.attempts == 5


async def test_without_a_limit_every_attempt_is_handled() -> None:
    async with consuming(options=nsq.ConsumerOptions(max_attempts=0)) as (consumer, peer):
        await peer.message(attempts=65535)
        async with await anext(consumer) as message:
            assert message.attempts == 65535


async def test_a_plain_callback_is_called_before_the_fin() -> None:
    seen: list[bool] = []

    def on_give_up(message: nsq.Message) -> None:
        seen.append(message.responded)

    lines, _ = await given_up(on_give_up)
    assert seen == [False]
    assert lines == [b"FIN id"]


async def test_an_async_callback_is_awaited_before_the_fin() -> None:
    seen: list[bool] = []

    async def on_give_up(message: nsq.Message) -> None:
        await anyio.sleep(0.02)
        seen.append(message.responded)

    lines, _ = await given_up(on_give_up)
    assert seen == [False]
    assert lines == [b"FIN id"]


async def test_a_callback_that_fails_gets_the_message_again() -> None:
    def on_give_up(_message: nsq.Message) -> None:
        raise ValueError("mine")

    lines, events = await given_up(on_give_up)
    assert lines == [b"REQ id 900000"]
    assert [type(event.error) for event in events.of(HandlerFailed)] == [ValueError]
    assert events.of(GaveUp) == []


async def test_a_callback_may_answer_by_itself() -> None:
    def on_give_up(message: nsq.Message) -> None:
        message.requeue(1)

    lines, _ = await given_up(on_give_up)
    assert lines == [b"REQ id 1000"]


async def test_a_callback_that_is_cancelled_hands_the_message_back() -> None:
    async def on_give_up(_message: nsq.Message) -> None:
        await anyio.sleep_forever()

    async with consuming(on_give_up=on_give_up) as (consumer, peer):
        id = await peer.message(attempts=101)
        with anyio.move_on_after(0.02):
            await anext(consumer)
        await peer.saw(b"REQ %b 0" % id)


# After a failed handling.


async def fails_in_run(consumer: nsq.Consumer) -> None:
    async def handler(_message: nsq.Message) -> None:
        consumer.stop()
        raise ValueError("mine")

    await consumer.run(handler)


async def fails_in_a_block(consumer: nsq.Consumer) -> None:
    with pytest.raises(ValueError, match="mine"):
        async with await anext(consumer):
            raise ValueError("mine")


async def fails_in_a_batch(consumer: nsq.Consumer) -> None:
    with pytest.raises(ValueError, match="mine"):
        async with await anext(consumer.batches(1)):
            raise ValueError("mine")


async def asks_in_run(consumer: nsq.Consumer) -> None:
    async def handler(_message: nsq.Message) -> None:
        consumer.stop()
        raise nsq.Requeue(0, backoff=False) from ValueError("mine")

    await consumer.run(handler)


async def requeues(consumer: nsq.Consumer) -> None:
    message = await anext(consumer)
    try:
        raise ValueError("mine")
    except ValueError:
        message.requeue(0)
    assert message.responded
    with pytest.raises(nsq.AlreadyResponded):
        message.finish()


async def requeues_a_batch(consumer: nsq.Consumer) -> None:
    for message in await anext(consumer.batches(1)):
        message.requeue(0)


async def requeues_in_a_thread(consumer: nsq.Consumer) -> None:
    def handler(message: nsq.Message) -> None:
        try:
            raise ValueError("mine")
        except ValueError:
            message.requeue(0)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(consumer.run, handler)
        await until(lambda: consumer.statistics().finished + consumer.statistics().requeued)
        consumer.stop()


FAILING = [
    fails_in_run,
    fails_in_a_block,
    fails_in_a_batch,
    asks_in_run,
    requeues,
    requeues_a_batch,
    requeues_in_a_thread,
]


@pytest.mark.parametrize("attempts", [4, 5, 50])
@pytest.mark.parametrize("failing", FAILING)
async def test_a_failed_handling_is_the_last_from_max_attempts_on(failing: Any, attempts: int) -> None:
    events = Events()
    told: list[bool] = []

    def on_give_up(message: nsq.Message) -> None:
        told.append(message.responded)

    async with consuming(on_give_up=on_give_up, on_event=events) as (consumer, peer):
        id = await peer.message(attempts=attempts)
        await failing(consumer)
    (line,) = (line for line in peer.lines if id in line)  # also if nobody takes messages afterwards
    if attempts < 5:
        assert line.startswith(b"REQ")
        assert (told, events.of(GaveUp)) == ([], [])
        return
    assert line == b"FIN " + id
    assert told == [False]
    (event,) = events.of(GaveUp)
    assert event.error is not None
    cause = event.error.__cause__ if failing is asks_in_run else event.error
    assert isinstance(cause, nsq.Requeue if failing is requeues_a_batch else ValueError)
    assert str(event).endswith(f"of t/c at attempt {attempts}: {event.error!r}")


@pytest.mark.parametrize("backoff", [True, False])
async def test_a_last_attempt_that_fails_slows_the_consumer_down_as_any_failure(backoff: bool) -> None:
    events = Events()
    async with consuming(on_event=events) as (consumer, peer):
        id = await peer.message(attempts=5)
        async with await anext(consumer):
            raise nsq.Requeue(backoff=backoff)
        await peer.saw(b"FIN " + id)
        assert len(events.of(BackoffStarted)) == backoff


@pytest.mark.parametrize("taken", [False, True])
async def test_a_message_that_is_only_handed_back_is_never_given_up(taken: bool) -> None:
    events = Events()
    async with consuming(on_event=events) as (consumer, peer):
        id = await peer.message(attempts=100)
        if taken:
            await anext(consumer)
    assert [line for line in peer.lines if id in line] == [b"REQ %b 0" % id]
    assert events.of(GaveUp) == []


async def test_a_requeue_that_is_no_failure_is_never_the_last() -> None:
    async with consuming() as (consumer, peer):
        id = await peer.message(attempts=100)
        (await anext(consumer)).requeue(0, backoff=False)
        await peer.saw(b"REQ %b 0" % id)


async def test_a_handler_that_is_cancelled_hands_its_last_attempt_back() -> None:
    async def handler(_message: nsq.Message) -> None:
        await anyio.sleep_forever()

    options = nsq.ConsumerOptions(cancelled_drain_timeout=0)
    async with consuming(options=options) as (consumer, peer):
        id = await peer.message(attempts=100)
        with anyio.move_on_after(0.05):
            await consumer.run(handler)
        await peer.saw(b"REQ %b 0" % id)


async def test_a_message_that_waits_to_be_given_up_goes_back_if_that_takes_too_long() -> None:
    async def on_give_up(_message: nsq.Message) -> None:
        await anyio.sleep_forever()

    options = nsq.ConsumerOptions(cancelled_drain_timeout=0.05)
    async with consuming(options=options, on_give_up=on_give_up, max_in_flight=2) as (consumer, peer):
        ids = await peer.messages(b"a", b"b", attempts=5)
        (await anext(consumer)).requeue()
    assert all([line for line in peer.lines if id in line] == [b"REQ %b 0" % id] for id in ids)


@pytest.mark.parametrize(
    ("max_attempts", "max_deliveries", "most"),
    [(5, None, 100), (5, 7, 7), (5, 5, 5), (5, 0, 65535), (0, None, 65535), (0, 9, 9), (4000, None, 65535)],
)
def test_the_bound_of_deliveries(max_attempts: int, max_deliveries: int | None, most: int) -> None:
    options = nsq.ConsumerOptions(max_attempts=max_attempts, max_deliveries=max_deliveries)
    assert options._most_deliveries == most


def test_a_bound_of_deliveries_below_that_of_attempts() -> None:
    with pytest.raises(nsq.InvalidOption, match="max_deliveries=4 is not valid: use 5 or more"):
        nsq.ConsumerOptions(max_deliveries=4)
