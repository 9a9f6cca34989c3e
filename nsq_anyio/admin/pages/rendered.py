"""Each page is rendered once for each view, however many look at it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable

import anyio

__all__ = ["Rendered"]


class Rendered:
    """Keeps what was rendered of the latest view.

    :param most_bytes: how much is kept; the pages that were asked for longest ago are dropped first
    """

    def __init__(self, most_bytes: int = 32 * 1024 * 1024) -> None:
        self._most_bytes = most_bytes
        self._number = -1
        self._bodies: OrderedDict[Hashable, bytes] = OrderedDict()
        self._size = 0
        self._rendering: dict[Hashable, anyio.Event] = {}

    async def get(self, number: int, key: Hashable, render: Callable[[], Awaitable[bytes]]) -> bytes:
        """Return what ``render`` returns, which is called only if nobody has asked before.

        Those who ask while it is being rendered wait for it. If that fails, or its caller is cancelled, the
        next one renders.

        :param number: of the view; what was rendered of others is dropped when it is higher
        :param key: what the body depends on beside the view
        """
        place = number, key
        while (body := self._bodies.get(place)) is None:
            if (running := self._rendering.get(place)) is not None:
                await running.wait()
                continue
            ended = self._rendering[place] = anyio.Event()
            try:
                body = await render()
            finally:
                del self._rendering[place]
                ended.set()
            self._keep(number, place, body)
            return body
        self._bodies.move_to_end(place)
        return body

    def _keep(self, number: int, place: Hashable, body: bytes) -> None:
        if number > self._number:
            self._number = number
            self._bodies.clear()
            self._size = 0
        if number < self._number or len(body) > self._most_bytes:
            return
        self._bodies[place] = body
        self._size += len(body)
        while self._size > self._most_bytes:
            _, dropped = self._bodies.popitem(last=False)
            self._size -= len(dropped)
