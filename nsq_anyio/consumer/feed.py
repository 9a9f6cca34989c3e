"""Takes messages for a facade that hands them to other threads."""

from __future__ import annotations

from collections.abc import Callable

from ..events import Emitter
from .inbox import Inbox
from .message import Message
from .wrapping import Wrapping


class Feed:
    """Takes messages many at a time. Made by `Consumer.feed`.

    :param offer: raises ``max_in_flight`` to what the takers can use, unless the user has set it
    :ivar emit: reports what happens to a message
    :ivar wrapping: the consumer's middleware; None if there is none
    """

    def __init__(
        self, inbox: Inbox, offer: Callable[[int], None], emit: Emitter, wrapping: Wrapping | None
    ) -> None:
        self.emit: Emitter = emit
        self.wrapping: Wrapping | None = wrapping
        self.offer: Callable[[int], None] = offer
        self._inbox = inbox

    async def take(self, most: int) -> list[Message]:
        """Wait for a message, and take it with up to ``most - 1`` others that are waiting.

        :raises StopAsyncIteration: once the consumer is stopped
        """
        first = await self._inbox.take()
        return [first, *self._inbox.take_ready(most - 1)]

    def take_ready(self, most: int) -> list[Message]:
        """Take up to ``most`` messages that are waiting."""
        return self._inbox.take_ready(most)
