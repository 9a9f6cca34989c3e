"""A form that is sent twice acts once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable

import anyio

from ...serving.http_messages import Response


class Once:
    """Keeps the responses to forms by the numbers that the forms carry.

    :param most: how many are kept; the oldest are forgotten first
    """

    def __init__(self, most: int = 200) -> None:
        self._most = most
        self._responses: OrderedDict[str, Response] = OrderedDict()
        self._running: dict[str, anyio.Event] = {}

    async def respond(self, number: str, act: Callable[[], Awaitable[Response]]) -> Response:
        """Return the response to the form ``number``, and call ``act`` only for the first one.

        Whoever sends it again meanwhile waits. If ``act`` raises or is cancelled, the next one calls it.

        :param number: empty for a form without a number, for which ``act`` is always called
        """
        if not number:
            return await act()
        while (response := self._responses.get(number)) is None:
            if (running := self._running.get(number)) is not None:
                await running.wait()
                continue
            ended = self._running[number] = anyio.Event()
            try:
                response = self._responses[number] = await act()
            finally:
                del self._running[number]
                ended.set()
            while len(self._responses) > self._most:
                self._responses.popitem(last=False)
            return response
        return response
