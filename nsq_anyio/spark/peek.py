"""A look at what waits in one nsqd: everything goes back."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio

from ..consumer import Message
from ..errors import ConnectionLost, NSQError
from .bounded_reader import bounded_reader
from .options import ReadOptions

__all__ = ["PeekTooLong", "peek"]


class PeekTooLong(NSQError):
    """nsqd does not let messages be held as long as it takes to look at them."""


async def peek(options: ReadOptions, nsqd: str, rows: int) -> list[list[Message]]:
    """Hold all that is looked at, so that none comes twice; then give it back.

    Messages are touched while they are held.

    :raises PeekTooLong: after nsqd's --max-msg-timeout, when it delivers messages again that are held
    :raises ConnectionFailed: if there is no connection, or one is lost
    """
    chunks: list[list[Message]] = []
    async with AsyncExitStack() as connections:
        while rows:
            # Each connection holds what nsqd has in flight to it at most.
            some = min(rows, options.max_in_flight)
            reader = await connections.enter_async_context(bounded_reader(options, nsqd, some))
            taken = 0
            while chunk := await reader.take():
                chunks.append(chunk)
                taken += len(chunk)
                _check_held(chunks[0][0])
            if not taken:
                break  # others have taken the rest
            rows -= taken
        messages = [message for chunk in chunks for message in chunk]
        for message in messages:
            _check_held(message)
        for message in messages:
            message.requeue(0, backoff=False)
    return chunks


def _check_held(message: Message) -> None:
    delivery = message.delivery
    if delivery.delegate.holds(message) and delivery.deadline > anyio.current_time():
        return
    if delivery.hard_deadline <= anyio.current_time():
        raise PeekTooLong(
            f"peek=true holds what it looks at, and nsqd {message.nsqd} allows that no longer than its "
            "--max-msg-timeout, so that rows would come twice: lower maxRows, or read into a spoolDir"
        )
    raise ConnectionLost(
        message.nsqd, "messages that peek=true held were lost with the connection or timed out: try again"
    )
