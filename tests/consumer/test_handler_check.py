# pyright: reportPossiblyUnboundVariable=false
"""Async handlers are told from plain ones; what is neither is refused, with its first message at last."""

import functools
import types
from collections.abc import Awaitable, Callable, Iterator
from threading import get_ident
from typing import Any
from unittest.mock import AsyncMock, Mock

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import HandlerFailed, HandlerReturnedFalse

from ..fake_nsqd import LIMIT, Events, consuming

pytestmark = pytest.mark.anyio

HANDLED: list[tuple[bytes, int]] = []
"""Bodies, and the threads that handled them."""


async def process(message: nsq.Message) -> None:
    HANDLED.append((message.body, get_ident()))


class Handlers:
    async def __call__(self, message: nsq.Message) -> None:
        await process(message)

    async def method(self, message: nsq.Message) -> None:
        await process(message)

    def plain(self, message: nsq.Message) -> None:
        plain(message)


class PlainCallable:
    def __call__(self, message: nsq.Message) -> None:
        plain(message)


@functools.wraps(process)
def wrapper(message: nsq.Message) -> Awaitable[None]:
    return process(message)


@types.coroutine
def old_style(message: nsq.Message) -> Any:
    yield from process(message).__await__()


ASYNC: dict[str, Callable[[nsq.Message], object]] = {
    "async function": process,
    "async __call__": Handlers(),
    "async method": Handlers().method,
    "partial": functools.partial(process),
    "partial of a partial": functools.partial(functools.partial(process)),
    "partial of a method": functools.partial(Handlers().method),
    "wrapper": wrapper,
    "types.coroutine": old_style,
    "mock": AsyncMock(side_effect=process),
}


@pytest.mark.parametrize("handler", ASYNC.values(), ids=ASYNC.keys())
async def test_an_async_handler_runs_in_the_event_loop(handler: Any) -> None:
    await handled_by(handler)
    assert HANDLED[-1] == (b"one", get_ident())


def plain(message: nsq.Message) -> bool:
    HANDLED.append((message.body, get_ident()))
    return True


class PlainClass:
    def __init__(self, message: nsq.Message) -> None:
        plain(message)


@functools.wraps(plain)
def plain_wrapper(message: nsq.Message) -> bool:
    return plain(message)


PLAIN: dict[str, Callable[[nsq.Message], object]] = {
    "function": plain,
    "partial": functools.partial(plain),
    "method": Handlers().plain,
    "__call__": PlainCallable(),
    "lambda": lambda message: plain(message),  # noqa: PLW0108 - not the same
    "class": PlainClass,
    "mock": Mock(side_effect=plain),
    "plain wrapper": plain_wrapper,
}


@pytest.mark.parametrize("handler", PLAIN.values(), ids=PLAIN.keys())
async def test_a_plain_handler_runs_in_a_thread(handler: Any) -> None:
    await handled_by(handler)
    assert HANDLED[-1][0] == b"one"
    assert HANDLED[-1][1] != get_ident()


async def handled_by(handler: Any) -> None:
    HANDLED.clear()
    async with consuming() as (consumer, peer), anyio.create_task_group() as tasks:
        tasks.start_soon(consumer.run, handler)
        id = await peer.message(b"one")
        await peer.saw(b"FIN " + id)
        tasks.cancel_scope.cancel()
    assert len(HANDLED) == 1


def generator(message: nsq.Message) -> Any:
    plain(message)
    yield


async def async_generator(message: nsq.Message) -> Any:
    plain(message)
    yield


BAD: dict[str, Any] = {
    "generator": generator,
    "async generator": async_generator,
    "partial": functools.partial(generator),
    "nothing to call": b"",
    "None": None,
}


@pytest.mark.parametrize("handler", BAD.values(), ids=BAD.keys())
async def test_what_is_no_handler_is_refused_before_the_first_message(handler: Any) -> None:
    HANDLED.clear()
    async with consuming() as (consumer, peer):
        await peer.message()
        with anyio.fail_after(LIMIT), pytest.raises(nsq.InvalidOption, match="write `async def"):
            await consumer.run(handler)
        assert consumer.max_in_flight == 1
        assert not HANDLED
        assert not any(line.startswith((b"FIN", b"REQ")) for line in peer.lines)


class Work:
    """Awaitable, and made by calling its class."""

    def __init__(self, message: nsq.Message) -> None:
        self.message = message

    def __await__(self) -> Iterator[Any]:
        return process(self.message).__await__()


@functools.wraps(process)
def wrapper_of_nothing(message: nsq.Message) -> None:
    del message


MISTAKEN: dict[str, tuple[Callable[[nsq.Message], object], str]] = {
    "lambda": (lambda message: process(message), r"returned an awaitable \(coroutine\): write `async def"),  # noqa: PLW0108
    "class": (Work, r"returned an awaitable \(Work\): write `async def"),
    "wrapper of an async function": (wrapper_of_nothing, "wraps an async function, but returned NoneType"),
}


@pytest.mark.parametrize(("handler", "text"), MISTAKEN.values(), ids=MISTAKEN.keys())
async def test_a_mistaken_handler_fails_with_its_first_message(handler: Any, text: str) -> None:
    HANDLED.clear()
    events = Events()
    async with consuming(on_event=events, max_in_flight=3) as (consumer, peer):
        ids = await peer.messages(b"a", b"b", b"c")
        with anyio.fail_after(LIMIT), pytest.raises(nsq.InvalidOption, match=text):
            await consumer.run(handler)
        await peer.saw(b"REQ %b 0" % ids[0])
        assert consumer.statistics().backoff_level == 0
        assert consumer.in_flight == 2
    assert not events.of(HandlerFailed)
    assert not HANDLED


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


def is_good(message: nsq.Message) -> bool:
    return message.body == b"good"


@pytest.mark.parametrize("in_thread", [False, True])
async def test_false_is_told_once(in_thread: bool) -> None:
    events = Events()
    ids: list[bytes] = []

    async def handle(message: nsq.Message) -> bool:
        return is_good(message)

    async with (
        consuming(on_event=events, max_in_flight=3) as (consumer, peer),
        anyio.create_task_group() as tasks,
    ):
        handler: Callable[[nsq.Message], object] = is_good if in_thread else handle
        tasks.start_soon(consumer.run, handler)
        ids += await peer.messages(b"good", b"bad", b"bad")
        await peer.saw(*[b"FIN " + id for id in ids])
        tasks.cancel_scope.cancel()
    (told,) = events.of(HandlerReturnedFalse)
    assert told.message_id == ids[1].decode()
    assert "raise nsq.Requeue()" in str(told)
