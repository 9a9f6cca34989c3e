"""What is made of a view is made once, however many ask for it."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")


class PerView(Generic[T]):
    """Keeps what was made of the latest view.

    :param weigh: returns how much one takes, in a unit of one's own
    :param most: how much is kept, in that unit; what was asked for longest ago is dropped first
    """

    def __init__(self, weigh: Callable[[T], int], most: int) -> None:
        self._weigh = weigh
        self._most = most
        self._number = -1
        self._made: OrderedDict[Hashable, tuple[T]] = OrderedDict()
        self._weight = 0
        self._making: dict[Hashable, anyio.Event] = {}

    async def get(self, number: int, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """Return what ``make`` returns, which is called only if nobody has asked before.

        Those who ask while it is being made wait for it. If that fails, or its caller is cancelled, the next
        one makes it.

        :param number: of the view; what was made of others is dropped when it is higher
        :param key: what the result depends on beside the view
        """
        place = number, key
        while (known := self._made.get(place)) is None:
            if (running := self._making.get(place)) is not None:
                await running.wait()
                continue
            ended = self._making[place] = anyio.Event()
            try:
                made = await make()
            finally:
                del self._making[place]
                ended.set()
            self._keep(number, place, made)
            return made
        self._made.move_to_end(place)
        return known[0]

    def _keep(self, number: int, place: Hashable, made: T) -> None:
        if number > self._number:
            self._number = number
            self._made.clear()
            self._weight = 0
        weight = self._weigh(made)
        if number < self._number or weight > self._most:
            return
        self._made[place] = (made,)
        self._weight += weight
        while self._weight > self._most:
            _, (dropped,) = self._made.popitem(last=False)
            self._weight -= self._weigh(dropped)


class Worker:
    """Runs functions in worker threads.

    :param charge: called, in the event loop, with the CPU seconds of each call
    """

    def __init__(self, charge: Callable[[float], None]) -> None:
        self._charge = charge

    async def run(self, function: Callable[..., T], *arguments: object) -> T:
        """Return what a function returns."""

        def timed() -> tuple[T, float]:
            began = time.thread_time()
            result = function(*arguments)
            return result, time.thread_time() - began

        result, seconds = await anyio.to_thread.run_sync(timed)
        self._charge(seconds)
        return result
