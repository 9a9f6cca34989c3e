"""Reads the messages that wait in one nsqd, and gives all of them back."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio

from ..consumer import Message
from ..errors import ConnectionLost, NSQError
from .bounded_reader import bounded_reader
from .options import ReadOptions

__all__ = ["PeekTooLong", "peek"]


class PeekTooLong(NSQError):
    """The peek takes longer than nsqd allows a consumer to hold messages."""


async def peek(options: ReadOptions, nsqd: str, rows: int) -> list[list[Message]]:
    """Return messages in chunks, after giving them back to nsqd.

    All are held until the last was read, and touched meanwhile, so that none is delivered twice.

    :raises PeekTooLong: if it takes longer than nsqd's --max-msg-timeout, after which nsqd delivers held
        messages again
    :raises ConnectionFailed: if there is no connection, or one is lost
    """
    chunks: list[list[Message]] = []
    async with AsyncExitStack() as connections:
        while rows:
            # A connection can hold no more messages than it may have in flight.
            some = min(rows, options.max_in_flight)
            reader = await connections.enter_async_context(bounded_reader(options, nsqd, some))
            taken = 0
            while chunk := await reader.take():
                chunks.append(chunk)
                taken += len(chunk)
                _check_held(chunks[0][0])
            if not taken:
                break  # other consumers have taken the rest
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
            f"peek=true holds the messages that it reads, and nsqd {message.nsqd} allows that for at most "
            "its --max-msg-timeout, then delivers them again: lower maxRows, or read into a spoolDir"
        )
    raise ConnectionLost(
        message.nsqd, "messages that peek=true held were lost with the connection or timed out: try again"
    )
