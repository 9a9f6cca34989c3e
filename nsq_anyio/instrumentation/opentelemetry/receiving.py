"""Iterates over messages or batches, with a span for each step."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable
from typing import Generic, Self, TypeVar

from ...consumer import Batch, Message
from .operation import Start

TakenT = TypeVar("TakenT", bound=Message | Batch)


class Receiving(Generic[TakenT]):
    """Wraps an iterator over messages or batches. Made by `OpenTelemetryMiddleware.receiving`.

    :param received: called with the message or batch, and when the step began
    """

    def __init__(
        self, source: AsyncIterable[TakenT], received: Callable[[Message | Batch, Start], None]
    ) -> None:
        self._source = aiter(source)
        self._received = received

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> TakenT:
        """Wait for the next message or batch. The span begins with the wait, and is created at its end."""
        start = Start()
        taken = await anext(self._source)
        self._received(taken, start)
        return taken
