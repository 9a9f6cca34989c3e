# pyright: reportPossiblyUnboundVariable=false
"""A handler that is not async is refused: before its first message where that can be known, else with it."""

import functools
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from unittest.mock import AsyncMock, Mock

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import HandlerFailed, HandlerReturnedFalse

from ..fake_nsqd import LIMIT, Events, consuming

pytestmark = pytest.mark.anyio

HANDLED: list[bytes] = []


async def process(message: nsq.Message) -> None:
    HANDLED.append(message.body)


class Handlers:
    async def __call__(self, message: nsq.Message) -> None:
        await process(message)

    async def method(self, message: nsq.Message) -> None:
        await process(message)

    def plain(self, message: nsq.Message) -> None:
        HANDLED.append(message.body)


class PlainCallable:
    def __call__(self, message: nsq.Message) -> None:
        HANDLED.append(message.body)


class Work:
    """Awaitable, and made by calling its class."""

    def __init__(self, message: nsq.Message) -> None:
        self.message = message

    def __await__(self) -> Iterator[Any]:
        return process(self.message).__await__()


def returns_an_awaitable(message: nsq.Message) -> Awaitable[None]:
    return process(message)


def returns_one_of_two(message: nsq.Message) -> Awaitable[None] | None:
    return process(message) if message.body else None


@functools.wraps(process)
def wrapper(message: nsq.Message) -> Awaitable[None]:
    HANDLED.append(b"wrapped")
    return process(message)


GOOD: dict[str, Callable[[nsq.Message], object]] = {
    "async function": process,
    "async __call__": Handlers(),
    "async method": Handlers().method,
    "partial": functools.partial(process),
    "partial of a partial": functools.partial(functools.partial(process)),
    "function that returns an awaitable": returns_an_awaitable,
    "function that may": returns_one_of_two,
    "wrapper": wrapper,
    "lambda": lambda message: process(message),  # noqa: PLW0108 - not the same
    "class": Work,
    "mock": AsyncMock(side_effect=process),
}


@pytest.mark.parametrize("handler", GOOD.values(), ids=GOOD.keys())
async def test_whatever_returns_an_awaitable_is_a_handler(handler: Any) -> None:
    HANDLED.clear()
    async with consuming() as (consumer, peer), anyio.create_task_group() as tasks:
        tasks.start_soon(consumer.run, handler)
        id = await peer.message(b"one")
        await peer.saw(b"FIN " + id)
        tasks.cancel_scope.cancel()
    assert HANDLED[-1] == b"one"


def plain(message: nsq.Message) -> None:
    HANDLED.append(message.body)


def plain_with_returns(message: nsq.Message) -> bool:
    if message.attempts > 3:
        return False
    HANDLED.append(message.body)
    return True


def generator(message: nsq.Message) -> Any:
    HANDLED.append(message.body)
    yield


async def async_generator(message: nsq.Message) -> Any:
    HANDLED.append(message.body)
    yield


BAD: dict[str, Any] = {
    "plain function": plain,
    "with constants": plain_with_returns,
    "partial": functools.partial(plain),
    "method": Handlers().plain,
    "__call__": PlainCallable(),
    "generator": generator,
    "async generator": async_generator,
    "nothing to call": b"",
    "None": None,
}


@pytest.mark.parametrize("handler", BAD.values(), ids=BAD.keys())
async def test_what_certainly_returns_none_is_refused_before_the_first_message(handler: Any) -> None:
    HANDLED.clear()
    async with consuming() as (consumer, peer):
        await peer.message()
        with anyio.fail_after(LIMIT), pytest.raises(nsq.InvalidOption, match="write `async def"):
            await consumer.run(handler)
        assert consumer.max_in_flight == 1
        assert not HANDLED
        assert not any(line.startswith((b"FIN", b"REQ")) for line in peer.lines)


UNKNOWN: dict[str, Callable[[nsq.Message], object]] = {
    "lambda": lambda message: HANDLED.append(message.body),
    "returns a call": lambda message: len(message.body),
    "builtin": print,
    "class": Mock,
    "mock": Mock(),
}


@pytest.mark.parametrize("handler", UNKNOWN.values(), ids=UNKNOWN.keys())
async def test_what_cannot_be_known_fails_with_its_first_message(handler: Any) -> None:
    events = Events()
    async with consuming(on_event=events, max_in_flight=3) as (consumer, peer):
        ids = await peer.messages(b"a", b"b", b"c")
        with anyio.fail_after(LIMIT), pytest.raises(nsq.InvalidOption, match="nothing to await"):
            await consumer.run(handler)
        await peer.saw(b"REQ %b 0" % ids[0])
        assert consumer.statistics().backoff_level == 0
        assert consumer.in_flight == 2
    assert not events.of(HandlerFailed)


async def test_a_type_error_of_the_handler_is_a_failure_like_any_other() -> None:
    events = Events()

    async def handle(message: nsq.Message) -> None:
        raise TypeError("mine")

    def fail_at_once(message: nsq.Message) -> Awaitable[None]:
        raise TypeError("mine")

    async with consuming(on_event=events, options=nsq.ConsumerOptions(max_backoff_duration=0)) as (
        consumer,
        peer,
    ):
        for handler in (handle, fail_at_once):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(consumer.run, handler)
                id = await peer.message()
                await peer.saw(b"REQ %b 90000" % id)
                tasks.cancel_scope.cancel()
    assert len(events.of(HandlerFailed)) == 2


async def test_false_is_told_once() -> None:
    events = Events()
    ids: list[bytes] = []

    async def handle(message: nsq.Message) -> bool:
        return message.body == b"good"

    async with (
        consuming(on_event=events, max_in_flight=3) as (consumer, peer),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(consumer.run, handle)
        ids += await peer.messages(b"good", b"bad", b"bad")
        await peer.saw(*[b"FIN " + id for id in ids])
        tasks.cancel_scope.cancel()
    (told,) = events.of(HandlerReturnedFalse)
    assert told.message_id == ids[1].decode()
    assert "raise nsq.Requeue()" in str(told)
