"""What the commands that pass messages on have in common."""

from __future__ import annotations

import anyio

from ..consumer import Consumer
from ..consumer.handler import Handler
from .flags.connection import ConsumerFlags

__all__ = ["handle_until", "never_giving_up"]


async def handle_until(stop: anyio.Event, consumer: Consumer, handler: Handler, concurrency: int) -> None:
    """Handle messages until ``stop`` is set, and then finish those that are being handled."""

    async def stop_consumer() -> None:
        await stop.wait()
        consumer.stop()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(stop_consumer)
        await consumer.run(handler, concurrency=concurrency)
        tasks.cancel_scope.cancel()


def never_giving_up(consumer: ConsumerFlags) -> ConsumerFlags:
    """The same, but unless ``--consumer-opt max_attempts`` was given a message is tried until it arrives.

    With the 5 attempts of nsq_to_http and nsq_to_nsq messages are lost when a destination is away for longer;
    and a bound finishes messages that are not in an archive.
    """
    return consumer.preferring(max_attempts=0)
