"""What each event of a consumer carries: topic, channel, and for a message the seconds since its delivery."""

from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio import events
from nsq_anyio.events import ConnectionEvent, ConsumerEvent, MessageEvent, ResponseFailed

from .. import virtual_time
from ..fake_nsqd import Events, FakeConnection, consuming, until
from .backoff import backing_off, failure, trial

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

OPTIONS = nsq.ConsumerOptions(requeue_delay=0, backoff_on_timeout=False, rdy_redistribute_interval=0.05)


async def impatient(peer: FakeConnection) -> None:
    await peer.subscribe({"msg_timeout": 500})
    await peer.follow()


async def one(handle: Any, kind: type[MessageEvent], after: float, attempts: int = 1) -> MessageEvent:
    """The event of a message whose handler does something 0.2 s after its delivery."""
    told = Events()

    async def handler(message: nsq.Message) -> object:
        await anyio.sleep(0.2)
        return await handle(message)

    async with consuming(impatient, on_event=told, options=OPTIONS, on_give_up=handler) as (consumer, peer):
        id = await peer.message(attempts=attempts)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            await until(lambda: told.of(kind), limit=10)
            tasks.cancel_scope.cancel()
    event: MessageEvent = told.of(kind)[0]
    assert (event.topic, event.channel, event.message_id) == ("t", "c", id.decode())
    assert event.attempts == attempts
    assert event.seconds == pytest.approx(after, abs=0.1)
    for other in told:
        if isinstance(other, ConsumerEvent | ConnectionEvent):
            assert (other.topic, other.channel) == ("t", "c"), other
    return event


async def nothing(_: nsq.Message) -> None: ...


async def false(_: nsq.Message) -> bool:
    return False


async def touch(message: nsq.Message) -> None:
    message.touch()


async def hang(_: nsq.Message) -> None:
    await anyio.sleep_forever()


async def fail(_: nsq.Message) -> None:
    raise ValueError("mine")


async def requeue(_: nsq.Message) -> None:
    raise nsq.Requeue(5, reason="mine")


async def discard(_: nsq.Message) -> None:
    raise nsq.Discard("mine")


@pytest.mark.parametrize(
    ("handle", "kind", "after", "attempts", "text"),
    [
        (nothing, events.MessageFinished, 0.2, 1, ""),
        (fail, events.MessageRequeued, 0.2, 2, "of t/c, attempt 2, requeued in 0 s"),
        (requeue, events.MessageRequeued, 0.2, 2, "of t/c, attempt 2, requeued in 5 s: mine"),
        (fail, events.HandlerFailed, 0.2, 2, "of t/c, attempt 2: ValueError"),
        (discard, events.MessageDiscarded, 0.2, 1, "of t/c discarded: mine"),
        (touch, events.MessageTouched, 0.2, 1, ""),
        (hang, events.MessageTimedOut, 0.5, 1, "of t/c timed out at attempt 1, after 0.5 s"),
        (nothing, events.GaveUp, 0.2, 101, "of t/c at attempt 101: delivered more than max_deliveries times"),
        (false, events.HandlerReturnedFalse, 0.2, 1, "the handler of t/c returned False"),
    ],
)
async def test_events_of_messages(
    handle: Any, kind: type[MessageEvent], after: float, attempts: int, text: str
) -> None:
    assert text in str(await one(handle, kind, after, attempts))


async def test_a_refused_answer_tells_the_seconds_while_the_message_is_known() -> None:
    told = Events()
    async with consuming(on_event=told) as (consumer, peer):
        id = await peer.message()
        message = await anext(consumer)
        await anyio.sleep(0.3)
        message.touch()
        await peer.error(b"E_TOUCH_FAILED TOUCH %b failed ID not in flight" % id)
        await until(lambda: told.of(ResponseFailed))
        message.finish()
        await peer.error(b"E_FIN_FAILED FIN %b failed ID not in flight" % id)
        await until(lambda: len(told.of(ResponseFailed)) == 2)
    touched, finished = told.of(ResponseFailed)
    assert (touched.topic, touched.channel) == ("t", "c")
    assert touched.seconds == pytest.approx(0.3, abs=0.1)
    assert finished.seconds is None
    assert f"message {id.decode()} of t/c" in str(finished)


async def test_backoff_names_topic_and_channel() -> None:
    told = Events()
    async with consuming(on_event=told, options=backing_off()) as (consumer, peer):
        await failure(consumer, peer)
        (await trial(consumer, [peer])).finish()
        await until(lambda: told.of(events.BackoffEnded), limit=10)
    assert str(told.of(events.BackoffStarted)[0]).startswith("t/c: backing off for")
    assert str(told.of(events.BackoffEnded)[0]) == "t/c: backoff is over"
