"""Waiting for what must come, and looking at what happened."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

import nsq_anyio as nsq
from nsq_anyio.events import Event

LIMIT = 15.0
"""Seconds until a test gives up waiting: far more than needed, on a busy machine too."""

PROMPT = nsq.ConnectionOptions(output_buffer_timeout=0.025)
"""A real nsqd holds back the last messages for this long, 0.25 s by default."""

T = TypeVar("T")
EventT = TypeVar("EventT", bound=Event)


async def until(condition: Callable[[], T], limit: float = LIMIT) -> T:
    """Return the condition's value once it is true.

    :raises TimeoutError: if it does not become true in ``limit`` seconds
    """

    async def value() -> T:
        return condition()

    return await until_told(value, limit)


async def until_told(ask: Callable[[], Awaitable[T]], limit: float = LIMIT) -> T:
    """`until` for a condition that is asked of a server."""
    with anyio.fail_after(limit):
        while True:
            value = await ask()
            if value:
                return value
            await anyio.sleep(0.005)


async def take(consumer: nsq.Consumer, count: int) -> list[nsq.Message]:
    """Take and finish ``count`` messages.

    :raises TimeoutError: if they do not come
    """
    taken: list[nsq.Message] = []
    with anyio.fail_after(LIMIT):
        while len(taken) < count:
            message = await anext(consumer)
            message.finish()
            taken.append(message)
    return taken


async def consume_now(topic: str, channel: str, nsqd: str | list[str], count: int) -> list[bytes]:
    """The sorted bodies of ``count`` messages that a new consumer gets."""
    async with nsq.consume(topic, channel, nsqd=nsqd, max_in_flight=100, connection=PROMPT) as consumer:
        return sorted(message.body for message in await take(consumer, count))


class Events:
    """A hook that remembers."""

    def __init__(self) -> None:
        self.all: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.all.append(event)

    def of(self, kind: type[EventT]) -> list[EventT]:
        """Those of one kind, in order."""
        return [event for event in self.all if isinstance(event, kind)]

    async def wait_for(self, kind: type[EventT], count: int = 1) -> list[EventT]:
        """Wait until ``count`` of one kind have happened, and return them.

        :raises TimeoutError: if they do not
        """
        await until(lambda: len(self.of(kind)) >= count)
        return self.of(kind)
