"""Messages that came more often than ``max_attempts`` are given up."""

from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import GaveUp, HandlerFailed

from ..fake_nsqd import Events, consuming, until

pytestmark = pytest.mark.anyio


async def given_up(on_give_up: Any, *, attempts: int = 6) -> tuple[list[bytes], Events]:
    """The answers to a message that came more often than max_attempts=5, and the events."""
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
    assert [event.attempts for event in events.of(GaveUp)] == [6]


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
    assert lines == [b"REQ id 540000"]
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
        id = await peer.message(attempts=6)
        with anyio.move_on_after(0.02):
            await anext(consumer)
        await peer.saw(b"REQ %b 0" % id)
