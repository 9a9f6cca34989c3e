"""Publishes dead letters, and cuts the description of the error from those that are too large for nsqd.

nsqd names its --max-msg-size only when it refuses a larger message, and then closes the connection. So the
limit is learned from the first refusal, and observed from then on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Awaitable, Callable

from ..errors import InvalidBody, PublishRejected
from .dead_letter_headers import cut_to, sealed_size

_REFUSAL = re.compile(r"message too big \d+ > (\d{1,19})", re.ASCII)


class LetterSize:
    """The size of the largest message that nsqd accepts, if known; with several nsqds, the smallest."""

    def __init__(self) -> None:
        self._limit: float = math.inf

    async def publish(
        self,
        payload: bytes,
        headers: dict[str, str],
        publish: Callable[[dict[str, str]], Awaitable[object]],
    ) -> None:
        """Publish a dead letter, with as much of its description of the error as there is room for.

        :param publish: publishes the payload with the headers that it is given
        :raises InvalidBody: if there is no room even without the error
        :raises NSQError: as `Producer.publish` does
        """
        limit = self._limit
        while True:
            chosen = headers if limit == math.inf else cut_to(limit, payload, headers)
            try:
                await publish(chosen)
            except (InvalidBody, PublishRejected) as refusal:
                if isinstance(refusal, PublishRejected) and refusal.code != "E_BAD_MESSAGE":
                    raise
                size = sealed_size(payload, chosen)
                smallest = sealed_size(payload, cut_to(0, payload, headers))
                if size <= smallest:
                    raise InvalidBody(
                        f"the dead letter has {size} bytes even without the error, which is too large: raise "
                        f"the producer's max_msg_size and nsqd's --max-msg-size ({refusal})"
                    ) from refusal
                limit = self._learn(refusal, size, smallest)
            else:
                return

    def _learn(self, refusal: InvalidBody | PublishRejected, size: int, smallest: int) -> float:
        """Return the size limit for the next attempt, which is always lower than ``size``."""
        named = _REFUSAL.search(str(refusal))
        if named and int(named[1]) < size:
            self._limit = min(self._limit, int(named[1]))
            return self._limit
        return smallest + (size - smallest) // 2
